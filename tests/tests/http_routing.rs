//! Which engine a request goes to, and what happens when that engine is not there.
#![expect(clippy::unwrap_used, reason = "a suite stops at its first failure")]
mod http;

use std::{
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::{
    door::{Door, SECRET, chat, checked, config, post},
    engine::{Engine, Request, STREAM_HEAD, chunk, json},
};
use penstock_abi::{HashKey, conversation_key};

/// Engines that answer with their own number.
fn numbered(count: usize) -> Vec<Engine> {
    (0..count).map(|n| Engine::answering(json(&n.to_string()))).collect()
}

fn open(more: &str, engines: &[Engine]) -> Door {
    Door::open(config(more), &engines.iter().map(|engine| engine.address).collect::<Vec<_>>())
}

/// The engine for a key by the documented rule: slots dealt to the engines in turn.
fn expected(key: u64, engines: u64) -> String {
    (HashKey::expand(SECRET).of_key(key) % 64 % engines).to_string()
}

#[test]
fn a_conversation_reaches_the_engine_that_its_key_and_the_fleets_secret_give() {
    let engines = numbered(4);
    let door = open("", &engines);

    for n in 0..40 {
        let id = format!("conversation-{n}");
        let key = expected(conversation_key(&id), 4);
        for request in [
            post("/v1/chat/completions", &format!("X-Conversation-Id: {id}\r\n"), "{\"model\":\"m\"}"),
            post("/v1/completions", &format!("x-session-id: {id}\r\n"), "{\"model\":\"m\"}"),
            post("/v1/responses", "", &format!("{{\"model\":\"m\",\"conversation\":{{\"id\":\"{id}\"}}}}")),
            post("/v1/messages", "", &format!("{{\"prompt_cache_key\":\"{id}\",\"model\":\"m\"}}")),
            post("/v1/embeddings", "", &format!("{{\"model\":\"m\",\"user\":\"{id}\"}}")),
        ] {
            assert_eq!(door.ask(&request).text(), key, "{request}");
        }
    }
}

#[test]
fn a_key_of_16_hex_digits_is_the_key_that_the_packet_door_takes_from_the_address() {
    let engines = numbered(4);
    let door = open("", &engines);

    for key in [0_u64, 1, 0xfeed_beef_0000_0042, u64::MAX] {
        let headers = format!("x-conversation-id: {key:016x}\r\n");

        assert_eq!(door.ask(&post("/v1/x", &headers, "{\"model\":\"m\"}")).text(), expected(key, 4));
    }
}

#[test]
fn turns_of_a_conversation_share_an_engine_and_conversations_spread() {
    let engines = numbered(4);
    let door = open("", &engines);
    let ask = |question: usize, more: &str| {
        let body = format!(
            "{{\"model\":\"m\",\"messages\":[{{\"role\":\"system\",\"content\":\"You are helpful.\"}},\
             {{\"role\":\"user\",\"content\":\"Question {question}\"}}{more}]}}"
        );
        door.ask(&chat(&body)).text()
    };

    let mut counts = [0; 4];
    for question in 0..80 {
        let first = ask(question, "");
        let second = ask(
            question,
            ",{\"role\":\"assistant\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"y\"}",
        );
        assert_eq!(first, second);
        counts[first.parse::<usize>().unwrap()] += 1;
    }

    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn a_response_that_continues_another_stays_with_its_conversation() {
    let answer = |n: usize| format!("{{\"id\": \"resp_{n}\",\"n\":{n}}}");
    let engines: Vec<_> = (0..4).map(|n| Engine::answering(json(&answer(n)))).collect();
    let door = open("", &engines);

    for n in 0..10 {
        let first =
            door.ask(&post("/v1/responses", "", &format!("{{\"model\":\"m\",\"input\":\"question {n}\"}}")));
        let id: serde_json::Value = serde_json::from_slice(&first.body).unwrap();
        let id = id["id"].as_str().unwrap();
        let next = door.ask(&post(
            "/v1/responses",
            "",
            &format!("{{\"model\":\"m\",\"previous_response_id\":\"{id}\",\"input\":\"more\"}}"),
        ));

        assert_eq!(first.text(), next.text());
    }
}

#[test]
fn the_decision_is_explained_to_who_asks() {
    let engines = numbered(1);
    let door = open("", &engines);

    let asked = door.ask(&post(
        "/v1/x",
        "x-penstock-decision: 1\r\nx-session-id: 0000000000000007\r\n",
        "{\"model\":\"m\"}",
    ));
    let silent = door.ask(&chat("{\"model\":\"m\"}"));

    let slot = HashKey::expand(SECRET).of_key(7) % 64;
    assert_eq!(
        asked.header("x-penstock-decision").unwrap(),
        format!("key=header; slot={slot}; engine=engine-0; epoch=0.1; why=slot; class=chat")
    );
    assert!(silent.header("x-penstock-decision").is_none());
}

#[test]
fn classes_are_chosen_by_model_constraint_and_path() {
    let text = "listen = [{ address = \"127.0.0.1:0\" }]\nworkers = 1\nconstraint_headers = [\"x-residency\"]\n\
        [[class]]\nid = \"chat\"\nmodels = [\"m\"]\nlabels = [\"us\"]\npaths = [\"/asr\"]\n\
        [[class]]\nid = \"other\"\nmodels = [\"w\"]\n";
    let engines = numbered(1);
    let door = Door::open(checked(text), &[engines[0].address]);
    let status = |headers: &str, path: &str, body: &str| door.ask(&post(path, headers, body)).status;

    assert_eq!(status("x-residency: us\r\n", "/v1/x", "{\"model\":\"m\"}"), 200);
    assert_eq!(status("x-residency: eu\r\n", "/v1/x", "{\"model\":\"m\"}"), 403);
    assert_eq!(status("x-model: m\r\n", "/v1/x", "{}"), 200);
    assert_eq!(status("", "/asr/stream", "not json"), 200);
    assert_eq!(status("", "/v1/x", "{}"), 400);
    // Known, but without a table in the snapshot.
    assert_eq!(status("", "/v1/x", "{\"model\":\"w\"}"), 503);
}

#[test]
fn the_model_of_a_form_is_found_beside_its_file() {
    let engines = numbered(1);
    let door = Door::open(
        checked(
            "listen = [{ address = \"127.0.0.1:0\" }]\nworkers = 1\n[[class]]\nid = \"chat\"\nmodels = [\"whisper\"]\n",
        ),
        &[engines[0].address],
    );
    let body = format!(
        "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n{}\r\n--b\r\n\
         content-disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--b--\r\n",
        "\0".repeat(100_000)
    );
    let length = body.len();
    let head = format!("POST /v1/audio/transcriptions HTTP/1.1\r\nhost: d\r\ncontent-length: {length}\r\n");

    let response = door.ask(&format!("{head}content-type: multipart/form-data; boundary=b\r\n\r\n{body}"));

    assert_eq!(response.status, 200);
    assert_eq!(engines[0].requests()[0].body, body.as_bytes());
}

#[test]
fn the_models_of_all_classes_are_listed() {
    let door = open("", &numbered(1));

    let response = door.ask("GET /v1/models HTTP/1.1\r\nhost: d\r\n\r\n");

    let json: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    let ids: Vec<&str> =
        json["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((json["object"].as_str().unwrap(), ids), ("list", vec!["m", "m2"]));
}

#[test]
fn without_a_table_requests_are_refused_with_a_time_to_retry() {
    let door = Door::open_closed(config(""));

    let response = door.ask(&chat("{\"model\":\"m\"}"));

    assert_eq!((response.status, response.error_code().as_str()), (503, "no_engine"));
    assert_eq!(response.header("retry-after"), Some("1"));
}

/// An address where nobody listens.
fn nobody() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn an_engine_that_cannot_be_reached_costs_a_retry_elsewhere() {
    let engines = numbered(1);
    let door = Door::open(config(""), &[nobody(), engines[0].address]);

    for n in 0..4 {
        assert_eq!(door.ask(&chat(&format!("{{\"model\":\"m\",\"user\":\"{n}\"}}"))).status, 200);
    }
}

#[test]
fn an_engine_that_dies_before_its_first_body_byte_costs_a_retry_elsewhere_with_the_same_body() {
    let dying = Engine::start(|connection| {
        connection.request().unwrap();
        connection.send(STREAM_HEAD);
    });
    let engine =
        Engine::answering([STREAM_HEAD.to_vec(), chunk("data: 1\n\n"), b"0\r\n\r\n".to_vec()].concat());
    let door = Door::open(config(""), &[dying.address, engine.address]);

    for n in 0..8 {
        let body = format!("{{\"model\":\"m\",\"user\":\"{n}\"}}");
        let response = door.ask(&chat(&body));

        assert!(response.complete);
        assert_eq!(response.text(), "data: 1\n\n");
        assert_eq!(engine.requests().last().unwrap().body, body.as_bytes());
    }
    assert!(!dying.requests().is_empty());
}

#[test]
fn without_a_budget_there_is_one_attempt() {
    let engines = numbered(1);
    let door = Door::open(
        config("retry = { ratio = 0.0, floor_per_second = 0.0 }"),
        &[nobody(), engines[0].address],
    );

    let statuses: Vec<u16> =
        (0..16).map(|n| door.ask(&chat(&format!("{{\"model\":\"m\",\"user\":\"{n}\"}}"))).status).collect();

    assert!(statuses.contains(&502) && statuses.contains(&200), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), engines[0].requests().len());
}

#[test]
fn when_all_engines_fail_the_last_failure_is_told() {
    let door = Door::open(config(""), &[nobody(), nobody()]);

    let response = door.ask(&chat("{\"model\":\"m\"}"));

    assert_eq!((response.status, response.error_code().as_str()), (502, "engine_unreachable"));
}

#[test]
fn an_idle_connection_that_the_engine_closed_costs_one_safe_retry() {
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    // Each connection serves one request and dies in the middle of the second.
    let engine = Engine::start(|connection| {
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        if connection.request().is_some() {
            connection.send(json("{}").as_bytes());
            connection.head();
        }
    });
    let door = Door::open(config("retry = { ratio = 0.0, floor_per_second = 0.0 }"), &[engine.address]);
    let mut client = door.client();

    for _ in 0..5 {
        client.send(chat("{\"model\":\"m\"}").as_bytes());
        assert_eq!(client.response().status, 200);
    }

    assert_eq!(engine.requests().len(), 5);
    assert_eq!(CONNECTIONS.load(Ordering::Relaxed), 5);
}

#[test]
fn a_connection_carries_no_more_requests_than_configured() {
    let (count, bodies) = (AtomicUsize::new(0), "{\"model\":\"m\"}");
    let engine = Engine::start(move |connection| {
        let name = count.fetch_add(1, Ordering::Relaxed);
        while connection.request().is_some() {
            connection.send(json(&name.to_string()).as_bytes());
        }
    });
    let door = Door::open(config("upstream = { requests_per_connection = 2 }"), &[engine.address]);
    let mut client = door.client();

    let served: Vec<String> = (0..5)
        .map(|_| {
            client.send(chat(bodies).as_bytes());
            client.response().text()
        })
        .collect();

    assert_eq!(served, ["0", "0", "1", "1", "2"]);
}

#[test]
fn connections_are_opened_before_requests_need_them() {
    let (tell, heard) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let engine = Engine::start(move |connection| {
        tell.lock().unwrap().send(()).unwrap();
        connection.wait_closed();
    });

    let _door = Door::open(config("upstream = { warm_connections = 2 }"), &[engine.address]);

    for _ in 0..2 {
        heard.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }
}

#[test]
fn an_engine_that_answers_before_the_end_of_a_request_is_heard() {
    let engine = Engine::start(|connection| {
        connection.head().unwrap();
        connection.send(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 4\r\n\r\nlong");
        connection.wait_closed();
    });
    let door = Door::open(config("limits = { decision_bytes = 1024 }"), &[engine.address]);
    let mut client = door.client();

    client
        .send(b"POST /v1/x HTTP/1.1\r\nhost: d\r\ncontent-length: 10000000\r\n\r\n{\"model\":\"m\",\"x\":\"");
    while client.try_send(&[b'x'; 1000]) {
        if client.has_some() {
            break;
        }
    }
    let response = client.response();

    assert_eq!((response.status, response.text().as_str()), (413, "long"));
}

#[test]
fn requests_seen_by_engines_are_counted_once() {
    let engines = numbered(2);
    let door = open("", &engines);

    for n in 0..10 {
        door.ask(&chat(&format!("{{\"model\":\"m2\",\"user\":\"{n}\"}}")));
    }

    let seen: Vec<Request> = engines.iter().flat_map(Engine::requests).collect();
    assert_eq!(seen.len(), 10);
    let counted = || (door.metrics.requests_per_class() == [("chat".to_owned(), 10)]).then_some(());
    penstock_tests::eventually("ten requests", std::time::Duration::from_secs(20), counted).unwrap();
}
