//! What is measured, and against which floor.

/// A program that does the least that a way of forwarding has to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Floor {
    Pass,
    MacSwap,
    Nat,
    Nat6,
    Ipip,
    Ip6Ip6,
}

impl Floor {
    pub(crate) const ALL: &[Self] =
        &[Self::Pass, Self::MacSwap, Self::Nat, Self::Nat6, Self::Ipip, Self::Ip6Ip6];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::MacSwap => "mac_swap",
            Self::Nat => "nat",
            Self::Nat6 => "nat6",
            Self::Ipip => "ipip",
            Self::Ip6Ip6 => "ip6ip6",
        }
    }

    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Pass => "floor_pass",
            Self::MacSwap => "floor_mac_swap",
            Self::Nat => "floor_nat",
            Self::Nat6 => "floor_nat6",
            Self::Ipip => "floor_ipip",
            Self::Ip6Ip6 => "floor_ip6ip6",
        }
    }

    pub(crate) const fn is_v6(self) -> bool {
        matches!(self, Self::Nat6 | Self::Ip6Ip6)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    Dnat,
    L2,
    Ipip,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Traffic {
    /// One established TCP flow.
    TcpStable,
    /// 512 Ki established TCP flows.
    TcpStable512k,
    /// SYNs of 512 Ki flows.
    TcpNewFlow,
    /// 64 Ki established flows of slots in transition, all recorded.
    TcpTransition,
    /// Established TCP flows of 512 Ki conversations in IPv6 addresses.
    V6Address,
    /// UDP datagrams of 512 Ki flows.
    Udp,
    /// SYNs whose flow never repeats.
    SynFlood,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Case {
    pub(crate) method: Method,
    pub(crate) traffic: Traffic,
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        const TRAFFIC: [Traffic; 7] = [
            Traffic::TcpStable,
            Traffic::TcpStable512k,
            Traffic::TcpNewFlow,
            Traffic::TcpTransition,
            Traffic::V6Address,
            Traffic::Udp,
            Traffic::SynFlood,
        ];
        let methods = [Method::Dnat, Method::L2, Method::Ipip];
        methods.iter().flat_map(|&method| TRAFFIC.map(|traffic| Self { method, traffic })).collect()
    }

    pub(crate) fn name(self) -> String {
        let method = match self.method {
            Method::Dnat => "dnat",
            Method::L2 => "l2",
            Method::Ipip => "ipip",
        };
        let traffic = match self.traffic {
            Traffic::TcpStable => "v4_tcp_stable_slot",
            Traffic::TcpStable512k => "v4_tcp_stable_slot_512k_flows",
            Traffic::TcpNewFlow => "v4_tcp_new_flow",
            Traffic::TcpTransition => "v4_tcp_transition_64k_flows",
            Traffic::V6Address => "v6_tcp_address_key",
            Traffic::Udp => "v4_udp",
            Traffic::SynFlood => "v4_syn_flood",
        };
        format!("{method}/{traffic}")
    }

    pub(crate) const fn floor(self) -> Floor {
        match (self.method, self.traffic) {
            (Method::L2, _) => Floor::MacSwap,
            (Method::Dnat, Traffic::V6Address) => Floor::Nat6,
            (Method::Dnat, _) => Floor::Nat,
            (Method::Ipip, Traffic::V6Address) => Floor::Ip6Ip6,
            (Method::Ipip, _) => Floor::Ipip,
        }
    }

    /// Flows that the harness varies over; 0 for flows that never repeat.
    pub(crate) const fn flows(self) -> u32 {
        match self.traffic {
            Traffic::TcpStable => 1,
            Traffic::TcpTransition => 1 << 16,
            Traffic::SynFlood => 0,
            _ => 1 << 19,
        }
    }
}
