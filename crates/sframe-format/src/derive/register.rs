//! One register at one place of the code.
//!
//! SFrame follows stack and frame pointer. A few frames count from another register, which functions that they call save
//! and use; `.eh_frame` tells where.

use gimli::{BaseAddresses, EhFrame, UnwindContext, UnwindSection};

use super::augmentation::normalize;
use super::project::{Reason, Storage, register_rule};
use super::section;
use crate::abi::{Abi, Register};
use crate::rules::RegisterRule;

/// Where the caller's value of a register is while `pc` runs, by `.eh_frame` with the address `address`. `None` if no FDE
/// holds `pc`, or if the register's value is lost there. Takes time in proportion to the section.
pub fn register_at(
    abi: Abi,
    eh_frame: &[u8],
    address: u64,
    pc: u64,
    register: Register,
) -> Option<RegisterRule> {
    if !is_kept(abi, register) {
        return None;
    }
    let normal = normalize(abi, eh_frame);
    let section = section(abi, &normal.data);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut context: UnwindContext<usize, Storage> = UnwindContext::new_in();
    let row = section.unwind_info_for_address(&bases, &mut context, pc, EhFrame::cie_from_offset).ok()?;
    let rule = row.register(gimli::Register(register as u16));
    register_rule(&section, rule, Reason::FramePointer).ok()
}

/// Whether functions leave a register to their callers as they found it (x86-64 psABI 3.2.1, AAPCS64 6.1.1, s390x ABI
/// 1.2.1). Of others `.eh_frame` says nothing.
fn is_kept(abi: Abi, register: Register) -> bool {
    match abi {
        Abi::Amd64 => matches!(register, 3 | 6 | 12..=15),
        Abi::AArch64Little | Abi::AArch64Big => matches!(register, 19..=29),
        Abi::S390x => matches!(register, 6..=13),
    }
}
