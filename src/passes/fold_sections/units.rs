//! The units that `--icf` compares.
//!
//! A unit is a section together with its frame records, the `SHF_LINK_ORDER` sections that depend on it, and
//! the rows that SFrame inputs have for it (`described`). Each of these but the rows is a *part*: bytes and
//! relocations. The target of a relocation is either known at once (a symbol, a place), or it lies in another
//! unit. Which class that unit belongs to, `classes` finds out.

use super::described::FunctionsByPlace;
use crate::arch::Target;
use crate::arch::relocation::{RelocExpr, SymbolFacts};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::frames::eh_frame::unwinding_of;
use crate::ids::{OutputId, SectionId, StatementId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::input::{SectionClass, SectionInfo};
use crate::layout::link_order::{Dependents, dependents_of};
use crate::merge::Pieces;
use crate::passes::merge_strings::piece_at;
use crate::phase::facts::facts;
use crate::phase::{Bound, SectionStates};
use foldhash::fast::FixedState;
use parallel::ParallelSlice;
use std::hash::{BuildHasher, Hash, Hasher};
use std::iter;
use zerocopy::byteorder::ByteOrder;

/// No row.
const NONE: u32 = u32::MAX;

/// Access to the parts of units, before the pass knows which units may be equal.
pub(super) struct Shapes<'s, 'a, T: Target> {
    pub(super) link: &'s Bound<'a, T>,
    pub(super) sections: &'s SectionStates,
    pub(super) dependents: &'s Dependents,
    pub(super) described: &'s FunctionsByPlace<'s>,
}

/// A part of a unit.
struct Part<'s, E: ByteOrder> {
    header: Header<'s>,
    bytes: &'s [u8],
    /// Offset of `bytes` in its section, from whose start `r_offset` counts.
    start: u64,
    relocations: &'s [Rela<E>],
}

/// The header fields that must be equal, too.
#[derive(PartialEq, Eq, Hash)]
struct Header<'s> {
    sh_type: u32,
    flags: u64,
    /// The alignment of a dependent, in bytes. The section itself has 0 here, because the leader gets the
    /// largest alignment.
    align: u64,
    /// The output section: its row in the plan, or the section's name if it is an orphan.
    output: Result<OutputId, &'s [u8]>,
    /// The input statement, if the user's script replaces the default one: a script may define symbols before
    /// and behind a statement, which then enclose code of one kind.
    statement: Option<StatementId>,
}

impl<'s> Header<'s> {
    const OF_RECORD: Header<'static> =
        Header { sh_type: 0, flags: 0, align: 0, output: Err(b""), statement: None };
}

impl<'s, 'a, T: Target> Shapes<'s, 'a, T> {
    /// The live `SHF_LINK_ORDER` sections that depend on a section.
    pub(super) fn dependents(&self, id: SectionId) -> impl Iterator<Item = SectionId> + use<'s, 'a, T> {
        let sections = self.sections;
        dependents_of(self.dependents, id).filter(|&dependent| sections.is_alive(dependent))
    }

    /// Alignment of a section in bytes.
    pub(super) fn align(&self, id: SectionId) -> u64 {
        self.link.section_info(id).align
    }

    /// The hash of a unit's headers and bytes, and of the places and types of its relocations. The targets do
    /// not count.
    pub(super) fn hash(&self, id: SectionId) -> u64 {
        let mut hasher = FixedState::with_seed(0x1cf).build_hasher();
        for part in self.parts(id) {
            part.header.hash(&mut hasher);
            part.bytes.hash(&mut hasher);
            for relocation in part.relocations {
                hasher.write_u64(relocation.r_offset.get().wrapping_sub(part.start));
                hasher.write_u32(relocation.kind());
            }
        }
        self.described.of(id).for_each(|function| function.hash(&mut hasher));
        hasher.finish()
    }

    /// The parts of a unit: the section, its frames, its dependents.
    fn parts(&self, id: SectionId) -> impl Iterator<Item = Part<'s, T::E>> + use<'s, 'a, T> {
        let link = self.link;
        let object = link.locate(id).map(|(object, _)| object);
        let frames = object.and_then(|object| link.frames.files.get(object.id.index()));
        let records = unwinding_of(frames, id).map(|record| Part {
            header: Header::OF_RECORD,
            bytes: record.bytes,
            start: record.start,
            relocations: record.relocations,
        });
        let dependents = self.dependents(id).map(move |dependent| {
            let mut part = section_part(link, dependent);
            part.header.align = link.section_info(dependent).align;
            part
        });
        iter::once(section_part(link, id)).chain(records).chain(dependents)
    }
}

/// A section as a part of a unit.
fn section_part<'s, T: Target>(link: &'s Bound<'_, T>, id: SectionId) -> Part<'s, T::E> {
    // Flags about groups and relocation sections do not change what the section is.
    let irrelevant = elf::SHF_GROUP | elf::SHF_INFO_LINK;
    let SectionInfo { name, sh_type, flags, .. } = link.section_info(id);
    let rule = link.rules[id.index()].map(|rule| link.plan.rule(rule));
    let output = rule.map_or(Err(name), |rule| Ok(rule.output));
    let statement = rule.filter(|_| link.plan.replaces_default).and_then(|rule| rule.statement);
    let header = Header { sh_type, flags: flags & !irrelevant, align: 0, output, statement };
    let (bytes, relocations) = match link.locate(id) {
        Some((object, index)) => {
            (object.section_bytes(index as usize).unwrap_or_default(), object.relocations(index as usize))
        }
        None => Default::default(),
    };
    Part { header, bytes, start: 0, relocations }
}

/// The target of a relocation.
#[derive(PartialEq, Eq, Hash)]
enum Referent<'s> {
    /// A number.
    Number(i64),
    /// A number by its GOT slot or the like, and the addend, which counts from there.
    Slot(u64, i64),
    /// A symbol that stands for itself and not for a place in this output (imported, undefined, with a
    /// resolver), and the addend.
    Symbol(SymbolId, i64),
    /// An offset in a section that is not folded, and the addend if it counts from a GOT slot and not from
    /// there.
    Place(SectionId, u64, i64),
    /// The same in a section of a unit, given by the section's number in the unit. The classes of units are
    /// compared apart.
    Unit(u32, u64, i64),
    /// The same in a mergeable string or constant, which is merged with equal ones. A reference into a long
    /// string is a [`Referent::Place`].
    Piece(Pieces, &'s [u8], u64, i64),
}

/// The units that share their hash with another unit, by row.
pub(super) struct Units<'u, 's, 'a, T: Target> {
    shapes: &'u Shapes<'s, 'a, T>,
    /// The section of each unit, and its [`Shapes::hash`].
    rows: &'u [(SectionId, u64)],
    /// For each section, the row of its unit, or [`NONE`], and the number of the section in its unit.
    row_of: Vec<(u32, u32)>,
    /// The link merges mergeable pieces (not with `-O0`).
    merges: bool,
}

impl<'u, 's, 'a, T: Target> Units<'u, 's, 'a, T> {
    /// The units of these sections.
    pub(super) fn new(shapes: &'u Shapes<'s, 'a, T>, rows: &'u [(SectionId, u64)]) -> Self {
        let link = shapes.link;
        let mut row_of = vec![(NONE, 0); link.first_internal() as usize];
        for (row, &(id, _)) in (0..).zip(rows) {
            row_of[id.index()] = (row, 0);
            for (number, dependent) in (1..).zip(shapes.dependents(id)) {
                row_of[dependent.index()] = (row, number);
            }
        }
        Units { shapes, rows, row_of, merges: link.config.layout.optimization > 0 }
    }

    /// The hash of each unit, by row: from [`Shapes::hash`] and from the targets, as far as classes do not
    /// decide them.
    pub(super) fn hashes(&self) -> Vec<u64> {
        let hash = |&(id, look): &(SectionId, u64)| {
            let mut hasher = FixedState::with_seed(0x1cf).build_hasher();
            hasher.write_u64(look);
            self.referents(id).for_each(|(referent, _)| referent.hash(&mut hasher));
            hasher.finish()
        };
        self.rows.par_iter().map(hash).collect()
    }

    /// Whether two units are equal, apart from the classes that they refer to.
    pub(super) fn are_alike(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.rows[a as usize].0, self.rows[b as usize].0);
        let of = |part: &Part<'s, T::E>| {
            let start = part.start;
            part.relocations.iter().map(move |it| (it.r_offset.get().wrapping_sub(start), it.kind()))
        };
        let same_part = |a: &Part<'s, T::E>, b: &Part<'s, T::E>| {
            a.header == b.header && a.bytes == b.bytes && of(a).eq(of(b))
        };
        let (mut of_a, mut of_b) = (self.shapes.parts(a), self.shapes.parts(b));
        let same_parts = loop {
            match (of_a.next(), of_b.next()) {
                (None, None) => break true,
                (Some(a), Some(b)) if same_part(&a, &b) => {}
                _ => break false,
            }
        };
        let referents = |id| self.referents(id).map(|(referent, _)| referent);
        let described = |id| self.shapes.described.of(id);
        same_parts && described(a).eq(described(b)) && referents(a).eq(referents(b))
    }

    /// Adds the rows of the units that a unit refers to, in the order of its relocations.
    pub(super) fn targets(&self, row: u32, targets: &mut Vec<u32>) {
        let rows = self.referents(self.rows[row as usize].0).map(|(_, row)| row);
        targets.extend(rows.filter(|&row| row != NONE));
    }

    /// The targets of a unit's relocations, each with the row of its [`Referent::Unit`], or with [`NONE`].
    fn referents(&self, id: SectionId) -> impl Iterator<Item = (Referent<'s>, u32)> {
        let object = self.shapes.link.locate(id).map(|(object, _)| object);
        object.into_iter().flat_map(move |object| {
            let relocations = self.shapes.parts(id).flat_map(|part| part.relocations);
            relocations.map(move |relocation| self.referent(object, relocation))
        })
    }

    fn referent(&self, object: &ObjectFile<'a, T::E>, relocation: &Rela<T::E>) -> (Referent<'s>, u32) {
        let link = self.shapes.link;
        let (index, addend) = (relocation.symbol(), relocation.r_addend.get());
        if index == 0 {
            return (Referent::Number(addend), NONE);
        }
        let id = object.symbol_id(index);
        let as_symbol = (Referent::Symbol(id, addend), NONE);
        let Some(info) = T::reloc_info(relocation.kind()).filter(|info| info.expr != RelocExpr::Size) else {
            return as_symbol;
        };
        let Some(symbol) = object.symbols.get(index as usize) else { return as_symbol };
        if facts(link, index, id).intersects(APART) {
            return as_symbol;
        }
        // The addend of an address or a distance counts from the symbol. Other addends count from a GOT slot.
        let sum = info.expr.is_sum();
        let Some((section, value)) = link.referenced_section(object, index) else {
            return match self.number(id) {
                Some(number) if sum => (Referent::Number(number.wrapping_add_signed(addend) as i64), NONE),
                Some(number) => (Referent::Slot(number, addend), NONE),
                None => as_symbol,
            };
        };
        if link.class_of(section).contains(SectionClass::MERGE) {
            let chooses = sum && symbol.kind() == elf::STT_SECTION;
            let (chosen, rest) =
                if chooses { (value.wrapping_add_signed(addend), 0) } else { (value, addend) };
            if let Some(referent) = self.piece(section, chosen, rest) {
                return (referent, NONE);
            }
        }
        let (offset, addend) = if sum { (value.wrapping_add_signed(addend), 0) } else { (value, addend) };
        match self.row_of[section.index()] {
            (NONE, _) => (Referent::Place(section, offset, addend), NONE),
            (row, number) => (Referent::Unit(number, offset, addend), row),
        }
    }

    /// The number that an object gives a symbol; `None` if the symbol is no number, or a script assigns it.
    fn number(&self, id: SymbolId) -> Option<u64> {
        let (file, index) = self.shapes.link.symbol_entry(id)?;
        let object = &self.shapes.link.objects[file.index()];
        let is_number = object.symbol_place(index as usize) == SymbolPlace::Absolute;
        is_number.then(|| object.symbols[index as usize].st_value.get())
    }

    fn piece(&self, section: SectionId, offset: u64, addend: i64) -> Option<Referent<'s>> {
        let link = self.shapes.link;
        let (object, index) = link.locate(section).filter(|_| self.merges)?;
        let (kind, bytes, start) = piece_at(object, index as usize, offset)?;
        Some(Referent::Piece(kind, bytes, offset - start, addend))
    }
}

/// The facts that make a symbol stand for itself and not for a place in this output.
const APART: SymbolFacts = SymbolFacts::IMPORTED
    .union(SymbolFacts::IFUNC)
    .union(SymbolFacts::DISCARDED)
    .union(SymbolFacts::UNDEFINED);
