//! Where debug information says in numbers how far code reaches, and code that reaches less far.
//!
//! An address in debug information has a relocation, but a length has none: the compiler knows it. If the end
//! of a section of code goes (`--optimize-bb-jumps`), such lengths would reach into the code behind it. A
//! debugger then finds two lines for one address, or none behind the end of the first. The linker writes the
//! shorter length in place, with as many bytes as before:
//!
//! - `.debug_line`: the advance to the end of a sequence;
//! - `.debug_rnglists` and `.debug_loclists` (DWARF 5): lengths, and distances from a base;
//! - `.debug_info`: `DW_AT_high_pc` as a length;
//! - `.debug_aranges`: lengths.
//!
//! What cannot be read stays as it is; no message tells of it, because nothing is wrong with the program.

use super::dwarf::{Dwarf, Section, Unit, place};
use super::object;
use super::units::{self, Tables};
use super::view::Debugged;
use crate::elf::is_alloc;
use crate::input::measure::Budget;
use gimli::{EndianSlice, Format, Reader, RunTimeEndian};

type Bytes<'d> = EndianSlice<'d, RunTimeEndian>;
/// The header index of a section, and an offset in it.
type Place = (u32, u64);

/// The sections of an object that change, each by its header index with its new bytes. `size` gives the new
/// size of a section of code, by its header index, if its end goes.
pub fn shortened(object: &dyn Debugged<'_>, size: &dyn Fn(u32) -> Option<u64>) -> Vec<(usize, Vec<u8>)> {
    let mut code = Code { object, size, addresses: None };
    let is_debug = |&index: &usize| !is_alloc(object.section_flags(index));
    let named = |name: &[u8]| -> Vec<usize> {
        let is_named = |&index: &usize| object.section_name(index) == name;
        (1..object.section_count()).filter(is_debug).filter(is_named).collect()
    };
    if let [table] = named(b".debug_addr")[..] {
        code.addresses = Some(table);
    }
    let lines = named(b".debug_line").into_iter().map(|index| (index, code.lines(index)));
    let ranges = named(b".debug_rnglists").into_iter().map(|index| (index, code.lists(index, false)));
    let locations = named(b".debug_loclists").into_iter().map(|index| (index, code.lists(index, true)));
    let tables = named(b".debug_aranges").into_iter().map(|index| (index, code.table(index)));
    let entries = entries(&code);
    let found = lines.chain(ranges).chain(locations).chain(tables).chain(entries);
    let found = found.filter(|(_, patches)| !patches.is_empty());
    found.map(|(index, patches)| (index, patched(code.bytes(index), &patches))).collect()
}

/// Other bytes at an offset.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Patch {
    at: usize,
    bytes: Vec<u8>,
}

impl Patch {
    /// A number of so many bytes.
    fn of_word(endian: RunTimeEndian, at: usize, width: usize, value: u64) -> Self {
        let bytes = match endian {
            RunTimeEndian::Little => value.to_le_bytes()[..width].to_vec(),
            RunTimeEndian::Big => value.to_be_bytes()[8 - width..].to_vec(),
        };
        Patch { at, bytes }
    }
}

fn patched(bytes: &[u8], patches: &[Patch]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for patch in patches {
        if let Some(place) = changed.get_mut(patch.at..patch.at + patch.bytes.len()) {
            place.copy_from_slice(&patch.bytes);
        }
    }
    changed
}

/// A ULEB128 number, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Number {
    at: usize,
    length: usize,
    value: u64,
}

impl Number {
    fn read(rest: &mut Bytes<'_>, whole: &Bytes<'_>) -> gimli::Result<Self> {
        let at = rest.offset_from(*whole);
        let value = rest.read_uleb128()?;
        Ok(Number { at, length: rest.offset_from(*whole) - at, value })
    }

    /// A smaller number in as many bytes.
    fn replaced(self, value: u64) -> Patch {
        let byte = |index: usize| {
            let bits = value.checked_shr(7 * index as u32).unwrap_or(0) as u8 & 0x7f;
            if index + 1 < self.length { bits | 0x80 } else { bits }
        };
        Patch { at: self.at, bytes: (0..self.length).map(byte).collect() }
    }
}

/// The code of an object, some of whose sections lose their ends.
struct Code<'o, 'a> {
    object: &'o dyn Debugged<'a>,
    size: &'o dyn Fn(u32) -> Option<u64>,
    /// The header index of `.debug_addr`, if there is only one.
    addresses: Option<usize>,
}

impl<'a> Code<'_, 'a> {
    fn bytes(&self, index: usize) -> &'a [u8] {
        self.object.section_bytes(index).unwrap_or_default()
    }

    fn whole(&self, index: usize) -> Bytes<'a> {
        EndianSlice::new(self.bytes(index), self.object.endian())
    }

    /// The section, if its relocations are sorted, as compilers leave them.
    fn relocations(&self, section: usize) -> Option<usize> {
        self.object.relocation_order(section).is_none().then_some(section)
    }

    /// The place that an address in a debug section means.
    fn place(&self, relocations: Option<usize>, offset: usize) -> Option<Place> {
        let section = relocations?;
        let row = self.object.relocation_at(section, offset as u64)?;
        let (target, value) = self.object.relocation_target(section, row)?;
        Some((target?, value))
    }

    /// How many of the bytes before `end` of a section go, if that is its old end.
    fn excess(&self, (section, end): Place) -> Option<u64> {
        let size = (self.size)(section)?;
        let old = self.object.section_size(section as usize)?;
        (size < end && end <= old).then(|| end - size)
    }

    /// The changes of a `.debug_line` section.
    fn lines(&self, index: usize) -> Vec<Patch> {
        let (whole, relocations) = (self.whole(index), self.relocations(index));
        let mut patches = Vec::new();
        let mut rest = whole;
        while let Ok((unit, format)) = unit(&mut rest) {
            if let Ok(Some((program, form))) = LineForm::read(unit, format) {
                let mut lines = Lines { code: self, whole, relocations, form, patches: &mut patches };
                // A program that cannot be read ends the search in its unit.
                let _ = lines.run(program);
            }
        }
        patches
    }

    /// The changes of a section of lists of ranges, or of locations.
    fn lists(&self, index: usize, locations: bool) -> Vec<Patch> {
        let (whole, relocations) = (self.whole(index), self.relocations(index));
        let mut patches = Vec::new();
        let mut rest = whole;
        while let Ok((unit, format)) = unit(&mut rest) {
            let mut lists = Lists { code: self, whole, relocations, locations, base: None };
            let _ = lists.run(unit, format, &mut patches);
        }
        patches
    }

    /// The changes of a `.debug_aranges` section.
    fn table(&self, index: usize) -> Vec<Patch> {
        const ADDRESS: usize = 8;
        let (whole, relocations) = (self.whole(index), self.relocations(index));
        let mut patches = Vec::new();
        let mut rest = whole;
        while let Ok((mut unit, format)) = unit(&mut rest) {
            // Behind the version, the unit and two sizes, pairs stand at multiples of their size.
            let header = usize::from(format.initial_length_size()) + 2 + usize::from(format.word_size()) + 2;
            let padding = header.next_multiple_of(2 * ADDRESS) - usize::from(format.initial_length_size());
            if unit.skip(padding).is_err() {
                continue;
            }
            while let (at, Ok(_), Ok(length)) = (unit.offset_from(whole), unit.read_u64(), unit.read_u64()) {
                let place = self.place(relocations, at);
                let end = place.and_then(|(section, start)| Some((section, start.checked_add(length)?)));
                let left = end.and_then(|end| length.checked_sub(self.excess(end)?));
                patches.extend(left.map(|left| Patch::of_word(whole.endian(), at + ADDRESS, ADDRESS, left)));
            }
        }
        patches
    }

    /// The place of an entry of `.debug_addr`. The table must be that of one unit.
    fn indexed(&self, number: u64) -> Option<Place> {
        /// The bytes in front of the first address, and those of an address.
        const HEADER: u64 = 8;
        const ADDRESS: u64 = 8;
        let table = self.addresses?;
        let mut rest = self.whole(table);
        unit(&mut rest).ok()?;
        let offset = number.checked_mul(ADDRESS)?.checked_add(HEADER)?;
        rest.is_empty().then(|| self.place(self.relocations(table), usize::try_from(offset).ok()?))?
    }
}

/// The changes of entries: those of `.debug_info` sections, each with its header index. Entries that use the
/// same bytes beyond measure stay as they are.
fn entries(code: &Code<'_, '_>) -> Vec<(usize, Vec<Patch>)> {
    let sections = object::debug_sections(code.object, &|_| true);
    let mut measure = Budget::of(sections.iter().map(|section| section.bytes.len() as u64).sum());
    let empty = Section::empty(code.object);
    let find = |name: &str| sections.iter().find(|section| section.name == name).unwrap_or(&empty);
    let Ok(mut dwarf) = gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(find(id.name()).reader())) else {
        return Vec::new();
    };
    let (mut tables, mut found) = (Tables::default(), Vec::new());
    for section in sections.iter().filter(|section| section.name == ".debug_info") {
        dwarf.debug_info = section.reader().into();
        let (mut units, mut patches) = (dwarf.units(), Vec::new());
        while let Ok(Some(header)) = units.next() {
            if let Ok(unit) = tables.unit(&dwarf, header, &mut measure) {
                let _ = entries_of(code, &dwarf, &unit, &mut measure, &mut patches);
            }
            if measure.is_spent() {
                return Vec::new();
            }
        }
        found.push((section.index as usize, patches));
    }
    found
}

/// The changes of a unit's entries.
fn entries_of<'s, 'a>(
    code: &Code<'_, 'a>,
    dwarf: &Dwarf<'s, 'a>,
    unit: &Unit<'s, 'a>,
    measure: &mut Budget,
    patches: &mut Vec<Patch>,
) -> units::Result<()> {
    let mut entries = unit.header.entries_raw(&unit.abbreviations, None)?;
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        measure.take(abbreviation.attributes().len() as u64)?;
        let (mut low, mut high) = (None, None);
        for &specification in abbreviation.attributes() {
            let at = unit.header.offset().0 + entries.next_offset().0;
            let attribute = entries.read_attribute(specification)?;
            let length = unit.header.offset().0 + entries.next_offset().0 - at;
            match attribute.name() {
                gimli::DW_AT_low_pc => low = dwarf.attr_address(unit, attribute.value())?,
                gimli::DW_AT_high_pc => {
                    let value = attribute.udata_value();
                    high = value.map(|value| (specification.form(), Number { at, length, value }));
                }
                _ => {}
            }
        }
        let (Some((section, start)), Some((form, high))) = (low.and_then(place), high) else { continue };
        let excess = start.checked_add(high.value).and_then(|end| code.excess((section, end)));
        let left = excess.and_then(|excess| high.value.checked_sub(excess));
        patches.extend(left.and_then(|left| match form {
            gimli::DW_FORM_udata => Some(high.replaced(left)),
            gimli::DW_FORM_data1 | gimli::DW_FORM_data2 | gimli::DW_FORM_data4 | gimli::DW_FORM_data8 => {
                Some(Patch::of_word(code.object.endian(), high.at, high.length, left))
            }
            _ => None,
        }));
    }
    Ok(())
}

/// Takes the next unit of a section, behind its length.
fn unit<'d>(rest: &mut Bytes<'d>) -> gimli::Result<(Bytes<'d>, Format)> {
    let (length, format) = rest.read_initial_length()?;
    Ok((rest.split(length)?, format))
}

/// How a line number program encodes its advances.
#[derive(Clone, Copy)]
struct LineForm<'d> {
    line_base: i8,
    line_range: u8,
    opcode_base: u8,
    /// The number of operands of each standard opcode, from 1 on.
    operands: Bytes<'d>,
}

impl<'d> LineForm<'d> {
    /// The program of a unit and its form; `None` if its instructions have more than one size or operation.
    fn read(mut unit: Bytes<'d>, format: Format) -> gimli::Result<Option<(Bytes<'d>, Self)>> {
        let version = unit.read_u16()?;
        if !(2..=5).contains(&version) {
            return Ok(None);
        }
        if version == 5 {
            unit.skip(2)?;
        }
        let length = unit.read_length(format)?;
        let mut header = unit.split(length)?;
        let instruction = header.read_u8()?;
        let operations = if version >= 4 { header.read_u8()? } else { 1 };
        header.skip(1)?;
        let (line_base, line_range, opcode_base) = (header.read_i8()?, header.read_u8()?, header.read_u8()?);
        let operands = header.split(usize::from(opcode_base.saturating_sub(1)))?;
        let plain = instruction == 1 && operations == 1 && line_range > 0;
        Ok(plain.then_some((unit, LineForm { line_base, line_range, opcode_base, operands })))
    }

    /// The bytes by which a special opcode advances the address.
    fn advance(&self, opcode: u8) -> u64 {
        u64::from((opcode - self.opcode_base) / self.line_range)
    }

    /// The special opcode that advances the address, and not the line.
    fn special(&self, advance: u64) -> Option<u8> {
        let line = u64::try_from(-i64::from(self.line_base)).ok()?;
        let opcode = advance.checked_mul(self.line_range.into())?.checked_add(line)?;
        let opcode = opcode.checked_add(self.opcode_base.into())?;
        u8::try_from(opcode).ok().filter(|_| line < u64::from(self.line_range))
    }
}

/// The last advance of the address since the last row.
#[derive(Clone, Copy)]
enum Advance {
    None,
    /// `DW_LNS_advance_pc`.
    Number(Number),
    /// `DW_LNS_fixed_advance_pc`: the offset of its operand, and that.
    Fixed(usize, u16),
    /// `DW_LNS_const_add_pc`: its offset.
    Constant(usize),
}

/// Reads line number programs.
struct Lines<'l, 'o, 'a> {
    code: &'l Code<'o, 'a>,
    whole: Bytes<'a>,
    /// The section, if its relocations are sorted.
    relocations: Option<usize>,
    form: LineForm<'a>,
    patches: &'l mut Vec<Patch>,
}

impl<'a> Lines<'_, '_, 'a> {
    fn run(&mut self, mut program: Bytes<'a>) -> gimli::Result<()> {
        let mut place: Option<Place> = None;
        let mut last = Advance::None;
        while !program.is_empty() {
            let at = program.offset_from(self.whole);
            let opcode = program.read_u8()?;
            let mut advance = 0;
            match opcode {
                0 => match self.extended(&mut program)? {
                    Extended::End => {
                        self.end(place.take(), last);
                        last = Advance::None;
                    }
                    Extended::Address(set) => (place, last) = (set, Advance::None),
                    Extended::Other => {}
                },
                _ if opcode >= self.form.opcode_base => {
                    (advance, last) = (self.form.advance(opcode), Advance::None);
                }
                1 => last = Advance::None,
                2 => {
                    let number = Number::read(&mut program, &self.whole)?;
                    (advance, last) = (number.value, Advance::Number(number));
                }
                8 => (advance, last) = (self.form.advance(u8::MAX), Advance::Constant(at)),
                9 => {
                    let bytes = program.read_u16()?;
                    (advance, last) = (bytes.into(), Advance::Fixed(at + 1, bytes));
                }
                _ => {
                    let count = self.form.operands.get(usize::from(opcode) - 1).copied().unwrap_or(0);
                    for _ in 0..count {
                        program.read_uleb128()?;
                    }
                }
            }
            place = place.map(|(section, offset)| (section, offset.wrapping_add(advance)));
        }
        Ok(())
    }

    fn extended(&self, program: &mut Bytes<'a>) -> gimli::Result<Extended> {
        let length = program.read_uleb128()?;
        let length = usize::try_from(length).map_err(|_| gimli::Error::UnsupportedOffset)?;
        let mut operands = program.split(length)?;
        Ok(match operands.read_u8() {
            Ok(1) => Extended::End,
            Ok(2) => Extended::Address(self.code.place(self.relocations, operands.offset_from(self.whole))),
            _ => Extended::Other,
        })
    }

    /// Ends a sequence earlier, if it ends where the old end of a section was.
    fn end(&mut self, place: Option<Place>, last: Advance) {
        let Some(excess) = place.and_then(|place| self.code.excess(place)) else { return };
        let patch = match last {
            Advance::None => None,
            Advance::Number(number) => number.value.checked_sub(excess).map(|value| number.replaced(value)),
            Advance::Fixed(at, bytes) => {
                let left = u64::from(bytes).checked_sub(excess);
                left.map(|left| Patch::of_word(self.whole.endian(), at, 2, left))
            }
            // One byte has no room for the other instructions. A special opcode adds a row, of no bytes.
            Advance::Constant(at) => {
                let left = self.form.advance(u8::MAX).checked_sub(excess);
                let opcode = left.and_then(|left| self.form.special(left));
                opcode.map(|opcode| Patch { at, bytes: vec![opcode] })
            }
        };
        self.patches.extend(patch);
    }
}

/// An extended opcode.
enum Extended {
    End,
    Address(Option<Place>),
    Other,
}

/// Reads lists of ranges or of locations.
struct Lists<'l, 'o, 'a> {
    code: &'l Code<'o, 'a>,
    whole: Bytes<'a>,
    /// The section, if its relocations are sorted.
    relocations: Option<usize>,
    locations: bool,
    /// What distances count from, if the list says it.
    base: Option<Place>,
}

impl<'a> Lists<'_, '_, 'a> {
    fn run(&mut self, mut unit: Bytes<'a>, format: Format, patches: &mut Vec<Patch>) -> gimli::Result<()> {
        let (version, address_size, _) = (unit.read_u16()?, unit.read_u8()?, unit.read_u8()?);
        if version != 5 || address_size != 8 {
            return Ok(());
        }
        let offsets = u64::from(unit.read_u32()?) * u64::from(format.word_size());
        unit.skip(usize::try_from(offsets).map_err(|_| gimli::Error::UnsupportedOffset)?)?;
        while !unit.is_empty() {
            patches.extend(self.entry(&mut unit)?);
        }
        Ok(())
    }

    /// Reads one entry. Returns the change if it reaches behind the new end of a section.
    fn entry(&mut self, unit: &mut Bytes<'a>) -> gimli::Result<Option<Patch>> {
        // Of the codes of locations, one more stands for those without an address (DWARF 5, 7.7.3 and 7.25).
        const DEFAULT: u8 = 5;
        let code = unit.read_u8()?;
        let is_default = self.locations && code == DEFAULT;
        let form = if self.locations && code > DEFAULT { code - 1 } else { code };
        let number = |unit: &mut Bytes<'a>| Number::read(unit, &self.whole);
        let mut patch = None;
        match form {
            _ if is_default => {}
            0 => self.base = None,
            1 => self.base = self.code.indexed(unit.read_uleb128()?),
            2 => _ = (unit.read_uleb128()?, unit.read_uleb128()?),
            3 => {
                let (start, length) = (number(unit)?, number(unit)?);
                patch = self.shortened(self.code.indexed(start.value), length);
            }
            4 => {
                let (_, end) = (number(unit)?, number(unit)?);
                patch = self.shortened(self.base, end);
            }
            5 => self.base = self.address(unit)?,
            6 => _ = (self.address(unit)?, self.address(unit)?),
            7 => {
                let (start, length) = (self.address(unit)?, number(unit)?);
                patch = self.shortened(start, length);
            }
            _ => return Err(gimli::Error::UnsupportedOffset),
        }
        if self.locations && (is_default || matches!(form, 2 | 3 | 4 | 6 | 7)) {
            let length = unit.read_uleb128()?;
            unit.skip(usize::try_from(length).map_err(|_| gimli::Error::UnsupportedOffset)?)?;
        }
        Ok(patch)
    }

    fn address(&self, unit: &mut Bytes<'a>) -> gimli::Result<Option<Place>> {
        let at = unit.offset_from(self.whole);
        unit.skip(8)?;
        Ok(self.code.place(self.relocations, at))
    }

    /// A shorter length from a start, or a shorter distance from a base.
    fn shortened(&self, start: Option<Place>, length: Number) -> Option<Patch> {
        let (section, start) = start?;
        let excess = self.code.excess((section, start.checked_add(length.value)?))?;
        Some(length.replaced(length.value.checked_sub(excess)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_numbers_take_as_many_bytes() {
        let replaced = |length: usize, value: u64| Number { at: 3, length, value: 0 }.replaced(value).bytes;
        assert_eq!(replaced(1, 5), [5]);
        assert_eq!(replaced(2, 130), [0x82, 1]);
        assert_eq!(replaced(3, 5), [0x85, 0x80, 0]);
        assert_eq!(replaced(11, u64::MAX).len(), 11);
    }

    #[test]
    fn special_opcodes_keep_the_line() {
        let operands = EndianSlice::new(&[], RunTimeEndian::Little);
        let form = LineForm { line_base: -5, line_range: 14, opcode_base: 13, operands };
        assert_eq!(form.advance(255), 17);
        assert_eq!(form.special(12), Some(186));
        assert_eq!((form.advance(186), form.special(18)), (12, None));
        // No special opcode leaves the line as it is.
        assert_eq!(LineForm { line_base: 1, ..form }.special(0), None);
    }
}
