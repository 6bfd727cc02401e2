//! The proxies: each in a process of its own, with one worker on the second CPU, its files in a folder of its own.
use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use penstock_tests::eventually;

/// Time that a proxy has to listen, and to settle.
const START_LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Peer {
    Penstock,
    HaProxy,
    Nginx,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Penstock, Self::HaProxy, Self::Nginx];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Penstock => "penstock",
            Self::HaProxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }
}

/// A proxy that listens. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Proxy {
    child: Child,
    folder: PathBuf,
    pub(super) address: SocketAddr,
}

impl Proxy {
    pub(super) fn start(peer: Peer, engine: SocketAddr) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let folder =
            std::env::temp_dir().join(format!("penstock-proxy-{}-{}", std::process::id(), peer.name()));
        fs::create_dir_all(&folder)?;
        let child = command(peer, &folder, address, engine)?
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}: is it installed?", peer.name()))?;
        let proxy = Self { child, folder, address };
        eventually(peer.name(), START_LIMIT, || TcpStream::connect(address).ok())?;
        proxy.settle()?;
        Ok(proxy)
    }

    /// Waits until the process has been still for a moment: start-up is not part of any figure.
    fn settle(&self) -> Result<()> {
        let mut last = (self.cpu()?, Instant::now());
        eventually("quiet", START_LIMIT, || match self.cpu() {
            Ok(cpu) if cpu > last.0 + Duration::from_millis(1) => {
                last = (cpu, Instant::now());
                None
            }
            _ => (last.1.elapsed() > Duration::from_millis(200)).then_some(()),
        })?;
        Ok(())
    }

    /// CPU time of all threads of the process and of its children, user and system, as the scheduler counts it.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let mut total = Duration::ZERO;
        for process in self.processes()? {
            for thread in fs::read_dir(format!("/proc/{process}/task"))? {
                let path = thread?.path().join("schedstat");
                let text =
                    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                let nanos = text.split(' ').next().and_then(|first| first.parse().ok());
                total +=
                    Duration::from_nanos(nanos.with_context(|| format!("{text:?} in {}", path.display()))?);
            }
        }
        Ok(total)
    }

    /// Resident memory of the process and its children.
    pub(super) fn resident_kib(&self) -> Result<u64> {
        let mut total = 0;
        for process in self.processes()? {
            let status = fs::read_to_string(format!("/proc/{process}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let value = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
            total += value.context("a process without VmRSS")?;
        }
        Ok(total)
    }

    fn processes(&self) -> Result<Vec<u32>> {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
        let children = children.split_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        Ok(std::iter::once(own).chain(children).collect())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The workers of HAProxy and nginx end with their master's connection; all others are told here.
        for process in self.processes().unwrap_or_default().into_iter().rev() {
            let pid = Pid::from_raw(i32::try_from(process).expect("Linux process ids fit 31 bits"));
            // One that has ended already is what is wanted.
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap_or_default();
        }
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn command(peer: Peer, folder: &Path, address: SocketAddr, engine: SocketAddr) -> Result<Command> {
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]);
    match peer {
        Peer::Penstock => {
            let door = std::env::current_exe()?.with_file_name("penstock-door");
            if !door.exists() {
                bail!("{} is missing: build the bench package whole", door.display());
            }
            command.arg(door).args(["--listen", &address.to_string(), &engine.to_string()]);
        }
        Peer::HaProxy => {
            let file = folder.join("haproxy.cfg");
            fs::write(&file, haproxy(address, engine))?;
            command.args(["haproxy", "-db", "-q", "-f"]).arg(file);
        }
        Peer::Nginx => {
            let file = folder.join("nginx.conf");
            fs::write(&file, nginx(folder, address, engine))?;
            command.args(["nginx", "-c"]).arg(file).arg("-p").arg(folder);
        }
    }
    Ok(command)
}

fn haproxy(address: SocketAddr, engine: SocketAddr) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 9900\n\
         defaults\n  mode http\n  option http-no-delay\n  option http-keep-alive\n  http-reuse always\n  \
         timeout connect 5s\n  timeout client 300s\n  timeout server 300s\n\
         frontend front\n  bind {address}\n  default_backend engines\n\
         backend engines\n  server one {engine} check inter 1s\n"
    )
}

fn nginx(folder: &Path, address: SocketAddr, engine: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n\
         events {{ worker_connections 19900; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 1000000;\n  client_body_temp_path {folder}/body;\n  \
         proxy_temp_path {folder}/proxy;\n  fastcgi_temp_path {folder}/fastcgi;\n  uwsgi_temp_path {folder}/uwsgi;\n  \
         scgi_temp_path {folder}/scgi;\n  client_body_buffer_size 128k;\n  \
         upstream engines {{ server {engine}; keepalive 512; keepalive_requests 1000000; }}\n  \
         server {{\n    listen {address};\n    location / {{\n      proxy_pass http://engines;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n      \
         proxy_read_timeout 300s;\n    }}\n  }}\n}}\n"
    )
}

/// Lets this process, and those that it starts, have as many descriptors as the machine permits; returns how many.
pub(super) fn raise_descriptors() -> Result<usize> {
    let limits = fs::read_to_string("/proc/self/limits").context("reading /proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = line.and_then(|line| line.split_whitespace().nth(1)).context("no limit of open files")?;
    let pid = std::process::id();
    let status =
        Command::new("prlimit").args([format!("--pid={pid}"), format!("--nofile={most}:{most}")]).status();
    if !status.context("starting prlimit")?.success() {
        bail!("the limit of open files cannot be raised to {most}");
    }
    most.parse().with_context(|| format!("limit of open files {most:?}"))
}

/// Keeps this thread on one CPU, where there is more than one.
pub(super) fn on_cpu(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("moving to CPU {cpu}"))
}
