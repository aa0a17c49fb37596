//! Tests links from random bytes, without a fuzzer; links that the fuzzer kept, unchanged and changed; and
//! objects that it kept for the reducer, because the same crate serves both.
//!
//! `SFRAME_RANDOM_LINKS` sets the number of links, `SFRAME_RANDOM_LINKS_FROM` the first one.

use ld_compare::random::rng::Rng;
use ld_compare::reduce;
use link_fuzz::{Link, complaints, exercise, exercise_debug, link};
use object::read::elf::ElfFile64;
use object::{Endianness, elf};
use std::collections::BTreeMap;
use std::path::Path;

/// The most bytes of a description.
const LONGEST: usize = 1200;

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

/// Runs a check on all descriptions. It fails with the numbers of those that fail.
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

/// Takes more threads than [`exercise`] does, and more than any of these links has work for.
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

/// A few hundred descriptions must contain each form of input.
#[test]
fn descriptions_have_every_form_of_input() {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for number in 0..400 {
        let Ok(described) = Link::described(&description(number)) else { continue };
        let mut note = |what, is: bool| *seen.entry(what).or_default() += u32::from(is);
        let starts = |magic: &[u8]| described.files.iter().any(|file| file.bytes.starts_with(magic));
        note("a thin archive", starts(b"!<thin>\n"));
        note("an archive with an index", starts(b"!<arch>\n/ "));
        note("a damaged library", !described.library_damage.is_empty());
        for bytes in described.objects() {
            let Ok(file) = ElfFile64::<Endianness>::parse(&*bytes) else { continue };
            let headers = file
                .elf_section_table()
                .iter()
                .map(|header| (header.sh_type.get(file.endian()), header.sh_flags.get(file.endian())));
            let headers: Vec<_> = headers.collect();
            note("compact relocations", headers.iter().any(|(kind, _)| *kind == 0x4000_0014));
            let compressed = u64::from(elf::SHF_COMPRESSED);
            note("compressed sections", headers.iter().any(|(_, flags)| flags & compressed != 0));
            note("groups", headers.iter().filter(|(kind, _)| *kind == elf::SHT_GROUP).count() > 1);
        }
    }
    assert!(seen.values().all(|&count| count > 0), "{seen:?}");
}

/// The inputs of a target that the fuzzer found worth keeping, by name.
fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        paths.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect();
    assert!(all.len() > 20, "the corpus of {target} is gone");
    all.sort();
    all
}

/// The bytes with up to three of them changed, and now and then cut short.
fn changed(numbers: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..=numbers.below(3) {
        if !changed.is_empty() {
            let at = numbers.below(changed.len());
            changed[at] = numbers.number() as u8;
        }
    }
    if numbers.one_in(8) {
        changed.truncate(numbers.below(changed.len() + 1));
    }
    changed
}

#[test]
fn kept_descriptions_are_linked_or_refused() {
    let mut numbers = Rng::new(0);
    for (_, bytes) in kept("link") {
        exercise(&bytes);
        exercise(&changed(&mut numbers, &bytes));
    }
}

#[test]
fn kept_debug_information_is_indexed_or_refused() {
    kept("debug").iter().for_each(|(_, bytes)| exercise_debug(bytes));
}

/// Each number of a section with debug information may become another; see `debug`.
#[test]
fn damaged_debug_information_is_indexed_or_refused() {
    on_all(exercise_debug);
}

#[test]
fn kept_objects_are_reduced_or_refused() {
    let mut numbers = Rng::new(0);
    for (_, bytes) in kept("reduce") {
        reduce::exercise::exercise(&bytes);
        (0..100).for_each(|_| reduce::exercise::exercise(&changed(&mut numbers, &bytes)));
    }
}

/// Makes the links of these descriptions. readelf must have no complaint about an output of valid inputs.
#[track_caller]
fn readelf_reads(descriptions: impl Iterator<Item = (String, Vec<u8>)>) {
    let readelf = complaints::readelf().expect("a readelf");
    let (mut made, mut failed) = (0, Vec::new());
    for (name, bytes) in descriptions {
        let Ok(described) = Link::described(&bytes) else { continue };
        if described.damaged {
            continue;
        }
        let Some(output) = link(&described, 2).output else { continue };
        let Some(found) = complaints::of_output(&described, &output, readelf) else { continue };
        made += 1;
        if !found.is_empty() {
            println!("{name}: {}: {found}", described.command_lines().join("; "));
            failed.push(name);
        }
    }
    println!("{made} outputs");
    assert!(failed.is_empty(), "descriptions {failed:?}");
    assert!(made > 0, "no link succeeded");
}

/// readelf must have no complaint about an output of valid inputs.
#[test]
fn readelf_reads_what_is_made_of_valid_objects() {
    readelf_reads(numbers().map(|number| (number.to_string(), description(number))));
}

#[test]
fn readelf_reads_what_is_made_of_kept_descriptions() {
    readelf_reads(kept("link").into_iter());
}
