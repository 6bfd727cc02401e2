//! Sites and round trips.
use std::collections::BTreeMap;
use std::ops::Range;

use penstock_wire::SiteId;

use super::{Checker, Places};
use crate::fleet::fault::FaultKind;
use crate::fleet::network::{LOCAL_RTT_MS, Network};
use crate::fleet::raw::RawFleet;
use crate::fleet::units::Milliseconds;

impl Checker {
    pub(super) fn network(&mut self, raw: &RawFleet) -> Network {
        let mut seen = Places::new();
        for (at, site) in raw.site.iter().enumerate() {
            self.id(&site.get_ref().id, &site.span(), &format!("site[{at}].id"), &mut seen);
        }
        if raw.site.is_empty() {
            self.fault(&(0..0), "site", FaultKind::Missing);
        }
        let sites: Vec<SiteId> = self.ids.sites.keys().map(|id| SiteId(id.clone())).collect();
        let mut network = Network::of(sites.iter().cloned());
        if let Ok(local) = Milliseconds::try_from(LOCAL_RTT_MS) {
            for site in &sites {
                network.set_rtt(site, site, local);
            }
        }
        self.round_trips(raw, &mut network);
        self.missing_round_trips(raw, &network);
        network
    }

    fn round_trips(&mut self, raw: &RawFleet, network: &mut Network) {
        let mut given: BTreeMap<(String, String), (f64, Range<usize>)> = BTreeMap::new();
        for (from, row) in &raw.rtt_ms {
            self.known_site(from);
            for (to, rtt) in row {
                let key = format!("rtt_ms.{}.{}", from.get_ref(), to.get_ref());
                let known = self.known_site(to);
                let Some(value) = self.quantity::<Milliseconds>(rtt, &key) else { continue };
                if !known {
                    continue;
                }
                let mut pair = [from.get_ref().clone(), to.get_ref().clone()];
                pair.sort();
                let [a, b] = pair;
                match given.get(&(a.clone(), b.clone())) {
                    Some((other, place)) if *other != value.get() => {
                        // The later of the two lines is the one that contradicts.
                        let (first, second, here, other) = if place.start < rtt.span().start {
                            (place.clone(), rtt.span(), value.get(), *other)
                        } else {
                            (rtt.span(), place.clone(), *other, value.get())
                        };
                        let line = self.faults.line(first.start);
                        self.fault(&second, key, FaultKind::RttTwice { here, other, line });
                    }
                    _ => {
                        network.set_rtt(&SiteId(a.clone()), &SiteId(b.clone()), value);
                        given.insert((a, b), (value.get(), rtt.span()));
                    }
                }
            }
        }
    }

    fn known_site(&mut self, site: &toml::Spanned<String>) -> bool {
        let known = self.ids.sites.contains_key(site.get_ref());
        if !known {
            let kind = FaultKind::Unknown { kind: "site", id: site.get_ref().clone() };
            self.fault(&site.span(), "rtt_ms", kind);
        }
        known
    }

    /// Each frontend needs a round trip to each group's site.
    fn missing_round_trips(&mut self, raw: &RawFleet, network: &Network) {
        for (at, frontend) in raw.frontend.iter().enumerate() {
            let Some(from) = &frontend.get_ref().site else { continue };
            if !self.ids.sites.contains_key(from.get_ref()) {
                continue;
            }
            let mut missing: Vec<&String> = raw
                .engine_group
                .iter()
                .filter_map(|group| group.get_ref().site.as_ref())
                .map(toml::Spanned::get_ref)
                .filter(|to| {
                    let (from, to) = (SiteId(from.get_ref().clone()), SiteId((*to).clone()));
                    network.contains(&to) && network.rtt(&from, &to).is_none()
                })
                .collect();
            missing.sort();
            missing.dedup();
            for to in missing {
                let key = format!("rtt_ms.{}.{to}", from.get_ref());
                let kind = FaultKind::RttMissing { to: to.clone(), key };
                self.fault(&from.span(), format!("frontend[{at}].site"), kind);
            }
        }
    }
}
