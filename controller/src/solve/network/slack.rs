//! A cheap pivot round a cycle whose gains do not cancel: what is left over goes to the load of the tree's root.
//!
//! The alternative closes the cycle and balances the whole component, which moves every load; most such steps would be
//! undone a few arcs later.
use super::{
    Basis,
    forest::BasicArc,
    pivot::{Change, Entering, Member},
};

impl Basis {
    /// Sends flow round the tree's cycle of the entering arc and the remainder to the root's load. `false`, with nothing
    /// changed, if the root's load would stop the flow before an arc gives way.
    pub(super) fn rotate_with_slack(
        &mut self,
        entering: Entering,
        arc: BasicArc,
        supply: u32,
        group: u32,
    ) -> bool {
        let root = self.forest.root(supply);
        if !self.forest.is_group(root) {
            return false;
        }
        let sign = if entering.change == Change::More { 1.0 } else { -1.0 };
        let mut members = std::mem::take(&mut self.cycle);
        members.clear();
        members.push((Member::Entering, sign));
        let left_over = self.carry_to_root(supply, group, (-sign, -sign * arc.gain), &mut members);
        let (leaving, step) = self.give_way(&members, &arc);
        let potentials = &self.forest.potentials;
        let reduced = arc.cost + arc.gain * potentials[group as usize] - potentials[supply as usize];
        let fits = step.is_finite() && self.root_takes(root, -left_over, sign * reduced, step);
        if fits {
            self.release(&entering, &arc, group);
            let flow = self.apply(&members, &arc, step, leaving);
            self.replace(entering, BasicArc { flow, ..arc }, (supply, group), members[leaving]);
        }
        self.cycle = members;
        fits
    }

    /// Whether the root's load may change at `rate` for the whole step and the cost still falls at its end.
    fn root_takes(&self, root: u32, rate: f64, slope: f64, step: f64) -> bool {
        let load = self.forest.inflow(root) + self.inject[root as usize];
        let Some((marginal, rise)) = self.sinks.marginal_within(root as usize, load, load + rate * step)
        else {
            return false;
        };
        let at_start = slope + (marginal - self.forest.potentials[root as usize]) * rate;
        at_start + rise * rate * rate * step < 0.0
    }
}
