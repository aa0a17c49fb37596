//! Relocations in the output: all of them under `-r`, and those of `--emit-relocs` in a final link.
//!
//! The linker takes a relocation of the input and moves it with its section. Its offset counts from the
//! output section (in a final link, it is an address), and its symbol becomes the number in the output's
//! symbol table. The output lacks some symbols (section symbols, local names that options drop). The linker
//! replaces these by the symbol of their output section, and the addend takes the distance. The bytes in
//! place do not matter, because `SHT_RELA` takes no addend from them. If all relocations of an output section
//! come from `SHT_REL` sections, the output has `SHT_REL`, as in GNU ld and lld, and under `-r` the places
//! hold the addends.
//!
//! Relocations that refer to sections outside the output are dropped; [`crate::relocs::discarded`] has
//! reported those that are violations. In three places, dropping one would break its reader, and it becomes
//! `R_*_NONE` instead:
//!
//! - in `.eh_frame`, whose readers expect a relocation in every FDE. The next link then sees a record without
//!   a function;
//! - in call graph profiles, where two relocations make an edge. Dropping one would pair up the wrong ones;
//! - in SFrame data under `-r`. GNU ld takes the n-th relocation for that of the n-th function, and fails its
//!   assertions if there are fewer. It also skips relocations whose symbol is 0, so these use the symbol of
//!   their own section, which keeps nothing alive that is not alive already.

use crate::arch::Target;
use crate::arch::relocation::Rewritten;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::elf::{Rel, Rela};
use crate::ids::{SectionId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::input::sframe::is_input;
use crate::input::{ObjectFile, call_graph};
use crate::phase::facts::{is_dropped, is_of_dead_row};
use crate::phase::{Contents, Inputs, Placed, SectionState};
use crate::relocs::address;
use crate::relocs::apply::Tombstone;
use crate::relocs::shortcuts::{self, Shortcut};
use crate::relocs::walk::{Decided, Undecided, Visitor, Walk};
use crate::sframe::collect::Chosen;
use crate::sframe_output;
use crate::tables::section::Kind;
use zerocopy::byteorder::{I64, U64};

/// Whether the output has relocation sections for other tools (`-r`, `--emit-relocs`).
pub fn is_wanted<T: Target>(link: &Inputs<'_, T>) -> bool {
    link.config.is_relocatable() || link.config.relocations.emit
}

/// Number of relocations that the output has for a section. `chosen` holds the functions of the SFrame table.
pub fn count<T: Target>(link: &Contents<'_, T>, chosen: &Chosen, id: SectionId) -> u32 {
    if is_own_sframe(link, id) {
        return sframe_output::table::relocation_count(chosen);
    }
    let mut count = 0;
    if is_made_of_frames(link, id) {
        for_each_of_frames(link, |_, _, _| count += 1);
    } else {
        for_each_kept(link, id, |_, _, _| count += 1);
    }
    count
}

/// Writes the relocations of a section to `out`, which has room for [`count`] of them.
pub fn write<T: Target>(link: &Placed<'_, T>, id: SectionId, out: &mut [Rela<T::E>]) {
    if is_own_sframe(link, id) {
        return sframe_output::table::relocations(link, base(link, id), out);
    }
    let mut places = out.iter_mut();
    for_each_written(link, id, &mut |relocation| {
        if let Some(place) = places.next() {
            *place = Rela {
                r_offset: U64::new(relocation.offset),
                r_info: U64::new(relocation.info()),
                r_addend: I64::new(relocation.addend),
            };
        }
    });
}

/// Writes the relocations of a section into an `SHT_REL` section.
pub fn write_implicit<T: Target>(link: &Placed<'_, T>, id: SectionId, out: &mut [Rel<T::E>]) {
    let mut places = out.iter_mut();
    for_each_written(link, id, &mut |relocation| {
        if let Some(place) = places.next() {
            *place = Rel { r_offset: U64::new(relocation.offset), r_info: U64::new(relocation.info()) };
        }
    });
}

/// Whether the relocations of a section may go into an `SHT_REL` section. Those of `.sframe` need `SHT_RELA`,
/// because the linker changes their addends.
pub fn is_implicit<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    link.locate(id).is_some_and(|(object, index)| {
        object.has_implicit_addends(index as usize) && !is_input(object, index as usize)
    })
}

/// Writes the addends of relocations in an `SHT_REL` section into their places (`-r`). `out` holds a copy of
/// the section.
pub fn write_addends<T: Target>(link: &Placed<'_, T>, id: SectionId, out: &mut [u8]) {
    let Some(chunk) = link.layout.chunk_with(id) else { return };
    let tables = &link.output_relocations;
    if !is_implicit(link, id) || !tables.iter().any(|table| table.target == chunk && table.implicit) {
        return;
    }
    let base = base(link, id);
    for_each_written(link, id, &mut |relocation| {
        let Some(info) = T::reloc_info(relocation.kind) else { return };
        let offset = relocation.offset.wrapping_sub(base);
        let place =
            usize::try_from(offset).ok().and_then(|at| out.get_mut(at..at.checked_add(info.size.into())?));
        let Some(place) = place else { return };
        let field = T::addend_field(info.field);
        T::write_field(field, place, relocation.addend);
        if info.size > 0 && T::read_field(field, place) != relocation.addend {
            let message = format!(
                "{} at {}: its addend has become {:#x}, which the place cannot hold",
                info.name,
                link.describe_place(id, offset),
                relocation.addend
            );
            let file = link.rank_of_file(id);
            link.sink.report(
                Diagnostic::error(Code::RelocationOverflow, message)
                    .help("make the object with SHT_RELA relocations, which hold their addends themselves")
                    .ordered(file, id.0, offset),
            );
        }
    });
}

/// A relocation as the output has it.
struct Written {
    offset: u64,
    kind: u32,
    symbol: u32,
    addend: i64,
}

impl Written {
    fn info(&self) -> u64 {
        u64::from(self.symbol) << 32 | u64::from(self.kind)
    }
}

/// The `r_offset` of a section's first byte: its address in a final link, and its offset in the output
/// section under `-r`.
fn base<T: Target>(link: &Placed<'_, T>, id: SectionId) -> u64 {
    if link.config.is_relocatable() { link.layout.offset_of(id) } else { link.section_address(id) }
}

fn for_each_written<T: Target>(link: &Placed<'_, T>, id: SectionId, visit: &mut dyn FnMut(Written)) {
    let base = base(link, id);
    if is_made_of_frames(link, id) {
        return for_each_of_frames(link, |object, relocation, output| {
            let (symbol, addend) = remap(link, object, relocation.symbol(), relocation.r_addend.get());
            visit(Written { offset: base.wrapping_add(output), kind: relocation.kind(), symbol, addend });
        });
    }
    let bias = sframe_output::concat::EmittedBias::of(link, id);
    // Only a final link rewrites instructions, and only those that are loaded.
    let rewrites = |object: &ObjectFile<'_, T::E>, index: u32| {
        !link.config.is_relocatable() && is_alloc(object.headers[index as usize].sh_flags.get())
    };
    let located = link.locate(id).filter(|&(object, index)| rewrites(object, index));
    let walk = located.map(|(object, index)| Walk::new(link, object, index as usize));
    let own = if link.is_sframe_section(id) { own_symbol(link, id) } else { 0 };
    let mut rewritings = Rewritings { link, walk: walk.as_ref(), taken: None };
    for_each_kept(link, id, |object, relocations, alive| {
        let Some(relocation) = relocations.first() else { return };
        let mut offset = relocation.r_offset.get();
        let (mut kind, (mut symbol, addend)) = if alive {
            (relocation.kind(), remap(link, object, relocation.symbol(), relocation.r_addend.get()))
        } else {
            (T::DYNAMIC.none, (own, 0))
        };
        let mut addend = addend.wrapping_add(bias.at(offset));
        if alive && let Some(shortcut) = walk.as_ref().and_then(|walk| shortcut(link, walk, id, relocation)) {
            (symbol, addend) = remap(link, shortcut.object, shortcut.symbol, shortcut.addend);
        }
        match rewritings.of(relocations).filter(|_| alive) {
            Some(Rewritten { kind: none, .. }) if none == T::DYNAMIC.none => {
                (kind, symbol, addend) = (none, 0, 0);
            }
            Some(rewritten) => {
                kind = rewritten.kind;
                offset = offset.wrapping_add_signed(rewritten.offset);
                addend = addend.wrapping_add(rewritten.addend);
            }
            None => {}
        }
        visit(Written { offset: base.wrapping_add(offset), kind, symbol, addend });
    });
}

/// The symbol of the output section that holds a section.
fn own_symbol<T: Target>(link: &Placed<'_, T>, id: SectionId) -> u32 {
    let chunk = link.layout.chunk_with(id);
    chunk.and_then(|chunk| link.symtab.section_symbol.get(chunk.index()).copied()).unwrap_or(0)
}

/// Whether a section is the blob that the linker makes of SFrame inputs.
fn is_own_sframe<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let row = link.synthetic_row(id);
    row.is_some_and(|row| link.synthetics.section(row).kind == Kind::SFrame)
}

/// The relocations of one section whose instructions a final link has rewritten, met in their order.
struct Rewritings<'w, 'l, 'a, T: Target> {
    link: &'l Placed<'a, T>,
    /// `None` if the link rewrites nothing of the section.
    walk: Option<&'w Walk<'l, 'a, T>>,
    /// The offset of the relocation that belongs to the sequence rewritten last, and what becomes of it.
    taken: Option<(u64, Option<Rewritten>)>,
}

impl<T: Target> Rewritings<'_, '_, '_, T> {
    /// What describes the instruction of the first of these relocations, if its type no longer does. The
    /// others follow it in the input.
    fn of(&mut self, relocations: &[Rela<T::E>]) -> Option<Rewritten> {
        let walk = self.walk?;
        let at = relocations.first()?.r_offset.get();
        if let Some((offset, rewritten)) = self.taken.take()
            && offset == at
        {
            return rewritten;
        }
        let mut sequence = Sequence { link: self.link, walk, found: None };
        walk.each(&relocations[..relocations.len().min(2)], &mut sequence);
        let (offset, takes_next, [first, second]) = sequence.found?;
        if offset != at {
            return None;
        }
        self.taken = relocations.get(1).filter(|_| takes_next).map(|next| (next.r_offset.get(), second));
        first
    }
}

/// Where a reference leads with `--branch-to-branch`, if elsewhere than the relocation says.
fn shortcut<'l, 'a, T: Target>(
    link: &'l Placed<'a, T>,
    walk: &Walk<'l, 'a, T>,
    section: SectionId,
    relocation: &Rela<T::E>,
) -> Option<Shortcut<'l, 'a, T>> {
    let object = walk.object;
    let symbol = relocation.symbol();
    if !link.config.relocations.branch_to_branch || symbol as usize >= object.symbols.len() {
        return None;
    }
    let info = T::reloc_info(relocation.kind())?;
    let (offset, addend) = (relocation.r_offset.get(), relocation.r_addend.get());
    shortcuts::find(link, shortcuts::Reference { object, section, info, offset, symbol, addend })
}

/// A visitor that records how the linker rewrites the instructions of the first relocation that it sees.
struct Sequence<'w, 'l, 'a, T: Target> {
    link: &'l Placed<'a, T>,
    walk: &'w Walk<'l, 'a, T>,
    /// Its offset, whether the next relocation belongs to the same instructions, and what describes both.
    found: Option<(u64, bool, [Option<Rewritten>; 2])>,
}

impl<T: Target> Visitor<T> for Sequence<'_, '_, '_, T> {
    fn decided(&mut self, relocation: Decided<'_, T>) {
        let Decided { info, offset, index, symbol, addend, action, .. } = relocation;
        let Some(edit) = action.edit.filter(|_| self.found.is_none()) else { return };
        let target = address::target(self.link, self.walk.object, index, symbol, addend);
        let place = address::place(self.link, self.walk.section, offset);
        let distance = target.wrapping_sub(place) as i64;
        self.found = Some((offset, action.takes_next, T::relocations_of_edit(info, edit, distance)));
    }

    fn undecided(&mut self, _: Undecided<'_, T>) {}
}

/// Whether a section is the linker's own `.eh_frame`. Only final links have it.
fn is_made_of_frames<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let row = link.synthetic_row(id);
    row.is_some_and(|row| link.synthetics.section(row).kind == Kind::EhFrame)
}

/// Calls `visit` for each relocation of the kept `.eh_frame` records, in their order, with its offset in the
/// output's `.eh_frame`.
fn for_each_of_frames<'l, 'a, T: Target>(
    link: &'l Contents<'a, T>,
    mut visit: impl FnMut(&'l ObjectFile<'a, T::E>, &Rela<T::E>, u64),
) {
    let files = link.objects.iter().zip(&link.frames.files).zip(&link.kept_frames.files);
    for ((object, frames), kept) in files {
        for record in kept.all_records(frames) {
            for relocation in record.relocations.iter().filter(|entry| !is_dropped(link, object, entry)) {
                let offset = relocation.r_offset.get().wrapping_sub(record.input);
                visit(object, relocation, record.output.wrapping_add(offset));
            }
        }
    }
}

/// Writes tombstones into a section that is not loaded, for the fields whose relocations are dropped (`-r`).
/// A later link cannot know that these fields referred to anything.
pub fn write_tombstones<T: Target>(link: &Placed<'_, T>, id: SectionId, out: &mut [u8]) {
    let Some((object, index)) = link.locate(id) else { return };
    if is_alloc(object.headers[index as usize].sh_flags.get()) {
        return;
    }
    for relocation in object.relocations(index as usize) {
        if is_dropped(link, object, relocation)
            && let Some(info) = T::reloc_info(relocation.kind())
            && let Ok(at) = usize::try_from(relocation.r_offset.get())
            && let Some(field) = out.get_mut(at..at.saturating_add(info.size.into()))
        {
            let value = match Tombstone::of_section(link, object.section_name(index as usize)) {
                Tombstone::Value(value) => value as i64,
                Tombstone::Addend => relocation.r_addend.get(),
            };
            T::write_field(info.field, field, value);
        }
    }
}

/// Calls `visit` for each relocation of an input section that the output has, in input order, with those that
/// follow it. The flag says whether the relocation keeps its meaning. Otherwise it becomes `R_*_NONE`.
fn for_each_kept<'l, 'a, T: Target>(
    link: &'l Contents<'a, T>,
    id: SectionId,
    mut visit: impl FnMut(&'l ObjectFile<'a, T::E>, &[Rela<T::E>], bool),
) {
    let Some((object, index)) = link.locate(id) else { return };
    let frames = link.frames.files.get(object.id.index());
    if let Some(frames) = frames
        && let Some(section) = frames.section(index).map(|row| &frames.sections[row])
    {
        let fdes = frames.fdes.get(section.fdes.start as usize..section.fdes.end as usize);
        let mut dead = fdes.unwrap_or_default().iter().filter(|fde| is_dead(link, fde.function)).peekable();
        for (row, relocation) in section.relocations.iter().enumerate() {
            while dead.next_if(|fde| fde.end_relocation as usize <= row).is_some() {}
            let described = dead.peek().is_none_or(|fde| (fde.first_relocation as usize) > row);
            let alive = described && !is_dropped(link, object, relocation);
            visit(object, &section.relocations[row..], alive);
        }
        return;
    }
    let is_sframe = link.is_sframe_section(id);
    let counted = call_graph::is_profile(&object.headers[index as usize])
        || (is_sframe && link.config.is_relocatable());
    let relocations = object.relocations(index as usize);
    for (row, relocation) in relocations.iter().enumerate() {
        let dead = if is_sframe { is_of_dead_row } else { is_dropped };
        let alive = !dead(link, object, relocation);
        if alive || counted {
            visit(object, &relocations[row..], alive);
        }
    }
}

fn is_dead<T: Target>(link: &Contents<'_, T>, function: SectionId) -> bool {
    function.is_some() && !link.sections.is_in_output(function)
}

/// The index of an object's symbol in the output's symbol table, and the addend for that symbol.
fn remap<T: Target>(
    link: &Placed<'_, T>,
    object: &ObjectFile<'_, T::E>,
    symbol: u32,
    addend: i64,
) -> (u32, i64) {
    if symbol == 0 {
        return (0, addend);
    }
    let id = object.symbol_id(symbol);
    let index = link.symtab.index_of.get(id.index()).copied().unwrap_or(0);
    if index != 0 {
        return (index, addend);
    }
    through_section(link, object, symbol, id, addend).unwrap_or((0, addend))
}

/// The target of a relocation, as the section symbol of its output section and an addend. `None`: the target
/// is not in the output.
fn through_section<T: Target>(
    link: &Placed<'_, T>,
    object: &ObjectFile<'_, T::E>,
    symbol: u32,
    id: SymbolId,
    addend: i64,
) -> Option<(u32, i64)> {
    let (section, value) = if link.globals.contains(id) {
        link.symbol_section(id)?
    } else {
        match object.symbol_place(symbol as usize) {
            SymbolPlace::Section(section) => {
                (object.section_id(section), object.symbols[symbol as usize].st_value.get())
            }
            SymbolPlace::Absolute => {
                return Some((
                    0,
                    addend.wrapping_add_unsigned(object.symbols[symbol as usize].st_value.get()),
                ));
            }
            _ => return None,
        }
    };
    // With the section symbol of an absorbed section, the addend selects the piece.
    let chooses = link.sections.is(section, SectionState::ABSORBED)
        && object.symbols.get(symbol as usize).is_some_and(|symbol| symbol.kind() == elf::STT_SECTION);
    let (chosen, rest) = if chooses { (value.wrapping_add_signed(addend), 0) } else { (value, addend) };
    let (section, offset) = link.final_place(section, chosen)?;
    let index = link.symtab.section_symbol.get(link.output_chunk(section)?.index()).copied()?;
    let offset = link.layout.offset_of(section).wrapping_add(offset);
    Some((index, rest.wrapping_add_unsigned(offset)))
}
