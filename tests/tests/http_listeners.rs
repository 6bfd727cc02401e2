//! HTTP/2, TLS and Unix sockets, with curl, and hostile peers that speak HTTP/2.
#![expect(clippy::unwrap_used, reason = "a suite stops at its first failure")]
mod http;

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::{Mutex, mpsc::channel},
    time::Duration,
};

use http::{
    door::{Door, checked, config},
    engine::{Engine, STREAM_HEAD, chunk, json},
};

const LIMIT: Duration = Duration::from_secs(20);

#[track_caller]
fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Answers with the request's body.
fn echo() -> Engine {
    Engine::start(|connection| {
        while let Some(request) = connection.request() {
            connection.send(json(&String::from_utf8(request.body).unwrap()).as_bytes());
        }
    })
}

/// A certificate for `localhost` that is its own authority, with its key, in a folder.
fn certify(folder: &Path) {
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), pair.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
}

fn section(listen: &str, more: &str) -> String {
    format!("listen = [{{ {listen} }}]\nworkers = 1\n{more}\n[[class]]\nid = \"chat\"\nmodels = [\"m\"]\n")
}

fn tls_section(folder: &Path) -> String {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    section(&format!("address = \"127.0.0.1:0\", certificate = {certificate:?}, key = {key:?}"), "")
}

#[test]
fn http_2_by_prior_knowledge_works() {
    let engine = echo();
    let door = Door::open(config(""), &[engine.address]);
    let url = format!("http://{}/v1/x", door.address);

    let out = curl(&[
        "--http2-prior-knowledge",
        "-w",
        " %{http_version} %{http_code}",
        "-d",
        "{\"model\":\"m\"}",
        &url,
    ]);

    assert_eq!(out, "{\"model\":\"m\"} 2 200");
    assert!(engine.requests()[0].head.starts_with("POST /v1/x HTTP/1.1\r\n"));
}

#[test]
fn tls_offers_both_versions_and_takes_a_new_certificate_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let door = Door::open(checked(&tls_section(folder.path())), &[echo().address]);
    let (url, ca) =
        (format!("https://localhost:{}/v1/x", door.address.port()), folder.path().join("cert.pem"));
    let ask = |more: &[&str]| {
        let ca = ca.to_str().unwrap();
        let fixed = ["--cacert", ca, "-4", "-w", " %{http_version}", "-d", "{\"model\":\"m\"}", &url];
        let output =
            Command::new("curl").args(["-sS", "--max-time", "20"]).args(more).args(fixed).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };

    assert_eq!(ask(&["--http2"]), "{\"model\":\"m\"} 2");
    assert_eq!(ask(&["--http1.1"]), "{\"model\":\"m\"} 1.1");
    // curl trusts only the new certificate from now on: it succeeds once the door presents it.
    certify(folder.path());
    let renewed = || (ask(&["--http1.1"]) == "{\"model\":\"m\"} 1.1").then_some(());
    penstock_tests::eventually("an answer with the new certificate", LIMIT, renewed).unwrap();
}

#[test]
fn a_unix_socket_works_and_that_of_a_dead_agent_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let engine = echo();
    let _door = Door::open(
        checked(&section(&format!("address = \"unix:{}\"", path.display()), "")),
        &[engine.address],
    );

    let out = curl(&["--unix-socket", path.to_str().unwrap(), "-d", "{\"model\":\"m\"}", "http://door/v1/x"]);

    assert_eq!(out, "{\"model\":\"m\"}");
}

/// A door that speaks HTTP/2 with its only engine, which is another door.
fn chain(engine: &Engine) -> (Door, Door) {
    let inner = Door::open(config(""), &[engine.address]);
    let outer = Door::open(config("upstream = { protocol = \"http2\" }"), &[inner.address]);
    (outer, inner)
}

#[test]
fn engines_that_speak_http_2_are_reached_over_one_connection() {
    let engine = echo();
    let (outer, inner) = chain(&engine);

    for n in 0..5 {
        let body = format!("{{\"model\":\"m\",\"n\":{n}}}");
        assert_eq!(outer.ask(&http::door::chat(&body)).text(), body);
    }

    let one = || inner.metrics.render().contains("penstock_http_connections 1\n").then_some(());
    penstock_tests::eventually("one connection without streams", LIMIT, one).unwrap();
}

#[test]
fn chunks_trailers_and_large_bodies_pass_through_http_2() {
    let engine = Engine::start(|connection| {
        while let Some(request) = connection.request() {
            let length = request.body.len();
            let answer = format!(
                "trailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n{}",
                "5\r\nabcde\r\n".repeat(1000)
            );
            connection.send(format!("HTTP/1.1 200 OK\r\n{answer}0\r\nx-sum: {length}\r\n\r\n").as_bytes());
        }
    });
    let (outer, _inner) = chain(&engine);
    let body = format!("{{\"model\":\"m\",\"x\":\"{}\"}}", "y".repeat(3 << 20));

    let response = outer.ask(&http::door::chat(&body));

    assert!(response.complete);
    assert_eq!(response.text(), "abcde".repeat(1000));
    assert_eq!(response.trailers, format!("x-sum: {}\r\n", body.len()));
}

#[test]
fn a_stream_that_breaks_behind_http_2_is_broken_for_the_client_too() {
    let engine = Engine::start(|connection| {
        connection.request().unwrap();
        connection.send(STREAM_HEAD);
        connection.send(&chunk("data: 1\n\n"));
    });
    let (outer, _inner) = chain(&engine);

    let response = outer.ask(&http::door::chat("{\"model\":\"m\",\"stream\":true}"));

    assert!(!response.complete && response.text().contains("event: error"), "{response:?}");
}

#[test]
fn a_client_that_leaves_cancels_through_http_2() {
    let (tell, heard) = channel();
    let tell = Mutex::new(tell);
    let engine = Engine::start(move |connection| {
        connection.request().unwrap();
        tell.lock().unwrap().send(()).unwrap();
        connection.wait_closed();
        tell.lock().unwrap().send(()).unwrap();
    });
    let (outer, _inner) = chain(&engine);
    let mut client = outer.client();
    client.send(http::door::chat("{\"model\":\"m\"}").as_bytes());
    heard.recv_timeout(LIMIT).unwrap();

    drop(client);

    heard.recv_timeout(LIMIT).unwrap();
}

/// A peer that writes frames by hand.
struct Frames(TcpStream);

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `GET / http` and the authority `d`, in HPACK.
const GET: &[u8] = &[0x82, 0x84, 0x86, 0x41, 1, b'd'];

impl Frames {
    fn connect(door: &Door, settings: &[u8]) -> Self {
        let stream = TcpStream::connect(door.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut frames = Self(stream);
        frames.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        assert!(frames.send(SETTINGS, 0, 0, settings));
        frames
    }

    /// `false` when the door has ended the connection.
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.0.write_all(&frame).is_ok()
    }

    /// The kinds of all frames until the door ends the connection.
    fn kinds_to_the_end(&mut self) -> Vec<u8> {
        let mut kinds = Vec::new();
        let mut head = [0; 9];
        while self.0.read_exact(&mut head).is_ok() {
            kinds.push(head[3]);
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            if self.0.read_exact(&mut payload).is_err() {
                break;
            }
        }
        kinds
    }
}

#[test]
fn a_rapid_reset_ends_the_connection() {
    let engine = Engine::start(|connection| connection.wait_closed());
    let door = Door::open(config(""), &[engine.address]);
    let mut peer = Frames::connect(&door, &[]);

    for n in 0..2000 {
        let stream = 2 * n + 1;
        let open = peer.send(HEADERS, END_STREAM | END_HEADERS, stream, GET)
            && peer.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        if !open {
            break;
        }
    }

    let kinds = peer.kinds_to_the_end();
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
}

#[test]
fn a_flood_of_continuations_ends_the_connection() {
    let door = Door::open(config(""), &[echo().address]);
    let mut peer = Frames::connect(&door, &[]);
    // A literal field without indexing, name and value of one letter, over and over.
    let fields = [0, 1, b'a', 1, b'b'].repeat(2000);

    peer.send(HEADERS, END_STREAM, 1, GET);
    let sent = (0..10_000).take_while(|_| peer.send(CONTINUATION, 0, 1, &fields)).count();

    assert!(sent < 10_000, "the door took {sent} frames");
}

#[test]
fn a_client_whose_window_stays_shut_is_given_up_and_its_engine_freed() {
    let (tell, freed) = channel();
    let tell = Mutex::new(tell);
    let engine = Engine::start(move |connection| {
        connection.request().unwrap();
        connection.send(STREAM_HEAD);
        while connection.try_send(&chunk(&"x".repeat(1 << 20))) {}
        tell.lock().unwrap().send(()).unwrap();
    });
    let door = Door::open(config("limits = { write_timeout_ms = 300 }"), &[engine.address]);
    // SETTINGS_INITIAL_WINDOW_SIZE = 0.
    let mut peer = Frames::connect(&door, &[0, 4, 0, 0, 0, 0]);

    assert!(peer.send(HEADERS, END_STREAM | END_HEADERS, 1, GET));

    freed.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_tls_client_that_says_nothing_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let text =
        tls_section(folder.path()).replace("workers = 1", "workers = 1\nlimits = { head_timeout_ms = 300 }");
    let door = Door::open(checked(&text), &[echo().address]);

    assert!(door.client().is_closed());
}
