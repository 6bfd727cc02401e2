//! `penstock-agent freeze | pin | nearest | detach | resume`: break-glass, with or without a running agent.
use std::{io::Write, time::SystemTime};

use anyhow::Context as _;
use penstock_agent::{
    admin::{Answer, AskError, Request, ask},
    config::Config,
    datapath::Kernel,
    orders::{Order, Orders, OrdersFile},
    subscribe::Store,
};

use super::ConfigPath;

#[derive(Debug, clap::Args)]
pub(crate) struct Plain {
    #[command(flatten)]
    path: ConfigPath,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pin {
    /// Service whose class goes to one engine; all services of the class go with it.
    service: String,
    engine: String,
    #[command(flatten)]
    path: ConfigPath,
}

impl Plain {
    pub(crate) fn run(&self, order: &Order, out: &mut dyn Write) -> anyhow::Result<()> {
        carry_out(&self.path, order, out)
    }
}

impl Pin {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (service, engine) = (self.service.as_str().into(), self.engine.as_str().into());
        carry_out(&self.path, &Order::Pin { service, engine }, out)
    }
}

fn carry_out(path: &ConfigPath, order: &Order, out: &mut dyn Write) -> anyhow::Result<()> {
    let config = Config::read(&path.config)?;
    let orders = match ask(&config.admin_socket, &Request::Order { order: order.clone() }) {
        Ok(Answer::Orders(orders)) => orders,
        Ok(other) => anyhow::bail!("the agent answers something else: {other:?}"),
        Err(AskError::NotRunning { .. }) => {
            writeln!(out, "the agent is not running: the order is in force from its start")?;
            without_agent(&config, order)?
        }
        Err(error) => return Err(error.into()),
    };
    if orders == Orders::default() {
        writeln!(out, "no orders in force")?;
    }
    for line in orders.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Keeps the order for the next start. Only `detach` needs no agent.
fn without_agent(config: &Config, order: &Order) -> anyhow::Result<Orders> {
    Store::open(&config.state_dir).with_context(|| format!("opening {}", config.state_dir.display()))?;
    let file = OrdersFile::in_folder(&config.state_dir);
    let before = if *order == Order::Resume { Orders::default() } else { file.load()? };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let orders = before.after(order, now);
    file.save(&orders)?;
    if *order == Order::Detach {
        let pins = config.data_path.pin_dir.display();
        Kernel::remove(&config.data_path).with_context(|| format!("removing {pins}"))?;
    }
    Ok(orders)
}
