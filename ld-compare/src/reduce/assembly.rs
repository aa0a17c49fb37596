//! Writes an object as assembly: sections as directives and bytes, relocations with `.reloc`.

use crate::machine::Machine;
use crate::model::{Object, Place, Section};
use object::elf;
use std::fmt::Write;

/// The text, and the number of relocations whose type has no name for the assembler here.
pub fn write(object: &Object, machine: Machine) -> (String, usize) {
    let mut text = String::new();
    let mut unnamed = 0;
    for symbol in &object.symbols {
        let name = quoted(&symbol.name);
        if symbol.name.is_empty() {
            continue;
        }
        let binding = match symbol.binding {
            elf::STB_GLOBAL | elf::STB_GNU_UNIQUE => Some(".globl"),
            elf::STB_WEAK => Some(".weak"),
            _ => None,
        };
        if let Some(binding) = binding {
            let _ = writeln!(text, "\t{binding}\t{name}");
        }
        let visibility = match symbol.other & 3 {
            elf::STV_HIDDEN => Some(".hidden"),
            elf::STV_INTERNAL => Some(".internal"),
            elf::STV_PROTECTED => Some(".protected"),
            _ => None,
        };
        if let Some(visibility) = visibility {
            let _ = writeln!(text, "\t{visibility}\t{name}");
        }
        match symbol.place {
            Place::Absolute if symbol.kind != elf::STT_FILE => {
                let _ = writeln!(text, "\t.set\t{name}, {:#x}", symbol.value);
            }
            Place::Common => {
                let _ = writeln!(text, "\t.comm\t{name}, {}, {}", symbol.size, symbol.value.max(1));
            }
            _ => {}
        }
    }
    for (row, section) in object.sections.iter().enumerate() {
        let _ = writeln!(text, "\n\t.section\t{}", directive(object, row, section, machine));
        if section.align > 1 {
            let _ = writeln!(text, "\t.balign\t{}", section.align);
        }
        let _ = writeln!(text, ".Lsection{row}:");
        unnamed += contents(&mut text, object, row, section, machine);
    }
    (text, unnamed)
}

fn quoted(name: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_.$".contains(character);
    if name.chars().all(plain) { name.to_owned() } else { format!("\"{name}\"") }
}

fn directive(object: &Object, row: usize, section: &Section, machine: Machine) -> String {
    let at = machine.dialect().at;
    let letters = [
        (elf::SHF_ALLOC, 'a'),
        (elf::SHF_WRITE, 'w'),
        (elf::SHF_EXECINSTR, 'x'),
        (elf::SHF_MERGE, 'M'),
        (elf::SHF_STRINGS, 'S'),
        (elf::SHF_TLS, 'T'),
        (elf::SHF_EXCLUDE, 'e'),
        (elf::SHF_GNU_RETAIN, 'R'),
    ];
    let mut flags: String = letters
        .into_iter()
        .filter(|(bit, _)| section.flags & u64::from(*bit) != 0)
        .map(|(_, letter)| letter)
        .collect();
    let group = object.group_of(row);
    flags.extend(group.map(|_| 'G'));
    flags.extend(section.link.map(|_| 'o'));
    let kind = match section.kind {
        elf::SHT_PROGBITS => "progbits".to_owned(),
        elf::SHT_NOBITS => "nobits".to_owned(),
        elf::SHT_NOTE => "note".to_owned(),
        elf::SHT_INIT_ARRAY => "init_array".to_owned(),
        elf::SHT_FINI_ARRAY => "fini_array".to_owned(),
        elf::SHT_PREINIT_ARRAY => "preinit_array".to_owned(),
        elf::SHT_X86_64_UNWIND => "unwind".to_owned(),
        other => format!("{other:#x}"),
    };
    let mut text = format!("{},\"{flags}\",{at}{kind}", quoted(&section.name));
    if section.flags & u64::from(elf::SHF_MERGE) != 0 {
        let _ = write!(text, ",{}", section.entry_size.max(1));
    }
    if let Some(link) = section.link {
        let _ = write!(text, ",.Lsection{link}");
    }
    if let Some(group) = group {
        let _ = write!(text, ",{}", quoted(object.signature(group)));
        if group.is_comdat() {
            text.push_str(",comdat");
        }
    }
    if object.sections.iter().filter(|other| other.name == section.name).count() > 1 {
        let _ = write!(text, ",unique,{row}");
    }
    text
}

/// Writes labels, bytes and relocations of a section, ordered by offset.
fn contents(text: &mut String, object: &Object, row: usize, section: &Section, machine: Machine) -> usize {
    let mut unnamed = 0;
    let own =
        object.symbols.iter().filter(|symbol| symbol.place == Place::Section(row) && !symbol.name.is_empty());
    let mut labels: Vec<_> = own.collect();
    labels.sort_by_key(|symbol| symbol.value);
    let mut stops: Vec<u64> = labels.iter().map(|symbol| symbol.value.min(section.size)).collect();
    stops.extend(section.relocations.iter().map(|relocation| relocation.offset.min(section.size)));
    stops.extend([0, section.size]);
    stops.sort_unstable();
    stops.dedup();
    for (number, &stop) in stops.iter().enumerate() {
        for symbol in labels.iter().filter(|symbol| symbol.value.min(section.size) == stop) {
            let at = machine.dialect().at;
            let kind = match symbol.kind {
                elf::STT_FUNC => Some("function"),
                elf::STT_OBJECT => Some("object"),
                elf::STT_TLS => Some("tls_object"),
                elf::STT_GNU_IFUNC => Some("gnu_indirect_function"),
                _ => None,
            };
            let name = quoted(&symbol.name);
            if let Some(kind) = kind {
                let _ = writeln!(text, "\t.type\t{name}, {at}{kind}");
            }
            if symbol.size > 0 {
                let _ = writeln!(text, "\t.size\t{name}, {}", symbol.size);
            }
            let _ = writeln!(text, "{name}:");
        }
        for relocation in
            section.relocations.iter().filter(|relocation| relocation.offset.min(section.size) == stop)
        {
            let target = match relocation.symbol.map(|symbol| &object.symbols[symbol]) {
                None => "0".to_owned(),
                Some(symbol) => match symbol.place {
                    Place::Section(section) if symbol.kind == elf::STT_SECTION => {
                        format!(".Lsection{section}")
                    }
                    _ => quoted(&symbol.name),
                },
            };
            let addend = match relocation.addend {
                0 => String::new(),
                addend => format!("{addend:+}"),
            };
            match relocation_name(machine, relocation.kind) {
                Some(name) => drop(writeln!(text, "\t.reloc\t., {name}, {target}{addend}")),
                None => {
                    unnamed += 1;
                    let _ =
                        writeln!(text, "\t# relocation of type {} against {target}{addend}", relocation.kind);
                }
            }
        }
        let end = stops.get(number + 1).copied().unwrap_or(stop);
        bytes(text, section, stop, end);
    }
    unnamed
}

fn bytes(text: &mut String, section: &Section, start: u64, end: u64) {
    let data = section.data.get(start as usize..end as usize).unwrap_or_default();
    if data.iter().all(|byte| *byte == 0) {
        if end > start {
            let _ = writeln!(text, "\t.zero\t{}", end - start);
        }
        return;
    }
    for line in data.chunks(16) {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:#04x}")).collect();
        let _ = writeln!(text, "\t.byte\t{}", bytes.join(", "));
    }
}

/// The names that `.reloc` takes (psABI).
fn relocation_name(machine: Machine, kind: u32) -> Option<&'static str> {
    let names: &[(u32, &str)] = match machine {
        Machine::X86_64 => &[
            (0, "R_X86_64_NONE"),
            (1, "R_X86_64_64"),
            (2, "R_X86_64_PC32"),
            (3, "R_X86_64_GOT32"),
            (4, "R_X86_64_PLT32"),
            (9, "R_X86_64_GOTPCREL"),
            (10, "R_X86_64_32"),
            (11, "R_X86_64_32S"),
            (12, "R_X86_64_16"),
            (13, "R_X86_64_PC16"),
            (14, "R_X86_64_8"),
            (15, "R_X86_64_PC8"),
            (17, "R_X86_64_DTPOFF64"),
            (18, "R_X86_64_TPOFF64"),
            (19, "R_X86_64_TLSGD"),
            (20, "R_X86_64_TLSLD"),
            (21, "R_X86_64_DTPOFF32"),
            (22, "R_X86_64_GOTTPOFF"),
            (23, "R_X86_64_TPOFF32"),
            (24, "R_X86_64_PC64"),
            (25, "R_X86_64_GOTOFF64"),
            (26, "R_X86_64_GOTPC32"),
            (32, "R_X86_64_SIZE32"),
            (33, "R_X86_64_SIZE64"),
            (41, "R_X86_64_GOTPCRELX"),
            (42, "R_X86_64_REX_GOTPCRELX"),
        ],
        Machine::Aarch64 => &[
            (0, "R_AARCH64_NONE"),
            (257, "R_AARCH64_ABS64"),
            (258, "R_AARCH64_ABS32"),
            (259, "R_AARCH64_ABS16"),
            (260, "R_AARCH64_PREL64"),
            (261, "R_AARCH64_PREL32"),
            (262, "R_AARCH64_PREL16"),
            (275, "R_AARCH64_ADR_PREL_PG_HI21"),
            (277, "R_AARCH64_ADD_ABS_LO12_NC"),
            (279, "R_AARCH64_TSTBR14"),
            (280, "R_AARCH64_CONDBR19"),
            (282, "R_AARCH64_JUMP26"),
            (283, "R_AARCH64_CALL26"),
            (285, "R_AARCH64_LDST32_ABS_LO12_NC"),
            (286, "R_AARCH64_LDST64_ABS_LO12_NC"),
            (311, "R_AARCH64_ADR_GOT_PAGE"),
            (312, "R_AARCH64_LD64_GOT_LO12_NC"),
        ],
        Machine::S390x => &[
            (0, "R_390_NONE"),
            (4, "R_390_32"),
            (5, "R_390_PC32"),
            (16, "R_390_PC16"),
            (17, "R_390_PC16DBL"),
            (19, "R_390_PC32DBL"),
            (20, "R_390_PLT32DBL"),
            (22, "R_390_64"),
            (23, "R_390_PC64"),
            (26, "R_390_GOTENT"),
        ],
    };
    names.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}
