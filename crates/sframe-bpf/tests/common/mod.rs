//! Compiles the C code of the kernel's program for this machine. If the compiler has sanitizers, they end a
//! test that accesses anything outside the tables and the stack.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most loads of a look-up, by the bounds of the loops in `compact.h`: regions and entries by bisection,
/// the numbers of a shape (at most 4 bytes each), and its rows.
pub const MAX_LOADS: u64 = {
    let (region, page, entry) = (32 + 3, 4, 17 + 2);
    let (shape, rows, rule) = (4 + 4 * 4, 65 * (1 + 2 * 4), 1);
    region + page + entry + shape + rows + rule
};

/// Compiles `tests/NAME.c`.
pub fn compile(folder: &Path, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(name);
    let compile = |options: &[&str]| {
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root.join("../../examples/bpf"));
        compiler.args(options).arg("-o").arg(&program).arg(root.join(format!("tests/{name}.c")));
        compiler.output().unwrap()
    };
    if !compile(&["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]).status.success() {
        let output = compile(&[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    program
}

/// The words that a program writes for an input.
pub fn run(program: &Path, input: Vec<u8>) -> Vec<u64> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || to.write_all(&input));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    writer.join().unwrap().unwrap();
    output.stdout.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// A small random generator (splitmix64), so that every run has the same inputs.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit as u64) as usize
    }
}
