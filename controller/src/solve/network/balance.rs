//! The step that moves all loads of a component at once.
//!
//! With its arcs given, a tree has one degree of freedom: the level of its prices. The level at which its sinks take
//! what its supplies bring is the optimum over these arcs, and leaf by leaf the flows follow. A component with a cycle
//! has its prices fixed, so loads and flows follow at once. If a flow would leave its bounds, the step goes as far as
//! the first one allows.
use super::{
    Basis,
    forest::{BasicArc, Extra, NONE},
    sink::{Direction, Response, TILT},
};

/// Rounding of flows, relative to all flow of the component.
const NOISE: f64 = 1e-14;
/// Rounding of sums over a component, relative to the sum.
const ROUNDING: f64 = 1e-15;
/// Levels found one after the other, each from prices that agree with the costs to their own last digit: a change that
/// is far, relative to the price that it leads to, leaves the rounding of the larger one behind.
const LEVELS: usize = 3;
const FAR: f64 = 1.0;
/// Evaluations of the level before bisection takes over, and in all.
const NEWTON: usize = 40;
const EVALUATIONS: usize = 400;

/// Arrays over the component in hand, in preorder.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    order: Vec<u32>,
    /// Position of the parent in `order`.
    above: Vec<u32>,
    /// Change of the node's price for a change of the root's.
    weight: Vec<f64>,
    amount: Vec<f64>,
    rate: Vec<f64>,
    /// What is left at a node for its own arc: demand at a supply, load at a group.
    rest: Vec<f64>,
    target: Vec<f64>,
    /// Position in `order`, by node.
    place: Vec<u32>,
}

/// The arc at which a step ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocked {
    Node { node: u32, at_upper: bool },
    Extra { root: u32, at_upper: bool },
}

impl Basis {
    /// Moves the component of `root` towards the optimum over its arcs; `None` if it is reached.
    pub(super) fn balance(&mut self, root: u32) -> Option<Blocked> {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.lay_out(root, &mut scratch);
        let brought = self.brought(&scratch);
        if self.forest.extra(root).is_some() {
            self.forest.reprice(root);
            for (at, &node) in scratch.order.iter().enumerate() {
                let price = self.forest.potentials[node as usize];
                scratch.amount[at] = self.sinks.at(node as usize, price, Direction::Up).amount;
            }
        } else {
            for _ in 0..LEVELS {
                let shift = self.level(&mut scratch, brought);
                let price = &mut self.forest.potentials[root as usize];
                *price += shift;
                let settled = shift.abs() <= FAR * price.abs();
                for &node in &scratch.order[1..] {
                    self.forest.follow_parent(node);
                }
                if settled {
                    break;
                }
            }
        }
        let extra = self.targets(root, &mut scratch);
        let blocked = self.advance(root, &scratch, extra, NOISE * brought);
        if blocked.is_none() && !self.rows.is_uniform() && self.forest.extra(root).is_none() {
            self.root_at_the_largest(root, &scratch);
        }
        self.scratch = scratch;
        blocked
    }

    /// Takes the tilt of shedding back out of prices: a supply that sheds in part is worth its own shed price.
    pub(super) fn level_shed_prices(&mut self) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for root in 0..self.forest.len() {
            if self.forest.root(root) != root || self.forest.extra(root).is_some() {
                continue;
            }
            self.lay_out(root, &mut scratch);
            let mut over = 0.0_f64;
            for (at, &node) in
                scratch.order.iter().enumerate().filter(|(_, node)| !self.forest.is_group(**node))
            {
                let own = self.shed_price[self.forest.supply_of(node)];
                let above = self.forest.potentials[node as usize] - own;
                if above > 0.0 && above <= 2.0 * TILT * own {
                    over = over.max(above / scratch.weight[at]);
                }
            }
            if over > 0.0 {
                self.forest.potentials[root as usize] -= over;
                for &node in &scratch.order[1..] {
                    self.forest.follow_parent(node);
                }
            }
        }
        self.scratch = scratch;
    }

    /// Makes the group that takes load most readily the root of a tree, to give slack to cycles with gains.
    fn root_at_the_largest(&mut self, root: u32, scratch: &Scratch) {
        let readiness = |at: usize| scratch.rate[at] * scratch.weight[at];
        let groups = (0..scratch.order.len()).filter(|&at| self.forest.is_group(scratch.order[at]));
        let Some(best) = groups.max_by(|&one, &other| readiness(one).total_cmp(&readiness(other))) else {
            return;
        };
        if !self.forest.is_group(root) || readiness(best) > 2.0 * readiness(0) {
            self.forest.make_root(scratch.order[best]);
        }
    }

    fn lay_out(&mut self, root: u32, scratch: &mut Scratch) {
        let mut order = std::mem::take(&mut scratch.order);
        self.forest.preorder(root, &mut order);
        let count = order.len();
        for values in [
            &mut scratch.weight,
            &mut scratch.amount,
            &mut scratch.rate,
            &mut scratch.rest,
            &mut scratch.target,
        ] {
            values.clear();
            values.resize(count, 0.0);
        }
        scratch.above.clear();
        scratch.above.resize(count, NONE);
        scratch.place.resize(self.forest.len() as usize, 0);
        scratch.weight[0] = 1.0;
        for (at, &node) in order.iter().enumerate() {
            scratch.place[node as usize] = super::sink::index(at);
            if at > 0 {
                let above = scratch.place[self.forest.parent(node) as usize];
                scratch.above[at] = above;
                scratch.weight[at] = scratch.weight[above as usize] * self.forest.factor(node);
            }
        }
        scratch.order = order;
    }

    /// Work that supplies and fixed flows bring to the component, in units of the root's price.
    fn brought(&self, scratch: &Scratch) -> f64 {
        let terms = scratch.order.iter().zip(&scratch.weight);
        terms.map(|(&node, weight)| weight * self.inject[node as usize]).sum()
    }

    /// Finds the change of the root's price at which sinks take what is brought, and their amounts.
    fn level(&mut self, scratch: &mut Scratch, brought: f64) -> f64 {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut shift = 0.0;
        let mut direction = Direction::Up;
        let potentials = scratch.order.iter().map(|&node| self.forest.potentials[node as usize]);
        let scale = potentials
            .zip(&scratch.weight)
            .fold(0.0_f64, |most, (price, weight)| most.max((price / weight).abs()));
        for evaluation in 0..EVALUATIONS {
            let (total, slope) = self.respond(scratch, shift, direction);
            let residual = brought - total;
            if residual.abs() <= ROUNDING * brought {
                return shift;
            }
            let towards = if residual > 0.0 { Direction::Up } else { Direction::Down };
            if slope <= 0.0 && towards != direction {
                direction = towards;
                continue;
            }
            direction = towards;
            match towards {
                Direction::Up => low = shift,
                Direction::Down => high = shift,
            }
            let step = residual / slope;
            let mut next = shift + step;
            let finest = 2.0 * f64::EPSILON * (scale + shift.abs());
            if slope > 0.0 && step.abs() <= finest {
                // Prices cannot resolve the rest: the amounts take it, or the next price that differs does.
                if (residual - self.spread(scratch, step)).abs() <= ROUNDING * brought {
                    return shift;
                }
                next = shift + finest.copysign(step);
            }
            if slope <= 0.0 {
                next = self.next_level(scratch, shift, direction);
                if !next.is_finite() {
                    return shift;
                }
                // Just past it, since sums of prices round.
                next += finest.copysign(residual);
            }
            let bracketed = low.is_finite() && high.is_finite();
            if bracketed && (evaluation > NEWTON || next <= low || next >= high) {
                next = 0.5 * (low + high);
                if high - low <= 2.0 * finest || next <= low || next >= high {
                    self.mix(scratch, low, high, brought);
                    return low;
                }
            }
            shift = next;
        }
        shift
    }

    fn respond(&mut self, scratch: &mut Scratch, shift: f64, direction: Direction) -> (f64, f64) {
        let (mut total, mut slope) = (0.0, 0.0);
        for (at, &node) in scratch.order.iter().enumerate() {
            let weight = scratch.weight[at];
            let price = self.forest.potentials[node as usize] + weight * shift;
            let Response { amount, slope: rise } = self.sinks.at(node as usize, price, direction);
            scratch.amount[at] = amount;
            scratch.rate[at] = rise * weight;
            total += weight * amount;
            slope += weight * weight * rise;
        }
        (total, slope)
    }

    /// The next shift at which a sink that is at rest would move.
    fn next_level(&self, scratch: &Scratch, shift: f64, direction: Direction) -> f64 {
        let mut nearest = match direction {
            Direction::Up => f64::INFINITY,
            Direction::Down => f64::NEG_INFINITY,
        };
        for (at, &node) in scratch.order.iter().enumerate() {
            let (own, weight) = (self.forest.potentials[node as usize], scratch.weight[at]);
            let price = own + weight * shift;
            nearest = match direction {
                Direction::Up => nearest.min((self.sinks.wakes_above(node as usize, price) - own) / weight),
                Direction::Down => nearest.max((self.sinks.wakes_below(node as usize, price) - own) / weight),
            };
        }
        nearest
    }

    /// Applies the last part of a step to the amounts themselves, within their pieces; returns how much that took.
    fn spread(&self, scratch: &mut Scratch, step: f64) -> f64 {
        let mut taken = 0.0;
        for (at, &node) in scratch.order.iter().enumerate() {
            if scratch.rate[at] > 0.0 {
                let (from, to) = self.sinks.piece_bounds(node as usize);
                let amount = (scratch.amount[at] + scratch.rate[at] * step).clamp(from, to);
                taken += scratch.weight[at] * (amount - scratch.amount[at]);
                scratch.amount[at] = amount;
            }
        }
        taken
    }

    /// Amounts between those of two neighbouring levels.
    fn mix(&mut self, scratch: &mut Scratch, low: f64, high: f64, brought: f64) {
        let (most, _) = self.respond(scratch, high, Direction::Down);
        let upper = scratch.amount.clone();
        let (least, _) = self.respond(scratch, low, Direction::Up);
        let share = if most > least { ((brought - least) / (most - least)).clamp(0.0, 1.0) } else { 0.0 };
        for (amount, upper) in scratch.amount.iter_mut().zip(upper) {
            *amount += share * (upper - *amount);
        }
    }

    /// Flows that carry supplies to the sinks' amounts, from the leaves up; returns the closing arc's flow.
    fn targets(&self, root: u32, scratch: &mut Scratch) -> f64 {
        for (at, &node) in scratch.order.iter().enumerate() {
            let inject = self.inject[node as usize];
            scratch.rest[at] = if self.forest.is_group(node) {
                scratch.amount[at] - inject
            } else {
                inject - scratch.amount[at]
            };
        }
        for at in (1..scratch.order.len()).rev() {
            let node = scratch.order[at];
            let gain = self.forest.arc(node).gain;
            let rest = scratch.rest[at];
            let above = scratch.above[at] as usize;
            if self.forest.is_group(node) {
                scratch.target[at] = rest / gain;
                scratch.rest[above] -= rest / gain;
            } else {
                scratch.target[at] = rest;
                scratch.rest[above] -= rest * gain;
            }
        }
        let Some(&Extra { to, arc }) = self.forest.extra(root) else { return 0.0 };
        // A unit of flow on the closing arc changes the flows between `to` and the root; the root's balance fixes it.
        let mut changes: Vec<(usize, f64)> = Vec::new();
        let mut change = if self.forest.is_group(to) { -arc.gain } else { -1.0 };
        let mut node = to;
        while node != root {
            let gain = self.forest.arc(node).gain;
            let flow = if self.forest.is_group(node) { change / gain } else { change };
            changes.push((scratch.place[node as usize] as usize, flow));
            change = if self.forest.is_group(node) { -flow } else { -flow * gain };
            node = self.forest.parent(node);
        }
        let own = if self.forest.is_group(root) { arc.gain } else { 1.0 };
        let flow = scratch.rest[0] / (own - change);
        for (at, rate) in changes {
            scratch.target[at] += rate * flow;
        }
        flow
    }

    /// Moves flows to their targets, or as far as the first bound allows.
    fn advance(&mut self, root: u32, scratch: &Scratch, extra_target: f64, noise: f64) -> Option<Blocked> {
        let mut share = 1.0;
        let mut blocked = None;
        for (at, &node) in scratch.order.iter().enumerate().skip(1) {
            let arc = *self.forest.arc(node);
            if let Some((own, at_upper)) = self.reach(&arc, scratch.target[at], noise)
                && own <= share
            {
                share = own;
                blocked = Some(Blocked::Node { node, at_upper });
            }
        }
        if let Some(extra) = self.forest.extra(root)
            && let Some((own, at_upper)) = self.reach(&extra.arc, extra_target, noise)
            && own <= share
        {
            share = own;
            blocked = Some(Blocked::Extra { root, at_upper });
        }
        for (at, &node) in scratch.order.iter().enumerate().skip(1) {
            let arc = *self.forest.arc(node);
            let flow = self.moved(&arc, scratch.target[at], share);
            self.has_moved |= (flow - arc.flow).abs() > self.least_move;
            self.forest.arc_mut(node).flow = flow;
        }
        if let Some(extra) = self.forest.extra(root) {
            let flow = self.moved(&extra.arc, extra_target, share);
            if let Some(extra) = self.forest.extra_mut(root) {
                extra.arc.flow = flow;
            }
        }
        blocked
    }

    /// The share of the way to `target` at which an arc meets its bound, if it does, and which bound.
    fn reach(&self, arc: &BasicArc, target: f64, noise: f64) -> Option<(f64, bool)> {
        let (lower, upper) = self.bounds(arc);
        if target < lower - noise {
            let way = arc.flow - target;
            Some((((arc.flow - lower) / way).clamp(0.0, 1.0), false))
        } else if target > upper + noise {
            let way = target - arc.flow;
            Some((((upper - arc.flow) / way).clamp(0.0, 1.0), true))
        } else {
            None
        }
    }

    fn moved(&self, arc: &BasicArc, target: f64, share: f64) -> f64 {
        let (lower, upper) = self.bounds(arc);
        let flow = if share == 1.0 { target } else { arc.flow + share * (target - arc.flow) };
        flow.clamp(lower, upper)
    }
}
