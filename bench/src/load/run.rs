//! The load generator's loop.
use std::{
    cell::RefCell,
    fs::File,
    io::{self, Write},
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    task::{JoinSet, LocalSet},
    time,
};

use super::{
    client::{Prompt, Sources, Target, request},
    record::{Failure, Outcome, Record},
    schedule::{Arrivals, Conversations, Random, Turn},
    summary::Summary,
};

/// Prefilled requests are spread over this time, so that they do not arrive as one burst.
const PREFILL_TIME: Duration = Duration::from_millis(500);

/// What to send.
#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    pub sources: Option<Sources>,
    pub prompt: Prompt,
    /// Requests/s.
    pub rate: f64,
    pub seed: u64,
    /// Evenly spaced arrivals instead of a Poisson process.
    pub even: bool,
    pub mean_turns: f64,
    /// Arrivals end after this time or this number of requests, whichever comes first.
    pub length: Duration,
    pub requests: u64,
    /// Requests that are sent at the start beside the others, with as many output tokens as are left of a request found
    /// at a random moment: the load then begins as if it had run for long. They are not recorded.
    pub prefill: u32,
    /// A request that has no complete answer after this time counts as failed.
    pub timeout: Duration,
}

struct State {
    conversations: Conversations,
    summary: Summary,
    records: Option<File>,
    /// The first record that could not be written ends the run.
    failed_write: Option<io::Error>,
}

/// Sends the load and waits for its answers. Each record is a line of `records`, written when the answer is complete.
///
/// # Errors
/// The records cannot be written, or the runtime cannot start.
pub fn run(plan: Plan, records: Option<&Path>) -> io::Result<Summary> {
    let records = records.map(File::create).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let state = Rc::new(RefCell::new(State {
        conversations: Conversations::new(plan.seed, plan.mean_turns),
        summary: Summary::default(),
        records,
        failed_write: None,
    }));
    LocalSet::new().block_on(&runtime, send(Rc::new(plan), Rc::clone(&state)));
    let mut state = state.borrow_mut();
    match state.failed_write.take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut state.summary)),
    }
}

async fn send(plan: Rc<Plan>, state: Rc<RefCell<State>>) {
    let start = Instant::now();
    let mut requests = JoinSet::new();
    let mut random = Random::new(!plan.seed);
    for number in 0..plan.prefill {
        let at = PREFILL_TIME.mul_f64(f64::from(number) / f64::from(plan.prefill));
        let turn = Turn { key: random.bits(), number: 1 };
        let left = 1 + random.below(plan.prompt.output_tokens() as usize);
        let output_tokens = u32::try_from(left).expect("it is at most a u32");
        let prompt = plan.prompt.with_output(output_tokens);
        let (target, sources) = (plan.target, plan.sources);
        requests.spawn_local(async move {
            time::sleep_until((start + at).into()).await;
            // It only occupies an engine: what becomes of it does not matter.
            drop(request(target, sources, &prompt, turn, start + at).await);
        });
    }
    let arrivals =
        if plan.even { Arrivals::even(plan.rate) } else { Arrivals::poisson(plan.seed, plan.rate) };
    let arrivals = arrivals.take_while(|at| *at < plan.length);
    for (_, at) in (0..plan.requests).zip(arrivals) {
        if state.borrow().failed_write.is_some() {
            break;
        }
        time::sleep_until((start + at).into()).await;
        let turn = state.borrow_mut().conversations.next_turn();
        requests.spawn_local(one(Rc::clone(&plan), Rc::clone(&state), turn, start, at));
        // Collects what has ended, so that the set stays small.
        while requests.try_join_next().is_some() {}
    }
    while requests.join_next().await.is_some() {}
}

async fn one(plan: Rc<Plan>, state: Rc<RefCell<State>>, turn: Turn, start: Instant, at: Duration) {
    let answer = request(plan.target, plan.sources, &plan.prompt, turn, start + at);
    let outcome = match time::timeout(plan.timeout, answer).await {
        Ok(Ok(answered)) => Outcome::Answered(answered),
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(_) => Outcome::Failed(Failure::Timeout),
    };
    let at_us = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
    state.borrow_mut().finish(&Record { at_us, key: turn.key, turn: turn.number, outcome }, turn);
}

impl State {
    fn finish(&mut self, record: &Record, turn: Turn) {
        self.conversations.finished(turn);
        self.summary.add(record);
        let Some(file) = &mut self.records else { return };
        let written = serde_json::to_string(record)
            .map_err(io::Error::from)
            .and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            self.failed_write.get_or_insert(error);
        }
    }
}
