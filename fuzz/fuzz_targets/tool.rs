//! Any bytes as a core file and as an object that an assembler wrote: no panic, no stack without end, and
//! what is split can still be read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sframe::exercise::exercise(data));
