//! Reads the bytes as an object, a shared library and an archive, in both byte orders. There must be no
//! panic, and no allocation out of proportion to the input.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sframe_ld::input::exercise(data));
