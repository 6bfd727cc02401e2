//! One control plane: a controller, and an agent on each frontend host. A testbed may run one after another.
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::signal::Signal;
use penstock_agent::{
    admin::{Answer, Request, Status, ask},
    subscribe::Store,
};
use penstock_controller::fleet::settings::PolicyName;
use penstock_tests::{HarnessError, Process, ProcessId, Run};
use penstock_wire::{ClassId, EngineId, FrontendId, Snapshot};
use serde::Serialize;

use super::{
    addresses::CONTROLLER,
    fleet::Setup,
    fleet_file::{self, CONTROLLER_PORT, Changes, FleetFileError},
    network::{HOST_DEVICES, HostNode},
};

/// A control plane that takes longer to install its first snapshot has failed.
const FIRST_SNAPSHOT: Duration = Duration::from_secs(20);
/// How long a process may take to end on a signal.
const END: Duration = Duration::from_secs(5);

/// Why a control plane did not come up.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error(transparent)]
    FleetFile(#[from] FleetFileError),
    #[error("cannot write the configuration of {name}")]
    Config { name: String, source: toml::ser::Error },
}

/// A running control plane.
#[derive(Debug)]
pub struct Control {
    name: String,
    fleet_file: PathBuf,
    controller_socket: PathBuf,
    policy: PolicyName,
    controller: ProcessId,
    starts: u32,
    pub agents: Vec<AgentNode>,
}

/// The agent of one host.
#[derive(Clone, Debug)]
pub struct AgentNode {
    pub host: HostNode,
    pub process: ProcessId,
    config: PathBuf,
    state_dir: PathBuf,
    socket: PathBuf,
}

/// Where each host's agent has its HTTP door, on its loopback address.
pub const HTTP_PORT: u16 = 8090;

#[derive(Serialize)]
struct AgentFile {
    host: String,
    controllers: Vec<String>,
    device: [&'static str; 2],
    state_dir: PathBuf,
    pin_dir: PathBuf,
    redirect_only: bool,
    max_moved: f64,
    tls: AgentTls,
    http: AgentHttp,
}

/// The HTTP door beside the packet door.
#[derive(Serialize)]
struct AgentHttp {
    workers: usize,
    listen: [HttpListen; 1],
    class: Vec<HttpClass>,
}

#[derive(Serialize)]
struct HttpListen {
    address: String,
}

#[derive(Serialize)]
struct HttpClass {
    id: String,
    models: [String; 1],
}

#[derive(Serialize)]
struct AgentTls {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Control {
    /// Starts the controller with an empty state and the agents without any, and waits until every host routes.
    pub(super) fn start(
        run: &mut Run,
        setup: &Setup,
        name: &str,
        policy: PolicyName,
        ledger: Option<&str>,
    ) -> Result<Self, ControlError> {
        let folder = run.folder().join(name);
        let state_dir = folder.join("controller");
        fs::create_dir_all(&state_dir).map_err(HarnessError::io("make the controller's folder"))?;
        if let Some(ledger) = ledger {
            fs::write(state_dir.join("ledger.json"), ledger).map_err(HarnessError::io("write a ledger"))?;
        }
        let fleet_file = folder.join("fleet.toml");
        let changes = Changes {
            scale: setup.options.scale,
            round_trips: setup.options.round_trips,
            tls: &setup.certificates.controller,
            state_dir: &state_dir,
        };
        let text = fleet_file::running(&setup.fleet_text, changes)?;
        fs::write(&fleet_file, text).map_err(HarnessError::io("write the running fleet's file"))?;
        let mut agents = Vec::new();
        for (host, tls) in setup.network.hosts.iter().zip(&setup.certificates.hosts) {
            agents.push(start_agent(run, setup, host, tls, &folder, name)?);
        }
        let controller = start_controller(run, setup, name, 0, &fleet_file, policy)?;
        let controller_socket = state_dir.join("admin.sock");
        let control = Self {
            name: name.to_owned(),
            fleet_file,
            controller_socket,
            policy,
            controller,
            starts: 0,
            agents,
        };
        let mut needed: Vec<_> = control.agents.iter().map(|agent| agent.process).collect();
        needed.push(controller);
        run.eventually("first snapshot on every host", FIRST_SNAPSHOT, &needed, || {
            control.agents.iter().all(AgentNode::routes).then_some(())
        })?;
        Ok(control)
    }

    /// The running fleet's file.
    pub fn fleet_file(&self) -> &Path {
        &self.fleet_file
    }

    /// Where the controller answers questions.
    pub fn controller_socket(&self) -> &Path {
        &self.controller_socket
    }

    pub fn controller<'r>(&self, run: &'r mut Run) -> &'r mut Process {
        run.process(self.controller)
    }

    /// Ends the controller; the agents go on with what they hold.
    ///
    /// # Errors
    /// It does not end.
    pub fn pause_controller(&mut self, run: &mut Run) -> Result<(), HarnessError> {
        run.process(self.controller).signal(Signal::SIGTERM)?;
        run.process(self.controller).wait_end(END).map(drop)
    }

    /// Starts the controller again, with its state. It measures demand afresh.
    pub(super) fn resume_controller(&mut self, run: &mut Run, setup: &Setup) -> Result<(), HarnessError> {
        self.starts += 1;
        self.controller =
            start_controller(run, setup, &self.name, self.starts, &self.fleet_file, self.policy)?;
        Ok(())
    }

    /// Ends the controller and the agents, and takes the program off every port.
    pub(super) fn stop(self, run: &mut Run, setup: &Setup) -> Result<(), ControlError> {
        let agents = self.agents.iter().map(|agent| agent.process);
        let processes: Vec<_> = agents.chain([self.controller]).collect();
        for process in &processes {
            run.process(*process).signal(Signal::SIGTERM)?;
        }
        for process in processes {
            run.process(process).wait_end(END)?;
        }
        for agent in &self.agents {
            let arguments = ["detach".to_owned(), "--config".to_owned(), agent.config.display().to_string()];
            let name = format!("{}-detach-{}", self.name, agent.host.id);
            run.complete(&name, Some(&agent.host.netns), &setup.binaries.agent, &arguments, END)?;
        }
        Ok(())
    }

    /// Published weights in force by frontend, class and engine.
    pub fn weights(&self) -> BTreeMap<(FrontendId, ClassId), BTreeMap<EngineId, f64>> {
        let mut weights = BTreeMap::new();
        for agent in &self.agents {
            let Some(snapshot) = agent.snapshot() else { continue };
            for table in &snapshot.tables {
                let of_table = table.candidates.iter().filter_map(|candidate| {
                    let engine = snapshot.engine_id(candidate.engine)?.clone();
                    Some((engine, candidate.weight as f64 / 2_f64.powi(32)))
                });
                let key = (snapshot.frontend.clone(), table.class.clone());
                weights.insert(key, of_table.collect());
            }
        }
        weights
    }
}

impl AgentNode {
    /// What the agent says of itself; `None` while it does not listen.
    pub fn status(&self) -> Option<Status> {
        match ask(&self.socket, &Request::Status {}) {
            Ok(Answer::Status(status)) => Some(*status),
            _ => None,
        }
    }

    /// The last snapshot that the agent installed and kept.
    pub fn snapshot(&self) -> Option<Snapshot> {
        Store::open(&self.state_dir).ok()?.peek()
    }

    fn routes(&self) -> bool {
        self.status().is_some_and(|status| status.epoch_number > 0 && status.saved_epoch.is_some())
    }
}

fn start_controller(
    run: &mut Run,
    setup: &Setup,
    name: &str,
    starts: u32,
    fleet_file: &Path,
    policy: PolicyName,
) -> Result<ProcessId, HarnessError> {
    let name = format!("{name}-controller-{starts}");
    let arguments = [
        "run".to_owned(),
        fleet_file.display().to_string(),
        "--policy".to_owned(),
        policy_name(policy).to_owned(),
    ];
    run.spawn(&name, Some(&setup.network.controller), &setup.binaries.controller, &arguments)
}

/// As the command line has it.
pub const fn policy_name(policy: PolicyName) -> &'static str {
    match policy {
        PolicyName::Optimizer => "optimizer",
        PolicyName::Feedback => "feedback",
        PolicyName::Nearest => "nearest",
        PolicyName::RoundRobin => "round-robin",
        PolicyName::LeastLoaded => "least-loaded",
    }
}

fn start_agent(
    run: &mut Run,
    setup: &Setup,
    host: &HostNode,
    tls: &Path,
    folder: &Path,
    control: &str,
) -> Result<AgentNode, ControlError> {
    let name = format!("{control}-agent-{}", host.id);
    let state_dir = folder.join(format!("agent-{}", host.id));
    let config = folder.join(format!("agent-{}.toml", host.id));
    let file = AgentFile {
        host: host.id.to_string(),
        controllers: vec![format!("{CONTROLLER}:{CONTROLLER_PORT}")],
        device: HOST_DEVICES,
        state_dir: state_dir.clone(),
        pin_dir: pins(run).join(format!("{control}-{}", host.netns.name())),
        // The far end of a veth takes a transmitted frame only with a program of its own.
        redirect_only: true,
        // A policy's first table may differ from nothing at all.
        max_moved: 1.0,
        http: AgentHttp {
            workers: 1,
            listen: [HttpListen { address: format!("127.0.0.1:{HTTP_PORT}") }],
            class: setup
                .classes
                .clone()
                .into_iter()
                .map(|(id, model)| HttpClass { id, models: [model] })
                .collect(),
        },
        tls: AgentTls { ca: tls.join("ca.pem"), cert: tls.join("cert.pem"), key: tls.join("key.pem") },
    };
    let text =
        toml::to_string(&file).map_err(|source| ControlError::Config { name: name.clone(), source })?;
    fs::write(&config, text).map_err(HarnessError::io(format!("write {}", config.display())))?;
    let arguments = ["run".to_owned(), config.display().to_string()];
    let process = run.spawn(&name, Some(&host.netns), &setup.binaries.agent, &arguments)?;
    let socket = state_dir.join("admin.sock");
    Ok(AgentNode { host: host.clone(), process, config, state_dir, socket })
}

/// Folder of the run's pins.
pub(super) fn pins(run: &Run) -> PathBuf {
    Path::new("/sys/fs/bpf").join(run.id())
}
