//! Clients that people use: OpenAI's SDKs for Python and Node, as `cargo xtask test` installs them.
#![expect(clippy::unwrap_used, reason = "a suite stops at its first failure")]
mod http;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::{
    door::{Door, config},
    engine::{Connection, Engine, Request, STREAM_HEAD, chunk, json},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// An engine with an answer for each case of the scripts.
fn engine() -> Engine {
    let flaky = AtomicUsize::new(0);
    Engine::start(move |connection| {
        while let Some(request) = connection.request() {
            answer(connection, &request, &flaky);
        }
    })
}

fn answer(connection: &mut Connection, request: &Request, flaky: &AtomicUsize) {
    let body = String::from_utf8_lossy(&request.body);
    let says = |case: &str| body.contains(&format!("\"{case}\""));
    if request.head.contains("/audio/") {
        let zeros = request.body.iter().filter(|byte| **byte == 0).count();
        connection.send(json(&format!("{{\"text\":\"{zeros} bytes\"}}")).as_bytes());
    } else if says("stream") && body.contains("\"content\":\"stream\"") {
        let words: Vec<String> = (0..20).map(|n| format!("{{\"content\":\"word {n}\"}}")).collect();
        stream(connection, &words, true);
    } else if body.contains("\"content\":\"tools\"") {
        let piece = |text: &str| {
            let text = serde_json::Value::from(text);
            format!("{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":{text}}}}}]}}")
        };
        stream(connection, &["{\"a\"", ": 1, ", "\"b\": 2}"].map(piece), true);
    } else if body.contains("\"content\":\"dies\"") {
        stream(connection, &["{\"content\":\"a\"}".to_owned()], false);
    } else if body.contains("\"content\":\"slow\"") {
        connection.wait_closed();
    } else if says("flaky") {
        let attempt = flaky.fetch_add(1, Ordering::Relaxed) + 1;
        if attempt < 3 {
            connection
                .send(b"HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: 10\r\ncontent-length: 2\r\n\r\n{}");
        } else {
            whole(connection, &format!("attempt {attempt}"));
        }
    } else if let Some(at) = body.find("base64,") {
        let letters = body[at + 7..].find('"').unwrap();
        whole(connection, &format!("{letters} letters"));
    } else {
        whole(connection, "whole answer");
    }
}

fn whole(connection: &mut Connection, text: &str) {
    let answer = format!(
        "{{\"id\":\"c\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\
         \"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}],\
         \"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}}}}"
    );
    connection.send(json(&answer).as_bytes());
}

fn stream(connection: &mut Connection, deltas: &[String], whole: bool) {
    connection.send(STREAM_HEAD);
    for delta in deltas {
        let event = format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
             \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
        );
        connection.send(&chunk(&event));
    }
    if whole {
        connection.send(&chunk("data: [DONE]\n\n"));
        connection.send(b"0\r\n\r\n");
    } else {
        connection.end();
    }
}

#[track_caller]
fn passes(command: &mut Command) {
    let output = command.output().expect("`cargo xtask setup` installs the SDKs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.trim_end().ends_with("ok"), "{out}{err}");
}

#[test]
fn the_python_sdk_works_through_the_door() {
    let engine = engine();
    let door = Door::open(config(""), &[engine.address]);

    passes(
        Command::new(root().join("target/sdk/python/bin/python3"))
            .arg(root().join("tests/tests/sdk/python.py"))
            .arg(format!("http://{}/v1", door.address)),
    );
}

#[test]
fn the_node_sdk_works_through_the_door() {
    let engine = engine();
    let door = Door::open(config(""), &[engine.address]);

    passes(
        Command::new("node")
            .arg(root().join("tests/tests/sdk/node.mjs"))
            .arg(root().join("target/sdk/node"))
            .arg(format!("http://{}/v1", door.address)),
    );
}
