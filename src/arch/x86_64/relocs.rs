//! The relocation types of x86-64 (psABI 4.4.1, "Relocation Types").

use super::X86_64;
use crate::arch::relocation::{RelocBase, RelocExpr};
use crate::arch::target::RelocInfo;

/// All fields are little-endian integers.
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
}

/// The instruction sequence that a relocation type belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// The linker never rewrites the instruction.
    Fixed,
    /// Load from the GOT, no REX prefix.
    GotLoad,
    /// Load from the GOT, REX prefix.
    GotLoadRex,
    /// Load from the GOT, REX2 prefix or `movrs` without a prefix.
    GotLoadRex2,
    /// Load from the GOT by `movrs` with a REX or EVEX prefix.
    GotLoadMovrs,
    /// General dynamic TLS.
    GeneralDynamic,
    /// Local dynamic TLS.
    LocalDynamic,
    /// Offset in the module's block, which the local dynamic model adds to its base.
    BlockOffset,
    /// The same in 8 bytes.
    BlockOffsetWide,
    /// Initial exec TLS, REX prefix.
    InitialExec,
    /// Initial exec TLS, REX2 prefix.
    InitialExecRex2,
    /// Initial exec TLS, EVEX prefix (three operands).
    InitialExecEvex,
    /// Load of a TLS descriptor's address, REX prefix.
    Descriptor,
    /// Load of a TLS descriptor's address, REX2 prefix.
    DescriptorRex2,
    /// Call through a TLS descriptor.
    DescriptorCall,
}

/// Stores the low bytes of a value, as many as the field has.
#[inline]
pub fn write(field: Field, place: &mut [u8], value: i64) {
    let bytes = value.to_le_bytes();
    match field {
        Field::Word => put(place, &bytes[..4]),
        Field::Double => put(place, &bytes),
        Field::Byte => put(place, &bytes[..1]),
        Field::Half => put(place, &bytes[..2]),
        Field::Empty => {}
    }
}

#[inline]
fn put(place: &mut [u8], bytes: &[u8]) {
    if let Some(place) = place.get_mut(..bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Reads a value and sign-extends it. 0 if the place is too short.
pub fn read(field: Field, place: &[u8]) -> i64 {
    let first = |size: usize| {
        let mut bytes = [0; 8];
        if let Some(place) = place.get(..size) {
            bytes[8 - size..].copy_from_slice(place);
        }
        i64::from_le_bytes(bytes) >> (64 - 8 * size)
    };
    match field {
        Field::Empty => 0,
        Field::Byte => first(1),
        Field::Half => first(2),
        Field::Word => first(4),
        Field::Double => first(8),
    }
}

/// The description of a type.
#[inline]
pub fn info(kind: u32) -> Option<&'static RelocInfo<X86_64>> {
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

type Info = RelocInfo<X86_64>;

/// The range of a value.
#[derive(Clone, Copy)]
enum Check {
    /// Sign-extended by the processor.
    Signed,
    /// Zero-extended.
    Unsigned,
    /// Either of these, and values that carry out of the field, as in GNU ld: code that starts in 16-bit mode
    /// relies on addresses that wrap.
    Wrapping,
}

const fn range(size: u8, check: Check) -> (i64, i64) {
    if size == 0 || size == 8 {
        return (i64::MIN, i64::MAX);
    }
    let bits = size as u32 * 8;
    match check {
        Check::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        Check::Unsigned => (0, (1 << bits) - 1),
        Check::Wrapping => (-(1 << bits), (1 << bits) - 1),
    }
}

const fn row(
    name: &'static str,
    expr: RelocExpr,
    base: RelocBase,
    size: u8,
    check: Check,
    family: Family,
) -> Option<Info> {
    let field = match size {
        1 => Field::Byte,
        2 => Field::Half,
        4 => Field::Word,
        8 => Field::Double,
        _ => Field::Empty,
    };
    let (min, max) = range(size, check);
    Some(RelocInfo { name, expr, base, size, min, max, multiple: 1, field, family })
}

const fn mark(name: &'static str, expr: RelocExpr, family: Family) -> Info {
    match row(name, expr, RelocBase::Zero, 0, Check::Signed, family) {
        Some(info) => info,
        None => unreachable!(),
    }
}

static VTINHERIT: Info = mark("R_X86_64_GNU_VTINHERIT", RelocExpr::Nothing, Family::Fixed);
static VTENTRY: Info = mark("R_X86_64_GNU_VTENTRY", RelocExpr::Nothing, Family::Fixed);

/// By number. Objects do not contain the types that only the dynamic linker knows.
#[rustfmt::skip]
static TABLE: [Option<Info>; 52] = {
    use Check::{Signed, Unsigned, Wrapping};
    use Family::*;
    use RelocBase::{Got, Place, Zero};
    use RelocExpr::*;
    [
        Some(mark("R_X86_64_NONE", Nothing, Fixed)),
        row("R_X86_64_64", Symbol, Zero, 8, Signed, Fixed),
        row("R_X86_64_PC32", Symbol, Place, 4, Signed, Fixed),
        row("R_X86_64_GOT32", GotSlot, Got, 4, Signed, Fixed),
        row("R_X86_64_PLT32", Plt, Place, 4, Signed, Fixed),
        None, // COPY
        None, // GLOB_DAT
        None, // JUMP_SLOT
        None, // RELATIVE
        row("R_X86_64_GOTPCREL", GotSlot, Place, 4, Signed, Fixed),
        row("R_X86_64_32", Symbol, Zero, 4, Unsigned, Fixed),
        row("R_X86_64_32S", Symbol, Zero, 4, Signed, Fixed),
        row("R_X86_64_16", Symbol, Zero, 2, Wrapping, Fixed),
        row("R_X86_64_PC16", Symbol, Place, 2, Wrapping, Fixed),
        row("R_X86_64_8", Symbol, Zero, 1, Wrapping, Fixed),
        row("R_X86_64_PC8", Symbol, Place, 1, Signed, Fixed),
        None, // DTPMOD64
        row("R_X86_64_DTPOFF64", DtpOffset, Zero, 8, Signed, BlockOffsetWide),
        row("R_X86_64_TPOFF64", TpOffset, Zero, 8, Signed, Fixed),
        row("R_X86_64_TLSGD", TlsGd, Place, 4, Signed, GeneralDynamic),
        row("R_X86_64_TLSLD", TlsLd, Place, 4, Signed, LocalDynamic),
        row("R_X86_64_DTPOFF32", DtpOffset, Zero, 4, Signed, BlockOffset),
        row("R_X86_64_GOTTPOFF", GotTp, Place, 4, Signed, InitialExec),
        row("R_X86_64_TPOFF32", TpOffset, Zero, 4, Signed, Fixed),
        row("R_X86_64_PC64", Symbol, Place, 8, Signed, Fixed),
        row("R_X86_64_GOTOFF64", Symbol, Got, 8, Signed, Fixed),
        row("R_X86_64_GOTPC32", GotBase, Place, 4, Signed, Fixed),
        row("R_X86_64_GOT64", GotSlot, Got, 8, Signed, Fixed),
        row("R_X86_64_GOTPCREL64", GotSlot, Place, 8, Signed, Fixed),
        row("R_X86_64_GOTPC64", GotBase, Place, 8, Signed, Fixed),
        // Means the same as GOT64: the psABI allows any slot that holds the address.
        row("R_X86_64_GOTPLT64", GotSlot, Got, 8, Signed, Fixed),
        row("R_X86_64_PLTOFF64", Plt, Got, 8, Signed, Fixed),
        row("R_X86_64_SIZE32", Size, Zero, 4, Unsigned, Fixed),
        row("R_X86_64_SIZE64", Size, Zero, 8, Signed, Fixed),
        row("R_X86_64_GOTPC32_TLSDESC", TlsDesc, Place, 4, Signed, Descriptor),
        Some(mark("R_X86_64_TLSDESC_CALL", TlsDescCall, DescriptorCall)),
        None, // TLSDESC
        None, // IRELATIVE
        None, // RELATIVE64
        // The MPX extension. The bound prefix does not change the value.
        row("R_X86_64_PC32_BND", Symbol, Place, 4, Signed, Fixed),
        row("R_X86_64_PLT32_BND", Plt, Place, 4, Signed, Fixed),
        row("R_X86_64_GOTPCRELX", GotSlot, Place, 4, Signed, GotLoad),
        row("R_X86_64_REX_GOTPCRELX", GotSlot, Place, 4, Signed, GotLoadRex),
        row("R_X86_64_CODE_4_GOTPCRELX", GotSlot, Place, 4, Signed, GotLoadRex2),
        row("R_X86_64_CODE_4_GOTTPOFF", GotTp, Place, 4, Signed, InitialExecRex2),
        row("R_X86_64_CODE_4_GOTPC32_TLSDESC", TlsDesc, Place, 4, Signed, DescriptorRex2),
        // The psABI defines no rewriting for the five-byte forms, nor for EVEX loads from the GOT.
        row("R_X86_64_CODE_5_GOTPCRELX", GotSlot, Place, 4, Signed, GotLoadMovrs),
        row("R_X86_64_CODE_5_GOTTPOFF", GotTp, Place, 4, Signed, Fixed),
        row("R_X86_64_CODE_5_GOTPC32_TLSDESC", TlsDesc, Place, 4, Signed, Fixed),
        row("R_X86_64_CODE_6_GOTPCRELX", GotSlot, Place, 4, Signed, GotLoadMovrs),
        row("R_X86_64_CODE_6_GOTTPOFF", GotTp, Place, 4, Signed, InitialExecEvex),
        row("R_X86_64_CODE_6_GOTPC32_TLSDESC", TlsDesc, Place, 4, Signed, Fixed),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Target;
    use crate::elf::consts as elf;

    #[test]
    fn fields_are_read_back() {
        for field in [Field::Byte, Field::Half, Field::Word, Field::Double] {
            for value in [0, 0x75, -0x75] {
                let mut place = [0x5a; 8];
                write(field, &mut place, value);
                assert_eq!(read(field, &place), value, "{field:?}");
            }
        }
        assert_eq!(read(Field::Word, &[1, 2]), 0, "too short");
    }

    /// Number, size, and the smallest and largest value that fit.
    const ENDS: &[(u32, u8, i64, i64)] = &[
        (elf::R_X86_64_64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_PC32, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_GOT32, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_PLT32, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_GOTPCREL, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_32, 4, 0, 0xffff_ffff),
        (elf::R_X86_64_32S, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_16, 2, -0x1_0000, 0xffff),
        (elf::R_X86_64_PC16, 2, -0x1_0000, 0xffff),
        (elf::R_X86_64_8, 1, -0x100, 0xff),
        (elf::R_X86_64_PC8, 1, -0x80, 0x7f),
        (elf::R_X86_64_DTPOFF64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_TPOFF64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_TLSGD, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_TLSLD, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_DTPOFF32, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_GOTTPOFF, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_TPOFF32, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_PC64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_GOTOFF64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_GOTPC32, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_GOT64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_GOTPCREL64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_GOTPC64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_GOTPLT64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_PLTOFF64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_SIZE32, 4, 0, 0xffff_ffff),
        (elf::R_X86_64_SIZE64, 8, i64::MIN, i64::MAX),
        (elf::R_X86_64_GOTPC32_TLSDESC, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_GOTPCRELX, 4, -0x8000_0000, 0x7fff_ffff),
        (elf::R_X86_64_REX_GOTPCRELX, 4, -0x8000_0000, 0x7fff_ffff),
        (43, 4, -0x8000_0000, 0x7fff_ffff),
        (44, 4, -0x8000_0000, 0x7fff_ffff),
        (45, 4, -0x8000_0000, 0x7fff_ffff),
        (46, 4, -0x8000_0000, 0x7fff_ffff),
        (47, 4, -0x8000_0000, 0x7fff_ffff),
        (48, 4, -0x8000_0000, 0x7fff_ffff),
        (49, 4, -0x8000_0000, 0x7fff_ffff),
        (50, 4, -0x8000_0000, 0x7fff_ffff),
        (51, 4, -0x8000_0000, 0x7fff_ffff),
    ];

    #[test]
    fn ranges_end_where_the_psabi_says() {
        for &(kind, size, min, max) in ENDS {
            let info = X86_64::reloc_info(kind).expect("a type of the table");
            assert_eq!(info.size, size, "{}", info.name);
            assert!(info.holds(min) && info.holds(max), "{}", info.name);
            assert!(min == i64::MIN || !info.holds(min - 1), "{}", info.name);
            assert!(max == i64::MAX || !info.holds(max + 1), "{}", info.name);
        }
    }

    #[test]
    fn only_the_field_is_written() {
        for &(kind, size, min, max) in ENDS {
            let info = X86_64::reloc_info(kind).expect("a type of the table");
            for value in [min, max, 0x1122_3344_5566_7788] {
                let mut place = [0xee; 10];
                X86_64::write_field(info.field, &mut place, value);
                assert_eq!(place[..size.into()], value.to_le_bytes()[..size.into()], "{}", info.name);
                assert!(place[size.into()..].iter().all(|&byte| byte == 0xee), "{}", info.name);
            }
            let mut short = vec![0xee; usize::from(size) - 1];
            X86_64::write_field(info.field, &mut short, 0);
            assert!(short.iter().all(|&byte| byte == 0xee), "{}", info.name);
        }
    }

    #[test]
    fn expressions_of_the_psabi() {
        let expression = |kind| X86_64::reloc_info(kind).map(|info| (info.expr, info.base));
        for (kind, expr, base) in [
            (elf::R_X86_64_64, RelocExpr::Symbol, RelocBase::Zero),
            (elf::R_X86_64_PC64, RelocExpr::Symbol, RelocBase::Place),
            (elf::R_X86_64_GOTOFF64, RelocExpr::Symbol, RelocBase::Got),
            (elf::R_X86_64_GOT64, RelocExpr::GotSlot, RelocBase::Got),
            (elf::R_X86_64_PLTOFF64, RelocExpr::Plt, RelocBase::Got),
            (elf::R_X86_64_GOTPC64, RelocExpr::GotBase, RelocBase::Place),
            (elf::R_X86_64_TPOFF32, RelocExpr::TpOffset, RelocBase::Zero),
            (elf::R_X86_64_DTPOFF64, RelocExpr::DtpOffset, RelocBase::Zero),
            (elf::R_X86_64_TLSLD, RelocExpr::TlsLd, RelocBase::Place),
            (51, RelocExpr::TlsDesc, RelocBase::Place),
        ] {
            assert_eq!(expression(kind), Some((expr, base)), "{kind}");
        }
    }

    #[test]
    fn types_of_the_dynamic_linker_are_not_for_objects() {
        for kind in [5, 6, 7, 8, 16, 36, 37, 38, 52, 100, u32::MAX] {
            assert!(X86_64::reloc_info(kind).is_none(), "{kind}");
        }
    }
}
