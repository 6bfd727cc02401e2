//! The large solver: a network simplex for convex costs and gains, exact on the curves themselves.
//!
//! The basis is a forest of the pairs in use ([`forest`]). Three steps repeat: a row prices its arcs ([`rows`]), the
//! cheapest one below its supply's price enters ([`pivot`]), and each component that changed moves all its loads to the
//! optimum over its arcs ([`balance`]), dropping arcs whose flow ends. No step raises the objective, and the end is
//! an optimum of the smooth problem: there are no segments to refine.
//!
//! The method follows the convex network simplex (Dembo and Klincewicz 1981) and the quasi-trees of generalised networks
//! (Brown and McBride 1984); moving all loads of a component at once is an active-set step.
mod answer;
mod balance;
mod forest;
mod kink;
mod layout;
mod pivot;
mod rows;
mod sink;
mod slack;
mod start;

use balance::Scratch;
use forest::{BasicArc, Forest, Side};
use kink::Kinks;
use pivot::{Change, Entering, Entry};
use rows::Rows;
use sink::Sinks;

use super::{
    SolveError, Solver,
    curve::CostCurve,
    duals::{self, Prices},
    evaluate::loads,
    problem::{Assignment, Problem},
};

/// Reduced costs below this share of a supply's price are rounding.
const REDUCED_COST: f64 = 1e-11;

/// How often a sweep balances.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Entries after which all marked components are balanced.
    entries: usize,
    /// Balances at the end of a sweep with many entries, beside a few; what is left waits for the next.
    balances: usize,
}

/// Arcs up to which prices are made right-hand derivatives: about a tenth of the solve there.
const RIGHT_HAND_ARCS: usize = 20_000;
/// Relative gap within which they must prove the answer.
const PROOF: f64 = 1e-10;

/// Moves of flow below this share of all demand are rounding.
const LEAST_MOVE: f64 = 1e-13;

/// The convex network simplex.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Steps (arcs that enter or leave) allowed for each supply and group; real problems need about 5.
    pub steps_per_node: usize,
}

impl Default for Network {
    fn default() -> Self {
        Self { steps_per_node: 2_000 }
    }
}

/// What a solve took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Arcs that entered the basis.
    pub entered: usize,
    /// Arcs that a balance put out of it.
    pub left: usize,
    pub balances: usize,
    pub sweeps: usize,
    /// Bytes of the solver's own state, beside the problem and the answer.
    pub bytes: usize,
}

impl Solver for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    fn solve(&self, problem: &Problem, start: Option<&[f64]>) -> Result<Assignment, SolveError> {
        self.solve_measured(problem, start).map(|(assignment, _)| assignment)
    }
}

impl Network {
    /// Solves as [`Solver::solve`] does and also tells the effort.
    ///
    /// # Errors
    /// As [`Solver::solve`].
    pub fn solve_measured(
        &self,
        problem: &Problem,
        start: Option<&[f64]>,
    ) -> Result<(Assignment, Effort), SolveError> {
        problem.check()?;
        if let Some(start) = start.filter(|start| start.len() != problem.arcs.len()) {
            return Err(SolveError::StartLength { found: start.len(), expected: problem.arcs.len() });
        }
        let curves: Vec<CostCurve> = problem.groups.iter().map(CostCurve::new).collect();
        let (mut basis, units) = layout::lay_out(problem, &curves);
        basis.step_limit = self.steps_per_node.saturating_mul(basis.forest.len() as usize);
        let previous = problem.move_penalty.as_ref().map(|penalty| penalty.previous.as_slice());
        match previous.or(start) {
            Some(rates) => basis.start_from(problem, &units, rates)?,
            None => basis.start_greedy()?,
        }
        basis.run()?;
        basis.level_shed_prices();
        basis.effort.bytes = basis.bytes();
        let effort = basis.effort;
        let flows = basis.flows(&units);
        let (rates, shed) = answer::rates(problem, &curves, &flows);
        let prices = basis.prices(&units);
        let (group_price, supply_price) = right_hand_prices(problem, &curves, &rates).unwrap_or(prices);
        Ok((Assignment { rates, shed, group_price, supply_price }, effort))
    }
}

/// Prices as right-hand derivatives, for problems small enough that the search for them costs little, if they prove the
/// answer as well as any prices can.
fn right_hand_prices(problem: &Problem, curves: &[CostCurve], rates: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
    if problem.arcs.len() > RIGHT_HAND_ARCS {
        return None;
    }
    let loads = loads(problem, rates);
    let up: Vec<f64> = curves.iter().zip(&loads).map(|(curve, &load)| curve.marginal_up(load)).collect();
    let Prices { group, supply } = duals::prices(problem, rates, &up);
    let served = |supply: usize| rates[problem.arcs_of(supply)].iter().sum::<f64>();
    let shed: Vec<f64> =
        problem.supplies.iter().enumerate().map(|(at, terms)| (terms.demand - served(at)).max(0.0)).collect();
    let cost = duals::objective(problem, curves, rates, &shed);
    let bound = duals::lower_bound(problem, curves, &group, &supply);
    ((cost - bound).abs() <= PROOF * cost.abs()).then_some((group, supply))
}

/// The state of a solve.
#[derive(Debug)]
struct Basis {
    rows: Rows,
    kinks: Kinks,
    sinks: Sinks,
    forest: Forest,
    /// Demand of a supply, or fixed load of a group, beside the basic arcs.
    inject: Vec<f64>,
    shed_price: Vec<f64>,
    /// Roots of components to balance.
    marked: Vec<u32>,
    is_marked: Vec<bool>,
    scratch: Scratch,
    cycle: Vec<(pivot::Member, f64)>,
    far_side: Vec<(pivot::Member, f64)>,
    /// Rates of flow being added up, by the node below the arc, and the nodes that have one.
    rate_above: Vec<f64>,
    touched: Vec<u32>,
    closing_rates: Vec<(u32, f64)>,
    effort: Effort,
    step_limit: usize,
    /// Whether any flow changed by more than rounding since this was last cleared.
    has_moved: bool,
    least_move: f64,
}

impl Basis {
    fn new(
        rows: Rows,
        kinks: Kinks,
        sinks: Sinks,
        forest: Forest,
        inject: Vec<f64>,
        shed_price: Vec<f64>,
    ) -> Self {
        let nodes = inject.len();
        let least_move = LEAST_MOVE * inject.iter().sum::<f64>();
        Self {
            rows,
            kinks,
            sinks,
            forest,
            inject,
            shed_price,
            marked: Vec::new(),
            is_marked: vec![false; nodes],
            scratch: Scratch::default(),
            cycle: Vec::new(),
            far_side: Vec::new(),
            rate_above: vec![0.0; nodes],
            touched: Vec::new(),
            closing_rates: Vec::new(),
            effort: Effort::default(),
            step_limit: usize::MAX,
            has_moved: false,
            least_move,
        }
    }

    /// Prices rows and balances components until no arc would lower the objective.
    ///
    /// A sweep takes arcs in row after row; balances come at its end, or more often where gains tie prices to loads.
    /// Joins on prices that no balance has confirmed may be undone by it; after a sweep that moved no flow at all, each
    /// arc is balanced by itself.
    fn run(&mut self) -> Result<(), SolveError> {
        let pace = self.pace();
        self.balance_marked(usize::MAX)?;
        let mut careful = false;
        loop {
            self.effort.sweeps += 1;
            self.has_moved = false;
            let mut entered = 0;
            for supply in 0..self.rows.supplies() {
                // A supply whose demand is all held has a price only once one of its arcs is basic: it takes two.
                let arcs = if self.forest.is_alone(self.forest.supply_node(supply)) { 2 } else { 1 };
                for _ in 0..arcs {
                    let Some(entering) = self.price_row(supply) else { break };
                    self.count_entry()?;
                    entered += 1;
                    let taken = self.enter(entering) == Entry::Taken;
                    if !taken || careful || entered % pace.entries == 0 {
                        self.balance_marked(usize::MAX)?;
                    }
                }
            }
            if entered == 0 && self.marked.is_empty() {
                return Ok(());
            }
            let is_final = entered == 0 || careful || !self.rows.is_uniform();
            self.balance_marked(if is_final { usize::MAX } else { 4 + pace.balances.min(entered / 16) })?;
            careful = !self.has_moved;
        }
    }

    /// With gains that cancel, balances may take about as long as pricing; where gains or published rates bind, prices go
    /// astray without more of them. Found by trial.
    fn pace(&self) -> Pace {
        if !self.rows.is_uniform() {
            return Pace { entries: 16, balances: usize::MAX };
        }
        let arcs_per_node = self.rows.len() / (self.inject.len() + 1);
        let entries = if self.kinks.is_empty() { usize::MAX } else { 128 };
        Pace { entries, balances: arcs_per_node / 16 }
    }

    /// Balances marked components, and again what is left of those that lost an arc, `most` times in all.
    fn balance_marked(&mut self, most: usize) -> Result<(), SolveError> {
        let mut left = most;
        while left > 0
            && let Some(root) = self.marked.pop()
        {
            self.is_marked[root as usize] = false;
            if self.forest.root(root) != root {
                continue;
            }
            left -= 1;
            self.effort.balances += 1;
            if let Some(blocked) = self.balance(root) {
                self.effort.left += 1;
                if self.effort.left > self.step_limit {
                    return Err(SolveError::StepLimit { steps: self.step_limit });
                }
                self.leave(blocked);
            }
        }
        Ok(())
    }

    fn count_entry(&mut self) -> Result<(), SolveError> {
        self.effort.entered += 1;
        if self.effort.entered > self.step_limit {
            return Err(SolveError::StepLimit { steps: self.step_limit });
        }
        Ok(())
    }

    /// The change in a supply's row that lowers the objective most, per unit.
    fn price_row(&mut self, supply: usize) -> Option<Entering> {
        let node = self.forest.supply_node(supply);
        let cheapest = self.rows.cheapest(supply, &self.forest.potentials);
        if self.forest.is_alone(node) && self.inject[node as usize] <= 0.0 {
            // All its demand is on held arcs, or it has none: one more request would take the cheapest way.
            let least = cheapest.map_or(f64::INFINITY, |(cost, _)| cost);
            self.forest.potentials[node as usize] = least.min(self.shed_price[supply]);
        }
        let price = self.forest.potentials[node as usize];
        let mut gain = REDUCED_COST * price.abs();
        let mut entering = None;
        if let Some((cost, position)) = cheapest
            && price - cost > gain
            && !self.forest.holds(node, self.rows.group(supply, position), sink::index(position))
        {
            gain = price - cost;
            let held = self.kinks.find(supply, sink::index(position)).filter(|kink| kink.held);
            let flow = held.map_or(0.0, |kink| kink.previous);
            entering = Some(Entering { supply, position, change: Change::More, flow });
        }
        for kink in self.kinks.of(supply).iter().filter(|kink| kink.held) {
            let position = kink.position as usize;
            let group = self.rows.group(supply, position);
            let saving =
                kink.cost - kink.price + self.rows.gain(position) * self.forest.potentials[group as usize];
            if saving - price > gain {
                gain = saving - price;
                entering = Some(Entering { supply, position, change: Change::Less, flow: kink.previous });
            }
        }
        entering
    }

    fn mark(&mut self, root: u32) {
        if !self.is_marked[root as usize] {
            self.is_marked[root as usize] = true;
            self.marked.push(root);
        }
    }

    /// Bounds of a basic arc's flow on its stretch.
    fn bounds(&self, arc: &BasicArc) -> (f64, f64) {
        match arc.side {
            Side::Plain => (0.0, f64::INFINITY),
            Side::Below => (0.0, arc.bend),
            Side::Above => (arc.bend, f64::INFINITY),
        }
    }

    /// Readies an arc to become basic: its flow is no longer held.
    fn release(&mut self, entering: &Entering, arc: &BasicArc, group: u32) {
        let position = sink::index(entering.position);
        let Some(kink) = self.kinks.find_mut(entering.supply, position) else { return };
        self.rows.price[entering.position] = arc.cost;
        if kink.held {
            kink.held = false;
            let node = self.forest.supply_node(entering.supply);
            self.inject[node as usize] += kink.previous;
            self.inject[group as usize] -= kink.previous * arc.gain;
        }
    }

    /// Records the state of an arc that left the basis at one of its bounds.
    fn park(&mut self, supply: usize, arc: &BasicArc, at_upper: bool) {
        if arc.side == Side::Plain {
            return;
        }
        let position = arc.position as usize;
        let group = self.rows.group(supply, position);
        let node = self.forest.supply_node(supply);
        let Some(kink) = self.kinks.find_mut(supply, arc.position) else { return };
        let at_bend = arc.side == Side::Above || at_upper;
        if at_bend {
            kink.held = true;
            self.rows.price[position] = kink.cost + kink.price;
            self.inject[node as usize] -= kink.previous;
            self.inject[group as usize] += kink.previous * arc.gain;
        } else {
            self.rows.price[position] = kink.cost - kink.price;
        }
    }

    /// The flows in use, as `(supply, position, requests/s)` in order of position.
    fn flows(&self, units: &layout::Units) -> Vec<(usize, usize, f64)> {
        let mut flows = Vec::with_capacity(self.forest.len() as usize);
        let mut add = |supply: usize, arc: &BasicArc| {
            flows.push((supply, arc.position as usize, arc.flow / units.supply[supply]));
        };
        for node in 0..self.forest.len() {
            if self.forest.parent(node) != forest::NONE {
                add(self.forest.supply_of(self.forest.ends(node).0), self.forest.arc(node));
            }
        }
        for (root, extra) in self.forest.extras() {
            let end = if self.forest.is_group(*root) { extra.to } else { *root };
            add(self.forest.supply_of(end), &extra.arc);
        }
        for supply in 0..self.rows.supplies() {
            for kink in self.kinks.of(supply).iter().filter(|kink| kink.held) {
                flows.push((supply, kink.position as usize, kink.previous / units.supply[supply]));
            }
        }
        flows.sort_unstable_by_key(|&(_, position, _)| position);
        flows
    }

    /// Prices in the problem's units.
    fn prices(&self, units: &layout::Units) -> (Vec<f64>, Vec<f64>) {
        let (group, supply) = self.forest.potentials.split_at(units.group.len());
        let group = group.iter().zip(&units.group).map(|(price, unit)| price * unit).collect();
        // A supply that is shed whole may hang on an arc without flow, whose price says nothing about it.
        let capped = supply.iter().zip(&self.shed_price).map(|(price, shed)| price.min(*shed));
        let supply = capped.zip(&units.supply).map(|(price, unit)| price * unit).collect();
        (group, supply)
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.sinks.bytes() + self.forest.bytes() + self.inject.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::{certify::certify, evaluate::evaluate, fixture, reference::Reference};

    #[test]
    fn the_example_fleets_cost_what_the_linear_program_says() {
        for problem in [fixture::talk(), fixture::mixed()] {
            let expected = Reference::default().solve(&problem, None).unwrap();

            let found = Network::default().solve(&problem, None).unwrap();

            let certificate = certify(&problem, &found);
            assert!(certificate.violations.is_empty(), "{certificate:?}");
            assert!(certificate.gap.abs() < 1e-9, "{certificate:?}");
            let (one, other) = (evaluate(&problem, &found), evaluate(&problem, &expected));
            assert!((one.objective / other.objective - 1.0).abs() < 1e-8, "{one:?} {other:?}");
        }
    }

    #[test]
    fn random_fleets_are_solved_to_a_certified_optimum() {
        for seed in 0..3_000u64 {
            let shape = fixture::Shape {
                supplies: 2 + seed % 12,
                groups: 2 + seed % 17,
                mixed: seed & 1 == 1,
                tied: seed & 2 == 2,
                penalty: seed & 4 == 4,
            };
            let problem = fixture::random(seed, shape);

            let found = Network::default().solve(&problem, None).unwrap();

            let certificate = certify(&problem, &found);
            assert!(certificate.violations.is_empty(), "seed {seed}: {certificate:?}");
            assert!(certificate.gap.abs() < 1e-9, "seed {seed}: {certificate:?}");
        }
    }
}
