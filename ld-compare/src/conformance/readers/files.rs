//! The files that readers get: finished ones, with code at one address and frames at another.

use crate::machine::Machine;
use crate::model::{Object, Section};
use object::elf;
use sframe_format::{Abi, Endian};

/// Address of the code.
pub const CODE: u64 = 0x40_1000;
/// Address of the frames.
pub const FRAMES: u64 = 0x48_0000;
/// Bytes of code: room for the longest function of a case.
const CODE_SIZE: usize = 0x1_8000;

/// A machine in one byte order.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The machine.
    pub machine: Machine,
    /// The ABI, which knows the byte order.
    pub abi: Abi,
}

/// Offsets in an ELF header and in a section header (gABI, ch. 4).
const TYPE: usize = 16;
const HEADERS: usize = 0x28;
const HEADER_SIZE: usize = 64;
const ADDRESS: usize = 0x10;

/// A finished file with these frames.
pub fn file(place: Place, frames: &[u8]) -> Vec<u8> {
    with_sections(place, &[(".sframe", frames)])
}

/// A finished file with several sections of frames, the first at [`FRAMES`], the others behind it.
pub fn with_sections(place: Place, sections: &[(&str, &[u8])]) -> Vec<u8> {
    let big = place.abi.endian() == Endian::Big;
    let section = |name: &str, kind, flags: u32, data: &[u8]| Section {
        name: name.into(),
        kind,
        flags: flags.into(),
        align: 8,
        data: data.to_vec(),
        size: data.len() as u64,
        ..Section::default()
    };
    let code = vec![0; CODE_SIZE];
    let text = section(".text", elf::SHT_PROGBITS, elf::SHF_ALLOC | elf::SHF_EXECINSTR, &code);
    let frames = sections
        .iter()
        .map(|(name, data)| section(name, sframe_format::SHT_GNU_SFRAME, elf::SHF_ALLOC, data));
    let object = Object {
        machine: place.machine.dialect().number,
        big,
        flags: 0,
        os_abi: 0,
        sections: [text].into_iter().chain(frames).collect(),
        symbols: Vec::new(),
        groups: Vec::new(),
    };
    let mut bytes = object.write();
    let word = |value: u64| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    bytes[TYPE..TYPE + 2].copy_from_slice(if big { &[0, 2] } else { &[2, 0] });
    let at: [u8; 8] = bytes[HEADERS..HEADERS + 8].try_into().unwrap_or_default();
    let headers = if big { u64::from_be_bytes(at) } else { u64::from_le_bytes(at) } as usize;
    // The writer numbers sections in their order: the first is the null section.
    let mut next = FRAMES;
    let addresses = [CODE].into_iter().chain(sections.iter().map(|(_, data)| {
        let at = next;
        next = (next + data.len() as u64).next_multiple_of(8);
        at
    }));
    for (row, address) in addresses.enumerate() {
        let field = headers + (row + 1) * HEADER_SIZE + ADDRESS;
        bytes[field..field + 8].copy_from_slice(&word(address));
    }
    bytes
}
