//! The phase that knows all output sections and their order, including those of `-r` for relocations and
//! groups.
//!
//! The layout makes it when no address changes any more. The output's symbol table is planned from it.

use super::{Located, builds_on};
use crate::arch::Target;
use crate::ids::{ChunkId, FileId, SymbolId};
use crate::sframe::collect::Chosen;
use crate::tables::pools::Thunks;
use crate::tables::section::SyntheticSymbol;

/// The sections of the output, and what the layout made on its way.
pub struct Arranged<'a, T: Target> {
    /// The phase before: addresses of sections and symbols.
    pub located: Located<'a, T>,
    /// Thunks between branches and targets out of their reach.
    pub thunks: Thunks,
    /// The functions of the SFrame table, including thunks.
    pub chosen: Chosen,
    /// Local symbols in the linker's own sections.
    pub local_symbols: Vec<SyntheticSymbol<'a>>,
    /// The relocation tables of the output (`-r`, `--emit-relocs`), one for each output section that needs
    /// one.
    pub output_relocations: Vec<OutputRelocations>,
    /// The section groups of the output, in link order (`-r`).
    pub output_groups: Vec<OutputGroup>,
    /// Globals that relocations or groups of the output name, ascending. Needed if `--retain-symbols-file`
    /// does not list all symbols that stay: [`crate::synth::references::globals`].
    pub named_globals: Vec<SymbolId>,
}

builds_on!(['a, T: Target] Arranged<'a, T>, located: Located<'a, T>);

/// The relocations of one output section.
#[derive(Clone, Debug)]
pub struct OutputRelocations {
    /// The output section that they apply to.
    pub target: ChunkId,
    /// Number of relocations of each section in `target` ([`crate::chunks::Chunk::items`]), in their order.
    pub counts: Vec<u32>,
    /// Whether the output table is `SHT_REL`, because all relocations come from `SHT_REL` sections.
    pub implicit: bool,
}

impl OutputRelocations {
    /// Number of relocations in the table.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }
}

/// A group of the output.
#[derive(Clone, Debug)]
pub struct OutputGroup {
    /// The object that it comes from.
    pub file: FileId,
    /// Section header index of the group in that object.
    pub section: u32,
    /// Index of the signature in that object's symbol table.
    pub signature: u32,
    /// Its first word: `GRP_COMDAT` or 0.
    pub flags: u32,
    /// The output sections of its members, each once.
    pub members: Vec<ChunkId>,
}

impl OutputGroup {
    /// Size in bytes: the flag word and a word for each member.
    pub fn size(&self) -> u64 {
        4 + 4 * self.members.len() as u64
    }
}

impl<T: Target> Arranged<'_, T> {
    /// Whether a global that has a place in the symbol table stays there. `--retain-symbols-file` keeps the
    /// globals that it lists, and those that the output's relocations and groups name.
    pub fn keeps_name(&self, id: SymbolId) -> bool {
        self.retains(self.globals.names[id.index()]) || self.named_globals.binary_search(&id).is_ok()
    }

    /// Whether `--retain-symbols-file` is not given, or lists the name.
    pub fn retains(&self, name: &[u8]) -> bool {
        self.lists.retained.as_ref().is_none_or(|names| names.contains(name))
    }
}
