//! Finds the symbols that a script assigns by way of themselves, as `a = a + 4` does.
//!
//! If an object defines such a symbol, its value before the assignment is the object's. If it were the value
//! of the round before, it would grow by 4 in every round, and the layout would never come to rest.
//!
//! The pass builds a graph of symbols in which each one points at the symbols that its assignments name, and
//! takes away what is free of circles. Addresses and sizes are one node of the graph: each expression that
//! asks for any of them depends on it, and it depends on all symbols that other expressions name.

use crate::plan::LayoutPlan;
use crate::script::expr::{Expr, ExprKind};
use hashbrown::HashMap;

/// The node for addresses and sizes.
const LAYOUT: u32 = 0;

/// The graph: which nodes need which.
struct Graph {
    /// For each node, the nodes that need it.
    needed_by: Vec<Vec<u32>>,
    /// For each node, the number of nodes that it needs and that may still be part of a circle.
    open: Vec<u32>,
}

impl Graph {
    fn need(&mut self, node: u32, other: u32) {
        self.needed_by[other as usize].push(node);
        self.open[node as usize] += 1;
    }

    /// Takes away nodes that need nothing, until each node that is left needs a circle.
    fn peel(&mut self) {
        let needs_nothing = |(node, &open): (u32, &u32)| (open == 0).then_some(node);
        let mut free: Vec<u32> = (0..).zip(&self.open).filter_map(needs_nothing).collect();
        while let Some(node) = free.pop() {
            for &next in &self.needed_by[node as usize] {
                let open = &mut self.open[next as usize];
                *open -= 1;
                if *open == 0 {
                    free.push(next);
                }
            }
        }
    }
}

/// For each of these names, whether its assignments lead back to it, or to a circle on which they depend.
pub fn need_themselves(plan: &LayoutPlan, names: &[&[u8]]) -> Vec<bool> {
    let rows: HashMap<&[u8], u32> = names.iter().copied().zip(LAYOUT + 1..).collect();
    let nodes = names.len() + 1;
    let mut graph = Graph { needed_by: vec![Vec::new(); nodes], open: vec![0; nodes] };
    plan.for_each_placed_assignment(&mut |assignment, _| {
        let node = if assignment.is_to_dot() { Some(&LAYOUT) } else { rows.get(&*assignment.target.bytes) };
        let Some(&node) = node else { return };
        for_each_need(&assignment.value, &rows, &mut |need| {
            // `. = ALIGN(8)` and similar assignments ask only for addresses before them.
            if node != LAYOUT || need != LAYOUT {
                graph.need(node, need);
            }
        });
    });
    plan.for_each_other_expression(&mut |expr| {
        expr.for_each_symbol(&mut |name| {
            if let Some(&need) = rows.get(&*name.bytes) {
                graph.need(LAYOUT, need);
            }
        });
    });
    graph.peel();
    graph.open[1..].iter().map(|open| *open > 0).collect()
}

/// Visits the nodes that an expression depends on, some more than once. A symbol that the script does not
/// assign has an address.
fn for_each_need(expr: &Expr, rows: &HashMap<&[u8], u32>, visit: &mut dyn FnMut(u32)) {
    match &expr.kind {
        ExprKind::Symbol(name) => visit(rows.get(&*name.bytes).copied().unwrap_or(LAYOUT)),
        ExprKind::Dot
        | ExprKind::Addr(_)
        | ExprKind::LoadAddr(_)
        | ExprKind::SizeOf(_)
        | ExprKind::AlignOf(_)
        | ExprKind::Align { value: None, .. }
        | ExprKind::Next(_)
        | ExprKind::DataSegmentAlign(..)
        | ExprKind::DataSegmentRelroEnd(..)
        | ExprKind::DataSegmentEnd(_)
        | ExprKind::SizeOfHeaders => visit(LAYOUT),
        _ => {}
    }
    expr.operands().for_each(|operand| for_each_need(operand, rows, visit));
}
