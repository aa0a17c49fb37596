//! Collects facts from the tables of a file.

use super::collector::{Aspect, Collector};
use super::view::{Section, Symbol, View};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};

/// Collects all facts that the tables of the file contain.
pub fn look_at(collector: &mut Collector, view: &View<'_>) {
    header(collector, view);
    sections(collector, view);
    symbols(collector, view);
    values(collector, view);
    segments(collector, view);
    if view.is_relocatable() {
        groups(collector, view);
        relocations(collector, view);
    } else {
        dynamic(collector, view);
        dynamic_relocations(collector, view);
    }
}

fn header(collector: &mut Collector, view: &View<'_>) {
    let kind = match view.kind {
        elf::ET_REL => "ET_REL",
        elf::ET_EXEC => "ET_EXEC",
        elf::ET_DYN => "ET_DYN",
        _ => "other",
    };
    collector.set(Aspect::Header, "type", kind);
    let at_entry = |symbol: &&Symbol| symbol.is_defined() && symbol.is_global() && symbol.value == view.entry;
    let entry = match view.entry {
        0 => "0".to_owned(),
        _ => view.symbols.iter().find(at_entry).map_or("no symbol", |symbol| &symbol.name).to_owned(),
    };
    collector.set(Aspect::Header, "entry", entry);
}

/// Whether each linker makes this section, which is a table, in its own way.
fn is_table(section: &Section<'_>) -> bool {
    let kinds = [elf::SHT_NULL, elf::SHT_SYMTAB, elf::SHT_STRTAB, elf::SHT_RELA, elf::SHT_GROUP];
    (kinds.contains(&section.kind) && !section.is_alloc()) || section.name.is_empty()
}

/// The letters of `sh_flags`, as `readelf` shows them.
pub fn flags_text(flags: u64) -> String {
    let letters = [
        (elf::SHF_WRITE, 'W'),
        (elf::SHF_ALLOC, 'A'),
        (elf::SHF_EXECINSTR, 'X'),
        (elf::SHF_MERGE, 'M'),
        (elf::SHF_STRINGS, 'S'),
        (elf::SHF_LINK_ORDER, 'L'),
        (elf::SHF_GROUP, 'G'),
        (elf::SHF_TLS, 'T'),
        (elf::SHF_COMPRESSED, 'C'),
        (elf::SHF_GNU_RETAIN, 'R'),
        (elf::SHF_EXCLUDE, 'E'),
    ];
    letters.into_iter().filter(|(bit, _)| flags & u64::from(*bit) != 0).map(|(_, letter)| letter).collect()
}

/// Name of a section type.
pub fn type_text(kind: u32) -> String {
    match kind {
        elf::SHT_PROGBITS => "PROGBITS".into(),
        elf::SHT_NOBITS => "NOBITS".into(),
        elf::SHT_NOTE => "NOTE".into(),
        elf::SHT_INIT_ARRAY => "INIT_ARRAY".into(),
        elf::SHT_FINI_ARRAY => "FINI_ARRAY".into(),
        elf::SHT_PREINIT_ARRAY => "PREINIT_ARRAY".into(),
        elf::SHT_STRTAB => "STRTAB".into(),
        elf::SHT_RELA => "RELA".into(),
        elf::SHT_DYNAMIC => "DYNAMIC".into(),
        elf::SHT_DYNSYM => "DYNSYM".into(),
        elf::SHT_X86_64_UNWIND => "UNWIND".into(),
        sframe_format::SHT_GNU_SFRAME => "GNU_SFRAME".into(),
        other => format!("{other:#x}"),
    }
}

fn sections(collector: &mut Collector, view: &View<'_>) {
    for (index, section) in view.sections.iter().enumerate() {
        if is_table(section) || (section.size == 0 && !view.is_relocatable()) {
            continue;
        }
        // These flags do not change what a section contains when it is loaded.
        let hidden = elf::SHF_MERGE | elf::SHF_STRINGS | elf::SHF_COMPRESSED | elf::SHF_INFO_LINK;
        let flags = flags_text(section.flags & !u64::from(hidden));
        let kind = match section.name.as_str() {
            // Some tools write `SHT_PROGBITS`, others `SHT_X86_64_UNWIND`.
            ".eh_frame" => "PROGBITS".into(),
            _ => type_text(section.kind),
        };
        collector.set(Aspect::Sections, name_of(view, index), format!("{kind} {flags}").trim_end());
        if section.flags & u64::from(elf::SHF_LINK_ORDER) != 0 {
            collector.set(Aspect::LinkOrder, name_of(view, index), view.section_name(section.link));
        }
    }
}

/// A section's name; with a number if several sections of the file have it.
fn name_of(view: &View<'_>, index: usize) -> String {
    let name = &view.sections[index].name;
    let same = view.sections.iter().take(index).filter(|section| section.name == *name).count();
    if same == 0 { name.clone() } else { format!("{name} #{}", same + 1) }
}

fn symbols(collector: &mut Collector, view: &View<'_>) {
    for symbol in view.symbols.iter().filter(|symbol| symbol.is_global() && !symbol.name.is_empty()) {
        // In linked output, a hidden symbol is local, whether the table says so, calls it global or leaves it
        // out.
        let hidden = matches!(symbol.visibility, elf::STV_HIDDEN | elf::STV_INTERNAL);
        if hidden && !view.is_relocatable() {
            continue;
        }
        // Some linkers also write the version of an imported symbol into this table.
        let name = symbol.name.split('@').next().unwrap_or_default();
        collector.set(Aspect::Symbols, name, symbol_text(view, symbol));
    }
}

fn symbol_text(view: &View<'_>, symbol: &Symbol) -> String {
    let binding = match symbol.binding {
        elf::STB_GLOBAL => "global",
        elf::STB_WEAK => "weak",
        elf::STB_GNU_UNIQUE => "unique",
        _ => "local",
    };
    let kind = match symbol.kind {
        _ if !symbol.is_defined() => "",
        elf::STT_FUNC => " function",
        elf::STT_OBJECT | elf::STT_COMMON => " object",
        elf::STT_TLS => " TLS",
        elf::STT_GNU_IFUNC => " ifunc",
        _ => "",
    };
    let visibility = match symbol.visibility {
        elf::STV_HIDDEN => " hidden",
        elf::STV_INTERNAL => " internal",
        elf::STV_PROTECTED => " protected",
        _ => "",
    };
    let place = match symbol.section {
        0 => "undefined".to_owned(),
        section if section == u32::from(elf::SHN_COMMON) => "common".to_owned(),
        section if section == u32::from(elf::SHN_ABS) => "absolute".to_owned(),
        section => format!("in {}", view.section_name(section)),
    };
    format!("{binding}{kind}{visibility} {place}")
}

/// Symbols of linkers and start-up files. Linkers choose where these are.
const BORDERS: &[&str] = &[
    "_end",
    "end",
    "_edata",
    "edata",
    "_etext",
    "etext",
    "__bss_start",
    "_DYNAMIC",
    "_GLOBAL_OFFSET_TABLE_",
    "__ehdr_start",
    "__executable_start",
    "__dso_handle",
    "__data_start",
    "data_start",
    "__init_array_start",
    "__init_array_end",
    "__fini_array_start",
    "__fini_array_end",
    "__preinit_array_start",
    "__preinit_array_end",
    "__rela_iplt_start",
    "__rela_iplt_end",
    "__TMC_END__",
    "_PROCEDURE_LINKAGE_TABLE_",
    "__GNU_EH_FRAME_HDR",
    "_TLS_MODULE_BASE_",
    "__dynamic",
    "__bss_end__",
    "_bss_end__",
    "__end__",
];

fn values(collector: &mut Collector, view: &View<'_>) {
    let mut by_value: BTreeMap<(u32, u64), BTreeSet<&str>> = BTreeMap::new();
    for symbol in view.symbols.iter().filter(|symbol| symbol.is_global() && symbol.is_defined()) {
        let name = symbol.name.as_str();
        if BORDERS.contains(&name) {
            continue;
        }
        by_value.entry((symbol.section, symbol.value)).or_default().insert(name);
        let border = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_"));
        if let (Some(of), false) = (border, view.is_relocatable()) {
            collector.set(Aspect::Values, name, border_text(view, symbol.value, of));
        }
    }
    for names in by_value.values().filter(|names| names.len() > 1) {
        let names: Vec<&str> = names.iter().copied().collect();
        // An object of size zero may lie anywhere, so only symbols with a size count.
        let sized = |name: &&str| view.symbols.iter().any(|s| s.name == **name && s.size > 0);
        let names: Vec<&str> = names.into_iter().filter(sized).collect();
        if names.len() > 1 {
            collector.set(Aspect::Values, names.join(" = "), "equal");
        }
    }
}

fn border_text(view: &View<'_>, value: u64, of: &str) -> String {
    let named = view.sections.iter().find(|section| section.name == of);
    match named {
        Some(section) if section.address == value => "the section's start".into(),
        Some(section) if section.address + section.size == value => "the section's end".into(),
        Some(_) => "elsewhere".into(),
        None => "no such section".into(),
    }
}

fn segments(collector: &mut Collector, view: &View<'_>) {
    let mut loads = BTreeSet::new();
    for segment in &view.segments {
        let flags: String = [(elf::PF_R, 'R'), (elf::PF_W, 'W'), (elf::PF_X, 'X')]
            .into_iter()
            .filter(|(bit, _)| segment.flags & bit != 0)
            .map(|(_, letter)| letter)
            .collect();
        let name = match segment.kind {
            elf::PT_LOAD => {
                loads.insert(flags);
                continue;
            }
            elf::PT_NULL => continue,
            elf::PT_DYNAMIC => "DYNAMIC",
            elf::PT_INTERP => "INTERP",
            elf::PT_NOTE => {
                collector.set(Aspect::Segments, "NOTE", "present");
                continue;
            }
            elf::PT_PHDR => "PHDR",
            elf::PT_TLS => "TLS",
            elf::PT_GNU_EH_FRAME => "GNU_EH_FRAME",
            elf::PT_GNU_STACK => {
                collector.set(Aspect::Segments, "GNU_STACK", flags);
                continue;
            }
            elf::PT_GNU_RELRO => {
                collector.set(Aspect::Segments, "GNU_RELRO", "present");
                continue;
            }
            elf::PT_GNU_PROPERTY => "GNU_PROPERTY",
            sframe_format::PT_GNU_SFRAME => "GNU_SFRAME",
            _ => "other",
        };
        let covered = match view.section_at(segment.address) {
            Some((_, section)) if section.address == segment.address => format!("at {}", section.name),
            _ => "present".into(),
        };
        let value =
            if matches!(name, "GNU_SFRAME" | "GNU_EH_FRAME" | "INTERP") { covered } else { "present".into() };
        collector.set(Aspect::Segments, name, value);
    }
    if !view.segments.is_empty() {
        let loads: Vec<String> = loads.into_iter().collect();
        collector.set(Aspect::Segments, "LOAD", loads.join(" "));
    }
}

fn groups(collector: &mut Collector, view: &View<'_>) {
    for section in view.sections.iter().filter(|section| section.kind == elf::SHT_GROUP) {
        let word = |bytes: &[u8]| {
            let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
            if view.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let words: Vec<u32> = section.data.chunks(4).map(word).collect();
        let Some((flags, members)) = words.split_first() else { continue };
        let signature = view.symbols.get(section.info as usize);
        let signature = signature.map_or("?", |symbol| {
            if symbol.name.is_empty() { view.section_name(symbol.section) } else { &symbol.name }
        });
        let mut names: Vec<&str> = members.iter().map(|member| view.section_name(*member)).collect();
        names.sort_unstable();
        let kind = if flags & elf::GRP_COMDAT != 0 { "comdat" } else { "no comdat" };
        collector.set(Aspect::Groups, signature, format!("{kind}: {}", names.join(" ")));
    }
}

fn relocations(collector: &mut Collector, view: &View<'_>) {
    for (index, relocations) in &view.relocations {
        let target = view.sections[*index].info;
        for relocation in relocations {
            let symbol = match view.symbols.get(relocation.symbol as usize) {
                Some(symbol) if relocation.symbol != 0 && symbol.is_global() => symbol.name.clone(),
                // A linker may replace a local symbol by the symbol of its section.
                Some(symbol) if relocation.symbol != 0 => view.section_name(symbol.section).to_owned(),
                _ => "no symbol".into(),
            };
            let key = format!("{}: type {} to {symbol}", view.section_name(target), relocation.kind);
            collector.count(Aspect::Relocations, key);
        }
    }
}

/// Tags that are compared by their presence only, because their values are addresses and sizes.
const PRESENT: &[(i64, &str)] = &[
    (elf::DT_TEXTREL, "TEXTREL"),
    (elf::DT_SYMBOLIC, "SYMBOLIC"),
    (elf::DT_INIT, "INIT"),
    (elf::DT_FINI, "FINI"),
    (elf::DT_DEBUG, "DEBUG"),
    (elf::DT_GNU_HASH, "GNU_HASH"),
    (elf::DT_VERSYM, "VERSYM"),
    (elf::DT_VERNEED, "VERNEED"),
    (elf::DT_VERDEF, "VERDEF"),
    (elf::DT_BIND_NOW, "BIND_NOW"),
    (elf::DT_INIT_ARRAY, "INIT_ARRAY"),
    (elf::DT_FINI_ARRAY, "FINI_ARRAY"),
    (elf::DT_PREINIT_ARRAY, "PREINIT_ARRAY"),
    (36, "RELR"),
];

/// Tags whose values are compared as numbers.
const NUMBERS: &[(i64, &str)] = &[
    (elf::DT_INIT_ARRAYSZ, "INIT_ARRAYSZ"),
    (elf::DT_FINI_ARRAYSZ, "FINI_ARRAYSZ"),
    (elf::DT_PREINIT_ARRAYSZ, "PREINIT_ARRAYSZ"),
    (elf::DT_FLAGS, "FLAGS"),
    (elf::DT_FLAGS_1, "FLAGS_1"),
];

fn dynamic(collector: &mut Collector, view: &View<'_>) {
    let strings = view.section(".dynstr").map_or(&[][..], |(_, section)| section.data);
    let string = |at: u64| {
        let bytes = strings.get(at as usize..).unwrap_or_default();
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    };
    let mut needed = Vec::new();
    for &(tag, value) in &view.dynamic {
        match tag {
            elf::DT_NEEDED => needed.push(string(value)),
            elf::DT_SONAME => collector.set(Aspect::Dynamic, "SONAME", string(value)),
            elf::DT_RUNPATH => collector.set(Aspect::Dynamic, "RUNPATH", string(value)),
            elf::DT_RPATH => collector.set(Aspect::Dynamic, "RPATH", string(value)),
            _ => {}
        }
        if let Some((_, name)) = PRESENT.iter().find(|(known, _)| *known == tag) {
            collector.set(Aspect::Dynamic, *name, "present");
        }
        if let Some((_, name)) = NUMBERS.iter().find(|(known, _)| *known == tag) {
            collector.set(Aspect::Dynamic, *name, format!("{value:#x}"));
        }
    }
    if !view.dynamic.is_empty() {
        collector.set(Aspect::Dynamic, "NEEDED", needed.join(" "));
    }
    for symbol in view.dynamic_symbols.iter().skip(1) {
        let text = symbol_text(view, symbol);
        let text = text.split(" in ").next().unwrap_or(&text);
        let what = if symbol.is_defined() { "exported" } else { "imported" };
        collector.set(Aspect::DynamicSymbols, &symbol.name, format!("{what} {text}"));
    }
}

fn dynamic_relocations(collector: &mut Collector, view: &View<'_>) {
    let relative = relative_type(view.machine);
    for (index, relocations) in &view.relocations {
        if !view.sections[*index].is_alloc() {
            continue;
        }
        for relocation in relocations {
            let symbol = view.dynamic_symbols.get(relocation.symbol as usize);
            let place = view.section_at(relocation.offset).map_or("nowhere", |(_, section)| &section.name);
            match symbol.filter(|_| relocation.symbol != 0) {
                Some(symbol) => {
                    // Linkers may choose the slots, but not the symbols that the slots are bound to.
                    let kind = if slot_types(view.machine).contains(&relocation.kind) {
                        "slot of".to_owned()
                    } else {
                        format!("type {} to", relocation.kind)
                    };
                    collector.set(Aspect::DynamicRelocations, format!("{kind} {}", symbol.name), "present");
                }
                None if relocation.kind == relative => {
                    if !place.starts_with(".got") {
                        collector.count(Aspect::DynamicRelocations, format!("relative in {place}"));
                    }
                }
                None => collector.set(
                    Aspect::DynamicRelocations,
                    format!("type {} without symbol", relocation.kind),
                    "present",
                ),
            }
        }
    }
    for section in view.sections.iter().filter(|section| section.kind == 19) {
        for address in relr(view, section.data) {
            let place = view.section_at(address).map_or("nowhere", |(_, section)| &section.name);
            if !place.starts_with(".got") {
                collector.count(Aspect::DynamicRelocations, format!("relative in {place}"));
            }
        }
    }
}

/// `GLOB_DAT` and `JUMP_SLOT`.
fn slot_types(machine: u16) -> [u32; 2] {
    match machine {
        elf::EM_AARCH64 => [elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT],
        elf::EM_S390 => [elf::R_390_GLOB_DAT, elf::R_390_JMP_SLOT],
        _ => [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT],
    }
}

fn relative_type(machine: u16) -> u32 {
    match machine {
        elf::EM_AARCH64 => elf::R_AARCH64_RELATIVE,
        elf::EM_S390 => elf::R_390_RELATIVE,
        _ => elf::R_X86_64_RELATIVE,
    }
}

/// The addresses that a `SHT_RELR` section contains (gABI: an address, then bit maps for the 63 words after
/// it).
fn relr(view: &View<'_>, data: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut next = 0u64;
    for word in data.chunks_exact(8) {
        let bytes: [u8; 8] = word.try_into().unwrap_or_default();
        let entry = if view.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) };
        if entry & 1 == 0 {
            found.push(entry);
            next = entry.wrapping_add(8);
        } else {
            let bits = (1..64).filter(|bit| entry >> bit & 1 != 0);
            found.extend(bits.map(|bit| next.wrapping_add(8 * (bit - 1))));
            next = next.wrapping_add(63 * 8);
        }
    }
    found
}
