//! The testbed's network without any program of ours on it: every route that a frontend will use leads to its engine
//! and back.
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    thread,
};

use penstock_bench::testbed::{addresses::Indexes, network};
use penstock_controller::fleet;
use penstock_tests::{
    Run,
    bulk::{self, BulkServer},
};

#[test]
fn every_prefix_of_every_frontend_reaches_its_engine_and_the_replies_come_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for file in ["talk.toml", "mixed.toml"] {
        let fleet = fleet::read(&root.join("examples").join(file)).unwrap();
        let mut run = Run::start("testbed").unwrap();
        let network = network::build(&mut run, &fleet).unwrap();
        let indexes = Indexes::of(&fleet);
        let _servers: Vec<_> = network
            .engines
            .iter()
            .map(|node| BulkServer::start(&node.netns, 8000, node.site.as_str()).unwrap())
            .collect();

        // At once, since each exchange takes two round trips of the WAN.
        thread::scope(|scope| {
            for client in &network.clients {
                let frontend = fleet.frontend(&client.frontend).unwrap();
                for engine in &fleet.engines {
                    let site = &fleet.group(&engine.group).unwrap().site;
                    let prefixes = fleet
                        .services
                        .iter()
                        .filter_map(|service| indexes.nat_prefix(frontend, service, engine))
                        .map(|prefix| IpAddr::V6((prefix.to_bits() | 0x1234_5678_9abc_def0).into()));
                    let own = [engine.address.ip(), IpAddr::V6(*engine.address6.unwrap().ip())];
                    let addresses: Vec<_> = own.into_iter().chain(prefixes).collect();
                    scope.spawn(move || {
                        for address in addresses {
                            let to = SocketAddr::new(address, 8000);
                            let answer = bulk::get(&client.netns, to, 10).unwrap();
                            assert_eq!(answer.server, site.as_str(), "{to} from {}", client.frontend);
                        }
                    });
                }
            }
        });
    }
}
