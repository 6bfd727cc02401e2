//! Streams that break, clients that leave, and a door that closes.
mod http;

use std::{
    sync::{Mutex, mpsc::channel},
    thread,
    time::Duration,
};

use http::{
    door::{Door, chat, config, snapshot},
    engine::{Engine, STREAM_HEAD, chunk, json},
};

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_client_that_leaves_during_prefill_cancels_the_engines_work() {
    let (tell, heard) = channel();
    let tell = Mutex::new(tell);
    let engine = Engine::start(move |connection| {
        connection.request().unwrap();
        tell.lock().unwrap().send("asked").unwrap();
        connection.wait_closed();
        tell.lock().unwrap().send("closed").unwrap();
    });
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();
    client.send(chat("{\"model\":\"m\",\"stream\":true}").as_bytes());
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), "asked");

    drop(client);

    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), "closed");
}

#[test]
fn a_client_that_leaves_mid_stream_cancels_the_engines_work() {
    let (tell, heard) = channel();
    let tell = Mutex::new(tell);
    let engine = Engine::start(move |connection| {
        connection.request().unwrap();
        connection.send(STREAM_HEAD);
        connection.send(&chunk("data: 1\n\n"));
        connection.wait_closed();
        tell.lock().unwrap().send(()).unwrap();
    });
    let door = Door::open(config(""), &[engine.address]);
    let mut client = door.client();
    client.send(chat("{\"model\":\"m\",\"stream\":true}").as_bytes());
    client.head();

    drop(client);

    heard.recv_timeout(LIMIT).unwrap();
}

/// An engine that sends these bytes of a stream and dies.
fn dying(bytes: Vec<u8>) -> Engine {
    Engine::start(move |connection| {
        if connection.request().is_some() {
            connection.send(STREAM_HEAD);
            connection.send(&bytes);
        }
    })
}

#[test]
fn an_engines_death_mid_stream_is_an_error_event_and_a_broken_end() {
    let whole = chunk("data: 1\n\n");
    // Between chunks, before a chunk's CR LF, within a chunk's data, and within a long chunk.
    let cut = |at: usize| whole.iter().chain(&whole[..at]).copied().collect::<Vec<u8>>();
    let mut long = whole.clone();
    long.extend_from_slice(b"ffff\r\ndata: a long");
    for bytes in [cut(0), cut(whole.len() - 2), cut(6), long] {
        let engine = dying(bytes.clone());
        let door = Door::open(config("retry = { attempts = 1 }"), &[engine.address]);
        let mut client = door.client();

        client.send(chat("{\"model\":\"m\",\"stream\":true}").as_bytes());
        let response = client.response();

        assert!(!response.complete, "{bytes:?}");
        let text = response.text();
        let event = text.split("\n\n").find_map(|event| event.strip_prefix("event: error\ndata: "));
        let error: serde_json::Value = serde_json::from_str(event.expect(&text)).unwrap();
        assert_eq!(error["error"]["code"], "engine_closed");
        assert!(text.starts_with("data: 1\n\n") && !text.contains("[DONE]"));
        assert!(client.is_closed());
    }
}

#[test]
fn an_answer_of_a_length_that_is_cut_short_is_not_completed() {
    let engine = Engine::start(|connection| {
        connection.request().unwrap();
        connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"half\":",
        );
    });
    let door = Door::open(config(""), &[engine.address]);

    let response = door.ask(&chat("{\"model\":\"m\"}"));

    assert!(!response.complete);
    assert_eq!(response.text(), "{\"half\":");
}

#[test]
fn a_stream_that_stalls_is_ended_with_an_error_event() {
    let engine = Engine::start(|connection| {
        connection.request().unwrap();
        connection.send(STREAM_HEAD);
        connection.send(&chunk("data: 1\n\n"));
        connection.wait_closed();
    });
    let door = Door::open(config("upstream = { stream_timeout_ms = 300 }"), &[engine.address]);

    let response = door.ask(&chat("{\"model\":\"m\",\"stream\":true}"));

    assert!(!response.complete && response.text().contains("engine_timeout"));
}

#[test]
fn an_engine_that_never_answers_is_a_timeout_of_the_gateway() {
    let engine = Engine::start(|connection| {
        connection.request().unwrap();
        connection.wait_closed();
    });
    let door = Door::open(config("upstream = { response_timeout_ms = 300 }"), &[engine.address]);

    let response = door.ask(&chat("{\"model\":\"m\"}"));

    assert_eq!((response.status, response.error_code().as_str()), (504, "engine_timeout"));
    assert_eq!(engine.requests().len(), 1);
}

#[test]
fn shutdown_lets_a_stream_end_and_closes_idle_connections() {
    let (go_on, wait) = http::engine::gate();
    let engine = Engine::start(move |connection| {
        connection.request().unwrap();
        connection.send(STREAM_HEAD);
        connection.send(&chunk("data: 1\n\n"));
        wait.lock().unwrap().recv().unwrap();
        connection.send(&chunk("data: [DONE]\n\n"));
        connection.send(b"0\r\n\r\n");
    });
    let mut door = Door::open(config(""), &[engine.address]);
    let (mut idle, mut busy) = (door.client(), door.client());
    busy.send(chat("{\"model\":\"m\",\"stream\":true}").as_bytes());
    busy.head();

    let server = door.server.take().unwrap();
    let closing = thread::spawn(move || server.shutdown(LIMIT));
    assert!(idle.is_closed());
    go_on.send(()).unwrap();
    let first = chunk("data: 1\n\n");
    let last = chunk("data: [DONE]\n\n");

    assert_eq!(busy.read(first.len() + last.len() + 5), [first, last, b"0\r\n\r\n".to_vec()].concat());
    closing.join().unwrap();
    assert!(std::net::TcpStream::connect(door.address).is_err());
}

#[test]
fn a_million_chunks_are_whole_while_snapshots_change_and_engines_drain() {
    const STREAMS: usize = 50;
    const EVENTS: usize = 20_000;
    /// Chunks that an engine sends at once.
    const BATCH: usize = 50;
    let script = |connection: &mut http::engine::Connection| {
        while let Some(request) = connection.request() {
            let name = String::from_utf8(request.body).unwrap();
            connection.send(STREAM_HEAD);
            for first in (0..EVENTS).step_by(BATCH) {
                let batch = (first..first + BATCH).map(|n| chunk(&format!("data: {n} of {name}\n\n")));
                connection.send(&batch.collect::<Vec<_>>().concat());
            }
            connection.send(b"0\r\n\r\n");
        }
    };
    let engines = [Engine::start(script), Engine::start(script), Engine::start(script)];
    let addresses = engines.each_ref().map(|engine| engine.address);
    let door = Door::open(config(""), &addresses);

    thread::scope(|scope| {
        let streams: Vec<_> = (0..STREAMS)
            .map(|n| {
                let door = &door;
                scope.spawn(move || {
                    let body = format!("{{\"model\":\"m\",\"user\":\"{n}\"}}");
                    let response = door.ask(&chat(&body));
                    let expected: String =
                        (0..EVENTS).map(|event| format!("data: {event} of {body}\n\n")).collect();
                    assert!(response.complete);
                    assert!(response.text() == expected, "stream {n} differs");
                })
            })
            .collect();
        let mut counter = 2;
        while !streams.iter().all(thread::ScopedJoinHandle::is_finished) {
            let mut next = snapshot(counter, &addresses);
            let shift = usize::try_from(counter).unwrap();
            next.tables[0].slots.rotate_left(shift % 3);
            next.engines[shift % 3].state = penstock_wire::EngineState::Draining;
            door.install(&next);
            counter += 1;
            thread::park_timeout(Duration::from_millis(5));
        }
    });

    let served: Vec<usize> = engines.iter().map(|engine| engine.requests().len()).collect();
    assert_eq!(served.iter().sum::<usize>(), STREAMS, "{served:?}");
}

#[test]
fn time_to_first_token_tokens_and_answers_are_exported() {
    let engine = Engine::start(|connection| {
        while connection.request().is_some() {
            connection.send(STREAM_HEAD);
            for n in 0..5 {
                connection.send(&chunk(&format!("data: {{\"n\":{n}}}\n\n")));
            }
            connection.send(&chunk("data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n"));
            connection.send(&chunk("data: [DONE]\n\n"));
            connection.send(b"0\r\n\r\n");
        }
    });
    let door = Door::open(config(""), &[engine.address]);

    let response = door.ask(&chat("{\"model\":\"m\",\"stream\":true}"));
    assert!(response.header("server-timing").unwrap().contains("engine;dur="));
    assert!(response.header("x-request-id").is_some());

    let labels = "engine=\"engine-0\",class=\"chat\",model=\"m\"";
    let wanted = [
        format!("penstock_http_ttft_seconds_count{{{labels}}} 1"),
        format!("penstock_http_responses_total{{{labels},status=\"2xx\"}} 1"),
        format!("penstock_http_tokens_total{{{labels},kind=\"prompt\"}} 7"),
        format!("penstock_http_tokens_total{{{labels},kind=\"output\"}} 5"),
    ];
    let shown = || {
        let text = door.metrics.render();
        wanted.iter().all(|line| text.contains(line)).then_some(())
    };
    penstock_tests::eventually("the exchange in the metrics", LIMIT, shown).unwrap();
}

#[test]
fn requests_are_logged_as_lines_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.jsonl");
    let engine = Engine::answering(json("{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}"));
    let mut door = Door::open(config(&format!("access_log = {path:?}")), &[engine.address]);

    door.ask(&http::door::post(
        "/v1/completions",
        "x-request-id: r-1\r\nx-session-id: s\r\n",
        "{\"model\":\"m\"}",
    ));
    door.shutdown(LIMIT);

    let text = std::fs::read_to_string(&path).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!(line["request_id"], "r-1");
    assert_eq!((&line["path"], &line["status"]), (&"/v1/completions".into(), &200.into()));
    assert_eq!((&line["key_source"], &line["engine"]), (&"header".into(), &"engine-0".into()));
    assert_eq!((&line["prompt_tokens"], &line["output_tokens"]), (&3.into(), &4.into()));
}
