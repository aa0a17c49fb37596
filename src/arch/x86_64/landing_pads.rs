//! `endbr64`, where indirect branches land (Intel's manual, volume 1, "Control-Flow Enforcement Technology"),
//! and the instructions from which an address for such a branch can come.

use crate::arch::target::LandingPad;

/// `endbr64`, and a no-operation of four bytes.
pub const LANDING_PAD: LandingPad =
    LandingPad { mark: [0xf3, 0x0f, 0x1e, 0xfa], nop: [0x0f, 0x1f, 0x40, 0x00] };

/// Offsets in this code whose addresses `lea x(%rip)` loads without a relocation, because `x` lies in the
/// same section. Bytes in the middle of other instructions may look like it. That only adds to the offsets.
pub fn own_addresses(code: &[u8]) -> Vec<u64> {
    const LEA: u8 = 0x8d;
    let load = |at: usize| {
        let &[_, operands, a, b, c, d] = code.get(at..)?.first_chunk()?;
        // The register varies; the operand counts from the end of the instruction.
        let counts_from_here = operands & 0b1100_0111 == 0b101;
        let target = (at as u64 + 6).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into());
        (counts_from_here && target < code.len() as u64).then_some(target)
    };
    memchr::memchr_iter(LEA, code).filter_map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::own_addresses;

    #[test]
    fn loads_of_addresses_are_found_by_their_bytes() {
        // nop; lea -8(%rip), %rax: from the end at 8 to 0.
        let back = [0x90, 0x48, 0x8d, 0x05, 0xf8, 0xff, 0xff, 0xff, 0x90];
        assert_eq!(own_addresses(&back), [0]);
        // lea 0(%rip), %r15: to the byte behind it. Without that byte, it leads out of the section.
        let ahead = [0x4c, 0x8d, 0x3d, 0, 0, 0, 0, 0xc3];
        assert_eq!(own_addresses(&ahead), [7]);
        assert_eq!(own_addresses(&ahead[..7]), [0_u64; 0]);
        // lea 8(%rax), %rcx, and one that is cut short.
        assert_eq!(own_addresses(&[0x48, 0x8d, 0x48, 0x08, 0x8d, 0x05, 0, 0]), [0_u64; 0]);
    }
}
