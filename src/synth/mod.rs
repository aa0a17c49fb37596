//! Sections that the linker makes.
//!
//! A synthetic section is a section like any other: it has a [`SectionId`], a name, type and
//! flags, it is matched by the script (as a section of the file `<internal>`) and laid out. It
//! exists from `create_synthetics` on, if it may be needed; its size is settled by
//! `build_synthetics`; empty ones are dropped; its bytes are written by `write_output`.

pub mod attributes;
pub mod copy;
pub mod dynamic;
pub mod dynamic_tables;
pub mod dynstr;
pub mod dynsym;
pub mod eh_frame;
pub mod eh_frame_hdr;
pub mod gnu_hash;
pub mod got;
pub mod groups;
pub mod hash;
pub mod merged;
pub mod notes;
pub mod plt;
pub mod property_note;
pub mod rela_output;
pub mod reldyn;
pub mod relr;
pub mod section;
pub mod section_names;
pub mod symbol_versions;
pub mod symtab;
pub mod thunks;
mod write;

pub use section::{Kind, SyntheticSection, SyntheticSymbol};
pub use write::write;

use crate::ids::SymbolId;

/// What one symbol has in the tables for the dynamic linker. Slot numbers count from 0 in their
/// own table; `u32::MAX`: none.
#[derive(Clone, Copy, Debug)]
pub struct DynamicRow {
    /// The symbol.
    pub symbol: SymbolId,
    /// First word in `.got` with its address.
    pub got: u32,
    /// Word in `.got` with its offset from the thread pointer.
    pub got_tp: u32,
    /// First of two words in `.got` for `__tls_get_addr`.
    pub tls_gd: u32,
    /// First of two words in `.got` of the TLS descriptor.
    pub tls_desc: u32,
    /// Entry of `.plt` (and word of `.got.plt` after the reserved ones).
    pub plt: u32,
    /// Entry of `.plt.got`.
    pub plt_got: u32,
    /// Word in `.got` with the result of the symbol's resolver, for an `STT_GNU_IFUNC` of this
    /// output. The same word as `got` unless the PLT entry is the function's address.
    pub resolved: u32,
    /// Row in `.dynsym`.
    pub dynsym: u32,
    /// Row of [`crate::relocs::Relocations::copies`]; meaningful with `NEEDS_COPY`.
    pub copy: u32,
}

impl DynamicRow {
    /// A row with nothing in it.
    pub fn new(symbol: SymbolId) -> Self {
        let none = u32::MAX;
        DynamicRow {
            symbol,
            got: none,
            got_tp: none,
            tls_gd: none,
            tls_desc: none,
            plt: none,
            plt_got: none,
            resolved: none,
            dynsym: none,
            copy: none,
        }
    }
}

/// All synthetic sections with their sizes, and the tables that their contents come from.
#[derive(Default)]
pub struct Synthetics<'a> {
    /// Rows; section `first_internal + n` is row `n`. Those of [`crate::phase::Made::synthetic`] come
    /// first.
    pub sections: Vec<SyntheticSection<'a>>,
    /// Symbols with GOT, PLT or dynamic symbol entries.
    pub rows: Vec<DynamicRow>,
    /// Relocations that are written, by output section. Filled by `create_relocatable`.
    pub output_relocations: Vec<rela_output::OutputRelocations>,
    /// Functions that lazy binding must leave alone ([`crate::arch::Target::VARIANT_CALLS`]), in
    /// order. Filled by `build_synthetics`.
    pub variants: Vec<SymbolId>,
    /// Local symbols in the linker's own sections. Filled when the layout has come to rest.
    pub symbols: Vec<SyntheticSymbol<'a>>,
    /// Groups that are written, in link order. Filled by `create_relocatable`.
    pub output_groups: Vec<groups::OutputGroup>,
}

impl<'a> Synthetics<'a> {
    /// Row `index`.
    #[inline]
    pub fn section(&self, index: u32) -> &SyntheticSection<'a> {
        &self.sections[index as usize]
    }

    /// The first section of a kind, as a row.
    pub fn find(&self, kind: Kind) -> Option<u32> {
        self.sections.iter().position(|section| section.kind == kind).map(|row| row as u32)
    }
}

/// Sizes of the tables that describe the output itself (symbols, section names). Called by the
/// layout once output sections have their header indices.
pub fn size_tables<T: crate::arch::Target>(link: &mut crate::link::Link<'_, T>) {
    link.section_names = section_names::SectionNames::new(&link.layout.chunks);
    link.symtab = symtab::plan(link);
    let headers = link.layout.chunks.iter().map(|chunk| chunk.header_index).max().unwrap_or(0) as usize + 1;
    let (symbols, strings, extended) = symtab::sizes::<T>(&link.symtab, headers);
    let names = link.section_names.bytes.len() as u64;
    for section in &mut link.synthetics.sections {
        section.size = match section.kind {
            Kind::SymTab => symbols,
            Kind::StrTab => strings,
            Kind::SymTabShndx => extended,
            Kind::ShStrTab => names,
            _ => continue,
        };
    }
}

/// Sizes that depend on addresses. Gives whether any changed; they may only grow.
pub fn update_sizes<T: crate::arch::Target>(link: &mut crate::link::Link<'_, T>) -> bool {
    // Both are asked each time.
    relr::update_size(link) | crate::sframe::thunks::update_size(link)
}
