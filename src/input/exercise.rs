//! Runs every reader over arbitrary bytes, for the fuzz target and its test.

use super::object::FileName;
use super::store::{FileBytes, InputSource, InputStore};
use super::{ObjectFile, SharedFile, archive, group, sniff};
use std::io;
use std::path::Path;
use zerocopy::byteorder::{BigEndian, ByteOrder, LittleEndian};

/// Reads `bytes` as each kind of input file. Any result will do, as long as no reader panics.
pub fn exercise(bytes: &[u8]) {
    let _ = sniff::file_kind(bytes);
    let _ = sniff::machine(bytes);
    elf::<LittleEndian>(bytes);
    elf::<BigEndian>(bytes);
    let store = InputStore::default();
    let _ = archive::members(Path::new("fuzz.a"), bytes, &Nothing, &store);
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
    if let Ok(shared) = SharedFile::<E>::parse(name, bytes, b"fuzz.so") {
        for (index, symbol) in shared.symbols.iter().enumerate() {
            let _ = shared.version_name(shared.symbol_version(index).index);
            let _ = (shared.data_alignment(symbol), shared.is_read_only(symbol));
        }
    }
}

/// No files.
struct Nothing;

impl InputSource for Nothing {
    fn read(&self, _: &Path) -> io::Result<FileBytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn exists(&self, _: &Path) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    /// Every fixture with every byte of its headers and tables damaged in turn, coarsely.
    #[test]
    fn damaged_objects_are_read_or_refused() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sframe/v3-gas2.47");
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for entry in std::fs::read_dir(root).unwrap().flatten() {
            if entry.path().extension().is_none_or(|extension| extension != "o") {
                continue;
            }
            let original = std::fs::read(entry.path()).unwrap();
            super::exercise(&original);
            for _ in 0..400 {
                let mut damaged = original.clone();
                for _ in 0..3 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (seed >> 33) as usize % damaged.len();
                    damaged[at] = (seed >> 25) as u8;
                }
                super::exercise(&damaged);
                let length = (seed >> 20) as usize % damaged.len();
                super::exercise(&damaged[..length]);
            }
        }
    }
}
