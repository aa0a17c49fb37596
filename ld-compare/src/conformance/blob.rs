//! Functions with rows, and SFrame blobs of them in every version, as inputs of cases.
//!
//! Blobs come from the writer of `sframe-format`, which writes versions 2 and 3 as producers do. Everything
//! else (version 1, gaps, auxiliary headers, versions that do not exist) is an edit of such a blob, because
//! then the rest of it is known to be sound.

use crate::machine::Machine;
use sframe_format::write::{Encoder, Function, Options};
use sframe_format::{
    Abi, CfaRule, Endian, Flags, Frame, HEADER_SIZE, Header, Location, RegisterRule, Row, Rules, Version,
};

/// Bytes of a function that no case says another size of.
pub const SIZE: u32 = 32;

/// The ABI of a machine's inputs.
pub fn abi(machine: Machine) -> Abi {
    match machine {
        Machine::X86_64 => Abi::Amd64,
        Machine::Aarch64 => Abi::AArch64Little,
        Machine::S390x => Abi::S390x,
    }
}

/// Rules whose CFA counts from a register, with return address and frame pointer where the ABI says they are
/// saved, or not saved at all.
pub fn rules(abi: Abi, register: u32, offset: i64, saved: bool) -> Rules {
    let at = |offset| RegisterRule::Saved(Location::at_cfa(offset));
    let (ra, fp) = match (abi, saved) {
        (Abi::Amd64, true) => (at(-8), at(-16)),
        (Abi::Amd64, false) => (at(-8), RegisterRule::Unchanged),
        (Abi::S390x, true) => (at(-48), at(-72)),
        (_, true) => (at(-8), at(-16)),
        (_, false) => (RegisterRule::Unchanged, RegisterRule::Unchanged),
    };
    Rules::Frame(Frame { cfa: CfaRule::register(register, offset), ra, fp, mangled: false })
}

/// What the stack pointer lacks to the CFA at a function's first instruction.
pub fn entry_offset(abi: Abi) -> i64 {
    match abi {
        Abi::Amd64 => 8,
        Abi::S390x => 160,
        _ => 0,
    }
}

/// The names that functions have in cases. The place of a name decides its rows, so no two functions have
/// equal ones, and rows that went astray are noticed.
const NAMES: &[&str] = &[
    "_start", "shared", "other", "unused", "far", "first", "second", "third", "left", "right", "same", "twin",
];

/// A function as a compiler would describe it: entry, a frame by the stack pointer, one by the frame pointer,
/// and none again before the return.
pub fn function(abi: Abi, name: &str) -> Function {
    let place = NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len()) as i64;
    // `twin` equals `same`: code that folds.
    let place = if name == "twin" { place - 1 } else { place };
    let (sp, fp, entry) = (abi.stack_pointer(), abi.frame_pointer(), entry_offset(abi));
    let deep = entry + 16 * (place + 1);
    let rows = [
        (0, rules(abi, sp, entry, false)),
        (4, rules(abi, sp, deep, true)),
        (8, rules(abi, fp, deep, true)),
        (24, rules(abi, sp, entry, false)),
    ];
    Function {
        size: SIZE,
        rows: rows.map(|(start, rules)| Row { start, rules }).to_vec(),
        ..Function::default()
    }
}

/// The version of a blob, with the flag that version 2 got later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// Version 1, of GNU as 2.40.
    V1,
    /// Version 2 of GNU as 2.41 to 2.44: the flag for field-relative starts is clear.
    V2Plain,
    /// Version 2 with its first errata: GNU as 2.45, LLVM.
    V2,
    /// Version 3.
    V3,
}

impl Edition {
    /// All of them.
    pub const ALL: [Edition; 4] = [Edition::V1, Edition::V2Plain, Edition::V2, Edition::V3];

    /// The number in the header.
    pub fn version(self) -> Version {
        match self {
            Edition::V1 => Version::V1,
            Edition::V2Plain | Edition::V2 => Version::V2,
            Edition::V3 => Version::V3,
        }
    }

    /// Its name in cases.
    pub fn name(self) -> &'static str {
        match self {
            Edition::V1 => "v1",
            Edition::V2Plain => "v2-plain",
            Edition::V2 => "v2",
            Edition::V3 => "v3",
        }
    }

    /// Whether producers of it exist for an ABI.
    pub fn is_for(self, abi: Abi) -> bool {
        abi != Abi::S390x || matches!(self, Edition::V2 | Edition::V3)
    }

    /// The section type that its producers write.
    pub fn section_type(self) -> u32 {
        match self {
            Edition::V1 | Edition::V2Plain => object::elf::SHT_PROGBITS,
            Edition::V2 | Edition::V3 => sframe_format::SHT_GNU_SFRAME,
        }
    }
}

/// A blob of a relocatable object: start fields are 0, and one relocation fills each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset of each function's start field.
    pub fields: Vec<u64>,
}

/// Writes functions as a blob, in their order.
pub fn blob(abi: Abi, edition: Edition, functions: &[Function]) -> Blob {
    shared(abi, edition, functions, false)
}

/// Writes functions as a blob; with `share`, those with equal rows have them once.
pub fn shared(abi: Abi, edition: Edition, functions: &[Function], share: bool) -> Blob {
    let version = edition.version().max(Version::V2);
    let mut encoder = Encoder::new(Options::new(abi).version(version).share(share));
    let ids: Vec<_> = functions
        .iter()
        .map(|function| encoder.add(function).expect("a case has functions that its version can express"))
        .collect();
    let mut bytes = vec![0; encoder.size()];
    encoder.write_relocatable(&ids, false, &mut bytes).expect("the buffer has the size that was asked for");
    if edition == Edition::V1 {
        bytes = as_version_1(&bytes);
    }
    if matches!(edition, Edition::V1 | Edition::V2Plain) {
        bytes[3] &= !Flags::FIELD_RELATIVE.0;
    }
    let header = Header::parse(&bytes).expect("the writer's own header");
    let fields = (0..header.fde_count).filter_map(|row| header.fde_position(row)).map(|at| at as u64);
    Blob { fields: fields.collect(), bytes }
}

/// A blob of version 2 as version 1: its entries lack the last three bytes, repetition size and padding.
fn as_version_1(bytes: &[u8]) -> Vec<u8> {
    let mut header = Header::parse(bytes).expect("the writer's own header");
    let entries = &bytes[header.fde_array()];
    let rows = bytes[header.fre_area()].to_vec();
    let entries: Vec<u8> = entries
        .chunks(Version::V2.fde_size())
        .flat_map(|entry| &entry[..Version::V1.fde_size()])
        .copied()
        .collect();
    header.version = Version::V1;
    header.flags = header.flags.with(Flags::FIELD_RELATIVE, false);
    header.fre_offset = entries.len() as u32;
    [&header.to_bytes()[..], &entries, &rows].concat()
}

impl Blob {
    /// The same blob with an auxiliary header of so many bytes.
    #[must_use]
    pub fn with_auxiliary(mut self, length: u8) -> Self {
        self.bytes[7] = length;
        let more = std::iter::repeat_n(0xa5, length.into());
        self.bytes.splice(HEADER_SIZE..HEADER_SIZE, more);
        self.fields.iter_mut().for_each(|field| *field += u64::from(length));
        self
    }

    /// The same blob with so many unused bytes before the entries, and as many before the rows.
    #[must_use]
    pub fn with_gaps(mut self, length: u32) -> Self {
        let mut header = Header::parse(&self.bytes).expect("a sound blob");
        let rows = header.fre_area().start;
        self.bytes.splice(rows..rows, std::iter::repeat_n(0, length as usize));
        self.bytes.splice(HEADER_SIZE..HEADER_SIZE, std::iter::repeat_n(0, length as usize));
        header.fde_offset += length;
        header.fre_offset += 2 * length;
        self.bytes[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
        self.fields.iter_mut().for_each(|field| *field += u64::from(length));
        self
    }

    /// The same blob with bits of its flags set.
    #[must_use]
    pub fn with_flags(mut self, flags: u8) -> Self {
        self.bytes[3] |= flags;
        self
    }

    /// The same blob with another byte in its header.
    #[must_use]
    pub fn with_byte(mut self, offset: usize, byte: u8) -> Self {
        self.bytes[offset] = byte;
        self
    }

    /// The same blob, cut or filled with zeros to a length.
    #[must_use]
    pub fn with_length(mut self, length: usize) -> Self {
        self.bytes.resize(length, 0);
        self
    }

    /// This blob, zeros up to a multiple of 8, and another one.
    #[must_use]
    pub fn then(mut self, next: Blob) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let start = self.bytes.len() as u64;
        self.bytes.extend(next.bytes);
        self.fields.extend(next.fields.iter().map(|field| start + field));
        self
    }

    /// Fills the start fields as a linker would, for a section at an address: field-relative if the flag says
    /// so, else relative to the blob's header, which must be the section's start.
    #[must_use]
    pub fn placed(mut self, section: u64, addresses: &[u64]) -> Self {
        let header = Header::parse(&self.bytes).expect("a sound blob");
        let width = usize::from(header.version.start_width());
        for (&field, &address) in self.fields.iter().zip(addresses) {
            let base = if header.is_field_relative() { section + field } else { section };
            let value = address.wrapping_sub(base);
            let at = field as usize;
            let bytes = match header.endian {
                Endian::Little => value.to_le_bytes()[..width].to_vec(),
                Endian::Big => value.to_be_bytes()[8 - width..].to_vec(),
            };
            self.bytes[at..at + width].copy_from_slice(&bytes);
        }
        self
    }
}
