//! A small running fleet for the testbed's own tests: two sites, three engines, two services.
use penstock_controller::fleet::{Fleet, parse};

pub(crate) const TEXT: &str = r#"
headroom = 0.05
[[site]]
id = "east"
[[site]]
id = "west"
[rtt_ms]
east.west = 30.0
[[frontend]]
id = "A"
site = "east"
nat_prefix = "fd5e:a::/32"
[[frontend]]
id = "B"
site = "west"
nat_prefix = "fd5e:b::/32"
[[class]]
id = "chat"
model = "m"
priority = 1
mean_prompt_tokens = 600
mean_output_tokens = 100
[[profile]]
id = "p"
capacity_rps = 20.0
points = [
  { utilisation = 0.0, ttft_ms = 120.0, itl_ms = 18.0 },
  { utilisation = 1.0, ttft_ms = 900.0, itl_ms = 40.0 },
]
[[engine_group]]
id = "near"
site = "east"
model = "m"
profile = "p"
replicas = 2
[[engine_group]]
id = "far"
site = "west"
model = "m"
profile = "p"
replicas = 1
[[demand]]
frontend = "A"
class = "chat"
rps = 10.0
[[demand]]
frontend = "B"
class = "chat"
rps = 10.0
[[service]]
id = "v6"
class = "chat"
vip = "fd0c:1::/64"
port = 8000
key = "address"
[[service]]
id = "v4"
class = "chat"
vip = "10.200.0.1"
port = 8000
key = "flow"
[[engine]]
id = "near-1"
group = "near"
address = "10.1.1.1:8000"
address6 = "[fd00:1:1::1]:8000"
[[engine]]
id = "near-2"
group = "near"
address = "10.1.1.2:8000"
address6 = "[fd00:1:1::2]:8000"
[[engine]]
id = "far-1"
group = "far"
address = "10.2.1.1:8000"
address6 = "[fd00:2:1::1]:8000"
[[host]]
id = "host-a"
frontend = "A"
[[host]]
id = "host-b"
frontend = "B"
"#;

pub(crate) fn fleet() -> Fleet {
    parse(TEXT).expect("the fixture is a fleet file without faults")
}
