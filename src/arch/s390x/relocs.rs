//! The relocation types of s390x (ABI supplement, "Relocation"; "ELF Handling For Thread-Local
//! Storage", s390x).

use super::S390x;
use crate::arch::relocation::{RelocBase, RelocExpr};
use crate::arch::target::RelocInfo;

/// How a value lies in its place. All fields are big-endian; the doubled ones hold half of the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// None.
    Empty,
    /// One byte.
    Byte,
    /// Two bytes.
    Half,
    /// Four bytes.
    Word,
    /// Eight bytes.
    Double,
    /// An unsigned displacement: the low 12 bits of two bytes, behind its base register.
    Displacement12,
    /// A signed displacement of 20 bits, in four bytes behind its base register. Its low 12 bits stand in
    /// front of its high 8, and a byte of opcode follows.
    Displacement20,
    /// The low 12 bits of two bytes.
    Doubled12,
    /// Two bytes.
    Doubled16,
    /// Three bytes.
    Doubled24,
    /// Four bytes.
    Doubled32,
}

/// The instruction or literal that a relocation type belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// The linker never rewrites the instruction.
    Fixed,
    /// PC-relative operand that is a function.
    Call,
    /// PC-relative operand that is a GOT slot.
    GotEntry,
    /// Literal of general dynamic TLS.
    GeneralDynamic,
    /// Call of general dynamic TLS.
    GeneralDynamicCall,
    /// Literal of local dynamic TLS for the module.
    LocalDynamic,
    /// Call of local dynamic TLS.
    LocalDynamicCall,
    /// Literal with the offset in the module's block.
    BlockOffset,
    /// Literal of initial exec TLS.
    InitialExec,
    /// Load through a literal of initial exec TLS.
    InitialExecLoad,
    /// PC-relative operand that is the GOT slot of initial exec TLS.
    InitialExecEntry,
    /// 20-bit displacement of that slot from the GOT's base.
    InitialExecDisplacement,
}

/// Stores as many bits of a value as the field has. A place that is too short stays unchanged.
#[inline]
pub fn write(field: Field, place: &mut [u8], value: i64) {
    match field {
        Field::Doubled32 => put(place, ((value >> 1) as u32).to_be_bytes()),
        Field::Word => put(place, (value as u32).to_be_bytes()),
        Field::Double => put(place, value.to_be_bytes()),
        Field::Half => put(place, (value as u16).to_be_bytes()),
        Field::Doubled16 => put(place, ((value >> 1) as u16).to_be_bytes()),
        Field::Byte => put(place, [value as u8]),
        Field::Displacement12 => put_12(place, value as u16),
        Field::Doubled12 => put_12(place, (value >> 1) as u16),
        Field::Doubled24 => {
            let [_, rest @ ..] = ((value >> 1) as u32).to_be_bytes();
            put(place, rest);
        }
        Field::Displacement20 => {
            if let Some(&[first, _, _, opcode]) = place.first_chunk() {
                let [_, high, middle, low] = (value as u32).to_be_bytes();
                // The displacement is `high & 15`, `middle`, `low`, five digits.
                let long = high << 4 | middle >> 4;
                put(place, [first & 0xf0 | middle & 0x0f, low, long, opcode]);
            }
        }
        Field::Empty => {}
    }
}

#[inline]
fn put<const N: usize>(place: &mut [u8], bytes: [u8; N]) {
    if let Some(place) = place.first_chunk_mut() {
        *place = bytes;
    }
}

#[inline]
fn put_12(place: &mut [u8], value: u16) {
    if let Some(&[first, _]) = place.first_chunk() {
        let [high, low] = value.to_be_bytes();
        put(place, [first & 0xf0 | high & 0x0f, low]);
    }
}

/// Reads a value, sign-extended if the field is signed. 0 if the place is too short.
pub fn read(field: Field, place: &[u8]) -> i64 {
    let first = |size: usize| {
        let bytes = place.get(..size).unwrap_or_default();
        bytes.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte))
    };
    let signed = |value: u64, bits: u32| (value << (64 - bits)) as i64 >> (64 - bits);
    match field {
        Field::Empty => 0,
        Field::Byte => signed(first(1), 8),
        Field::Half => signed(first(2), 16),
        Field::Word => signed(first(4), 32),
        Field::Double => first(8) as i64,
        Field::Displacement12 => (first(2) & 0xfff) as i64,
        Field::Displacement20 => {
            let bytes = first(4);
            signed((bytes >> 8 & 0xff) << 12 | bytes >> 16 & 0xfff, 20)
        }
        Field::Doubled12 => signed(first(2), 12) << 1,
        Field::Doubled16 => signed(first(2), 16) << 1,
        Field::Doubled24 => signed(first(3), 24) << 1,
        Field::Doubled32 => signed(first(4), 32) << 1,
    }
}

/// The description of a type.
#[inline]
pub fn info(kind: u32) -> Option<&'static RelocInfo<S390x>> {
    match TABLE.get(kind as usize) {
        Some(info) => info.as_ref(),
        // GNU extensions for -fvtable-gc, which mark a place and have no value.
        None => match kind {
            250 => Some(&VTINHERIT),
            251 => Some(&VTENTRY),
            _ => None,
        },
    }
}

type Info = RelocInfo<S390x>;

/// A field with the range of its values.
#[derive(Clone, Copy)]
struct Shape {
    field: Field,
    size: u8,
    min: i64,
    max: i64,
    multiple: u8,
}

const fn shape(field: Field, size: u8, min: i64, max: i64) -> Shape {
    Shape { field, size, min, max, multiple: 1 }
}

/// A signed number of halfwords.
const fn doubled(field: Field, size: u8, bits: u32) -> Shape {
    Shape { field, size, min: -(1 << bits), max: (1 << bits) - 2, multiple: 2 }
}

const EMPTY: Shape = shape(Field::Empty, 0, i64::MIN, i64::MAX);
/// Data that programs read as signed or unsigned.
const DATA8: Shape = shape(Field::Byte, 1, -0x80, 0xff);
const DATA16: Shape = shape(Field::Half, 2, -0x8000, 0xffff);
const DATA32: Shape = shape(Field::Word, 4, -0x8000_0000, 0xffff_ffff);
const DATA64: Shape = shape(Field::Double, 8, i64::MIN, i64::MAX);
/// Distances are signed.
const SIGNED16: Shape = shape(Field::Half, 2, -0x8000, 0x7fff);
const SIGNED32: Shape = shape(Field::Word, 4, -0x8000_0000, 0x7fff_ffff);
const DISPLACEMENT12: Shape = shape(Field::Displacement12, 2, 0, 0xfff);
const DISPLACEMENT20: Shape = shape(Field::Displacement20, 4, -0x8_0000, 0x7_ffff);
const DOUBLED12: Shape = doubled(Field::Doubled12, 2, 12);
const DOUBLED16: Shape = doubled(Field::Doubled16, 2, 16);
const DOUBLED24: Shape = doubled(Field::Doubled24, 3, 24);
const DOUBLED32: Shape = doubled(Field::Doubled32, 4, 32);

const fn info_of(name: &'static str, expr: RelocExpr, base: RelocBase, shape: Shape, family: Family) -> Info {
    let Shape { field, size, min, max, multiple } = shape;
    RelocInfo { name, expr, base, size, min, max, multiple, field, family }
}

const fn row(name: &'static str, expr: RelocExpr, base: RelocBase, shape: Shape) -> Option<Info> {
    Some(info_of(name, expr, base, shape, Family::Fixed))
}

const fn of(
    name: &'static str,
    expr: RelocExpr,
    base: RelocBase,
    shape: Shape,
    family: Family,
) -> Option<Info> {
    Some(info_of(name, expr, base, shape, family))
}

const fn mark(name: &'static str) -> Info {
    info_of(name, RelocExpr::Nothing, RelocBase::Zero, EMPTY, Family::Fixed)
}

static VTINHERIT: Info = mark("R_390_GNU_VTINHERIT");
static VTENTRY: Info = mark("R_390_GNU_VTENTRY");

/// By number. Objects contain neither the types that only the dynamic linker knows, nor those of the 31-bit
/// TLS sequences.
#[rustfmt::skip]
static TABLE: [Option<Info>; 66] = {
    use Family::*;
    use RelocBase::{Got, Place, Zero};
    use RelocExpr::*;
    [
        Some(mark("R_390_NONE")),
        row("R_390_8", Symbol, Zero, DATA8),
        row("R_390_12", Symbol, Zero, DISPLACEMENT12),
        row("R_390_16", Symbol, Zero, DATA16),
        row("R_390_32", Symbol, Zero, DATA32),
        row("R_390_PC32", Symbol, Place, SIGNED32),
        row("R_390_GOT12", GotSlot, Got, DISPLACEMENT12),
        row("R_390_GOT32", GotSlot, Got, DATA32),
        row("R_390_PLT32", Plt, Place, SIGNED32),
        None, // COPY
        None, // GLOB_DAT
        None, // JMP_SLOT
        None, // RELATIVE
        row("R_390_GOTOFF32", Symbol, Got, DATA32),
        row("R_390_GOTPC", GotBase, Place, DATA64),
        row("R_390_GOT16", GotSlot, Got, DATA16),
        row("R_390_PC16", Symbol, Place, SIGNED16),
        row("R_390_PC16DBL", Symbol, Place, DOUBLED16),
        row("R_390_PLT16DBL", Plt, Place, DOUBLED16),
        row("R_390_PC32DBL", Symbol, Place, DOUBLED32),
        of("R_390_PLT32DBL", Plt, Place, DOUBLED32, Call),
        row("R_390_GOTPCDBL", GotBase, Place, DOUBLED32),
        row("R_390_64", Symbol, Zero, DATA64),
        row("R_390_PC64", Symbol, Place, DATA64),
        row("R_390_GOT64", GotSlot, Got, DATA64),
        row("R_390_PLT64", Plt, Place, DATA64),
        of("R_390_GOTENT", GotSlot, Place, DOUBLED32, GotEntry),
        row("R_390_GOTOFF16", Symbol, Got, DATA16),
        row("R_390_GOTOFF64", Symbol, Got, DATA64),
        // The supplement says: the slot of the PLT entry. Any slot with the address will do.
        row("R_390_GOTPLT12", GotSlot, Got, DISPLACEMENT12),
        row("R_390_GOTPLT16", GotSlot, Got, DATA16),
        row("R_390_GOTPLT32", GotSlot, Got, DATA32),
        row("R_390_GOTPLT64", GotSlot, Got, DATA64),
        of("R_390_GOTPLTENT", GotSlot, Place, DOUBLED32, GotEntry),
        row("R_390_PLTOFF16", Plt, Got, DATA16),
        row("R_390_PLTOFF32", Plt, Got, DATA32),
        row("R_390_PLTOFF64", Plt, Got, DATA64),
        of("R_390_TLS_LOAD", TlsDescCall, Zero, EMPTY, InitialExecLoad),
        of("R_390_TLS_GDCALL", TlsDescCall, Zero, EMPTY, GeneralDynamicCall),
        of("R_390_TLS_LDCALL", TlsDescCall, Zero, EMPTY, LocalDynamicCall),
        None, // TLS_GD32
        of("R_390_TLS_GD64", TlsGd, Got, DATA64, GeneralDynamic),
        row("R_390_TLS_GOTIE12", GotTp, Got, DISPLACEMENT12),
        None, // TLS_GOTIE32
        of("R_390_TLS_GOTIE64", GotTp, Got, DATA64, InitialExec),
        None, // TLS_LDM32
        of("R_390_TLS_LDM64", TlsLd, Got, DATA64, LocalDynamic),
        None, // TLS_IE32
        of("R_390_TLS_IE64", GotTp, Zero, DATA64, InitialExec),
        of("R_390_TLS_IEENT", GotTp, Place, DOUBLED32, InitialExecEntry),
        None, // TLS_LE32
        row("R_390_TLS_LE64", TpOffset, Zero, DATA64),
        None, // TLS_LDO32
        of("R_390_TLS_LDO64", DtpOffset, Zero, DATA64, BlockOffset),
        None, // TLS_DTPMOD
        None, // TLS_DTPOFF
        None, // TLS_TPOFF
        row("R_390_20", Symbol, Zero, DISPLACEMENT20),
        row("R_390_GOT20", GotSlot, Got, DISPLACEMENT20),
        row("R_390_GOTPLT20", GotSlot, Got, DISPLACEMENT20),
        of("R_390_TLS_GOTIE20", GotTp, Got, DISPLACEMENT20, InitialExecDisplacement),
        None, // IRELATIVE
        row("R_390_PC12DBL", Symbol, Place, DOUBLED12),
        row("R_390_PLT12DBL", Plt, Place, DOUBLED12),
        row("R_390_PC24DBL", Symbol, Place, DOUBLED24),
        row("R_390_PLT24DBL", Plt, Place, DOUBLED24),
    ]
};

#[cfg(test)]
#[path = "relocs_tests.rs"]
mod tests;
