//! The profile that compilers leave in objects: how often functions call each other (LLVM's
//! `.llvm.call-graph-profile`, `SHT_LLVM_CALL_GRAPH_PROFILE`).
//!
//! The section holds a count of 8 bytes for each edge. Two relocations for each edge name the caller and the
//! called function. They relocate nothing.

use super::object::{Malformed, ObjectFile};
use crate::elf::{Shdr, whole_table};
use zerocopy::byteorder::{ByteOrder, U64};

/// `SHT_LLVM_CALL_GRAPH_PROFILE`. The crate with the other constants lacks it.
pub const SHT_LLVM_CALL_GRAPH_PROFILE: u32 = 0x6fff_4c09;

/// Whether a section is a call graph profile.
#[inline]
pub fn is_profile<E: ByteOrder>(header: &Shdr<E>) -> bool {
    header.sh_type.get() == SHT_LLVM_CALL_GRAPH_PROFILE
}

/// An edge of the graph: the symbol indices of the caller and the called function, and how often the call was
/// made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The symbol of the caller.
    pub from: u32,
    /// The symbol of the called function.
    pub to: u32,
    /// How many calls there were.
    pub weight: u64,
}

/// The edges of an object's profile. There are none if it has no profile.
///
/// # Errors
/// The section is outside of its file, or does not have two relocations for each count.
pub fn edges<E: ByteOrder>(object: &ObjectFile<'_, E>) -> Result<Vec<Edge>, Malformed> {
    if object.profile == 0 {
        return Ok(Vec::new());
    }
    let index = object.profile as usize;
    let counts: &[U64<E>] = whole_table(object.section_bytes(index)?);
    let relocations = object.relocations(index);
    if relocations.len() != 2 * counts.len() {
        let what = format!(
            "{} has {} counts and {} relocations, expected two for each count",
            object.section_name_lossy(index),
            counts.len(),
            relocations.len()
        );
        return Err(Malformed::at(object.headers[index].sh_offset.get(), what));
    }
    let edge = |(count, ends): (&U64<E>, &[crate::elf::Rela<E>])| Edge {
        from: ends[0].symbol(),
        to: ends[1].symbol(),
        weight: count.get(),
    };
    Ok(counts.iter().zip(relocations.chunks_exact(2)).map(edge).collect())
}
