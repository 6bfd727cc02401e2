//! A fleet on loopback: an authority, one controller, agents with the data path in memory.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use penstock_agent::{
    config::{Attach, Config, DataPathConfig, Peers, Plane},
    run::{load_orders, run},
};
use penstock_controller::{
    ca::{self, Subject},
    fleet::{self, Fleet},
    publish::{ListenError, PublishConfig, Publisher, StartError},
    snapshot::Wanted,
    weights::{Cause, TableWeights, Weights},
};
use penstock_wire::{
    EngineId, EngineState,
    transport::{AgentIdentity, CONTROLLER_NAME, TlsFiles},
};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use super::memory::{InForce, Memory};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Folder with the authority and everybody's files.
#[derive(Debug)]
pub struct Lab {
    folder: tempfile::TempDir,
    fleet: Fleet,
    table_slots: usize,
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), penstock_agent::run::RunError>>,
    pub in_force: InForce,
    pub config: Config,
}

impl Agent {
    /// Ends it as a signal would.
    pub async fn stop(self) -> anyhow::Result<()> {
        // It may have ended by itself; what it says tells why.
        let asked = self.stop.send(());
        let ended = self.task.await?.context("agent");
        if asked.is_err() { ended.context("the agent ended by itself") } else { ended }
    }

    /// Ends it without warning.
    pub async fn kill(self) {
        self.task.abort();
        // Aborted is how it should end.
        drop(self.task.await);
    }
}

impl Lab {
    /// A fleet of one frontend `A` with `hosts` hosts, and `engines` engines.
    pub fn new(hosts: usize, engines: usize, table_slots: usize) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        ca::init(&folder.path().join("ca"), DAY)?;
        let fleet = fleet::parse(&fleet_text(hosts, engines)).context("the lab's fleet")?;
        let lab = Self { folder, fleet, table_slots };
        lab.issue_controller(DAY)?;
        Ok(lab)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub fn state_dir(&self) -> PathBuf {
        self.path("controller-state")
    }

    pub fn issue_controller(&self, lifetime: Duration) -> anyhow::Result<()> {
        let subject = Subject::Controller { names: vec![] };
        ca::issue(&self.path("ca"), &subject, lifetime, &self.path("controller"))?;
        Ok(())
    }

    /// A certificate for `host` of `frontend`, signed by the authority in `ca`, in the folder that the host uses.
    pub fn issue_agent(
        &self,
        ca: &str,
        host: &str,
        frontend: &str,
        lifetime: Duration,
    ) -> anyhow::Result<()> {
        let subject = Subject::Agent(AgentIdentity { frontend: frontend.into(), host: host.into() });
        ca::issue(&self.path(ca), &subject, lifetime, &self.path(host))?;
        Ok(())
    }

    /// A free address below the range that the kernel gives to clients, so that it is still free after a restart.
    pub fn free_address(&self) -> anyhow::Result<SocketAddr> {
        // Each port is given once, so that labs of one process do not meet.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let start = 20_000 + u16::try_from(std::process::id() % 500)? * 20;
        let mut ports = (0..2_000).map(|_| start + NEXT.fetch_add(1, Ordering::Relaxed));
        let free = ports.find(|port| std::net::UdpSocket::bind(("127.0.0.1", *port)).is_ok());
        Ok(([127, 0, 0, 1], free.context("no free port")?).into())
    }

    /// A controller on a free port, or on `listen`. With nothing in its state, it waits up to `recovery_wait` for the
    /// lab's hosts.
    pub async fn controller(
        &self,
        listen: Option<SocketAddr>,
        recovery_wait: Duration,
    ) -> anyhow::Result<Publisher> {
        let listen = listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        start(self.publish_config(listen, recovery_wait)).await.context("controller")
    }

    /// A controller on the same state that publishes to nobody.
    pub async fn shadow(&self, listen: SocketAddr, recovery_wait: Duration) -> anyhow::Result<Publisher> {
        let config = PublishConfig { shadow: true, ..self.publish_config(listen, recovery_wait) };
        start(config).await.context("shadow")
    }

    fn publish_config(&self, listen: SocketAddr, recovery_wait: Duration) -> PublishConfig {
        PublishConfig {
            listen,
            tls: tls_in(&self.path("controller")),
            state_dir: self.state_dir(),
            table_slots: self.table_slots,
            hosts: self.fleet.hosts.iter().map(|host| host.id.clone()).collect(),
            recovery_wait,
            shadow: false,
        }
    }

    /// An agent that uses the certificate in its folder; one is issued if there is none.
    pub fn agent(&self, host: &str, controller: SocketAddr, path: Memory) -> anyhow::Result<Agent> {
        if !self.path(host).join("cert.pem").exists() {
            self.issue_agent("ca", host, "A", DAY)?;
        }
        Ok(self.agent_with(self.agent_config(host, controller), path))
    }

    /// An agent with another configuration. Its host's certificate exists.
    pub fn agent_with(&self, config: Config, path: Memory) -> Agent {
        let (stop, stopped) = oneshot::channel::<()>();
        let in_force = path.in_force();
        let running = config.clone();
        let task = tokio::spawn(async move {
            // A stop that is dropped stops as well.
            let orders = load_orders(&running);
            let path = if orders.detached.is_some() { path.detached() } else { path };
            run(&running, orders, path, async { drop(stopped.await) }).await
        });
        Agent { stop, task, in_force, config }
    }

    pub fn agent_config(&self, host: &str, controller: SocketAddr) -> Config {
        let state_dir = self.path(host).join("state");
        Config {
            host: host.into(),
            controllers: vec![controller.to_string()],
            tls: tls_in(&self.path(host)),
            controller_name: CONTROLLER_NAME.to_owned(),
            metrics: None,
            peers: Peers::default(),
            admin_socket: state_dir.join("admin.sock"),
            state_dir,
            http: None,
            data_path: DataPathConfig {
                plane: Plane::Xdp,
                object: PathBuf::new(),
                pin_dir: PathBuf::new(),
                devices: vec![],
                attach: Attach::Best,
                redirect_only: false,
                reset_lost: false,
                outer4: None,
                outer6: None,
                max_moved: 1.0,
            },
        }
    }

    /// Weights of class `chat` at frontend `A`, in proportion to `parts` by engine.
    pub fn weights(&self, parts: &[f64], cause: Cause) -> Weights {
        let total: f64 = parts.iter().sum();
        let engine = |(engine, part): (&fleet::parts::Engine, &f64)| (engine.id.clone(), part / total);
        let mut engines: Vec<_> = self.fleet.engines.iter().zip(parts).map(engine).collect();
        engines.sort_by(|a, b| a.0.cmp(&b.0));
        let table = TableWeights { frontend: "A".into(), class: "chat".into(), engines };
        Weights { cause, tables: vec![table] }
    }
}

/// A controller that ended in this process frees its address when the last of its tasks is gone: until then, tries again.
async fn start(config: PublishConfig) -> Result<Publisher, StartError> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match Publisher::start(config.clone()).await {
            Err(StartError::Listen(ListenError::Bind { source, .. }))
                if source.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline =>
            {
                sleep_until(Instant::now() + Duration::from_millis(20)).await;
            }
            result => return result,
        }
    }
}

/// Publishes weights, all engines serving.
pub fn publish(
    publisher: &mut Publisher,
    lab: &Lab,
    weights: &Weights,
) -> Result<Option<penstock_controller::snapshot::Publication>, penstock_controller::publish::PublishError> {
    let states: BTreeMap<EngineId, EngineState> = BTreeMap::new();
    publisher.publish(&Wanted { fleet: lab.fleet(), weights, states: &states })
}

pub fn tls_in(folder: &Path) -> TlsFiles {
    TlsFiles { ca: folder.join("ca.pem"), certificate: folder.join("cert.pem"), key: folder.join("key.pem") }
}

fn fleet_text(hosts: usize, engines: usize) -> String {
    let mut text = String::from(
        r#"headroom = 0.05
[[site]]
id = "s"
[[frontend]]
id = "A"
site = "s"
[[class]]
id = "chat"
model = "m"
priority = 1
mean_prompt_tokens = 600
mean_output_tokens = 100
require = []
[[profile]]
id = "p"
capacity_rps = 20.0
points = [
  { utilisation = 0.0, ttft_ms = 120.0, itl_ms = 18.0 },
  { utilisation = 1.0, ttft_ms = 900.0, itl_ms = 40.0 },
]
[[service]]
id = "chat"
class = "chat"
vip = "fd0c:1::/64"
port = 8000
protocol = "tcp"
key = "address"
forwarding = "l2"
"#,
    );
    let group = format!(
        "[[engine_group]]\nid = \"g\"\nsite = \"s\"\nmodel = \"m\"\nprofile = \"p\"\nreplicas = {engines}\n"
    );
    text.push_str(&group);
    for engine in 0..engines {
        let (high, low) = (engine / 250, engine % 250 + 1);
        // Writing to a `String` cannot fail.
        _ = write!(
            text,
            "[[engine]]\nid = \"e{engine}\"\ngroup = \"g\"\naddress = \"10.1.{high}.{low}:8000\"\naddress6 = \"[fd00:1::{high}:{low}]:8000\"\n"
        );
    }
    for host in 0..hosts {
        _ = write!(text, "[[host]]\nid = \"a-{host}\"\nfrontend = \"A\"\n");
    }
    text
}
