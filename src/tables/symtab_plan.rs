//! The plan of `.symtab`: a contiguous part of symbols and names for each file, so that any thread
//! can write any part.

use crate::ids::ChunkId;
use crate::tables::local_names::LocalNames;

/// The parts of the symbol table, with totals.
#[derive(Default, Debug)]
pub struct SymtabPlan {
    /// Output sections with a section symbol, in order.
    pub section_symbols: Vec<ChunkId>,
    /// Locals by file; the last part is that of symbols without a file.
    pub locals: Vec<Part>,
    /// Globals by file; the last part is that of symbols without a file.
    pub globals: Vec<Part>,
    /// Index of the first global.
    pub first_global: u32,
    /// Number of symbols.
    pub count: u32,
    /// Size of the string table in bytes.
    pub string_size: u64,
    /// Some symbol is an indirect function or unique, which only `ELFOSABI_GNU` has.
    pub has_gnu_symbols: bool,
    /// By [`SymbolId`](crate::ids::SymbolId): index in the output's table, 0 if it has none. Only
    /// where relocations are written (`-r`, `--emit-relocs`).
    pub index_of: Vec<u32>,
    /// Names of local symbols that differ from those in their objects.
    pub names: LocalNames,
    /// By chunk: index of its section symbol, 0 if it has none.
    pub section_symbol: Vec<u32>,
}

/// The part of one file.
#[derive(Clone, Copy, Default, Debug)]
pub struct Part {
    /// First symbol index.
    pub first: u32,
    /// Number of symbols.
    pub count: u32,
    /// First byte in the string table.
    pub string_start: u64,
    /// Bytes of names, NULs included.
    pub string_size: u64,
    /// Some symbol is an indirect function or unique.
    pub gnu: bool,
}
