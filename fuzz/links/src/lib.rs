//! Whole links made of a fuzzer's bytes.
//!
//! A few bytes describe a link: objects with sections, groups, relocations and symbols ([`object`],
//! [`more`]), libraries, archives, scripts ([`script`]), options ([`options`]), and damage that is done to
//! the files once they are valid ([`damage`]). So a fuzzer reaches passes behind the readers, which refuse
//! nearly all bytes that no assembler wrote. Two things are demanded of each link beside an orderly end: any
//! number of threads gives the same output and the same messages, and readelf has no complaint of an output
//! whose inputs were valid ([`complaints`]).

mod archives;
mod compact;
pub mod complaints;
mod damage;
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

/// One link in so many has its output read by readelf, which takes longer than the link.
const READ: u64 = 256;
/// One link in so many is made with eight threads in place of three.
const MANY_THREADS: u64 = 4;

/// Makes the link that `bytes` describe with one thread and with three or eight, and shows some of the
/// outputs to readelf.
///
/// The order in which jobs run is varied by the number of threads alone: rayon is the only scheduler, has no
/// seed, and lets threads steal jobs as they happen to be idle. One thread runs the jobs in a fixed order;
/// among eight, more than there are processors or jobs for, most jobs are stolen.
///
/// # Panics
/// The outputs or the messages differ, readelf complains of an output of valid inputs, or the linker panics.
pub fn exercise(bytes: &[u8]) {
    let Ok(described) = Link::described(bytes) else { return };
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let sample = hasher.finish();
    let threads = if sample.is_multiple_of(MANY_THREADS) { 8 } else { 3 };
    let (one, more) = (link(&described, 1), link(&described, threads));
    assert_eq!(one.messages, more.messages, "{threads} threads have other messages than one");
    assert!(one.output == more.output, "{threads} threads make another output than one");
    if let Some(output) = one.output.filter(|_| sample.is_multiple_of(READ))
        && let Some(readelf) = complaints::readelf()
    {
        let found = complaints::of_output(&described, &output, readelf);
        assert_eq!(found.unwrap_or_default(), "", "readelf complains of an output of valid inputs");
    }
}
