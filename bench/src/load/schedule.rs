//! When requests arrive and which conversation each belongs to: the same for the same seed.
use std::time::Duration;

/// Conversations that may wait for their next turn; beyond it the oldest are forgotten.
const MAX_IDLE: usize = 1 << 16;

/// A reproducible source of random bits (SplitMix64, Steele, Lea and Flood 2014), kept here so that a seed means the
/// same in every build.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform, at least 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        let scaled = (u128::from(self.bits()) * bound as u128) >> 64;
        usize::try_from(scaled).expect("the result is below the bound")
    }
}

/// Arrival times: a Poisson process, or evenly spaced.
#[derive(Clone, Debug)]
pub struct Arrivals {
    random: Option<Random>,
    rate: f64,
    at: f64,
}

impl Arrivals {
    /// `rate` in requests/s, above 0.
    pub const fn poisson(seed: u64, rate: f64) -> Self {
        Self { random: Some(Random::new(seed)), rate, at: 0.0 }
    }

    /// `rate` in requests/s, above 0. For suites that compare a measured rate with a stated one.
    pub const fn even(rate: f64) -> Self {
        Self { random: None, rate, at: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let gap = self.random.as_mut().map_or(1.0, |random| -(1.0 - random.unit()).ln());
        self.at += gap / self.rate;
        Some(Duration::from_secs_f64(self.at))
    }
}

/// A conversation's next turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Turn {
    /// Low half of the address that the client connects to.
    pub key: u64,
    /// 1 for the first.
    pub number: u32,
}

/// Conversations in progress. An arrival begins one, or is the next turn of one whose last answer is complete.
#[derive(Clone, Debug)]
pub struct Conversations {
    random: Random,
    begin: f64,
    idle: Vec<Turn>,
}

impl Conversations {
    /// `mean_turns` is at least 1; with 1 every request begins a conversation.
    pub fn new(seed: u64, mean_turns: f64) -> Self {
        Self { random: Random::new(seed ^ 0x5bd1_e995_97f4_a7c1), begin: 1.0 / mean_turns, idle: Vec::new() }
    }

    pub fn next_turn(&mut self) -> Turn {
        if self.idle.is_empty() || self.random.unit() < self.begin {
            return Turn { key: self.random.bits(), number: 1 };
        }
        let chosen = self.random.below(self.idle.len());
        let last = self.idle.swap_remove(chosen);
        Turn { key: last.key, number: last.number + 1 }
    }

    /// The turn's answer is complete: another may follow.
    pub fn finished(&mut self, turn: Turn) {
        if self.begin < 1.0 && self.idle.len() < MAX_IDLE {
            self.idle.push(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_seed_gives_the_published_values() {
        // The generator's reference output for seed 1234567.
        let mut random = Random::new(1_234_567);

        assert_eq!([random.bits(), random.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn arrivals_keep_their_rate_and_their_spread() {
        let times: Vec<f64> =
            Arrivals::poisson(7, 50.0).take(100_000).map(|time| time.as_secs_f64()).collect();

        // 100,000 gaps of mean 20 ms: the sum's standard deviation is 316 gaps, so 1.5 % is more than four of them.
        let end = times.last().unwrap();
        assert!((end / 2_000.0 - 1.0).abs() < 0.015, "{end}");
        // An exponential gap's standard deviation is its mean.
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn conversations_have_the_wanted_mean_of_turns() {
        let mut conversations = Conversations::new(3, 4.0);
        let mut begun = 0;

        for _ in 0..40_000 {
            let turn = conversations.next_turn();
            begun += u32::from(turn.number == 1);
            conversations.finished(turn);
        }

        // 40,000 turns at 4 each: 10,000 conversations, with a standard deviation of 87.
        assert!((9_600..10_400).contains(&begun), "{begun}");
    }

    #[test]
    fn a_turn_in_progress_is_not_followed_by_another() {
        let mut conversations = Conversations::new(3, 1_000.0);

        let first = conversations.next_turn();
        let second = conversations.next_turn();
        conversations.finished(first);
        let third = conversations.next_turn();

        assert_eq!((first.number, second.number), (1, 1));
        assert_ne!(first.key, second.key);
        assert_eq!(third, Turn { key: first.key, number: 2 });
    }
}
