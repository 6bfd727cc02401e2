//! Forwarding of live frames by one CPU: generator, packet door, transmission, and the receiver that drops them.
use anyhow::Context;

use crate::{
    row::Row,
    suite::Options,
    xdp::{
        case::{Case, Floor, Method, Traffic},
        median, pin_to_one_cpu,
        rig::Rig,
    },
};

const SUITE: &str = "pps";
const METRIC: &str = "mpps_per_core";

/// Measures each way of forwarding beside the transmission of a packet with swapped MAC addresses.
pub fn run(options: &Options) -> anyhow::Result<Vec<Row>> {
    let (rounds, packets) = if options.quick { (5, 500_000) } else { (9, 3_000_000) };
    let ways = [("dnat", Method::Dnat), ("l2", Method::L2), ("ipip", Method::Ipip)];
    pin_to_one_cpu()?;
    let mut rig = Rig::new()?;
    rig.drop_at_far_end()?;
    let mut floor = Vec::new();
    let mut figures = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        floor.push(rate(packets, rig.live_floor(Floor::MacSwap, packets)?));
        for ((name, method), figures) in ways.iter().zip(&mut figures) {
            let case = Case { method: *method, traffic: Traffic::TcpStable512k };
            let seconds = rig.live_case(case, packets).with_context(|| format!("way {name}"))?;
            figures.push(rate(packets, seconds));
        }
    }
    let base = median(&mut floor);
    let mut rows = vec![Row::new(SUITE, "floor/xdp_tx", METRIC, base, "Mpps")];
    rows.extend(ways.iter().zip(&mut figures).map(|((name, _), figures)| {
        Row::new(SUITE, *name, METRIC, median(figures), "Mpps").against("floor/xdp_tx", base)
    }));
    Ok(rows)
}

fn rate(packets: u32, seconds: f64) -> f64 {
    f64::from(packets) / seconds / 1e6
}
