//! Arcs with a published rate: one unit costs less below it and more above, by the price of moved traffic.

/// An arc whose cost bends at its published rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kink {
    pub(super) position: u32,
    pub(super) cost: f64,
    pub(super) previous: f64,
    pub(super) price: f64,
    /// Outside the basis, and held at the published rate.
    pub(super) held: bool,
}

/// The bent arcs of every supply.
#[derive(Debug, Default)]
pub(super) struct Kinks {
    start: Vec<u32>,
    list: Vec<Kink>,
}

impl Kinks {
    pub(super) fn push_supply(&mut self, kinks: impl Iterator<Item = Kink>) {
        if self.start.is_empty() {
            self.start.push(0);
        }
        self.list.extend(kinks);
        self.start.push(super::sink::index(self.list.len()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn of(&self, supply: usize) -> &[Kink] {
        if self.list.is_empty() {
            return &[];
        }
        &self.list[self.start[supply] as usize..self.start[supply + 1] as usize]
    }

    pub(super) fn find(&self, supply: usize, position: u32) -> Option<&Kink> {
        let own = self.of(supply);
        own.binary_search_by_key(&position, |kink| kink.position).ok().map(|at| &own[at])
    }

    pub(super) fn find_mut(&mut self, supply: usize, position: u32) -> Option<&mut Kink> {
        if self.list.is_empty() {
            return None;
        }
        let own = &mut self.list[self.start[supply] as usize..self.start[supply + 1] as usize];
        own.binary_search_by_key(&position, |kink| kink.position).ok().map(|at| &mut own[at])
    }
}
