//! The pairs of every supply, laid out for pricing: a row of prices beside the groups' potentials.
use super::sink::index;

/// Arcs in rows, one row a supply.
#[derive(Debug)]
pub(super) struct Rows {
    /// Arcs of supply `i` stand at `start[i]..start[i + 1]`.
    pub(super) start: Vec<u32>,
    /// Cost of one more unit on the arc where it stands now, without its group's price; infinite where the group has no
    /// capacity.
    pub(super) price: Vec<f64>,
    layout: Layout,
    /// Units of load for a unit of flow; empty where it is 1 everywhere.
    gain: Vec<f64>,
}

#[derive(Debug)]
enum Layout {
    /// Every supply may use every group, in order: the group is the position in the row.
    Dense,
    Sparse(Vec<u32>),
}

impl Rows {
    /// `group` is left empty if `dense`, and `gain` if all are 1.
    pub(super) fn new(
        start: Vec<u32>,
        group: Vec<u32>,
        price: Vec<f64>,
        gain: Vec<f64>,
        dense: bool,
    ) -> Self {
        let layout = if dense { Layout::Dense } else { Layout::Sparse(group) };
        Self { start, price, layout, gain }
    }

    pub(super) fn supplies(&self) -> usize {
        self.start.len() - 1
    }

    /// Arcs in all rows.
    pub(super) fn len(&self) -> usize {
        self.price.len()
    }

    pub(super) fn is_uniform(&self) -> bool {
        self.gain.is_empty()
    }

    pub(super) fn range(&self, supply: usize) -> std::ops::Range<usize> {
        self.start[supply] as usize..self.start[supply + 1] as usize
    }

    /// Group of the arc at `position` in the row of `supply`.
    pub(super) fn group(&self, supply: usize, position: usize) -> u32 {
        match &self.layout {
            Layout::Dense => index(position) - self.start[supply],
            Layout::Sparse(groups) => groups[position],
        }
    }

    pub(super) fn gain(&self, position: usize) -> f64 {
        self.gain.get(position).copied().unwrap_or(1.0)
    }

    /// The arc of a supply on which one more unit costs least, and that cost. Ties go to the first.
    pub(super) fn cheapest(&self, supply: usize, potentials: &[f64]) -> Option<(f64, usize)> {
        let range = self.range(supply);
        let start = range.start;
        let row = &self.price[range.clone()];
        let (cost, offset) = match (&self.layout, self.gain.is_empty()) {
            (Layout::Dense, true) => least_dense(row, &potentials[..row.len()]),
            (Layout::Dense, false) => least_dense_gains(row, &potentials[..row.len()], &self.gain[range]),
            (Layout::Sparse(groups), true) => {
                let groups = &groups[range];
                least(row, |at| potentials[groups[at] as usize])
            }
            (Layout::Sparse(groups), false) => {
                let (groups, gain) = (&groups[range.clone()], &self.gain[range]);
                least(row, |at| gain[at] * potentials[groups[at] as usize])
            }
        };
        cost.is_finite().then_some((cost, start + offset))
    }

    pub(super) fn bytes(&self) -> usize {
        let groups = if let Layout::Sparse(groups) = &self.layout { groups.capacity() * 4 } else { 0 };
        self.start.capacity() * 4 + self.price.capacity() * 8 + self.gain.capacity() * 8 + groups
    }
}

/// Terms that one step of the dense kernels takes: enough to hide the latency of a comparison.
const LANES: usize = 16;
/// Terms of a block whose least element is looked up only if it wins.
const BLOCK: usize = 128;

fn least_dense(row: &[f64], potentials: &[f64]) -> (f64, usize) {
    blocks(
        row.len(),
        |from, to| block_least(&row[from..to], &potentials[from..to]),
        |at| row[at] + potentials[at],
    )
}

fn least_dense_gains(row: &[f64], potentials: &[f64], gain: &[f64]) -> (f64, usize) {
    blocks(
        row.len(),
        |from, to| block_least_gains(&row[from..to], &potentials[from..to], &gain[from..to]),
        |at| row[at] + gain[at] * potentials[at],
    )
}

fn block_least(row: &[f64], potentials: &[f64]) -> f64 {
    let mut best = [f64::INFINITY; LANES];
    let (rows, rest) = row.as_chunks::<LANES>();
    let (prices, prices_rest) = potentials.as_chunks::<LANES>();
    for (row, price) in rows.iter().zip(prices) {
        for lane in 0..LANES {
            let cost = row[lane] + price[lane];
            best[lane] = if cost < best[lane] { cost } else { best[lane] };
        }
    }
    let least = best.iter().copied().fold(f64::INFINITY, f64::min);
    rest.iter().zip(prices_rest).fold(least, |least, (row, price)| least.min(row + price))
}

fn block_least_gains(row: &[f64], potentials: &[f64], gain: &[f64]) -> f64 {
    let mut best = [f64::INFINITY; LANES];
    let (rows, rest) = row.as_chunks::<LANES>();
    let (prices, prices_rest) = potentials.as_chunks::<LANES>();
    let (gains, gains_rest) = gain.as_chunks::<LANES>();
    for ((row, price), gain) in rows.iter().zip(prices).zip(gains) {
        for lane in 0..LANES {
            let cost = row[lane] + gain[lane] * price[lane];
            best[lane] = if cost < best[lane] { cost } else { best[lane] };
        }
    }
    let least = best.iter().copied().fold(f64::INFINITY, f64::min);
    let rest = rest.iter().zip(prices_rest).zip(gains_rest);
    rest.fold(least, |least, ((row, price), gain)| least.min(row + gain * price))
}

/// Least cost over blocks, and the first position that reaches it.
fn blocks(length: usize, block: impl Fn(usize, usize) -> f64, cost: impl Fn(usize) -> f64) -> (f64, usize) {
    let (mut best, mut winner) = (f64::INFINITY, 0);
    let mut from = 0;
    while from < length {
        let to = (from + BLOCK).min(length);
        let least = block(from, to);
        if least < best {
            (best, winner) = (least, from);
        }
        from = to;
    }
    let end = (winner + BLOCK).min(length);
    let position = (winner..end).find(|&at| cost(at) == best).unwrap_or(winner);
    (best, position)
}

fn least(row: &[f64], price: impl Fn(usize) -> f64) -> (f64, usize) {
    let (mut best, mut position) = (f64::INFINITY, 0);
    for (at, own) in row.iter().enumerate() {
        let cost = own + price(at);
        if cost < best {
            (best, position) = (cost, at);
        }
    }
    (best, position)
}
