//! Any bytes as `.eh_frame` through derivation.

#![no_main]

use sframe_format::Abi;
use sframe_format::derive::{CfiReader, derive};
use sframe_format::write::Options;

// The first byte chooses the ABI, the rest is `.eh_frame`.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((&abi, eh_frame)) = bytes.split_first() {
        let abi = Abi::from_byte(abi % 4 + 1).expect("1 to 4 are ABIs");
        let _ = derive(Options::new(abi), eh_frame, 0x1000, 0x2000);
        let mut reader = CfiReader::new(abi, eh_frame, 0x1000);
        for offset in reader.offsets() {
            let _ = (reader.read(offset).map(drop), reader.parts(offset));
        }
    }
});
