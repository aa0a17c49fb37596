//! The phase that knows everything before the file is written: every address, and the plan of the symbol
//! table.
//!
//! `lay_out` makes it as a whole, once no address changes any more. Passes that write only read it.

use super::{Arranged, builds_on};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::{RuleId, SectionId};
use crate::input::ObjectFile;
use crate::plan::LayoutPlan;
use crate::sframe::collect::Ordered;
use crate::tables::symtab_plan::SymtabPlan;

/// The output with all its addresses.
pub struct Placed<'a, T: Target> {
    /// The phase before: the sections of the output.
    pub arranged: Arranged<'a, T>,
    /// The plan of scripts and options, with added rules for orphans.
    pub plan: LayoutPlan,
    /// The rule of [`Placed::plan`] that takes each section, by [`crate::ids::SectionId`]; `None` for
    /// sections outside the layout.
    pub rules: Vec<Option<RuleId>>,
    /// The part of each file in the output's symbol table.
    pub symtab: SymtabPlan,
    /// The order of the SFrame table's functions.
    pub frame_order: Ordered,
    /// `e_entry`.
    pub entry_address: u64,
    /// Instructions that mark where indirect branches may land, and that no such branch needs: section and
    /// offset, sorted. `find_unused_pads` adds them, for `-z rewrite-endbr`.
    pub unused_pads: Vec<(SectionId, u64)>,
}

builds_on!(['a, T: Target] Placed<'a, T>, arranged: Arranged<'a, T>);

impl<T: Target> Placed<'_, T> {
    /// `EI_OSABI`. FreeBSD starts a program if this names FreeBSD, and some of its objects ask for that.
    pub fn os_abi(&self) -> u8 {
        let is_of_freebsd = |object: &ObjectFile<'_, T::E>| object.os_abi() == elf::ELFOSABI_FREEBSD;
        if self.config.freebsd || self.objects.iter().any(is_of_freebsd) {
            elf::ELFOSABI_FREEBSD
        } else if self.uses_gnu_extensions() {
            elf::ELFOSABI_GNU
        } else {
            elf::ELFOSABI_NONE
        }
    }

    /// Whether the output uses extensions of `ELFOSABI_GNU`: indirect functions, unique symbols and, under
    /// `-r`, retained sections.
    fn uses_gnu_extensions(&self) -> bool {
        self.symtab.has_gnu_symbols
            || (self.config.is_relocatable()
                && self.layout.chunks.iter().any(|chunk| chunk.flags & elf::SHF_GNU_RETAIN != 0))
    }
}
