//! Frontends, hosts and stated demand.
use std::collections::HashMap;
use std::net::Ipv6Addr;

use penstock_wire::{ClassId, FrontendId, HostId, SiteId};

use super::{Checker, Places};
use crate::fleet::fault::FaultKind;
use crate::fleet::parts::{Demand, Frontend, Host};
use crate::fleet::raw::RawFleet;

impl Checker {
    pub(super) fn frontends(&mut self, raw: &RawFleet) -> Vec<Frontend> {
        let mut seen = Places::new();
        let mut prefixes: HashMap<[u8; 4], String> = HashMap::new();
        let mut frontends = Vec::new();
        for (at, frontend) in raw.frontend.iter().enumerate() {
            let (owner, key, part) = (frontend.span(), format!("frontend[{at}]"), frontend.get_ref());
            let id = self.id(&part.id, &owner, &format!("{key}.id"), &mut seen);
            let site = self.reference(&part.site, &owner, &format!("{key}.site"), ("site", |ids| &ids.sites));
            let nat_prefix = match &part.nat_prefix {
                Some(given) => self.nat_prefix(given, &format!("{key}.nat_prefix")).map(Some),
                None => Some(None),
            };
            let (Some(id), Some(nat_prefix)) = (id, nat_prefix) else { continue };
            if let (Some(prefix), Some(given)) = (nat_prefix, &part.nat_prefix)
                && let Some(other) = prefixes.insert(prefix, id.clone())
            {
                self.fault(&given.span(), format!("{key}.nat_prefix"), FaultKind::NatPrefixTwice(other));
            }
            if let Some(site) = site {
                frontends.push(Frontend { id: FrontendId(id), site: SiteId(site), nat_prefix });
            }
        }
        if raw.frontend.is_empty() {
            self.fault(&(0..0), "frontend", FaultKind::Missing);
        }
        frontends
    }

    fn nat_prefix(&mut self, given: &toml::Spanned<String>, key: &str) -> Option<[u8; 4]> {
        let prefix = given
            .get_ref()
            .strip_suffix("/32")
            .and_then(|address| address.parse::<Ipv6Addr>().ok())
            .filter(|address| address.to_bits() << 32 == 0);
        match prefix {
            Some(address) => {
                let [a, b, c, d, ..] = address.octets();
                Some([a, b, c, d])
            }
            None => {
                let form = "an IPv6 prefix of length 32, such as fd5e:a::/32";
                self.fault(&given.span(), key, FaultKind::Form { given: given.get_ref().clone(), form });
                None
            }
        }
    }

    pub(super) fn hosts(&mut self, raw: &RawFleet) -> Vec<Host> {
        let mut seen = Places::new();
        let mut hosts = Vec::new();
        for (at, host) in raw.host.iter().enumerate() {
            let (owner, key, part) = (host.span(), format!("host[{at}]"), host.get_ref());
            let id = self.id(&part.id, &owner, &format!("{key}.id"), &mut seen);
            let frontend = self.reference(
                &part.frontend,
                &owner,
                &format!("{key}.frontend"),
                ("frontend", |ids| &ids.frontends),
            );
            if let (Some(id), Some(frontend)) = (id, frontend) {
                hosts.push(Host { id: HostId(id), frontend: FrontendId(frontend) });
            }
        }
        hosts
    }

    pub(super) fn demand(&mut self, raw: &RawFleet) -> Vec<Demand> {
        let mut seen: HashMap<(String, String), usize> = HashMap::new();
        let mut stated = Vec::new();
        for (at, demand) in raw.demand.iter().enumerate() {
            let (owner, key, part) = (demand.span(), format!("demand[{at}]"), demand.get_ref());
            let frontend = self.reference(
                &part.frontend,
                &owner,
                &format!("{key}.frontend"),
                ("frontend", |ids| &ids.frontends),
            );
            let class =
                self.reference(&part.class, &owner, &format!("{key}.class"), ("class", |ids| &ids.classes));
            let rate = self.required_quantity(&part.rps, &owner, &format!("{key}.rps"));
            let (Some(frontend), Some(class)) = (frontend, class) else { continue };
            let line = self.faults.line(owner.start);
            if let Some(earlier) = seen.insert((frontend.clone(), class.clone()), line) {
                let pair = format!("{frontend}.{class}");
                self.fault(&owner, key, FaultKind::Duplicate(pair, earlier));
                continue;
            }
            if let Some(rate) = rate {
                stated.push(Demand { frontend: FrontendId(frontend), class: ClassId(class), rate });
            }
        }
        stated
    }
}
