//! The loop of the running controller: agents' reports, the clock and questions in, one enum of events.
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_wire::transport::TlsFiles;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::info;

use super::state::State;
use crate::admin::{MetricsServer, QUESTIONS, Question, SocketServer};
use crate::demand::meter::HostReport;
use crate::fleet::Fleet;
use crate::fleet::settings::PolicyName;
use crate::publish::{HostDemand, PublishConfig, Publisher, StartError};
use crate::record::ring::{RecordError, Ring};
use crate::reserve::{Reserve, reserve};
use crate::solve::SolveError;

/// How long a controller without state waits for its agents' tables.
const RECOVERY_WAIT: Duration = Duration::from_secs(5);
/// Folder of the recorded solves, in the state folder.
pub const RECORDS: &str = "records";

/// Why the controller did not run. Agents go on with what they hold.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file describes a fleet for offline solving. Add what is missing.
    #[error("the fleet file lacks {}", missing.join(", "))]
    NotRunnable { missing: Vec<&'static str> },
    #[error("starting to publish")]
    Start(#[from] StartError),
    #[error("waiting for signals")]
    Signals(#[source] std::io::Error),
    /// Another controller runs from this file, or the folder is not writable.
    #[error("listening at {at}")]
    Listen { at: String, source: std::io::Error },
    /// The disk is full, or the folder is not writable. `record_mib = 0` runs without records.
    #[error("opening the record of solves")]
    Record(#[from] RecordError),
}

enum Event {
    Report(HostDemand),
    Question(Question),
    Tick,
    Reserve(Result<Reserve, SolveError>),
    Stop,
}

struct Events {
    reports: mpsc::Receiver<HostDemand>,
    questions: mpsc::Receiver<Question>,
    ticks: Interval,
    /// Solves beside the loop, one job at a time.
    reserve: Option<JoinHandle<Result<Reserve, SolveError>>>,
    stop: Stop,
}

impl Events {
    async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            () = self.stop.asked() => Event::Stop,
            _ = self.ticks.tick() => Event::Tick,
            Some(question) = self.questions.recv() => Event::Question(question),
            Some(found) = finished(&mut self.reserve) => Event::Reserve(found),
            report = self.reports.recv() => report.map_or(Event::Stop, Event::Report),
        }
    }
}

/// What the job found; waits while there is none. `None` if the job panicked, which its own task has said.
async fn finished(
    job: &mut Option<JoinHandle<Result<Reserve, SolveError>>>,
) -> Option<Result<Reserve, SolveError>> {
    let Some(running) = job else { return std::future::pending().await };
    let found = running.await.ok();
    *job = None;
    found
}

/// The signals that ask the process to end.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> std::io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Runs until a signal asks it to stop. `fleet_text` is what `fleet` was read from.
pub async fn run(fleet: Fleet, fleet_text: String, policy: PolicyName, shadow: bool) -> Result<(), RunError> {
    let config = publish_config(&fleet, shadow)?;
    let mut stop = Stop::listen().map_err(RunError::Signals)?;
    let records = open_records(&fleet, &fleet_text)?;
    let (asker, questions) = mpsc::channel(QUESTIONS);
    let admin = Admin::start(&fleet, &asker).await?;
    let mut publisher = tokio::select! {
        started = Publisher::start(config) => started?,
        () = stop.asked() => {
            admin.shutdown().await;
            return Ok(());
        }
    };
    let reports = publisher.take_reports().expect("a new publisher still has its reports");
    let mut ticks = interval(fleet.settings.solve_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    info!(?policy, "controller plans for its fleet");

    let mut events = Events { reports, questions, ticks, reserve: None, stop };
    let mut state = State::new(Arc::new(fleet), fleet_text, policy, publisher, records);
    loop {
        match events.next().await {
            Event::Report(demand) => state.record_demand(&host_report(demand), Instant::now()),
            Event::Question(question) => {
                let answer = state.answer(question.request);
                question.answer(answer);
            }
            Event::Tick => {
                state.tick(Instant::now());
                if let (None, Some((instance, plan))) = (&events.reserve, state.reserve_due()) {
                    events.reserve = Some(spawn_blocking(move || reserve(&instance, &plan)));
                }
            }
            Event::Reserve(found) => state.take_reserve(found),
            Event::Stop => break,
        }
    }
    info!("stopping; agents go on with what they hold");
    if let Some(job) = events.reserve.take() {
        // Its result is of no more use, but no task outlives the loop.
        drop(job.await);
    }
    // Askers that wait get their refusal before the tasks that carry it end.
    drop(events);
    admin.shutdown().await;
    state.shutdown().await;
    Ok(())
}

fn publish_config(fleet: &Fleet, shadow: bool) -> Result<PublishConfig, RunError> {
    let settings = &fleet.settings;
    let lacks = [
        (fleet.engines.is_empty(), "[[engine]]"),
        (fleet.services.is_empty(), "[[service]]"),
        (fleet.hosts.is_empty(), "[[host]]"),
        (settings.tls.is_none(), "controller.tls"),
    ];
    let missing: Vec<&str> = lacks.iter().filter(|(lacks, _)| *lacks).map(|(_, key)| *key).collect();
    match &settings.tls {
        Some(tls) if missing.is_empty() => Ok(PublishConfig {
            listen: settings.listen,
            tls: TlsFiles { ca: tls.ca.clone(), certificate: tls.certificate.clone(), key: tls.key.clone() },
            state_dir: settings.state_dir.clone(),
            table_slots: settings.table_slots,
            hosts: fleet.hosts.iter().map(|host| host.id.clone()).collect(),
            recovery_wait: RECOVERY_WAIT,
            shadow,
        }),
        _ => Err(RunError::NotRunnable { missing }),
    }
}

fn open_records(fleet: &Fleet, fleet_text: &str) -> Result<Option<Ring>, RunError> {
    let settings = &fleet.settings;
    if settings.record_bytes == 0 {
        return Ok(None);
    }
    let folder = settings.state_dir.join(RECORDS);
    Ok(Some(Ring::open(&folder, settings.record_bytes, fleet_text)?))
}

fn host_report(demand: HostDemand) -> HostReport {
    let HostDemand { identity, report } = demand;
    HostReport {
        host: identity.host,
        frontend: identity.frontend,
        window: Duration::from_millis(report.window_ms.into()),
        flows: report.services.into_iter().map(|demand| (demand.service, demand.flows)).collect(),
    }
}

/// The tasks that carry questions.
struct Admin {
    socket: SocketServer,
    metrics: Option<MetricsServer>,
}

impl Admin {
    async fn start(fleet: &Fleet, asker: &mpsc::Sender<Question>) -> Result<Self, RunError> {
        let path: &Path = &fleet.settings.admin_socket;
        let at = || path.display().to_string();
        let socket = SocketServer::start(path, asker.clone())
            .map_err(|source| RunError::Listen { at: at(), source })?;
        let metrics = match fleet.settings.metrics {
            Some(address) => match MetricsServer::start(address, asker.clone()).await {
                Ok(server) => {
                    info!(address = %server.address(), "metrics are served");
                    Some(server)
                }
                Err(source) => {
                    socket.shutdown().await;
                    return Err(RunError::Listen { at: address.to_string(), source });
                }
            },
            None => None,
        };
        Ok(Self { socket, metrics })
    }

    async fn shutdown(self) {
        self.socket.shutdown().await;
        if let Some(metrics) = self.metrics {
            metrics.shutdown().await;
        }
    }
}
