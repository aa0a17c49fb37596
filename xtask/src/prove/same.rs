//! Compares the relocatable files of two linkers: sections, symbols and relocations, in whatever order.
//!
//! If strings are shared, linkers choose different strings and different orders. So a place in such a section
//! is described by the string that is there. Tables of symbols and names and the build-id are not compared,
//! because they follow from the rest.

use anyhow::{Context, Result, ensure};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, Rela, SectionHeader, Sym};
use object::{Endianness, FileKind};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// The facts about one file, one per line, in order.
#[derive(Default)]
struct Facts {
    sections: Vec<String>,
    symbols: Vec<String>,
    relocations: Vec<String>,
}

/// Compares, and says how much was the same. An error lists the differences.
pub fn same(ours: &Path, theirs: &Path) -> Result<String> {
    let (a, b) = (read(ours)?, read(theirs)?);
    let mut said = Vec::new();
    for (what, ours, theirs) in [
        ("sections", a.sections, b.sections),
        ("symbols", a.symbols, b.symbols),
        ("relocations", a.relocations, b.relocations),
    ] {
        let differences = differences(&ours, &theirs);
        ensure!(differences.is_empty(), "{what} differ (ours: +, GNU ld's: -):\n{differences}");
        said.push(format!("{} {what}", ours.len()));
    }
    Ok(said.join(", "))
}

/// The lines that only one of two sorted lists contains.
fn differences(ours: &[String], theirs: &[String]) -> String {
    let (mut a, mut b) = (ours.iter().peekable(), theirs.iter().peekable());
    let mut text = String::new();
    loop {
        let (sign, line) = match (a.peek(), b.peek()) {
            (None, None) => return text,
            (Some(x), Some(y)) if x == y => {
                a.next();
                b.next();
                continue;
            }
            (Some(x), Some(y)) if x > y => ('-', b.next()),
            (None, _) => ('-', b.next()),
            _ => ('+', a.next()),
        };
        let _ = writeln!(text, "{sign} {}", line.map_or("", String::as_str));
    }
}

fn read(path: &Path) -> Result<Facts> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    ensure!(FileKind::parse(&*bytes)? == FileKind::Elf64, "{} is not for 64 bits", path.display());
    let file = ElfFile64::<Endianness>::parse(&*bytes)?;
    let mut facts = facts(file).with_context(|| path.display().to_string())?;
    facts.sections.sort();
    facts.symbols.sort();
    facts.relocations.sort();
    Ok(facts)
}

fn facts(file: ElfFile64<'_, Endianness>) -> Result<Facts> {
    let (order, data) = (file.endian(), file.data());
    let header = file.elf_header();
    let sections = header.sections(order, data)?;
    let symbols = sections.symbols(order, data, elf::SHT_SYMTAB)?;
    let name = |section: &elf::SectionHeader64<Endianness>| -> Result<String> {
        Ok(String::from_utf8_lossy(sections.section_name(order, section)?).into_owned())
    };
    // The place of a symbol: a section, and what it contains there. The addend counts from the start of a
    // string.
    let place = |symbol: &elf::Sym64<Endianness>, index, addend: i64| -> Result<String> {
        let Some(section) = symbols.symbol_section(order, symbol, index)? else {
            return Ok(format!("{:#x} {:#x} + {addend:#x}", symbol.st_shndx(order), symbol.st_value(order)));
        };
        let section = sections.section(section)?;
        let value = symbol.st_value(order);
        if section.sh_flags(order) & u64::from(elf::SHF_STRINGS) == 0 {
            return Ok(format!("{} {value:#x} + {addend:#x}", name(section)?));
        }
        // For a section symbol, the addend is the place of the string. A name stands for its own string.
        let (at, addend) = if symbol.st_type() == elf::STT_SECTION {
            (value.wrapping_add(addend as u64), 0)
        } else {
            (value, addend)
        };
        let rest = section.data(order, data)?.get(at as usize..).context("a place behind a section's end")?;
        Ok(format!("{} {:?} + {addend:#x}", name(section)?, strings(rest).next().unwrap_or_default()))
    };
    let mut facts = Facts::default();
    for section in sections.iter().skip(1) {
        let (kind, flags) = (section.sh_type(order), section.sh_flags(order));
        let name = name(section)?;
        let contents = section.data(order, data)?;
        let mut line =
            format!("{name} type {kind:#x} flags {flags:#x} align {}", section.sh_addralign(order));
        if flags & u64::from(elf::SHF_STRINGS) != 0 {
            let all: BTreeSet<String> = strings(contents).filter(|text| !text.is_empty()).collect();
            write!(line, " strings {all:?}")?;
        } else if kind == elf::SHT_NOBITS {
            write!(line, " size {:#x}", section.sh_size(order))?;
        } else if !matches!(
            kind,
            elf::SHT_RELA | elf::SHT_SYMTAB | elf::SHT_STRTAB | elf::SHT_SYMTAB_SHNDX | elf::SHT_GROUP
        ) && name != ".note.gnu.build-id"
        {
            write!(line, " size {:#x} bytes {:016x}", contents.len(), checksum(&ordered(&name, contents)))?;
        }
        facts.sections.push(line);
        let Some((entries, _)) = section.rela(order, data)? else { continue };
        let mips = false;
        for entry in entries {
            let index = entry.symbol(order, mips);
            let target = match index {
                None => "nothing".to_owned(),
                Some(index) => {
                    let symbol = symbols.symbol(index)?;
                    let place = place(symbol, index, entry.r_addend(order))?;
                    format!("{:?} {place}", String::from_utf8_lossy(symbols.symbol_name(order, symbol)?))
                }
            };
            let (offset, kind) = (entry.r_offset(order), entry.r_type(order, mips));
            facts.relocations.push(format!("{name} {offset:#x} type {kind} to {target}"));
        }
    }
    for (index, symbol) in symbols.enumerate().skip(1) {
        let place = place(symbol, index, 0)?;
        // For the symbol of the section itself, the first string of the section is not a fact.
        let place =
            if symbol.st_type() == elf::STT_SECTION { place.split(' ').next().unwrap_or("") } else { &place };
        facts.symbols.push(format!(
            "{:?} {place} size {:#x} info {:#x} other {:#x}",
            String::from_utf8_lossy(symbols.symbol_name(order, symbol)?),
            symbol.st_size(order),
            symbol.st_info(),
            symbol.st_other()
        ));
    }
    Ok(facts)
}

/// The contents of a section. The kernel's build derives some sections from the symbol table; these are
/// sorted, because the order of symbol tables differs.
fn ordered(section: &str, contents: &[u8]) -> Vec<u8> {
    let mut entries: Vec<&[u8]> =
        contents.chunks(if section == "__versions" { 64 } else { contents.len().max(1) }).collect();
    entries.sort_unstable();
    entries.concat()
}

fn strings(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned())
}

/// FNV-1a; it only has to tell contents apart in a line of text.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
