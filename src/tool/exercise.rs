//! Runs the command's readers over arbitrary bytes, for the fuzz target `tool` and its test.

use super::split::split;
use super::{open, unwind};
use crate::sframe::split::Form;
use stacks::bytes::Bytes;

/// Reads `bytes` as a core file, and as what an assembler wrote, which is split in both forms and read again. Any result
/// will do, as long as no reader panics and no stack goes on without end.
pub fn exercise(bytes: &[u8]) {
    if let Ok(process) = unwind::core::threads("fuzz.core", &Bytes::from(bytes.to_vec())) {
        for thread in process.threads.iter().take(4) {
            unwind::unwind(&process, thread, true);
        }
    }
    let _ = open::open_elf("fuzz.o", bytes);
    for form in [Form::Same, Form::Light] {
        let split = split("fuzz.o", bytes, form).ok().and_then(|done| done.bytes);
        let _ = split.as_deref().map(|bytes| open::open_elf("fuzz.o", bytes).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;

    /// Whatever the fuzzer found worth keeping, a core file among it.
    #[test]
    fn kept_files_are_read_or_refused() {
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/tool")).unwrap() {
            super::exercise(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }

    /// Fixtures with bytes of their headers and tables damaged, coarsely.
    #[test]
    fn damaged_objects_are_split_or_refused() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for fixture in fixtures::all() {
            let original = std::fs::read(fixture.path).unwrap();
            super::exercise(&original);
            for _ in 0..20 {
                let mut damaged = original.clone();
                for _ in 0..3 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (seed >> 33) as usize % damaged.len();
                    damaged[at] = (seed >> 25) as u8;
                }
                super::exercise(&damaged);
            }
        }
    }
}
