//! The reducer edits the bytes as an object or an archive. There must be no panic, and an object that it read
//! and wrote must be the same when it is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ld_compare::reduce::exercise::exercise(data));
