//! Runs the commands in the pages of `docs/`, as the pages have them, for each kind of reader.
//!
//! Blocks marked `sh` run in order, in the same folder, in a shell that stops at the first failure. A block
//! marked `sh fails` must fail. Each line of a block marked `text` must be in the output of the block before
//! it.

use crate::need;
use crate::support::{Work, built, tools, work};
use std::os::unix::fs::symlink;
use std::path::Path;

/// A block of commands.
struct Block {
    commands: String,
    fails: bool,
    /// Lines of its output, without spaces around them.
    expected: Vec<String>,
}

/// The blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for part in page.split("\n```").skip(1).step_by(2) {
        let (kind, text) = part.split_once('\n').expect("a block has lines");
        match kind {
            "sh" | "sh fails" => {
                blocks.push(Block { commands: text.into(), fails: kind != "sh", expected: Vec::new() });
            }
            "text" => {
                let block = blocks.last_mut().expect("commands stand before their output");
                block.expected = text.lines().map(|line| line.trim().to_owned()).collect();
            }
            other => panic!("a block marked {other:?}"),
        }
    }
    blocks
}

/// Lays out the programs like an installation, with an assembler that emits V3, and runs a page.
fn run(page: &str, assembler: &Path, harness: Option<&str>) {
    let mut work = Work::new();
    let programs = work.path("prefix/bin");
    std::fs::create_dir_all(&programs).unwrap();
    let own =
        [("sframe-ld", work::linker()), ("sframe", built::sframe().into()), ("as", assembler.to_owned())];
    for (name, program) in own.into_iter().chain(harness.map(|program| ("ld-compare", program.into()))) {
        symlink(program, programs.join(name)).unwrap();
    }
    let folders = work.path("prefix/libexec");
    std::fs::create_dir_all(folders.join("sframe-as")).unwrap();
    symlink(built::sframe_as(), folders.join("sframe-as/as")).unwrap();
    symlink(work::linker_directory(), folders.join("sframe-ld")).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    work.env("PATH", &format!("{}:{path}", programs.display()));
    work.env("PREFIX", &work.path("prefix").display().to_string());
    work.env("DOCS", env!("CARGO_MANIFEST_DIR"));
    work.env("SFRAME_REAL_AS", &assembler.display().to_string());
    let blocks = blocks(page);
    assert!(!blocks.is_empty());
    for block in blocks {
        let outcome = work.command("bash", &["-ec", &block.commands]);
        let outcome = if block.fails { outcome.fails() } else { outcome.ok() };
        for line in block.expected {
            assert!(outcome.output().contains(&line), "{line:?} is missing: {outcome}");
        }
    }
}

#[test]
fn the_page_on_frames_for_each_text_section_works() {
    need!(tools::own_linker());
    let assembler = need!(tools::assembler(3));
    run(include_str!("../../docs/try-frames.md"), &assembler, None);
}

#[test]
fn the_page_on_kernels_works() {
    need!(tools::own_linker());
    let assembler = need!(tools::assembler(3));
    run(include_str!("../../docs/kernels.md"), &assembler, None);
}

#[test]
fn the_page_on_comparing_linkers_works() {
    need!(tools::own_linker());
    let assembler = need!(tools::assembler(3));
    run(include_str!("../../docs/compare-linkers.md"), &assembler, Some(built::ld_compare()));
}

#[test]
fn the_page_on_reporting_a_violation_works() {
    need!(tools::own_linker());
    let assembler = need!(tools::assembler(3));
    run(include_str!("../../docs/report-a-violation.md"), &assembler, Some(built::ld_compare()));
}

#[test]
fn the_page_on_profiles_works() {
    need!(tools::own_linker());
    let assembler = need!(tools::assembler(3));
    let asked = Work::new().command(built::sframe(), &["record", "-o", "none", "--", "true"]);
    let refused = ["does not allow", "takes no samples"].iter().any(|reason| asked.stderr.contains(reason));
    if !(asked.code == Some(2) && refused) {
        run(include_str!("../../docs/profile.md"), &assembler, None);
    }
}
