//! Slot tables beside the methods that other balancers use: how many slots move, how exact the quotas are, how long
//! an update takes, and how evenly the survivors of a failed engine share its slots.
mod case;
mod clock;
mod figures;
mod fleet;
mod maglev;
mod method;
mod penstock;
mod random;
mod rendezvous;

use case::Case;
use figures::Figures;
use fleet::Fleet;
use maglev::{Maglev, Weighting};
use method::Method;
use penstock::Penstock;
use rendezvous::Rendezvous;

use crate::{row::Row, suite::Options};

const SUITE: &str = "table";

/// Engines, and slots as a power of two: 2^18 slots above 600 engines of a class.
const SIZES: [(usize, u32); 4] = [(3, 16), (20, 16), (200, 16), (2000, 18)];

/// Measures every case at every size; `--quick` leaves out the largest.
pub fn run(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (engines, bits) in SIZES.into_iter().take(if options.quick { 3 } else { 4 }) {
        let fleet = Fleet::new(engines);
        let mut own = Penstock::new(bits)?;
        rows.extend(own.start_rows(&fleet)?);
        rows.extend(own.site_out_rows(&fleet)?);
        let peers: [Box<dyn Method>; 4] = [
            Box::new(Maglev::new(Weighting::Katran, bits)),
            Box::new(Maglev::new(Weighting::Envoy, bits)),
            Box::new(Maglev::new(Weighting::Cilium, bits)),
            Box::new(Rendezvous::new(bits)),
        ];
        let own = measure(&mut own, &fleet, options.quick)?;
        let mut others = Vec::new();
        for mut peer in peers {
            others.push((peer.name(), measure(peer.as_mut(), &fleet, options.quick)?));
        }
        for (number, case) in Case::ALL.into_iter().enumerate() {
            let theirs: Vec<_> = others.iter().map(|(peer, figures)| (*peer, &figures[number])).collect();
            rows.extend(compared(&format!("n{engines}/{}", case.name()), &own[number], &theirs));
        }
    }
    Ok(rows)
}

/// The figures of one method in every case.
fn measure(method: &mut dyn Method, fleet: &Fleet, quick: bool) -> anyhow::Result<Vec<Figures>> {
    let start = method.start(fleet)?;
    Case::ALL.into_iter().map(|case| case.measure(method, fleet, &start, quick)).collect()
}

/// Our figures, each with the best peer's as its baseline, then the peers' own.
fn compared(name: &str, own: &Figures, others: &[(&'static str, &Figures)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (metric, unit, value) in own.each() {
        let of_peers = others.iter().filter_map(|(peer, theirs)| Some((*peer, theirs.get(metric)?)));
        let row = Row::new(SUITE, name, metric, value, unit);
        rows.push(match of_peers.min_by(|one, other| one.1.total_cmp(&other.1)) {
            Some((peer, best)) => row.against(peer, best),
            None => row,
        });
    }
    for (peer, theirs) in others {
        let case = format!("{name}/{peer}");
        rows.extend(
            theirs
                .each()
                .into_iter()
                .map(|(metric, unit, value)| Row::new(SUITE, case.as_str(), metric, value, unit)),
        );
    }
    rows
}
