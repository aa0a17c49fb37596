//! Whole links that the bytes describe: no panic, and the same outputs and messages with any number of
//! threads.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    link_fuzz::exercise(data);
    link_fuzz::lift_limit();
});
