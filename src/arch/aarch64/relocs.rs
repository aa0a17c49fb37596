//! The relocation types of AArch64 (ELF for the Arm 64-bit Architecture, "Relocation").
//!
//! Fields are data, or parts of 32-bit instructions, which are little-endian. A type whose name ends in `_NC`
//! takes some bits of a value without a check.

use super::AArch64;
use crate::arch::relocation::{RelocBase, RelocExpr};
use crate::arch::target::RelocInfo;

/// The place and scale of a field's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// None.
    Empty,
    /// Two bytes of data.
    Half,
    /// Four bytes of data.
    Word,
    /// Eight bytes of data.
    Double,
    /// The lower four of eight bytes of data. The upper ones say how to sign the pointer.
    SignedPointer,
    /// Distance in words, bits 25:0 (`b`, `bl`).
    Branch26,
    /// Distance in words, bits 23:5 (`b.cond`, `cbz`, literal `ldr`).
    Branch19,
    /// Distance in words, bits 18:5 (`tbz`).
    Branch14,
    /// Distance in bytes, bits 30:29 and 23:5 (`adr`).
    Distance,
    /// The same in pages of 4 KiB (`adrp`).
    Page,
    /// The low twelve bits of an address, shifted right by the size of the access, in bits 21:10
    /// (`add`, `ldr`, `str`).
    Low12(u8),
    /// The twelve bits above those (`add ..., lsl #12`).
    High12,
    /// Offset of a doubleword in a table of 32 KiB, bits 21:10.
    Slot15,
    /// Sixteen bits, this many bits up, in bits 20:5 (`movz`, `movk`).
    Move(u8),
    /// The same of a signed number: `movz` becomes `movn` for a negative one.
    MoveSigned(u8),
}

/// The instruction sequence that a relocation type belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// The linker never rewrites the instruction.
    Fixed,
    /// `b` or `bl`.
    Branch,
    /// Page of a symbol, by `adrp`.
    AddressPage,
    /// Page of a GOT slot, by `adrp`.
    GotPage,
    /// General dynamic TLS: `adrp`.
    GeneralPage,
    /// General dynamic TLS: `add`, which precedes the call.
    GeneralLow,
    /// Local dynamic TLS: `adrp`.
    LocalPage,
    /// Local dynamic TLS: `add`, which precedes the call.
    LocalLow,
    /// Initial exec TLS: `adrp`.
    InitialPage,
    /// Initial exec TLS: `ldr`.
    InitialLow,
    /// TLS descriptor: `adrp`.
    DescriptorPage,
    /// TLS descriptor: `ldr x1, [x0, ...]`.
    DescriptorLoad,
    /// TLS descriptor: instructions that become `nop`.
    DescriptorRest,
    /// TLS descriptor, tiny model: `ldr x1, ...`.
    DescriptorLiteral,
    /// TLS descriptor, tiny model: `adr x0, ...`.
    DescriptorDistance,
    /// TLS descriptor, large model: `movz`.
    DescriptorHigh,
    /// TLS descriptor, large model: `movk`.
    DescriptorLow,
    /// TLS descriptor, large model: `ldr x1, [xN, x0]`.
    DescriptorIndexed,
    /// A pointer that is made at run time, and 0 if nothing defines the symbol.
    Pointer,
    /// An instruction that the symbol replaces.
    Patch,
}

/// Stores a value.
#[inline]
pub fn write(field: Field, place: &mut [u8], value: i64) {
    match field {
        Field::Empty => {}
        Field::Half => put(place, &(value as u16).to_le_bytes()),
        Field::Word | Field::SignedPointer => put(place, &(value as u32).to_le_bytes()),
        Field::Double => put(place, &value.to_le_bytes()),
        _ => {
            if let Some(word) = place.first_chunk_mut::<4>() {
                *word = encode(field, u32::from_le_bytes(*word), value).to_le_bytes();
            }
        }
    }
}

#[inline]
fn put(place: &mut [u8], bytes: &[u8]) {
    if let Some(place) = place.get_mut(..bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// The instruction with the value in its field.
#[inline]
pub fn encode(field: Field, instruction: u32, value: i64) -> u32 {
    let insert = |mask: u32, at: u32, value: i64| instruction & !(mask << at) | (value as u32 & mask) << at;
    match field {
        Field::Empty | Field::Half | Field::Word | Field::Double | Field::SignedPointer => instruction,
        Field::Branch26 => insert(0x3ff_ffff, 0, value >> 2),
        Field::Branch19 => insert(0x7_ffff, 5, value >> 2),
        Field::Branch14 => insert(0x3fff, 5, value >> 2),
        Field::Distance => distance(instruction, value),
        Field::Page => distance(instruction, value >> 12),
        Field::Low12(shift) => insert(0xfff, 10, (value & 0xfff) >> shift),
        Field::High12 => insert(0xfff, 10, value >> 12),
        Field::Slot15 => insert(0xfff, 10, value >> 3),
        Field::Move(shift) => insert(0xffff, 5, value >> shift),
        Field::MoveSigned(shift) => {
            let bits = if value < 0 { !value } else { value } >> shift;
            let moved = insert(0xffff, 5, bits);
            if value < 0 { moved & !NOT_NEGATED } else { moved | NOT_NEGATED }
        }
    }
}

/// Reads a value, scaled as the instruction scales it and sign-extended if the field is signed ("ELF for the
/// Arm 64-bit Architecture", "Addends and PC-bias"). 0 if the place is too short.
pub fn read(field: Field, place: &[u8]) -> i64 {
    let word = place.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let bits = |at: u32, count: u32| u64::from(word >> at) & ((1 << count) - 1);
    let signed = |value: u64, bits: u32| (value << (64 - bits)) as i64 >> (64 - bits);
    let distance = || signed(bits(5, 19) << 2 | bits(29, 2), 21);
    match field {
        Field::Empty => 0,
        Field::Half => place.first_chunk().map_or(0, |bytes| i16::from_le_bytes(*bytes).into()),
        Field::Word | Field::SignedPointer => i64::from(word as i32),
        Field::Double => place.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes)),
        Field::Branch26 => signed(bits(0, 26), 26) << 2,
        Field::Branch19 => signed(bits(5, 19), 19) << 2,
        Field::Branch14 => signed(bits(5, 14), 14) << 2,
        Field::Distance => distance(),
        Field::Page => distance() << 12,
        Field::Low12(shift) => signed(bits(10, 12), 12) << shift,
        Field::High12 => signed(bits(10, 12), 12) << 12,
        Field::Slot15 => signed(bits(10, 12), 12) << 3,
        Field::Move(shift) => signed(bits(5, 16), 16) << shift,
        Field::MoveSigned(shift) if word & NOT_NEGATED == 0 => !((bits(5, 16) << shift) as i64),
        Field::MoveSigned(shift) => (bits(5, 16) << shift) as i64,
    }
}

/// The field that holds an addend in an instruction. `adrp` and the moves of 16 bits hold the low bits of the
/// addend, not scaled, so that all parts of one address can hold the same addend.
pub fn addend_field(field: Field) -> Field {
    match field {
        Field::Page => Field::Distance,
        Field::Move(_) | Field::MoveSigned(_) => Field::Move(0),
        field => field,
    }
}

/// The bit of `movz` that is clear in `movn`.
const NOT_NEGATED: u32 = 1 << 30;

/// The 21 bits of `adr` and `adrp`.
fn distance(instruction: u32, value: i64) -> u32 {
    let value = value as u32;
    instruction & !0x60ff_ffe0 | (value & 3) << 29 | (value >> 2 & 0x7_ffff) << 5
}

/// The smallest and largest value that fit.
type Range = (i64, i64);

const ANY: Range = (i64::MIN, i64::MAX);

/// Fields that the processor sign-extends.
const fn signed(bits: u32) -> Range {
    (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
}

const fn unsigned(bits: u32) -> Range {
    (0, (1 << bits) - 1)
}

/// Data that programs read as signed or unsigned.
const fn either(bits: u32) -> Range {
    (-(1 << (bits - 1)), (1 << bits) - 1)
}

type Info = RelocInfo<AArch64>;

const fn row(
    number: u32,
    name: &'static str,
    (expr, base): (RelocExpr, RelocBase),
    field: Field,
    (min, max): Range,
    family: Family,
) -> (u32, Info) {
    let size = match field {
        Field::Half => 2,
        Field::Double | Field::SignedPointer => 8,
        Field::Empty if matches!(expr, RelocExpr::Nothing) => 0,
        _ => 4,
    };
    let multiple = match field {
        Field::Branch26 | Field::Branch19 | Field::Branch14 => 4,
        Field::Low12(shift) => 1 << shift,
        Field::Slot15 => 8,
        _ => 1,
    };
    (number, RelocInfo { name, expr, base, size, min, max, multiple, field, family })
}

/// Rows by number, from `first` on.
const fn table<const N: usize>(first: u32, rows: &[(u32, Info)]) -> [Option<Info>; N] {
    let mut table = [None; N];
    let mut next = 0;
    while next < rows.len() {
        table[(rows[next].0 - first) as usize] = Some(rows[next].1);
        next += 1;
    }
    table
}

/// The description of a type.
#[inline]
pub fn info(kind: u32) -> Option<&'static Info> {
    static PLAIN: [Option<Info>; 62] = table(256, PLAIN_ROWS);
    static TLS: [Option<Info>; 62] = table(512, TLS_ROWS);
    static SIGNED: [Option<Info>; 19] = table(580, SIGNED_ROWS);
    static WORDS: [Option<Info>; 3] = table(1028, WORD_ROWS);
    static NONE: Info = row(0, "R_AARCH64_NONE", NOTHING, Field::Empty, ANY, Family::Fixed).1;
    match kind {
        256..318 => PLAIN[(kind - 256) as usize].as_ref(),
        512..574 => TLS[(kind - 512) as usize].as_ref(),
        580..599 => SIGNED[(kind - 580) as usize].as_ref(),
        1028..1031 => WORDS[(kind - 1028) as usize].as_ref(),
        0 => Some(&NONE),
        _ => None,
    }
}

const NOTHING: (RelocExpr, RelocBase) = (RelocExpr::Nothing, RelocBase::Zero);
const ABSOLUTE: (RelocExpr, RelocBase) = (RelocExpr::Symbol, RelocBase::Zero);
const RELATIVE: (RelocExpr, RelocBase) = (RelocExpr::Symbol, RelocBase::Place);
const PAGE: (RelocExpr, RelocBase) = (RelocExpr::Symbol, RelocBase::PlacePage);
const LOW: (RelocExpr, RelocBase) = (RelocExpr::Symbol, RelocBase::Page);
const CALL: (RelocExpr, RelocBase) = (RelocExpr::Plt, RelocBase::Place);
const SLOT: (RelocExpr, RelocBase) = (RelocExpr::GotSlot, RelocBase::Got);

const PLAIN_ROWS: &[(u32, Info)] = {
    use Family::*;
    use Field::*;
    use RelocExpr::GotSlot;
    &[
        row(256, "R_AARCH64_NONE", NOTHING, Empty, ANY, Fixed),
        row(257, "R_AARCH64_ABS64", ABSOLUTE, Double, ANY, Fixed),
        row(258, "R_AARCH64_ABS32", ABSOLUTE, Word, either(32), Fixed),
        row(259, "R_AARCH64_ABS16", ABSOLUTE, Half, either(16), Fixed),
        row(260, "R_AARCH64_PREL64", RELATIVE, Double, ANY, Fixed),
        row(261, "R_AARCH64_PREL32", RELATIVE, Word, signed(32), Fixed),
        row(262, "R_AARCH64_PREL16", RELATIVE, Half, signed(16), Fixed),
        row(263, "R_AARCH64_MOVW_UABS_G0", ABSOLUTE, Move(0), unsigned(16), Fixed),
        row(264, "R_AARCH64_MOVW_UABS_G0_NC", ABSOLUTE, Move(0), ANY, Fixed),
        row(265, "R_AARCH64_MOVW_UABS_G1", ABSOLUTE, Move(16), unsigned(32), Fixed),
        row(266, "R_AARCH64_MOVW_UABS_G1_NC", ABSOLUTE, Move(16), ANY, Fixed),
        row(267, "R_AARCH64_MOVW_UABS_G2", ABSOLUTE, Move(32), unsigned(48), Fixed),
        row(268, "R_AARCH64_MOVW_UABS_G2_NC", ABSOLUTE, Move(32), ANY, Fixed),
        row(269, "R_AARCH64_MOVW_UABS_G3", ABSOLUTE, Move(48), ANY, Fixed),
        row(270, "R_AARCH64_MOVW_SABS_G0", ABSOLUTE, MoveSigned(0), signed(17), Fixed),
        row(271, "R_AARCH64_MOVW_SABS_G1", ABSOLUTE, MoveSigned(16), signed(33), Fixed),
        row(272, "R_AARCH64_MOVW_SABS_G2", ABSOLUTE, MoveSigned(32), signed(49), Fixed),
        row(273, "R_AARCH64_LD_PREL_LO19", RELATIVE, Branch19, signed(21), Fixed),
        row(274, "R_AARCH64_ADR_PREL_LO21", RELATIVE, Distance, signed(21), Fixed),
        row(275, "R_AARCH64_ADR_PREL_PG_HI21", PAGE, Page, signed(33), AddressPage),
        row(276, "R_AARCH64_ADR_PREL_PG_HI21_NC", PAGE, Page, ANY, AddressPage),
        row(277, "R_AARCH64_ADD_ABS_LO12_NC", LOW, Low12(0), ANY, Fixed),
        row(278, "R_AARCH64_LDST8_ABS_LO12_NC", LOW, Low12(0), ANY, Fixed),
        row(279, "R_AARCH64_TSTBR14", CALL, Branch14, signed(16), Branch),
        row(280, "R_AARCH64_CONDBR19", CALL, Branch19, signed(21), Branch),
        row(282, "R_AARCH64_JUMP26", CALL, Branch26, signed(28), Branch),
        row(283, "R_AARCH64_CALL26", CALL, Branch26, signed(28), Branch),
        row(284, "R_AARCH64_LDST16_ABS_LO12_NC", LOW, Low12(1), ANY, Fixed),
        row(285, "R_AARCH64_LDST32_ABS_LO12_NC", LOW, Low12(2), ANY, Fixed),
        row(286, "R_AARCH64_LDST64_ABS_LO12_NC", LOW, Low12(3), ANY, Fixed),
        row(287, "R_AARCH64_MOVW_PREL_G0", RELATIVE, MoveSigned(0), signed(17), Fixed),
        row(288, "R_AARCH64_MOVW_PREL_G0_NC", RELATIVE, Move(0), ANY, Fixed),
        row(289, "R_AARCH64_MOVW_PREL_G1", RELATIVE, MoveSigned(16), signed(33), Fixed),
        row(290, "R_AARCH64_MOVW_PREL_G1_NC", RELATIVE, Move(16), ANY, Fixed),
        row(291, "R_AARCH64_MOVW_PREL_G2", RELATIVE, MoveSigned(32), signed(49), Fixed),
        row(292, "R_AARCH64_MOVW_PREL_G2_NC", RELATIVE, Move(32), ANY, Fixed),
        row(293, "R_AARCH64_MOVW_PREL_G3", RELATIVE, Move(48), ANY, Fixed),
        row(299, "R_AARCH64_LDST128_ABS_LO12_NC", LOW, Low12(4), ANY, Fixed),
        row(300, "R_AARCH64_MOVW_GOTOFF_G0", SLOT, MoveSigned(0), signed(17), Fixed),
        row(301, "R_AARCH64_MOVW_GOTOFF_G0_NC", SLOT, Move(0), ANY, Fixed),
        row(302, "R_AARCH64_MOVW_GOTOFF_G1", SLOT, MoveSigned(16), signed(33), Fixed),
        row(303, "R_AARCH64_MOVW_GOTOFF_G1_NC", SLOT, Move(16), ANY, Fixed),
        row(304, "R_AARCH64_MOVW_GOTOFF_G2", SLOT, MoveSigned(32), signed(49), Fixed),
        row(305, "R_AARCH64_MOVW_GOTOFF_G2_NC", SLOT, Move(32), ANY, Fixed),
        row(306, "R_AARCH64_MOVW_GOTOFF_G3", SLOT, Move(48), ANY, Fixed),
        row(307, "R_AARCH64_GOTREL64", (RelocExpr::Symbol, RelocBase::Got), Double, ANY, Fixed),
        row(308, "R_AARCH64_GOTREL32", (RelocExpr::Symbol, RelocBase::Got), Word, either(32), Fixed),
        row(309, "R_AARCH64_GOT_LD_PREL19", (GotSlot, RelocBase::Place), Branch19, signed(21), Fixed),
        row(310, "R_AARCH64_LD64_GOTOFF_LO15", SLOT, Slot15, unsigned(15), Fixed),
        row(311, "R_AARCH64_ADR_GOT_PAGE", (GotSlot, RelocBase::PlacePage), Page, signed(33), GotPage),
        row(312, "R_AARCH64_LD64_GOT_LO12_NC", (GotSlot, RelocBase::Page), Low12(3), ANY, Fixed),
        row(313, "R_AARCH64_LD64_GOTPAGE_LO15", (GotSlot, RelocBase::GotPage), Slot15, unsigned(15), Fixed),
        row(314, "R_AARCH64_PLT32", CALL, Word, signed(32), Fixed),
        row(315, "R_AARCH64_GOTPCREL32", (GotSlot, RelocBase::Place), Word, signed(32), Fixed),
        row(316, "R_AARCH64_PATCHINST", (RelocExpr::Patch, RelocBase::Zero), Word, ANY, Patch),
        row(317, "R_AARCH64_FUNCINIT64", (RelocExpr::Initializer, RelocBase::Zero), Double, ANY, Pointer),
    ]
};

/// Relocations of signed pointers ("PAuth ABI Extension to ELF for the Arm 64-bit Architecture", "Static
/// Relocations" and "Signed GOT").
const SIGNED_ROWS: &[(u32, Info)] = {
    use Family::{Fixed, Pointer};
    use Field::*;
    use RelocBase::{Place, PlacePage};
    use RelocExpr::{SignedGotSlot as Slot, SignedPointer as Address, SignedTlsDesc as Descriptor};
    const OFFSET: (RelocExpr, RelocBase) = (Slot, RelocBase::Got);
    &[
        row(580, "R_AARCH64_AUTH_ABS64", (Address, RelocBase::Zero), SignedPointer, ANY, Pointer),
        row(581, "R_AARCH64_AUTH_MOVW_GOTOFF_G0", OFFSET, MoveSigned(0), signed(17), Fixed),
        row(582, "R_AARCH64_AUTH_MOVW_GOTOFF_G0_NC", OFFSET, Move(0), ANY, Fixed),
        row(583, "R_AARCH64_AUTH_MOVW_GOTOFF_G1", OFFSET, MoveSigned(16), signed(33), Fixed),
        row(584, "R_AARCH64_AUTH_MOVW_GOTOFF_G1_NC", OFFSET, Move(16), ANY, Fixed),
        row(585, "R_AARCH64_AUTH_MOVW_GOTOFF_G2", OFFSET, MoveSigned(32), signed(49), Fixed),
        row(586, "R_AARCH64_AUTH_MOVW_GOTOFF_G2_NC", OFFSET, Move(32), ANY, Fixed),
        row(587, "R_AARCH64_AUTH_MOVW_GOTOFF_G3", OFFSET, Move(48), ANY, Fixed),
        row(588, "R_AARCH64_AUTH_GOT_LD_PREL19", (Slot, Place), Branch19, signed(21), Fixed),
        row(589, "R_AARCH64_AUTH_LD64_GOTOFF_LO15", OFFSET, Slot15, unsigned(15), Fixed),
        row(590, "R_AARCH64_AUTH_ADR_GOT_PAGE", (Slot, PlacePage), Page, signed(33), Fixed),
        row(591, "R_AARCH64_AUTH_LD64_GOT_LO12_NC", (Slot, RelocBase::Page), Low12(3), ANY, Fixed),
        row(592, "R_AARCH64_AUTH_LD64_GOTPAGE_LO15", (Slot, RelocBase::GotPage), Slot15, unsigned(15), Fixed),
        row(593, "R_AARCH64_AUTH_GOT_ADD_LO12_NC", (Slot, RelocBase::Page), Low12(0), ANY, Fixed),
        row(594, "R_AARCH64_AUTH_GOT_ADR_PREL_LO21", (Slot, Place), Distance, signed(21), Fixed),
        row(595, "R_AARCH64_AUTH_TLSDESC_ADR_PAGE21", (Descriptor, PlacePage), Page, signed(33), Fixed),
        row(596, "R_AARCH64_AUTH_TLSDESC_LD64_LO12", (Descriptor, RelocBase::Page), Low12(3), ANY, Fixed),
        row(597, "R_AARCH64_AUTH_TLSDESC_ADD_LO12", (Descriptor, RelocBase::Page), Low12(0), ANY, Fixed),
        row(598, "R_AARCH64_AUTH_TLSDESC_CALL", MARK, Empty, ANY, Fixed),
    ]
};

const GENERAL: RelocExpr = RelocExpr::TlsGd;
const LOCAL: RelocExpr = RelocExpr::TlsLd;
const BLOCK: (RelocExpr, RelocBase) = (RelocExpr::DtpOffset, RelocBase::Zero);
const THREAD: (RelocExpr, RelocBase) = (RelocExpr::TpOffset, RelocBase::Zero);
const DESCRIPTOR: RelocExpr = RelocExpr::TlsDesc;
const MARK: (RelocExpr, RelocBase) = (RelocExpr::TlsDescCall, RelocBase::Zero);

const TLS_ROWS: &[(u32, Info)] = {
    use Family::*;
    use Field::*;
    use RelocBase::{Got, Place, PlacePage};
    use RelocExpr::GotTp;
    &[
        row(512, "R_AARCH64_TLSGD_ADR_PREL21", (GENERAL, Place), Distance, signed(21), Fixed),
        row(513, "R_AARCH64_TLSGD_ADR_PAGE21", (GENERAL, PlacePage), Page, signed(33), GeneralPage),
        row(514, "R_AARCH64_TLSGD_ADD_LO12_NC", (GENERAL, RelocBase::Page), Low12(0), ANY, GeneralLow),
        row(515, "R_AARCH64_TLSGD_MOVW_G1", (GENERAL, Got), MoveSigned(16), signed(33), Fixed),
        row(516, "R_AARCH64_TLSGD_MOVW_G0_NC", (GENERAL, Got), Move(0), ANY, Fixed),
        row(517, "R_AARCH64_TLSLD_ADR_PREL21", (LOCAL, Place), Distance, signed(21), Fixed),
        row(518, "R_AARCH64_TLSLD_ADR_PAGE21", (LOCAL, PlacePage), Page, signed(33), LocalPage),
        row(519, "R_AARCH64_TLSLD_ADD_LO12_NC", (LOCAL, RelocBase::Page), Low12(0), ANY, LocalLow),
        row(520, "R_AARCH64_TLSLD_MOVW_G1", (LOCAL, Got), MoveSigned(16), signed(33), Fixed),
        row(521, "R_AARCH64_TLSLD_MOVW_G0_NC", (LOCAL, Got), Move(0), ANY, Fixed),
        row(522, "R_AARCH64_TLSLD_LD_PREL19", (LOCAL, Place), Branch19, signed(21), Fixed),
        row(523, "R_AARCH64_TLSLD_MOVW_DTPREL_G2", BLOCK, MoveSigned(32), signed(49), Fixed),
        row(524, "R_AARCH64_TLSLD_MOVW_DTPREL_G1", BLOCK, MoveSigned(16), signed(33), Fixed),
        row(525, "R_AARCH64_TLSLD_MOVW_DTPREL_G1_NC", BLOCK, Move(16), ANY, Fixed),
        row(526, "R_AARCH64_TLSLD_MOVW_DTPREL_G0", BLOCK, MoveSigned(0), signed(17), Fixed),
        row(527, "R_AARCH64_TLSLD_MOVW_DTPREL_G0_NC", BLOCK, Move(0), ANY, Fixed),
        row(528, "R_AARCH64_TLSLD_ADD_DTPREL_HI12", BLOCK, High12, unsigned(24), Fixed),
        row(529, "R_AARCH64_TLSLD_ADD_DTPREL_LO12", BLOCK, Low12(0), unsigned(12), Fixed),
        row(530, "R_AARCH64_TLSLD_ADD_DTPREL_LO12_NC", BLOCK, Low12(0), ANY, Fixed),
        row(531, "R_AARCH64_TLSLD_LDST8_DTPREL_LO12", BLOCK, Low12(0), unsigned(12), Fixed),
        row(532, "R_AARCH64_TLSLD_LDST8_DTPREL_LO12_NC", BLOCK, Low12(0), ANY, Fixed),
        row(533, "R_AARCH64_TLSLD_LDST16_DTPREL_LO12", BLOCK, Low12(1), unsigned(12), Fixed),
        row(534, "R_AARCH64_TLSLD_LDST16_DTPREL_LO12_NC", BLOCK, Low12(1), ANY, Fixed),
        row(535, "R_AARCH64_TLSLD_LDST32_DTPREL_LO12", BLOCK, Low12(2), unsigned(12), Fixed),
        row(536, "R_AARCH64_TLSLD_LDST32_DTPREL_LO12_NC", BLOCK, Low12(2), ANY, Fixed),
        row(537, "R_AARCH64_TLSLD_LDST64_DTPREL_LO12", BLOCK, Low12(3), unsigned(12), Fixed),
        row(538, "R_AARCH64_TLSLD_LDST64_DTPREL_LO12_NC", BLOCK, Low12(3), ANY, Fixed),
        row(539, "R_AARCH64_TLSIE_MOVW_GOTTPREL_G1", (GotTp, Got), MoveSigned(16), signed(33), Fixed),
        row(540, "R_AARCH64_TLSIE_MOVW_GOTTPREL_G0_NC", (GotTp, Got), Move(0), ANY, Fixed),
        row(541, "R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21", (GotTp, PlacePage), Page, signed(33), InitialPage),
        row(
            542,
            "R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC",
            (GotTp, RelocBase::Page),
            Low12(3),
            ANY,
            InitialLow,
        ),
        row(543, "R_AARCH64_TLSIE_LD_GOTTPREL_PREL19", (GotTp, Place), Branch19, signed(21), Fixed),
        row(544, "R_AARCH64_TLSLE_MOVW_TPREL_G2", THREAD, MoveSigned(32), signed(49), Fixed),
        row(545, "R_AARCH64_TLSLE_MOVW_TPREL_G1", THREAD, MoveSigned(16), signed(33), Fixed),
        row(546, "R_AARCH64_TLSLE_MOVW_TPREL_G1_NC", THREAD, Move(16), ANY, Fixed),
        row(547, "R_AARCH64_TLSLE_MOVW_TPREL_G0", THREAD, MoveSigned(0), signed(17), Fixed),
        row(548, "R_AARCH64_TLSLE_MOVW_TPREL_G0_NC", THREAD, Move(0), ANY, Fixed),
        row(549, "R_AARCH64_TLSLE_ADD_TPREL_HI12", THREAD, High12, unsigned(24), Fixed),
        row(550, "R_AARCH64_TLSLE_ADD_TPREL_LO12", THREAD, Low12(0), unsigned(12), Fixed),
        row(551, "R_AARCH64_TLSLE_ADD_TPREL_LO12_NC", THREAD, Low12(0), ANY, Fixed),
        row(552, "R_AARCH64_TLSLE_LDST8_TPREL_LO12", THREAD, Low12(0), unsigned(12), Fixed),
        row(553, "R_AARCH64_TLSLE_LDST8_TPREL_LO12_NC", THREAD, Low12(0), ANY, Fixed),
        row(554, "R_AARCH64_TLSLE_LDST16_TPREL_LO12", THREAD, Low12(1), unsigned(12), Fixed),
        row(555, "R_AARCH64_TLSLE_LDST16_TPREL_LO12_NC", THREAD, Low12(1), ANY, Fixed),
        row(556, "R_AARCH64_TLSLE_LDST32_TPREL_LO12", THREAD, Low12(2), unsigned(12), Fixed),
        row(557, "R_AARCH64_TLSLE_LDST32_TPREL_LO12_NC", THREAD, Low12(2), ANY, Fixed),
        row(558, "R_AARCH64_TLSLE_LDST64_TPREL_LO12", THREAD, Low12(3), unsigned(12), Fixed),
        row(559, "R_AARCH64_TLSLE_LDST64_TPREL_LO12_NC", THREAD, Low12(3), ANY, Fixed),
        row(560, "R_AARCH64_TLSDESC_LD_PREL19", (DESCRIPTOR, Place), Branch19, signed(21), DescriptorLiteral),
        row(
            561,
            "R_AARCH64_TLSDESC_ADR_PREL21",
            (DESCRIPTOR, Place),
            Distance,
            signed(21),
            DescriptorDistance,
        ),
        row(562, "R_AARCH64_TLSDESC_ADR_PAGE21", (DESCRIPTOR, PlacePage), Page, signed(33), DescriptorPage),
        row(563, "R_AARCH64_TLSDESC_LD64_LO12", (DESCRIPTOR, RelocBase::Page), Low12(3), ANY, DescriptorLoad),
        row(564, "R_AARCH64_TLSDESC_ADD_LO12", (DESCRIPTOR, RelocBase::Page), Low12(0), ANY, DescriptorRest),
        row(565, "R_AARCH64_TLSDESC_OFF_G1", (DESCRIPTOR, Got), MoveSigned(16), signed(33), DescriptorHigh),
        row(566, "R_AARCH64_TLSDESC_OFF_G0_NC", (DESCRIPTOR, Got), Move(0), ANY, DescriptorLow),
        row(567, "R_AARCH64_TLSDESC_LDR", MARK, Empty, ANY, DescriptorIndexed),
        row(568, "R_AARCH64_TLSDESC_ADD", MARK, Empty, ANY, DescriptorRest),
        row(569, "R_AARCH64_TLSDESC_CALL", MARK, Empty, ANY, DescriptorRest),
        row(570, "R_AARCH64_TLSLE_LDST128_TPREL_LO12", THREAD, Low12(4), unsigned(12), Fixed),
        row(571, "R_AARCH64_TLSLE_LDST128_TPREL_LO12_NC", THREAD, Low12(4), ANY, Fixed),
        row(572, "R_AARCH64_TLSLD_LDST128_DTPREL_LO12", BLOCK, Low12(4), unsigned(12), Fixed),
        row(573, "R_AARCH64_TLSLD_LDST128_DTPREL_LO12_NC", BLOCK, Low12(4), ANY, Fixed),
    ]
};

/// Data words that objects share with the dynamic linker: debug information and tables of addresses.
const WORD_ROWS: &[(u32, Info)] = &[
    row(1029, "R_AARCH64_TLS_DTPREL", BLOCK, Field::Double, ANY, Family::Fixed),
    row(1030, "R_AARCH64_TLS_TPREL", THREAD, Field::Double, ANY, Family::Fixed),
];

#[cfg(test)]
#[path = "relocs_tests.rs"]
mod tests;
