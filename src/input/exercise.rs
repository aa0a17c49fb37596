//! Runs every reader of input files on arbitrary bytes, for the fuzz target `object` and for a test.

use super::object::FileName;
use super::{ObjectFile, SharedFile, archive, group, sniff};
use files::store::{FileBytes, InputSource, InputStore};
use std::io;
use std::path::Path;
use zerocopy::byteorder::{BigEndian, ByteOrder, LittleEndian};

/// Reads `bytes` as each kind of input file. Any result is right; only a panic is a failure.
pub fn exercise(bytes: &[u8]) {
    let _ = sniff::file_kind(bytes);
    let _ = sniff::machine(bytes);
    elf::<LittleEndian>(bytes);
    elf::<BigEndian>(bytes);
    let store = InputStore::default();
    let _ = archive::members(Path::new("fuzz.a"), bytes, &Nothing, &store);
    let _ = archive::index(bytes);
}

fn elf<E: ByteOrder>(bytes: &[u8]) {
    let name = FileName { path: "fuzz.o", member: None };
    if let Ok(mut object) = ObjectFile::<E>::parse(name, bytes) {
        let _ = object.index_relocation_sections();
        let _ = group::groups(&object);
        for index in 0..object.headers.len() {
            let _ = object.section_bytes(index);
            let _ = object.relocations(index).iter().map(|relocation| relocation.symbol()).max();
        }
        for index in 0..object.symbols.len() {
            let _ = (object.symbol_name(index), object.symbol_place(index));
        }
    }
    if let Ok(shared) = SharedFile::<E>::parse(name, bytes, b"fuzz.so", 4) {
        for (index, symbol) in shared.symbols.iter().enumerate() {
            let _ = shared.version_name(shared.symbol_version(index).index);
            let _ = (shared.data_alignment(symbol), shared.is_read_only(symbol));
        }
    }
}

/// A file system without files.
struct Nothing;

impl InputSource for Nothing {
    fn read(&self, _: &Path) -> io::Result<FileBytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn exists(&self, _: &Path) -> bool {
        false
    }
}
