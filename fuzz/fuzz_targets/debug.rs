//! The bytes describe a link with an index of debug information that is damaged. There must be no panic, and
//! the outputs and messages must be the same with any number of threads.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    link_fuzz::exercise_debug(data);
    link_fuzz::lift_limit();
});
