//! Publications that a person asks for: old content as a new epoch, and a look without a publication.
use std::{collections::BTreeMap, sync::Arc, time::Instant};

use penstock_wire::{ClassId, EngineEntry, Epoch, FrontendId, Snapshot, Touched};

use super::{
    Ledger, PlanError, Publication, Wanted,
    store::{State, by_frontend},
};

/// What a publication would change.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Shadow {
    /// Frontends whose state would change.
    pub frontends: Vec<FrontendId>,
    pub moved: BTreeMap<(FrontendId, ClassId), usize>,
    pub waiting: usize,
}

impl Ledger {
    /// What a publication would change, without keeping or publishing it: slots by frontend and class, and slots that
    /// would have to wait.
    pub fn shadow(&mut self, wanted: &Wanted<'_>, now: Instant) -> Result<Shadow, PlanError> {
        let planned = self.preview(wanted, now)?;
        let moved = planned.moved.into_iter().map(|(table, slots)| (table, slots.len()));
        let frontends = planned.snapshots.iter().map(|snapshot| snapshot.frontend.clone()).collect();
        Ok(Shadow {
            frontends,
            moved: moved.filter(|(_, slots)| *slots > 0).collect(),
            waiting: planned.waiting,
        })
    }

    /// Makes and keeps an epoch with the content that was in force at `to`. Engines keep their present state and address.
    pub fn rollback(&mut self, to: Epoch) -> Result<Publication, PlanError> {
        let not_kept = || PlanError::NotKept { epoch: to, folder: self.store.folder().to_owned() };
        if to > self.state.epoch || !self.epochs()?.contains(&to) {
            return Err(not_kept());
        }
        let mut then: BTreeMap<FrontendId, Arc<Snapshot>> = BTreeMap::new();
        for (epoch, _) in self.store.publications()?.into_iter().filter(|(epoch, _)| *epoch <= to) {
            then.extend(by_frontend(self.store.publication(epoch)?.ok_or_else(not_kept)?));
        }
        let mut publication = self.republish(&then.into_values().collect::<Vec<_>>())?;
        let state = State { rolled_back: Some(to), ..self.state.clone() };
        self.keep(state, &[])?;
        publication.waiting_slots = 0;
        Ok(publication)
    }

    /// Makes and keeps an epoch in which the frontends of `contents` have that content.
    pub fn republish(&mut self, contents: &[Arc<Snapshot>]) -> Result<Publication, PlanError> {
        let epoch = self.state.epoch.next().ok_or(PlanError::TermEnd { term: self.state.epoch.term() })?;
        let renewed = contents.iter().map(|content| self.renew(content, epoch));
        let snapshots: Vec<_> = renewed.map(Arc::new).collect();
        for snapshot in &snapshots {
            let frontend = || snapshot.frontend.clone();
            snapshot.check().map_err(|source| PlanError::Invalid { frontend: frontend(), source })?;
        }
        let moved_slots = snapshots.iter().map(|snapshot| self.moved(snapshot)).sum();
        self.keep(State { epoch, ..self.state.clone() }, &snapshots)?;
        Ok(Publication { epoch, failure_handling: true, snapshots, moved_slots, waiting_slots: 0 })
    }

    /// An old content with the engines' present state and address.
    fn renew(&self, content: &Snapshot, epoch: Epoch) -> Snapshot {
        let present = self.snapshots.get(&content.frontend);
        let entry = |engine: &EngineEntry| {
            let now = present.and_then(|snapshot| snapshot.engine(engine.index));
            now.filter(|now| now.id == engine.id).unwrap_or(engine).clone()
        };
        let engines = content.engines.iter().map(entry).collect();
        Snapshot { epoch, failure_handling: true, engines, ..content.clone() }
    }

    fn moved(&self, snapshot: &Snapshot) -> usize {
        let Some(present) = self.snapshots.get(&snapshot.frontend) else { return 0 };
        Touched::between(present, snapshot).slots()
    }

    /// The epoch that a person rolled back to, if nobody released it.
    pub fn rolled_back(&self) -> Option<Epoch> {
        self.state.rolled_back
    }

    /// Ends a rollback: publications go on.
    pub fn release(&mut self) -> Result<(), PlanError> {
        self.keep(State { rolled_back: None, ..self.state.clone() }, &[])
    }

    /// Epochs that can be rolled back to, oldest first.
    pub fn epochs(&self) -> Result<Vec<Epoch>, PlanError> {
        let kept = self.store.publications()?.into_iter().map(|(epoch, _)| epoch);
        Ok(kept.filter(|epoch| *epoch <= self.state.epoch).collect())
    }
}
