//! The functions of a file's symbol tables, or of the table of Go, where code has no other description.

use crate::bytes::Bytes;
use crate::code::functions::{Functions, Known};
use crate::code::names::{Names, name_at};
use crate::code::switch::{Switch, of_larger_stack, switches};
use crate::go_table::{GoFunction, GoTable, is_of_go};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, elf};
use sframe_format::Abi;
use std::ops::Range;

type Header = elf::FileHeader64<Endianness>;

/// Functions of Go that have no caller: where it starts a thread, and that to which a goroutine returns.
const OUTERMOST: [&[u8]; 6] = [
    b"runtime.rt0_go",
    b"runtime.rt0_go.abi0",
    b"runtime.mstart",
    b"runtime.mstart.abi0",
    b"runtime.goexit",
    b"runtime.goexit.abi0",
];
/// Functions of Go that go on on a thread's own stack and never return to the goroutine that called them. Go,
/// too, takes them for the end of the stack. The last one starts a thread without the C library: what calls
/// there is the new thread, on a stack where nothing else is.
pub const LAST_OF_THREAD: [&[u8]; 3] = [b"runtime.mcall", b"runtime.morestack", b"runtime.clone"];
/// The function of Go in which a thread chooses the goroutine to run next.
pub const SCHEDULER: &[u8] = b"runtime.schedule";
/// Functions of Go whose CFI does not hold: they go on on another stack, or have no caller though it names
/// one.
const MISDESCRIBED: [&[u8]; 9] = [
    b"runtime.systemstack",
    b"runtime.mcall",
    b"runtime.morestack",
    b"runtime.clone",
    b"runtime.asmcgocall",
    b"runtime.cgocallback",
    b"runtime.goexit",
    b"runtime.rt0_go",
    b"_rt0_amd64_linux",
];

/// The most functions whose calls on other stacks are looked for.
const MAX_SWITCHING: usize = 256;
/// The function of Go that runs another one on the thread's own stack, and the one that makes a goroutine's
/// stack larger.
const SYSTEM_STACK: &[u8] = b"runtime.systemstack";
const LARGER_STACK: &[u8] = b"runtime.morestack";

/// The functions of a file that starts at `entry`. `code` gives the instructions at some addresses.
pub fn functions<'a>(
    (bytes, abi): (&Bytes, Abi),
    entry: u64,
    code: impl Fn(&Range<u64>) -> Option<&'a [u8]>,
) -> Functions {
    let go = GoTable::read(bytes);
    let is_of_go = go.is_some() || is_of_go(bytes);
    let mut read = Read { is_of_go, outermost: vec![entry], ..Read::default() };
    let symbols = read.table(bytes, elf::SHT_SYMTAB);
    read.table(bytes, elf::SHT_DYNSYM);
    if let Some(table) = &go {
        read.go(table, symbols.is_none_or(|count| count == 0));
    }
    let switches = read.switches(abi, code);
    let Read { known, names, outermost, misdescribed, left, .. } = read;
    let functions = Functions::new(&known, outermost).with_names(names);
    let moving = go.as_ref().map_or(0..0, GoTable::extent);
    functions.with_misdescribed(misdescribed).with_left(left).with_switches(switches).with_moving(moving)
}

/// The functions of a file that is no program of Go, as far as they tell what is in a gap between functions
/// that are described. The tables of a large library are read, but nothing is made of the rest of it.
pub fn functions_in(bytes: &Bytes, entry: u64, gap: Range<u64>) -> Functions {
    let mut read = Read { gap: Some(gap), outermost: vec![entry], ..Read::default() };
    read.table(bytes, elf::SHT_SYMTAB);
    read.table(bytes, elf::SHT_DYNSYM);
    let Read { mut known, last_before, names, outermost, .. } = read;
    known.extend(last_before);
    Functions::new(&known, outermost).with_names(names)
}

/// What has been read of symbol tables.
#[derive(Default)]
struct Read {
    /// Whether it is a program of Go: some functions of Go are known by their names.
    is_of_go: bool,
    /// What alone matters, if not all does.
    gap: Option<Range<u64>>,
    known: Vec<Known>,
    /// Functions at the last address in front of the gap where any start: they may reach into it.
    last_before: Vec<Known>,
    names: Names,
    outermost: Vec<u64>,
    /// Functions whose CFI does not hold.
    misdescribed: Vec<Range<u64>>,
    /// Functions that never return to the stack that they are called on.
    left: Vec<Range<u64>>,
    system_stack: Option<Range<u64>>,
    larger_stack: Option<Range<u64>>,
}

impl Read {
    /// Adds the functions of a symbol table. Returns the number of its symbols.
    fn table(&mut self, bytes: &Bytes, kind: u32) -> Option<usize> {
        let header = Header::parse(&**bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &**bytes).ok()?;
        let table = sections.symbols(endian, &**bytes, kind).ok()?;
        let strings = sections.section(table.string_section()).ok()?.data(endian, &**bytes).ok()?;
        let names = self.names.add(bytes.part(strings)?);
        if self.gap.is_none() {
            self.known.reserve(table.len());
        }
        for symbol in table.iter() {
            let (start, size) = (symbol.st_value(endian), symbol.st_size(endian));
            if symbol.st_type() != elf::STT_FUNC || symbol.st_shndx(endian) == elf::SHN_UNDEF {
                continue;
            }
            let (name, end) = (symbol.st_name(endian), start.saturating_add(size));
            self.add(Known { start, end, name: names + u64::from(name) });
            if self.is_of_go {
                self.note(name_at(strings, name.into()), start, end);
            }
        }
        Some(table.len())
    }

    /// Adds a function, if it matters.
    #[inline]
    fn add(&mut self, known: Known) {
        match &self.gap {
            Some(gap) if known.start >= gap.end => {}
            Some(gap) if known.start < gap.start => {
                let last = self.last_before.first().map_or(0, |last| last.start);
                if known.start > last {
                    self.last_before.clear();
                }
                if known.start >= last {
                    self.last_before.push(known);
                }
            }
            _ => self.known.push(known),
        }
    }

    /// Adds the functions of a program of Go, or only what symbols do not say of them.
    fn go(&mut self, table: &GoTable, without_symbols: bool) {
        let names = self.names.add(table.names.clone());
        for &GoFunction { start, end, name: place, switches, .. } in &table.functions {
            if without_symbols {
                let name = name_at(&table.names, place.into());
                self.known.push(Known { start, end, name: names + u64::from(place) });
                self.note(name, start, end);
            }
            if switches {
                self.misdescribed.push(start..end);
            }
        }
    }

    /// The calls on another stack.
    fn switches<'c>(&self, abi: Abi, code: impl Fn(&Range<u64>) -> Option<&'c [u8]>) -> Vec<Switch> {
        let of = |range: &Range<u64>| switches(abi, code(range).unwrap_or_default(), range.start);
        let mut found: Vec<Switch> = self.misdescribed.iter().take(MAX_SWITCHING).flat_map(of).collect();
        // Other calls without a way back are hardly what they seem to be.
        found.retain(|switch| {
            switch.back.is_some() || self.left.iter().any(|range| range.contains(&switch.at))
        });
        if let (Some(system), Some(larger)) = (&self.system_stack, &self.larger_stack) {
            let back =
                found.iter().find(|switch| system.contains(&switch.at)).and_then(|one| one.back.clone());
            let back = back.and_then(|back| of_larger_stack(code(larger)?, larger.start, &back));
            let first =
                found.iter_mut().filter(|switch| larger.contains(&switch.at)).min_by_key(|one| one.at);
            if let Some(first) = first {
                first.back = back;
            }
        }
        found
    }

    /// Notes what the name of a function of Go says.
    fn note(&mut self, name: &[u8], start: u64, end: u64) {
        if OUTERMOST.contains(&name) {
            self.outermost.push(start);
        }
        let plain = name.strip_suffix(b".abi0").unwrap_or(name);
        if MISDESCRIBED.contains(&plain) {
            self.misdescribed.push(start..end);
        }
        if LAST_OF_THREAD.contains(&plain) {
            self.left.push(start..end);
        }
        match plain {
            SYSTEM_STACK => self.system_stack = Some(start..end),
            LARGER_STACK => self.larger_stack = Some(start..end),
            _ => {}
        }
    }
}
