//! Engines and their addresses.
use std::collections::HashMap;
use std::net::SocketAddr;

use penstock_wire::{EngineId, GroupId};

use super::{Checker, Places};
use crate::fleet::fault::FaultKind;
use crate::fleet::parts::Engine;
use crate::fleet::raw::RawFleet;

impl Checker {
    pub(super) fn engines(&mut self, raw: &RawFleet) -> Vec<Engine> {
        let mut seen = Places::new();
        let mut addresses: HashMap<SocketAddr, usize> = HashMap::new();
        let mut engines = Vec::new();
        for (at, engine) in raw.engine.iter().enumerate() {
            let (owner, key, part) = (engine.span(), format!("engine[{at}]"), engine.get_ref());
            let id = self.id(&part.id, &owner, &format!("{key}.id"), &mut seen);
            let group = self.reference(
                &part.group,
                &owner,
                &format!("{key}.group"),
                ("engine_group", |ids| &ids.groups),
            );
            let address = self.required(&part.address, &owner, &format!("{key}.address")).and_then(|given| {
                self.parsed::<SocketAddr>(given, &format!("{key}.address"), "an address with a port")
            });
            let address6 = match &part.address6 {
                Some(given) => self
                    .parsed(
                        given,
                        &format!("{key}.address6"),
                        "an IPv6 address with a port, such as [fd00::1]:8000",
                    )
                    .map(Some),
                None => Some(None),
            };
            let given = [(&part.address, address), (&part.address6, address6.flatten().map(SocketAddr::V6))];
            for (place, address) in given {
                let (Some(place), Some(address)) = (place, address) else { continue };
                let line = self.faults.line(place.span().start);
                if let Some(earlier) = addresses.insert(address, line) {
                    let kind = FaultKind::Duplicate(address.to_string(), earlier);
                    self.fault(&place.span(), format!("{key}.address"), kind);
                }
            }
            if let (Some(id), Some(group), Some(address), Some(address6)) = (id, group, address, address6) {
                engines.push(Engine { id: EngineId(id), group: GroupId(group), address, address6 });
            }
        }
        engines
    }
}
