//! Taking an arc into the basis: two components join, or flow goes round a cycle until an arc gives way.
//!
//! Round a cycle whose gains cancel, loads stay as they are, so that the cost falls in proportion to the flow. Of arcs
//! that give way together the last in the cycle's direction leaves, which keeps degenerate steps from repeating.
use super::{
    Basis,
    balance::Blocked,
    forest::{BasicArc, Extra, NONE, Side},
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

/// What became of an arc that should enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Taken,
    /// It closed a cycle that fixes all prices of its component, which only a balance brings together with its loads.
    Closed,
    /// It would do so before loads follow the changes so far: such steps can undo each other for ever.
    NeedsBalance,
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
    /// Takes an arc into the basis. Its flow moves at once round a cycle, or with the next balance.
    pub(super) fn enter(&mut self, entering: Entering) -> Entry {
        let arc = self.basic_arc(&entering);
        let supply = self.forest.supply_node(entering.supply);
        let group = self.rows.group(entering.supply, entering.position);
        let (one, other) = (self.forest.root(supply), self.forest.root(group));
        let cycles = (self.forest.extra(one).is_some(), self.forest.extra(other).is_some());
        if one != other && cycles != (true, true) {
            self.release(&entering, &arc, group);
            let root = self.forest.join((supply, group), arc);
            self.mark(root);
            return Entry::Taken;
        }
        if cycles.0 {
            self.release(&entering, &arc, group);
            self.rotate_with_cycles(entering, arc, supply, group);
            return Entry::Taken;
        }
        if self.forest.cycle_gain(supply, group, arc.gain).is_none() {
            self.release(&entering, &arc, group);
            self.rotate(entering, arc, supply, group);
            return Entry::Taken;
        }
        if self.rotate_with_slack(entering, arc, supply, group) {
            return Entry::Taken;
        }
        if self.is_marked[one as usize] {
            return Entry::NeedsBalance;
        }
        self.release(&entering, &arc, group);
        let root = self.forest.close((supply, group), arc);
        self.mark(root);
        Entry::Closed
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
        let mut members = std::mem::take(&mut self.cycle);
        members.clear();
        members.push((Member::Entering, sign));
        // A supply that sends more on the entering arc lacks it elsewhere; a group that gets more needs less elsewhere.
        self.carry(supply, -sign);
        self.carry(group, -sign * arc.gain);
        self.collect_rates(&mut members);
        let (leaving, step) = self.give_way(&members, &arc);
        let flow = self.apply(&members, &arc, step, leaving);
        self.replace(entering, BasicArc { flow, ..arc }, (supply, group), members[leaving]);
        self.cycle = members;
    }

    /// Puts the entering arc in the place of the leaving one, which has met its bound.
    pub(super) fn replace(
        &mut self,
        entering: Entering,
        arc: BasicArc,
        ends: (u32, u32),
        leaving: (Member, f64),
    ) {
        let at_upper = leaving.1 > 0.0;
        let orphan = match leaving.0 {
            Member::Entering => {
                self.park(entering.supply, &arc, at_upper);
                self.mark(self.forest.root(ends.0));
                self.mark(self.forest.root(ends.1));
                return;
            }
            Member::Above(node) => {
                let (owner, _) = self.forest.ends(node);
                let gone = *self.forest.arc(node);
                let root = self.forest.root(node);
                let below = (self.forest.is_below(ends.0, node), self.forest.is_below(ends.1, node));
                if below.0 != below.1
                    && self.forest.extra(root).is_none()
                    && self.forest.root(ends.0) == self.forest.root(ends.1)
                {
                    self.park(self.forest.supply_of(owner), &gone, at_upper);
                    let (child, parent) = if below.0 { ends } else { (ends.1, ends.0) };
                    self.forest.rehang(node, child, parent, arc);
                    self.mark(root);
                    return;
                }
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
        let whole = if self.forest.root(ends.0) == orphan && self.forest.root(ends.1) == orphan {
            self.forest.close(ends, arc)
        } else {
            self.forest.join(ends, arc)
        };
        self.mark(whole);
    }

    /// Adds up the rates of flow that make up `change` at `node`: demand to send at a supply, load to find at a group.
    fn carry(&mut self, node: u32, change: f64) {
        let root = self.forest.root(node);
        let at_root = self.climb(node, change, 1.0);
        let Some(&Extra { to, arc }) = self.forest.extra(root) else { return };
        // What a unit on the closing arc brings back to the root, then as many units as its balance asks for.
        let unit = if self.forest.is_group(to) { -arc.gain } else { -1.0 };
        let returned = self.climb(to, unit, 0.0);
        let own = if self.forest.is_group(root) { arc.gain } else { 1.0 };
        let flow = at_root / (own - returned);
        self.climb(to, unit, flow);
        self.closing_rates.push((root, flow));
    }

    /// Follows a change from `node` to its root, adding `scale` times the rates on the way; returns the change there.
    fn climb(&mut self, node: u32, change: f64, scale: f64) -> f64 {
        let (mut node, mut change) = (node, change);
        while self.forest.parent(node) != NONE {
            let gain = self.forest.arc(node).gain;
            let is_group = self.forest.is_group(node);
            let rate = if is_group { change / gain } else { change };
            if scale != 0.0 {
                self.touched.push(node);
                self.rate_above[node as usize] += scale * rate;
            }
            change = if is_group { -rate } else { -rate * gain };
            node = self.forest.parent(node);
        }
        change
    }

    /// Moves the rates that were added up into `members`.
    fn collect_rates(&mut self, members: &mut Vec<(Member, f64)>) {
        for node in self.touched.drain(..) {
            let rate = std::mem::take(&mut self.rate_above[node as usize]);
            if rate != 0.0 {
                members.push((Member::Above(node), rate));
            }
        }
        self.closing_rates.sort_by_key(|&(root, _)| root);
        for (root, rate) in self.closing_rates.drain(..) {
            match members.last_mut() {
                Some((Member::Closing(last), sum)) if *last == root => *sum += rate,
                _ => members.push((Member::Closing(root), rate)),
            }
        }
    }

    /// Adds the rates of flow up to the root of one tree for changes at two of its nodes; returns the change at the root.
    pub(super) fn carry_to_root(
        &self,
        supply: u32,
        group: u32,
        changes: (f64, f64),
        members: &mut Vec<(Member, f64)>,
    ) -> f64 {
        let (mut one, mut other) = (supply, group);
        let (mut first, mut second) = changes;
        let climb = |members: &mut Vec<(Member, f64)>, node: &mut u32, change: &mut f64| {
            let gain = self.forest.arc(*node).gain;
            let is_group = self.forest.is_group(*node);
            let rate = if is_group { *change / gain } else { *change };
            members.push((Member::Above(*node), rate));
            *change = if is_group { -rate } else { -rate * gain };
            *node = self.forest.parent(*node);
        };
        while one != other {
            if self.forest.depth(one) >= self.forest.depth(other) {
                climb(members, &mut one, &mut first);
            } else {
                climb(members, &mut other, &mut second);
            }
        }
        let mut sum = first + second;
        while one != self.forest.root(one) {
            climb(members, &mut one, &mut sum);
        }
        sum
    }

    /// The member that first meets its bound, the last of those that do together, and the step to there.
    pub(super) fn give_way(&self, cycle: &[(Member, f64)], entering: &BasicArc) -> (usize, f64) {
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
    pub(super) fn apply(
        &mut self,
        cycle: &[(Member, f64)],
        entering: &BasicArc,
        step: f64,
        leaving: usize,
    ) -> f64 {
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
