//! Kinds of sections, and contents that fit them.

use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;
use ld_compare::model::Section;
use object::elf;

/// What a section contains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    Bytes,
    Strings,
    Words,
    Nothing,
    /// A CIE, and an FDE for another section.
    CallFrames,
    Note,
}

/// A name, with the type, flags and contents that it has in compilers' objects.
pub struct Template {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u32,
    pub contents: Contents,
}

const fn of(name: &'static str, kind: u32, flags: u32, contents: Contents) -> Template {
    Template { name, kind, flags, contents }
}

const A: u32 = elf::SHF_ALLOC;
const W: u32 = elf::SHF_ALLOC | elf::SHF_WRITE;
const X: u32 = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
const T: u32 = elf::SHF_ALLOC | elf::SHF_WRITE | elf::SHF_TLS;
const STRINGS: u32 = elf::SHF_MERGE | elf::SHF_STRINGS;

pub const TEMPLATES: [Template; 34] = [
    of(".text", elf::SHT_PROGBITS, X, Contents::Bytes),
    of(".text.f", elf::SHT_PROGBITS, X, Contents::Bytes),
    of(".text.unlikely.g", elf::SHT_PROGBITS, X, Contents::Bytes),
    of(".text.h", elf::SHT_PROGBITS, X, Contents::Bytes),
    of(".init", elf::SHT_PROGBITS, X, Contents::Bytes),
    of(".data", elf::SHT_PROGBITS, W, Contents::Words),
    of(".data.f", elf::SHT_PROGBITS, W, Contents::Words),
    of(".data.rel.ro", elf::SHT_PROGBITS, W, Contents::Words),
    of(".bss", elf::SHT_NOBITS, W, Contents::Nothing),
    of(".tdata", elf::SHT_PROGBITS, T, Contents::Words),
    of(".tbss", elf::SHT_NOBITS, T, Contents::Nothing),
    of(".rodata", elf::SHT_PROGBITS, A, Contents::Words),
    of(".rodata.f", elf::SHT_PROGBITS, A, Contents::Bytes),
    of(".rodata.str1.1", elf::SHT_PROGBITS, A | STRINGS, Contents::Strings),
    of(".rodata.cst8", elf::SHT_PROGBITS, A | elf::SHF_MERGE, Contents::Words),
    of(".eh_frame", elf::SHT_PROGBITS, A, Contents::CallFrames),
    of(".eh_frame", elf::SHT_X86_64_UNWIND, A, Contents::CallFrames),
    of(".gcc_except_table", elf::SHT_PROGBITS, A, Contents::Bytes),
    of(".init_array", elf::SHT_INIT_ARRAY, W, Contents::Words),
    of(".init_array.5", elf::SHT_INIT_ARRAY, W, Contents::Words),
    of(".fini_array", elf::SHT_FINI_ARRAY, W, Contents::Words),
    of(".preinit_array", elf::SHT_PREINIT_ARRAY, W, Contents::Words),
    of(".ctors", elf::SHT_PROGBITS, W, Contents::Words),
    of("frames", elf::SHT_PROGBITS, A, Contents::Words),
    of("frames", elf::SHT_PROGBITS, A | elf::SHF_GNU_RETAIN, Contents::Words),
    of(".sframe", 0x6fff_fff4, A, Contents::Bytes),
    of(".note.gnu.property", elf::SHT_NOTE, A, Contents::Note),
    of(".note.x", elf::SHT_NOTE, A, Contents::Note),
    of(".note.GNU-stack", elf::SHT_PROGBITS, 0, Contents::Nothing),
    of(".comment", elf::SHT_PROGBITS, STRINGS, Contents::Strings),
    of(".debug_info", elf::SHT_PROGBITS, 0, Contents::Bytes),
    of(".debug_str", elf::SHT_PROGBITS, STRINGS, Contents::Strings),
    of(".gnu.linkonce.t.f", elf::SHT_PROGBITS, X, Contents::Bytes),
    of(".llvm_addrsig", 0x6fff_4c03, 0, Contents::Bytes),
];

/// Bytes in a machine's byte order.
pub struct Bytes {
    pub machine: Machine,
    pub bytes: Vec<u8>,
}

impl Bytes {
    /// Adds the lowest `size` bytes of a number.
    pub fn number(&mut self, value: u64, size: usize) -> &mut Bytes {
        match self.machine {
            Machine::S390x => self.bytes.extend(&value.to_be_bytes()[8 - size..]),
            Machine::X86_64 | Machine::Aarch64 => self.bytes.extend(&value.to_le_bytes()[..size]),
        }
        self
    }
}

/// A section from a template. Most of the time it keeps to the template.
pub fn section(from: &mut Unstructured<'_>, machine: Machine, template: &Template) -> Result<Section> {
    let largest = if from.ratio(1, 16)? { 20 } else { 5 };
    let mut section = Section {
        name: template.name.into(),
        kind: template.kind,
        flags: template.flags.into(),
        align: 1 << from.int_in_range(0..=largest)?,
        ..Section::default()
    };
    let length = from.int_in_range(0..=8)?;
    let mut bytes = Bytes { machine, bytes: Vec::new() };
    match template.contents {
        Contents::Bytes => bytes.bytes.extend(from.bytes(from.len().min(4 * length))?),
        Contents::Strings => {
            section.entry_size = 1;
            let words: [&[u8]; 6] = [b"\0", b"f\0", b"a string\0", b"string\0", b"ring\0", b"g"];
            let ended = if from.ratio(1, 16)? { 6 } else { 5 };
            for _ in 0..length {
                bytes.bytes.extend(*from.choose(&words[..ended])?);
            }
        }
        Contents::Words => {
            section.entry_size = if section.flags & u64::from(elf::SHF_MERGE) == 0 { 0 } else { 8 };
            for _ in 0..length {
                bytes.number(from.int_in_range(0..=3)?, 8);
            }
        }
        Contents::Nothing => {}
        Contents::CallFrames => call_frames(&mut bytes),
        Contents::Note => {
            section.align = 4;
            note(from, template.name, &mut bytes)?;
        }
    }
    section.data = bytes.bytes;
    section.size =
        if template.contents == Contents::Nothing { 8 * length as u64 } else { section.data.len() as u64 };
    if from.ratio(1, 16)? {
        section.flags ^= 1 << from.int_in_range(0..=31)?;
    }
    if from.ratio(1, 64)? {
        section.size = from.arbitrary()?;
    }
    Ok(section)
}

/// Where the FDE that [`call_frames`] writes has the address of its function.
pub const FDE_ADDRESS: u64 = 32;

/// A CIE with augmentation `zR` (addresses relative to their place, 4 bytes), and an FDE for 8 bytes of code.
fn call_frames(bytes: &mut Bytes) {
    bytes.number(20, 4).number(0, 4).number(1, 1);
    bytes.bytes.extend(b"zR\0");
    // Code and data alignment, return address, one byte of augmentation, DW_CFA_def_cfa, padding.
    bytes.bytes.extend([1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0]);
    bytes.number(16, 4).number(28, 4).number(0, 4).number(8, 4);
    bytes.bytes.extend([0, 0, 0, 0]);
}

/// A note of the kind that its name says.
fn note(from: &mut Unstructured<'_>, name: &str, bytes: &mut Bytes) -> Result<()> {
    let is_property = name == ".note.gnu.property";
    bytes.number(4, 4).number(16, 4).number(if is_property { 5 } else { from.int_in_range(1..=4)? }, 4);
    bytes.bytes.extend(b"GNU\0");
    let property = *from.choose(&[0xc000_0002_u64, 0xc000_0000, 0xc000_8002, 1, 2])?;
    bytes.number(property, 4).number(4, 4).number(from.int_in_range(0..=7)?, 4).number(0, 4);
    Ok(())
}
