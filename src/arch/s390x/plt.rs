//! Procedure linkage tables of s390x (ABI supplement, "Procedure Linkage Table"), in the form that works at
//! any distance between code and GOT.

use super::relocs::{Field, write};
use crate::arch::target::PltEntry;

/// Start of the lazy half of an entry, which asks the dynamic linker.
pub const LAZY_HALF: u64 = 14;

/// `stg %r1,56(%r15); larl %r1,GOT; mvc 48(8,%r15),8(%r1); lg %r1,16(%r1); br %r1; nopr…`: passes the offset
/// of the relocation and this module's word to the resolver, and jumps there.
#[rustfmt::skip]
const HEADER: [u8; 32] = [
    0xe3, 0x10, 0xf0, 0x38, 0x00, 0x24,
    0xc0, 0x10, 0, 0, 0, 0,
    0xd2, 0x07, 0xf0, 0x30, 0x10, 0x08,
    0xe3, 0x10, 0x10, 0x10, 0x00, 0x04,
    0x07, 0xf1, 0x07, 0x00, 0x07, 0x00, 0x07, 0x00,
];
/// `larl %r1,slot; lg %r1,0(%r1); br %r1; basr %r1,%r0; lgf %r1,12(%r1); jg header; .long offset`
#[rustfmt::skip]
const LAZY: [u8; 32] = [
    0xc0, 0x10, 0, 0, 0, 0,
    0xe3, 0x10, 0x10, 0x00, 0x00, 0x04,
    0x07, 0xf1,
    0x0d, 0x10,
    0xe3, 0x10, 0x10, 0x0c, 0x00, 0x14,
    0xc0, 0xf4, 0, 0, 0, 0,
    0, 0, 0, 0,
];
/// `larl %r1,slot; lg %r1,0(%r1); br %r1; nopr`
#[rustfmt::skip]
const DIRECT: [u8; 16] = [
    0xc0, 0x10, 0, 0, 0, 0,
    0xe3, 0x10, 0x10, 0x00, 0x00, 0x04,
    0x07, 0xf1, 0x07, 0x00,
];

/// Size of an entry of `.rela.plt` in bytes. The dynamic linker wants an offset into that table, not an
/// index.
const RELOCATION: u32 = 24;

fn copy<const N: usize>(out: &mut [u8], mut bytes: [u8; N], edit: impl FnOnce(&mut [u8])) {
    edit(&mut bytes);
    if let Some(out) = out.get_mut(..N) {
        out.copy_from_slice(&bytes);
    }
}

/// Stores the distance in halfwords from the instruction at `at` to `target`. The field begins two bytes into
/// the instruction. `start` is the address of `out`.
fn distance(out: &mut [u8], at: usize, start: u64, target: u64) {
    let value = target.wrapping_sub(start.wrapping_add(at as u64)) as i64;
    write(Field::Doubled32, &mut out[at + 2..], value);
}

/// Writes the head of `.plt`. `got` is the address of the reserved words.
pub fn write_header(out: &mut [u8], plt: u64, got: u64) {
    copy(out, HEADER, |bytes| distance(bytes, 6, plt, got));
}

/// An entry of `.plt`.
pub fn write_entry(out: &mut [u8], entry: PltEntry) {
    copy(out, LAZY, |bytes| {
        distance(bytes, 0, entry.entry, entry.slot);
        distance(bytes, 22, entry.entry, entry.plt);
        bytes[28..].copy_from_slice(&entry.index.wrapping_mul(RELOCATION).to_be_bytes());
    });
}

/// An entry of `.plt.got`.
pub fn write_direct(out: &mut [u8], entry: u64, slot: u64) {
    copy(out, DIRECT, |bytes| distance(bytes, 0, entry, slot));
}

/// `DW_CFA_def_cfa: r15+160`, augmentation `zR` with PC-relative pointers. Entries do not touch the stack.
pub const CIE: [u8; 24] =
    [0, 0, 0, 20, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 14, 1, 0x1b, 0x0c, 15, 0xa0, 1, 0, 0, 0];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Target;
    use crate::arch::s390x::S390x;

    /// The table that GNU ld writes for such addresses.
    #[test]
    fn lazy_tables() {
        let mut out = [0; 64];
        S390x::write_plt_header(&mut out, 0x730, 0x1fb0, &S390x::PLT);
        let entry = PltEntry { plt: 0x730, entry: 0x770, slot: 0x2008, index: 1 };
        S390x::write_plt_entry(&mut out[32..], entry, &S390x::PLT);
        assert_eq!(out[6..12], [0xc0, 0x10, 0, 0, 0x0c, 0x3d]);
        assert_eq!(out[32..38], [0xc0, 0x10, 0, 0, 0x0c, 0x4c]);
        assert_eq!(out[54..], [0xc0, 0xf4, 0xff, 0xff, 0xff, 0xd5, 0, 0, 0, 0x18]);
        assert_eq!(S390x::lazy_target(entry, &S390x::PLT), 0x77e);
    }

    #[test]
    fn direct_entries() {
        let mut out = [0; 16];
        S390x::write_plt_direct(&mut out, 0x1100, 0x4018, &S390x::PLT);
        assert_eq!(out[..8], [0xc0, 0x10, 0, 0, 0x17, 0x8c, 0xe3, 0x10]);
    }
}
