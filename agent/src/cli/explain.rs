//! `penstock-agent explain --vip V --key K`: needs no running agent.
use std::{io::Write, net::IpAddr, path::PathBuf};

use anyhow::Context as _;
use penstock_abi::conversation_key;
use penstock_agent::{
    config::Config,
    install::{Explanation, Live},
    subscribe::Store,
};
use penstock_wire::{ServiceEntry, Snapshot, Vip};
use serde_json::json;

use super::{CONFIG, UsageError};

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The agent's file.
    #[arg(long, value_name = "FILE", default_value = CONFIG, conflicts_with = "pin_dir")]
    config: PathBuf,
    /// Folder of the pinned maps, instead of the agent's file.
    #[arg(long, value_name = "FOLDER", requires = "state_dir")]
    pin_dir: Option<PathBuf>,
    /// Folder of the last good snapshot, which names engines and services.
    #[arg(long, value_name = "FOLDER", requires = "pin_dir")]
    state_dir: Option<PathBuf>,
    /// Address of the service, or its id.
    #[arg(long)]
    vip: String,
    /// Port, where several services have the address.
    #[arg(long)]
    port: Option<u16>,
    /// Conversation: 16 hexadecimal digits as they stand in the address, or any id, which is hashed.
    #[arg(long)]
    key: String,
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (pin_dir, state_dir) = match (&self.pin_dir, &self.state_dir) {
            (Some(pins), Some(state)) => (pins.clone(), state.clone()),
            _ => {
                let config = Config::read(&self.config)?;
                (config.data_path.pin_dir, config.state_dir)
            }
        };
        let live = Live::open(&pin_dir)?;
        let store = Store::open(&state_dir).with_context(|| format!("opening {}", state_dir.display()))?;
        let snapshot =
            store.peek().with_context(|| format!("no usable snapshot in {}", state_dir.display()))?;
        let key = conversation_key(&self.key);
        let services: Vec<_> = snapshot.services.iter().filter(|service| self.names(service)).collect();
        if services.is_empty() {
            return Err(UsageError(format!("no service has the address or id {}", self.vip)).into());
        }
        for service in services {
            let explanation = live
                .explain(service.vip, service.port, service.protocol, key)
                .ok_or_else(|| UsageError(format!("service {} is not keyed by address", service.id)))?;
            if self.json {
                writeln!(out, "{}", as_json(service, key, &explanation, &snapshot))?;
            } else {
                print(out, service, key, &explanation, &snapshot)?;
            }
        }
        Ok(())
    }

    fn names(&self, service: &ServiceEntry) -> bool {
        let address = match service.vip {
            Vip::V4(address) => IpAddr::V4(address),
            Vip::V6(address) | Vip::V6Prefix(address) => IpAddr::V6(address),
        };
        let by_address = self.vip.split('/').next().and_then(|text| text.parse::<IpAddr>().ok()).is_some_and(
            |vip| match (vip, service.vip) {
                (IpAddr::V6(vip), Vip::V6Prefix(prefix)) => vip.segments()[..4] == prefix.segments()[..4],
                _ => vip == address,
            },
        );
        (by_address || service.id.as_str() == self.vip) && self.port.is_none_or(|port| port == service.port)
    }
}

fn name(snapshot: &Snapshot, engine: u16) -> String {
    snapshot.engine_id(engine).map_or_else(|| format!("index {engine}"), ToString::to_string)
}

fn print(
    out: &mut dyn Write,
    service: &ServiceEntry,
    key: u64,
    explanation: &Explanation,
    snapshot: &Snapshot,
) -> std::io::Result<()> {
    let goes_to = explanation
        .new_flows
        .map_or_else(|| "another slot's engine: neither takes new flows".to_owned(), |e| name(snapshot, e));
    let takes = if explanation.engine_takes_new_flows { "takes new flows" } else { "takes no new flows" };
    writeln!(out, "service     {} (class {})", service.id, service.class)?;
    writeln!(out, "key         {key:016x}")?;
    writeln!(out, "slot        {} of {}", explanation.slot, explanation.slots)?;
    writeln!(out, "new flows   {goes_to}")?;
    writeln!(out, "engine      {} ({takes})", name(snapshot, explanation.engine))?;
    writeln!(out, "fallback    {}", name(snapshot, explanation.fallback))?;
    match explanation.changed_seconds_ago {
        Some(seconds) => {
            writeln!(out, "changed     {seconds} s ago, from {}", name(snapshot, explanation.origin))?;
        }
        None => writeln!(out, "changed     not lately")?,
    }
    writeln!(out, "epoch       {}", explanation.epoch)
}

fn as_json(
    service: &ServiceEntry,
    key: u64,
    explanation: &Explanation,
    snapshot: &Snapshot,
) -> serde_json::Value {
    json!({
        "service": service.id,
        "class": service.class,
        "key": format!("{key:016x}"),
        "slot": explanation.slot,
        "slots": explanation.slots,
        "new_flows": explanation.new_flows.map(|engine| name(snapshot, engine)),
        "engine": name(snapshot, explanation.engine),
        "engine_takes_new_flows": explanation.engine_takes_new_flows,
        "fallback": name(snapshot, explanation.fallback),
        "origin": name(snapshot, explanation.origin),
        "changed_seconds_ago": explanation.changed_seconds_ago,
        "epoch": explanation.epoch.to_string(),
        "epoch_number": explanation.epoch.0,
    })
}
