//! Runs the command's readers over arbitrary bytes, for the fuzz target `tool` and for a test.

use super::split::split;
use super::{open, unwind};
use sframe_sections::split::Form;
use stacks::bytes::Bytes;

/// Reads `bytes` as a core file. Then reads them as an assembler's output, splits that in both forms and
/// reads the results. Any result is right, as long as no reader panics and every walk ends.
pub fn exercise(bytes: &[u8]) {
    unwind::exercise(&Bytes::from(bytes.to_vec()));
    let _ = open::open_elf("fuzz.o", bytes);
    for form in [Form::Same, Form::Light] {
        let split = split("fuzz.o", bytes, form).ok().and_then(|done| done.bytes);
        let _ = split.as_deref().map(|bytes| open::open_elf("fuzz.o", bytes).is_ok());
    }
}
