//! Runs the fuzzed readers on files, undamaged and damaged. Any result is right, as long as no reader panics.
//! The files are the fixtures, and the inputs that fuzzing found worth keeping. Whole links and the reducer's
//! inputs go through the tests of `fuzz/links`, recordings through those of `crates/stacks`.

use linker_script as script;
use linker_script::builtin::Layout;
use sframe_ld::input;
use std::path::Path;

/// Chooses the damage; the choices are the same in every run.
struct Damage(u64);

impl Damage {
    fn new() -> Self {
        Damage(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// The bytes with one to four of them replaced, and now and then cut short.
    fn of(&mut self, original: &[u8]) -> Vec<u8> {
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = self.below(256) as u8;
            }
        }
        bytes.truncate(if self.below(4) == 0 { self.below(bytes.len()) } else { bytes.len() });
        bytes
    }

    /// The text with three of its bytes replaced by other bytes from it, so that much of it can still be
    /// read.
    fn of_text(&mut self, original: &[u8]) -> Vec<u8> {
        let mut bytes = original.to_vec();
        for _ in 0..if bytes.is_empty() { 0 } else { 3 } {
            let (at, from) = (self.below(bytes.len()), self.below(bytes.len()));
            bytes[at] = bytes[from];
        }
        bytes
    }
}

/// The files in a folder of the repository, by name; folders in it are left out.
fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(|path| std::fs::read(path).unwrap()).collect()
}

/// The ELF files among the SFrame fixtures.
fn fixtures() -> Vec<Vec<u8>> {
    let root = "tests/fixtures/sframe";
    let folders = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(root)).unwrap();
    let mut names: Vec<_> = folders.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let all = names.iter().map(|name| format!("{root}/{}", name.to_string_lossy()));
    let folders = all.filter(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join(path).is_dir());
    folders.flat_map(|path| files(&path)).filter(|bytes| bytes.starts_with(b"\x7fELF")).collect()
}

/// The inputs of a target that the fuzzer found worth keeping.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let kept = files(&format!("fuzz/corpus/{target}"));
    assert!(kept.len() > 20, "the corpus of {target} is gone");
    kept
}

#[test]
fn kept_inputs_are_read_or_refused() {
    let mut damage = Damage::new();
    for original in kept("object") {
        input::exercise(&original);
        (0..200).for_each(|_| input::exercise(&damage.of(&original)));
    }
}

#[test]
fn damaged_objects_are_read_or_refused() {
    let mut damage = Damage::new();
    for original in files("tests/fixtures/sframe/v3-gas2.47") {
        input::exercise(&original);
        (0..800).for_each(|_| input::exercise(&damage.of(&original)));
    }
}

#[test]
fn damaged_objects_are_split_or_refused() {
    let originals = fixtures();
    assert!(originals.len() > 20, "the fixtures are gone");
    let mut damage = Damage::new();
    for original in originals {
        sframe::exercise::exercise(&original);
        (0..20).for_each(|_| sframe::exercise::exercise(&damage.of(&original)));
    }
    for original in kept("tool") {
        sframe::exercise::exercise(&original);
        (0..20).for_each(|_| sframe::exercise::exercise(&damage.of(&original)));
    }
}

#[test]
fn damaged_scripts_are_read_or_refused() {
    let versions =
        "V1 { global: f; \"a b\"; extern \"C++\" { a::b*; \"a::b()\"; }; local: *; };\nV2 { [a-z]?*; } V1;\n";
    let mut damage = Damage::new();
    for text in Layout::ALL.map(Layout::text).into_iter().chain([versions, "a = b + (c ? 1K : ~2);"]) {
        script::exercise::exercise(text.as_bytes());
        (0..200).for_each(|_| script::exercise::exercise(&damage.of_text(text.as_bytes())));
    }
    for original in kept("script") {
        script::exercise::exercise(&original);
        (0..20).for_each(|_| script::exercise::exercise(&damage.of_text(&original)));
    }
}
