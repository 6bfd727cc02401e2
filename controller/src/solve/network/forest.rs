//! The basis: a forest over groups and supplies whose arcs are the pairs in use.
//!
//! A component is a tree, or a tree with one arc more (`extra`, at its root) that closes a cycle whose gains do not
//! multiply to 1. Potentials are prices: of load at a group, of demand at a supply. They agree with the cost of every
//! basic arc: `potential(supply) = cost + gain x potential(group)`. Groups are nodes `0..groups`, supplies follow.
use super::sink::index;

pub(super) const NONE: u32 = u32::MAX;

/// Gains whose product round a cycle is this close to 1 cancel but for rounding.
const UNIT_CYCLE: f64 = 1e-9;

/// A pair in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct BasicArc {
    /// Position in the rows.
    pub(super) position: u32,
    pub(super) side: Side,
    pub(super) flow: f64,
    /// Cost of a unit of flow, ms.
    pub(super) cost: f64,
    /// Load at the group for a unit of flow.
    pub(super) gain: f64,
    /// The published rate at which the cost bends; without meaning on a plain arc.
    pub(super) bend: f64,
}

/// Which stretch of an arc's cost its flow is on: one with a published rate costs less below it and more above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Plain,
    Below,
    Above,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    first: u32,
    next: u32,
    previous: u32,
    depth: u32,
    /// Root of the component.
    root: u32,
    /// The arc to the parent; without meaning at a root.
    arc: BasicArc,
}

/// The arc that closes the cycle of a component, from its root to another node of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    pub(super) to: u32,
    pub(super) arc: BasicArc,
}

#[derive(Debug)]
pub(super) struct Forest {
    groups: u32,
    nodes: Vec<Node>,
    pub(super) potentials: Vec<f64>,
    extras: Vec<(u32, Extra)>,
    /// Nodes of the component, at its root.
    sizes: Vec<u32>,
    stack: Vec<u32>,
}

const NO_ARC: BasicArc =
    BasicArc { position: NONE, side: Side::Plain, flow: 0.0, cost: 0.0, gain: 1.0, bend: 0.0 };

impl Forest {
    /// Every node by itself.
    pub(super) fn new(groups: usize, potentials: Vec<f64>) -> Self {
        let count = potentials.len();
        let alone = |node| Node {
            parent: NONE,
            first: NONE,
            next: NONE,
            previous: NONE,
            depth: 0,
            root: node,
            arc: NO_ARC,
        };
        Self {
            groups: index(groups),
            nodes: (0..index(count)).map(alone).collect(),
            potentials,
            extras: Vec::new(),
            sizes: vec![1; count],
            stack: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        index(self.nodes.len())
    }

    pub(super) fn is_group(&self, node: u32) -> bool {
        node < self.groups
    }

    pub(super) fn supply_node(&self, supply: usize) -> u32 {
        self.groups + index(supply)
    }

    /// Position among the supplies of a node that is one.
    pub(super) fn supply_of(&self, node: u32) -> usize {
        (node - self.groups) as usize
    }

    pub(super) fn root(&self, node: u32) -> u32 {
        self.nodes[node as usize].root
    }

    pub(super) fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].parent
    }

    pub(super) fn depth(&self, node: u32) -> u32 {
        self.nodes[node as usize].depth
    }

    pub(super) fn arc(&self, node: u32) -> &BasicArc {
        &self.nodes[node as usize].arc
    }

    pub(super) fn arc_mut(&mut self, node: u32) -> &mut BasicArc {
        &mut self.nodes[node as usize].arc
    }

    pub(super) fn extra(&self, root: u32) -> Option<&Extra> {
        self.extras.iter().find(|(owner, _)| *owner == root).map(|(_, extra)| extra)
    }

    /// Every closing arc with the root that it belongs to.
    pub(super) fn extras(&self) -> &[(u32, Extra)] {
        &self.extras
    }

    pub(super) fn extra_mut(&mut self, root: u32) -> Option<&mut Extra> {
        self.extras.iter_mut().find(|(owner, _)| *owner == root).map(|(_, extra)| extra)
    }

    /// The ends of the arc between a node and its parent: `(supply, group)`.
    pub(super) fn ends(&self, node: u32) -> (u32, u32) {
        let parent = self.parent(node);
        if self.is_group(node) { (parent, node) } else { (node, parent) }
    }

    pub(super) fn is_alone(&self, node: u32) -> bool {
        let node = &self.nodes[node as usize];
        node.parent == NONE && node.first == NONE
    }

    /// Factor from a change of the parent's potential to the child's.
    pub(super) fn factor(&self, child: u32) -> f64 {
        let gain = self.arc(child).gain;
        if self.is_group(child) { 1.0 / gain } else { gain }
    }

    /// Load that the arcs of a root group bring to it.
    pub(super) fn inflow(&self, root: u32) -> f64 {
        let mut sum = 0.0;
        let mut child = self.nodes[root as usize].first;
        while child != NONE {
            let node = &self.nodes[child as usize];
            sum += node.arc.flow * node.arc.gain;
            child = node.next;
        }
        sum
    }

    /// Sets a node's potential from its parent's.
    pub(super) fn follow_parent(&mut self, node: u32) {
        let Node { parent, arc, .. } = self.nodes[node as usize];
        let above = self.potentials[parent as usize];
        self.potentials[node as usize] =
            if self.is_group(node) { (above - arc.cost) / arc.gain } else { arc.cost + arc.gain * above };
    }

    /// Whether the arc at `position` between two nodes is basic.
    pub(super) fn holds(&self, supply: u32, group: u32, position: u32) -> bool {
        let between = |child: u32, parent: u32| {
            let node = &self.nodes[child as usize];
            node.parent == parent && node.arc.position == position
        };
        between(supply, group)
            || between(group, supply)
            || (!self.extras.is_empty()
                && self.extra(self.root(supply)).is_some_and(|extra| extra.arc.position == position))
    }

    /// The nodes of a component, parents before children.
    pub(super) fn preorder(&self, root: u32, order: &mut Vec<u32>) {
        order.clear();
        order.push(root);
        let mut at = 0;
        while at < order.len() {
            let mut child = self.nodes[order[at] as usize].first;
            while child != NONE {
                order.push(child);
                child = self.nodes[child as usize].next;
            }
            at += 1;
        }
    }

    /// Joins two components by `arc` between the nodes `ends` (supply, group). At most one of them may have a cycle.
    /// The potentials of the one that hangs below follow the other's. Returns the root of the whole.
    pub(super) fn join(&mut self, ends: (u32, u32), arc: BasicArc) -> u32 {
        let (supply, group) = ends;
        let (one, other) = (self.root(supply), self.root(group));
        let one_has_cycle = self.extra(one).is_some();
        let other_has_cycle = self.extra(other).is_some();
        debug_assert!(!(one_has_cycle && other_has_cycle), "two cycles in a component");
        let hang_supply = if one_has_cycle || other_has_cycle {
            other_has_cycle
        } else {
            self.sizes[one as usize] <= self.sizes[other as usize]
        };
        let (child, parent) = if hang_supply { (supply, group) } else { (group, supply) };
        let (below, top) = (self.root(child), self.root(parent));
        self.sizes[top as usize] += self.sizes[below as usize];
        self.reroot(child);
        self.hang(child, parent, arc);
        self.settle(child);
        top
    }

    /// Makes the tree below `node` a component of its own, and returns the root of the tree that is left without a
    /// cycle by the cut: `node`, or the root of the whole if the cut opened its cycle.
    pub(super) fn cut(&mut self, node: u32) -> u32 {
        let root = self.root(node);
        self.unlink(node);
        self.nodes[node as usize].parent = NONE;
        self.nodes[node as usize].arc = NO_ARC;
        self.relabel(node);
        self.sizes[root as usize] -= self.sizes[node as usize];
        let Some(&Extra { to, arc }) = self.extra(root) else { return node };
        if self.root(to) != node {
            return node;
        }
        // The cycle ran through the cut: its closing arc now holds the two parts together.
        self.extras.retain(|(owner, _)| *owner != root);
        self.sizes[root as usize] += self.sizes[node as usize];
        self.reroot(to);
        self.hang(to, root, arc);
        self.settle(to);
        root
    }

    /// Removes the arc that closes the cycle of a component.
    pub(super) fn open(&mut self, root: u32) {
        self.extras.retain(|(owner, _)| *owner != root);
    }

    /// Whether `node` is in the tree below `top`, or `top` itself.
    pub(super) fn is_below(&self, node: u32, top: u32) -> bool {
        let mut at = node;
        while self.depth(at) > self.depth(top) {
            at = self.parent(at);
        }
        at == top
    }

    /// Makes a node of a tree its root; potentials stay.
    pub(super) fn make_root(&mut self, node: u32) {
        if self.root(node) != node {
            self.reroot(node);
            self.nodes[node as usize].arc = NO_ARC;
            self.relabel(node);
        }
    }

    /// Adds an arc within a tree, whose gains do not cancel round the cycle, and moves all potentials to agree.
    pub(super) fn close(&mut self, ends: (u32, u32), arc: BasicArc) -> u32 {
        let (supply, group) = ends;
        self.make_root(supply);
        self.extras.push((supply, Extra { to: group, arc }));
        self.reprice(supply);
        supply
    }

    /// Moves the tree below the leaving arc's child `leaves` to hang by `arc` from `parent` through `child`, which is in
    /// it. The component stays one.
    pub(super) fn rehang(&mut self, leaves: u32, child: u32, parent: u32, arc: BasicArc) {
        self.unlink(leaves);
        self.nodes[leaves as usize].parent = NONE;
        self.reroot(child);
        self.hang(child, parent, arc);
        self.settle(child);
    }

    /// Potentials of a whole component from its root: with a cycle they are determined, otherwise the root keeps its own.
    pub(super) fn reprice(&mut self, root: u32) {
        if let Some(&Extra { to, arc }) = self.extra(root) {
            // Potential of `to` as `constant + slope x potential(root)`, then the closing arc's equation.
            let mut path = Vec::new();
            let mut at = to;
            while at != root {
                path.push(at);
                at = self.parent(at);
            }
            let (mut constant, mut slope) = (0.0, 1.0);
            for &node in path.iter().rev() {
                let BasicArc { cost, gain, .. } = *self.arc(node);
                if self.is_group(node) {
                    (constant, slope) = ((constant - cost) / gain, slope / gain);
                } else {
                    (constant, slope) = (cost + gain * constant, gain * slope);
                }
            }
            self.potentials[root as usize] = if self.is_group(root) {
                // constant + slope p = cost + gain p
                (constant - arc.cost) / (arc.gain - slope)
            } else {
                (arc.cost + arc.gain * constant) / (1.0 - arc.gain * slope)
            };
        }
        let mut child = self.nodes[root as usize].first;
        while child != NONE {
            self.settle(child);
            child = self.nodes[child as usize].next;
        }
    }

    /// Product of the gains round the cycle that an arc of `gain` between `supply` and `group` of one tree would close,
    /// as seen from the supply; `None` where it is 1 but for rounding.
    pub(super) fn cycle_gain(&self, supply: u32, group: u32, gain: f64) -> Option<f64> {
        let mut product = gain;
        let (mut one, mut other) = (supply, group);
        while one != other {
            if self.depth(one) >= self.depth(other) {
                product /= self.factor(one);
                one = self.parent(one);
            } else {
                product *= self.factor(other);
                other = self.parent(other);
            }
        }
        ((product - 1.0).abs() > UNIT_CYCLE).then_some(product)
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.potentials.capacity() * 8 + self.sizes.capacity() * 4
    }

    fn hang(&mut self, node: u32, parent: u32, arc: BasicArc) {
        let first = self.nodes[parent as usize].first;
        let own = &mut self.nodes[node as usize];
        (own.parent, own.arc, own.next, own.previous) = (parent, arc, first, NONE);
        if first != NONE {
            self.nodes[first as usize].previous = node;
        }
        self.nodes[parent as usize].first = node;
    }

    fn unlink(&mut self, node: u32) {
        let Node { parent, next, previous, .. } = self.nodes[node as usize];
        if previous != NONE {
            self.nodes[previous as usize].next = next;
        } else if parent != NONE {
            self.nodes[parent as usize].first = next;
        }
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        let own = &mut self.nodes[node as usize];
        (own.next, own.previous) = (NONE, NONE);
    }

    /// Turns the arcs between `node` and the top of its tree round, so that `node` is the top. Depths, roots and
    /// potentials are left to [`Self::settle`].
    fn reroot(&mut self, node: u32) {
        let mut at = node;
        let (mut new_parent, mut new_arc) = (NONE, NO_ARC);
        loop {
            let Node { parent, arc, .. } = self.nodes[at as usize];
            if parent != NONE {
                self.unlink(at);
            }
            if new_parent == NONE {
                self.nodes[at as usize].parent = NONE;
            } else {
                self.hang(at, new_parent, new_arc);
            }
            if parent == NONE {
                break;
            }
            (new_parent, new_arc) = (at, arc);
            at = parent;
        }
    }

    /// Recomputes depth, root and potential of a tree from its top's parent.
    fn settle(&mut self, top: u32) {
        let mut stack = std::mem::take(&mut self.stack);
        stack.push(top);
        while let Some(node) = stack.pop() {
            let Node { parent, first, .. } = self.nodes[node as usize];
            let Node { depth, root, .. } = self.nodes[parent as usize];
            self.follow_parent(node);
            let own = &mut self.nodes[node as usize];
            (own.depth, own.root) = (depth + 1, root);
            let mut child = first;
            while child != NONE {
                stack.push(child);
                child = self.nodes[child as usize].next;
            }
        }
        self.stack = stack;
    }

    /// Makes `top` the root of all nodes below it, keeping their potentials, and counts them.
    fn relabel(&mut self, top: u32) {
        let mut stack = std::mem::take(&mut self.stack);
        let mut count = 0;
        self.nodes[top as usize].depth = 0;
        stack.push(top);
        while let Some(node) = stack.pop() {
            count += 1;
            let depth = self.nodes[node as usize].depth;
            self.nodes[node as usize].root = top;
            let mut child = self.nodes[node as usize].first;
            while child != NONE {
                self.nodes[child as usize].depth = depth + 1;
                stack.push(child);
                child = self.nodes[child as usize].next;
            }
        }
        self.sizes[top as usize] = count;
        self.stack = stack;
    }
}
