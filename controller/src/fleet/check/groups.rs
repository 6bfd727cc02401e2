//! Engine groups and classes, and whether each class has a group.
use std::collections::BTreeSet;
use std::ops::Range;

use penstock_wire::{ClassId, GroupId, ModelId, SiteId};

use super::{Checker, Places};
use crate::fleet::fault::FaultKind;
use crate::fleet::parts::{Class, EngineGroup, Priority};
use crate::fleet::raw::{Given, RawClass, RawFleet, RawGroup};

impl Checker {
    pub(super) fn groups(&mut self, raw: &RawFleet) -> Vec<EngineGroup> {
        let mut seen = Places::new();
        let mut groups = Vec::new();
        for (at, group) in raw.engine_group.iter().enumerate() {
            let (owner, key, part) = (group.span(), format!("engine_group[{at}]"), group.get_ref());
            let id = self.id(&part.id, &owner, &format!("{key}.id"), &mut seen);
            let site = self.reference(&part.site, &owner, &format!("{key}.site"), ("site", |ids| &ids.sites));
            let profile = self.reference(
                &part.profile,
                &owner,
                &format!("{key}.profile"),
                ("profile", |ids| &ids.profiles),
            );
            let models = self.models(part, &owner, &key);
            let replicas = self.replicas(raw, part, &owner, &key);
            let labels = self.names(&part.labels, &format!("{key}.labels"));
            if let (Some(id), Some(site), Some(profile), Some(models), Some(replicas), Some(labels)) =
                (id, site, profile, models, replicas, labels)
            {
                let (id, site) = (GroupId(id), SiteId(site));
                groups.push(EngineGroup { id, site, models, profile, replicas, labels });
            }
        }
        groups
    }

    fn models(&mut self, group: &RawGroup, owner: &Range<usize>, key: &str) -> Option<BTreeSet<ModelId>> {
        if let (Some(model), false) = (&group.model, group.models.is_empty()) {
            self.fault(&model.span(), format!("{key}.model"), FaultKind::ModelTwice);
            return None;
        }
        let given: Vec<_> = group.model.iter().chain(&group.models).cloned().collect();
        if given.is_empty() {
            self.fault(owner, format!("{key}.model"), FaultKind::Missing);
            return None;
        }
        let names = self.names(&given, &format!("{key}.model"))?;
        Some(names.into_iter().map(ModelId).collect())
    }

    /// As stated, or as many as there are engines; where both are given, they must agree.
    fn replicas(&mut self, raw: &RawFleet, group: &RawGroup, owner: &Range<usize>, key: &str) -> Option<u32> {
        let listed = raw
            .engine
            .iter()
            .filter_map(|engine| engine.get_ref().group.as_ref())
            .filter(|named| group.id.as_ref().is_some_and(|id| id.get_ref() == named.get_ref()))
            .count();
        let key = format!("{key}.replicas");
        if raw.engine.is_empty() {
            return self.required(&group.replicas, owner, &key).map(|given| *given.get_ref());
        }
        match &group.replicas {
            Some(stated) if usize::try_from(*stated.get_ref()) != Ok(listed) => {
                let kind = FaultKind::ReplicaCount { stated: *stated.get_ref(), listed };
                self.fault(&stated.span(), key, kind);
                None
            }
            _ => u32::try_from(listed).ok(),
        }
    }

    fn names(&mut self, given: &[toml::Spanned<String>], key: &str) -> Option<BTreeSet<String>> {
        let names: Vec<Option<String>> = given.iter().map(|name| self.name(name, key)).collect();
        names.into_iter().collect()
    }

    pub(super) fn classes(&mut self, raw: &RawFleet) -> Vec<Class> {
        let mut seen = Places::new();
        let mut classes = Vec::new();
        for (at, class) in raw.class.iter().enumerate() {
            let (owner, key, part) = (class.span(), format!("class[{at}]"), class.get_ref());
            let id = self.id(&part.id, &owner, &format!("{key}.id"), &mut seen);
            let model = self
                .required(&part.model, &owner, &format!("{key}.model"))
                .map(|given| given.get_ref().clone());
            let priority = self.priority(&part.priority, &format!("{key}.priority"));
            let mean_prompt = self.required_quantity(
                &part.mean_prompt_tokens,
                &owner,
                &format!("{key}.mean_prompt_tokens"),
            );
            let mean_output =
                self.positive(&part.mean_output_tokens, &owner, &format!("{key}.mean_output_tokens"));
            let require = self.names(&part.require, &format!("{key}.require"));
            let round_trips = self.quantity_or(&part.round_trips, &format!("{key}.round_trips"), 1.0);
            self.some_group_serves(raw, part, &owner, &key);
            if let (
                Some(id),
                Some(model),
                Some(priority),
                Some(mean_prompt),
                Some(mean_output),
                Some(require),
                Some(round_trips),
            ) = (id, model, priority, mean_prompt, mean_output, require, round_trips)
            {
                let (id, model) = (ClassId(id), ModelId(model));
                classes.push(Class { id, model, priority, mean_prompt, mean_output, require, round_trips });
            }
        }
        classes
    }

    fn priority(&mut self, given: &Given<i64>, key: &str) -> Option<Priority> {
        let Some(given) = given else { return Priority::new(0) };
        let value = *given.get_ref();
        let priority = u8::try_from(value).ok().and_then(Priority::new);
        if priority.is_none() {
            let kind = FaultKind::Outside { value, least: 0, most: Priority::LOWEST.into() };
            self.fault(&given.span(), key, kind);
        }
        priority
    }

    /// Judged by the groups as written, so that another fault of a group does not show up here too.
    fn some_group_serves(&mut self, raw: &RawFleet, class: &RawClass, owner: &Range<usize>, key: &str) {
        let Some(model) = &class.model else { return };
        let faulty = |name: &str| {
            self.faults.any(|key| key.starts_with("engine_group[") && key.contains(&format!("].{name}")))
        };
        let (any_model, any_label) = (faulty("model"), faulty("labels"));
        let serves = |group: &RawGroup| {
            let has_model = group.model.iter().chain(&group.models).any(|given| given == model);
            let has_labels = class.require.iter().all(|label| group.labels.contains(label));
            (has_model || any_model) && (has_labels || any_label)
        };
        if raw.engine_group.iter().any(|group| serves(group.get_ref())) {
            return;
        }
        let mut require: Vec<String> = class.require.iter().map(|label| label.get_ref().clone()).collect();
        require.sort();
        let kind = FaultKind::ClassWithoutGroup { model: model.get_ref().clone(), require };
        self.fault(owner, key, kind);
    }
}
