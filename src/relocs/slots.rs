//! Words of the GOT: the content of each word, and its dynamic relocation.
//!
//! [`for_each_word`] is the only definition. Contents, relocations and their number all come from it, so they
//! cannot disagree. It needs no addresses; [`number`] computes a content once addresses are known.

use super::address::{self, from_thread_pointer, in_tls_block, value};
use crate::arch::Target;
use crate::arch::target::SignedRelocations;
use crate::cli::Config;
use crate::ids::{Slot, SymbolId};
use crate::phase::{DynamicRow, Live, Located, Numbered, SectionState};
use crate::symbols::SymbolFlags;
use crate::tables::section::Kind;

/// One word of `.got`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its number, counted from the start of `.got`.
    pub index: Slot,
    /// Its content, in terms of the row's symbol.
    pub content: Content,
    /// Its dynamic relocation, if it has one.
    pub relocation: Option<WordRelocation>,
}

/// What a word of the GOT holds, written by the linker or by the dynamic linker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// 0. The dynamic linker computes the word without an addend.
    Nothing,
    /// 1, the number of the program itself as a module.
    OwnModule,
    /// The address of the symbol.
    Address,
    /// The address of its PLT entry.
    PltEntry,
    /// Its offset in the TLS block of this module.
    BlockOffset,
    /// Its offset from the thread pointer.
    ThreadOffset,
    /// This number, whatever the symbol is.
    Number(u64),
}

/// A dynamic relocation of a GOT word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRelocation {
    /// Its type (`R_*`).
    pub kind: u32,
    /// The symbol that the dynamic linker looks up. `None`: the addend is the word's content.
    pub symbol: Option<SymbolId>,
    /// What the linker writes into the word.
    pub before: Before,
}

/// What a word holds until the dynamic linker relocates it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// 0.
    Nothing,
    /// The content.
    Content,
    /// How to sign the content.
    Schema(u64),
}

impl Word {
    fn fixed(index: Slot, content: Content) -> Self {
        Word { index, content, relocation: None }
    }

    fn imported(index: Slot, kind: u32, symbol: SymbolId) -> Self {
        let relocation = WordRelocation { kind, symbol: Some(symbol), before: Before::Nothing };
        Word { index, content: Content::Nothing, relocation: Some(relocation) }
    }

    fn dynamic(index: Slot, kind: u32, content: Content) -> Self {
        let relocation = WordRelocation { kind, symbol: None, before: Before::Nothing };
        Word { index, content, relocation: Some(relocation) }
    }

    /// A word with an address of this output, for this symbol. It needs a relative relocation if the load
    /// address is unknown.
    fn local<T: Target>(link: &Numbered<'_, T>, id: SymbolId, index: Slot, content: Content) -> Self {
        if !link.mode.position_independent {
            return Word::fixed(index, content);
        }
        let fills = if link.tagged.is_empty() {
            fills_places::<T>(link.config)
        } else {
            packs(link).plain && !link.tagged.has(id)
        };
        let before = if fills { Before::Content } else { Before::Nothing };
        let relocation = WordRelocation { kind: T::DYNAMIC.relative, symbol: None, before };
        Word { index, content, relocation: Some(relocation) }
    }

    /// A word with an address as a signed pointer. A null pointer is not signed.
    fn signed(index: Slot, signed: &SignedRelocations, id: SymbolId, flags: SymbolFlags) -> Self {
        let has = |flag| flags.contains(flag);
        let (kind, symbol, content) = match () {
            () if has(SymbolFlags::IMPORTED) => (signed.glob_dat, Some(id), Content::Nothing),
            () if has(SymbolFlags::IFUNC) => (signed.relative, None, Content::PltEntry),
            () if has(SymbolFlags::UNDEFINED_WEAK) => return Word::fixed(index, Content::Nothing),
            () if has(SymbolFlags::ABSOLUTE) => (signed.absolute, None, Content::Address),
            () => (signed.relative, None, Content::Address),
        };
        let schema = if has(SymbolFlags::FUNCTION) { signed.function } else { signed.data };
        let relocation = WordRelocation { kind, symbol, before: Before::Schema(schema) };
        Word { index, content, relocation: Some(relocation) }
    }
}

/// Which relative relocations at even addresses go into packed tables. They stay in `.rela.dyn` if the script
/// discards the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packs {
    /// Plain ones, into `.relr.dyn`.
    pub plain: bool,
    /// Those of signed pointers, into `.relr.auth.dyn`.
    pub signed: bool,
}

/// The tables that this output has.
pub fn packs<T: Target>(link: &Live<'_, T>) -> Packs {
    let is_placed = |kind| {
        let table = link.synthetic.find(kind).map(|row| link.synthetic_id(row));
        table.is_some_and(|id| !link.sections.is(id, SectionState::DISCARDED_BY_SCRIPT))
    };
    let wanted = link.config.relocations.pack_relative;
    Packs { plain: wanted && is_placed(Kind::RelrDyn), signed: wanted && is_placed(Kind::SignedRelrDyn) }
}

/// Whether the places of dynamic relocations also hold the value as the linker knows it. With `.relr.dyn`,
/// they must. In an output with tagged globals, only the places in that table hold it.
pub(super) fn fills_places<T: Target>(config: &Config) -> bool {
    config.relocations.apply_dynamic.unwrap_or(T::APPLY_DYNAMIC) || config.relocations.pack_relative
}

/// Visits the words of a row that have a content or a relocation. The second word of a TLS descriptor has
/// neither, because the relocation of the first one fills both; if it is signed, the second says how.
pub fn for_each_word<T: Target>(link: &Numbered<'_, T>, row: &DynamicRow, mut visit: impl FnMut(Word)) {
    let dynamic = &T::DYNAMIC;
    let shared = link.mode.shared;
    let id = row.symbol;
    let flags = link.symbol_flags(id);
    let imported = flags.contains(SymbolFlags::IMPORTED);
    if let Some(slot) = row.resolved {
        visit(Word::dynamic(slot, dynamic.irelative, Content::Address));
    }
    if let Some(slot) = row.got.filter(|_| row.got != row.resolved) {
        visit(match () {
            () if imported => Word::imported(slot, dynamic.glob_dat, id),
            // The function's address is that of its PLT entry.
            () if flags.contains(SymbolFlags::IFUNC) => Word::local(link, id, slot, Content::PltEntry),
            () if flags.contains(SymbolFlags::ABSOLUTE) => Word::fixed(slot, Content::Address),
            () => Word::local(link, id, slot, Content::Address),
        });
    }
    if let Some(slot) = row.got_tp {
        visit(match () {
            () if imported => Word::imported(slot, dynamic.tpoff, id),
            () if shared => Word::dynamic(slot, dynamic.tpoff, Content::BlockOffset),
            () => Word::fixed(slot, Content::ThreadOffset),
        });
    }
    if let Some(slot) = row.tls_gd {
        let (module, offset) = (slot, Slot::new(slot.number() + 1));
        if imported {
            visit(Word::imported(module, dynamic.dtpmod, id));
            visit(Word::imported(offset, dynamic.dtpoff, id));
        } else {
            visit(module_word::<T>(module, shared));
            visit(Word::fixed(offset, Content::BlockOffset));
        }
    }
    if let Some(slot) = row.tls_desc {
        visit(match () {
            () if imported => Word::imported(slot, dynamic.tlsdesc, id),
            () => Word::dynamic(slot, dynamic.tlsdesc, Content::BlockOffset),
        });
    }
    let Some(signed) = &T::SIGNED else { return };
    if let Some(slot) = row.signed_got {
        visit(Word::signed(slot, signed, id, flags));
    }
    if let Some(slot) = row.signed_tls_desc {
        let (symbol, content) =
            if imported { (Some(id), Content::Nothing) } else { (None, Content::BlockOffset) };
        let before = Before::Schema(signed.function);
        let relocation = Some(WordRelocation { kind: signed.tlsdesc, symbol, before });
        visit(Word { index: slot, content, relocation });
        visit(Word::fixed(Slot::new(slot.number() + 1), Content::Number(signed.data)));
    }
}

/// The word with this module's number. A library learns its number at run time; an executable is module 1.
fn module_word<T: Target>(index: Slot, shared: bool) -> Word {
    if shared {
        Word::dynamic(index, T::DYNAMIC.dtpmod, Content::Nothing)
    } else {
        Word::fixed(index, Content::OwnModule)
    }
}

/// The word with this module's number for local-dynamic code, if the link needs it.
fn own_module_word<T: Target>(link: &Numbered<'_, T>) -> Option<Word> {
    link.slots.tls_module.map(|slot| module_word::<T>(slot, link.mode.shared))
}

/// Visits all words of `.got` except the reserved ones, each with its row. The word with this module's number
/// comes with an empty row that has no symbol.
pub fn for_all_words<T: Target>(link: &Numbered<'_, T>, visit: &mut dyn FnMut(&DynamicRow, Word)) {
    for row in &link.rows {
        for_each_word(link, row, |word| visit(row, word));
    }
    if let Some(word) = own_module_word(link) {
        visit(&DynamicRow::new(SymbolId::NONE), word);
    }
}

/// The value of a word's content.
pub fn number<T: Target>(link: &Located<'_, T>, row: &DynamicRow, content: Content) -> u64 {
    let id = row.symbol;
    match content {
        Content::Nothing => 0,
        Content::Number(number) => number,
        Content::OwnModule => 1,
        Content::Address => value(link, id),
        Content::PltEntry => address::plt_of_row(link, row),
        Content::BlockOffset => in_tls_block(link, id, value(link, id), 0),
        Content::ThreadOffset => from_thread_pointer(link, id, value(link, id), 0) as u64,
    }
}
