//! Nothing of a request or an answer is lost or changed on its way through the HTTP door.
mod http;

use http::{
    door::{Door, chat, config, post},
    engine::{Engine, STREAM_HEAD, chunk, json},
};

#[test]
fn bodies_and_fields_pass_unchanged_in_both_directions() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nX-Request-Id: from-engine\r\n\
        X-Custom: kept \u{e9}\r\ncontent-length: 17\r\n\r\n{\"a\" :  1,\"a\":\t2}";
    let engine = Engine::answering(answer);
    let door = Door::open(config(""), &[engine.address]);
    let body = "{\"model\":\"m\", \"kv_transfer_params\":{\"x\":[1,2]},\"cache_salt\":\"s\",\"priority\":-3 ,\n\"messages\":[]}";
    let headers = "X-Stainless-Lang: js\r\nX-Stainless-Retry-Count: 0\r\ntraceparent: 00-1-2-01\r\n\
        tracestate: a=b\r\nAuthorization: Bearer k\r\nAccept-Encoding: gzip\r\n";

    let response = door.ask(&post("/v1/chat/completions?beta=1", headers, body));

    let seen = &engine.requests()[0];
    assert!(seen.head.starts_with("POST /v1/chat/completions?beta=1 HTTP/1.1\r\n"));
    for line in headers.split_terminator("\r\n") {
        assert!(seen.has(line), "{line} in {}", seen.head);
    }
    assert_eq!(seen.body, body.as_bytes());
    assert_eq!(response.text(), "{\"a\" :  1,\"a\":\t2}");
    assert!(response.has("X-Request-Id: from-engine") && response.has("X-Custom: kept \u{e9}"));
    assert_eq!(response.head.matches("equest-").count(), 1, "one request id: {}", response.head);
}

#[test]
fn gzip_passes_untouched() {
    let bytes = [0x1f, 0x8b, 8, 0, 0xff, 0, 13, 10, 13, 10, 0, 1, 2];
    let mut answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 13\r\n\r\n".to_vec();
    answer.extend_from_slice(&bytes);
    let engine = Engine::answering(answer);
    let door = Door::open(config(""), &[engine.address]);

    let response = door.ask(&chat("{\"model\":\"m\"}"));

    assert!(response.has("content-encoding: gzip"));
    assert_eq!(response.body, bytes);
}

#[test]
fn retry_after_and_status_of_an_overloaded_engine_reach_the_client_after_one_attempt() {
    for status in ["429 Too Many Requests", "503 Service Unavailable", "500 Internal Server Error"] {
        let engine =
            Engine::answering(format!("HTTP/1.1 {status}\r\nRetry-After: 7\r\ncontent-length: 2\r\n\r\nno"));
        let other = Engine::answering(json("{}"));
        let door = Door::open(config(""), &[engine.address, engine.address, other.address]);
        let mut asked = 0;

        let response = loop {
            let response = door.ask(&chat(&format!("{{\"model\":\"m\",\"user\":\"u{asked}\"}}")));
            asked += 1;
            if response.status != 200 {
                break response;
            }
        };

        assert!(status.starts_with(&response.status.to_string()));
        assert!(response.has("Retry-After: 7"));
        assert_eq!(engine.requests().len(), 1, "{status}");
        assert_eq!(engine.requests().len() + other.requests().len(), asked);
    }
}

#[test]
fn trailers_pass_in_both_directions() {
    let answer = "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 9\r\n\r\n";
    let engine = Engine::start(move |connection| {
        let head = connection.head().unwrap();
        assert!(head.contains("transfer-encoding: chunked"));
        connection.send(answer.as_bytes());
        connection.wait_closed();
    });
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();

    client.send(b"POST /v1/completions HTTP/1.1\r\nhost: d\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(b"d\r\n{\"model\":\"m\"}\r\n0\r\nx-sum: 1\r\n\r\n");
    let response = client.response();

    assert!(response.has("trailer: x-sum"));
    assert_eq!((response.text().as_str(), response.trailers.as_str()), ("hi", "x-sum: 9\r\n"));
}

#[test]
fn each_chunk_of_a_stream_reaches_the_client_before_the_next_is_sent() {
    let (go_on, wait) = http::engine::gate();
    let engine = Engine::start(move |connection| {
        while connection.request().is_some() {
            connection.send(STREAM_HEAD);
            for n in 0..20 {
                connection.send(&chunk(&format!("data: {n}\n\n")));
                wait.lock().unwrap().recv().unwrap();
            }
            connection.send(b"0\r\n\r\n");
        }
    });
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();

    client.send(chat("{\"model\":\"m\",\"stream\":true}").as_bytes());
    let head = client.head();

    assert!(head.contains("content-type: text/event-stream"));
    for n in 0..20 {
        let expected = chunk(&format!("data: {n}\n\n"));
        assert_eq!(client.read(expected.len()), expected);
        go_on.send(()).unwrap();
    }
    assert_eq!(client.read(5), b"0\r\n\r\n");
}

#[test]
fn a_body_of_100_megabytes_passes_while_it_arrives() {
    const PIECE: usize = 1 << 20;
    let engine = Engine::start(|connection| {
        let request = connection.request().unwrap();
        let sum: u64 = request.body.iter().map(|byte| u64::from(*byte)).sum();
        connection.send(json(&format!("{{\"bytes\":{},\"sum\":{sum}}}", request.body.len())).as_bytes());
        connection.wait_closed();
    });
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();
    let start = "{\"model\":\"m\",\"image\":\"";

    let length = start.len() + 100 * PIECE;
    client.send(
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: d\r\ncontent-length: {length}\r\n\r\n{start}")
            .as_bytes(),
    );
    for _ in 0..100 {
        client.send(&vec![b'x'; PIECE]);
    }
    let response = client.response();

    let start_sum: u64 = start.bytes().map(u64::from).sum();
    let sum = start_sum + 100 * (PIECE as u64) * u64::from(b'x');
    assert_eq!(response.text(), format!("{{\"bytes\":{length},\"sum\":{sum}}}"));
}

#[test]
fn a_client_that_expects_100_is_told_to_continue_and_the_engine_is_not_asked() {
    let engine = Engine::answering(json("{}"));
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();

    client.send(
        b"POST /v1/completions HTTP/1.1\r\nhost: d\r\nexpect: 100-continue\r\ncontent-length: 13\r\n\r\n",
    );
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send(b"{\"model\":\"m\"}");

    assert_eq!(client.response().status, 200);
    assert!(!engine.requests()[0].head.contains("expect"));
}

#[test]
fn requests_in_a_row_on_one_connection_are_answered_in_order() {
    let engine = Engine::start(|connection| {
        while let Some(request) = connection.request() {
            connection.send(json(&String::from_utf8(request.body).unwrap()).as_bytes());
        }
    });
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();
    let bodies: Vec<String> = (0..20).map(|n| format!("{{\"model\":\"m\",\"n\":{n}}}")).collect();

    client.send(bodies.iter().map(|body| chat(body)).collect::<String>().as_bytes());

    for body in &bodies {
        assert_eq!(client.response().text(), *body);
    }
}

#[test]
fn an_answer_that_ends_with_the_connection_gets_a_clean_end() {
    let engine = Engine::start(|connection| {
        connection.request().unwrap();
        connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nuntil the end");
    });
    let door = Door::open(config(""), &[engine.address]);

    let response = door.ask(&chat("{\"model\":\"m\"}"));

    assert!(response.complete && response.has("transfer-encoding: chunked"));
    assert_eq!(response.text(), "until the end");
}

#[test]
fn a_client_of_http_1_0_gets_its_answer_without_chunks() {
    let mut answer = STREAM_HEAD.to_vec();
    answer.extend_from_slice(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    let engine = Engine::answering(answer);
    let door = Door::open(config(""), &[engine.address]);

    let response = door.ask("GET /v1/x HTTP/1.0\r\n\r\n");

    assert_eq!(response.text(), "abcde");
    assert!(!response.head.contains("chunked") && response.has("connection: close"));
}

#[test]
fn an_answer_to_head_and_answers_without_a_body_end_with_their_head() {
    let engine = Engine::start(|connection| {
        while let Some(request) = connection.request() {
            let answer = if request.head.starts_with("HEAD") {
                &b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"[..]
            } else {
                b"HTTP/1.1 204 No Content\r\n\r\n"
            };
            connection.send(answer);
        }
    });
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();

    client.send(b"HEAD /v1/x HTTP/1.1\r\nhost: d\r\n\r\n");
    assert!(client.head().contains("content-length: 500"));
    client.send(b"DELETE /v1/x HTTP/1.1\r\nhost: d\r\n\r\n");
    assert_eq!(client.response().status, 204);
}
