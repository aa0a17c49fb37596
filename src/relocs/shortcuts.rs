//! Lets branches to branches go to where these lead (`--branch-to-branch`).
//!
//! Some functions only jump to another one: jump tables of control flow integrity, wrappers that a compiler
//! could not look through, empty destructors. A call of such a function takes two branches and touches two
//! places of the code, where one would do:
//!
//! ```text
//! call f ----> f: jmp g ----> g: jmp h ----> h: ...
//!      \_____________________________________^
//! ```
//!
//! Only references that compare no address change: branches, and words of data with the distance to a PLT
//! entry (`.word f@plt - .`). Whether a branch leads on is seen in the input, so it does not depend on the
//! layout. If the last place is out of reach, the branch takes the thunk of a branch on the way, or stays as
//! it is. Functions that another module may define end the way, and so does code that the program may write
//! to. Tables of frames stay as they are.

use super::{address, branches};
use crate::arch::{RelocBase, RelocExpr, RelocInfo, Target};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::{ObjectFile, SectionClass};
use crate::phase::{Bound, Located, Placed, SectionState};
use crate::symbols::SymbolFlags;

/// The most branches that are followed. Branches in a circle have no last place.
const MOST: usize = 8;

/// A reference to a function.
#[derive(Clone, Copy)]
pub struct Reference<'l, 'a, T: Target> {
    /// The object and the section that refer.
    pub object: &'l ObjectFile<'a, T::E>,
    /// Its section.
    pub section: SectionId,
    /// Its relocation.
    pub info: &'static RelocInfo<T>,
    /// Offset in the section, in bytes.
    pub offset: u64,
    /// Index of its symbol in the object.
    pub symbol: u32,
    /// Its addend.
    pub addend: i64,
}

/// Where a reference leads instead.
#[derive(Clone, Copy)]
pub struct Shortcut<'l, 'a, T: Target> {
    /// The object whose symbol it is.
    pub object: &'l ObjectFile<'a, T::E>,
    /// The index of the symbol.
    pub symbol: u32,
    /// The addend for this symbol.
    pub addend: i64,
    /// The value of the relocation.
    pub value: i64,
}

/// A place in code: a symbol of an object, and a distance from it.
struct Goal<'l, 'a, T: Target> {
    object: &'l ObjectFile<'a, T::E>,
    symbol: u32,
    distance: i64,
}

impl<T: Target> Clone for Goal<'_, '_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Target> Copy for Goal<'_, '_, T> {}

/// Where a reference leads past the branches that it leads to; `None` if it leads to no branch, or too far.
pub fn find<'l, 'a, T: Target>(
    link: &'l Placed<'a, T>,
    reference: Reference<'l, 'a, T>,
) -> Option<Shortcut<'l, 'a, T>> {
    let Reference { object, section, info, offset, symbol, addend } = reference;
    let describes = link.class_of(section).intersects(SectionClass::EH_FRAME | SectionClass::SFRAME);
    let is_distance =
        matches!(info.expr, RelocExpr::Plt | RelocExpr::Symbol) && info.base == RelocBase::Place;
    if !is_distance || describes {
        return None;
    }
    let index = section.0 - object.first_section;
    let bytes = object.section_bytes(index as usize).unwrap_or_default();
    let is_branch = T::is_direct_branch(bytes, usize::try_from(offset).ok()?);
    let code = object.headers[index as usize].sh_flags.get() & elf::SHF_EXECINSTR != 0;
    let flags = link.symbol_flags(object.symbol_id(symbol));
    // The addend of a word of data makes up for the word's place. With the symbol of a section, it may also
    // select the function, so nobody knows which one is meant.
    let is_word = info.expr == RelocExpr::Plt && !code && !flags.contains(SymbolFlags::SECTION);
    if !is_branch && !is_word {
        return None;
    }
    let (distance, kept) =
        if is_branch { (addend.wrapping_add(T::BRANCH_BIAS), -T::BRANCH_BIAS) } else { (0, addend) };
    let goal = follow(link, Goal { object, symbol, distance })?;
    let addend = goal.distance.wrapping_add(kept);
    let id = goal.object.symbol_id(goal.symbol);
    let place = link.section_address(section).wrapping_add(offset);
    let target = address::target(link, goal.object, goal.symbol, id, addend);
    let by_thunk = || branches::redirect(link, (id, addend), place, T::call(info)?);
    let distance = |target: u64| target.wrapping_sub(place) as i64;
    let fits = |value: &i64| info.holds(*value);
    let value = Some(distance(target)).filter(fits).or_else(|| by_thunk().map(distance).filter(fits))?;
    Some(Shortcut { object: goal.object, symbol: goal.symbol, addend, value })
}

/// The last place of a way of branches; `None` if there is no branch.
fn follow<'l, 'a, T: Target>(link: &'l Located<'a, T>, start: Goal<'l, 'a, T>) -> Option<Goal<'l, 'a, T>> {
    let mut found = None;
    for _ in 0..MOST {
        match next(link, found.unwrap_or(start)) {
            Some(goal) => found = Some(goal),
            None => break,
        }
    }
    found
}

/// Where the branch at a place leads, if there is one and it leads to a place in this output.
fn next<'l, 'a, T: Target>(link: &'l Located<'a, T>, goal: Goal<'l, 'a, T>) -> Option<Goal<'l, 'a, T>> {
    if !is_own(link, goal.object.symbol_id(goal.symbol)) {
        return None;
    }
    let (section, value) = link.referenced_section(goal.object, goal.symbol)?;
    let section = link.folds.standing(section);
    let states = &link.sections;
    let outside = [SectionState::ABSORBED, SectionState::NOT_CONTENT];
    if !states.is_alive(section) || outside.iter().any(|&state| states.is(section, state)) {
        return None;
    }
    let (object, index) = link.locate(section)?;
    let flags = object.headers[index as usize].sh_flags.get();
    if flags & (elf::SHF_EXECINSTR | elf::SHF_WRITE) != elf::SHF_EXECINSTR {
        return None;
    }
    let bytes = object.section_bytes(index as usize).ok()?;
    let start = usize::try_from(value.checked_add_signed(goal.distance)?).ok()?;
    let field = T::jump_at(bytes, start)?;
    let relocation = at(object.relocations(index as usize), field as u64)?;
    let info = T::reloc_info(relocation.kind())?;
    let symbol = relocation.symbol();
    let is_branch = T::is_branch(info, bytes, field) && info.base == RelocBase::Place;
    if !is_branch || symbol as usize >= object.symbols.len() || !is_own(link, object.symbol_id(symbol)) {
        return None;
    }
    let distance = relocation.r_addend.get().checked_add(T::BRANCH_BIAS)?;
    Some(Goal { object, symbol, distance })
}

/// The relocation at an offset, of relocations that are sorted, as compilers leave them.
fn at<E: zerocopy::byteorder::ByteOrder>(relocations: &[Rela<E>], offset: u64) -> Option<&Rela<E>> {
    let row = relocations.partition_point(|relocation| relocation.r_offset.get() < offset);
    relocations.get(row).filter(|relocation| relocation.r_offset.get() == offset)
}

/// Whether a symbol stands for a place in this output, whatever other modules define.
pub fn is_own<T: Target>(link: &Bound<'_, T>, symbol: SymbolId) -> bool {
    let elsewhere = SymbolFlags::IMPORTED
        | SymbolFlags::IFUNC
        | SymbolFlags::ABSOLUTE
        | SymbolFlags::UNDEFINED
        | SymbolFlags::UNDEFINED_WEAK
        | SymbolFlags::TLS
        | SymbolFlags::DISCARDED;
    !link.symbol_flags(symbol).intersects(elsewhere)
}
