//! Links of objects whose debug information is damaged, with an index of it, or without jumps to the next
//! section.
//!
//! Compilers wrote the objects in `debug/`: DWARF 4 with type units and lists of names, DWARF 5 with and
//! without an index of names, in its 64-bit form, split, in big-endian order, and of functions in many
//! sections. A few bytes choose some of them, and numbers in their `.debug_*` sections and in the relocations
//! of these that become others: forms, bases, counts, offsets. All else stays valid, so each change reaches
//! the readers of debug information.

use crate::damage::EDGES;
use crate::description::Link;
use crate::file::File;
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;
use object::{Object, ObjectSection};

/// An object, and the file with the debug information that is split from it.
struct Base {
    machine: Machine,
    object: &'static [u8],
    split: Option<&'static [u8]>,
}

const fn base(machine: Machine, object: &'static [u8]) -> Base {
    Base { machine, object, split: None }
}

/// The objects, as `debug/README.md` says how they are made.
static BASES: [Base; 8] = [
    base(Machine::X86_64, include_bytes!("../debug/gcc4.o")),
    base(Machine::X86_64, include_bytes!("../debug/gcc5.o")),
    base(Machine::X86_64, include_bytes!("../debug/clang5.o")),
    base(Machine::X86_64, include_bytes!("../debug/types5.o")),
    base(Machine::X86_64, include_bytes!("../debug/long.o")),
    base(Machine::X86_64, include_bytes!("../debug/blocks.o")),
    base(Machine::S390x, include_bytes!("../debug/big.o")),
    Base {
        machine: Machine::X86_64,
        object: include_bytes!("../debug/split.o"),
        split: Some(include_bytes!("../debug/split.dwo")),
    },
];

/// Options that make indexes, some that change what these cover, and those that change lengths in debug
/// information.
const OPTIONS: [&[&str]; 7] = [
    &["--gdb-index"],
    &["--debug-names"],
    &["--gdb-index", "--debug-names"],
    &["--gdb-index", "--debug-names", "--gc-sections", "-u", "_Z4usedi"],
    &["--gdb-index", "--debug-names", "--icf=all", "--compress-debug-sections=zlib"],
    &["--optimize-bb-jumps"],
    &["--optimize-bb-jumps", "--gdb-index", "--debug-names", "--compress-debug-sections=zlib"],
];

/// The most numbers of a link that are replaced.
const CHANGES: usize = 8;

/// The link that these bytes describe: of one object, or of two for the same machine.
///
/// # Errors
/// There are too few bytes for one.
pub fn described(bytes: &[u8]) -> Result<Link> {
    let from = &mut Unstructured::new(bytes);
    let first = from.choose(&BASES)?;
    let second = from.choose(&BASES)?;
    let mut arguments: Vec<String> = from.choose(&OPTIONS)?.iter().map(|&word| word.to_owned()).collect();
    arguments.extend(["-shared".into(), "--allow-multiple-definition".into()]);
    let mut files = Vec::new();
    let bases = [Some(first), (first.machine == second.machine).then_some(second)];
    for (number, base) in bases.into_iter().flatten().enumerate() {
        let name = format!("{number}.o");
        arguments.push(name.clone());
        files.push(File { name, bytes: base.object.to_vec() });
        // The object names this file, below a folder that it calls ".".
        files.extend(base.split.map(|bytes| File { name: "./split.dwo".into(), bytes: bytes.to_vec() }));
    }
    for _ in 0..from.int_in_range(0..=CHANGES)? {
        let file = from.choose_index(files.len())?;
        change(from, &mut files[file].bytes)?;
    }
    Ok(Link {
        machine: first.machine,
        files,
        library: false,
        library_damage: Vec::new(),
        arguments,
        damaged: true,
    })
}

/// Replaces a number in one of a file's sections with debug information.
fn change(from: &mut Unstructured<'_>, bytes: &mut [u8]) -> Result<()> {
    let sections = debug_sections(bytes);
    let &(start, length) = from.choose(&sections)?;
    let at = start + from.int_in_range(0..=length - 1)?;
    let size = 1 << from.int_in_range(0..=3)?;
    // Forms, tags and counts are small numbers; one bit more or less makes another of them.
    let old = bytes[at];
    let value = match from.int_in_range(0..=3)? {
        0 => *from.choose(&EDGES)?,
        1 => from.arbitrary()?,
        2 => u64::from(old ^ 1 << from.int_in_range(0..=7)?),
        _ => u64::from(old).wrapping_add(from.int_in_range(0..=2)?).wrapping_sub(1),
    };
    for (byte, new) in bytes.iter_mut().skip(at).zip(&value.to_le_bytes()[..size]) {
        *byte = *new;
    }
    Ok(())
}

/// Places and lengths of the sections with debug information, and of their relocations.
fn debug_sections(bytes: &[u8]) -> Vec<(usize, usize)> {
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes);
    let file = file.expect("only contents of sections change");
    let is_debug = |name: &str| name.trim_start_matches(".rela").starts_with(".debug_");
    let sections = file.sections().filter(|section| section.name().is_ok_and(is_debug));
    let ranges = sections.filter_map(|section| section.file_range());
    ranges.filter(|range| range.1 > 0).map(|(start, length)| (start as usize, length as usize)).collect()
}
