//! Runs the tests of `lit-tests/` with the linker of this build: `cargo test --test lit -- FILTER`.

#[allow(dead_code)] // The runner needs one of the commands.
#[path = "integration/support/built.rs"]
mod built;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    lit::main(&lit::Places {
        linker: env!("CARGO_BIN_EXE_sframe-ld").into(),
        sframe: built::sframe().into(),
        tests: root.join("lit-tests"),
        scratch: env!("CARGO_TARGET_TMPDIR").into(),
        peers: root.join("target/peers"),
    })
}
