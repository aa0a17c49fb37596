//! The functions that SFrame inputs describe. `--icf` compares these descriptions, too.
//!
//! An assembler puts the rows of all functions of a file into one section, so no single function owns it as a
//! dependent. When a function is folded, its rows are dropped, and a stack walker finds those of the leader.
//! So both must say the same.

use crate::arch::Target;
use crate::cli::{SFrameFromEhFrame, SFrameMode};
use crate::ids::SectionId;
use crate::phase::{Bound, SectionStates};
use crate::sframe::collect::{Batch, Place, Role};
use crate::sframe::read;
use std::hash::Hash;

/// Functions by place.
pub(super) struct FunctionsByPlace<'d> {
    batches: &'d [Batch],
    functions: Vec<Function>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    place: Place,
    /// Size in bytes.
    size: u32,
    batch: u32,
    /// Its number in the batch.
    number: u32,
}

/// Reads the SFrame inputs, unless the link has read them for its own table.
pub(super) fn read<T: Target>(link: &Bound<'_, T>, sections: &SectionStates) -> Vec<Batch> {
    let sframe = &link.config.sframe;
    let are_dropped =
        sframe.mode == SFrameMode::Discard || sframe.from_eh_frame == Some(SFrameFromEhFrame::All);
    let are_read = link.described.batches.iter().any(|batch| batch.role == Role::Written);
    if are_dropped || are_read { Vec::new() } else { read::inputs(link, sections, Role::Written).0 }
}

impl<'d> FunctionsByPlace<'d> {
    /// The functions of these batches. If there are none, those that the link has read.
    pub(super) fn new<T: Target>(link: &'d Bound<'_, T>, read: &'d [Batch]) -> Self {
        let batches = if read.is_empty() { &link.described.batches } else { read };
        let mut functions = Vec::new();
        for (batch, read) in (0..).zip(batches).filter(|(_, batch)| batch.role == Role::Written) {
            let all = read.shares().flat_map(|share| share.functions);
            functions.extend((0..).zip(all).map(|(number, described)| Function {
                place: described.place,
                size: described.size,
                batch,
                number,
            }));
        }
        functions.sort_unstable();
        FunctionsByPlace { batches, functions }
    }

    /// The functions in a section, in the order of their offsets: offset, size, attributes and rows.
    pub(super) fn of(
        &self,
        section: SectionId,
    ) -> impl Iterator<Item = (u64, u32, impl Eq + Hash + use<'d>)> {
        let first = self.functions.partition_point(|function| function.place.section < section);
        let inside = self.functions[first..].iter().take_while(move |it| it.place.section == section);
        inside.map(|it| {
            let unwinding = self.batches[it.batch as usize].unwinding(it.number);
            (it.place.offset, it.size, unwinding)
        })
    }
}
