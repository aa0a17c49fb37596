//! Links made of random bytes, without a fuzzer; and those that the fuzzer kept.
//!
//! `SFRAME_RANDOM_LINKS` sets the number of links, `SFRAME_RANDOM_LINKS_FROM` the first.

use ld_compare::random::rng::Rng;
use link_fuzz::{Link, exercise, link};
use std::path::Path;
use std::process::Command;

/// Most bytes of a description.
const LONGEST: usize = 600;

/// The bytes of description `number`.
fn description(number: u64) -> Vec<u8> {
    let mut numbers = Rng::new(number);
    (0..numbers.below(LONGEST)).map(|_| numbers.number() as u8).collect()
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn numbers() -> std::ops::Range<u64> {
    let first = setting("SFRAME_RANDOM_LINKS_FROM", 0);
    first..first + setting("SFRAME_RANDOM_LINKS", 400)
}

/// Fails with all numbers whose links fail.
fn on_all(check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let failed: Vec<u64> = numbers()
        .filter(|&number| {
            let bytes = description(number);
            std::panic::catch_unwind(|| check(&bytes)).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "descriptions {failed:?}");
}

#[test]
fn any_number_of_threads_makes_the_same_of_random_links() {
    on_all(exercise);
}

/// Numbers of threads beyond those that [`exercise`] takes, more than any of these links has work for.
#[test]
fn many_threads_make_the_same_of_a_hundred_random_links() {
    for number in 0..100 {
        let Ok(described) = Link::described(&description(number)) else { continue };
        let one = link(&described, 1);
        for threads in [2, 8, 32] {
            let other = link(&described, threads);
            assert!(
                one.output == other.output,
                "description {number}: another output with {threads} threads"
            );
            assert_eq!(one.messages, other.messages, "description {number}, {threads} threads");
        }
    }
}

/// Whatever the fuzzer found worth keeping.
#[test]
fn kept_descriptions_are_linked_or_refused() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/link");
    let mut count = 0;
    for entry in std::fs::read_dir(kept).into_iter().flatten().flatten() {
        exercise(&std::fs::read(entry.path()).unwrap());
        count += 1;
    }
    println!("{count} descriptions");
}

/// What readelf complains of in a file.
fn complaints(path: &Path) -> String {
    let said = Command::new("readelf").args(["-aW", "--"]).arg(path).output().unwrap();
    String::from_utf8_lossy(&said.stderr).into_owned()
}

/// The complaint of an output whose inputs are all right; `None` where none was made.
fn complaint_of_output(described: &Link, folder: &Path) -> Option<String> {
    // A script may unite what readelf looks for, or leave headers out of all segments; a binary image is no ELF file.
    let is_other = |word: &String| word == "-T" || word == "--oformat=binary";
    if described.damaged || described.arguments.iter().any(is_other) {
        return None;
    }
    let bytes = link(described, 2).output?;
    let path = folder.join("output");
    std::fs::write(&path, bytes).unwrap();
    let found = complaints(&path);
    let is_of_input = || {
        described.objects().any(|bytes| {
            std::fs::write(&path, bytes).unwrap();
            !complaints(&path).is_empty()
        })
    };
    Some(if found.is_empty() || is_of_input() { String::new() } else { found })
}

/// An output of valid inputs is one that readelf has no complaint of.
#[test]
fn readelf_reads_what_is_made_of_valid_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (mut made, mut failed) = (0, Vec::new());
    for number in numbers() {
        let Ok(described) = Link::described(&description(number)) else { continue };
        let Some(found) = complaint_of_output(&described, folder.path()) else { continue };
        made += 1;
        if !found.is_empty() {
            println!("{number}: {}: {found}", described.command_lines().join("; "));
            failed.push(number);
        }
    }
    println!("{made} outputs");
    assert!(failed.is_empty(), "descriptions {failed:?}");
    assert!(made > 0, "no link succeeded");
}
