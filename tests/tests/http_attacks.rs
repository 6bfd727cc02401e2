//! Malformed, oversized, slow and hostile input is refused, and never reaches an engine in another shape.
mod http;

use std::time::Duration;

use http::{
    door::{Door, chat, config, post},
    engine::{Engine, STREAM_HEAD, chunk, json},
};

/// What is refused before any engine is asked, with the status and the code of the answer.
#[track_caller]
fn refused(request: &str, status: u16, code: &str) {
    let engine = Engine::answering(json("{}"));
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();

    client.send(request.as_bytes());
    let response = client.response();

    assert_eq!((response.status, response.error_code().as_str()), (status, code), "{request:?}");
    assert!(client.is_closed(), "{request:?} leaves the connection open");
    assert_eq!(engine.requests().len(), 0, "{request:?} reached an engine");
}

const START: &str = "POST /v1/completions HTTP/1.1\r\nhost: d\r\n";

#[test]
fn a_length_beside_chunks_is_refused() {
    refused(
        &format!("{START}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        400,
        "malformed_head",
    );
    refused(
        &format!("{START}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"),
        400,
        "malformed_head",
    );
}

#[test]
fn lengths_that_are_doubled_or_malformed_are_refused() {
    for length in ["5\r\ncontent-length: 5", "5, 5", "+5", "0x5", "5 5", "-1", "99999999999999999999"] {
        refused(&format!("{START}content-length: {length}\r\n\r\nhello"), 400, "malformed_head");
    }
}

#[test]
fn other_transfer_encodings_are_refused() {
    for encoding in ["gzip, chunked", "identity", "chunked\r\ntransfer-encoding: chunked", "\tchunked\x0b"] {
        refused(&format!("{START}transfer-encoding: {encoding}\r\n\r\n0\r\n\r\n"), 400, "malformed_head");
    }
}

#[test]
fn folded_fields_and_blanks_before_a_colon_are_refused() {
    refused(&format!("{START}x-a: 1\r\n folded\r\n\r\n"), 400, "malformed_head");
    refused(&format!("{START}content-length : 0\r\n\r\n"), 400, "malformed_head");
}

#[test]
fn bare_line_feeds_and_carriage_returns_are_refused() {
    refused("GET / HTTP/1.1\nhost: d\n\n", 400, "malformed_head");
    refused(&format!("{START}x-a: 1\rcontent-length: 5\r\n\r\n"), 400, "malformed_head");
    refused(
        &format!("{START}transfer-encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"),
        400,
        "malformed_body",
    );
}

#[test]
fn chunk_extensions_and_wrong_chunk_ends_are_refused() {
    let chunked = format!("{START}transfer-encoding: chunked\r\n\r\n");

    refused(&format!("{chunked}5;a=b\r\nhello\r\n0\r\n\r\n"), 400, "malformed_body");
    refused(&format!("{chunked}3\r\nhello\r\n0\r\n\r\n"), 400, "malformed_body");
    refused(&format!("{chunked}FFFFFFFFFFFFFFFFF\r\n"), 400, "malformed_body");
}

#[test]
fn a_target_and_a_host_that_disagree_are_refused() {
    refused("GET http://a/ HTTP/1.1\r\nhost: b\r\n\r\n", 400, "malformed_head");
    refused("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400, "malformed_head");
    refused("GET / HTTP/1.1\r\n\r\n", 400, "malformed_head");
}

#[test]
fn heads_that_are_too_long_or_have_too_many_fields_are_refused() {
    refused(&format!("{START}x: {}\r\n\r\n", "y".repeat(40 << 10)), 431, "head_too_large");
    refused(&format!("{START}{}\r\n", "x: y\r\n".repeat(200)), 431, "head_too_large");
    refused(&format!("GET /{}", "a".repeat(40 << 10)), 431, "head_too_large");
}

#[test]
fn the_next_request_is_not_hidden_in_a_body() {
    let engine = Engine::answering(json("{}"));
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();
    let inner = "GET /admin HTTP/1.1\r\nhost: d\r\n\r\n";

    client.send(post("/v1/completions", "", &format!("{{\"model\":\"m\"}}{inner}")).as_bytes());
    assert_eq!(client.response().status, 200);
    client.send(chat("{\"model\":\"m\"}").as_bytes());
    assert_eq!(client.response().status, 200);

    let heads: Vec<_> = engine.requests().iter().map(|request| request.head.clone()).collect();
    assert_eq!(heads.len(), 2);
    assert!(heads.iter().all(|head| !head.contains("admin")));
}

#[test]
fn a_head_that_trickles_in_is_given_up() {
    let door = Door::open(config("limits = { head_timeout_ms = 300 }"), &[Engine::answering("").address]);
    let mut client = door.client();

    client.send(b"GET / HTTP/1.1\r\n");
    let response = client.response();

    assert_eq!((response.status, response.error_code().as_str()), (408, "request_timeout"));
    assert!(client.is_closed());
}

#[test]
fn a_body_that_stops_is_given_up() {
    let engine = Engine::answering(json("{}"));
    let door = Door::open(config("limits = { body_timeout_ms = 300 }"), &[engine.address]);
    let mut client = door.client();

    client.send(format!("{START}content-length: 100\r\n\r\n{{").as_bytes());
    let response = client.response();

    assert_eq!((response.status, response.error_code().as_str()), (408, "request_timeout"));
    assert_eq!(engine.requests().len(), 0);
}

#[test]
fn an_idle_connection_is_closed() {
    let door =
        Door::open(config("limits = { idle_timeout_ms = 300 }"), &[Engine::answering(json("{}")).address]);
    let mut client = door.client();

    client.send(chat("{\"model\":\"m\"}").as_bytes());

    assert_eq!(client.response().status, 200);
    assert!(client.is_closed());
}

#[test]
fn a_client_that_does_not_read_is_given_up_and_its_engine_freed() {
    let (gone, freed) = std::sync::mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let engine = Engine::start(move |connection| {
        connection.request().unwrap();
        connection.send(STREAM_HEAD);
        let piece = chunk(&"x".repeat(1 << 20));
        while connection.try_send(&piece) {}
        gone.lock().unwrap().send(()).unwrap();
    });
    let door = Door::open(config("limits = { write_timeout_ms = 300 }"), &[engine.address]);
    let mut client = door.client();

    client.send(chat("{\"model\":\"m\"}").as_bytes());

    freed.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn deep_json_is_routed_or_refused_as_configured() {
    let body = format!("{{\"x\":{}{},\"model\":\"m\"}}", "[".repeat(100_000), "]".repeat(100_000));
    let engine = Engine::answering(json("{}"));
    let lenient = Door::open(config(""), &[engine.address]);
    let strict = Door::open(config("unreadable_body = \"refuse\""), &[engine.address]);

    assert_eq!(lenient.ask(&chat(&body)).status, 200);
    assert_eq!(engine.requests()[0].body, body.as_bytes());
    let refused = strict.ask(&chat(&body));
    assert_eq!((refused.status, refused.error_code().as_str()), (400, "unreadable_body"));
}

#[test]
fn what_is_not_json_or_not_utf_8_is_routed_or_refused_as_configured() {
    let engine = Engine::answering(json("{}"));
    let lenient = Door::open(config(""), &[engine.address]);
    let strict = Door::open(config("unreadable_body = \"refuse\""), &[engine.address]);
    let mut client = lenient.client();

    client.send(b"POST /tokenize HTTP/1.1\r\nhost: d\r\ncontent-length: 11\r\n\r\n{\"a\":\"\xff\xfe\0\"}");
    assert_eq!(client.response().status, 200);
    assert_eq!(engine.requests()[0].body, b"{\"a\":\"\xff\xfe\0\"}");
    assert_eq!(lenient.ask(&chat("hello")).status, 200);
    assert_eq!(strict.ask(&chat("hello")).error_code(), "unreadable_body");
}

#[test]
fn a_model_that_nobody_serves_is_answered_with_the_known_names() {
    let engine = Engine::answering(json("{}"));
    let door = Door::open(config(""), &[engine.address]);

    let response = door.ask(&chat("{\"model\":\"gpt-9\"}"));

    assert_eq!((response.status, response.error_code().as_str()), (404, "model_not_found"));
    assert!(response.text().contains("known: m, m2"));
    assert_eq!(engine.requests().len(), 0);
}

#[test]
fn engines_that_answer_garbage_are_named_to_the_client() {
    for answer in [
        &b"SSH-2.0-OpenSSH_9.2\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nab",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\nx: y\n\n",
    ] {
        let door = Door::open(config(""), &[Engine::answering(answer).address]);

        let response = door.ask(&chat("{\"model\":\"m\"}"));

        assert_eq!((response.status, response.error_code().as_str()), (502, "engine_garbage"), "{answer:?}");
    }
}

#[test]
fn bytes_after_an_answer_are_not_taken_for_the_next_one() {
    let engine =
        Engine::answering(format!("{}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged", json("{}")));
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();

    for _ in 0..3 {
        client.send(chat("{\"model\":\"m\"}").as_bytes());
        assert_eq!(client.response().text(), "{}");
    }
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let door = Door::open(config("limits = { connections = 1 }"), &[Engine::answering(json("{}")).address]);
    let mut first = door.client();
    first.send(chat("{\"model\":\"m\"}").as_bytes());
    assert_eq!(first.response().status, 200);

    let mut second = door.client();

    assert!(second.is_closed());
    assert!(door.metrics.render().contains("penstock_http_connections_refused_total 1"));
}
