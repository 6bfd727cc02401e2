//! From raw values to a [`Fleet`], or to every fault: the only way across.
mod engines;
mod groups;
mod network;
mod profiles;
mod services;
mod settings;
mod traffic;

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;

use super::Fleet;
use super::fault::{Collector, FaultKind, Faults};
use super::raw::{Given, RawFleet};
use super::source::Source;
use super::units::{RangeError, Share};

impl TryFrom<Source> for Fleet {
    type Error = Faults;

    fn try_from(Source { raw, faults }: Source) -> Result<Self, Faults> {
        let mut check = Checker { ids: Ids::of(&raw), faults };
        if check.faults.has_syntax_faults() {
            return Err(check.faults.into_faults());
        }
        let network = check.network(&raw);
        let profiles = check.profiles(&raw);
        let groups = check.groups(&raw);
        let classes = check.classes(&raw);
        let frontends = check.frontends(&raw);
        let demand = check.demand(&raw);
        let engines = check.engines(&raw);
        let hosts = check.hosts(&raw);
        let services = check.services(&raw, &engines, &frontends, &classes, &groups);
        let settings = check.settings(&raw.controller);
        let headroom = check.headroom(&raw.headroom);
        match (headroom, settings) {
            (Some(headroom), Some(settings)) if check.faults.is_empty() => Ok(Self {
                headroom,
                network,
                frontends,
                classes,
                profiles,
                groups,
                demand,
                engines,
                services,
                hosts,
                settings,
            }),
            _ => Err(check.faults.into_faults()),
        }
    }
}

/// Faults so far, and the ids that a part may name: those of faulty parts too, so that one fault stays one.
#[derive(Debug)]
struct Checker {
    ids: Ids,
    faults: Collector,
}

#[derive(Debug, Default)]
struct Ids {
    sites: Places,
    frontends: Places,
    classes: Places,
    profiles: Places,
    groups: Places,
}

/// Where each id is first given.
type Places = HashMap<String, Range<usize>>;

impl Ids {
    fn of(raw: &RawFleet) -> Self {
        Self {
            sites: places(raw.site.iter().map(|part| &part.get_ref().id)),
            frontends: places(raw.frontend.iter().map(|part| &part.get_ref().id)),
            classes: places(raw.class.iter().map(|part| &part.get_ref().id)),
            profiles: places(raw.profile.iter().map(|part| &part.get_ref().id)),
            groups: places(raw.engine_group.iter().map(|part| &part.get_ref().id)),
        }
    }
}

fn places<'r>(ids: impl Iterator<Item = &'r Given<String>>) -> Places {
    let mut places = Places::new();
    for id in ids.flatten() {
        places.entry(id.get_ref().clone()).or_insert_with(|| id.span());
    }
    places
}

impl Checker {
    fn fault(&mut self, place: &Range<usize>, key: impl Into<String>, kind: FaultKind) {
        self.faults.add(place, key, kind);
    }

    fn required<'r, T>(
        &mut self,
        given: &'r Given<T>,
        owner: &Range<usize>,
        key: &str,
    ) -> Option<&'r Spanned<T>> {
        if given.is_none() {
            self.fault(owner, key, FaultKind::Missing);
        }
        given.as_ref()
    }

    /// An id that is a usable name and was not given before in `seen`.
    fn id(
        &mut self,
        given: &Given<String>,
        owner: &Range<usize>,
        key: &str,
        seen: &mut Places,
    ) -> Option<String> {
        let id = self.required(given, owner, key)?;
        let name = self.name(id, key)?;
        if let Some(earlier) = seen.insert(name.clone(), id.span()) {
            let line = self.faults.line(earlier.start);
            self.fault(&id.span(), key, FaultKind::Duplicate(name, line));
            return None;
        }
        Some(name)
    }

    /// A name that can stand in commands, metrics and logs.
    fn name(&mut self, given: &Spanned<String>, key: &str) -> Option<String> {
        let name = given.get_ref();
        if name.is_empty() {
            self.fault(&given.span(), key, FaultKind::Empty);
            return None;
        }
        if name.contains(|c: char| c.is_control() || c.is_whitespace() || c == '"') {
            self.fault(&given.span(), key, FaultKind::BadName(name.clone()));
            return None;
        }
        Some(name.clone())
    }

    /// An id of another part, which must exist.
    fn reference(
        &mut self,
        given: &Given<String>,
        owner: &Range<usize>,
        key: &str,
        (kind, known): (&'static str, fn(&Ids) -> &Places),
    ) -> Option<String> {
        let id = self.required(given, owner, key)?;
        if known(&self.ids).contains_key(id.get_ref()) {
            return Some(id.get_ref().clone());
        }
        self.fault(&id.span(), key, FaultKind::Unknown { kind, id: id.get_ref().clone() });
        None
    }

    fn quantity<Q: TryFrom<f64, Error = RangeError>>(
        &mut self,
        given: &Spanned<f64>,
        key: &str,
    ) -> Option<Q> {
        Q::try_from(*given.get_ref()).map_err(|error| self.fault(&given.span(), key, error.into())).ok()
    }

    fn required_quantity<Q: TryFrom<f64, Error = RangeError>>(
        &mut self,
        given: &Given<f64>,
        owner: &Range<usize>,
        key: &str,
    ) -> Option<Q> {
        let given = self.required(given, owner, key)?;
        self.quantity(given, key)
    }

    /// A quantity above 0.
    fn positive<Q: TryFrom<f64, Error = RangeError>>(
        &mut self,
        given: &Given<f64>,
        owner: &Range<usize>,
        key: &str,
    ) -> Option<Q> {
        let given = self.required(given, owner, key)?;
        let quantity = self.quantity(given, key)?;
        if *given.get_ref() == 0.0 {
            self.fault(&given.span(), key, FaultKind::NotPositive);
            return None;
        }
        Some(quantity)
    }

    fn quantity_or<Q: TryFrom<f64, Error = RangeError>>(
        &mut self,
        given: &Given<f64>,
        key: &str,
        default: f64,
    ) -> Option<Q> {
        match given {
            Some(given) => self.quantity(given, key),
            None => Q::try_from(default).ok(),
        }
    }

    /// Text of a form that its type can parse.
    fn parsed<T: std::str::FromStr>(
        &mut self,
        given: &Spanned<String>,
        key: &str,
        form: &'static str,
    ) -> Option<T> {
        let parsed = given.get_ref().parse().ok();
        if parsed.is_none() {
            let given_text = given.get_ref().clone();
            self.fault(&given.span(), key, FaultKind::Form { given: given_text, form });
        }
        parsed
    }

    /// One of a few words, or the default where the key is absent.
    fn word<T: Copy>(
        &mut self,
        given: &Given<String>,
        key: &str,
        default: T,
        (words, known): (&[(&str, T)], &'static str),
    ) -> Option<T> {
        let Some(given) = given else { return Some(default) };
        let found = words.iter().find(|(word, _)| word == given.get_ref()).map(|(_, value)| *value);
        if found.is_none() {
            let given_text = given.get_ref().clone();
            self.fault(&given.span(), key, FaultKind::NotOneOf { given: given_text, known });
        }
        found
    }

    fn headroom(&mut self, given: &Given<f64>) -> Option<Share> {
        let headroom: Share = self.quantity_or(given, "headroom", 0.05)?;
        match given {
            Some(given) if headroom.get() >= 1.0 => {
                self.fault(&given.span(), "headroom", FaultKind::WholeHeadroom);
                None
            }
            _ => Some(headroom),
        }
    }
}
