//! The row of an FDE in memory (LSB, "Exception Frames"), by gimli, for code that no table describes.

use core::ptr::read_unaligned;
use core::slice;

use gimli::{
    AArch64, BaseAddresses, CfaRule, EhFrame, EndianSlice, NativeEndian, Pointer, Reader, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow,
    Vendor,
};
use sframe_format::cfi::Saved;

use crate::registers::{ABI, place};
use crate::row::{Cfa, How, Row, flags};

/// Registers with rules, and rows that instructions remember. A signal handler may have little stack.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 34];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

type Section = EhFrame<EndianSlice<'static, NativeEndian>>;

/// Fills in the row for an address. `None`: the FDE does not have it, or has instructions that are not known.
///
/// # Safety
/// `fde` is an FDE in memory, with its CIE; `text` and `data` are the bases of relative pointers in it.
#[inline(never)]
pub unsafe fn read(fde: *const u8, text: u64, data: u64, address: u64, row: &mut Row) -> Option<()> {
    row.clear();
    // SAFETY: as the caller says; a record's first word is its length.
    let (section, start) = unsafe {
        let end = |record: *const u8| Some(record.add(4 + length(record)?));
        let cie = fde.add(4).sub(read_unaligned(fde.add(4).cast::<u32>()) as usize);
        let (start, end) = (cie.min(fde), end(cie)?.max(end(fde)?));
        (slice::from_raw_parts(start, end.offset_from(start) as usize), start)
    };
    let mut section = EhFrame::from(EndianSlice::new(section, NativeEndian));
    section.set_address_size(8);
    section.set_vendor(if ABI.is_aarch64() { Vendor::AArch64 } else { Vendor::Default });
    let bases = BaseAddresses::default().set_eh_frame(start as u64).set_text(text).set_got(data);
    let offset = (fde as usize).wrapping_sub(start as usize);
    let fde = section.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset).ok()?;
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let found = fde.unwind_info_for_address(&section, &bases, &mut context, address).ok()?;
    row.function = fde.initial_address();
    row.origin = start as u64;
    let pointer = |pointer| match pointer {
        Pointer::Direct(address) => address,
        // SAFETY: the pointer is in the data of a loaded module.
        Pointer::Indirect(at) => unsafe { read_unaligned(at as *const u64) },
    };
    row.personality = fde.personality().map_or(0, pointer);
    row.data = fde.lsda().map_or(0, pointer);
    row.set(flags::SIGNAL, fde.is_signal_trampoline());
    row.args_size = found.saved_args_size().try_into().ok()?;
    row.return_address = u8::try_from(place(fde.cie().return_address_register().0.into())?).ok()?;
    row.cfa = match *found.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            Cfa::Register { place: place(register.0.into())?.try_into().ok()?, offset }
        }
        CfaRule::Expression(expression) => Cfa::Expression(block(&section, expression)?),
    };
    for (register, rule) in found.registers() {
        if *register == AArch64::RA_SIGN_STATE && ABI.is_aarch64() {
            row.set(flags::SIGNED, matches!(rule, RegisterRule::Constant(state) if state & 1 != 0));
            continue;
        }
        let number = u32::from(register.0);
        match *rule {
            RegisterRule::Offset(offset) => row.restore(number, Saved::AtCfa(offset))?,
            RegisterRule::ValOffset(offset) => row.restore(number, Saved::CfaPlus(offset))?,
            RegisterRule::Register(other) => row.restore(number, Saved::In(other.0.into()))?,
            RegisterRule::Undefined if place(number).is_some() => row.restore(number, Saved::Undefined)?,
            RegisterRule::Expression(expression) => {
                row.compute(number, How::AtExpression, block(&section, expression)?)?;
            }
            RegisterRule::ValExpression(expression) => {
                row.compute(number, How::IsExpression, block(&section, expression)?)?;
            }
            _ => {}
        }
    }
    Some(())
}

fn block(section: &Section, expression: UnwindExpression<usize>) -> Option<&'static [u8]> {
    let bytes = expression.get(section).ok()?.0;
    (!bytes.is_empty()).then(|| bytes.slice())
}

/// Bytes of a record behind its first word. `None`: it has the long form, which no compiler writes.
///
/// # Safety
/// `record` is a CIE or an FDE.
unsafe fn length(record: *const u8) -> Option<usize> {
    // SAFETY: as the caller says.
    let length = unsafe { read_unaligned(record.cast::<u32>()) };
    (length < 0xffff_fff0).then_some(length as usize)
}
