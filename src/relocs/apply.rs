//! Applies relocations: writes their values into the sections of the output.
//!
//! This is a hot loop: each relocation takes one table look-up, one decision, one value and one store. The
//! loop allocates nothing, takes no lock and calls nothing through a pointer. Only errors are slow.

use super::address::{self, from_thread_pointer, in_tls_block, symbol_size};
use super::branches;
use super::dynamic;
use super::shortcuts;
use super::slots::fills_places;
use super::walk::{Decided, Undecided, Visitor, Walk};
use crate::arch::relocation::SymbolFacts;
use crate::arch::{RelocBase, RelocExpr, RelocInfo, Target};
use crate::decision::decide::{Action, DynamicKind};
use crate::decision::site::DynRelocSite;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::Rela;
use crate::elf::is_alloc;
use crate::ids::{SectionId, Slot, SymbolId};
use crate::input::ObjectFile;
use crate::phase::facts::{facts, is_folded};
use crate::phase::{Addresses, DynamicRow, Placed};
use crate::symbols::Needs;
use crate::tables::pools::Destination;

/// The largest number of problems that the linker reports for one section.
const MAX_REPORTS: u32 = 8;

/// Applies the relocations of section `index` of an object. `out` holds a copy of the section's bytes
/// (decompressed, if they were compressed), which this function relocates.
pub fn apply_section<'a, T: Target>(
    link: &Placed<'a, T>,
    object: &ObjectFile<'a, T::E>,
    index: u32,
    out: &mut [u8],
) {
    let relocations = object.relocations(index as usize);
    if !relocations.is_empty() {
        let address = link.section_address(object.section_id(index));
        apply_list(link, object, index, relocations, 0, address, out);
    }
}

/// Applies some relocations of section `index` of an object to a part of it, for records that have left their
/// section. `out` begins at offset `start` of the input section and lies at `address` in memory.
pub fn apply_list<'a, T: Target>(
    link: &Placed<'a, T>,
    object: &ObjectFile<'a, T::E>,
    index: u32,
    relocations: &[Rela<T::E>],
    start: u64,
    address: u64,
    out: &mut [u8],
) {
    let section = object.section_id(index);
    let mut apply = Apply { link, object, section, index, start, address, out, reported: 0 };
    if !is_alloc(object.headers[index as usize].sh_flags.get()) {
        let name = object.section_name(index as usize);
        let tombstone = Tombstone::of_section(link, name);
        let drops_folded = describes_once(name);
        for relocation in relocations {
            apply.not_loaded(relocation, tombstone, drops_folded);
        }
        return;
    }
    let walk = Walk::new(link, object, index as usize);
    let in_place = fills_places::<T>(link.config);
    let takes_shortcuts = link.config.relocations.branch_to_branch;
    let is_sframe = walk.is_sframe;
    walk.each(relocations, &mut Loaded { apply, is_sframe, in_place, takes_shortcuts });
}

/// Applies relocations of a loaded section.
struct Loaded<'s, 'a, T: Target> {
    apply: Apply<'s, 'a, T>,
    /// Whether the section is SFrame data. There, a field of a dead function becomes 0, without its addend,
    /// and `sframe_output::concat` turns it into a dead row.
    is_sframe: bool,
    /// Whether the place of a dynamic relocation also holds the value, as far as the linker knows it.
    in_place: bool,
    /// `--branch-to-branch`.
    takes_shortcuts: bool,
}

struct Apply<'s, 'a, T: Target> {
    link: &'s Placed<'a, T>,
    object: &'s ObjectFile<'a, T::E>,
    section: SectionId,
    index: u32,
    start: u64,
    address: u64,
    out: &'s mut [u8],
    reported: u32,
}

/// What the linker writes into a field that refers to a dead section, in a section that is not loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tombstone {
    /// A fixed value.
    Value(u64),
    /// The addend, as if the symbol's address were 0.
    Addend,
}

impl Tombstone {
    /// The tombstone for a section of this name: that of the last matching `-z dead-reloc-in-nonalloc`
    /// pattern, or else lld's. In `.debug_loc` and `.debug_ranges` it is 1, because a pair of zeros ends a
    /// list there. In `.debug_names`, 0 would mean the first unit.
    pub fn of_section<T: Target>(link: &Placed<'_, T>, name: &[u8]) -> Self {
        for (pattern, value) in link.config.strip.dead_relocations.iter().rev() {
            if crate::script::glob::matches(pattern, name) {
                return Tombstone::Value(*value);
            }
        }
        Self::of_name(name)
    }

    fn of_name(name: &[u8]) -> Self {
        match name {
            b".debug_loc" | b".debug_ranges" => Tombstone::Value(1),
            b".debug_names" => Tombstone::Value(u64::MAX),
            name if name.starts_with(b".debug_") => Tombstone::Value(0),
            _ => Tombstone::Addend,
        }
    }
}

/// Whether a section describes only the leader of folded functions, so that debuggers find one function at
/// each address. `.debug_line` describes all of them: a breakpoint on a line of any of these functions should
/// find the code that they share.
fn describes_once(name: &[u8]) -> bool {
    name.starts_with(b".debug_") && name != b".debug_line"
}

/// What a field at `place` holds for this value.
#[inline]
fn from_base(base: RelocBase, value: u64, place: u64, at: &Addresses) -> i64 {
    let base = match base {
        RelocBase::Zero => 0,
        RelocBase::Place => place,
        RelocBase::PlacePage => return (value & !0xfff).wrapping_sub(place & !0xfff) as i64,
        RelocBase::Page => return (value & 0xfff) as i64,
        RelocBase::Got => at.got_base,
        RelocBase::GotPage => at.got_base & !0xfff,
    };
    value.wrapping_sub(base) as i64
}

impl<T: Target> Visitor<T> for Loaded<'_, '_, T> {
    #[inline]
    fn decided(&mut self, relocation: Decided<'_, T>) {
        let Some(at) = self.apply.position(relocation.offset) else { return };
        if let Some(kind) = relocation.action.dynamic {
            let value = self.beside_dynamic(kind, &relocation);
            T::write_field(relocation.info.field, &mut self.apply.out[at..], value);
            return;
        }
        let Decided { info, offset, index, symbol, addend, facts, action } = relocation;
        let apply = &mut self.apply;
        let place = apply.address.wrapping_add(at as u64);
        let mut value = apply.value(action, index, symbol, addend, place);
        if self.takes_shortcuts && action.expr == RelocExpr::Symbol && action.edit.is_none() {
            value = apply.shortcut(info, offset, (index, addend)).unwrap_or(value);
        }
        let outside = match action.edit {
            Some(edit) => T::edit(edit, apply.out, at, value, place).err(),
            None => {
                T::write_field(info.field, &mut apply.out[at..], value);
                if info.holds(value) { None } else { Some(value) }
            }
        };
        let Some(value) = outside else { return };
        if apply.redirect(info, (symbol, addend), at, place) {
            return;
        }
        // This symbol may still be defined at run time. Its GOT slot or PLT entry has an address
        // nevertheless.
        let is_nothing = facts.contains(SymbolFacts::UNDEFINED_WEAK)
            && !matches!(action.expr, RelocExpr::GotSlot | RelocExpr::Plt);
        if !is_nothing {
            apply.overflow(info, action, symbol, offset, value);
        } else if action.edit.is_none() {
            // The field cannot express the distance to 0. As in the psABIs, an undefined weak symbol then
            // counts as lying at the place of the relocation. A truncated distance would lead to some other
            // symbol.
            let here =
                from_base(action.base, place.wrapping_add_signed(addend), place, &apply.link.addresses);
            T::write_field(info.field, &mut apply.out[at..], here);
        }
    }

    /// `scan_relocations` has reported malformed relocations. This writes the fields that refer to dead
    /// sections.
    fn undecided(&mut self, relocation: Undecided<'_, T>) {
        let Undecided::Discarded(info, relocation, _) = relocation else { return };
        let Some(at) = self.apply.position(relocation.r_offset.get()) else { return };
        let value = if self.is_sframe { 0 } else { relocation.r_addend.get() };
        T::write_field(info.field, &mut self.apply.out[at..], value);
    }
}

impl<T: Target> Loaded<'_, '_, T> {
    /// What the place of a dynamic relocation holds.
    fn beside_dynamic(&self, kind: DynamicKind, relocation: &Decided<'_, T>) -> i64 {
        let (apply, link) = (&self.apply, self.apply.link);
        let Decided { offset, index, symbol, addend, .. } = *relocation;
        let known = || if self.in_place { apply.in_place(kind, index, symbol, addend) } else { 0 };
        let site = || DynRelocSite::new(apply.section, offset, symbol, addend, kind);
        match kind {
            DynamicKind::SignedRelative => dynamic::lower_half(link, &site()) as i64,
            _ if link.tagged.is_empty() => known(),
            _ => dynamic::beside_tags(link, &site()).unwrap_or_else(known),
        }
    }
}

impl<T: Target> Apply<'_, '_, T> {
    /// The index in `out` of an offset of the input section. `None`: the offset is outside.
    #[inline]
    fn position(&self, offset: u64) -> Option<usize> {
        let at = offset.checked_sub(self.start)?;
        (at <= self.out.len() as u64).then_some(at as usize)
    }

    /// The value of a branch whose target is only another branch (`--branch-to-branch`): it leads to where
    /// that one leads. The loop of all other links should not carry what this needs.
    #[cold]
    fn shortcut(&self, info: &'static RelocInfo<T>, offset: u64, target: (u32, i64)) -> Option<i64> {
        let (object, section, (symbol, addend)) = (self.object, self.section, target);
        let reference = shortcuts::Reference { object, section, info, offset, symbol, addend };
        shortcuts::find(self.link, reference).map(|shortcut| shortcut.value)
    }

    /// Points a branch that does not reach its target at a thunk. Returns whether there is such a thunk.
    #[cold]
    fn redirect(&mut self, info: &RelocInfo<T>, destination: Destination, at: usize, place: u64) -> bool {
        let Some(reach) = T::call(info) else { return false };
        let Some(thunk) = branches::redirect(self.link, destination, place, reach) else { return false };
        let distance = thunk.wrapping_sub(place) as i64;
        // Pools of thunks are placed for calls. A conditional branch has a shorter reach.
        let reaches = info.holds(distance);
        if reaches {
            T::write_field(info.field, &mut self.out[at..], distance);
        }
        reaches
    }

    /// `expr + A - base`.
    #[inline]
    fn value(&self, action: &Action<T>, index: u32, symbol: SymbolId, addend: i64, place: u64) -> i64 {
        let link = self.link;
        let at = &link.addresses;
        let slot = |slot: Option<Slot>| {
            slot.map_or(0, |slot| address::got_word(link, slot).wrapping_add_signed(addend))
        };
        let row_slot = |pick: fn(&DynamicRow) -> Option<Slot>| slot(link.row(symbol).and_then(pick));
        let target = || address::target(link, self.object, index, symbol, addend);
        let value = match action.expr {
            RelocExpr::Nothing | RelocExpr::TlsDescCall => 0,
            RelocExpr::Symbol | RelocExpr::SignedPointer | RelocExpr::Initializer | RelocExpr::Patch => {
                target()
            }
            RelocExpr::Plt => address::plt(link, symbol).wrapping_add_signed(addend),
            RelocExpr::GotSlot => row_slot(|row| row.got),
            RelocExpr::GotBase => at.got_base.wrapping_add_signed(addend),
            RelocExpr::GotTp => row_slot(|row| row.got_tp),
            RelocExpr::TlsGd => row_slot(|row| row.tls_gd),
            RelocExpr::TlsDesc => row_slot(|row| row.tls_desc),
            RelocExpr::SignedGotSlot => row_slot(|row| row.signed_got),
            RelocExpr::SignedTlsDesc => row_slot(|row| row.signed_tls_desc),
            RelocExpr::TlsLd => slot(link.slots.tls_module),
            RelocExpr::DtpOffset => in_tls_block(link, symbol, target(), addend),
            RelocExpr::TpOffset => from_thread_pointer(link, symbol, target(), addend) as u64,
            RelocExpr::TlsBlock => at.tls_start.wrapping_sub(at.thread_pointer),
            RelocExpr::Size => symbol_size(link, self.object, index, symbol).wrapping_add_signed(addend),
        };
        from_base(action.base, value, place, at)
    }

    /// The value to store at the place of a dynamic relocation. The dynamic linker reads it only for
    /// `.relr.dyn`, and otherwise takes the addend from the table. But other readers expect the address
    /// there.
    fn in_place(&self, kind: DynamicKind, index: u32, symbol: SymbolId, addend: i64) -> i64 {
        match kind {
            DynamicKind::Relative => address::target(self.link, self.object, index, symbol, addend) as i64,
            DynamicKind::TpSlot => address::tp_slot(self.link, symbol).wrapping_add_signed(addend) as i64,
            DynamicKind::Symbolic => addend,
            // The lower half of a signed pointer is free for an addend, which is in the table.
            DynamicKind::SignedRelative | DynamicKind::SignedSymbolic => 0,
            DynamicKind::Resolved if self.link.symbol_needs(symbol).contains(Needs::CANONICAL_PLT) => {
                address::plt(self.link, symbol).wrapping_add_signed(addend) as i64
            }
            _ => 0,
        }
    }

    /// Applies one relocation of a section that is not loaded. The dynamic linker never touches that section,
    /// so a symbol that may be preempted gets its address in this output, too.
    #[inline]
    fn not_loaded(&mut self, relocation: &Rela<T::E>, tombstone: Tombstone, drops_folded: bool) {
        let offset = relocation.r_offset.get();
        let Some(info) = T::reloc_info(relocation.kind()) else {
            let message = format!("unknown relocation type {}", relocation.kind());
            return self.report(offset, Diagnostic::error(Code::UnknownRelocation, message));
        };
        if info.expr == RelocExpr::Nothing {
            return;
        }
        let fits = |at: u64| at.checked_add(info.size.into()).is_some_and(|end| end <= self.out.len() as u64);
        let Some(at) = offset.checked_sub(self.start).filter(|&at| fits(at)) else {
            let message =
                format!("{} reaches past the end of the section ({:#x} bytes)", info.name, self.out.len());
            return self.report(offset, Diagnostic::error(Code::MalformedInput, message));
        };
        let index = relocation.symbol();
        if index as usize >= self.object.symbols.len() && index != 0 {
            let message = format!(
                "{} refers to symbol {index}, but the file has {} symbols",
                info.name,
                self.object.symbols.len()
            );
            return self.report(offset, Diagnostic::error(Code::MalformedInput, message));
        }
        let symbol = self.object.symbol_id(index);
        let facts = facts(self.link, index, symbol);
        let addend = relocation.r_addend.get();
        let dead = match tombstone {
            Tombstone::Value(value) => value as i64,
            Tombstone::Addend => addend,
        };
        if facts.contains(SymbolFacts::DISCARDED) || drops_folded && is_folded(self.link, self.object, index)
        {
            let kept = address::of_kept_copy(self.link, self.object, self.index, index);
            let value = kept.map_or(dead, |start| start.wrapping_add_signed(addend) as i64);
            return T::write_field(info.field, &mut self.out[at as usize..], value);
        }
        let expr = match info.expr {
            RelocExpr::Plt => RelocExpr::Symbol,
            RelocExpr::Symbol
            | RelocExpr::GotBase
            | RelocExpr::DtpOffset
            | RelocExpr::TpOffset
            | RelocExpr::Size => info.expr,
            _ => {
                let message = format!(
                    "relocation {} against {} needs a GOT entry or a dynamic relocation, but its section is not loaded",
                    info.name,
                    self.link.symbol_text(symbol)
                );
                return self.report(offset, Diagnostic::error(Code::RelocationNotAllowed, message));
            }
        };
        let action = Action::<T> {
            expr,
            base: info.base,
            edit: None,
            takes_next: false,
            needs: Needs::empty(),
            dynamic: None,
            problem: None,
        };
        let value = self.value(&action, index, symbol, addend, self.address.wrapping_add(at));
        // What was left out has the address 0. Nearly all references of debug information are to something
        // else, and to ask for each takes as long as its value.
        let has_address = action.base == RelocBase::Zero && value != 0 && value != addend;
        if !has_address && address::is_left_out(self.link, self.object, index, addend) {
            return T::write_field(info.field, &mut self.out[at as usize..], dead);
        }
        T::write_field(info.field, &mut self.out[at as usize..], value);
        if !info.holds(value) && !facts.contains(SymbolFacts::UNDEFINED_WEAK) {
            self.overflow(info, &action, symbol, offset, value);
        }
    }

    #[cold]
    fn overflow(
        &mut self,
        info: &RelocInfo<T>,
        action: &Action<T>,
        symbol: SymbolId,
        offset: u64,
        value: i64,
    ) {
        if self.link.config.relocations.ignore_overflow {
            return;
        }
        let (min, max) = action.edit.map_or((info.min, info.max), T::edit_range);
        let message = if value < min || value > max {
            format!("relocation {} out of range: {value} is not in [{min}, {max}]", info.name)
        } else {
            let symbol = self.link.symbol_text(symbol);
            let (relocation, multiple) = (info.name, info.multiple);
            format!(
                "misaligned symbol {symbol} for relocation {relocation}: {value} is not a multiple of {multiple}"
            )
        };
        let mut diagnostic = Diagnostic::error(Code::RelocationOverflow, message)
            .note(format!("references {}", self.link.symbol_text(symbol)));
        if let Some((target, _)) = self.link.symbol_section(symbol)
            && let Some((object, index)) = self.link.locate(target)
        {
            diagnostic = diagnostic.note(format!(
                "defined in {}:({})",
                object.name,
                object.section_name_lossy(index as usize)
            ));
        }
        let name = self.object.section_name_lossy(self.index as usize);
        let help = match action.base {
            _ if name.starts_with(".debug_") => {
                "the debug information is too large for 32-bit DWARF: recompile with -gdwarf64 or -g1"
            }
            _ if value >= min && value <= max => {
                "align the symbol: the instruction cannot reach other addresses"
            }
            RelocBase::Zero if self.link.config.is_position_independent() => "recompile with -fPIC",
            _ => T::TOO_FAR_HELP,
        };
        self.report(offset, diagnostic.help(help));
    }

    #[cold]
    fn report(&mut self, offset: u64, diagnostic: Diagnostic) {
        self.reported += 1;
        if self.reported > MAX_REPORTS {
            return;
        }
        let section = self.object.section_name_lossy(self.index as usize);
        let location = Location::Section { file: self.object.name.to_string(), section, offset };
        let index = self.section.0 - self.object.first_section;
        self.link.sink.report_recoverable(diagnostic.at(location).ordered(self.object.id.0, index, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::Tombstone;

    #[test]
    fn tombstones_are_lld_s() {
        let of = Tombstone::of_name;
        assert_eq!(of(b".debug_info"), Tombstone::Value(0));
        assert_eq!(of(b".debug_loc"), Tombstone::Value(1));
        assert_eq!(of(b".debug_ranges"), Tombstone::Value(1));
        assert_eq!(of(b".debug_rnglists"), Tombstone::Value(0));
        assert_eq!(of(b".debug_names"), Tombstone::Value(u64::MAX));
        assert_eq!(of(b".mymeta"), Tombstone::Addend);
    }
}
