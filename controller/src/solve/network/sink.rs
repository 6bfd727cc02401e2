//! Where load ends up: a group's capacity or, for a supply, shedding. Each is a rising curve of amount against price.
//!
//! A level stretch of the marginal would make the amount jump at one price. It is tilted by a hundred-billionth of its
//! price, which decides ties in proportion to the room and costs less than the solver's own tolerance.
use super::super::curve::Piece;

/// Tilt of a level stretch, relative to its price.
pub(super) const TILT: f64 = 1e-11;

/// Amount at a price, and how fast it rises.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Response {
    pub(super) amount: f64,
    /// Amount per ms of price.
    pub(super) slope: f64,
}

/// Which way prices are about to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The sinks of all nodes, their pieces in one array.
#[derive(Debug)]
pub(super) struct Sinks {
    start: Vec<u32>,
    pieces: Vec<Piece>,
    /// The piece in which the last answer lay: prices move little between questions.
    hint: Vec<u32>,
}

impl Sinks {
    pub(super) fn with_capacity(nodes: usize, pieces: usize) -> Self {
        let mut start = Vec::with_capacity(nodes + 1);
        start.push(0);
        Self { start, pieces: Vec::with_capacity(pieces), hint: Vec::with_capacity(nodes) }
    }

    /// Adds the next node's sink, with pieces in order of load.
    /// `scale` is a usual price, below which a tilt would drown in rounding.
    pub(super) fn push(&mut self, scale: f64, pieces: impl Iterator<Item = Piece>) {
        let mut lift = 0.0;
        self.hint.push(index(self.pieces.len()));
        for mut piece in pieces {
            let least = TILT * piece.high.abs().max(scale);
            piece.low += lift;
            piece.high += lift;
            if piece.high - piece.low < least {
                piece.high = piece.low + least;
                lift += least;
            }
            self.pieces.push(piece);
        }
        self.start.push(index(self.pieces.len()));
    }

    /// Amount that the sink of `node` takes at `price`; at the end of a piece, its slope towards `direction`.
    pub(super) fn at(&mut self, node: usize, price: f64, direction: Direction) -> Response {
        let (first, end) = (self.start[node] as usize, self.start[node + 1] as usize);
        if first == end {
            return Response::default();
        }
        let mut at = self.hint[node] as usize;
        while at > first && price < self.pieces[at].low {
            at -= 1;
        }
        while at + 1 < end && price >= self.pieces[at + 1].low {
            at += 1;
        }
        if direction == Direction::Down && at > first && price == self.pieces[at].low {
            at -= 1;
        }
        self.hint[node] = index(at);
        let Piece { from, to, low, high } = self.pieces[at];
        if price < low || (price == low && direction == Direction::Down) {
            return Response { amount: from, slope: 0.0 };
        }
        if price > high || (price == high && direction == Direction::Up) {
            return Response { amount: to, slope: 0.0 };
        }
        let slope = (to - from) / (high - low);
        Response { amount: (from + (price - low) * slope).min(to), slope }
    }

    /// The next price above `price` at which the sink of `node` starts to take more; infinite if it never does.
    pub(super) fn wakes_above(&self, node: usize, price: f64) -> f64 {
        let pieces = &self.pieces[self.start[node] as usize..self.start[node + 1] as usize];
        pieces.iter().map(|piece| piece.low).find(|low| *low > price).unwrap_or(f64::INFINITY)
    }

    /// The next price below `price` at which the sink of `node` starts to take less; minus infinity if it never does.
    pub(super) fn wakes_below(&self, node: usize, price: f64) -> f64 {
        let pieces = &self.pieces[self.start[node] as usize..self.start[node + 1] as usize];
        pieces.iter().rev().map(|piece| piece.high).find(|high| *high < price).unwrap_or(f64::NEG_INFINITY)
    }

    /// Bounds of the amount around `amount` within which `slope` holds.
    pub(super) fn piece_bounds(&self, node: usize) -> (f64, f64) {
        let piece = &self.pieces[self.hint[node] as usize];
        (piece.from, piece.to)
    }

    /// The largest amount that the sink of `node` takes.
    pub(super) fn limit(&self, node: usize) -> f64 {
        let (first, end) = (self.start[node] as usize, self.start[node + 1] as usize);
        if first == end { 0.0 } else { self.pieces[end - 1].to }
    }

    /// Marginal of the first unit; infinite without capacity.
    pub(super) fn first_price(&self, node: usize) -> f64 {
        let (first, end) = (self.start[node] as usize, self.start[node + 1] as usize);
        if first == end { f64::INFINITY } else { self.pieces[first].low }
    }

    pub(super) fn marginal(&self, node: usize, amount: f64) -> f64 {
        let pieces = &self.pieces[self.start[node] as usize..self.start[node + 1] as usize];
        for piece in pieces {
            if amount < piece.to {
                let share = (amount - piece.from).max(0.0) / (piece.to - piece.from);
                return piece.low + share * (piece.high - piece.low);
            }
        }
        f64::INFINITY
    }

    /// Marginal at `from` and its rise per unit, if both amounts lie on one piece of the sink of `node`.
    pub(super) fn marginal_within(&self, node: usize, from: f64, to: f64) -> Option<(f64, f64)> {
        let pieces = &self.pieces[self.start[node] as usize..self.start[node + 1] as usize];
        let (least, most) = (from.min(to), from.max(to));
        let piece = pieces.iter().find(|piece| piece.from <= least && most <= piece.to)?;
        let rise = (piece.high - piece.low) / (piece.to - piece.from);
        Some((piece.low + rise * (from - piece.from), rise))
    }

    pub(super) fn bytes(&self) -> usize {
        self.start.capacity() * 4 + self.pieces.capacity() * size_of::<Piece>() + self.hint.capacity() * 4
    }
}

/// Positions fit in 32 bits: the solver refuses problems above that.
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).expect("the solver refuses problems of 2^32 arcs or more")
}
