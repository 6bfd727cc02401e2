//! The packets that the harness restores.
use penstock_tests::prog_run::packet::{ACK, Packet, SYN};

use super::case::{Case, Method, Traffic};

/// Port of the services of each way of forwarding.
pub(super) const fn port(method: Method) -> u16 {
    match method {
        Method::Dnat => 8001,
        Method::L2 => 8002,
        Method::Ipip => 8003,
    }
}

pub(super) const VIP4: &str = "198.51.100.1";
/// Of the service whose slots are in transition.
pub(super) const VIP4_TRANSITION: &str = "198.51.100.2";

/// The packet of a case. Its payload makes every frame long enough for the harness to restore.
pub(super) fn of_case(case: Case) -> Vec<u8> {
    let port = port(case.method);
    let client = ("10.0.0.1", 1024);
    let mut packet = match case.traffic {
        Traffic::TcpNewFlow | Traffic::SynFlood => Packet::tcp(client, (VIP4, port), SYN),
        Traffic::TcpStable | Traffic::TcpStable512k => Packet::tcp(client, (VIP4, port), ACK),
        Traffic::TcpTransition => Packet::tcp(client, (VIP4_TRANSITION, port), ACK),
        Traffic::Udp => Packet::udp(client, (VIP4, port)),
        Traffic::V6Address => return v6(port),
    };
    packet.payload = vec![0; 24];
    packet.frame()
}

/// A TCP packet over IPv6, for a service keyed by address.
pub(super) fn v6(port: u16) -> Vec<u8> {
    let mut packet = Packet::tcp(("2001:db8:ffff::1", 1024), ("2001:db8:1:0:1:2:3:4", port), ACK);
    packet.payload = vec![0; 24];
    packet.frame()
}

/// A TCP packet over IPv4, for the floors.
pub(super) fn v4() -> Vec<u8> {
    let mut packet = Packet::tcp(("10.0.0.1", 1024), (VIP4, port(Method::Dnat)), ACK);
    packet.payload = vec![0; 24];
    packet.frame()
}
