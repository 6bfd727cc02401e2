//! The assignment as a solver sees it: a generalised transportation problem with a convex cost at each group.
//!
//! minimise `sum x_a (network_ms_a + base_ms_a) + sum_g F_g(load_g) + sum_i price_i s_i + penalty`
//! subject to `sum_(a of i) x_a + s_i = demand_i`, `load_g = sum_(a of g) gain_a x_a <= limit_g`, `x, s >= 0`.
//!
//! Rates are requests per second; a group's load is in reference requests per second of its own profile.

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

/// Extra delay of a reference request against utilisation: `lat(u) - lat(0)` in ms, linear between points.
///
/// `F(load) = capacity * u * delay(u)` with `u = load / capacity` is convex: `u * delay(u)` was convexified from below.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// `(utilisation, delay_ms)`: utilisation strictly increasing from `(0, 0)` to at least 1, delay not decreasing.
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
    /// Dual of each group's load: marginal delay plus capacity rent, ms for each reference request/s.
    pub group_price: Vec<f64>,
    /// Dual of each supply's balance: cost of one more request/s, ms.
    pub supply_price: Vec<f64>,
}
