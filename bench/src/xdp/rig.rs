//! The data path under test and the harness in front of it.
use std::{fs, time::Instant};

use anyhow::{Context, bail};
use aya::{
    Ebpf,
    maps::{Array, ProgramArray},
    programs::{ProgramFd, TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode},
};
use penstock_agent::install::load_program;
use penstock_tests::prog_run::{Fleet, Lab};
use penstock_wire::{Forwarding, KeyMode, Protocol, Vip};

use super::{
    case::{Case, Floor, Method, Traffic},
    needs_records, packet,
};

const ENGINES: u16 = 200;
const XDP_TX: u32 = 3;
const XDP_PASS: u32 = 2;
/// `Setup` of the harness in the kernel, as bytes.
const SETUP_BYTES: usize = 104;

pub(crate) struct Rig {
    lab: Lab,
    bench: Ebpf,
    under_test: ProgramFd,
}

/// What one run of the harness repeats.
struct Work<'a> {
    frame: &'a [u8],
    is_v6: bool,
    flows: u32,
    verdict: u32,
}

impl Rig {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mut lab = Lab::new()?;
        lab.come_in_by("out0")?;
        lab.installer.install(&fleet(false).snapshot).context("installing the first snapshot")?;
        lab.installer.install(&fleet(true).snapshot).context("moving the slots of one class")?;
        lab.installer.maintain();
        let under_test = lab.program()?.fd()?.try_clone()?;
        let object = lab.object().with_file_name("penstock-xdp-bench");
        let bytes = fs::read(&object)
            .with_context(|| format!("reading {}: run `cargo xtask build`", object.display()))?;
        let mut bench = Ebpf::load(&bytes).context("loading the harness")?;
        for name in Floor::ALL.iter().map(|floor| floor.program()).chain(["harness"]) {
            load_program(program(&mut bench, name)?).with_context(|| format!("loading {name}"))?;
        }
        Ok(Self { lab, bench, under_test })
    }

    /// Nanoseconds a packet of a floor, harness included.
    pub(crate) fn floor(&mut self, floor: Floor, packets: u32) -> anyhow::Result<f64> {
        let fd = program(&mut self.bench, floor.program())?.fd()?.try_clone()?;
        let frame = if floor.is_v6() { packet::v6(packet::port(Method::Dnat)) } else { packet::v4() };
        let verdict = if floor == Floor::Pass { XDP_PASS } else { XDP_TX };
        let work = Work { frame: &frame, is_v6: floor.is_v6(), flows: 1 << 19, verdict };
        self.run(&fd, &work, packets)
    }

    /// Nanoseconds a packet of a case, harness included.
    pub(crate) fn case(&mut self, case: Case, packets: u32) -> anyhow::Result<f64> {
        let fd = self.under_test.try_clone()?;
        let frame = packet::of_case(case);
        let is_v6 = case.traffic == Traffic::V6Address;
        let work = Work { frame: &frame, is_v6, flows: case.flows(), verdict: XDP_TX };
        if needs_records(case.traffic) {
            // The first packet of a flow records it, the second confirms it.
            self.run(&fd, &work, 4 * case.flows())?;
        }
        self.run(&fd, &work, packets)
    }

    /// Ends the way of live frames: a program at the far end of the engines' device drops them there.
    pub(crate) fn drop_at_far_end(&mut self) -> anyhow::Result<()> {
        let drop = program(&mut self.bench, "floor_drop")?;
        load_program(drop).context("loading floor_drop")?;
        drop.attach("out1", XdpMode::Driver).context("attaching to out1")?;
        Ok(())
    }

    /// Seconds for `packets` live frames of a case, sent on by this CPU.
    pub(crate) fn live_case(&mut self, case: Case, packets: u32) -> anyhow::Result<f64> {
        let fd = self.under_test.try_clone()?;
        let frame = packet::of_case(case);
        self.run_live(
            &fd,
            &Work { frame: &frame, is_v6: false, flows: case.flows(), verdict: XDP_TX },
            packets,
        )
    }

    /// Seconds for `packets` live frames of a floor.
    pub(crate) fn live_floor(&mut self, floor: Floor, packets: u32) -> anyhow::Result<f64> {
        let fd = program(&mut self.bench, floor.program())?.fd()?.try_clone()?;
        let frame = packet::v4();
        self.run_live(&fd, &Work { frame: &frame, is_v6: false, flows: 1 << 19, verdict: XDP_TX }, packets)
    }

    fn run_live(&mut self, under_test: &ProgramFd, work: &Work<'_>, packets: u32) -> anyhow::Result<f64> {
        let context = self.prepare(under_test, work)?;
        let start = Instant::now();
        program(&mut self.bench, "harness")?.test_run(TestRunOptions {
            data_in: Some(work.frame),
            ctx_in: Some(&context),
            repeat: packets,
            attrs: TestRunAttrs::new().xdp_live_frames(64),
            ..TestRunOptions::new()
        })?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Tells the harness what to repeat, and gives the context of its packets.
    fn prepare(&mut self, under_test: &ProgramFd, work: &Work<'_>) -> anyhow::Result<Vec<u8>> {
        let mut array = ProgramArray::try_from(self.bench.map_mut("UNDER_TEST").context("no UNDER_TEST")?)?;
        array.set(0, under_test, 0)?;
        let mut setup: Array<_, [u8; SETUP_BYTES]> =
            Array::try_from(self.bench.map_mut("SETUP").context("no SETUP")?)?;
        let sequence = setup.get(&0, 0)?[16..24].to_vec();
        setup.set(0, setup_bytes(work, &sequence)?, 0)?;
        Ok(self.lab.context(work.frame))
    }

    fn run(&mut self, under_test: &ProgramFd, work: &Work<'_>, packets: u32) -> anyhow::Result<f64> {
        let context = self.prepare(under_test, work)?;
        let harness = program(&mut self.bench, "harness")?;
        let result = harness.test_run(TestRunOptions {
            data_in: Some(work.frame),
            ctx_in: Some(&context),
            repeat: packets,
            ..TestRunOptions::new()
        })?;
        if result.return_value != work.verdict {
            bail!("the verdict is {} where {} was expected", result.return_value, work.verdict);
        }
        Ok(result.duration.as_secs_f64() * 1e9)
    }
}

/// `length`, `is_v6`, `flows`, a pad, `sequence`, then the template.
fn setup_bytes(work: &Work<'_>, sequence: &[u8]) -> anyhow::Result<[u8; SETUP_BYTES]> {
    let mut bytes = [0; SETUP_BYTES];
    let length = u32::try_from(work.frame.len())?;
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..8].copy_from_slice(&u32::from(work.is_v6).to_ne_bytes());
    bytes[8..12].copy_from_slice(&work.flows.to_ne_bytes());
    bytes[16..24].copy_from_slice(sequence);
    let held = work.frame.len().min(SETUP_BYTES - 24);
    bytes[24..24 + held].copy_from_slice(&work.frame[..held]);
    Ok(bytes)
}

fn program<'e>(ebpf: &'e mut Ebpf, name: &str) -> anyhow::Result<&'e mut Xdp> {
    let program = ebpf.program_mut(name).with_context(|| format!("the object has no {name}"))?;
    Ok(program.try_into()?)
}

/// Services of every way of forwarding; those of the second class, whose slots have all moved after `moved`.
fn fleet(moved: bool) -> Fleet {
    let mut fleet = Fleet::large(ENGINES, 1 << 16, usize::from(moved));
    for (method, forwarding) in
        [(Method::Dnat, Forwarding::Dnat), (Method::L2, Forwarding::L2), (Method::Ipip, Forwarding::Ipip)]
    {
        let port = packet::port(method);
        let v4 = Vip::V4(packet::VIP4.parse().expect("an IPv4 address"));
        let transition = Vip::V4(packet::VIP4_TRANSITION.parse().expect("an IPv4 address"));
        let prefix = Vip::V6Prefix("2001:db8:1::".parse().expect("an IPv6 address"));
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            fleet = fleet.service(v4, port, protocol, KeyMode::Flow, forwarding);
        }
        fleet = fleet
            .service(prefix, port, Protocol::Tcp, KeyMode::Address, forwarding)
            .service(transition, port, Protocol::Tcp, KeyMode::Flow, forwarding)
            .in_class("other");
    }
    if moved { fleet.next() } else { fleet }
}
