//! Sockets and the clock around the replicas. One thread serves all engines of a namespace.
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    rc::Rc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{JoinSet, LocalSet},
    time::{self, MissedTickBehavior},
};

use super::{
    answer::{Answer, refuse, respond},
    config::{EngineFile, Prefix},
    metrics::{self, Totals},
    replica::{Progress, Replica, RequestId},
    request::{ChatRequest, HttpRequest, Look, look},
};

/// Tokens become due at this grain: it bounds the wake-ups of a process, whatever its streams.
const TICK: Duration = Duration::from_millis(2);
/// Bytes that a client may send ahead of the answer to its request.
const MAX_AHEAD: usize = 1 << 20;

/// Serves until the process ends.
///
/// # Errors
/// A port cannot be listened on.
pub fn serve(file: EngineFile) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(file))
}

async fn run(file: EngineFile) -> io::Result<()> {
    let ports: BTreeSet<u16> = file.engine.iter().map(|engine| engine.port).collect();
    let fleet = Rc::new(Engines {
        engines: file
            .engine
            .into_iter()
            .map(|entry| Engine {
                id: entry.id,
                port: entry.port,
                addresses: entry.addresses,
                models: entry.models,
                state: RefCell::new(State {
                    replica: Replica::new(entry.profile),
                    replies: HashMap::new(),
                    totals: Totals::default(),
                }),
            })
            .collect(),
        stream_interval: file.stream_interval.max(1),
        next_request: Cell::new(0),
    });
    let mut tasks = JoinSet::new();
    for port in ports {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await?;
        tasks.spawn_local(accept(listener, Rc::clone(&fleet)));
    }
    tasks.spawn_local(keep_time(Rc::clone(&fleet)));
    // The tasks run for ever: the first to end has failed.
    match tasks.join_next().await {
        Some(Ok(error)) => Err(error),
        Some(Err(panic)) => Err(io::Error::other(panic)),
        None => Ok(()),
    }
}

struct Engines {
    engines: Vec<Engine>,
    stream_interval: u32,
    next_request: Cell<RequestId>,
}

struct Engine {
    id: String,
    port: u16,
    addresses: Vec<Prefix>,
    models: Vec<String>,
    state: RefCell<State>,
}

struct State {
    replica: Replica,
    replies: HashMap<RequestId, Reply>,
    totals: Totals,
}

/// An answer in progress and where it goes.
struct Reply {
    answer: Answer,
    socket: Rc<TcpStream>,
    /// Bytes that the socket has not taken yet.
    unsent: Vec<u8>,
    started: Instant,
    /// Gets the bytes that are left when the answer is complete.
    done: Option<oneshot::Sender<Vec<u8>>>,
}

impl Engines {
    fn at(&self, local: SocketAddr) -> Option<&Engine> {
        let address: IpAddr = local.ip();
        self.engines.iter().find(|engine| {
            engine.port == local.port() && engine.addresses.iter().any(|prefix| prefix.contains(address))
        })
    }

    fn new_request(&self) -> RequestId {
        let id = self.next_request.get();
        self.next_request.set(id + 1);
        id
    }
}

async fn keep_time(fleet: Rc<Engines>) -> io::Error {
    let mut ticks = time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut due = Vec::new();
    loop {
        ticks.tick().await;
        let now = Instant::now();
        for engine in &fleet.engines {
            let mut state = engine.state.borrow_mut();
            state.replica.advance(now, &mut due);
            for progress in due.drain(..) {
                state.deliver(progress, now);
            }
        }
    }
}

impl State {
    fn deliver(&mut self, progress: Progress, now: Instant) {
        self.totals.generated_tokens += u64::from(progress.tokens);
        let Some(reply) = self.replies.get_mut(&progress.request) else { return };
        let taken = progress.finished.then(|| now.saturating_duration_since(reply.started));
        reply.answer.advance(progress.tokens, taken, &mut reply.unsent);
        reply.flush();
        if progress.finished {
            self.totals.finished += 1;
            if let Some(mut reply) = self.replies.remove(&progress.request)
                && let Some(done) = reply.done.take()
            {
                // A connection that has gone meanwhile needs no answer.
                done.send(reply.unsent).unwrap_or_default();
            }
        }
    }
}

impl Reply {
    /// Hands the socket what it takes now; the rest goes with the next tokens.
    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.socket.try_write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                // The connection's own task notices a broken connection.
                Err(_) => return,
            }
        }
    }
}

async fn accept(listener: TcpListener, fleet: Rc<Engines>) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => drop(tokio::task::spawn_local(connection(socket, Rc::clone(&fleet)))),
            // The client left before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return error,
        }
    }
}

async fn connection(socket: TcpStream, fleet: Rc<Engines>) {
    let Ok(local) = socket.local_addr() else { return };
    let Some(engine) = fleet.at(local) else { return };
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let socket = Rc::new(socket);
    let mut received = Vec::new();
    loop {
        let (request, taken) = match look(&received) {
            Look::Whole(request, taken) => (request, taken),
            Look::Partial => match receive(&socket, &mut received).await {
                true => continue,
                false => return,
            },
            Look::Refused { status, reason } => {
                let mut out = Vec::new();
                refuse(status, &engine.id, reason, &mut out);
                send(&socket, &out).await;
                return;
            }
        };
        received.drain(..taken);
        let keep_alive = request.keep_alive;
        if !answer(&socket, &mut received, request, engine, &fleet).await || !keep_alive {
            return;
        }
    }
}

/// Answers one request. False when the connection is gone.
async fn answer(
    socket: &Rc<TcpStream>,
    received: &mut Vec<u8>,
    request: HttpRequest,
    engine: &Engine,
    fleet: &Engines,
) -> bool {
    let mut out = Vec::new();
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/chat/completions") => match ChatRequest::parse(&request.body) {
            Ok(chat) if engine.models.contains(&chat.model) => {
                return serve_chat(socket, received, chat, engine, fleet).await;
            }
            Ok(chat) => {
                let message = format!("The model `{}` does not exist.", chat.model);
                refuse(404, &engine.id, &message, &mut out);
            }
            Err(error) => refuse(400, &engine.id, &error.to_string(), &mut out),
        },
        ("GET", "/health") => respond(200, &engine.id, "text/plain", "", "", &mut out),
        ("GET", "/v1/models") => {
            let models: Vec<_> =
                engine.models.iter().map(|id| json!({ "id": id, "object": "model" })).collect();
            let body = json!({ "object": "list", "data": models }).to_string();
            respond(200, &engine.id, "application/json", "", &body, &mut out);
        }
        ("GET", "/metrics") => {
            let state = engine.state.borrow();
            let model = engine.models.first().map_or("", String::as_str);
            let text = metrics::text(model, &state.replica, state.totals);
            respond(200, &engine.id, "text/plain; version=0.0.4", "", &text, &mut out);
        }
        (_, "/v1/chat/completions" | "/health" | "/v1/models" | "/metrics") => {
            refuse(405, &engine.id, "Method Not Allowed", &mut out);
        }
        _ => refuse(404, &engine.id, "Not Found", &mut out),
    }
    send(socket, &out).await
}

async fn serve_chat(
    socket: &Rc<TcpStream>,
    received: &mut Vec<u8>,
    chat: ChatRequest,
    engine: &Engine,
    fleet: &Engines,
) -> bool {
    let id = fleet.new_request();
    let started = Instant::now();
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (done, answered) = oneshot::channel();
    {
        let mut state = engine.state.borrow_mut();
        let shape = chat.shape();
        let answer = Answer::new(&engine.id, id, created, chat, fleet.stream_interval);
        let reply =
            Reply { answer, socket: Rc::clone(socket), unsent: Vec::new(), started, done: Some(done) };
        state.replies.insert(id, reply);
        state.totals.prompt_tokens += shape.prompt_tokens;
        state.replica.submit(id, shape, started);
    }
    tokio::select! {
        rest = answered => match rest {
            Ok(rest) => send(socket, &rest).await,
            Err(_) => false,
        },
        () = gone(socket, received) => {
            let mut state = engine.state.borrow_mut();
            state.replies.remove(&id);
            state.replica.cancel(id, Instant::now());
            state.totals.aborted += 1;
            false
        }
    }
}

/// Returns when the client has closed or broken the connection. Bytes that come early are kept for the next request.
async fn gone(socket: &TcpStream, received: &mut Vec<u8>) {
    while received.len() < MAX_AHEAD {
        if !receive(socket, received).await {
            return;
        }
    }
    std::future::pending().await
}

/// Waits for bytes and appends them. False at the end of the stream or on a broken connection.
async fn receive(socket: &TcpStream, received: &mut Vec<u8>) -> bool {
    loop {
        if socket.readable().await.is_err() {
            return false;
        }
        received.reserve(16 << 10);
        match socket.try_read_buf(received) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
}

/// Writes all of it. False on a broken connection.
async fn send(socket: &TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        if socket.writable().await.is_err() {
            return false;
        }
        match socket.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}
