//! The plan of `.symtab`. Each file has one part of the symbols and one of the names, without gaps, so that
//! any thread can write any part.

use crate::ids::ChunkId;
use crate::tables::local_names::LocalNames;

/// The parts of the symbol table, with totals.
#[derive(Default, Debug)]
pub struct SymtabPlan {
    /// Output sections with a section symbol, in order.
    pub section_symbols: Vec<ChunkId>,
    /// The parts of local symbols, by file. The last part has the symbols without a file.
    pub locals: Vec<Part>,
    /// The parts of globals, by file. The last part has the symbols without a file.
    pub globals: Vec<Part>,
    /// Index of the first global.
    pub first_global: u32,
    /// Number of symbols.
    pub count: u32,
    /// Size of the string table in bytes.
    pub string_size: u64,
    /// Whether some symbol is an indirect function or unique. Only `ELFOSABI_GNU` has these.
    pub has_gnu_symbols: bool,
    /// The index of each symbol in the output's table, by [`SymbolId`](crate::ids::SymbolId); 0 if it has
    /// none. Filled only if the link writes relocations (`-r`, `--emit-relocs`).
    pub index_of: Vec<u32>,
    /// The names of local symbols that differ from those in their objects.
    pub names: LocalNames,
    /// The index of each chunk's section symbol; 0 if it has none.
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
    /// The bytes of the names, including NULs.
    pub string_size: u64,
    /// Whether some symbol is an indirect function or unique.
    pub gnu: bool,
}
