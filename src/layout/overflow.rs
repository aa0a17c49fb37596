//! Regions that are too small for their sections, and what a link says of them.
//!
//! Most often all sections behind the first one that does not fit are outside, too. So a region is reported
//! once, with the first of them, and with the others' names.

use crate::chunks::memory::Region;
use crate::diag::{Code, Diagnostic};
use crate::ids::RegionId;
use crate::plan::LayoutPlan;
use crate::script::Span;

/// Sections behind the first one that a message names.
const NAMED: usize = 8;

/// The regions that turned out too small in a run.
#[derive(Default)]
pub struct Overflows(Vec<Overflow>);

struct Overflow {
    region: RegionId,
    /// The bytes behind the region's end.
    bytes: u64,
    /// Where the script puts the first section that does not fit into the region.
    span: Span,
    /// Says where that one ends.
    first: String,
    /// The names of the other ones.
    others: Vec<String>,
}

impl Overflows {
    /// Adds a section that ends at `end`, `over` bytes behind the region's end.
    pub fn add(&mut self, region: RegionId, name: &str, span: Span, (end, over): (u64, u64)) {
        if let Some(overflow) = self.0.iter_mut().find(|overflow| overflow.region == region) {
            overflow.bytes = overflow.bytes.max(over);
            overflow.others.push(format!("`{name}`"));
            return;
        }
        let first = format!(
            "output section `{name}` is the first that does not fit: it ends at {end:#x}, {over} bytes ({over:#x}) \
             behind the region's end",
        );
        self.0.push(Overflow { region, bytes: over, span, first, others: Vec::new() });
    }

    /// What there is to say. Nothing is left then.
    pub fn take(&mut self, plan: &LayoutPlan, regions: &[Region]) -> Vec<Diagnostic> {
        let overflows = std::mem::take(&mut self.0).into_iter();
        overflows.filter_map(|overflow| overflow.finding(plan, regions)).collect()
    }
}

impl Overflow {
    fn finding(self, plan: &LayoutPlan, regions: &[Region]) -> Option<Diagnostic> {
        let Overflow { region, bytes, span, first, others } = self;
        let name = plan.memory[region.declaration()?].name.text();
        let length = regions[region.index()].length;
        // Build systems look for these words of GNU ld.
        let message = format!("region `{name}' overflowed by {bytes} bytes ({bytes:#x})");
        let finding = Diagnostic::error(Code::LayoutError, message)
            .at(plan.sources.location(span))
            .ordered(span.file, 0, span.start.into())
            .note(first)
            .help(format!(
                "the region's LENGTH is {length} ({length:#x}); --print-memory-usage shows what all regions hold, and \
                 -Map=FILE what each section holds"
            ));
        if others.is_empty() {
            return Some(finding);
        }
        let named = others[..others.len().min(NAMED)].join(", ");
        Some(finding.note(match others.len().saturating_sub(NAMED) {
            0 => format!("also outside: {named}"),
            more => format!("also outside: {named} and {more} more"),
        }))
    }
}
