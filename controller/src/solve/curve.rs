//! The convex cost of a group's load, as its marginal: a rising, piecewise linear function with jumps.
//!
//! A delay that is linear in utilisation makes a marginal `delay(u) + u delay'(u)` that is linear too, with a jump where
//! the slope rises. Where it would fall, the envelope is a line over the cost, so the marginal is level: the level `m`
//! at which the area between the marginal and `m` over the bridged span vanishes.
use super::problem::{Curve, Group};

/// Share of a limit that loads are rounded by.
const AT_END: f64 = 1e-11;

/// A span of utilisation or load on which the marginal is linear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) from: f64,
    pub(super) to: f64,
    /// Marginal at `from` and at `to`, ms; not falling.
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Cost of a load in `0..=limit`. Pieces follow each other without gaps and their marginals do not fall.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CostCurve {
    pub(super) pieces: Vec<Piece>,
    /// Cost at the start of each piece, ms x reference requests/s.
    start_cost: Vec<f64>,
}

impl Piece {
    fn slope(&self) -> f64 {
        (self.high - self.low) / (self.to - self.from)
    }

    fn at(&self, point: f64) -> f64 {
        if self.low == self.high {
            return self.low;
        }
        (self.low + (point - self.from) * self.slope()).clamp(self.low, self.high)
    }

    /// Area under the marginal from `from` to `point`.
    fn area(&self, point: f64) -> f64 {
        0.5 * (self.low + self.at(point)) * (point - self.from)
    }

    /// The first point whose marginal is `level`, for a level inside the piece.
    fn first_at(&self, level: f64) -> f64 {
        if level <= self.low {
            self.from
        } else {
            (self.from + (level - self.low) / self.slope()).min(self.to)
        }
    }

    /// The last point whose marginal is `level`, for a level inside the piece.
    fn last_at(&self, level: f64) -> f64 {
        if level >= self.high { self.to } else { self.first_at(level).max(self.from) }
    }
}

impl CostCurve {
    /// The envelope of a group's cost; without pieces for a group that takes no traffic.
    pub(super) fn new(group: &Group) -> Self {
        if group.limit <= 0.0 {
            return Self::default();
        }
        let capacity = group.capacity;
        let mut pieces = envelope(&group.curve, group.limit / capacity);
        for piece in &mut pieces {
            piece.from *= capacity;
            piece.to *= capacity;
        }
        pieces.retain(|piece| piece.to > piece.from);
        if let Some(last) = pieces.last_mut() {
            last.to = group.limit;
        }
        let mut cost = 0.0;
        let mut start_cost = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            start_cost.push(cost);
            cost += piece.area(piece.to);
        }
        Self { pieces, start_cost }
    }

    pub(super) fn limit(&self) -> f64 {
        self.pieces.last().map_or(0.0, |piece| piece.to)
    }

    /// Cost of `load`, which lies in `0..=limit`.
    pub(super) fn cost(&self, load: f64) -> f64 {
        let Some(index) = self.piece_at(load) else { return 0.0 };
        let piece = &self.pieces[index];
        self.start_cost[index] + piece.area(load.clamp(piece.from, piece.to))
    }

    /// Cost of the next unit of load; infinite at the limit. A load within rounding of the end of a piece is at its end.
    pub(super) fn marginal_up(&self, load: f64) -> f64 {
        let load = load + AT_END * self.limit();
        self.pieces
            .iter()
            .find(|piece| load < piece.to)
            .map_or(f64::INFINITY, |piece| piece.at(load.max(piece.from)))
    }

    /// `max over loads of price * load - cost(load)`.
    pub(super) fn conjugate(&self, price: f64) -> f64 {
        let mut best = 0.0;
        for piece in &self.pieces {
            if price <= piece.low {
                break;
            }
            let load = piece.last_at(price);
            best += price * (load - piece.from) - piece.area(load);
        }
        best
    }

    fn piece_at(&self, load: f64) -> Option<usize> {
        let after = self.pieces.partition_point(|piece| piece.to < load);
        (!self.pieces.is_empty()).then(|| after.min(self.pieces.len() - 1))
    }
}

/// Spans of utilisation, up to `end`, where the envelope is a line below the curve's own cost.
pub(super) fn bridges(curve: &Curve, end: f64) -> Vec<(f64, f64)> {
    let own = own_pieces(curve, end);
    let is_bridge = |piece: &Piece| {
        piece.low == piece.high
            && !own.iter().any(|own| {
                own.from <= piece.from && piece.to <= own.to && own.low == piece.low && own.high == piece.high
            })
    };
    envelope(curve, end).iter().filter(|piece| is_bridge(piece)).map(|piece| (piece.from, piece.to)).collect()
}

/// The marginal of the envelope over utilisations `0..=end`.
fn envelope(curve: &Curve, end: f64) -> Vec<Piece> {
    let mut done: Vec<Piece> = Vec::new();
    for piece in own_pieces(curve, end) {
        // A falling marginal is a concave cost, whose envelope is its chord.
        let level = 0.5 * (piece.low + piece.high);
        let piece = if piece.low > piece.high { Piece { low: level, high: level, ..piece } } else { piece };
        match done.last() {
            Some(last) if last.high > piece.low => bridge(&mut done, piece),
            _ => done.push(piece),
        }
    }
    done
}

/// Appends `next`, whose marginal starts below the last one's end, and levels the span between the two.
fn bridge(done: &mut Vec<Piece>, next: Piece) {
    let Some(last) = done.last() else { return };
    let (mut low, mut high) = (next.low, last.high);
    // The area between the marginal and the level falls as the level rises; 200 halvings reach the last bit.
    for _ in 0..200 {
        let level = 0.5 * (low + high);
        if level <= low || level >= high {
            break;
        }
        if excess_area(done, &next, level) > 0.0 {
            low = level;
        } else {
            high = level;
        }
    }
    let level = 0.5 * (low + high);
    let to = if level >= next.high { next.to } else { next.first_at(level) };
    let mut from = next.from;
    while let Some(last) = done.pop() {
        if last.low < level {
            from = last.last_at(level).min(last.to);
            if from > last.from {
                done.push(Piece { to: from, high: last.at(from).min(level), ..last });
            }
            break;
        }
        from = last.from;
    }
    done.push(Piece { from, to, low: level, high: level });
    if to < next.to {
        done.push(Piece { from: to, low: level.max(next.at(to)), ..next });
    }
}

fn excess_area(done: &[Piece], next: &Piece, level: f64) -> f64 {
    let mut area = 0.0;
    for piece in done.iter().rev() {
        if piece.high <= level {
            break;
        }
        let from = piece.first_at(level);
        area += piece.area(piece.to) - piece.area(from) - level * (piece.to - from);
    }
    let to = if level >= next.high { next.to } else { next.first_at(level) };
    area + next.area(to) - level * (to - next.from)
}

/// The marginal of `u * delay(u)` up to `end`, piece by piece, before any convexity.
fn own_pieces(curve: &Curve, end: f64) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(curve.points.len());
    let count = curve.points.len();
    if count < 2 {
        return vec![Piece { from: 0.0, to: end, low: 0.0, high: 0.0 }];
    }
    for (index, pair) in curve.points.windows(2).enumerate() {
        let ((u0, d0), (u1, d1)) = (pair[0], pair[1]);
        if u0 >= end {
            break;
        }
        let slope = (d1 - d0) / (u1 - u0);
        let to = if index + 2 == count { end } else { u1.min(end) };
        let high = d0 + slope * (to - u0) + to * slope;
        pieces.push(Piece { from: u0, to, low: d0 + u0 * slope, high });
    }
    pieces
}
