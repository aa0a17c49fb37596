//! Tests of compressed sections: every format, and every way in which a header can be wrong.

use super::*;
use crate::input::object::FileName;
use pretty_assertions::assert_eq;
use std::io::Write;
use zerocopy::byteorder::LittleEndian;

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn with_chdr(kind: u32, size: u64, align: u64, packed: &[u8]) -> Vec<u8> {
    let header = Chdr::<LittleEndian> {
        ch_type: kind.into(),
        ch_reserved: 0.into(),
        ch_size: size.into(),
        ch_addralign: align.into(),
    };
    [header.as_bytes(), packed].concat()
}

fn object_with(sections: &[(&str, Vec<u8>, u64)]) -> Vec<u8> {
    use object::write::{Object, SectionFlags};
    let mut object =
        Object::new(object::BinaryFormat::Elf, object::Architecture::X86_64, object::Endianness::Little);
    for (name, bytes, flags) in sections {
        let id = object.add_section(Vec::new(), name.as_bytes().to_vec(), object::SectionKind::Debug);
        object.set_section_data(id, bytes.clone(), 1);
        object.section_mut(id).flags = SectionFlags::Elf { sh_flags: *flags };
    }
    object.write().expect("a valid object")
}

fn parse(bytes: &[u8]) -> ObjectFile<'_, LittleEndian> {
    ObjectFile::parse(FileName { path: "a.o", member: None }, bytes).expect("a valid object")
}

const COMPRESSED: u64 = elf::SHF_COMPRESSED;

#[test]
fn headers_say_what_is_inside() {
    let text = b"int main\0".repeat(1000);
    let old = [b"ZLIB".as_slice(), &(text.len() as u64).to_be_bytes(), &zlib(&text)].concat();
    let bytes = object_with(&[
        (".debug_str", with_chdr(1, text.len() as u64, 1, &zlib(&text)), COMPRESSED),
        (
            ".debug_info",
            with_chdr(2, text.len() as u64, 8, &zstd::encode_all(&text[..], 1).unwrap()),
            COMPRESSED,
        ),
        (".zdebug_line", old, 0),
        (".debug_abbrev", b"plain".to_vec(), 0),
    ]);
    let store = InputStore::default();
    let mut object = parse(&bytes);
    assert_eq!(declare(&mut object, &store), []);
    let names: Vec<_> = (1..5).map(|index| object.section_name(index)).collect();
    assert_eq!(names, [&b".debug_str"[..], b".debug_info", b".debug_line", b".debug_abbrev"]);
    for index in 1..4 {
        let header = &object.headers[index];
        assert_eq!(header.sh_size.get(), text.len() as u64);
        assert_eq!(header.sh_flags.get() & COMPRESSED, 0);
        assert_eq!(object.section_bytes(index), Ok(&b""[..]));
        assert_eq!(unpack(&object.packed[index - 1]), Ok(text.clone()));
    }
    assert_eq!(object.headers[2].sh_addralign.get(), 8);
    assert_eq!(object.section_bytes(4), Ok(&b"plain"[..]));
}

#[test]
fn what_cannot_be_true_is_a_finding() {
    let bytes = object_with(&[
        (".debug_a", with_chdr(1, 1 << 40, 1, b"tiny"), COMPRESSED),
        (".debug_b", with_chdr(9, 5, 1, b"tiny"), COMPRESSED),
        (".debug_c", b"short".to_vec(), COMPRESSED),
    ]);
    let store = InputStore::default();
    let findings = declare(&mut parse(&bytes), &store);
    let texts: Vec<_> = findings.iter().map(|(section, finding)| (*section, &finding.what[..])).collect();
    assert_eq!(
        texts,
        [
            (1, "4 compressed bytes cannot unpack to 0x10000000000 bytes, as the header says"),
            (2, "compression type 9 is not known; expected 1 (zlib) or 2 (zstd)"),
            (3, "5 bytes are too few for the header of a compressed section"),
        ]
    );
}

#[test]
fn broken_data_are_an_error() {
    let text = b"some text that is long enough".repeat(20);
    let packed = zlib(&text);
    let entry = |packed, size| CompressedSection {
        section: 1,
        format: Format::Zlib,
        packed,
        size,
        bytes: Default::default(),
    };
    let size = text.len() as u64;
    assert_eq!(unpack(&entry(&packed, size)), Ok(text.clone()));
    assert!(unpack(&entry(&packed[..10], size)).unwrap_err().contains("too early"));
    assert!(unpack(&entry(b"no zlib data at all", size)).unwrap_err().contains("bad zlib data"));
    assert!(unpack(&entry(&packed, size + 1)).unwrap_err().contains("the header says"));
    assert!(unpack(&entry(&packed, size - 1)).unwrap_err().contains("more than the header says"));
    let zstd = CompressedSection { format: Format::Zstd, ..entry(b"no zstd data", 5) };
    assert!(unpack(&zstd).unwrap_err().contains("bad zstd data"));
}

#[test]
fn streams_in_a_row_are_one_content() {
    let (first, second) = (b"first".repeat(50), b"second".repeat(50));
    let packed = [zlib(&first), zlib(&second)].concat();
    let size = (first.len() + second.len()) as u64;
    let entry = CompressedSection {
        section: 1,
        format: Format::Zlib,
        packed: &packed,
        size,
        bytes: Default::default(),
    };
    assert_eq!(unpack(&entry), Ok([first, second].concat()));
}
