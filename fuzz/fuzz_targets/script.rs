//! Reads the text as a linker script, an MRI script, a version script and each other kind of list. There must
//! be no panic, and no glob or nesting may take more than its length justifies.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| linker_script::exercise::exercise(data));
