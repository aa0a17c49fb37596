//! The tests of `lit-tests/`, with this build's linker: `cargo test --test lit -- FILTER`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    lit::main(&lit::Places {
        linker: env!("CARGO_BIN_EXE_sframe-ld").into(),
        sframe: env!("CARGO_BIN_EXE_sframe").into(),
        tests: root.join("lit-tests"),
        scratch: env!("CARGO_TARGET_TMPDIR").into(),
        peers: root.join("target/peers"),
    })
}
