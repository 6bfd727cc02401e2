//! A fleet's processes on its network.
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::statfs::{FsType, statfs};
use penstock_controller::fleet::{
    Fleet,
    fault::Faults,
    parts::{Class, Profile as FleetProfile, Service},
    settings::PolicyName,
};
use penstock_tests::{HarnessError, ProcessId, Run};
use penstock_wire::{ClassId, FrontendId, KeyMode, ServiceId, Vip};

use super::{
    addresses::{CLIENT_PREFIX4, vip_address},
    binaries::{Binaries, NotBuilt},
    control::{Control, ControlError, pins},
    fleet_file::FleetFileError,
    network::{self, BuildError, EngineNode, Network},
};
use crate::engine::{
    config::{EngineEntry, EngineFile},
    curve::{Point, Profile, ProfileError, RawProfile, Shape},
};

/// A short command that takes longer has failed.
const COMMAND: Duration = Duration::from_secs(20);
/// The magic number of a BPF file system.
const BPF_FS: FsType = FsType(0xcafe_4a11);

/// What a testbed is built for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Factor on demand and capacity.
    pub scale: f64,
    /// Round trips of every class, if others than the file's.
    pub round_trips: Option<f64>,
    /// Tokens of one event of a stream.
    pub stream_interval: u32,
    /// Factor on the engines' real capacity alone: large, and answers take the time of an idle engine.
    pub engine_speed: f64,
}

/// A built fleet without a control plane.
#[derive(Debug)]
pub struct Testbed {
    pub fleet: Fleet,
    pub run: Run,
    pub setup: Setup,
}

/// What control planes and clients are started from.
#[derive(Clone, Debug)]
pub struct Setup {
    pub network: Network,
    pub binaries: Binaries,
    pub(super) options: Options,
    /// The person's fleet file.
    pub(super) fleet_text: String,
    pub(super) certificates: Certificates,
    /// Id and model of each class.
    pub(super) classes: Vec<(String, String)>,
}

/// Folders with `ca.pem`, `cert.pem` and `key.pem`.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) controller: PathBuf,
    /// In the order of the network's hosts.
    pub(super) hosts: Vec<PathBuf>,
}

/// Why there is no testbed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Fleet(#[from] Faults),
    #[error(transparent)]
    FleetFile(#[from] FleetFileError),
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error("profile {id} cannot be followed")]
    Profile { id: String, source: ProfileError },
    #[error("cannot write the engines of {site}")]
    Engines { site: String, source: toml::ser::Error },
    /// Pins need a BPF file system.
    #[error("/sys/fs/bpf is no BPF file system: `mount -t bpf bpf /sys/fs/bpf`, or `cargo xtask setup`")]
    NoBpfFs,
}

/// The clients of one service at one frontend.
#[derive(Clone, Debug)]
pub struct Load {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub service: ServiceId,
    pub process: ProcessId,
    /// A line for each complete request.
    pub records: PathBuf,
}

/// What clients do.
#[derive(Clone, Debug)]
pub struct Clients {
    pub seconds: f64,
    pub seed: u64,
    pub mean_turns: f64,
    /// Part of a class's requests that goes to an IPv4 VIP, where the class has one.
    pub ipv4_share: f64,
    /// Evenly spaced arrivals instead of a Poisson process.
    pub even: bool,
    /// Output tokens of every request, if others than the class's.
    pub output_tokens: Option<u32>,
    /// Requests of each class in flight from the start, in seconds of its arrivals: with the mean time of its requests,
    /// the load begins as if it had run for long.
    pub prefill_seconds: BTreeMap<ClassId, f64>,
}

impl Testbed {
    /// Builds the network, makes the certificates and starts the engines.
    ///
    /// # Errors
    /// The fleet file has faults, programs are missing, or the kernel refuses a part.
    pub fn build(purpose: &str, fleet_text: &str, options: Options) -> Result<Self, StartError> {
        let fleet = penstock_controller::fleet::parse(fleet_text)?;
        let binaries = Binaries::find()?;
        let mut run = Run::start(purpose)?;
        if statfs("/sys/fs/bpf").map_or(true, |stat| stat.filesystem_type() != BPF_FS) {
            return Err(StartError::NoBpfFs);
        }
        run.remove_at_end(&pins(&run))?;
        let network = network::build(&mut run, &fleet)?;
        let certificates = certificates(&mut run, &binaries, &network)?;
        let classes = fleet.classes.iter().map(|class| (class.id.to_string(), class.model.to_string()));
        let setup = Setup {
            network,
            binaries,
            options,
            fleet_text: fleet_text.to_owned(),
            certificates,
            classes: classes.collect(),
        };
        let mut testbed = Self { fleet, run, setup };
        for node in testbed.setup.network.engines.clone() {
            testbed.start_engines(&node)?;
        }
        Ok(testbed)
    }

    /// Starts a control plane without history, or with a ledger as its first state, and waits until every host routes.
    ///
    /// # Errors
    /// A process ends early, or a host does not route in time.
    pub fn start_control(
        &mut self,
        name: &str,
        policy: PolicyName,
        ledger: Option<&str>,
    ) -> Result<Control, ControlError> {
        Control::start(&mut self.run, &self.setup, name, policy, ledger)
    }

    /// Starts a paused controller again, with its state. It measures demand afresh.
    ///
    /// # Errors
    /// It does not start.
    pub fn resume_controller(&mut self, control: &mut Control) -> Result<(), HarnessError> {
        control.resume_controller(&mut self.run, &self.setup)
    }

    /// Ends a control plane and takes its program off every port.
    ///
    /// # Errors
    /// A process does not end.
    pub fn stop_control(&mut self, control: Control) -> Result<(), ControlError> {
        control.stop(&mut self.run, &self.setup)
    }

    /// Starts the clients of every stated demand, one process for each service that they use.
    ///
    /// # Errors
    /// A process cannot be started.
    pub fn start_clients(&mut self, name: &str, clients: &Clients) -> Result<Vec<Load>, HarnessError> {
        let mut loads = Vec::new();
        for (position, demand) in self.fleet.demand.iter().enumerate() {
            let node = self.setup.network.clients.iter().find(|node| node.frontend == demand.frontend);
            let (Some(node), Some(class)) = (node, self.fleet.class(&demand.class)) else { continue };
            let rate = demand.rate.get() * self.setup.options.scale;
            for (service, share) in services(&self.fleet, &demand.class, clients.ipv4_share) {
                if rate * share <= 0.0 {
                    continue;
                }
                let name = format!("{name}-{}-{}", demand.frontend, service.id);
                let records = self.run.folder().join(format!("{name}.records"));
                let seed = clients.seed + 1_000 * position as u64 + loads.len() as u64;
                let mut arguments = arguments(class, service, clients, rate * share, seed, &records);
                if matches!(service.key, KeyMode::Source { .. }) && matches!(service.vip, Vip::V4(_)) {
                    arguments.push("--sources".to_owned());
                    arguments.push(format!("{}/{CLIENT_PREFIX4}", node.number.v4()));
                }
                let process =
                    self.run.spawn(&name, Some(&node.netns), &self.setup.binaries.load, &arguments)?;
                loads.push(Load {
                    frontend: demand.frontend.clone(),
                    class: class.id.clone(),
                    service: service.id.clone(),
                    process,
                    records,
                });
            }
        }
        Ok(loads)
    }

    fn start_engines(&mut self, node: &EngineNode) -> Result<(), StartError> {
        let mut engines = Vec::new();
        for placed in &node.engines {
            let found = self.fleet.engine(&placed.id).and_then(|engine| {
                let group = self.fleet.group(&engine.group)?;
                let profile = self.fleet.profiles.iter().find(|profile| profile.id == group.profile)?;
                Some((engine, group, profile))
            });
            // The network placed engines of this fleet alone.
            let Some((engine, group, profile)) = found else { continue };
            let speed = self.setup.options.scale * self.setup.options.engine_speed;
            let id = profile.id.clone();
            let profile = followed(profile, speed).map_err(|source| StartError::Profile { id, source })?;
            engines.push(EngineEntry {
                id: engine.id.to_string(),
                models: group.models.iter().map(ToString::to_string).collect(),
                port: engine.address.port(),
                addresses: placed.addresses.clone(),
                profile,
            });
        }
        let name = format!("engines-{}", node.site);
        let file = EngineFile { stream_interval: self.setup.options.stream_interval, engine: engines };
        let text = toml::to_string(&file)
            .map_err(|source| StartError::Engines { site: node.site.to_string(), source })?;
        let path = self.run.folder().join(format!("{name}.toml"));
        fs::write(&path, text).map_err(HarnessError::io(format!("write {}", path.display())))?;
        let arguments = [path.display().to_string()];
        let process = self.run.spawn(&name, Some(&node.netns), &self.setup.binaries.engine, &arguments)?;
        for engine in self
            .fleet
            .engines
            .iter()
            .filter(|engine| node.engines.iter().any(|placed| placed.id == engine.id))
        {
            let address = engine.address;
            let netns = node.netns.clone();
            self.run.eventually(
                &format!("engine {} at {address}", engine.id),
                COMMAND,
                &[process],
                || netns.enter(|| std::net::TcpStream::connect(address)).ok()?.ok().map(drop),
            )?;
        }
        Ok(())
    }
}

/// The fleet's profile with its capacity times `speed`, as the fake engine reads it.
pub(crate) fn followed(profile: &FleetProfile, speed: f64) -> Result<Profile, ProfileError> {
    Profile::try_from(RawProfile {
        capacity_rps: profile.capacity.get() * speed,
        reference: Shape {
            prompt_tokens: profile.reference.prompt.get(),
            output_tokens: profile.reference.output.get(),
        },
        prefill_weight: profile.prefill_weight.get(),
        points: profile
            .points
            .iter()
            .map(|point| Point {
                utilisation: point.utilisation.get(),
                ttft_ms: point.ttft.get(),
                itl_ms: point.itl.get(),
            })
            .collect(),
    })
}

/// The services that a class's clients use, and the part of the requests that goes to each.
fn services<'a>(fleet: &'a Fleet, class: &ClassId, ipv4_share: f64) -> Vec<(&'a Service, f64)> {
    let of_class = |four: bool| {
        let is_four = |service: &Service| matches!(service.vip, Vip::V4(_));
        fleet.services.iter().find(|service| service.class == *class && is_four(service) == four)
    };
    match (of_class(false), of_class(true)) {
        (Some(six), Some(four)) => vec![(six, 1.0 - ipv4_share), (four, ipv4_share)],
        (Some(only), None) | (None, Some(only)) => vec![(only, 1.0)],
        (None, None) => Vec::new(),
    }
}

fn arguments(
    class: &Class,
    service: &Service,
    clients: &Clients,
    rate: f64,
    seed: u64,
    records: &Path,
) -> Vec<String> {
    let vip = match service.vip {
        Vip::V6Prefix(prefix) => format!("{prefix}/64"),
        vip => vip_address(vip).to_string(),
    };
    let prefill = rate * clients.prefill_seconds.get(&class.id).copied().unwrap_or(0.0);
    let output = clients.output_tokens.map_or_else(|| class.mean_output.get().round(), f64::from);
    let pairs = [
        ("--vip", vip),
        ("--port", service.port.to_string()),
        ("--model", class.model.to_string()),
        ("--rate", rate.to_string()),
        ("--seconds", clients.seconds.to_string()),
        ("--seed", seed.to_string()),
        ("--prefill", prefill.round().to_string()),
        ("--turns", clients.mean_turns.to_string()),
        ("--prompt-tokens", class.mean_prompt.get().round().to_string()),
        ("--output-tokens", output.to_string()),
        ("--records", records.display().to_string()),
    ];
    let mut arguments: Vec<_> =
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    if clients.even {
        arguments.push("--even".to_owned());
    }
    arguments
}

/// An authority, and certificates for the controller and every host.
fn certificates(run: &mut Run, binaries: &Binaries, network: &Network) -> Result<Certificates, HarnessError> {
    let folder = run.folder().join("tls");
    let authority = folder.join("authority");
    let text = |path: &Path| path.display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut ca = |name: &str, mut arguments: Vec<String>| {
        arguments.insert(0, "ca".to_owned());
        run.complete(name, None, &binaries.controller, &arguments, COMMAND)
    };
    ca("ca-init", words(&["init", "--dir", &text(&authority)]))?;
    let controller = folder.join("controller");
    ca(
        "ca-controller",
        words(&["issue", "--dir", &text(&authority), "--out", &text(&controller), "--controller"]),
    )?;
    let mut hosts = Vec::new();
    for (position, host) in network.hosts.iter().enumerate() {
        let out = folder.join(format!("host{position}"));
        let (authority, out_text) = (text(&authority), text(&out));
        let (frontend, id) = (host.frontend.as_str(), host.id.as_str());
        let issue = ["issue", "--dir", &authority, "--out", &out_text, "--frontend", frontend, "--host", id];
        ca(&format!("ca-host{position}"), words(&issue))?;
        hosts.push(out);
    }
    Ok(Certificates { controller, hosts })
}
