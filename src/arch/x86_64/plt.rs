//! Procedure linkage tables of x86-64 (psABI 5.2, "Procedure Linkage Table", and its IBT form).

use crate::arch::target::{PltEntry, PltFrame, PltPart, PltShape};

/// `push GOT+8(%rip); jmp *GOT+16(%rip); nopl 0(%rax)`
const HEADER: [u8; 16] = [0xff, 0x35, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0, 0x0f, 0x1f, 0x40, 0];
/// `jmp *slot(%rip); push $index; jmp header`
const LAZY: [u8; 16] = [0xff, 0x25, 0, 0, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
/// `endbr64; push $index; jmp header; xchg %ax,%ax`
const LAZY_IBT: [u8; 16] = [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0, 0x66, 0x90];
/// `jmp *slot(%rip); xchg %ax,%ax`
const DIRECT: [u8; 8] = [0xff, 0x25, 0, 0, 0, 0, 0x66, 0x90];
/// `endbr64; jmp *slot(%rip); nopw 0(%rax,%rax,1)`
const DIRECT_IBT: [u8; 16] = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0, 0, 0, 0, 0x66, 0x0f, 0x1f, 0x44, 0, 0];

/// Stores the distance to `target` in the four bytes at `at`. The processor counts it from the end of the
/// instruction, which is the end of these bytes. `start` is the address of `out`.
fn distance(out: &mut [u8], at: usize, start: u64, target: u64) {
    let value = target.wrapping_sub(start.wrapping_add(at as u64 + 4)) as u32;
    out[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn copy(out: &mut [u8], mut bytes: [u8; 16], length: usize, edit: impl FnOnce(&mut [u8])) {
    edit(&mut bytes);
    if let Some(out) = out.get_mut(..length) {
        out.copy_from_slice(&bytes[..length]);
    }
}

/// The head of `.plt`.
pub fn write_header(out: &mut [u8], plt: u64, got_plt: u64) {
    copy(out, HEADER, 16, |bytes| {
        distance(bytes, 2, plt, got_plt.wrapping_add(8));
        distance(bytes, 8, plt, got_plt.wrapping_add(16));
    });
}

/// An entry of `.plt`.
pub fn write_entry(out: &mut [u8], entry: PltEntry, shape: &PltShape) {
    let index = entry.index.to_le_bytes();
    if shape.split {
        copy(out, LAZY_IBT, 16, |bytes| {
            bytes[5..9].copy_from_slice(&index);
            distance(bytes, 10, entry.entry, entry.plt);
        });
    } else {
        copy(out, LAZY, 16, |bytes| {
            distance(bytes, 2, entry.entry, entry.slot);
            bytes[7..11].copy_from_slice(&index);
            distance(bytes, 12, entry.entry, entry.plt);
        });
    }
}

/// An entry of `.plt.got` or `.plt.sec`.
pub fn write_direct(out: &mut [u8], entry: u64, slot: u64, shape: &PltShape) {
    if shape.split {
        copy(out, DIRECT_IBT, 16, |bytes| distance(bytes, 6, entry, slot));
    } else {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&DIRECT);
        copy(out, bytes, 8, |bytes| distance(bytes, 2, entry, slot));
    }
}

/// Address of the lazy half of an entry.
pub fn lazy_target(entry: PltEntry, shape: &PltShape) -> u64 {
    if shape.split { entry.entry } else { entry.entry.wrapping_add(6) }
}

const fn frame(start: u8, pushed: u8) -> PltFrame {
    PltFrame { start, pushed, return_address: None }
}

/// The caller's frame: an entry pushes the relocation's number, then the head pushes the word that names the
/// module.
pub fn frames(part: PltPart, shape: &PltShape) -> &'static [PltFrame] {
    const OF_HEADER: &[PltFrame] = &[frame(0, 8), frame(6, 16)];
    const OF_LAZY: &[PltFrame] = &[frame(0, 0), frame(11, 8)];
    const OF_LAZY_IBT: &[PltFrame] = &[frame(0, 0), frame(9, 8)];
    const OF_DIRECT: &[PltFrame] = &[frame(0, 0)];
    match part {
        PltPart::Header => OF_HEADER,
        PltPart::Lazy if shape.split => OF_LAZY_IBT,
        PltPart::Lazy => OF_LAZY,
        PltPart::Direct => OF_DIRECT,
    }
}

/// `DW_CFA_def_cfa: rsp+8; DW_CFA_offset: rip at cfa-8`, augmentation `zR` with PC-relative pointers.
pub const CIE: [u8; 24] =
    [20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];

/// Call frame instructions that describe [`frames`] for all of `.plt` at once. In an entry, the CFA depends
/// on the program counter modulo 16. `DW_CFA_def_cfa_expression: rsp + 8 + (((rip & 15) >= pushed) << 3)`.
pub fn lazy_cfi(shape: &PltShape) -> &'static [u8] {
    macro_rules! instructions {
        ($pushed:literal) => {
            &[
                0x0e,
                16,
                0x46,
                0x0e,
                24,
                0x4a,
                0x0f,
                11,
                0x77,
                8,
                0x80,
                0,
                0x3f,
                0x1a,
                0x30 + $pushed,
                0x2a,
                0x33,
                0x24,
                0x22,
            ]
        };
    }
    if shape.split { instructions!(9) } else { instructions!(11) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Target;
    use crate::arch::x86_64::X86_64;

    const ENTRY: PltEntry = PltEntry { plt: 0x1000, entry: 0x1010, slot: 0x4018, index: 5 };

    #[test]
    fn lazy_tables() {
        let mut out = [0; 32];
        X86_64::write_plt_header(&mut out, 0x1000, 0x4000, &X86_64::PLT);
        X86_64::write_plt_entry(&mut out[16..], ENTRY, &X86_64::PLT);
        assert_eq!(out[..12], [0xff, 0x35, 0x02, 0x30, 0, 0, 0xff, 0x25, 0x04, 0x30, 0, 0]);
        assert_eq!(out[16..], [0xff, 0x25, 0x02, 0x30, 0, 0, 0x68, 5, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff]);
        assert_eq!(X86_64::lazy_target(ENTRY, &X86_64::PLT), 0x1016);
    }

    #[test]
    fn tables_for_branch_tracking() {
        let mut out = [0; 16];
        X86_64::write_plt_entry(&mut out, ENTRY, &X86_64::PLT_PROTECTED);
        assert_eq!(out, [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 5, 0, 0, 0, 0xe9, 0xe2, 0xff, 0xff, 0xff, 0x66, 0x90]);
        assert_eq!(X86_64::lazy_target(ENTRY, &X86_64::PLT_PROTECTED), 0x1010);
        X86_64::write_plt_direct(&mut out, 0x1100, 0x4018, &X86_64::PLT_PROTECTED);
        assert_eq!(out[..10], [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x0e, 0x2f, 0, 0]);
    }

    #[test]
    fn direct_entries() {
        let mut out = [0; 8];
        X86_64::write_plt_direct(&mut out, 0x1100, 0x4018, &X86_64::PLT);
        assert_eq!(out, [0xff, 0x25, 0x12, 0x2f, 0, 0, 0x66, 0x90]);
    }
}
