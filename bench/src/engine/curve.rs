//! Latency against utilisation, as a profile gives it, and the work of a request.
use serde::{Deserialize, Serialize};

/// How one engine serves. The same fields as a `[[profile]]` of the fleet file, checked on reading.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "RawProfile", into = "RawProfile")]
pub struct Profile {
    raw: RawProfile,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawProfile {
    /// Reference requests/s within the objectives; above 0.
    pub capacity_rps: f64,
    /// Tokens of the reference request.
    pub reference: Shape,
    /// Work of one prompt token over that of one output token.
    pub prefill_weight: f64,
    /// Utilisation strictly increasing from 0 to 1 or beyond; linear between points.
    pub points: Vec<Point>,
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub prompt_tokens: f64,
    pub output_tokens: f64,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub utilisation: f64,
    pub ttft_ms: f64,
    pub itl_ms: f64,
}

/// Why a profile cannot be followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    #[error("{name} is {value}, and must be finite and above 0")]
    NotPositive { name: &'static str, value: f64 },
    #[error("the points must start at utilisation 0, rise strictly and reach 1")]
    Utilisations,
    #[error("TTFT and ITL must be finite, above 0 and not fall with utilisation")]
    Latencies,
}

impl TryFrom<RawProfile> for Profile {
    type Error = ProfileError;

    fn try_from(raw: RawProfile) -> Result<Self, ProfileError> {
        let positive = [
            ("capacity_rps", raw.capacity_rps),
            ("reference.prompt_tokens", raw.reference.prompt_tokens),
            ("reference.output_tokens", raw.reference.output_tokens),
            ("prefill_weight", raw.prefill_weight),
        ];
        for (name, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return Err(ProfileError::NotPositive { name, value });
            }
        }
        let first = raw.points.first().is_some_and(|point| point.utilisation == 0.0);
        let last = raw.points.last().is_some_and(|point| point.utilisation >= 1.0);
        let rising = raw.points.windows(2).all(|pair| pair[0].utilisation < pair[1].utilisation);
        if !(first && last && rising) {
            return Err(ProfileError::Utilisations);
        }
        let usable = |value: f64| value.is_finite() && value > 0.0;
        let slower = raw
            .points
            .windows(2)
            .all(|pair| pair[0].ttft_ms <= pair[1].ttft_ms && pair[0].itl_ms <= pair[1].itl_ms);
        if !(slower && raw.points.iter().all(|point| usable(point.ttft_ms) && usable(point.itl_ms))) {
            return Err(ProfileError::Latencies);
        }
        Ok(Self { raw })
    }
}

impl From<Profile> for RawProfile {
    fn from(profile: Profile) -> Self {
        profile.raw
    }
}

/// TTFT and ITL of one request at some utilisation, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    pub ttft: f64,
    pub itl: f64,
}

impl Profile {
    /// Reference requests/s.
    pub const fn capacity(&self) -> f64 {
        self.raw.capacity_rps
    }

    /// Work of a request in reference requests.
    pub fn work(&self, shape: Shape) -> f64 {
        let tokens = |shape: Shape| self.raw.prefill_weight * shape.prompt_tokens + shape.output_tokens;
        tokens(shape) / tokens(self.raw.reference)
    }

    /// How fast a request is served at `utilisation` (0 to 1). What load adds to an unloaded engine's latency grows
    /// with the request's work, as the assignment counts it: TTFT by `work`, ITL by `work` for each reference token.
    pub fn pace(&self, shape: Shape, utilisation: f64) -> Pace {
        let idle = self.reference_pace(0.0);
        let loaded = self.reference_pace(utilisation);
        let work = self.work(shape);
        let per_token = work * self.raw.reference.output_tokens / shape.output_tokens;
        Pace {
            ttft: idle.ttft + work * (loaded.ttft - idle.ttft),
            itl: idle.itl + per_token * (loaded.itl - idle.itl),
        }
    }

    /// Seconds from a request's start to its end at `utilisation`.
    pub fn latency(&self, shape: Shape, utilisation: f64) -> f64 {
        let pace = self.pace(shape, utilisation);
        pace.ttft + shape.output_tokens * pace.itl
    }

    fn reference_pace(&self, utilisation: f64) -> Pace {
        let points = &self.raw.points;
        let above =
            points.partition_point(|point| point.utilisation <= utilisation).clamp(1, points.len() - 1);
        let (a, b) = (points[above - 1], points[above]);
        let part = ((utilisation - a.utilisation) / (b.utilisation - a.utilisation)).clamp(0.0, 1.0);
        Pace {
            ttft: (a.ttft_ms + part * (b.ttft_ms - a.ttft_ms)) / 1_000.0,
            itl: (a.itl_ms + part * (b.itl_ms - a.itl_ms)) / 1_000.0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const CHAT: Shape = Shape { prompt_tokens: 600.0, output_tokens: 100.0 };

    pub(crate) fn h100() -> Profile {
        let point = |utilisation, ttft_ms, itl_ms| Point { utilisation, ttft_ms, itl_ms };
        RawProfile {
            capacity_rps: 20.0,
            reference: CHAT,
            prefill_weight: 0.1,
            points: vec![
                point(0.0, 120.0, 18.0),
                point(0.5, 160.0, 20.0),
                point(0.8, 260.0, 24.0),
                point(0.9, 420.0, 29.0),
                point(1.0, 900.0, 40.0),
            ],
        }
        .try_into()
        .unwrap()
    }

    #[test]
    fn a_reference_request_follows_the_points_and_the_lines_between_them() {
        let profile = h100();

        // 160 + 100 * 20, and half-way from 260 + 2400 to 420 + 2900.
        assert!((profile.latency(CHAT, 0.5) - 2.160).abs() < 1e-12);
        assert!((profile.latency(CHAT, 0.85) - 2.990).abs() < 1e-12);
        assert!((profile.latency(CHAT, 1.0) - 4.900).abs() < 1e-12);
    }

    #[test]
    fn load_delays_a_larger_request_in_proportion_to_its_work() {
        let profile = h100();
        let long = Shape { prompt_tokens: 3_000.0, output_tokens: 180.0 };

        // (0.1 * 3000 + 180) / (0.1 * 600 + 100) = 3; 120 + 180 * 18 + 3 * (2160 - 1920).
        assert!((profile.work(long) - 3.0).abs() < 1e-12);
        assert!((profile.latency(long, 0.5) - 4.080).abs() < 1e-12);
    }

    #[test]
    fn a_profile_that_does_not_reach_full_load_is_refused() {
        let mut raw = RawProfile::from(h100());
        raw.points.pop();

        assert_eq!(Profile::try_from(raw), Err(ProfileError::Utilisations));
    }
}
