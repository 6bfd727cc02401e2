//! The works that proxies are measured with.

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// One small answer a request.
    Whole,
    /// 64 events, 5 ms apart.
    Stream,
    /// Streams that stay open after their first event.
    Idle,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Bytes of a request's body.
    pub(super) body: usize,
    pub(super) requests: usize,
    pub(super) per_second: f64,
}

pub(super) const CASES: &[Case] = &[
    Case { name: "ns1k", kind: Kind::Whole, body: 1 << 10, requests: 20_000, per_second: 2_000.0 },
    Case { name: "ns32k", kind: Kind::Whole, body: 32 << 10, requests: 10_000, per_second: 1_000.0 },
    Case { name: "st64", kind: Kind::Stream, body: 1 << 10, requests: 1_500, per_second: 150.0 },
    Case { name: "idle10k", kind: Kind::Idle, body: 1 << 10, requests: 10_000, per_second: 0.0 },
];

impl Case {
    /// A third of the work.
    pub(super) fn quick(self) -> Self {
        match self.kind {
            Kind::Idle => self,
            _ => Self { requests: self.requests / 3, ..self },
        }
    }

    /// Open streams are bounded by descriptors: the figure is memory for each.
    pub(super) fn with_at_most(self, streams: usize) -> Self {
        match self.kind {
            Kind::Idle => Self { requests: self.requests.min(streams), ..self },
            _ => self,
        }
    }

    /// Work before the measurement: connections are open and memory is touched.
    pub(super) fn warm_up(&self) -> Self {
        Self { requests: self.requests / 10, ..*self }
    }

    pub(super) fn path(&self) -> &'static str {
        match self.kind {
            Kind::Whole => "/v1/chat/completions",
            Kind::Stream => "/v1/completions",
            Kind::Idle => "/v1/responses",
        }
    }

    /// The `n`th request: a conversation of its own, with the fields that SDKs send.
    pub(super) fn request(&self, n: usize) -> Vec<u8> {
        let start = format!(
            "{{\"model\":\"m\",\"stream\":{},\"messages\":[{{\"role\":\"system\",\"content\":\"You are helpful.\"}},\
             {{\"role\":\"user\",\"content\":\"Question {n}: ",
            self.kind != Kind::Whole
        );
        let end = "\"}],\"max_tokens\":64,\"temperature\":0.7}";
        let words = "the quick brown fox jumps over the lazy dog, ";
        let fill: String =
            words.chars().cycle().take(self.body.saturating_sub(start.len() + end.len())).collect();
        let body = format!("{start}{fill}{end}");
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: application/json\r\nContent-Type: application/json\r\n\
             User-Agent: OpenAI/Python 1.99.1\r\nX-Stainless-Lang: python\r\nX-Stainless-Runtime: CPython\r\n\
             Authorization: Bearer sk-none\r\nContent-Length: {}\r\n\r\n",
            self.path(),
            body.len()
        );
        [head.into_bytes(), body.into_bytes()].concat()
    }
}
