//! What the kernel counted, summed over CPUs.
use std::collections::BTreeMap;

use aya::maps::{MapData, MapError, PerCpuArray};
use penstock_abi::{Reason, Traffic};

use super::maps::Maps;

/// Counts since the maps were made. They never go back, and wrap at 2^64.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// By engine index.
    pub engines: BTreeMap<u16, Traffic>,
    /// By service index.
    pub services: BTreeMap<u16, Traffic>,
    /// Packets by reason; each packet that was not simply forwarded has one.
    pub reasons: Vec<(Reason, u64)>,
}

pub(super) fn read(
    maps: &Maps,
    engines: impl Iterator<Item = u16>,
    services: impl Iterator<Item = u16>,
) -> Result<Counters, MapError> {
    Ok(Counters {
        engines: engines
            .map(|index| Ok((index, traffic(&maps.engine_traffic, index)?)))
            .collect::<Result<_, MapError>>()?,
        services: services
            .map(|index| Ok((index, traffic(&maps.service_traffic, index)?)))
            .collect::<Result<_, MapError>>()?,
        reasons: Reason::ALL
            .iter()
            .map(|&reason| Ok((reason, maps.reasons.get(&(reason as u32), 0)?.iter().sum())))
            .collect::<Result<_, MapError>>()?,
    })
}

pub(super) fn traffic(map: &PerCpuArray<MapData, [u64; 4]>, index: u16) -> Result<Traffic, MapError> {
    let mut sum = Traffic::default();
    for part in map.get(&u32::from(index), 0)?.iter() {
        let part: Traffic = bytemuck::cast(*part);
        sum.packets = sum.packets.wrapping_add(part.packets);
        sum.bytes = sum.bytes.wrapping_add(part.bytes);
        sum.new_flows = sum.new_flows.wrapping_add(part.new_flows);
        sum.refused = sum.refused.wrapping_add(part.refused);
    }
    Ok(sum)
}
