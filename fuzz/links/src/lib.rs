//! Whole links made of a fuzzer's bytes.
//!
//! A few bytes describe a link: objects with sections, groups, relocations and symbols ([`object`]), libraries, archives,
//! scripts ([`script`]), options ([`options`]), and damage that is done to the files once they are valid. So a fuzzer reaches
//! passes behind the readers, which refuse nearly all bytes that no assembler wrote. Two things are demanded of each link
//! beside an orderly end: any number of threads gives the same output and the same messages, and readelf has no complaint of
//! an output whose inputs were valid.

mod description;
mod object;
mod options;
mod run;
mod script;
mod sections;

pub use description::Link;
pub use run::{Linked, lift_limit, link};

/// Makes the link that `bytes` describe, with one thread and with three.
///
/// # Panics
/// The outputs or the messages differ, or the linker panics.
pub fn exercise(bytes: &[u8]) {
    let Ok(described) = Link::described(bytes) else { return };
    let (one, three) = (link(&described, 1), link(&described, 3));
    assert_eq!(one.messages, three.messages, "three threads have other messages than one");
    assert!(one.output == three.output, "three threads make another output than one");
}
