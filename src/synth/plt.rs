//! Procedure linkage tables.
//!
//! A program calls `printf` with one instruction, whose target the linker must fill in. But `printf` lies in
//! a library, at an address that only the dynamic linker knows. So the call goes to an entry of a table in
//! the program, and the entry jumps to the address in a word that the dynamic linker fills in:
//!
//! ```text
//! main:        call printf@plt
//! printf@plt:  jmp *word            .got.plt: word, filled in at the first call (or at start-up)
//! ```
//!
//! There are three such tables. `.plt` has the entries that are bound lazily, or at start-up with `-z now`.
//! Each has a word in `.got.plt` and a jump-slot relocation. `.plt.got` has the entries of functions that
//! have a word in `.got` anyway, and of local `STT_GNU_IFUNC` functions. If the output is protected against
//! stray branches, calls go to `.plt.sec`, and `.plt` has only the lazy halves.

use super::synthesis::{Create, Grow, Ingredients, Size, Synthesis, Write};
use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::Slot;
use crate::phase::{DynamicRow, Extent, Placed};
use crate::relocs::address;
use crate::tables::section::{CODE, Kind, SyntheticSection, pure_code};

/// `.plt`.
pub fn plt<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            section(link, Kind::Plt, b".plt", (link.plt_shape.align, link.plt_shape.entry)).into()
        }),
        size: Size::Needed(|link| Extent { size: link.plt_sizes().0, align: link.plt_shape.align }),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write(link, out)),
    }
}

/// `.plt.sec`.
pub fn plt_sec<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let shape = &link.plt_shape;
            let section = section(link, Kind::PltSec, b".plt.sec", (shape.align, shape.direct_entry));
            section.filter(|_| shape.split).into()
        }),
        size: Size::Needed(|link| Extent { size: link.plt_sizes().1, align: link.plt_shape.align }),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write_sec(link, out)),
    }
}

/// `.plt.got`.
pub fn plt_got<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let entry = link.plt_shape.direct_entry;
            section(link, Kind::PltGot, b".plt.got", (entry, entry)).into()
        }),
        size: Size::Needed(|link| Extent { size: link.plt_sizes().2, align: link.plt_shape.align }),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write_got(link, out)),
    }
}

/// A table with this alignment and this size of entries. Static programs have these tables, too, for
/// `STT_GNU_IFUNC`. Only with `--xosegment` does the table say that it holds no data, because GNU tools do
/// not know the flag.
fn section<T: Target>(
    link: &Ingredients<'_, '_, T>,
    kind: Kind,
    name: &'static [u8],
    (align, entsize): (u64, u64),
) -> Option<SyntheticSection<'static>> {
    let flags = if link.config.layout.xosegment { pure_code::<T>() } else { CODE };
    let section = SyntheticSection::new(kind, name, elf::SHT_PROGBITS, flags, align);
    (!link.config.is_relocatable()).then(|| section.entries(entsize))
}

/// Writes `.plt`.
fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let shape = &link.plt_shape;
    let Some((header, entries)) = out.split_at_mut_checked(shape.header as usize) else { return };
    let at = &link.addresses;
    T::write_plt_header(header, at.plt, at.reserved, shape);
    let mut far = None;
    note_far::<T>(&mut far, 0, at.plt, at.reserved, shape.header);
    for (index, out) in entries.chunks_exact_mut(shape.entry as usize).enumerate() {
        let entry = address::plt_entry(link, index as u32);
        // In a split table, the entries are lazy halves, which do not read the GOT.
        if !shape.split {
            note_far::<T>(&mut far, index, entry.entry, entry.slot, shape.entry);
        }
        T::write_plt_entry(out, entry, shape);
    }
    report_far(link, ".plt", far, |row| row.plt);
}

/// Writes `.plt.sec`.
fn write_sec<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let (shape, start) = (&link.plt_shape, link.addresses.plt_sec);
    let mut far = None;
    for (index, out) in out.chunks_exact_mut(shape.direct_entry as usize).enumerate() {
        let address = start.wrapping_add(index as u64 * shape.direct_entry);
        let slot = address::plt_slot(link, index as u32);
        note_far::<T>(&mut far, index, address, slot, shape.direct_entry);
        T::write_plt_direct(out, address, slot, shape);
    }
    report_far(link, ".plt.sec", far, |row| row.plt);
}

/// Writes `.plt.got`.
fn write_got<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let (shape, at) = (&link.plt_shape, &link.addresses);
    let mut far = None;
    for row in &link.rows {
        let (Some(entry), Some(word)) = (row.plt_got, row.resolved.or(row.got)) else { continue };
        let start = u64::from(entry.number()) * shape.direct_entry;
        let slot = address::got_word(link, word);
        let end = start + shape.direct_entry;
        if let Some(out) = out.get_mut(start as usize..end as usize) {
            let address = at.plt_got.wrapping_add(start);
            note_far::<T>(&mut far, entry.number() as usize, address, slot, shape.direct_entry);
            T::write_plt_direct(out, address, slot, shape);
        }
    }
    report_far(link, ".plt.got", far, |row| row.plt_got);
}

/// An entry from which its word is out of reach.
#[derive(Clone, Copy)]
struct Far {
    /// Its number in the table.
    index: usize,
    /// Its address.
    entry: u64,
    /// The word's address.
    slot: u64,
}

/// Notes an entry of `size` bytes if its word is out of reach from its start or its end. Only the first such
/// entry is noted.
#[inline]
fn note_far<T: Target>(far: &mut Option<Far>, index: usize, entry: u64, slot: u64, size: u64) {
    let reaches = |from: u64| (slot.wrapping_sub(from) as i64).unsigned_abs() < T::PLT_REACH;
    if !(reaches(entry) && reaches(entry.wrapping_add(size))) {
        far.get_or_insert(Far { index, entry, slot });
    }
}

fn report_far<T: Target>(
    link: &Placed<'_, T>,
    table: &str,
    far: Option<Far>,
    number: impl Fn(&DynamicRow) -> Option<Slot>,
) {
    let Some(Far { index, entry, slot }) = far else { return };
    let own = |row: &&DynamicRow| number(row).is_some_and(|number| number.number() as usize == index);
    let symbol = link.rows.iter().find(own).map(|row| link.symbol_text(row.symbol));
    let mut finding = Diagnostic::error(
        Code::RelocationOverflow,
        format!("an entry of {table} at {entry:#x} does not reach its word of the GOT at {slot:#x}"),
    )
    .note(format!(
        "they are {:#x} bytes apart, and entries reach {:#x}",
        (slot.wrapping_sub(entry) as i64).unsigned_abs(),
        T::PLT_REACH
    ))
    .help("put large sections behind all others, as -mcmodel=large does with .ltext and .ldata");
    if let Some(symbol) = symbol {
        finding = finding.about(symbol.as_bytes()).note(format!("the entry is that of {symbol}"));
    }
    link.sink.report(finding);
}
