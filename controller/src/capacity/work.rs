//! Work and delay by profile: what one request of a class costs a replica, and how latency grows.
use crate::fleet::Fleet;
use crate::fleet::parts::{Class, Profile, Reference};
use crate::solve::problem::Curve;

/// Work of one request of the class over that of the profile's reference request. Above 0.
///
/// A request is `prefill_weight * prompt + output` work tokens, with the profile's own prefill weight, so that work does
/// not factorise where hardware is mixed.
pub fn gain(profile: &Profile, class: &Class) -> f64 {
    let request = Reference { prompt: class.mean_prompt, output: class.mean_output };
    work_tokens(profile, &request) / work_tokens(profile, &profile.reference)
}

/// Delay of a request of the class at an idle replica: `ttft(0) + output * itl(0)`, ms.
pub fn base_ms(profile: &Profile, class: &Class) -> f64 {
    let idle = profile.points[0];
    idle.ttft.get() + class.mean_output.get() * idle.itl.get()
}

/// Delay of the reference request at an idle replica, ms.
pub fn reference_idle_ms(profile: &Profile) -> f64 {
    latency_ms(profile, 0)
}

/// Extra delay of the reference request against utilisation: `lat(u) - lat(0)` with `lat = ttft + output * itl`.
pub fn curve(profile: &Profile) -> Curve {
    let idle = latency_ms(profile, 0);
    let points = (0..profile.points.len())
        .map(|at| (profile.points[at].utilisation.get(), latency_ms(profile, at) - idle))
        .collect();
    Curve { points }
}

/// A profile whose cost is not convex in work: the assignment sees it bridged from below.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Bridged {
    pub profile: String,
    /// Widest bridge, in utilisation.
    pub from: f64,
    pub to: f64,
}

impl std::fmt::Display for Bridged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "profile {:?} is not convex in work: between utilisation {:.2} and {:.2} its latency rises and then \
             flattens; the assignment takes the line below it there",
            self.profile, self.from, self.to
        )
    }
}

/// Profiles that the assignment bridges; the file's owner is told of them.
pub fn bridged(fleet: &Fleet) -> Vec<Bridged> {
    let limit = 1.0 - fleet.headroom.get();
    fleet
        .profiles
        .iter()
        .filter_map(|profile| {
            let (from, to) = curve(profile).bridged(limit)?;
            Some(Bridged { profile: profile.id.clone(), from, to })
        })
        .collect()
}

/// Latency of the reference request at one of the profile's points.
fn latency_ms(profile: &Profile, at: usize) -> f64 {
    let point = profile.points[at];
    point.ttft.get() + profile.reference.output.get() * point.itl.get()
}

fn work_tokens(profile: &Profile, request: &Reference) -> f64 {
    profile.prefill_weight.get() * request.prompt.get() + request.output.get()
}

#[cfg(test)]
mod tests {
    use crate::fleet;

    use super::*;

    fn mixed() -> Fleet {
        fleet::parse(include_str!("../../../examples/mixed.toml")).unwrap()
    }

    #[test]
    fn work_is_weighed_by_each_profile_so_that_hardware_does_not_factorise() {
        let fleet = mixed();
        let (h100, h200) = (&fleet.profiles[0], &fleet.profiles[1]);
        let batch = fleet.class(&"batch".into()).unwrap();

        // (0.10 * 12000 + 300) / (0.10 * 600 + 150) and (0.06 * 12000 + 300) / (0.06 * 600 + 150).
        assert!((gain(h100, batch) - 1500.0 / 210.0).abs() < 1e-12);
        assert!((gain(h200, batch) - 1020.0 / 186.0).abs() < 1e-12);
    }

    #[test]
    fn an_idle_request_waits_for_its_own_output() {
        let fleet = mixed();

        // 120 ms to the first token, then 300 tokens of 18 ms.
        assert_eq!(base_ms(&fleet.profiles[0], fleet.class(&"batch".into()).unwrap()), 5_520.0);
    }

    #[test]
    fn the_curve_starts_at_no_extra_delay() {
        let curve = curve(&mixed().profiles[0]);

        // lat(0.5) - lat(0) = (160 + 150 * 20) - (120 + 150 * 18).
        assert_eq!(curve.points[..2], [(0.0, 0.0), (0.5, 340.0)]);
    }

    #[test]
    fn a_profile_that_flattens_is_reported_and_a_convex_one_is_not() {
        let mut fleet = mixed();
        assert_eq!(bridged(&fleet), []);

        let flat = fleet.profiles[0].points[2].ttft;
        fleet.profiles[0].points[1].ttft = flat;
        fleet.profiles[0].points[1].itl = fleet.profiles[0].points[2].itl;

        let found = bridged(&fleet);
        assert_eq!(found.len(), 1);
        assert!(found[0].profile == "h100" && found[0].from < 0.5 && found[0].to > 0.5, "{found:?}");
    }
}
