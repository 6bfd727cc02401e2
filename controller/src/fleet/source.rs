//! From text to raw values, keeping every fault of shape: a faulty key is noted, taken out, and reading goes on.
use std::ops::Range;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer};

use super::fault::{Collector, FaultKind};
use super::raw::RawFleet;

/// Words that people bring from other systems or earlier drafts, and what this file calls them.
const RENAMED: &[(&str, &str)] = &[
    ("backend", "engine"),
    ("worker", "engine"),
    ("upstream", "engine"),
    ("pool", "engine_group"),
    ("group", "engine_group"),
    ("region", "site"),
    ("zone", "site"),
    ("edge", "frontend"),
    ("tenant", "class"),
    ("app", "service"),
    ("rtt", "rtt_ms"),
    ("name", "id"),
    ("capacity", "capacity_rps"),
    ("rate", "rps"),
    ("rps", "capacity_rps"),
    ("ttft", "ttft_ms"),
    ("itl", "itl_ms"),
    ("tpot_ms", "itl_ms"),
    ("tbt_ms", "itl_ms"),
    ("prompt_tokens", "mean_prompt_tokens"),
    ("output_tokens", "mean_output_tokens"),
    ("requires", "require"),
    ("utilization", "utilisation"),
    ("move_penalty", "move_penalty_ms"),
    ("cert", "certificate"),
];

/// Raw values of one text, and the faults met on the way.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) raw: RawFleet,
    pub(super) faults: Collector,
}

impl Source {
    /// Reads what can be read. Faults of syntax leave `raw` empty.
    pub(super) fn parse(text: &str) -> Self {
        let mut faults = Collector::of(text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let place = error.span().unwrap_or_default();
            faults.add(&place, "", FaultKind::Syntax(error.message().replace('\n', ", ")));
        }
        let raw = if errors.is_empty() { read_shapes(document, &mut faults) } else { RawFleet::default() };
        Self { raw, faults }
    }
}

fn read_shapes(mut document: toml::Spanned<DeTable<'_>>, faults: &mut Collector) -> RawFleet {
    loop {
        let error = match RawFleet::deserialize(Deserializer::from(document.clone())) {
            Ok(raw) => return raw,
            Err(error) => error,
        };
        let place = error.span().unwrap_or_default();
        let mut key = String::new();
        let removed = take_out(document.get_mut(), &place, &mut key);
        faults.add(&place, key.as_str(), kind_of(error.message(), &key));
        if !removed {
            return RawFleet::default();
        }
    }
}

/// Removes the innermost entry around `place`, and spells its full key. False when there is none.
fn take_out(table: &mut DeTable<'_>, place: &Range<usize>, key: &mut String) -> bool {
    let around = |span: Range<usize>| span.start <= place.start && place.end <= span.end;
    let Some(name) = table
        .iter()
        .find(|(name, value)| around(name.span()) || around(value.span()) || holds(value.get_ref(), place))
        .map(|(name, _)| name.clone())
    else {
        return false;
    };
    if !key.is_empty() {
        key.push('.');
    }
    key.push_str(name.get_ref());
    let on_the_name = around(name.span());
    let removed_inside = match table.get_mut(&name).map(toml::Spanned::get_mut) {
        Some(DeValue::Table(inner)) if !on_the_name => take_out(inner, place, key),
        Some(DeValue::Array(items)) if !on_the_name => {
            let at = items.iter().position(|item| around(item.span()) || holds(item.get_ref(), place));
            at.is_some_and(|at| {
                key.push_str(&format!("[{at}]"));
                match items.get_mut(at).map(toml::Spanned::get_mut) {
                    Some(DeValue::Table(inner)) => take_out(inner, place, key),
                    _ => false,
                }
            })
        }
        _ => false,
    };
    if !removed_inside {
        table.remove(&name);
    }
    true
}

/// Whether a value contains the place. A table written as `[[a]]` spans only its header, so its entries are asked.
fn holds(value: &DeValue<'_>, place: &Range<usize>) -> bool {
    let around = |span: Range<usize>| span.start <= place.start && place.end <= span.end;
    match value {
        DeValue::Table(table) => table.iter().any(|(name, value)| {
            around(name.span()) || around(value.span()) || holds(value.get_ref(), place)
        }),
        DeValue::Array(items) => items.iter().any(|item| around(item.span()) || holds(item.get_ref(), place)),
        _ => false,
    }
}

/// An unknown key with a known new name says only the new name, where the same table has that key.
fn kind_of(message: &str, key: &str) -> FaultKind {
    let name = key.rsplit('.').next().unwrap_or(key);
    RENAMED
        .iter()
        .find(|(old, new)| {
            *old == name && message.starts_with("unknown field") && message.contains(&format!("`{new}`"))
        })
        .map_or_else(|| FaultKind::Shape(message.to_owned()), |(_, new)| FaultKind::Renamed(new))
}
