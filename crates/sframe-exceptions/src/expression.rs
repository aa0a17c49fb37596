//! DWARF expressions in rules (DWARF 5, section 2.5), as procedure linkage tables and signal returns have
//! them.

use core::ptr::read_unaligned;

use gimli::{
    Encoding, EndianSlice, Evaluation, EvaluationResult, EvaluationStorage, Format, NativeEndian, Piece,
    Value,
};

use crate::registers::{Registers, place};

/// More than any expression takes.
const MOST_INSTRUCTIONS: u32 = 1000;

type Bytes = EndianSlice<'static, NativeEndian>;

struct OnStack;

impl EvaluationStorage<Bytes> for OnStack {
    type Stack = [Value; 32];
    type ExpressionStack = [(Bytes, Bytes); 1];
    type Result = [Piece<Bytes>; 1];
}

/// Its value. `initial` lies on the stack at first. `None`: it is malformed, or asks for what no rule has.
///
/// # Safety
/// It reads the memory that its instructions name.
#[inline(never)]
pub unsafe fn evaluate(block: &'static [u8], initial: Option<u64>, registers: &Registers) -> Option<u64> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 5 };
    let bytes = EndianSlice::new(block, NativeEndian);
    let mut evaluation = Evaluation::<Bytes, OnStack>::new_in(bytes, encoding);
    evaluation.set_max_iterations(MOST_INSTRUCTIONS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size, .. } => {
                // SAFETY: as the caller says.
                let value = unsafe {
                    match size {
                        1 => u64::from(read_unaligned(address as *const u8)),
                        2 => u64::from(read_unaligned(address as *const u16)),
                        4 => u64::from(read_unaligned(address as *const u32)),
                        _ => read_unaligned(address as *const u64),
                    }
                };
                evaluation.resume_with_memory(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = *registers.get(place(register.0.into())?)?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresCallFrameCfa => evaluation.resume_with_call_frame_cfa(initial?).ok()?,
            _ => return None,
        };
    }
    evaluation.value_result()?.to_u64(u64::MAX).ok()
}
