//! One engine's work as values: what is in flight, how far each request is, and what waits.
//!
//! Requests in flight share the engine. At utilisation `u` each goes on at the pace of its profile, so the engine does
//! `C u` reference requests a second, and `u` solves `sum over requests of work / latency(u) = C u`: for reference
//! requests alone, `in-flight = C u latency(u)`. Beyond utilisation 1 requests wait, first in, first out.
use std::{collections::VecDeque, time::Instant};

use super::curve::{Profile, Shape};

/// Halvings of the utilisation's interval: finds it to one part in a billion.
const HALVINGS: u32 = 30;

/// Room for the rounding of a sum, as a fraction of the capacity.
const ROUNDING: f64 = 1e-9;

/// Identifies a request within the replica's owner.
pub(crate) type RequestId = u64;

/// What has become due since the last look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Progress {
    pub(crate) request: RequestId,
    /// Tokens to send now.
    pub(crate) tokens: u32,
    /// The request is over with these tokens, and has left the replica.
    pub(crate) finished: bool,
}

/// An engine's state.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    profile: Profile,
    running: Vec<Running>,
    waiting: VecDeque<(RequestId, Shape)>,
    utilisation: f64,
    /// Work a second that the running requests would take at utilisation 1.
    full_rate: f64,
}

#[derive(Clone, Debug)]
struct Running {
    request: RequestId,
    shape: Shape,
    work: f64,
    full_rate: f64,
    /// Progress is counted up to here.
    updated: Instant,
    /// Part of the time to the first token that is still to come, 1 to 0.
    prefill_left: f64,
    /// Token times since the first token.
    decoded: f64,
    sent: u32,
}

impl Replica {
    pub(crate) const fn new(profile: Profile) -> Self {
        Self { profile, running: Vec::new(), waiting: VecDeque::new(), utilisation: 0.0, full_rate: 0.0 }
    }

    pub(crate) const fn utilisation(&self) -> f64 {
        self.utilisation
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a request in: it starts at once unless others wait or the engine is full.
    pub(crate) fn submit(&mut self, request: RequestId, shape: Shape, now: Instant) {
        self.waiting.push_back((request, shape));
        self.admit(now);
    }

    /// Forgets a request whose client has gone.
    pub(crate) fn cancel(&mut self, request: RequestId, now: Instant) {
        self.waiting.retain(|(waiting, _)| *waiting != request);
        self.running.retain(|running| running.request != request);
        self.admit(now);
    }

    /// Brings every running request up to `now`, appends what has become due, and starts what can start.
    pub(crate) fn advance(&mut self, now: Instant, due: &mut Vec<Progress>) {
        let mut left = false;
        for running in &mut self.running {
            running.advance(&self.profile, self.utilisation, now);
            let (tokens, finished) = running.take_due();
            if tokens > 0 || finished {
                due.push(Progress { request: running.request, tokens, finished });
            }
            left |= finished;
        }
        if left {
            self.running.retain(|running| !running.is_finished());
            self.admit(now);
        }
    }

    fn admit(&mut self, now: Instant) {
        self.full_rate = self.running.iter().map(|running| running.full_rate).sum();
        while let Some((request, shape)) = self.waiting.front().copied() {
            let work = self.profile.work(shape);
            let full_rate = work / self.profile.latency(shape, 1.0);
            if !self.running.is_empty()
                && self.full_rate + full_rate > self.profile.capacity() * (1.0 + ROUNDING)
            {
                break;
            }
            self.waiting.pop_front();
            self.full_rate += full_rate;
            self.running.push(Running {
                request,
                shape,
                work,
                full_rate,
                updated: now,
                prefill_left: 1.0,
                decoded: 0.0,
                sent: 0,
            });
        }
        self.utilisation = self.solve();
    }

    /// The work rate falls with `u` and `C u` rises, so there is one crossing.
    fn solve(&self) -> f64 {
        let excess = |u: f64| {
            let rate: f64 = self
                .running
                .iter()
                .map(|running| running.work / self.profile.latency(running.shape, u))
                .sum();
            rate - self.profile.capacity() * u
        };
        let (mut low, mut high) = (0.0, 1.0);
        if self.running.is_empty() || excess(high) >= 0.0 {
            return if self.running.is_empty() { low } else { high };
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if excess(middle) > 0.0 { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    }
}

impl Running {
    fn advance(&mut self, profile: &Profile, utilisation: f64, now: Instant) {
        let pace = profile.pace(self.shape, utilisation);
        let mut seconds = now.saturating_duration_since(self.updated).as_secs_f64();
        self.updated = now;
        let prefill = self.prefill_left * pace.ttft;
        if seconds < prefill {
            self.prefill_left -= seconds / pace.ttft;
            return;
        }
        seconds -= prefill;
        self.prefill_left = 0.0;
        self.decoded += seconds / pace.itl;
    }

    /// The first token is due with the end of the prefill, the others an ITL apart; the request ends one ITL after its
    /// last token, so that all of it takes TTFT and one ITL a token.
    fn take_due(&mut self) -> (u32, bool) {
        if self.prefill_left > 0.0 {
            return (0, false);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounded by the request's tokens, which came from a u32"
        )]
        let due = (1.0 + self.decoded.floor()).min(self.shape.output_tokens) as u32;
        let tokens = due - self.sent;
        self.sent = due;
        (tokens, self.is_finished())
    }

    fn is_finished(&self) -> bool {
        self.prefill_left <= 0.0 && self.decoded >= self.shape.output_tokens
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::curve::tests::{CHAT, h100};

    const TICK: Duration = Duration::from_millis(1);

    /// Runs until `request` ends; gives the times of its first token and of its end.
    fn serve(replica: &mut Replica, request: RequestId, start: Instant) -> (Duration, Duration) {
        let mut now = start;
        let mut first = None;
        let mut due = Vec::new();
        loop {
            now += TICK;
            replica.advance(now, &mut due);
            for progress in due.drain(..).filter(|progress| progress.request == request) {
                first.get_or_insert(now - start);
                if progress.finished {
                    return (first.unwrap(), now - start);
                }
            }
            assert!(now - start < Duration::from_secs(60), "request {request} does not end");
        }
    }

    #[test]
    fn requests_of_a_known_utilisation_give_it_back() {
        let mut replica = Replica::new(h100());
        let now = Instant::now();

        // C u latency(u) at u = 0.5: 20 * 0.5 * 2.16 = 21.6, so 21 requests lie just below and 22 just above.
        (0..21).for_each(|request| replica.submit(request, CHAT, now));
        let below = replica.utilisation();
        replica.submit(21, CHAT, now);

        assert!(below < 0.5 && below > 0.48, "{below}");
        assert!(replica.utilisation() > 0.5 && replica.utilisation() < 0.52, "{}", replica.utilisation());
    }

    #[test]
    fn a_lone_request_takes_the_latency_of_its_own_utilisation() {
        let mut replica = Replica::new(h100());
        let start = Instant::now();
        replica.submit(7, CHAT, start);

        let (first, end) = serve(&mut replica, 7, start);

        // u = 1 / (20 * latency) is about 0.0257: TTFT 122.1 ms, ITL 18.103 ms, each found within a tick.
        assert!(first.abs_diff(Duration::from_micros(122_060)) <= TICK, "{first:?}");
        assert!(end.abs_diff(Duration::from_micros(1_932_350)) <= 2 * TICK, "{end:?}");
        assert_eq!((replica.running(), replica.utilisation()), (0, 0.0));
    }

    #[test]
    fn requests_beyond_full_load_wait_first_in_first_out() {
        let mut replica = Replica::new(h100());
        let now = Instant::now();

        // C latency(1) = 20 * 4.9 = 98 requests fill the engine.
        (0..100).for_each(|request| replica.submit(request, CHAT, now));
        let counts = (replica.running(), replica.waiting());
        replica.cancel(0, now);
        let mut due = Vec::new();
        replica.advance(now + Duration::from_secs(1), &mut due);

        assert_eq!(counts, (98, 2));
        assert_eq!((replica.running(), replica.waiting()), (98, 1));
        assert!(due.iter().any(|progress| progress.request == 98), "the first that waited runs");
        assert!(due.iter().all(|progress| progress.request != 99), "the second still waits");
    }

    #[test]
    fn every_token_is_sent_once() {
        let mut replica = Replica::new(h100());
        let start = Instant::now();
        let mut due = Vec::new();
        replica.submit(1, CHAT, start);

        // One look long after the end gives all of it.
        replica.advance(start + Duration::from_secs(9), &mut due);

        assert_eq!(due, [Progress { request: 1, tokens: 100, finished: true }]);
    }

    #[test]
    fn a_mixed_load_does_the_work_of_its_utilisation() {
        let mut replica = Replica::new(h100());
        let long = Shape { prompt_tokens: 3_000.0, output_tokens: 180.0 };
        let now = Instant::now();
        (0..10).for_each(|request| replica.submit(request, CHAT, now));
        (10..14).for_each(|request| replica.submit(request, long, now));

        let u = replica.utilisation();

        // Work 1 over the reference latency, work 3 over 120 + 180 * 18 + 3 * added, in reference requests a second.
        let added = if u < 0.5 { u / 0.5 * 0.240 } else { 0.240 + (u - 0.5) / 0.3 * 0.500 };
        let rate = 10.0 / (1.920 + added) + 4.0 * 3.0 / (3.360 + 3.0 * added);
        assert!((rate - 20.0 * u).abs() < 1e-6, "{rate} against {}", 20.0 * u);
    }
}
