//! One request's way: class and key, an engine, its answer; another engine where that is allowed.
use std::{future::poll_fn, time::SystemTime};

use tokio::time::Instant;

use super::{
    access_log::Line,
    class::{self, Wishes},
    client::Client,
    engine::InFlight,
    error::RequestError,
    h1::{
        compose::{self, RequestAdditions},
        request::Version,
    },
    key::{self, Key},
    metrics::{Exchange, NO_MODEL, SeriesKey},
    models,
    pool::EngineConnection,
    relay::{Relay, RelayError, Seen, Task},
    request::Request,
    route::{NoRoute, Route},
    upload::{self, UploadEnd},
    worker::Worker,
};

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum After {
    KeepAlive,
    Close,
    /// The answer is not complete: the connection is dropped, so that the client sees it.
    Drop,
}

/// Class and key of a request.
#[derive(Debug)]
struct Decision<'a> {
    class_id: &'a str,
    series: SeriesKey,
    key: Key,
    /// Estimate of the work in flight.
    tokens: i64,
}

/// Why an attempt failed, before the client saw anything of an answer.
#[derive(Debug)]
struct Failure {
    error: RequestError,
    again: Again,
}

/// Whether another attempt may follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Again {
    No,
    /// An idle connection was closed by the engine just then: the same engine, on a new connection.
    Fresh,
    /// Another engine, if the budget allows.
    Elsewhere,
}

/// An attempt that the client saw the outcome of.
#[derive(Debug)]
struct Outcome {
    seen: Seen,
    sent: Instant,
    error: Option<RelayError>,
}

/// Serves one request.
pub(crate) async fn run(worker: &Worker, client: &mut Client, request: &mut Request) -> After {
    let received = Instant::now();
    if models::is_asked(request) {
        return list_models(worker, client, request).await;
    }
    let decision = match decide(worker, request) {
        Ok(decision) => decision,
        Err(error) => return refuse(worker, client, request, &error).await,
    };
    let mut tried: Vec<u16> = Vec::new();
    let (mut attempts, mut fresh) = (0, false);
    let mut last: Option<Failure> = None;
    loop {
        let class = decision.class_id;
        let route = match worker.routes.route(class, decision.key.value, &tried) {
            Ok(route) => route,
            Err(NoRoute::NoTable | NoRoute::NoEngine) => {
                let nobody = || RequestError::NoEngine { class: class.to_owned() };
                let error = last.map_or_else(nobody, |failure| failure.error);
                return refuse(worker, client, request, &error).await;
            }
        };
        attempts += 1;
        let mut attempt =
            Attempt { worker, client, request, decision: &decision, route: &route, received, fresh };
        let failure = match attempt.run().await {
            Ok(outcome) => return finish(worker, request, &decision, &route, attempts, &outcome),
            Err(failure) => failure,
        };
        let exchange = Exchange { error: Some(failure.error.code()), ..Exchange::default() };
        worker.shard().exchange(&route.engine, decision.series, &exchange);
        let allowed = match failure.again {
            Again::No => false,
            Again::Fresh => !fresh,
            Again::Elsewhere => {
                attempts < worker.config.retry.attempts && worker.budget.borrow_mut().take(worker.age())
            }
        };
        if !allowed {
            return refuse(worker, client, request, &failure.error).await;
        }
        fresh = failure.again == Again::Fresh;
        if !fresh {
            tried.push(route.engine.index);
        }
        worker.shard().retried(failure.error.code());
        last = Some(failure);
    }
}

fn decide<'a>(worker: &'a Worker, request: &Request) -> Result<Decision<'a>, RequestError> {
    let config = &worker.config;
    let findings = &request.findings;
    let named = |names: &'a [String]| names.iter().filter_map(|name| request.text(name));
    let wishes = Wishes {
        model: findings.model.as_deref().or_else(|| request.text(&config.model_header)),
        path: request.path(),
        constraints: named(&config.constraint_headers).collect(),
        priority: request.text(&config.priority_header).and_then(|text| text.parse().ok()),
    };
    let class = class::select(&config.classes, config.default_class, &wishes).map_err(RequestError::Class)?;
    let key = key::choose(
        named(&config.conversation_headers).find(|value| !value.is_empty()),
        findings,
        |response| worker.routes.responses.key_of(response),
        || worker.random(),
    );
    let chosen = &config.classes[class];
    let model = wishes.model.and_then(|model| chosen.models.iter().position(|known| known == model));
    let narrow = |at: usize| u16::try_from(at).unwrap_or(NO_MODEL);
    let mean = u64::from(chosen.mean_output_tokens);
    let output = findings.max_tokens.map_or(mean, |most| most.min(mean));
    let prompt = request.raw_body().len() as u64 / 4;
    Ok(Decision {
        class_id: &chosen.id,
        series: SeriesKey { class: narrow(class), model: model.map_or(NO_MODEL, narrow) },
        key,
        tokens: i64::try_from(prompt + output).unwrap_or(i64::MAX),
    })
}

async fn list_models(worker: &Worker, client: &mut Client, request: &Request) -> After {
    let body = models::list(&worker.config.classes);
    let close = !request.body.is_done() || !request.head.keeps_alive() || worker.draining.get();
    let line = if close { "connection: close\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nx-request-id: {}\r\n{line}\r\n",
        body.len(),
        request.id
    );
    if client.put(worker, (head + &body).as_bytes()).await.is_err() {
        return After::Drop;
    }
    if close { After::Close } else { After::KeepAlive }
}

/// Answers a request without an engine.
async fn refuse(worker: &Worker, client: &mut Client, request: &Request, error: &RequestError) -> After {
    worker.shard().refused(error.code());
    log(worker, request, &Line { status: error.status(), error: Some(error.code()), ..Line::default() });
    let close = !request.body.is_done() || !request.head.keeps_alive() || worker.draining.get();
    if client.put(worker, &error.answer(&request.id, close)).await.is_err() {
        return After::Drop;
    }
    if close { After::Close } else { After::KeepAlive }
}

fn finish(
    worker: &Worker,
    request: &Request,
    decision: &Decision<'_>,
    route: &Route,
    attempts: u32,
    outcome: &Outcome,
) -> After {
    let seen = &outcome.seen;
    let e2e = outcome.sent.elapsed();
    let ttft = seen.first_byte.map(|first| first.duration_since(outcome.sent));
    let error = outcome.error.map(RelayError::label);
    let exchange = Exchange { status: seen.status, ttft, e2e, usage: seen.usage, error };
    worker.shard().exchange(&route.engine, decision.series, &exchange);
    if let Some(id) = &seen.response_id {
        worker.routes.responses.remember(id, decision.key.value);
    }
    log(
        worker,
        request,
        &Line {
            class: decision.class_id,
            key_source: decision.key.source.label(),
            engine: &route.engine.id,
            why: route.why.label(),
            status: seen.status,
            attempts,
            ttft_ms: ttft.map(|ttft| ttft.as_secs_f64() * 1e3),
            e2e_ms: e2e.as_secs_f64() * 1e3,
            prompt_tokens: seen.usage.prompt_tokens,
            output_tokens: seen.usage.output(),
            error,
            ..Line::default()
        },
    );
    match outcome.error {
        Some(_) => After::Drop,
        None if seen.close => After::Close,
        None => After::KeepAlive,
    }
}

/// Fills in what a line says of the request, and hands it to the writer.
fn log(worker: &Worker, request: &Request, line: &Line<'_>) {
    let Some(log) = &worker.log else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    log.put(&Line {
        time: now.as_secs_f64(),
        request_id: &request.id,
        method: std::str::from_utf8(request.method()).unwrap_or_default(),
        path: request.path(),
        ..*line
    });
}

/// One try with one engine.
struct Attempt<'a, 'd> {
    worker: &'a Worker,
    client: &'a mut Client,
    request: &'a mut Request,
    decision: &'a Decision<'d>,
    route: &'a Route,
    received: Instant,
    fresh: bool,
}

impl Attempt<'_, '_> {
    async fn run(&mut self) -> Result<Outcome, Failure> {
        let engine = &self.route.engine;
        let _in_flight = InFlight::start(&engine.load, &self.route.class_load, self.decision.tokens);
        let (mut connection, reused) = self.connection().await?;
        let stale = if reused { Again::Fresh } else { Again::Elsewhere };
        let early = match self.send(&mut connection).await {
            Ok(early) => early,
            Err(UploadEnd::Client) => return Ok(Outcome::without_answer(RelayError::ClientGone)),
            Err(UploadEnd::ClientSlow) => {
                return Err(Failure { error: RequestError::ClientSlow, again: Again::No });
            }
            Err(UploadEnd::Engine) => return Err(self.failure(RelayError::EngineClosed, stale)),
        };
        self.worker.routes.affinity.put(self.route.hash, engine.index);
        // An answer before the end of the request leaves both connections in the middle of it.
        let unfinished = !self.request.body.is_done();
        let sent = Instant::now();
        let explanation = self.explanation();
        let task = Task {
            route: self.route,
            key: self.decision.series,
            request_id: &self.request.id,
            decision: explanation.as_deref(),
            received: self.received,
            sent,
            to_head: self.request.method() == b"HEAD",
            http10: self.request.head.version == Version::Http10,
            close: unfinished || !self.request.head.keeps_alive(),
            wants_response_id: self.request.path().ends_with("/responses"),
        };
        let bytes = &mut self.request.bytes;
        let head = self.request.head.length;
        let mut relay = Relay::new(self.worker, self.client, &mut connection.io, &task, &early);
        let ended = poll_fn(|cx| {
            let polled = relay.poll(cx);
            if relay.seen.begun && bytes.len() > head {
                // No other attempt can follow: the body need not be kept.
                bytes.truncate(head);
                bytes.shrink_to_fit();
            }
            polled
        })
        .await;
        let reusable = relay.engine_reusable() && !unfinished;
        let seen = std::mem::take(&mut relay.seen);
        self.client.deadline.clear();
        match ended {
            Ok(()) if reusable => {
                self.worker.keep(engine, connection);
                Ok(Outcome { seen, sent, error: None })
            }
            Ok(()) => Ok(Outcome { seen, sent, error: None }),
            Err(error)
                if seen.begun || matches!(error, RelayError::ClientGone | RelayError::ClientStalled) =>
            {
                Ok(Outcome { seen, sent, error: Some(error) })
            }
            Err(error) => Err(self.failure(error, if seen.answered { Again::Elsewhere } else { stale })),
        }
    }

    /// An idle connection, or a new one; and whether it was idle.
    async fn connection(&self) -> Result<(EngineConnection, bool), Failure> {
        let (worker, engine) = (self.worker, &self.route.engine);
        if !self.fresh
            && let Some(connection) = worker.idle(engine)
        {
            return Ok((connection, true));
        }
        match worker.connect(engine).await {
            Ok(connection) => Ok((connection, false)),
            Err(_) => Err(Failure {
                error: RequestError::Connect { engine: engine.id.clone() },
                again: if self.request.streamed { Again::No } else { Again::Elsewhere },
            }),
        }
    }

    /// Sends the request; returns what the engine answered before its end.
    async fn send(&mut self, connection: &mut EngineConnection) -> Result<Vec<u8>, UploadEnd> {
        let request = &mut *self.request;
        let additions = RequestAdditions {
            request_id: request.id_is_ours.then_some(request.id.as_str()),
            engine: self.route.engine.address,
        };
        let mut head = Vec::with_capacity(request.head.length + 128);
        compose::request(&mut head, &request.bytes, &request.head, additions);
        upload::send(self.worker, self.client, &mut connection.io, &head, request.raw_body()).await?;
        if request.body.is_done() {
            return Ok(Vec::new());
        }
        request.streamed = true;
        upload::send_rest(self.worker, self.client, &mut connection.io, &mut request.body).await
    }

    fn failure(&self, error: RelayError, again: Again) -> Failure {
        let engine = self.route.engine.id.clone();
        let again = if self.request.streamed { Again::No } else { again };
        match error {
            RelayError::EngineSlow => {
                Failure { error: RequestError::EngineSlow { engine }, again: Again::No }
            }
            RelayError::Garbage(error) => {
                Failure { error: RequestError::Garbage { engine, error }, again: Again::No }
            }
            _ => Failure { error: RequestError::Broken { engine }, again },
        }
    }

    /// What `x-penstock-decision` says, where the client asked for it.
    fn explanation(&self) -> Option<String> {
        self.request.text("x-penstock-decision")?;
        let (route, key) = (self.route, self.decision.key);
        Some(format!(
            "key={}; slot={}; engine={}; epoch={}; why={}; class={}",
            key.source.label(),
            route.slot,
            route.engine.id,
            route.epoch,
            route.why.label(),
            self.decision.class_id
        ))
    }
}

impl Outcome {
    fn without_answer(error: RelayError) -> Self {
        Self { seen: Seen::default(), sent: Instant::now(), error: Some(error) }
    }
}
