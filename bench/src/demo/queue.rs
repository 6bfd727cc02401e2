//! What random arrivals add to the assignment's expectation.
//!
//! The assignment counts with steady rates. At an engine whose work is shared, Poisson arrivals make the number in
//! flight vary, and where latency rises with load the mean is above the latency of the mean load. Sharing is
//! insensitive to how work is distributed, so the number in flight has the birth-death distribution with arrival rate
//! `lambda` and departure rate `C u(n)` (Bonald and Proutiere, "Insensitivity in processor-sharing networks", 2002).
use crate::engine::curve::{Profile, Shape};

/// Halvings of the utilisation's interval.
const HALVINGS: u32 = 40;
/// Terms below this part of their sum are left out.
const NEGLIGIBLE: f64 = 1e-12;
/// More requests in flight than any engine of the demo holds.
const LONGEST: u32 = 1_000_000;

/// Mean seconds of a reference request at one engine with Poisson arrivals of `rate` reference requests/s; `None` at or
/// above its capacity, where no mean exists.
pub(super) fn mean_latency(profile: &Profile, reference: Shape, rate: f64) -> Option<f64> {
    if rate >= profile.capacity() {
        return None;
    }
    if rate <= 0.0 {
        return Some(profile.latency(reference, 0.0));
    }
    let full = profile.capacity() * profile.latency(reference, 1.0);
    let (mut term, mut sum, mut in_flight) = (1.0, 1.0, 0.0);
    for n in 1..LONGEST {
        let n = f64::from(n);
        term *= rate / (profile.capacity() * utilisation(profile, reference, n));
        sum += term;
        in_flight += n * term;
        if n > full && term < NEGLIGIBLE * sum {
            break;
        }
    }
    // Little's law.
    Some(in_flight / sum / rate)
}

/// Utilisation with `n` reference requests in flight: `n = C u latency(u)`, 1 beyond that.
fn utilisation(profile: &Profile, reference: Shape, n: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if profile.capacity() * middle * profile.latency(reference, middle) < n {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{
        engine::{
            curve::tests::{CHAT, h100},
            replica::Replica,
        },
        load::schedule::Arrivals,
    };

    #[test]
    fn an_engine_that_hardly_works_has_the_latency_of_an_idle_one() {
        let mean = mean_latency(&h100(), CHAT, 0.001).unwrap();

        // A request alone sees its own load: u = 1 / (20 latency), where latency rises by 0.48 s for each unit of u.
        let alone = 1.932_35;
        assert!((mean - alone).abs() < 1e-3, "{mean}");
    }

    #[test]
    fn the_mean_agrees_with_a_simulated_engine() {
        let profile = h100();
        let (rate, requests) = (16.0, 40_000);
        let mut replica = Replica::new(profile.clone());
        let start = Instant::now();
        let (mut due, mut now) = (Vec::new(), start);
        let (mut area, mut finished) = (0.0, 0);

        for (request, at) in (0..requests).zip(Arrivals::poisson(11, rate)) {
            while now < start + at {
                let next = (start + at).min(now + Duration::from_millis(20));
                area += (replica.running() + replica.waiting()) as f64 * (next - now).as_secs_f64();
                now = next;
                replica.advance(now, &mut due);
                finished += due.drain(..).filter(|progress| progress.finished).count();
            }
            replica.submit(request, CHAT, now);
        }

        // Little's law over the whole time. 2,500 s of an engine that forgets in 10 s: 250 independent looks at a
        // number in flight that varies by a quarter, so 5 % is three standard errors.
        let simulated = area / finished as f64;
        let mean = mean_latency(&profile, CHAT, rate).unwrap();
        assert!((simulated / mean - 1.0).abs() < 0.05, "simulated {simulated}, expected {mean}");
    }

    #[test]
    fn an_overloaded_engine_has_no_mean() {
        assert_eq!(mean_latency(&h100(), CHAT, 20.0), None);
    }
}
