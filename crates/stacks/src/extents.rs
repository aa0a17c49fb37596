//! The functions of a file's symbol tables, or of the table of Go, where code has no other description.

use crate::bytes::Bytes;
use crate::code::functions::{Functions, Known};
use crate::code::switch::{Switch, of_larger_stack, switches};
use crate::go_table::GoTable;
use hashbrown::HashMap;
use memchr::memmem;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};
use sframe_format::Abi;
use std::ops::Range;

type Header = elf::FileHeader64<Endianness>;

/// What compilers write between the name of a function and the rest of a part's name.
const PART: &[u8] = b".cold";
/// Names of functions that have no caller: the code where a program starts, where Go starts a thread, and
/// that to which a goroutine returns.
const OUTERMOST: [&[u8]; 8] = [
    b"_start",
    b"__start",
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
    let mut read = Read { outermost: vec![entry], ..Read::default() };
    let symbols = read.table(bytes, elf::SHT_SYMTAB);
    read.table(bytes, elf::SHT_DYNSYM);
    if let Some(table) = &go {
        read.go(table, symbols.is_none_or(|count| count == 0));
    }
    let switches = read.switches(abi, code);
    let Read { mut known, parts, outermost, misdescribed, left, .. } = read;
    if !parts.is_empty() {
        let groups = groups(&parts);
        for (name, place) in &known.1 {
            known.0[*place].group = groups.get(whole(name)).copied();
        }
    }
    let functions = Functions::new(known.0, outermost);
    let moving = go.as_ref().map_or(0..0, GoTable::extent);
    functions.with_misdescribed(misdescribed).with_left(left).with_switches(switches).with_moving(moving)
}

/// What has been read of symbol tables.
#[derive(Default)]
struct Read<'a> {
    /// The functions, and the name and number of each.
    known: (Vec<Known>, Vec<(&'a [u8], usize)>),
    /// Names of parts.
    parts: Vec<&'a [u8]>,
    outermost: Vec<u64>,
    /// Functions whose CFI does not hold.
    misdescribed: Vec<Range<u64>>,
    /// Functions that never return to the stack that they are called on.
    left: Vec<Range<u64>>,
    system_stack: Option<Range<u64>>,
    larger_stack: Option<Range<u64>>,
}

impl<'a> Read<'a> {
    /// Adds the functions of a symbol table. Returns the number of its symbols.
    fn table(&mut self, bytes: &'a Bytes, kind: u32) -> Option<usize> {
        let header = Header::parse(&**bytes).ok()?;
        let endian = header.endian().ok()?;
        let table = header.sections(endian, &**bytes).ok()?.symbols(endian, &**bytes, kind).ok()?;
        for symbol in table.iter() {
            let (start, size) = (symbol.st_value(endian), symbol.st_size(endian));
            if symbol.st_type() == elf::STT_FUNC && symbol.st_shndx(endian) != elf::SHN_UNDEF {
                let name = symbol.name(endian, table.strings()).unwrap_or_default();
                self.add(name, start, start.saturating_add(size));
            }
        }
        Some(table.len())
    }

    /// Adds the functions of a program of Go, or only what symbols do not say of them.
    fn go(&mut self, table: &'a GoTable, without_symbols: bool) {
        for function in &table.functions {
            if without_symbols {
                self.add(table.name(function), function.start, function.end);
            }
            if function.switches {
                self.misdescribed.push(function.start..function.end);
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

    fn add(&mut self, name: &'a [u8], start: u64, end: u64) {
        let is_part = whole(name).len() < name.len();
        if is_part {
            self.parts.push(name);
        }
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
        let (known, names) = &mut self.known;
        names.push((name, known.len()));
        known.push(Known { start, end, is_part, group: None });
    }
}

/// A number for the name of each function that has parts.
fn groups<'a>(parts: &[&'a [u8]]) -> HashMap<&'a [u8], u32> {
    let mut groups = HashMap::new();
    for part in parts {
        let next = groups.len() as u32;
        groups.entry(whole(part)).or_insert(next);
    }
    groups
}

/// The name of the function that a part belongs to, or else the name itself.
fn whole(name: &[u8]) -> &[u8] {
    let Some(place) = memmem::find(name, PART).filter(|&place| place > 0) else { return name };
    match name.get(place + PART.len()) {
        None | Some(b'.') => &name[..place],
        Some(_) => name,
    }
}
