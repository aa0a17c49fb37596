//! What the tests of made frames and of expanded tables share.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, FrameDescriptionEntry, NativeEndian, Pointer, Register,
    RegisterRule,
};
use sframe_format::cfi::{CfiFunction, CfiRow, Saved};
use sframe_format::compact::{Handler, Personality};

/// A function of a table: its address, its rows, and what handles its exceptions.
pub type Function = (u64, CfiFunction, Option<Handler>);

/// A row that counts from the stack pointer.
pub fn row(start: u32, cfa_offset: i64, saved: &[(u32, Saved)]) -> CfiRow {
    CfiRow { start, cfa_register: 7, cfa_offset, saved: saved.to_vec(), ..CfiRow::default() }
}

fn expected(saved: Saved) -> RegisterRule<usize> {
    match saved {
        Saved::AtCfa(offset) => RegisterRule::Offset(offset),
        Saved::CfaPlus(offset) => RegisterRule::ValOffset(offset),
        Saved::In(register) => RegisterRule::Register(Register(register as u16)),
        Saved::Undefined => RegisterRule::Undefined,
    }
}

/// Holds what an FDE says of an address in a function against the function.
pub fn compare<'d>(
    section: &EhFrame<EndianSlice<'d, NativeEndian>>,
    bases: &BaseAddresses,
    fde: &FrameDescriptionEntry<EndianSlice<'d, NativeEndian>>,
    (start, function, handler): &Function,
    offset: u32,
) {
    let pc = start + u64::from(offset);
    assert!(fde.contains(pc) && fde.initial_address() == *start, "{pc:#x}");
    assert_eq!(fde.is_signal_trampoline(), function.signal);
    let pointer = |handler: &Handler| match handler.personality {
        Personality { address, indirect: false } => Pointer::Direct(address),
        Personality { address, indirect: true } => Pointer::Indirect(address),
    };
    assert_eq!(fde.personality(), handler.as_ref().map(pointer));
    assert_eq!(fde.lsda(), handler.map(|handler| Pointer::Direct(handler.lsda.unwrap_or(0))));
    let mut context = gimli::UnwindContext::new();
    let made = fde.unwind_info_for_address(section, bases, &mut context, pc).unwrap();
    let row = function.rows.iter().rfind(|row| row.start <= offset).unwrap();
    let cfa = CfaRule::RegisterAndOffset { register: Register(7), offset: row.cfa_offset };
    assert_eq!((made.cfa(), made.saved_args_size()), (&cfa, row.args_size), "{pc:#x}");
    for &(register, saved) in &row.saved {
        assert_eq!(made.register(Register(register as u16)), Some(expected(saved)), "{pc:#x}");
    }
    assert_eq!(made.registers().count(), row.saved.len(), "{pc:#x}");
}
