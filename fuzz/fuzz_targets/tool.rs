//! Reads the bytes as a core file, and as an object from an assembler. There must be no panic and no endless
//! stack, and it must be possible to read what was split.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sframe::exercise::exercise(data));
