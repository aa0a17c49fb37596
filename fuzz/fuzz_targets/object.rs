//! Any bytes as an object, a shared library and an archive, in both byte orders: no panic, no
//! allocation that the input's size does not account for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sframe_ld::input::exercise(data));
