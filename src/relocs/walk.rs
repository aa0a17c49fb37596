//! Walks the relocations of a loaded section, and decides about each.
//!
//! `scan_relocations` and `write_output` both use this walk. So they see the same facts, skip the same
//! relocations and get the same decisions, and the output has exactly the slots that it uses.

use crate::arch::relocation::{NextRelocation, SymbolFacts};
use crate::arch::{RelocExpr, RelocInfo, Site, Target};
use crate::decision::decide::{Action, decide, plain};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::{ObjectFile, SectionClass};
use crate::phase::Live;
use crate::phase::facts::{described, facts, is_folded, slot_facts};
use std::cell::OnceCell;

/// A section whose relocations are walked.
pub struct Walk<'w, 'a, T: Target> {
    link: &'w Live<'a, T>,
    /// Its id.
    pub section: SectionId,
    index: usize,
    /// Its object.
    pub object: &'w ObjectFile<'a, T::E>,
    /// Bytes of the input section. Decisions must not look at the output, which changes while it is written.
    pub bytes: &'a [u8],
    /// Whether the program may write to it.
    pub writable: bool,
    code: bool,
    /// Whether it is SFrame data, which describes functions and does not call them.
    pub is_sframe: bool,
    /// The result of [`Target::splits_loads`], computed at the first GOT relocation.
    splits_loads: OnceCell<bool>,
}

/// A relocation with its decision.
pub struct Decided<'r, T: Target> {
    /// Its type.
    pub info: &'static RelocInfo<T>,
    /// Offset in the input section, in bytes.
    pub offset: u64,
    /// Index of its symbol in the object.
    pub index: u32,
    /// The symbol.
    pub symbol: SymbolId,
    /// Addend.
    pub addend: i64,
    /// The facts that the decision rests on.
    pub facts: SymbolFacts,
    /// The decision.
    pub action: &'r Action<T>,
}

/// A relocation without a decision.
pub enum Undecided<'r, T: Target> {
    /// The machine does not know its type.
    UnknownType(&'r Rela<T::E>),
    /// Its field reaches outside the section.
    Outside(&'static RelocInfo<T>, &'r Rela<T::E>),
    /// The object has no such symbol.
    NoSymbol(&'static RelocInfo<T>, &'r Rela<T::E>),
    /// Its symbol is defined in a section that is not in the output. In SFrame data, it also stands for a
    /// function that was folded.
    Discarded(&'static RelocInfo<T>, &'r Rela<T::E>, SymbolId),
}

/// A visitor of a [`Walk`].
pub trait Visitor<T: Target> {
    /// Called for each relocation with a decision.
    fn decided(&mut self, relocation: Decided<'_, T>);
    /// Called for all other relocations, except those that compute nothing (`R_*_NONE`, markers).
    fn undecided(&mut self, relocation: Undecided<'_, T>);
}

impl<'w, 'a, T: Target> Walk<'w, 'a, T> {
    /// A walk over section `index` of an object.
    #[inline]
    pub fn new(link: &'w Live<'a, T>, object: &'w ObjectFile<'a, T::E>, index: usize) -> Self {
        let flags = object.headers[index].sh_flags.get();
        let section = object.section_id(index as u32);
        Walk {
            link,
            section,
            index,
            object,
            bytes: object.section_bytes(index).unwrap_or_default(),
            writable: flags & elf::SHF_WRITE != 0,
            code: flags & elf::SHF_EXECINSTR != 0,
            is_sframe: link.class_of(section).contains(SectionClass::SFRAME),
            splits_loads: OnceCell::new(),
        }
    }

    /// Visits these relocations of the section in their order. If an action takes the next relocation
    /// ([`Action::takes_next`]), the walk skips that one.
    #[inline]
    pub fn each(&self, relocations: &[Rela<T::E>], visitor: &mut impl Visitor<T>) {
        let mut position = 0;
        while let Some(relocation) = relocations.get(position) {
            let next = relocations.get(position + 1);
            position += 1 + usize::from(self.one(relocation, next, visitor));
        }
    }

    /// Visits one relocation. Returns whether its action takes the next one.
    #[inline]
    fn one(&self, relocation: &Rela<T::E>, next: Option<&Rela<T::E>>, visitor: &mut impl Visitor<T>) -> bool {
        let Some(info) = T::reloc_info(relocation.kind()) else {
            visitor.undecided(Undecided::UnknownType(relocation));
            return false;
        };
        if info.expr == RelocExpr::Nothing {
            return false;
        }
        let offset = relocation.r_offset.get();
        let end = offset.checked_add(info.size.into());
        if end.is_none_or(|end| end > self.bytes.len() as u64) {
            visitor.undecided(Undecided::Outside(info, relocation));
            return false;
        }
        let index = relocation.symbol();
        if index as usize >= self.object.symbols.len() && index != 0 {
            visitor.undecided(Undecided::NoSymbol(info, relocation));
            return false;
        }
        let symbol = self.object.symbol_id(index);
        let mut facts = facts(self.link, index, symbol);
        let dead_row = self.is_sframe && is_folded(self.link, self.object, index);
        if facts.contains(SymbolFacts::DISCARDED) || dead_row {
            visitor.undecided(Undecided::Discarded(info, relocation, symbol));
            return false;
        }
        if self.is_sframe {
            facts = described(self.link, symbol, facts);
        }
        if info.expr == RelocExpr::GotSlot {
            facts |= slot_facts(self.link, symbol, facts);
            let is_far = !self.link.far_loads.is_empty()
                && self.link.far_loads.binary_search(&(self.section, symbol)).is_ok();
            let must_load = is_far || self.link.tagged.has(symbol);
            let splits_loads = || T::splits_loads(self.object.relocations(self.index));
            if must_load || *self.splits_loads.get_or_init(splits_loads) {
                facts |= SymbolFacts::FAR;
            }
        }
        let addend = relocation.r_addend.get();
        if let Some(action) = &plain(info, facts) {
            visitor.decided(Decided { info, offset, index, symbol, addend, facts, action });
            return false;
        }
        let site = Site {
            facts,
            bytes: self.bytes,
            offset: offset as usize,
            symbol: index,
            addend,
            writable: self.writable,
            code: self.code,
            next: next.map(NextRelocation::of),
        };
        let action = decide(info, &site, &self.link.mode);
        visitor.decided(Decided { info, offset, index, symbol, addend, facts, action: &action });
        action.takes_next
    }
}
