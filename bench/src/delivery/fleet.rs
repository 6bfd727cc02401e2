//! Many agents in one process: real connections and sessions, no disk and no kernel.
use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use penstock_agent::subscribe::{Line, Uplink, UplinkConfig, UplinkEvent};
use penstock_wire::{
    AgentSession, DemandReport, HostId, HostOrders, ServiceDemand, Step, ToController, canonical,
    transport::CONTROLLER_NAME,
};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::lab::tls_in;

/// Agents that connect at once.
const CONNECTING: usize = 32;
const EVENTS: usize = 4;

/// Host `number`'s id and folder name.
pub fn host_name(number: usize) -> String {
    format!("a-{number}")
}

/// Runs `count` agents with the certificates in `folder` until `stop` is ready.
pub async fn run(
    folder: &Path,
    controller: &str,
    count: usize,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let connecting = Arc::new(Semaphore::new(CONNECTING));
    let mut agents = JoinSet::new();
    for number in 0..count {
        let host = host_name(number);
        let config = UplinkConfig {
            tls: tls_in(&folder.join(&host)),
            host: HostId(host),
            controllers: vec![controller.to_owned()],
            peers: vec![],
            controller_name: CONTROLLER_NAME.to_owned(),
        };
        agents.spawn(agent(config, Arc::clone(&connecting)));
    }
    tokio::select! {
        () = stop => Ok(()),
        ended = agents.join_next() => ended.context("no agents")??,
    }
}

async fn agent(config: UplinkConfig, connecting: Arc<Semaphore>) -> anyhow::Result<()> {
    let host = config.host.clone();
    let (events, mut news) = mpsc::channel(EVENTS);
    let mut permit = Some(connecting.acquire().await?);
    // Without peers, nobody asks whether something is held.
    let (_held, nothing) = watch::channel(None);
    let _uplink = Uplink::start(config, nothing, events);
    let mut session: Option<(AgentSession, Line)> = None;
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let reply = tokio::select! {
            event = news.recv() => match event.context("the connection's task ended")? {
                UplinkEvent::Connected { line, identity, .. } => {
                    let held = session.take().and_then(|(session, _)| session.held().cloned());
                    let started = AgentSession::new(host.clone(), identity.frontend, held, canonical);
                    let hello = started.hello(HostOrders::default());
                    session = Some((started, line));
                    drop(permit.take());
                    Some(hello)
                }
                UplinkEvent::Message(message) => session.as_mut().and_then(|(session, _)| {
                    match session.receive(message)? {
                        Step::Reply(reply) => Some(reply),
                        Step::Install(snapshot) => Some(session.installed(snapshot)),
                    }
                }),
                UplinkEvent::Disconnected { .. } => None,
            },
            _ = ticks.tick() => session.as_ref().filter(|(session, _)| session.held().is_some()).map(|_| demand()),
        };
        if let (Some(reply), Some((_, line))) = (reply, &session) {
            anyhow::ensure!(line.send(reply), "the line to the controller is full");
        }
    }
}

/// What a host with one service reports each second.
fn demand() -> ToController {
    let services = vec![ServiceDemand { service: "chat".into(), flows: 90, refused: 0 }];
    ToController::Demand(DemandReport { window_ms: 1000, services })
}
