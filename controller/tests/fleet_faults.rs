//! Each fault of a fleet file is named by line and key, whatever else is faulty.
use penstock_controller::fleet::{self, Fleet};

const TALK: &str = include_str!("../../examples/talk.toml");

/// A change to the example, and the fault that it brings: the line that holds `place` after the change, key and text.
struct Case {
    sentence: &'static str,
    from: &'static str,
    to: &'static str,
    place: &'static str,
    key: &'static str,
    text: &'static str,
}

const fn case(
    sentence: &'static str,
    (from, to): (&'static str, &'static str),
    place: &'static str,
    key: &'static str,
    text: &'static str,
) -> Case {
    Case { sentence, from, to, place, key, text }
}

const CASES: &[Case] = &[
    case(
        "an unknown key is refused",
        ("headroom = 0.05", "headroom = 0.05\ncolour = 1"),
        "colour",
        "colour",
        "unknown field `colour`",
    ),
    case(
        "a key of an earlier draft is refused with its new name",
        ("mean_prompt_tokens = 600", "prompt_tokens = 600"),
        "prompt_tokens = 600",
        "class[0].prompt_tokens",
        "is called `mean_prompt_tokens` here",
    ),
    case(
        "a NaN is refused",
        ("mean_prompt_tokens = 600", "mean_prompt_tokens = nan"),
        "= nan",
        "class[0].mean_prompt_tokens",
        "NaN is not a finite number",
    ),
    case(
        "an infinite capacity is refused",
        ("capacity_rps = 20.0", "capacity_rps = inf"),
        "= inf",
        "profile[0].capacity_rps",
        "inf is not a finite number",
    ),
    case(
        "a negative demand is refused",
        ("rps = 90.0", "rps = -90.0"),
        "rps = -90.0",
        "demand[0].rps",
        "-90 is negative",
    ),
    case(
        "no capacity is not a profile",
        ("capacity_rps = 20.0", "capacity_rps = 0.0"),
        "capacity_rps = 0.0",
        "profile[0].capacity_rps",
        "must be above 0",
    ),
    case(
        "a headroom of all capacity is refused",
        ("headroom = 0.05", "headroom = 1.0"),
        "headroom = 1.0",
        "headroom",
        "must be below 1",
    ),
    case(
        "a priority beyond 3 is refused",
        ("priority = 1 ", "priority = 4 "),
        "priority = 4",
        "class[0].priority",
        "4 is outside 0 to 3",
    ),
    case(
        "a site that is not there is refused",
        ("id = \"C\"\nsite = \"region-3\"", "id = \"C\"\nsite = \"region-9\""),
        "site = \"region-9\"",
        "frontend[2].site",
        "there is no site \"region-9\"",
    ),
    case(
        "a round trip given twice and differently is refused at the later line",
        ("region-2.region-3 = 40.0", "region-2.region-3 = 40.0\nregion-3.region-1 = 91.0"),
        "region-3.region-1",
        "rtt_ms.region-3.region-1",
        "is 91 ms, but line 16 says 90 ms",
    ),
    case(
        "a round trip that traffic needs and nobody gives is named",
        (
            "region-2.region-3 = 40.0",
            "region-2.region-3 = 40.0\n[[site]]\nid = \"region-4\"\n[[frontend]]\nid = \"D\"\nsite = \"region-4\"\nnat_prefix = \"fd5e:d::/32\"",
        ),
        "site = \"region-4\"",
        "frontend[0].site",
        "needs the round trip to site \"region-1\": give rtt_ms.region-4.region-1",
    ),
    case(
        "a class that no group serves is refused",
        ("require = [] ", "require = [\"eu\"] "),
        "[[class]]",
        "class[0]",
        "no engine group serves model \"chat-70b\" with labels [\"eu\"]",
    ),
    case(
        "a profile that is not there is refused",
        ("profile = \"h100-tp4\"\nreplicas = 4", "profile = \"h200\"\nreplicas = 4"),
        "profile = \"h200\"",
        "engine_group[2].profile",
        "there is no profile \"h200\"",
    ),
    case(
        "replicas that contradict the engines listed are refused",
        ("replicas = 4", "replicas = 5\n# "),
        "replicas = 5\n# ",
        "engine_group[2].replicas",
        "is 5, but 4 [[engine]] entries name this group",
    ),
    case(
        "points that do not advance are refused",
        ("{ utilisation = 0.8, ", "{ utilisation = 0.5, "),
        "{ utilisation = 0.5,  ttft_ms = 260.0",
        "profile[0].points[2].utilisation",
        "utilisation 0.5 does not come after 0.5",
    ),
    case(
        "points that end below full utilisation are refused",
        ("{ utilisation = 1.0,  ttft_ms = 900.0, itl_ms = 40.0 },", ""),
        "{ utilisation = 0.9, ",
        "profile[0].points[3].utilisation",
        "must be at utilisation 1 or above, not 0.9",
    ),
    case(
        "latency that falls with load is refused",
        ("ttft_ms = 260.0", "ttft_ms = 26.0"),
        "ttft_ms = 26.0",
        "profile[0].points[2].ttft_ms",
        "falls from 160 to 26",
    ),
    case(
        "an engine's id given twice is refused",
        ("id = \"engine-c-4\"", "id = \"engine-c-3\""),
        "id = \"engine-c-3\"\ngroup = \"engine-c\"\naddress = \"10.3.1.4",
        "engine[13].id",
        "\"engine-c-3\" stands on line",
    ),
    case(
        "an engine's address given twice is refused",
        ("address = \"10.3.1.4:8000\"", "address = \"10.3.1.3:8000\""),
        "address = \"10.3.1.3:8000\"\naddress6 = \"[fd00:3:1::4",
        "engine[13].address",
        "\"10.3.1.3:8000\" stands on line",
    ),
    case(
        "a host of an unknown frontend is refused",
        ("id = \"host-c\"\nfrontend = \"C\"", "id = \"host-c\"\nfrontend = \"Z\""),
        "frontend = \"Z\"",
        "host[2].frontend",
        "there is no frontend \"Z\"",
    ),
    case(
        "a service of an unknown class is refused",
        ("id = \"chat-v4\"\nclass = \"chat\"", "id = \"chat-v4\"\nclass = \"chit\""),
        "class = \"chit\"",
        "service[1].class",
        "there is no class \"chit\"",
    ),
    case(
        "the address cannot be the key of a single address",
        ("key = \"flow\"", "key = \"address\" # v4"),
        "key = \"address\" # v4",
        "service[1].key",
        "`address` as key needs a /64 as vip",
    ),
    case(
        "a second IPv4 VIP on one engine's address and port is refused for dnat",
        (
            "[[engine]]\nid = \"engine-a-1\"",
            "[[service]]\nid = \"again\"\nclass = \"chat\"\nvip = \"10.200.0.2\"\nport = 8000\n[[engine]]\nid = \"engine-a-1\"",
        ),
        "[[service]]\nid = \"again\"",
        "service[2].forwarding",
        "IPv4 dnat reaches engine \"engine-a-1\" through service \"chat-v4\" already",
    ),
    case(
        "a VIP inside another service's /64 is refused",
        (
            "[[engine]]\nid = \"engine-a-1\"",
            "[[service]]\nid = \"again\"\nclass = \"chat\"\nvip = \"fd0c:1::5\"\nport = 8000\n[[engine]]\nid = \"engine-a-1\"",
        ),
        "[[service]]\nid = \"again\"",
        "service[2].vip",
        "overlaps fd0c:1::/64 of service \"chat\"",
    ),
    case(
        "a port that only a rewrite could change is refused elsewhere",
        (
            "port = 8000\nprotocol = \"tcp\"\nkey = \"flow\"\nforwarding = \"dnat\"",
            "port = 9000\nprotocol = \"tcp\"\nkey = \"flow\"\nforwarding = \"ipip\"",
        ),
        "[[service]]\nid = \"chat-v4\"",
        "service[1].port",
        "is 9000, but engine \"engine-a-1\" listens on 8000",
    ),
    case(
        "a VIP that is an engine's address is refused",
        ("vip = \"10.200.0.1\"", "vip = \"10.1.1.1\""),
        "[[service]]\nid = \"chat-v4\"",
        "service[1].vip",
        "is also the address of engine \"engine-a-1\"",
    ),
    case(
        "an IPv6 service with dnat needs a prefix at every frontend",
        ("site = \"region-3\"\nnat_prefix = \"fd5e:c::/32\"", "site = \"region-3\""),
        "[[service]]                   #",
        "service[0].forwarding",
        "frontend \"C\" needs a nat_prefix",
    ),
    case(
        "two frontends cannot share a prefix",
        ("nat_prefix = \"fd5e:c::/32\"", "nat_prefix = \"fd5e:b::/32\" # C"),
        "nat_prefix = \"fd5e:b::/32\" # C",
        "frontend[2].nat_prefix",
        "is also the nat_prefix of frontend \"B\"",
    ),
    case(
        "an option of another kind of key is refused",
        ("key = \"flow\"", "key = \"flow\"\nsource_prefix4 = 24"),
        "source_prefix4",
        "service[1].source_prefix4",
        "only goes with key = \"source\"",
    ),
    case(
        "a policy that does not exist is refused",
        ("[[host]]\nid = \"host-a\"", "[controller]\npolicy = \"random\"\n[[host]]\nid = \"host-a\""),
        "policy = \"random\"",
        "controller.policy",
        "\"random\" is not one of optimizer, feedback, nearest, round-robin, least-loaded",
    ),
];

fn changed(case: &Case) -> String {
    assert_eq!(TALK.matches(case.from).count(), 1, "{}: the example changed", case.sentence);
    TALK.replacen(case.from, case.to, 1)
}

#[test]
fn every_kind_of_fault_names_its_line_and_key() {
    for case in CASES {
        let text = changed(case);
        let at = text.find(case.place).unwrap_or_else(|| panic!("{}: no {:?}", case.sentence, case.place));
        let line = text[..at].matches('\n').count() + 1;

        let faults = fleet::parse(&text).expect_err(case.sentence).0;

        let found = faults.iter().find(|fault| fault.key == case.key);
        let fault = found.unwrap_or_else(|| panic!("{}: {faults:?}", case.sentence));
        assert_eq!(fault.line, line, "{}", case.sentence);
        assert!(fault.kind.to_string().contains(case.text), "{}: {fault}", case.sentence);
    }
}

#[test]
fn a_single_mistake_is_a_single_fault() {
    // A new service meets every engine, and an unknown site misses its round trips: those name several.
    let several = ["through service", "needs the round trip", "listens on"];
    for case in CASES.iter().filter(|case| !several.iter().any(|text| case.text.contains(text))) {
        let faults = fleet::parse(&changed(case)).expect_err(case.sentence).0;

        assert_eq!(faults.len(), 1, "{}: {faults:?}", case.sentence);
    }
}

#[test]
fn faults_of_one_file_are_reported_together_in_order() {
    let text = TALK
        .replace("headroom = 0.05", "headroom = 0.05\ncolour = 1")
        .replace("priority = 1 ", "priority = 4 ")
        .replace("rps = 40.0", "rps = \"forty\"");

    let faults = fleet::parse(&text).unwrap_err().0;

    let keys: Vec<&str> = faults.iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(keys, ["colour", "class[0].priority", "demand[2].rps"]);
    assert!(faults.is_sorted_by_key(|fault| fault.line));
}

#[test]
fn text_that_is_not_toml_is_a_fault_of_its_line() {
    let faults = fleet::parse("headroom = 0.05\nsite = [\n").unwrap_err().0;

    assert_eq!(faults[0].key, "");
    assert!(faults.iter().all(|fault| fault.line >= 2), "{faults:?}");
}

#[test]
fn the_examples_have_no_faults_and_count_engines_as_replicas() {
    let talk = fleet::parse(TALK).unwrap();
    let mixed = fleet::parse(include_str!("../../examples/mixed.toml")).unwrap();

    let replicas = |fleet: &Fleet| fleet.groups.iter().map(|group| group.replicas).collect::<Vec<_>>();
    assert_eq!(replicas(&talk), [5, 5, 4]);
    assert_eq!(replicas(&mixed), [6, 3, 3, 2]);
    assert_eq!(talk.engines.len(), 14);
    // Without a reference of its own, the profile takes its model's first class: 600 and 100 tokens.
    assert_eq!(talk.profiles[0].reference.output.get(), 100.0);
    assert_eq!(talk.rtt(&"region-3".into(), &"region-1".into()).unwrap().get(), 90.0);
    assert_eq!(talk.rtt(&"region-3".into(), &"region-3".into()).unwrap().get(), 0.5);
}
