//! Makes whole links from a fuzzer's bytes.
//!
//! A reader refuses nearly all bytes that no assembler wrote, so random bytes never reach the passes after
//! it. Here, a few bytes describe a valid link: objects with sections, groups, relocations and symbols
//! ([`object`], [`more`]), libraries, archives, scripts ([`script`]), options ([`options`]), and damage to
//! the valid files ([`damage`]). So a fuzzer reaches all passes. Debug information and the indexes of it have
//! links of their own ([`debug`]).
//!
//! Each link must end without a panic. With any number of threads, it must give the same output and the same
//! messages. And readelf must have no complaint about an output of valid inputs ([`complaints`]).

#![allow(missing_docs, reason = "fields whose type and name say all have no comment")]

mod archives;
mod compact;
pub mod complaints;
mod damage;
mod debug;
mod description;
mod file;
mod frames;
mod more;
mod object;
mod options;
mod packed;
mod run;
mod script;
mod sections;

pub use description::Link;
pub use run::{Linked, library, lift_limit, link};
use std::hash::{DefaultHasher, Hash, Hasher};

/// readelf reads the output of one link in this many, because it takes longer than the link.
const READ: u64 = 256;
/// One link in this many is made with eight threads instead of three.
const MANY_THREADS: u64 = 4;

/// Makes the link that `bytes` describe with one thread, and with three or eight. Shows some of the outputs
/// to readelf.
///
/// Only the number of threads varies the order of jobs: rayon is the only scheduler, has no seed, and lets
/// idle threads steal jobs. One thread runs the jobs in a fixed order. Eight threads are more than there are
/// processors or jobs for, so they steal most jobs.
///
/// # Panics
/// The outputs or the messages differ, readelf complains about an output of valid inputs, or the linker
/// panics.
pub fn exercise(bytes: &[u8]) {
    if let Ok(described) = Link::described(bytes) {
        made(&described, bytes);
    }
}

/// Makes the link with an index of debug information that `bytes` describe, as [`exercise`] makes others.
///
/// # Panics
/// The outputs or the messages differ, or the linker panics.
pub fn exercise_debug(bytes: &[u8]) {
    if let Ok(described) = debug::described(bytes) {
        made(&described, bytes);
    }
}

/// Makes a link with several numbers of threads, and compares.
fn made(described: &Link, bytes: &[u8]) {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let sample = hasher.finish();
    let threads = if sample.is_multiple_of(MANY_THREADS) { 8 } else { 3 };
    let (one, more) = (link(described, 1), link(described, threads));
    assert_eq!(one.messages, more.messages, "{threads} threads have other messages than one");
    assert!(one.output == more.output, "{threads} threads make another output than one");
    if let Some(output) = one.output.filter(|_| sample.is_multiple_of(READ))
        && let Some(readelf) = complaints::readelf()
    {
        let found = complaints::of_output(described, &output, readelf);
        assert_eq!(found.unwrap_or_default(), "", "readelf complains of an output of valid inputs");
    }
}
