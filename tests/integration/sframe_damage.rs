//! Damaged `.sframe` inputs: every byte and every length of a small section, in every mode. The linker must
//! print a message that names the input, or write the rows that a reader finds in the damaged bytes. It must
//! never panic, and never write other rows.
//!
//! Some damage makes another section that is valid: a function that is one byte longer, a row that starts one
//! byte later. Nobody can recognise such damage, so the output must have the input's rows.
//!
//! Links run in this process and read from memory. Hundreds of differently damaged objects go into one link,
//! because the frames of each input must not depend on its neighbours.

use crate::support::elf::{Relocation, quad};
use crate::support::{Elf, Work};
use sframe_format::write::{Encoder, Function, Options};
use sframe_format::{Abi, Error, ErrorKind, Piece, Rules, Section};
use sframe_ld::cli::{self, Environment, Invocation};
use sframe_ld::diag::{Code, Diagnostic, Location, Severity, Sink};
use sframe_ld::input::{FileBytes, InputSource};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Real assemblers' objects from small sources: three functions in one text section, and seven in seven.
const OBJECTS: [&str; 4] = [
    "v1-gas2.40/main.x86_64.o",
    "v2e1-gas2.45/main.x86_64.o",
    "v3-gas2.47/main.x86_64.o",
    "v3-gas2.47/demo_function_sections.x86_64.o",
];
/// Modes in which input sections stay as they are, or each becomes several.
const SECTIONS: [&[&str]; 4] = [&[], &["-r"], &["--sframe-split"], &["-r", "--sframe-split"]];
/// Modes that make one table, with the section that contains it.
const TABLES: [(&[&str], &str); 4] = [
    (&["--sframe-index"], ".sframe_idx"),
    (&["--sframe=merge"], ".sframe"),
    (&["-r", "--sframe-index"], ".sframe_idx"),
    (&["-r", "--sframe=merge"], ".sframe"),
];
const R_X86_64_PC64: u32 = 24;
/// The number of damaged objects in one link.
const AT_ONCE: usize = 400;
/// A layout in which places are easy to identify.
const SCRIPT: &str = "SECTIONS { .text 0x10000 : { *(.text .text.*) } .sframe : { *(.sframe) }
  .sframe_idx : { *(.sframe_idx) } /DISCARD/ : { *(.eh_frame .comment .note*) } }";
/// The same for `-r`.
const SCRIPT_R: &str = "SECTIONS { .text 0 : { *(.text .text.*) } }";

/// Files in memory.
struct Memory(BTreeMap<String, Vec<u8>>);

impl InputSource for Memory {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let bytes = path.to_str().and_then(|path| self.0.get(path));
        bytes.map(|bytes| FileBytes::Owned(bytes.clone())).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn exists(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.0.contains_key(path))
    }
}

/// One of the small objects, with the facts that damage to its frames needs.
struct Subject {
    bytes: Vec<u8>,
    /// Offset of `.sframe` in the file, and its size.
    frames: usize,
    size: usize,
    /// Offset of its `sh_size` in the file.
    size_field: usize,
    /// Size of its text, up to the next object's.
    text: u64,
    /// For the offset of each relocation in `.sframe`: the offset that it names in this object's text, and
    /// the width of the field.
    places: BTreeMap<usize, (u64, usize)>,
}

impl Subject {
    fn new(work: &Work, name: &str) -> Self {
        let bytes = work.read(&work.fixture(name));
        let elf = Elf::parse(bytes.clone()).unwrap();
        let frames = elf.section(".sframe");
        let (mut text, mut begins) = (0u64, BTreeMap::new());
        for section in elf.sections.iter().filter(|section| section.name.starts_with(".text")) {
            begins.insert(section.index, text.next_multiple_of(section.align));
            text = text.next_multiple_of(section.align) + section.size;
        }
        let symbols = elf.symbols();
        let place = |relocation: &Relocation| {
            let symbol = &symbols[relocation.symbol];
            let begin = begins[&usize::from(symbol.section)] + symbol.value;
            let width = if relocation.kind == R_X86_64_PC64 { 8 } else { 4 };
            (relocation.offset as usize, (begin.wrapping_add_signed(relocation.addend), width))
        };
        let headers = quad(&bytes, 40) as usize;
        Subject {
            frames: frames.offset as usize,
            size: frames.data.len(),
            size_field: headers + frames.index * 64 + 32,
            text: text.next_multiple_of(16),
            places: elf.relocations_for(frames.index).iter().map(place).collect(),
            bytes,
        }
    }

    fn with_byte(&self, at: usize, value: u8) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[self.frames + at] = value;
        bytes
    }

    fn with_size(&self, size: usize) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[self.size_field..self.size_field + 8].copy_from_slice(&(size as u64).to_le_bytes());
        bytes
    }

    /// Every byte with several values, including 0 and 255, and with each bit inverted.
    fn every_byte(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for at in 0..self.size {
            let old = self.bytes[self.frames + at];
            let bits = (0..8).map(|bit| old ^ 1 << bit);
            let values: BTreeSet<u8> =
                bits.chain([0, 0xff, old.wrapping_add(1), old.wrapping_sub(1)]).collect();
            for value in values.into_iter().filter(|&value| value != old) {
                all.push((format!("byte{at:02x}={value:02x}.o"), self.with_byte(at, value)));
            }
        }
        all
    }

    /// Every length except the right one.
    fn every_length(&self) -> Vec<(String, Vec<u8>)> {
        (0..self.size).map(|size| (format!("length{size:02x}.o"), self.with_size(size))).collect()
    }

    /// The damaged section in `file`.
    fn section<'f>(&self, file: &'f [u8]) -> &'f [u8] {
        &file[self.frames..][..quad(file, self.size_field) as usize]
    }

    /// The functions that a reader finds in the damaged section of `file`, by their offset in the text.
    fn read(&self, file: &[u8]) -> Result<BTreeMap<u64, Function>, Error> {
        let mut found = BTreeMap::new();
        for piece in Section::new(self.section(file), 0).strict().pieces() {
            let blob = match piece {
                Piece::Blob(blob) => blob,
                Piece::Gap(gap) => return Err(gap.error),
            };
            for fde in blob.fdes() {
                let function = Function::read(&blob, &fde)?;
                if let Some(&(place, _)) = self.places.get(&fde.offset).filter(|_| function.size > 0) {
                    found.insert(place, function);
                }
            }
        }
        Ok(found)
    }
}

/// Links objects from memory; returns the messages, and the output if there is one.
fn link(work: &Work, options: &[&str], objects: &[(String, Vec<u8>)]) -> (Option<Elf>, Vec<Diagnostic>) {
    let mut memory = Memory(objects.iter().cloned().collect());
    let script = if options.contains(&"-r") { SCRIPT_R } else { SCRIPT };
    memory.0.insert("script".to_owned(), script.into());
    let output = work.path("output");
    let _ = std::fs::remove_file(&output);
    let mut arguments: Vec<OsString> = vec!["-o".into(), output.clone().into()];
    let quiet = ["-z", "muldefs", "--unresolved-symbols=ignore-all", "--no-warn-rwx-segments"];
    arguments.extend(
        ["-T", "script", "-e", "0", "--threads=1"].iter().chain(&quiet).chain(options).map(OsString::from),
    );
    arguments.extend(objects.iter().map(|(name, _)| OsString::from(name)));
    let environment =
        Environment { program: "ld", options: None, identity: None, run_path: None, enter: None };
    let sink = Sink::default();
    let files = |path: &Path| memory.read(path).map(|bytes| bytes.to_vec());
    let Ok(Invocation::Link(config, inputs)) = cli::parse(&arguments, &environment, &files, &sink) else {
        panic!("{:?}", sink.into_sorted());
    };
    let outcome = sframe_ld::link(&config, &inputs, &memory, sink.into_sorted(), sframe_ld::Memory::Freed);
    let elf = std::fs::read(output).ok().map(|bytes| Elf::parse(bytes).unwrap());
    assert_eq!(elf.is_some(), outcome.succeeded);
    (elf, outcome.diagnostics)
}

/// The files that the diagnostics name. Each diagnostic must name one, except for the one that counts
/// functions that cannot be written.
fn named<'d>(diagnostics: impl IntoIterator<Item = &'d Diagnostic>) -> BTreeSet<&'d str> {
    let file = |diagnostic: &'d Diagnostic| match &diagnostic.location {
        Location::Section { file, .. } | Location::File(file) => Some(file.as_str()),
        _ if diagnostic.code == Code::SFrameNote => None,
        _ => panic!("{diagnostic:?}"),
    };
    diagnostics.into_iter().filter_map(file).collect()
}

/// All objects except these.
fn without(objects: &[(String, Vec<u8>)], names: &BTreeSet<&str>) -> Vec<(String, Vec<u8>)> {
    objects.iter().filter(|(name, _)| !names.contains(name.as_str())).cloned().collect()
}

/// Whether a table can contain a function. It cannot express every rule that a damaged header may imply.
fn is_expressible(function: &Function) -> bool {
    Encoder::new(Options::new(Abi::Amd64)).add(function).is_ok()
}

/// The rules at an offset in a function, as an unwinder finds them.
fn rules_at(function: &Function, offset: u32) -> Option<Rules> {
    let offset = function.repeat_size.map_or(offset, |size| offset % u32::from(size));
    function.rows.iter().take_while(|row| row.start <= offset).last().map(|row| row.rules)
}

#[track_caller]
fn same_rules(found: &Function, expected: &Function, what: &str) {
    assert_eq!((found.size, found.signal), (expected.size, expected.signal), "{what}");
    for offset in 0..found.size.min(0x100) {
        let (found, expected) = (rules_at(found, offset), rules_at(expected, offset));
        assert_eq!(found, expected, "{what}+{offset:#x}");
    }
}

/// The functions in the blobs of an output's sections with this name, by their offset in `.text`.
fn functions(elf: &Elf, name: &str) -> BTreeMap<u64, Function> {
    let mut all = BTreeMap::new();
    for found in elf.sections_named(name) {
        let relocations = elf.relocations_for(found.index);
        let places: BTreeMap<usize, u64> =
            relocations.iter().map(|r| (r.offset as usize, r.addend as u64)).collect();
        for piece in Section::new(&found.data, found.addr).strict().pieces() {
            let Piece::Blob(blob) = piece else { panic!("{name} holds {piece:?}") };
            assert_eq!(blob.header().abi, Abi::Amd64);
            for fde in blob.fdes().filter(|fde| fde.size > 0) {
                let address = fde.address.wrapping_sub(elf.section(".text").addr);
                let place = places.get(&fde.offset).copied().unwrap_or(address);
                let before = all.insert(place, Function::read(&blob, &fde).unwrap());
                assert!(before.is_none(), "one row for {place:#x}");
            }
        }
    }
    all
}

/// Compares the functions in the output with those that a reader finds in the inputs, except for inputs that
/// were refused.
#[track_caller]
fn compare(
    mut found: BTreeMap<u64, Function>,
    subject: &Subject,
    objects: &[(String, Vec<u8>)],
    refused: &BTreeSet<&str>,
    (is_kept, what): (fn(&Function) -> bool, &str),
) {
    for (number, (name, bytes)) in objects.iter().enumerate() {
        let what = format!("{what}: {name}");
        let expected = match subject.read(bytes) {
            Ok(mut expected) if !refused.contains(name.as_str()) => {
                expected.retain(|_, function| is_kept(function));
                expected
            }
            Ok(_) => BTreeMap::new(),
            Err(error) => {
                assert!(refused.contains(name.as_str()), "{what}: nothing is said of {error}");
                BTreeMap::new()
            }
        };
        let begin = number as u64 * subject.text;
        let rest = found.split_off(&(begin + subject.text));
        let places: Vec<u64> = found.keys().map(|place| place.wrapping_sub(begin)).collect();
        assert_eq!(places, expected.keys().copied().collect::<Vec<_>>(), "{what}");
        for (function, expected) in found.values().zip(expected.values()) {
            same_rules(function, expected, &what);
        }
        found = rest;
    }
    assert!(found.is_empty(), "{what}: {found:?}");
}

/// Links objects into one table and compares it with them.
fn check_table(
    work: &Work,
    subject: &Subject,
    (options, section): (&[&str], &str),
    objects: &[(String, Vec<u8>)],
) {
    let (elf, diagnostics) = link(work, options, objects);
    let Some(elf) = elf else {
        // A section that the index does not take stays in `.sframe`, and there a relocation reaches past its
        // end.
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let rest = without(objects, &named(errors));
        assert!(rest.len() < objects.len());
        return check_table(work, subject, (options, section), &rest);
    };
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Warning));
    let refused = named(&diagnostics);
    let found = functions(&elf, section);
    compare(found, subject, objects, &refused, (is_expressible, &format!("{options:?}")));
}

#[test]
fn tables_of_inputs_with_any_byte_damaged_are_right_or_refused() {
    let work = Work::new();
    for name in OBJECTS {
        let subject = Subject::new(&work, name);
        for objects in subject.every_byte().chunks(AT_ONCE) {
            for way in TABLES {
                check_table(&work, &subject, way, objects);
            }
        }
    }
}

#[test]
fn tables_of_inputs_of_any_wrong_length_are_right_or_refused() {
    let work = Work::new();
    for name in OBJECTS {
        let subject = Subject::new(&work, name);
        for way in TABLES {
            check_table(&work, &subject, way, &subject.every_length());
        }
    }
}

#[test]
fn sections_with_any_byte_damaged_pass_or_are_refused() {
    let work = Work::new();
    for name in OBJECTS {
        let subject = Subject::new(&work, name);
        for objects in subject.every_byte().chunks(AT_ONCE) {
            for options in SECTIONS {
                check_sections(&work, &subject, options, objects);
            }
        }
    }
}

#[test]
fn sections_of_any_wrong_length_pass_or_are_refused() {
    let work = Work::new();
    for name in OBJECTS {
        let subject = Subject::new(&work, name);
        for options in SECTIONS {
            for cut in subject.every_length() {
                check_sections(&work, &subject, options, &[cut]);
            }
        }
    }
}

/// Links objects whose frames stay sections or become parts of one, and compares these with the inputs. A
/// section that a message names is passed on as a whole; concatenation passes all of them on.
fn check_sections(work: &Work, subject: &Subject, options: &[&str], objects: &[(String, Vec<u8>)]) {
    let (elf, diagnostics) = link(work, options, objects);
    let refused = named(&diagnostics);
    for (name, bytes) in objects {
        // Sections of an unknown version are passed on; that is what concatenation is for.
        let error = subject.read(bytes).err();
        if let Some(error) = error.filter(|error| !matches!(error.kind, ErrorKind::Version { .. })) {
            assert!(refused.contains(name.as_str()), "{options:?}: {name}: nothing is said of {error}");
        }
    }
    let Some(elf) = elf else {
        // A relocation lies after the end of the section.
        assert!(objects.len() == 1, "{options:?}: {diagnostics:#?}");
        return;
    };
    if !options.contains(&"--sframe-split") {
        return check_bytes(&elf, subject, options, objects);
    }
    let good = without(objects, &refused);
    let (elf, diagnostics) = link(work, options, &good);
    assert!(diagnostics.is_empty(), "{options:?}: {diagnostics:#?}");
    let found = elf.map(|elf| functions(&elf, ".sframe")).unwrap_or_default();
    compare(found, subject, &good, &BTreeSet::new(), (|_| true, &format!("{options:?}")));
}

/// Checks that sections are passed on byte for byte, except for relocated fields and, in a final link, the
/// flags.
fn check_bytes(elf: &Elf, subject: &Subject, options: &[&str], objects: &[(String, Vec<u8>)]) {
    let sections = elf.sections_named(".sframe");
    let relocatable = options.contains(&"-r");
    let mut at = 0;
    for (number, (name, bytes)) in
        objects.iter().filter(|(_, bytes)| !subject.section(bytes).is_empty()).enumerate()
    {
        let mut expected = subject.section(bytes).to_vec();
        let mut found =
            if relocatable { sections[number].data.to_vec() } else { sections[0].data[at..].to_vec() };
        found.truncate(expected.len());
        at += expected.len().next_multiple_of(8);
        if !relocatable {
            let size = expected.len();
            let fields =
                subject.places.iter().map(|(&at, &(_, width))| at..at + width).chain(std::iter::once(3..4));
            for at in fields.flatten().filter(|&at| at < size) {
                (expected[at], found[at]) = (0, 0);
            }
        }
        assert_eq!(found, expected, "{options:?}: {name}");
    }
}
