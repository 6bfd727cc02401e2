//! Taking an arc into the basis: two components join, or flow goes round a cycle until an arc gives way.
//!
//! Round a cycle whose gains cancel, loads stay as they are, so that the cost falls in proportion to the flow. Of arcs
//! that give way together the last in the cycle's direction leaves, which keeps degenerate steps from repeating.
use super::{
    Basis,
    balance::Blocked,
    forest::{BasicArc, Extra, Side},
};

/// An arc outside the basis whose flow should change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entering {
    pub(super) supply: usize,
    pub(super) position: usize,
    pub(super) change: Change,
    /// Flow that it has.
    pub(super) flow: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    More,
    Less,
}

/// A place in a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Member {
    Entering,
    /// The arc above a node.
    Above(u32),
    /// The arc that closes the cycle of the component with this root.
    Closing(u32),
}

impl Basis {
    /// Takes an arc into the basis. Its flow moves at once round a cycle, or with the next balance. Whether a component
    /// with a cycle of its own was involved, whose prices only a balance brings together with its loads.
    pub(super) fn enter(&mut self, entering: Entering) -> bool {
        let arc = self.basic_arc(&entering);
        let supply = self.forest.supply_node(entering.supply);
        let group = self.rows.group(entering.supply, entering.position);
        self.release(&entering, &arc, group);
        let (one, other) = (self.forest.root(supply), self.forest.root(group));
        let cycles = (self.forest.extra(one).is_some(), self.forest.extra(other).is_some());
        if one != other && cycles != (true, true) {
            let root = self.forest.join((supply, group), arc);
            self.mark(root);
            return cycles != (false, false);
        }
        if cycles.0 {
            self.rotate_with_cycles(entering, arc, supply, group);
            return true;
        }
        if self.forest.cycle_gain(supply, group, arc.gain).is_none() {
            self.rotate(entering, arc, supply, group);
            return false;
        }
        let root = self.forest.close((supply, group), arc);
        self.mark(root);
        true
    }

    /// Whether an arc would fix the prices of a component, or involve one with fixed prices, before its loads follow
    /// the changes so far: such steps can undo each other for ever.
    pub(super) fn wants_balance(&self, entering: &Entering) -> bool {
        if self.rows.is_uniform() {
            return false;
        }
        let supply = self.forest.supply_node(entering.supply);
        let group = self.rows.group(entering.supply, entering.position);
        let (one, other) = (self.forest.root(supply), self.forest.root(group));
        if !self.is_marked[one as usize] && !self.is_marked[other as usize] {
            return false;
        }
        let has_cycle = self.forest.extra(one).is_some() || self.forest.extra(other).is_some();
        has_cycle
            || (one == other
                && self.forest.cycle_gain(supply, group, self.rows.gain(entering.position)).is_some())
    }

    /// Takes a blocked arc out of the basis and marks what is left.
    pub(super) fn leave(&mut self, blocked: Blocked) {
        match blocked {
            Blocked::Node { node, at_upper } => {
                let (supply, _) = self.forest.ends(node);
                let arc = *self.forest.arc(node);
                let root = self.forest.root(node);
                let orphan = self.forest.cut(node);
                self.park(self.forest.supply_of(supply), &arc, at_upper);
                self.mark(root);
                self.mark(orphan);
            }
            Blocked::Extra { root, at_upper } => {
                let Some(&Extra { to, arc }) = self.forest.extra(root) else { return };
                let supply = if self.forest.is_group(root) { to } else { root };
                self.forest.open(root);
                self.park(self.forest.supply_of(supply), &arc, at_upper);
                self.mark(root);
            }
        }
    }

    /// Sends flow round the tree's cycle of the entering arc, whose gains cancel.
    fn rotate(&mut self, entering: Entering, arc: BasicArc, supply: u32, group: u32) {
        let mut cycle = std::mem::take(&mut self.cycle);
        cycle.clear();
        let sign = if entering.change == Change::More { 1.0 } else { -1.0 };
        // Rates of flow per unit on the entering arc; supplies lack it on one side, groups have it over on the other.
        let (mut one, mut other) = (supply, group);
        let (mut lack, mut over) = (sign, sign * arc.gain);
        let mut far: Vec<(Member, f64)> = std::mem::take(&mut self.far_side);
        far.clear();
        while one != other {
            if self.forest.depth(one) >= self.forest.depth(other) {
                let gain = self.forest.arc(one).gain;
                let rate = if self.forest.is_group(one) { lack / gain } else { -lack };
                cycle.push((Member::Above(one), rate));
                lack = if self.forest.is_group(one) { rate } else { -rate * gain };
                one = self.forest.parent(one);
            } else {
                let gain = self.forest.arc(other).gain;
                let rate = if self.forest.is_group(other) { -over / gain } else { over };
                far.push((Member::Above(other), rate));
                over = if self.forest.is_group(other) { -rate } else { rate * gain };
                other = self.forest.parent(other);
            }
        }
        cycle.reverse();
        let near = cycle.len();
        cycle.push((Member::Entering, sign));
        cycle.append(&mut far);
        self.far_side = far;
        let (leaving, step) = self.give_way(&cycle, &arc);
        let flow = self.apply(&cycle, &arc, step, leaving);
        match cycle[leaving].0 {
            Member::Entering => self.park(entering.supply, &BasicArc { flow, ..arc }, sign > 0.0),
            Member::Above(node) => {
                let (owner, _) = self.forest.ends(node);
                let gone = *self.forest.arc(node);
                self.park(self.forest.supply_of(owner), &gone, cycle[leaving].1 > 0.0);
                let (child, parent) = if leaving < near { (supply, group) } else { (group, supply) };
                self.forest.rehang(node, child, parent, BasicArc { flow, ..arc });
                self.mark(self.forest.root(child));
            }
            Member::Closing(_) => {}
        }
        self.cycle = cycle;
    }

    /// Sends flow along the one direction that keeps all loads, in components with cycles of their own.
    fn rotate_with_cycles(&mut self, entering: Entering, arc: BasicArc, supply: u32, group: u32) {
        let sign = if entering.change == Change::More { 1.0 } else { -1.0 };
        let mut members: Vec<(Member, f64)> = vec![(Member::Entering, sign)];
        // A supply that sends more on the entering arc lacks it elsewhere; a group that gets more needs less elsewhere.
        self.carry(supply, -sign, &mut members);
        self.carry(group, -sign * arc.gain, &mut members);
        let (leaving, step) = self.give_way(&members, &arc);
        let flow = self.apply(&members, &arc, step, leaving);
        let arc = BasicArc { flow, ..arc };
        let at_upper = members[leaving].1 > 0.0;
        let orphan = match members[leaving].0 {
            Member::Entering => {
                self.park(entering.supply, &arc, at_upper);
                return;
            }
            Member::Above(node) => {
                let (owner, _) = self.forest.ends(node);
                let gone = *self.forest.arc(node);
                let root = self.forest.root(node);
                let orphan = self.forest.cut(node);
                self.park(self.forest.supply_of(owner), &gone, at_upper);
                self.mark(root);
                orphan
            }
            Member::Closing(root) => {
                if let Some(&Extra { to, arc: gone }) = self.forest.extra(root) {
                    let owner = if self.forest.is_group(root) { to } else { root };
                    self.forest.open(root);
                    self.park(self.forest.supply_of(owner), &gone, at_upper);
                }
                root
            }
        };
        let whole = if self.forest.root(supply) == orphan && self.forest.root(group) == orphan {
            self.forest.close((supply, group), arc)
        } else {
            self.forest.join((supply, group), arc)
        };
        self.mark(whole);
    }

    /// Adds the rates of flow that make up `change` at `node`: demand to send at a supply, load to find at a group.
    fn carry(&self, node: u32, change: f64, members: &mut Vec<(Member, f64)>) {
        let add = |members: &mut Vec<(Member, f64)>, member: Member, rate: f64| match members
            .iter_mut()
            .find(|(known, _)| *known == member)
        {
            Some((_, sum)) => *sum += rate,
            None => members.push((member, rate)),
        };
        let climb = |members: &mut Vec<(Member, f64)>, from: u32, change: f64| {
            let (mut node, mut change) = (from, change);
            while node != self.forest.root(node) {
                let gain = self.forest.arc(node).gain;
                let rate = if self.forest.is_group(node) { change / gain } else { change };
                add(members, Member::Above(node), rate);
                change = if self.forest.is_group(node) { -rate } else { -rate * gain };
                node = self.forest.parent(node);
            }
            change
        };
        let root = self.forest.root(node);
        let at_root = climb(members, node, change);
        let Some(&Extra { to, arc }) = self.forest.extra(root) else { return };
        // A unit on the closing arc, and what comes back to the root of it.
        let mut unit = Vec::new();
        let returned = climb(&mut unit, to, if self.forest.is_group(to) { -arc.gain } else { -1.0 });
        let own = if self.forest.is_group(root) { arc.gain } else { 1.0 };
        let flow = at_root / (own - returned);
        add(members, Member::Closing(root), flow);
        for (member, rate) in unit {
            add(members, member, rate * flow);
        }
    }

    /// The member that first meets its bound, the last of those that do together, and the step to there.
    fn give_way(&self, cycle: &[(Member, f64)], entering: &BasicArc) -> (usize, f64) {
        let (mut leaving, mut step) = (0, f64::INFINITY);
        for (at, &(member, rate)) in cycle.iter().enumerate() {
            let arc = match member {
                Member::Entering => entering,
                Member::Above(node) => self.forest.arc(node),
                Member::Closing(root) => match self.forest.extra(root) {
                    Some(extra) => &extra.arc,
                    None => continue,
                },
            };
            let (lower, upper) = self.bounds(arc);
            let own = if rate < -1e-12 {
                (arc.flow - lower) / -rate
            } else if rate > 1e-12 {
                (upper - arc.flow) / rate
            } else {
                continue;
            };
            if own <= step {
                (leaving, step) = (at, own.max(0.0));
            }
        }
        (leaving, step)
    }

    /// Moves the flows of a cycle and returns the entering arc's.
    fn apply(&mut self, cycle: &[(Member, f64)], entering: &BasicArc, step: f64, leaving: usize) -> f64 {
        let mut entered = entering.flow;
        self.has_moved |= step > self.least_move;
        for (at, &(member, rate)) in cycle.iter().enumerate() {
            let arc = match member {
                Member::Entering => *entering,
                Member::Above(node) => *self.forest.arc(node),
                Member::Closing(root) => match self.forest.extra(root) {
                    Some(extra) => extra.arc,
                    None => continue,
                },
            };
            let (lower, upper) = self.bounds(&arc);
            let mut flow = (arc.flow + rate * step).clamp(lower, upper);
            if at == leaving {
                flow = if rate > 0.0 { upper } else { lower };
            }
            match member {
                Member::Entering => entered = flow,
                Member::Above(node) => self.forest.arc_mut(node).flow = flow,
                Member::Closing(root) => {
                    if let Some(extra) = self.forest.extra_mut(root) {
                        extra.arc.flow = flow;
                    }
                }
            }
        }
        entered
    }

    fn basic_arc(&self, entering: &Entering) -> BasicArc {
        let position = super::sink::index(entering.position);
        let gain = self.rows.gain(entering.position);
        let plain = BasicArc {
            position,
            side: Side::Plain,
            flow: entering.flow,
            cost: self.rows.price[entering.position],
            gain,
            bend: 0.0,
        };
        let Some(kink) = self.kinks.find(entering.supply, position) else { return plain };
        let above = entering.flow > kink.previous
            || (entering.flow == kink.previous && entering.change == Change::More);
        if above {
            BasicArc { side: Side::Above, cost: kink.cost + kink.price, bend: kink.previous, ..plain }
        } else {
            BasicArc { side: Side::Below, cost: kink.cost - kink.price, bend: kink.previous, ..plain }
        }
    }
}
