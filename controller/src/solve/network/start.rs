//! Where a solve starts: from rates that were in force, or by filling groups a slice at a time.
use super::{
    Basis,
    layout::Units,
    pivot::{Change, Entering, Entry},
    sink::index,
};
use crate::solve::{SolveError, problem::Problem};

/// Rounds in which the greedy start places every supply's demand.
const ROUNDS: u32 = 4;
/// Share of a group's room that it fills before it looks at prices again.
const SLICE: f64 = 1.0 / 6.0;

impl Basis {
    /// Starts from `rates`, requests/s per arc of the problem, cut to demands and limits.
    pub(super) fn start_from(
        &mut self,
        problem: &Problem,
        units: &Units,
        rates: &[f64],
    ) -> Result<(), SolveError> {
        let mut flows = Vec::new();
        let mut loads = vec![0.0; problem.groups.len()];
        for (supply, terms) in problem.supplies.iter().enumerate() {
            let (range, first) = (problem.arcs_of(supply), flows.len());
            for (position, &rate) in range.clone().zip(&rates[range]) {
                if rate > 0.0 && rate.is_finite() && self.rows.price[position].is_finite() {
                    flows.push((supply, position, rate));
                }
            }
            let own = &mut flows[first..];
            let sum: f64 = own.iter().map(|(_, _, rate)| rate).sum();
            let scale = if sum > terms.demand { terms.demand / sum } else { 1.0 };
            for (_, position, rate) in own {
                *rate *= scale;
                let arc = &problem.arcs[*position];
                loads[arc.group as usize] += *rate * arc.gain;
            }
        }
        let mut entering = Vec::new();
        for (supply, position, rate) in flows {
            let group = problem.arcs[position].group as usize;
            let limit = problem.groups[group].limit;
            let kept = if loads[group] > limit { rate * (limit / loads[group]) } else { rate };
            let flow = kept * units.supply[supply];
            let unit = self.rows.gain(position);
            let node = self.forest.supply_node(supply);
            let held = self.kinks.find_mut(supply, index(position)).filter(|kink| kink.previous == flow);
            match held {
                Some(kink) => {
                    kink.held = true;
                    self.rows.price[position] = kink.cost + kink.price;
                    self.inject[node as usize] -= flow;
                    self.inject[group] += flow * unit;
                }
                None => entering.push((supply, position, flow)),
            }
        }
        self.insert(entering)?;
        self.mark_all();
        Ok(())
    }

    /// Serves each supply where the next slice of load is cheapest.
    pub(super) fn start_greedy(&mut self) -> Result<(), SolveError> {
        let supplies = self.rows.supplies();
        let groups = self.inject.len() - supplies;
        let mut loads = vec![0.0; groups];
        let mut prices: Vec<f64> = (0..groups).map(|group| self.sinks.marginal(group, 0.0)).collect();
        let mut flows: Vec<Vec<(usize, f64)>> = vec![Vec::new(); supplies];
        for _ in 0..ROUNDS {
            for (supply, flows) in flows.iter_mut().enumerate() {
                let mut left = self.inject[groups + supply] / f64::from(ROUNDS);
                while left > 0.0 {
                    let Some((cost, position)) = self.rows.cheapest(supply, &prices) else { break };
                    if cost >= self.shed_price[supply] {
                        break;
                    }
                    let group = self.rows.group(supply, position) as usize;
                    let gain = self.rows.gain(position);
                    let limit = self.sinks.limit(group);
                    let slice = (SLICE * limit).min(limit - loads[group]);
                    let flow = left.min(slice / gain);
                    left -= flow;
                    loads[group] =
                        if flow < slice / gain { loads[group] + flow * gain } else { loads[group] + slice };
                    prices[group] = if loads[group] >= limit * (1.0 - 1e-12) {
                        f64::INFINITY
                    } else {
                        self.sinks.marginal(group, loads[group])
                    };
                    match flows.iter_mut().find(|(known, _)| *known == position) {
                        Some((_, sum)) => *sum += flow,
                        None => flows.push((position, flow)),
                    }
                }
            }
        }
        let all = flows.into_iter().enumerate();
        let entering =
            all.flat_map(|(supply, flows)| flows.into_iter().map(move |(at, flow)| (supply, at, flow)));
        self.insert(entering.collect())?;
        self.mark_all();
        Ok(())
    }

    /// Makes flows basic, the largest first; those that would close a cycle go round it.
    fn insert(&mut self, mut flows: Vec<(usize, usize, f64)>) -> Result<(), SolveError> {
        flows.sort_by(|one, other| other.2.total_cmp(&one.2).then(one.1.cmp(&other.1)));
        for (supply, position, flow) in flows {
            let group = self.rows.group(supply, position);
            let price = self.forest.potentials[self.forest.supply_node(supply) as usize];
            let kink = self.kinks.find(supply, index(position));
            let own = kink.map_or(self.rows.price[position], |kink| {
                if flow > kink.previous { kink.cost + kink.price } else { kink.cost - kink.price }
            });
            let cost = own + self.rows.gain(position) * self.forest.potentials[group as usize];
            let change = if cost < price { Change::More } else { Change::Less };
            self.count_entry()?;
            let entering = Entering { supply, position, change, flow };
            if self.enter(entering) == Entry::NeedsBalance {
                self.is_marked.fill(false);
                self.marked.clear();
                self.enter(entering);
            }
        }
        Ok(())
    }

    fn mark_all(&mut self) {
        for node in 0..self.forest.len() {
            let root = self.forest.root(node);
            self.mark(root);
        }
    }
}
