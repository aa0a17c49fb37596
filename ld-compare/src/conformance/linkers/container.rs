//! The output section, and the segment that leads to it.

use super::super::case::Case;
use super::super::linked::{
    aligned, has_type, is_loaded, one_blob_or_unsorted, segment, segment_is_loaded, sorted_is_true,
};
use super::common::{a, b, link};
use crate::machine::Machine;

pub fn cases(machine: Machine) -> Vec<Case> {
    let two = |family: &str, about: &str, options: &str| {
        link(machine, family, about)
            .file("a.o", a(machine, |frames| frames))
            .file("b.o", b(machine, |frames| frames))
            .step(&format!("{options} a.o b.o"), "out")
    };
    let mut cases = vec![
        two("container/type", "two objects", "").facts([has_type()]),
        two("container/loaded", "two objects", "").facts([is_loaded()]),
        two("container/aligned", "two objects", "").facts([aligned()]),
        two("container/sorted", "two objects", "").facts([sorted_is_true()]),
        two("container/one-blob-or-unsorted", "two objects", "").facts([one_blob_or_unsorted()]),
    ];
    let outputs =
        [("executable", ""), ("pie", "-pie"), ("shared", "-shared"), ("static-pie", "-static -pie")];
    for (name, options) in outputs {
        let case = two(&format!("container/segment-{name}"), "two objects, and the program header", options);
        let case = if options.is_empty() { case } else { case.needs(options) };
        cases.push(case.facts([segment(), segment_is_loaded()]));
    }
    let one = |family: &str, options: &str| {
        link(machine, family, "one object: PT_GNU_SFRAME has the size of the only input")
            .file("a.o", a(machine, |frames| frames))
            .step(&format!("{options} a.o"), "out")
            .facts([segment()])
    };
    cases.push(one("container/segment-one-input", ""));
    cases.push(one("container/segment-gc", "--gc-sections").needs("--gc-sections"));
    cases
}
