//! Other projects read the sections that this project writes: `readelf` and `objdump` of binutils, and
//! libsframe from C.

use crate::need;
use crate::support::{Work, tools};
use object::write::{Object, StandardSegment};
use object::{Architecture, BinaryFormat, Endianness, Object as _, ObjectSection, SectionKind};
use peers::libsframe::{self, Libsframe, Question};
use sframe_format::convert::convert;
use sframe_format::derive::derive;
use sframe_format::write::Options;
use sframe_format::{Abi, Blob, BlobMut, Endian, Section, Version};
use std::path::{Path, PathBuf};

/// The address of the sections.
const ADDRESS: u64 = 0x10_0000;
const VERSIONS: [Version; 2] = [Version::V2, Version::V3];

/// A section that this project wrote.
struct Written {
    name: String,
    abi: Abi,
    bytes: Vec<u8>,
}

impl Written {
    fn blob(&self) -> Blob<'_> {
        Blob::parse(&self.bytes, ADDRESS).unwrap()
    }
}

/// A small random generator (splitmix64), so that every run makes the same choices.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ value >> 31) % below
    }
}

/// All ELF fixtures, by path.
fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sframe");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = folders
        .filter(|path| path.is_dir())
        .flat_map(|path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
    let mut files: Vec<PathBuf> =
        files.filter(|path| std::fs::read(path).unwrap().starts_with(b"\x7fELF")).collect();
    files.sort();
    files
}

/// The sections of every fixture in both versions, with their functions one after the other.
fn converted() -> Vec<Written> {
    let mut written = Vec::new();
    for path in fixtures() {
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let sections = file.sections().filter(|section| section.name().unwrap().starts_with(".sframe"));
        for section in sections {
            let placed = placed(section.data().unwrap());
            let placed = Section::new(&placed, ADDRESS);
            let Some(abi) = placed.blobs().next().map(|blob| blob.header().abi) else { continue };
            for version in VERSIONS {
                let options = Options::new(abi).version(version);
                let name = format!("{} as {version}", path.file_name().unwrap().to_string_lossy());
                let converted = convert(&placed, options, ADDRESS).unwrap();
                if Blob::parse(&converted.bytes, ADDRESS).unwrap().header().fde_count > 0 {
                    written.push(Written { name, abi, bytes: converted.bytes });
                }
            }
        }
    }
    assert!(written.len() > 150, "only {} sections", written.len());
    written
}

/// The bytes of a section at [`ADDRESS`] with functions that are a page apart.
fn placed(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let offsets: Vec<usize> = Section::new(data, ADDRESS).blobs().map(|blob| blob.offset()).collect();
    let mut start = ADDRESS + 0x10_0000;
    for offset in offsets {
        let mut blob = BlobMut::parse(&mut bytes[offset..], ADDRESS + offset as u64).unwrap();
        blob.make_field_relative();
        for index in 0..blob.header().fde_count {
            blob.set_function_start(index, start).unwrap();
            start += u64::from(blob.as_blob().fde(index).unwrap().size).next_multiple_of(4096) + 4096;
        }
    }
    bytes
}

/// Frames in both versions, derived from the libraries that a C++ program loads.
fn derived() -> Vec<Written> {
    let mut written = Vec::new();
    for library in ["libc.so.6", "libstdc++.so.6", "libgcc_s.so.1"] {
        let path = tools::library(library);
        let bytes = std::fs::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let eh_frame = file.section_by_name(".eh_frame").unwrap();
        for version in VERSIONS {
            let options = Options::new(Abi::Amd64).version(version);
            let derived = derive(options, eh_frame.data().unwrap(), eh_frame.address(), ADDRESS).unwrap();
            let name = format!("{library} as {version}");
            written.push(Written { name, abi: Abi::Amd64, bytes: derived.bytes });
        }
    }
    written
}

/// An ELF file that contains only the section.
fn elf(written: &Written) -> Vec<u8> {
    let architecture = match written.abi {
        Abi::Amd64 => Architecture::X86_64,
        Abi::S390x => Architecture::S390x,
        Abi::AArch64Little | Abi::AArch64Big => Architecture::Aarch64,
    };
    let endian = match written.abi.endian() {
        Endian::Little => Endianness::Little,
        Endian::Big => Endianness::Big,
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, endian);
    let segment = object.segment_name(StandardSegment::Data).to_vec();
    let kind = SectionKind::Elf(sframe_format::SHT_GNU_SFRAME);
    let section = object.add_section(segment, b".sframe".to_vec(), kind);
    object.set_section_data(section, written.bytes.clone(), 8);
    let mut bytes = object.write().unwrap();
    // As a finished file: a field without a relocation has its value.
    bytes[16..18].copy_from_slice(&written.abi.endian().u16_bytes(3));
    bytes
}

/// The words of each line, from the first header on.
fn normal(text: &str) -> Vec<String> {
    let rest = text.find("Header :").map_or("", |at| &text[at..]);
    let words = rest.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    words.filter(|line| !line.is_empty()).collect()
}

/// Checks that readelf and objdump show a file as `sframe dump --readelf` does, without complaint.
#[track_caller]
fn shown_alike(work: &Work, file: &str, readers: &[PathBuf]) {
    let own = normal(&work.sframe(&["dump", "--readelf", file]).ok().stdout);
    assert!(own.iter().any(|line| line.starts_with("func idx [")), "{file}");
    for reader in readers {
        let outcome = work.command(reader, &["--sframe", file]).ok();
        assert_eq!(outcome.stderr, "", "{} {file}", reader.display());
        pretty_assertions::assert_eq!(own, normal(&outcome.stdout), "{} {file}", reader.display());
    }
}

/// The same for objects. The programs only show the first section with a name, and what they print as
/// addresses of functions depends on their release.
#[track_caller]
fn rules_shown_alike(work: &Work, file: &str, readers: &[PathBuf]) {
    let without_addresses = |text: &str| -> Vec<String> {
        let lines = normal(text).into_iter().take_while(|line| !line.starts_with("Contents of"));
        lines.map(|line| line.split_once(' ').map_or(line.clone(), after_address)).collect()
    };
    let own = without_addresses(&work.sframe(&["dump", "--readelf", file]).ok().stdout);
    assert!(own.iter().any(|line| line.starts_with("size = ")), "{file}");
    for reader in readers {
        let outcome = work.command(reader, &["--sframe", file]).ok();
        assert_eq!(outcome.stderr, "", "{} {file}", reader.display());
        pretty_assertions::assert_eq!(own, without_addresses(&outcome.stdout), "{} {file}", reader.display());
    }
}

/// A line without its first word; the line of a function keeps only the size.
fn after_address((first, rest): (&str, &str)) -> String {
    match rest.split_once(", size = ") {
        Some((_, size)) if first == "func" => format!("size = {size}"),
        _ => rest.to_owned(),
    }
}

#[test]
fn readelf_and_objdump_read_written_sections() {
    let work = Work::new();
    let readers = [need!(tools::sframe_readelf()), need!(tools::sframe_objdump())];
    for written in converted().iter().chain(&derived()) {
        let file = work.write(&written.name.replace(' ', "-"), elf(written));
        shown_alike(&work, &file, &readers);
    }
}

#[test]
fn readelf_and_objdump_read_outputs_of_the_commands() {
    let work = Work::new();
    let readers = [need!(tools::sframe_readelf()), need!(tools::sframe_objdump())];
    for path in fixtures() {
        let (file, name) = (path.to_str().unwrap(), path.file_name().unwrap().to_string_lossy());
        let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy();
        match &*folder {
            "v1-gas2.40" | "v3-gas2.47" | "v2e1-llvm22" => {
                work.sframe(&["derive", "--sframe-version", "2", "-o", "derived.o", file]).ok();
                rules_shown_alike(&work, "derived.o", &readers);
                work.sframe(&["split", "-o", "split.o", file]).ok();
                if !folder.starts_with("v1") {
                    rules_shown_alike(&work, "split.o", &readers);
                }
            }
            "linked" if name.contains("concat") && !name.ends_with(".o") => {
                work.sframe(&["index", "-o", "index", file]).ok();
                shown_alike(&work, "index", &readers);
            }
            _ => {}
        }
    }
}

/// Asks libsframe for rows; the answers must be the same.
fn agree(work: &Work, libsframe: &Libsframe, written: &Written, questions: &[Question]) {
    let differences = libsframe.differences(&work.path(""), &written.blob(), questions);
    let differences = differences.unwrap_or_else(|error| panic!("{}: {error}", written.name));
    assert!(differences.is_empty(), "{}: {differences:#?}", written.name);
}

#[test]
fn libsframe_finds_the_same_rows() {
    let work = Work::new();
    let libsframe = need!(Libsframe::newest(&work.path("")));
    for written in converted() {
        agree(&work, &libsframe, &written, &libsframe::every_row(&written.blob(), true));
    }
}

#[test]
fn libsframe_agrees_on_random_addresses_of_libraries() {
    let work = Work::new();
    let libsframe = need!(Libsframe::newest(&work.path("")));
    let mut random = Random(1);
    for written in derived() {
        let blob = written.blob();
        let last = blob.fde(blob.header().fde_count - 1).unwrap();
        let (start, end) = (blob.function_address(0).unwrap(), last.address + u64::from(last.size));
        let mut questions = Vec::new();
        for _ in 0..5_000 {
            let fde = blob.fde(random.below(blob.header().fde_count.into()) as u32).unwrap();
            questions.push(Question::Address(fde.address + random.below(u64::from(fde.size).max(1))));
            questions.push(Question::Address(start + random.below(end - start)));
        }
        agree(&work, &libsframe, &written, &questions);
    }
}
