//! The assignment as a solver sees it: a generalised transportation problem with a convex cost at each group.
//!
//! minimise `sum x_a (network_ms_a + base_ms_a) + sum_g F_g(load_g) + sum_i price_i s_i + penalty`
//! subject to `sum_(a of i) x_a + s_i = demand_i`, `load_g = sum_(a of g) gain_a x_a <= limit_g`, `x, s >= 0`.
//!
//! Rates are requests per second; a group's load is in reference requests per second of its own profile.
use std::ops::Range;

/// One tick's problem. Arcs are grouped by supply (compressed sparse rows).
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub supplies: Vec<Supply>,
    pub groups: Vec<Group>,
    /// Arcs of supply `i` stand at `arc_start[i]..arc_start[i + 1]`, sorted by group; one more entry than supplies.
    pub arc_start: Vec<usize>,
    pub arcs: Vec<Arc>,
    /// Price of moved traffic against what is published.
    pub move_penalty: Option<MovePenalty>,
}

/// A (frontend, class) pair with demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// Offered first attempts, requests/s, finite and at least 0.
    pub demand: f64,
    /// Price of a request that is not served, ms. Above every arc's cost plus any group's last marginal delay.
    pub shed_price: f64,
}

/// An engine group's capacity and convex cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// `C_g`: effective capacity, reference requests/s. Zero takes no traffic.
    pub capacity: f64,
    /// Largest load allowed: `(1 - headroom) C_g`.
    pub limit: f64,
    pub curve: Curve,
}

/// Extra delay of a reference request against utilisation: `lat(u) - lat(0)` in ms, linear between points and on the
/// last line beyond them.
///
/// The cost of a load is the convex envelope over `0..=limit` of `F(load) = load * delay(load / capacity)`. A curve that
/// is concave or falls in places is bridged from below ([`Curve::bridged`] says where).
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// `(utilisation, delay_ms)`: utilisation strictly increasing from `(0, 0)`, delay finite and at least 0.
    pub points: Vec<(f64, f64)>,
}

/// A pair that the class's filters allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arc {
    pub group: u32,
    /// `round_trips * rtt + base`, ms a request.
    pub cost: f64,
    /// Reference requests of work that one request brings to the group; above 0.
    pub gain: f64,
}

/// An L1 price on moved traffic: `sum_a price_a |x_a - previous_a|`.
#[derive(Clone, Debug, PartialEq)]
pub struct MovePenalty {
    /// One per arc: previous weight times the new demand, requests/s.
    pub previous: Vec<f64>,
    /// One per arc: ms for each request/s moved.
    pub price: Vec<f64>,
}

/// What a solver returns. Rates are per arc of the problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub rates: Vec<f64>,
    pub shed: Vec<f64>,
    /// Dual of each group's load: marginal delay plus capacity rent, ms for each reference request/s. The cost of one
    /// more unit of load there (right-hand derivative); not unique where the optimum is degenerate.
    pub group_price: Vec<f64>,
    /// Dual of each supply's balance: cost of one more request/s, ms.
    pub supply_price: Vec<f64>,
}

/// Which rule a problem breaks. Indexes are positions in the problem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
    #[error("arc_start does not partition {arcs} arcs over {supplies} supplies")]
    ArcStart { arcs: usize, supplies: usize },
    #[error("supply {supply} has demand {demand} and shed price {shed_price}")]
    Supply { supply: usize, demand: f64, shed_price: f64 },
    #[error("group {group} has capacity {capacity} and limit {limit}")]
    Group { group: usize, capacity: f64, limit: f64 },
    #[error(
        "group {group} has a curve that is not points of rising utilisation from (0, 0) with delays of at least 0"
    )]
    Curve { group: usize },
    #[error("arc {arc} of supply {supply} names group {group}, of {groups}, out of order or out of range")]
    ArcOrder { arc: usize, supply: usize, group: u32, groups: usize },
    #[error("arc {arc} has cost {cost} and gain {gain}")]
    Arc { arc: usize, cost: f64, gain: f64 },
    #[error("the move penalty has {previous} rates and {price} prices for {arcs} arcs")]
    PenaltyLength { previous: usize, price: usize, arcs: usize },
    #[error("the move penalty of arc {arc} has rate {previous} and price {price}")]
    Penalty { arc: usize, previous: f64, price: f64 },
}

impl Problem {
    /// Positions in `arcs` of the arcs of `supply`.
    #[must_use]
    pub fn arcs_of(&self, supply: usize) -> Range<usize> {
        self.arc_start[supply]..self.arc_start[supply + 1]
    }

    /// Checks lengths, order and numbers. A solver calls it first, so that no number that is not finite gets further.
    ///
    /// # Errors
    /// The first rule broken, with the values that break it.
    pub fn check(&self) -> Result<(), ProblemError> {
        self.check_supplies()?;
        for (group, &Group { capacity, limit, ref curve }) in self.groups.iter().enumerate() {
            let usable = capacity.is_finite() && limit.is_finite() && 0.0 <= limit && limit <= capacity;
            if !usable {
                return Err(ProblemError::Group { group, capacity, limit });
            }
            if !curve.is_well_formed() {
                return Err(ProblemError::Curve { group });
            }
        }
        self.check_arcs()?;
        self.check_penalty()
    }

    fn check_supplies(&self) -> Result<(), ProblemError> {
        let supplies = self.supplies.len();
        let partition = self.arc_start.len() == supplies + 1
            && self.arc_start[0] == 0
            && self.arc_start[supplies] == self.arcs.len()
            && self.arc_start.is_sorted();
        if !partition {
            return Err(ProblemError::ArcStart { arcs: self.arcs.len(), supplies });
        }
        for (supply, &Supply { demand, shed_price }) in self.supplies.iter().enumerate() {
            let usable = demand.is_finite() && demand >= 0.0 && shed_price.is_finite() && shed_price >= 0.0;
            if !usable {
                return Err(ProblemError::Supply { supply, demand, shed_price });
            }
        }
        Ok(())
    }

    fn check_arcs(&self) -> Result<(), ProblemError> {
        let groups = self.groups.len();
        // Two passes: almost all arcs are well, and a plain fold over them is quick.
        let numbers = |arc: &Arc| {
            (arc.cost >= 0.0) & (arc.cost < f64::INFINITY) & (arc.gain > 0.0) & (arc.gain < f64::INFINITY)
        };
        if !self.arcs.iter().fold(true, |well, arc| well & numbers(arc))
            && let Some(arc) = self.arcs.iter().position(|arc| !numbers(arc))
        {
            return Err(ProblemError::Arc { arc, cost: self.arcs[arc].cost, gain: self.arcs[arc].gain });
        }
        for supply in 0..self.supplies.len() {
            let mut least = 0;
            for arc in self.arcs_of(supply) {
                let group = self.arcs[arc].group;
                if group < least || group as usize >= groups {
                    return Err(ProblemError::ArcOrder { arc, supply, group, groups });
                }
                least = group + 1;
            }
        }
        Ok(())
    }

    fn check_penalty(&self) -> Result<(), ProblemError> {
        let Some(penalty) = &self.move_penalty else { return Ok(()) };
        let arcs = self.arcs.len();
        let (previous, price) = (penalty.previous.len(), penalty.price.len());
        if previous != arcs || price != arcs {
            return Err(ProblemError::PenaltyLength { previous, price, arcs });
        }
        for (arc, (&previous, &price)) in penalty.previous.iter().zip(&penalty.price).enumerate() {
            let usable = previous.is_finite() && previous >= 0.0 && price.is_finite() && price >= 0.0;
            if !usable {
                return Err(ProblemError::Penalty { arc, previous, price });
            }
        }
        Ok(())
    }
}

impl Curve {
    /// Extra delay of a reference request at `utilisation`, ms.
    #[must_use]
    pub fn delay_ms(&self, utilisation: f64) -> f64 {
        let after =
            self.points.partition_point(|&(at, _)| at < utilisation).clamp(1, self.points.len().max(2) - 1);
        let (Some(&(u0, d0)), Some(&(u1, d1))) = (self.points.get(after - 1), self.points.get(after)) else {
            return 0.0;
        };
        d0 + (utilisation - u0) / (u1 - u0) * (d1 - d0)
    }

    /// The largest share of a group's capacity at which the envelope is strictly below the curve, if there is any up to
    /// `utilisation`: `(from, to)` of the widest bridge. The file's owner is told of it.
    #[must_use]
    pub fn bridged(&self, utilisation: f64) -> Option<(f64, f64)> {
        super::curve::bridges(self, utilisation)
            .into_iter()
            .max_by(|one, other| (one.1 - one.0).total_cmp(&(other.1 - other.0)))
    }

    fn is_well_formed(&self) -> bool {
        self.points.first() == Some(&(0.0, 0.0))
            && self.points.iter().all(|&(at, delay)| at.is_finite() && delay.is_finite() && delay >= 0.0)
            && self.points.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }
}
