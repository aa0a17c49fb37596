//! Makes objects in memory, splits their `.eh_frame` and writes it again.

use crate::arch::x86_64::X86_64;
use crate::chunks::{Chunk, Layout, Places};
use crate::cli::{Config, OutputMode};
use crate::diag::{Policy, Sink};
use crate::ids::{ChunkId, FileId, SectionId, SymbolId};
use crate::input::InputStore;
use crate::input::object::{FileName, ObjectFile};
use crate::passes::{keep_eh_frames, size_tables, split_eh_frames};
use crate::phase::{
    Addresses, Bound, Folds, Geometry, Inputs, Located, Numbered, Resolved, Scanned, SectionState,
    SectionStates, Session, Synthesized,
};
use crate::region::Region;
use crate::report_files::ReportFiles;
use crate::sframe::collect::Chosen;
use crate::symbols::Definition;
use crate::synth;
use object::write::{Object, Relocation, Symbol, SymbolId as WriteSymbol, SymbolSection};
use object::{RelocationFlags, SymbolFlags, SymbolKind, SymbolScope, elf};
use pretty_assertions::assert_eq;

/// An `.eh_frame` section under construction, with relocations (offset, symbol, addend).
#[derive(Default)]
struct FrameBuilder {
    bytes: Vec<u8>,
    relocations: Vec<(usize, &'static str, i64)>,
}

impl FrameBuilder {
    fn record(&mut self, body: &[u8]) -> usize {
        let start = self.bytes.len();
        let padded = body.len().next_multiple_of(4);
        self.bytes.extend((padded as u32).to_le_bytes());
        self.bytes.extend(body);
        self.bytes.resize(start + 4 + padded, 0);
        start
    }

    /// Adds a CIE with `zR`, or with `zPLR` and a personality.
    fn cie(&mut self, personality: Option<&'static str>) -> usize {
        let mut body = vec![0, 0, 0, 0, 1];
        match personality {
            None => body.extend(b"zR\0\x01\x78\x10\x01\x1b"),
            Some(_) => body.extend(b"zPLR\0\x01\x78\x10\x07\x9b\0\0\0\0\x1b\x1b"),
        }
        let start = self.record(&body);
        if let Some(symbol) = personality {
            self.relocations.push((start + 4 + 5 + 5 + 5, symbol, 0));
        }
        start
    }

    fn fde(&mut self, cie: usize, code: &'static str, addend: i64, lsda: Option<&'static str>) -> usize {
        let start = self.bytes.len();
        let mut body = ((start + 4 - cie) as u32).to_le_bytes().to_vec();
        body.extend([0, 0, 0, 0, 8, 0, 0, 0]);
        body.push(if lsda.is_some() { 4 } else { 0 });
        body.extend([0; 4]);
        self.record(&body);
        if !code.is_empty() {
            self.relocations.push((start + 8, code, addend));
        }
        if let Some(symbol) = lsda {
            self.relocations.push((start + 17, symbol, 0));
        }
        start
    }
}

/// An object with 16-byte sections `.text.NAME`, each with a local symbol NAME, and `.eh_frame`.
fn object_of(functions: &[&str], frames: &FrameBuilder) -> Vec<u8> {
    let mut object =
        Object::new(object::BinaryFormat::Elf, object::Architecture::X86_64, object::Endianness::Little);
    let mut symbols: Vec<(String, WriteSymbol)> = Vec::new();
    for name in functions {
        let section =
            object.add_section(Vec::new(), format!(".text.{name}").into_bytes(), object::SectionKind::Text);
        object.set_section_data(section, vec![0x90; 16], 16);
        let symbol = symbol(name, SymbolScope::Compilation, SymbolSection::Section(section));
        symbols.push(((*name).to_owned(), object.add_symbol(symbol)));
    }
    let section = object.add_section(Vec::new(), b".eh_frame".to_vec(), object::SectionKind::ReadOnlyData);
    object.set_section_data(section, frames.bytes.clone(), 8);
    for &(offset, name, addend) in &frames.relocations {
        let known = symbols.iter().find(|(known, _)| known == name).map(|&(_, id)| id);
        let id = known.unwrap_or_else(|| {
            let id = object.add_symbol(symbol(name, SymbolScope::Unknown, SymbolSection::Undefined));
            symbols.push((name.to_owned(), id));
            id
        });
        let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_PC32 };
        let relocation = Relocation { offset: offset as u64, symbol: id, addend, flags };
        object.add_relocation(section, relocation).expect("a valid relocation");
    }
    object.write().expect("a valid object")
}

fn symbol(name: &str, scope: SymbolScope, section: SymbolSection) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: 0,
        kind: SymbolKind::Text,
        scope,
        weak: false,
        section,
        flags: SymbolFlags::None,
    }
}

/// The inputs of a test's link.
struct World {
    objects: Vec<Vec<u8>>,
    config: Config,
    sink: Sink,
    store: InputStore,
    files: ReportFiles,
}

impl World {
    fn new(objects: Vec<Vec<u8>>) -> Self {
        let mut config = Config { mode: OutputMode::Executable { pie: false }, ..Config::default() };
        config.dynamic.eh_frame_hdr = true;
        let (sink, store) = (Sink::new(Policy::default()), InputStore::default());
        World { objects, config, sink, store, files: ReportFiles::default() }
    }

    /// A link with resolved symbols and split frames.
    fn link(&self) -> (Bound<'_, X86_64>, SectionStates) {
        let World { config, sink, store, files, .. } = self;
        let session = Session { config, sink, store, far_loads: &[], files };
        let (mut globals, mut objects, mut states): (Vec<&[u8]>, Vec<_>, Vec<SectionState>) =
            Default::default();
        for (number, bytes) in self.objects.iter().enumerate() {
            let mut object =
                ObjectFile::parse(FileName { path: ["a.o", "b.o", "c.o"][number], member: None }, bytes)
                    .expect("a valid object");
            object.index_relocation_sections().expect("valid relocations");
            object.id = FileId::from_index(number);
            object.first_section = states.len() as u32;
            object.first_local = 1000 * (number as u32 + 1);
            for symbol in object.first_global as usize..object.symbols.len() {
                let name = object.symbol_name(symbol);
                let row = globals.iter().position(|known| *known == name).unwrap_or_else(|| {
                    globals.push(name);
                    globals.len() - 1
                });
                object.globals.push(SymbolId::from_index(row));
            }
            for header in object.headers {
                let content = matches!(header.sh_type.get(), elf::SHT_PROGBITS);
                states.push(if content { SectionState::ALIVE } else { SectionState::NOT_CONTENT });
            }
            objects.push(object);
        }
        let count = globals.len();
        let inputs = Inputs::of(session, objects, globals, states);
        let mut resolved = Resolved::of(inputs);
        resolved.definitions.of = vec![Definition::Undefined; count];
        let mut sections = SectionStates::of_inputs(&resolved.section_states);
        let frames = split_eh_frames::run(&resolved, &mut sections);
        let mut synthesized = Synthesized::of(resolved, frames);
        let own = [
            synth::eh_frame::section(&synthesized, &synthesized.frames),
            synth::eh_frame_hdr::section(&synthesized, &synthesized.frames),
        ];
        synthesized.synthetic.rows.extend(own.into_iter().flatten());
        sections.add_alive(synthesized.synthetic.rows.len());
        let rules = vec![None; synthesized.section_count()];
        (Bound::of(synthesized, rules), sections)
    }
}

/// A link that knows only its frames, with their offsets in the output.
fn linked(link: (Bound<'_, X86_64>, SectionStates)) -> Located<'_, X86_64> {
    placed_at(0, link)
}

/// The same with every `.text.*` section at an address: `first + 0x100 * n`.
fn placed_at(first: u64, (bound, sections): (Bound<'_, X86_64>, SectionStates)) -> Located<'_, X86_64> {
    let numbered = Numbered::of(Scanned::of(keep_eh_frames::run(bound, sections, Folds::default())));
    let (contents, _) =
        size_tables::run(numbered, Chosen::default(), Vec::new(), Default::default(), Default::default());
    let count = contents.section_count();
    let mut layout =
        Layout { places: Places { chunk: vec![None; count], offset: vec![0; count] }, ..Layout::default() };
    for object in &contents.objects {
        let code = (0..object.headers.len()).filter(|&at| object.section_name(at).starts_with(b".text."));
        for index in code {
            let chunk = ChunkId::from_index(layout.chunks.len());
            let address = first + 0x100 * u64::from(chunk.number());
            layout.chunks.push(Chunk { address, ..Chunk::default() });
            layout.places.chunk[object.section_id(index as u32).index()] = Some(chunk);
        }
    }
    let (linker_values, addresses) = (Vec::new(), Addresses::default());
    Located { geometry: Geometry { contents, layout, linker_values, addresses }, values: Vec::new() }
}

fn section_of(link: &Inputs<'_, X86_64>, file: usize, name: &str) -> SectionId {
    let object = &link.objects[file];
    let index = (0..object.headers.len()).find(|&index| object.section_name(index) == name.as_bytes());
    object.section_id(index.expect("such a section") as u32)
}

/// The output section. Every code field holds the number of its relocations.
fn written(link: &Geometry<'_, X86_64>) -> Vec<u8> {
    let mut out = vec![0xee; synth::eh_frame::size(link) as usize];
    synth::eh_frame::write(link, 0x1000, Region::of_memory(&mut out), |record| {
        assert_eq!(record.address, 0x1000 + record.record.output);
        if record.record.fde.is_some() {
            record.out[8] = record.record.relocations.len() as u8;
        }
    });
    out
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn two_functions(personality: Option<&'static str>) -> FrameBuilder {
    let mut frames = FrameBuilder::default();
    let cie = frames.cie(personality);
    frames.fde(cie, "f", 0, personality.map(|_| "f_lsda"));
    frames.fde(cie, "g", 0, None);
    frames
}

#[test]
fn records_belong_to_the_sections_of_their_functions() {
    let world = World::new(vec![object_of(&["f", "g"], &two_functions(Some("personality")))]);
    let (link, sections) = world.link();
    let frames = &link.frames.files[0];
    let (f, g) = (section_of(&link, 0, ".text.f"), section_of(&link, 0, ".text.g"));
    assert_eq!(frames.fdes.iter().map(|fde| fde.function).collect::<Vec<_>>(), [f, g]);
    let rows = |function| frames.fdes_of(function).collect::<Vec<_>>();
    assert_eq!((rows(f), rows(g)), (vec![0], vec![1]));
    assert!(sections.is(section_of(&link, 0, ".eh_frame"), SectionState::ABSORBED));
    let names = |function| -> Vec<&[u8]> {
        link.frame_edges(function).map(|symbol| link.globals.names[symbol.index()]).collect()
    };
    assert_eq!(names(f), [&b"f_lsda"[..], b"personality"]);
    assert_eq!(names(g), [b"personality"]);
}

#[test]
fn equal_cies_are_kept_once_and_dead_functions_lose_their_records() {
    let objects = (0..3).map(|_| object_of(&["f", "g"], &two_functions(Some("personality")))).collect();
    let world = World::new(objects);
    let (link, mut sections) = world.link();
    for (file, name) in [(0, ".text.f"), (0, ".text.g"), (1, ".text.g")] {
        let section = section_of(&link, file, name);
        sections.discard(section, SectionState::COLLECTED);
    }
    let link = linked((link, sections));
    let out = written(&link);
    // The second object's CIE is the leader. This object has one FDE, the third has two.
    assert_eq!(out.len(), 28 + 24 + 24 + 24);
    assert_eq!(word(&out, 4), 0);
    for fde in [28, 52, 76] {
        assert_eq!(word(&out, fde + 4), fde + 4, "the CIE is at 0");
    }
    assert_eq!([out[28 + 8], out[52 + 8], out[76 + 8]], [2, 2, 1]);
    assert!(link.kept_frames.files[0].fdes.iter().all(Option::is_none));
    assert_eq!(link.kept_frames.files[2].cies[0].leader, (FileId(1), 0));
}

#[test]
fn cies_of_different_personalities_stay_apart() {
    let world = World::new(vec![
        object_of(&["f", "g"], &two_functions(Some("one"))),
        object_of(&["f", "g"], &two_functions(Some("two"))),
        object_of(&["f", "g"], &two_functions(Some("one"))),
    ]);
    let link = linked(world.link());
    let kept = |file: usize| link.kept_frames.files[file].cies[0].output.is_some();
    assert_eq!([kept(0), kept(1), kept(2)], [true, true, false]);
}

#[test]
fn padding_long_forms_and_terminators_are_understood() {
    let mut frames = FrameBuilder::default();
    let cie = frames.cie(None);
    frames.bytes.extend([0; 4]);
    let long = frames.bytes.len();
    frames.bytes.extend([0xff; 4]);
    frames.bytes.extend(16u64.to_le_bytes());
    frames.bytes.extend(((long + 12 - cie) as u32).to_le_bytes());
    frames.bytes.extend([0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    frames.relocations.push((long + 16, "f", 0));
    frames.fde(cie, "", 0, None);
    frames.bytes.extend([0; 4]);
    let world = World::new(vec![object_of(&["f"], &frames)]);
    let link = linked(world.link());
    // The FDE without a relocation describes nothing. One terminator remains, at the end.
    assert_eq!(link.frames.files[0].fdes.len(), 1);
    let out = written(&link);
    assert_eq!(out.len(), 20 + 28 + 4);
    assert_eq!(&out[20..24], [0xff; 4]);
    assert_eq!(word(&out, 20 + 12), 20 + 12);
    assert_eq!(&out[48..], [0; 4]);
    assert_eq!(link.final_place(section_of(&link, 0, ".eh_frame"), 0).map(|(_, offset)| offset), Some(0));
    let end = frames.bytes.len() as u64 - 4;
    assert_eq!(link.final_place(section_of(&link, 0, ".eh_frame"), end).map(|(_, offset)| offset), Some(48));
}

#[test]
fn broken_sections_stay_whole_with_a_warning() {
    let mut too_long = two_functions(None);
    let last = too_long.bytes.len() - 24;
    too_long.bytes[last] = 0x44;
    let mut no_cie = FrameBuilder::default();
    no_cie.fde(0, "f", 0, None);
    let mut version = two_functions(None);
    version.bytes[8] = 9;
    let world = World::new([too_long, no_cie, version].map(|frames| object_of(&["f", "g"], &frames)).into());
    let (link, sections) = world.link();
    assert!(link.frames.has_whole_sections);
    for file in 0..3 {
        assert!(!sections.is(section_of(&link, file, ".eh_frame"), SectionState::ABSORBED));
        assert!(link.frames.files[file].sections.is_empty());
    }
    assert!(synth::eh_frame_hdr::section(&link, &link.frames).is_none());
    drop(link);
    let texts: Vec<_> = world.sink.into_sorted().into_iter().map(|d| d.message).collect();
    assert_eq!(
        texts,
        [
            "broken .eh_frame: a record of length 0x44 does not fit into the section of 0x44 bytes",
            "broken .eh_frame: the CIE pointer 0x4 of an FDE does not lead back to a CIE",
            "broken .eh_frame: in the CIE: its version is 9, expected 1 or 3",
        ]
    );
}

#[test]
fn any_truncation_is_survived() {
    let frames = two_functions(Some("personality"));
    for length in 0..frames.bytes.len() {
        let mut cut = FrameBuilder { bytes: frames.bytes[..length].to_vec(), relocations: Vec::new() };
        cut.relocations.extend(frames.relocations.iter().filter(|relocation| relocation.0 + 4 <= length));
        let world = World::new(vec![object_of(&["f", "g"], &cut)]);
        let link = linked(world.link());
        written(&link);
    }
}

#[test]
fn under_r_sections_stay_whole() {
    let mut world = World::new(vec![object_of(&["f", "g"], &two_functions(None))]);
    world.config.mode = OutputMode::Relocatable;
    let (link, sections) = world.link();
    let eh_frame = section_of(&link, 0, ".eh_frame");
    assert!(!sections.is(eh_frame, SectionState::ABSORBED));
    assert!(link.synthetic.rows.is_empty());
    let live = keep_eh_frames::run(link, sections, Folds::default());
    assert!(live.kept_frames.files.is_empty());
}

#[test]
fn the_table_is_sorted_and_names_each_address_once() {
    let mut frames = FrameBuilder::default();
    let cie = frames.cie(None);
    frames.fde(cie, "g", 4, None);
    frames.fde(cie, "f", 0, None);
    let again = frames.fde(cie, "f", 0, None);
    let empty = frames.fde(cie, "f", 0, None);
    frames.bytes[empty + 12] = 0;
    let world = World::new(vec![object_of(&["f", "g"], &frames)]);
    let link = placed_at(0x5000, world.link());
    let size = link.synthetics.rows[1].size;
    assert_eq!(size, 12 + 4 * 8);
    let mut out = vec![0; size as usize];
    synth::eh_frame_hdr::write(&link, 0x2000, 0x3000, Region::of_memory(&mut out));
    assert_eq!(&out[..4], [1, 0x1b, 3, 0x3b]);
    assert_eq!((word(&out, 4), word(&out, 8)), (0xffc, 2));
    let fde = |offset: usize| 0x1000 + offset;
    assert_eq!((word(&out, 12), word(&out, 16)), (0x3000, fde(again - 24)));
    assert_eq!((word(&out, 20), word(&out, 24)), (0x3104, fde(20)));
    assert_eq!(&out[28..], [0; 16]);
}

#[test]
fn code_out_of_reach_of_the_table_is_an_error() {
    let world = World::new(vec![object_of(&["f", "g"], &two_functions(None))]);
    let link = placed_at(0x1_0000_0000, world.link());
    let mut out = vec![0; link.synthetics.rows[1].size as usize];
    synth::eh_frame_hdr::write(&link, 0x2000, 0x3000, Region::of_memory(&mut out));
    drop(link);
    let found = world.sink.into_sorted();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message, "code at 0x100000000 is more than 2 GiB away from .eh_frame_hdr at 0x2000");
    assert_eq!(found[0].notes, ["functions out of reach: 2"]);
}
