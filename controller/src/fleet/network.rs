//! Sites and the round trips between them.
use std::collections::BTreeMap;

use penstock_wire::SiteId;

use super::units::Milliseconds;

/// Round trip of a site to itself where the file gives none.
pub const LOCAL_RTT_MS: f64 = 0.5;

/// Symmetric round trips between sites.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    sites: BTreeMap<SiteId, usize>,
    /// Row by row, one row a site; `None` where the file gives no round trip.
    rtt: Vec<Option<Milliseconds>>,
}

impl Network {
    /// A network without any round trip.
    pub fn of(ids: impl IntoIterator<Item = SiteId>) -> Self {
        let mut sites = BTreeMap::new();
        for id in ids {
            let next = sites.len();
            sites.entry(id).or_insert(next);
        }
        let cells = sites.len() * sites.len();
        Self { sites, rtt: vec![None; cells] }
    }

    pub fn contains(&self, site: &SiteId) -> bool {
        self.sites.contains_key(site)
    }

    pub fn sites(&self) -> impl Iterator<Item = &SiteId> {
        self.sites.keys()
    }

    /// Sets the round trip in both directions. Unknown sites are left out.
    pub fn set_rtt(&mut self, a: &SiteId, b: &SiteId, rtt: Milliseconds) {
        if let (Some(forth), Some(back)) = (self.cell(a, b), self.cell(b, a)) {
            self.rtt[forth] = Some(rtt);
            self.rtt[back] = Some(rtt);
        }
    }

    pub fn rtt(&self, from: &SiteId, to: &SiteId) -> Option<Milliseconds> {
        self.rtt[self.cell(from, to)?]
    }

    fn cell(&self, from: &SiteId, to: &SiteId) -> Option<usize> {
        Some(self.sites.get(from)? * self.sites.len() + self.sites.get(to)?)
    }
}
