//! Snapshots that are refused, and data paths that are taken over while packets come.
use std::{
    os::fd::AsRawFd as _,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike as _, sendto, socket,
};
use penstock_agent::install::InstallError;
use penstock_tests::{
    eventually,
    prog_run::{
        Fleet, Lab,
        packet::{ACK, Packet},
    },
};
use penstock_wire::Forwarding;

#[test]
fn a_snapshot_that_is_not_newer_or_contradicts_itself_leaves_the_old_one_in_force() {
    let fleet = Fleet::new().v4(Forwarding::Dnat).next();
    let mut lab = Lab::of(&fleet).unwrap();
    let newer = || fleet.clone().next().snapshot;
    let mut unknown_engine = newer();
    unknown_engine.tables[0].slots[3] = 77;
    let mut large_index = newer();
    large_index.engines[2].index = 5000;
    large_index.tables[0].candidates[2].engine = 5000;
    let mut other_secret = newer();
    other_secret.secret[0] ^= 1;
    let twice = fleet.clone().v4(Forwarding::Dnat).next().snapshot;

    let mut refused = |snapshot| lab.installer.install(&snapshot).unwrap_err();

    assert!(matches!(refused(fleet.snapshot.clone()), InstallError::StaleEpoch { .. }));
    assert!(matches!(refused(unknown_engine), InstallError::Invalid(_)));
    assert!(matches!(refused(large_index), InstallError::IndexTooLarge { .. }));
    assert!(matches!(refused(other_secret), InstallError::OtherSecret));
    assert!(matches!(refused(twice), InstallError::SameVip { .. }));
    assert_eq!(lab.installer.live().epoch(), fleet.snapshot.epoch);
    let packet = Packet::tcp(("203.0.113.9", 1000), ("198.51.100.1", 80), ACK);
    let expected = packet.clone().with_destination("10.2.0.1", 8000).towards_engine();
    assert_eq!(lab.run(&packet.frame()).unwrap().frame, expected.frame());
}

#[test]
fn a_publish_that_moves_more_than_the_limit_is_refused_unless_it_answers_a_failure() {
    let mut lab = Lab::with(|config| config.max_moved = 0.5).unwrap();
    lab.installer.install(&Fleet::new().v4(Forwarding::Dnat).snapshot).unwrap();
    let mut moved = Fleet::new().v4(Forwarding::Dnat).all_to(1).snapshot;

    let refused = lab.installer.install(&moved).unwrap_err();
    moved.failure_handling = true;
    let report = lab.installer.install(&moved).unwrap();

    assert!(matches!(refused, InstallError::TooManyMoves { moved: 16, slots: 16, .. }), "{refused}");
    assert_eq!(report.moved_slots, 16);
}

#[test]
fn programs_replaced_under_load_lose_no_packet_and_keep_the_snapshot() {
    let fleet = Fleet::new().v4(Forwarding::Dnat);
    let mut lab = Lab::with(|config| config.devices = vec!["in0".to_owned()]).unwrap();
    lab.installer.install(&fleet.snapshot).unwrap();
    let frame = Packet::tcp(("203.0.113.9", 1000), ("198.51.100.1", 80), ACK).frame();
    let sender = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None).unwrap();
    let far_end = link_address("in1");
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));

    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if sendto(sender.as_raw_fd(), &frame, &far_end, MsgFlags::empty()).is_ok() {
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..5 {
            lab.upgrade().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });

    let sent = sent.load(Ordering::Relaxed);
    let counted = || lab.installer.live().counters().unwrap().services[&0].packets;
    assert!(sent > 1000, "only {sent} packets were sent");
    eventually("the last packet", Duration::from_secs(5), || (counted() == sent).then_some(())).unwrap();
    assert_eq!(counted(), sent);
    assert_eq!(lab.installer.live().epoch(), fleet.snapshot.epoch);
    assert!(lab.installer.resume(&fleet.snapshot));
}

/// `struct sockaddr_ll` of a device.
fn link_address(device: &str) -> LinkAddr {
    let index = nix::net::if_::if_nametoindex(device).expect("the lab has the device");
    let raw = nix::libc::sockaddr_ll {
        sll_family: u16::try_from(nix::libc::AF_PACKET).expect("a small number"),
        sll_protocol: 0,
        sll_ifindex: i32::try_from(index).expect("a small number"),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    #[expect(unsafe_code, reason = "nix takes a link address only as the kernel's struct")]
    // SAFETY: the struct is a whole sockaddr_ll and its length is given.
    let address = unsafe { LinkAddr::from_raw((&raw const raw).cast(), Some(20)) };
    address.expect("a link address")
}
