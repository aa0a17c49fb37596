//! Any text as a linker script, an MRI script, a version script and each other kind of list: no panic, no
//! glob or nesting that takes more than its length accounts for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| linker_script::exercise::exercise(data));
