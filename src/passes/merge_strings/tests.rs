//! Tests of which sections are merged with which.

use super::{Kind, MergedSection, ObjectFile, RelocNeeds, SectionId, SectionState, elf, place, run};
use crate::arch::x86_64::X86_64;
use crate::cli::{Config, OutputMode};
use crate::diag::Sink;
use crate::frames::Frames;
use crate::ids::{FileId, RuleId};
use crate::input::InputStore;
use crate::input::object::FileName;
use crate::merge::UsedOffsets;
use crate::passes::keep_eh_frames;
use crate::phase::{Bound, Folds, Inputs, Resolved, SectionStates, Session, Synthesized};
use crate::region::Region;
use crate::report_files::ReportFiles;
use object::write::{Object, Relocation, Symbol, SymbolSection};
use object::{RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use pretty_assertions::assert_eq;

const STRINGS: u64 = elf::SHF_ALLOC | elf::SHF_MERGE | elf::SHF_STRINGS;
const CONSTANTS: u64 = elf::SHF_ALLOC | elf::SHF_MERGE;

/// A section: name, contents, flags, whether it has a relocation.
type Section = (&'static str, &'static [u8], u64, bool);

/// An object whose mergeable sections have entries of one byte (strings) or four (constants).
fn object_of(sections: &[Section]) -> Vec<u8> {
    let mut object =
        Object::new(object::BinaryFormat::Elf, object::Architecture::X86_64, object::Endianness::Little);
    let symbol = object.add_symbol(Symbol {
        name: b"other".to_vec(),
        value: 0,
        size: 0,
        kind: SymbolKind::Data,
        scope: SymbolScope::Unknown,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    });
    for &(name, bytes, flags, relocated) in sections {
        let kind = if flags & elf::SHF_STRINGS != 0 {
            SectionKind::ReadOnlyString
        } else {
            SectionKind::ReadOnlyData
        };
        let id = object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
        object.set_section_data(id, bytes, 1);
        object.section_mut(id).flags = object::SectionFlags::Elf { sh_flags: flags };
        if relocated {
            let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_64 };
            object.add_relocation(id, Relocation { offset: 0, symbol, addend: 0, flags }).expect("valid");
        }
    }
    let mut bytes = object.write().expect("a valid object");
    set_entry_sizes(&mut bytes);
    bytes
}

/// Sets entry sizes, because the object writer knows only those of strings.
fn set_entry_sizes(bytes: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let table = word(bytes, 40) as usize;
    let count = usize::from(u16::from_le_bytes([bytes[60], bytes[61]]));
    for header in (0..count).map(|index| table + index * 64) {
        let flags = word(bytes, header + 8);
        if flags & elf::SHF_MERGE != 0 {
            let size = if flags & elf::SHF_STRINGS != 0 { 1u64 } else { 4 };
            bytes[header + 56..header + 64].copy_from_slice(&size.to_le_bytes());
        }
    }
}

/// A merged section: name, contents, and its inputs by file and name.
type Merged = (String, Vec<u8>, Vec<(u32, String)>);

/// Links objects up to the point where strings are merged.
fn merged(mode: OutputMode, objects: &[Vec<u8>]) -> Vec<Merged> {
    let config = Config { mode, ..Config::default() };
    let (sink, store) = (Sink::default(), InputStore::default());
    let files = ReportFiles::default();
    let session = Session { config: &config, sink: &sink, store: &store, far_loads: &[], files: &files };
    let (mut parsed, mut states): (Vec<_>, Vec<SectionState>) = Default::default();
    for (number, bytes) in objects.iter().enumerate() {
        let mut object =
            ObjectFile::parse(FileName { path: "a.o", member: None }, bytes).expect("a valid object");
        object.index_relocation_sections().expect("valid relocations");
        object.id = FileId::from_index(number);
        object.first_section = states.len() as u32;
        states.extend(object.headers.iter().map(|_| SectionState::ALIVE));
        parsed.push(object);
    }
    let inputs = Inputs::of(session, parsed, Vec::new(), states);
    let synthesized = Synthesized::<X86_64>::of(Resolved::of(inputs), Frames::default());
    // Matches sections as a default script does: one rule takes `.rodata` and its kin, and the rest are
    // orphans.
    let is_data = |id| synthesized.section_info(SectionId(id)).name.starts_with(b".rodata");
    let rules = (0..synthesized.first_internal())
        .map(|id| if is_data(id) { Some(RuleId::new(0)) } else { None })
        .collect();
    let mut bound = Bound::of(synthesized, rules);
    bound.matched.plan.add_orphan_output(b".rodata");
    let sections = SectionStates::of_inputs(&bound.section_states);
    let live = keep_eh_frames::run(bound, sections, Folds::default());
    let groups = run(&live, &UsedOffsets::default());
    let link = place(live, RelocNeeds::default(), groups);
    let sections = link.merged.iter().enumerate();
    sections
        .map(|(row, MergedSection { section, .. })| {
            let id = link.synthetic_id(row as u32);
            let Kind::Merged(number) = section.kind else { panic!("{:?}", section.kind) };
            let mut out = vec![0; section.size as usize];
            crate::synth::merged::write(&link, number, Region::of_memory(&mut out));
            let inputs = (0..link.first_internal()).map(SectionId).filter(|&input| {
                link.sections.is(input, SectionState::ABSORBED)
                    && link.final_place(input, 0).is_some_and(|(place, _)| place == id)
            });
            let name = |input| String::from_utf8_lossy(link.section_info(input).name).into_owned();
            let inputs = inputs.map(|input| (link.rank_of_file(input), name(input))).collect();
            (String::from_utf8_lossy(section.name).into_owned(), out, inputs)
        })
        .collect()
}

const PROGRAM: OutputMode = OutputMode::Executable { pie: true };

#[test]
fn sections_of_one_output_section_and_kind_become_one() {
    let first = object_of(&[
        (".rodata.str1.1", b"one\0two\0", STRINGS, false),
        (".rodata.cst4", &[1, 0, 0, 0, 2, 0, 0, 0], CONSTANTS, false),
        (".comment", b"compiler\0", STRINGS, false),
    ]);
    let second = object_of(&[
        (".rodata.main.str1.1", b"two\0three\0", STRINGS, false),
        (".rodata.cst4", &[2, 0, 0, 0, 3, 0, 0, 0], CONSTANTS, false),
        (".comment", b"compiler\0", STRINGS, false),
    ]);
    let entry = |file, name: &str| (file, name.to_owned());
    assert_eq!(
        merged(PROGRAM, &[first, second]),
        [
            (
                ".rodata.str1.1".to_owned(),
                b"one\0two\0three\0".to_vec(),
                vec![entry(0, ".rodata.str1.1"), entry(1, ".rodata.main.str1.1")]
            ),
            (
                ".rodata.cst4".to_owned(),
                vec![1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
                vec![entry(0, ".rodata.cst4"), entry(1, ".rodata.cst4")]
            ),
            (".comment".to_owned(), b"compiler\0".to_vec(), vec![entry(0, ".comment"), entry(1, ".comment")]),
        ]
    );
}

#[test]
fn sections_without_whole_pieces_stay() {
    let writable = STRINGS | elf::SHF_WRITE;
    let object = object_of(&[
        (".rodata.a", b"does not end", STRINGS, false),
        (".rodata.b", b"seven..", CONSTANTS, false),
        (".rodata.c", b"relocate", CONSTANTS, true),
        (".rodata.d", b"writable\0", writable, false),
        (".rodata.e", b"plain\0", elf::SHF_ALLOC, false),
        (".rodata.f", b"", STRINGS, false),
    ]);
    assert_eq!(merged(PROGRAM, &[object]), []);
}

#[test]
fn under_r_names_and_groups_stay_apart() {
    let grouped = STRINGS | elf::SHF_GROUP;
    let object = || {
        object_of(&[
            (".rodata.str1.1", b"one\0", STRINGS, false),
            (".rodata.other", b"one\0", STRINGS, false),
            (".rodata.group", b"one\0", grouped, false),
            (".comment", b"compiler\0", STRINGS, false),
        ])
    };
    let names = merged(OutputMode::Relocatable, &[object(), object()])
        .into_iter()
        .map(|(name, bytes, inputs)| (name, bytes, inputs.len()))
        .collect::<Vec<_>>();
    let one = b"one\0".to_vec();
    assert_eq!(names, [(".rodata.str1.1".to_owned(), one.clone(), 2), (".rodata.other".to_owned(), one, 2)]);
}
