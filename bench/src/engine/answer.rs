//! What the fake engine writes: streams of events, whole answers, errors.
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    headers::{ENGINE_HEADER, SECONDS_HEADER},
    request::ChatRequest,
};

/// The text of one token.
const TOKEN: &str = "word ";

/// One answer being written.
#[derive(Debug)]
pub(super) struct Answer {
    engine: String,
    id: String,
    created: u64,
    chat: ChatRequest,
    interval: u32,
    /// Tokens that are due and not yet in an event.
    held: u32,
    sent: u32,
}

impl Answer {
    pub(super) fn new(
        engine: &str,
        number: u64,
        created: Duration,
        chat: ChatRequest,
        interval: u32,
    ) -> Self {
        Self {
            engine: engine.to_owned(),
            id: format!("chatcmpl-{number:016x}"),
            created: created.as_secs(),
            chat,
            interval,
            held: 0,
            sent: 0,
        }
    }

    /// Appends what `tokens` more tokens put on the wire; `finished` says how long the whole request took.
    pub(super) fn advance(&mut self, tokens: u32, finished: Option<Duration>, out: &mut Vec<u8>) {
        self.held += tokens;
        match (self.chat.stream, finished) {
            (true, _) => self.stream(finished, out),
            (false, Some(taken)) => self.whole(taken, out),
            (false, None) => {}
        }
    }

    fn stream(&mut self, finished: Option<Duration>, out: &mut Vec<u8>) {
        if self.sent == 0 && self.held > 0 {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n\
                 {ENGINE_HEADER}: {}\r\ntransfer-encoding: chunked\r\ntrailer: {SECONDS_HEADER}\r\n\r\n",
                self.engine
            );
            out.extend_from_slice(head.as_bytes());
            self.token_event(1, out);
        }
        while self.held >= self.interval || (finished.is_some() && self.held > 0) {
            self.token_event(self.held.min(self.interval), out);
        }
        let Some(taken) = finished else { return };
        let end = json!([{ "index": 0, "delta": {}, "finish_reason": "length" }]);
        event(&self.chunk(&end, None).to_string(), out);
        if self.chat.include_usage {
            event(&self.chunk(&json!([]), Some(usage(&self.chat))).to_string(), out);
        }
        event("[DONE]", out);
        out.extend_from_slice(
            format!("0\r\n{SECONDS_HEADER}: {:.6}\r\n\r\n", taken.as_secs_f64()).as_bytes(),
        );
    }

    fn token_event(&mut self, tokens: u32, out: &mut Vec<u8>) {
        let role = if self.sent == 0 { r#""role":"assistant","# } else { "" };
        // Written by hand, since nearly all of an engine's work is here. Ids and models hold no characters to escape:
        // a model is one of the configuration's, compared whole.
        let text = format!(
            r#"{{"id":"{}","object":"chat.completion.chunk","created":{},"model":"{}","choices":[{{"index":0,"delta":{{{role}"content":"{}"}},"finish_reason":null}}]}}"#,
            self.id,
            self.created,
            self.chat.model,
            TOKEN.repeat(tokens as usize),
        );
        event(&text, out);
        self.held -= tokens;
        self.sent += tokens;
    }

    fn chunk(&self, choices: &Value, usage: Option<Value>) -> Value {
        let mut chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created,
            "model": self.chat.model, "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        chunk
    }

    fn whole(&mut self, taken: Duration, out: &mut Vec<u8>) {
        let content = TOKEN.repeat(self.held as usize);
        let body = json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.chat.model,
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": content }, "finish_reason": "length",
            }],
            "usage": usage(&self.chat),
        })
        .to_string();
        let head = format!("{SECONDS_HEADER}: {:.6}\r\n", taken.as_secs_f64());
        respond(200, &self.engine, "application/json", &head, &body, out);
    }
}

fn usage(chat: &ChatRequest) -> Value {
    json!({
        "prompt_tokens": chat.prompt_tokens,
        "completion_tokens": chat.output_tokens,
        "total_tokens": chat.prompt_tokens + chat.output_tokens,
    })
}

/// One server-sent event in a chunk of its own.
fn event(data: &str, out: &mut Vec<u8>) {
    let length = "data: ".len() + data.len() + 2;
    out.extend_from_slice(format!("{length:x}\r\ndata: ").as_bytes());
    out.extend_from_slice(data.as_bytes());
    out.extend_from_slice(b"\n\n\r\n");
}

/// A whole response. `more_headers` are lines that end with CRLF.
pub(super) fn respond(
    status: u16,
    engine: &str,
    content_type: &str,
    more_headers: &str,
    body: &str,
    out: &mut Vec<u8>,
) {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        _ => "Error",
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\n{ENGINE_HEADER}: {engine}\r\n{more_headers}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body.as_bytes());
}

/// An error as the OpenAI API gives it.
pub(super) fn refuse(status: u16, engine: &str, message: &str, out: &mut Vec<u8>) {
    let kind = if status == 404 { "NotFoundError" } else { "BadRequestError" };
    let body = json!({ "error": { "message": message, "type": kind, "param": null, "code": status } });
    respond(status, engine, "application/json", "", &body.to_string(), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(stream: bool, output: u32, interval: u32) -> Answer {
        let chat = ChatRequest {
            model: "m".to_owned(),
            stream,
            include_usage: false,
            prompt_tokens: 3,
            output_tokens: output,
        };
        Answer::new("e-1", 5, Duration::from_secs(1_700_000_000), chat, interval)
    }

    /// Payloads of the events, with the chunk sizes checked, and what follows the last chunk.
    fn events(mut bytes: &[u8]) -> (Vec<String>, String) {
        let mut events = Vec::new();
        loop {
            let line = bytes.windows(2).position(|pair| pair == b"\r\n").unwrap();
            let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
            bytes = &bytes[line + 2..];
            if size == 0 {
                return (events, String::from_utf8(bytes.to_vec()).unwrap());
            }
            let text = std::str::from_utf8(&bytes[..size]).unwrap();
            events.push(text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap().to_owned());
            assert_eq!(&bytes[size..size + 2], b"\r\n");
            bytes = &bytes[size + 2..];
        }
    }

    #[test]
    fn a_stream_sends_its_first_token_at_once_and_then_groups() {
        let mut answer = answer(true, 6, 4);
        let mut out = Vec::new();

        answer.advance(1, None, &mut out);
        let head = out.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let first = out.len();
        answer.advance(3, None, &mut out);
        let held = out.len();
        answer.advance(2, Some(Duration::from_millis(2_500)), &mut out);

        assert!(first > head, "the first token leaves alone");
        assert_eq!(held, first, "three of four tokens wait");
        let (events, trailer) = events(&out[head..]);
        let words: Vec<_> = events.iter().map(|event| event.matches(TOKEN).count()).collect();
        assert_eq!(words, [1, 4, 1, 0, 0]);
        assert_eq!(events.last().unwrap(), "[DONE]");
        assert_eq!(trailer, "x-engine-seconds: 2.500000\r\n\r\n");
        for event in &events[..events.len() - 1] {
            let value: Value = serde_json::from_str(event).unwrap();
            assert_eq!(value["id"], "chatcmpl-0000000000000005");
        }
    }

    #[test]
    fn a_whole_answer_comes_with_its_end() {
        let mut answer = answer(false, 2, 1);
        let mut out = Vec::new();

        answer.advance(1, None, &mut out);
        assert!(out.is_empty());
        answer.advance(1, Some(Duration::from_millis(10)), &mut out);

        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("x-engine-id: e-1\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let value: Value = serde_json::from_str(body).unwrap();
        assert_eq!(value["choices"][0]["message"]["content"], "word word ");
        assert_eq!(value["usage"]["total_tokens"], 5);
    }
}
