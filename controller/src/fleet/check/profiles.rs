//! Profiles: capacity, reference request and the latency curve.
use std::ops::Range;

use super::{Checker, Places};
use crate::fleet::fault::FaultKind;
use crate::fleet::parts::{Profile, ProfilePoint, Reference};
use crate::fleet::raw::{Given, RawFleet, RawPoint, RawReference};
use crate::fleet::units::Tokens;

const DEFAULT_PREFILL_WEIGHT: f64 = 0.1;

impl Checker {
    pub(super) fn profiles(&mut self, raw: &RawFleet) -> Vec<Profile> {
        let mut seen = Places::new();
        let mut profiles = Vec::new();
        for (at, profile) in raw.profile.iter().enumerate() {
            let (owner, key) = (profile.span(), format!("profile[{at}]"));
            let part = profile.get_ref();
            let id = self.id(&part.id, &owner, &format!("{key}.id"), &mut seen);
            let capacity = self.positive(&part.capacity_rps, &owner, &format!("{key}.capacity_rps"));
            let prefill_weight = self.quantity_or(
                &part.prefill_weight,
                &format!("{key}.prefill_weight"),
                DEFAULT_PREFILL_WEIGHT,
            );
            let reference = match &part.reference {
                Some(given) => self.reference_request(given, &format!("{key}.reference")),
                None => self.first_class_of(raw, part.id.as_ref().map(toml::Spanned::get_ref), &owner, &key),
            };
            let points = self.points(&part.points, &owner, &format!("{key}.points"));
            if let (Some(id), Some(capacity), Some(prefill_weight), Some(reference), Some(points)) =
                (id, capacity, prefill_weight, reference, points)
            {
                profiles.push(Profile { id, capacity, reference, prefill_weight, points });
            }
        }
        profiles
    }

    fn reference_request(&mut self, given: &toml::Spanned<RawReference>, key: &str) -> Option<Reference> {
        let owner = given.span();
        let prompt =
            self.required_quantity(&given.get_ref().prompt_tokens, &owner, &format!("{key}.prompt_tokens"));
        let output = self.positive(&given.get_ref().output_tokens, &owner, &format!("{key}.output_tokens"));
        Some(Reference { prompt: prompt?, output: output? })
    }

    /// The mean request of the first class that asks for a model of the first group with this profile.
    fn first_class_of(
        &mut self,
        raw: &RawFleet,
        profile: Option<&String>,
        owner: &Range<usize>,
        key: &str,
    ) -> Option<Reference> {
        let profile = profile?;
        let models: Vec<&String> = raw
            .engine_group
            .iter()
            .map(toml::Spanned::get_ref)
            .filter(|group| group.profile.as_ref().is_some_and(|given| given.get_ref() == profile))
            .flat_map(|group| group.model.iter().chain(&group.models))
            .map(toml::Spanned::get_ref)
            .collect();
        let class = models.iter().find_map(|model| {
            raw.class
                .iter()
                .map(toml::Spanned::get_ref)
                .find(|class| class.model.as_ref().is_some_and(|given| given.get_ref() == *model))
        });
        let Some(class) = class else {
            self.fault(owner, format!("{key}.reference"), FaultKind::NoReference);
            return None;
        };
        // A faulty number is reported at the class.
        let tokens =
            |given: &Given<f64>| given.as_ref().and_then(|given| Tokens::try_from(*given.get_ref()).ok());
        Some(Reference {
            prompt: tokens(&class.mean_prompt_tokens)?,
            output: tokens(&class.mean_output_tokens)?,
        })
    }

    fn points(
        &mut self,
        given: &Given<Vec<toml::Spanned<RawPoint>>>,
        owner: &Range<usize>,
        key: &str,
    ) -> Option<Vec<ProfilePoint>> {
        let given = self.required(given, owner, key)?;
        if given.get_ref().is_empty() {
            self.fault(&given.span(), key, FaultKind::Empty);
            return None;
        }
        let points: Vec<Option<ProfilePoint>> = given
            .get_ref()
            .iter()
            .enumerate()
            .map(|(at, point)| self.point(point, &format!("{key}[{at}]")))
            .collect();
        let places: Vec<Range<usize>> = given.get_ref().iter().map(toml::Spanned::span).collect();
        let points: Vec<ProfilePoint> = points.into_iter().collect::<Option<_>>()?;
        self.order_of(&points, &places, key).then_some(points)
    }

    fn point(&mut self, given: &toml::Spanned<RawPoint>, key: &str) -> Option<ProfilePoint> {
        let (point, owner) = (given.get_ref(), given.span());
        let utilisation = self.required_quantity(&point.utilisation, &owner, &format!("{key}.utilisation"));
        let ttft = self.required_quantity(&point.ttft_ms, &owner, &format!("{key}.ttft_ms"));
        let itl = self.required_quantity(&point.itl_ms, &owner, &format!("{key}.itl_ms"));
        Some(ProfilePoint { utilisation: utilisation?, ttft: ttft?, itl: itl? })
    }

    /// Whether the points run from 0 to at least 1, upwards, without latency falling.
    fn order_of(&mut self, points: &[ProfilePoint], places: &[Range<usize>], key: &str) -> bool {
        let mut in_order = true;
        let (first, last) = (points[0].utilisation.get(), points[points.len() - 1].utilisation.get());
        if first != 0.0 {
            self.fault(&places[0], format!("{key}[0].utilisation"), FaultKind::FirstPoint(first));
            in_order = false;
        }
        if last < 1.0 {
            let at = points.len() - 1;
            self.fault(&places[at], format!("{key}[{at}].utilisation"), FaultKind::LastPoint(last));
            in_order = false;
        }
        for (at, pair) in points.windows(2).enumerate() {
            let (at, [a, b]) = (at + 1, [pair[0], pair[1]]);
            let (before, here) = (a.utilisation.get(), b.utilisation.get());
            if here <= before {
                self.fault(
                    &places[at],
                    format!("{key}[{at}].utilisation"),
                    FaultKind::NotIncreasing { before, here },
                );
                in_order = false;
            }
            for (name, before, here) in
                [("ttft_ms", a.ttft.get(), b.ttft.get()), ("itl_ms", a.itl.get(), b.itl.get())]
            {
                if here < before {
                    self.fault(&places[at], format!("{key}[{at}].{name}"), FaultKind::Falls { before, here });
                    in_order = false;
                }
            }
        }
        in_order
    }
}
