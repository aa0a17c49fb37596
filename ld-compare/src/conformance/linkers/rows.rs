//! Every kind of function and row: a linker must keep what it need not understand.

use super::super::blob::{Edition, abi, blob, entry_offset, rules};
use super::super::case::{Case, Source};
use super::super::linked::{described, links, look, sound};
use super::super::program::{File, Frames};
use super::super::shapes::{Shape, shapes};
use super::common::{link, of_edition};
use crate::machine::Machine;
use sframe_format::write::Function;
use sframe_format::{Row, Section};

pub fn cases(machine: Machine) -> Vec<Case> {
    let mut cases = Vec::new();
    for edition in [Edition::V2, Edition::V3] {
        for shape in shapes(abi(machine)).into_iter().filter(|shape| shape.fits(edition)) {
            cases.push(one(machine, edition, &shape));
        }
    }
    cases.push(without_rows(machine));
    cases.push(empty_function(machine));
    cases
}

/// A function of a shape, between two ordinary ones, so that misplaced rows show.
fn one(machine: Machine, edition: Edition, shape: &Shape) -> Case {
    let abi = abi(machine);
    let names = ["first", "_start", "second"];
    let function = |name: &str| super::super::blob::function(abi, name);
    let functions = [function("first"), shape.function.clone(), function("second")];
    let file = names
        .iter()
        .zip(&functions)
        .fold(File::new(machine), |file, (name, function)| file.function_with(name, function.clone()));
    let bytes = blob(abi, edition, &functions);
    let expected: Vec<_> =
        names.iter().zip(&functions).map(|(name, f)| ((*name).to_owned(), f.clone())).collect();
    let facts = vec![links(), described(expected).by(Source::Sframe(shape.place)), sound()];
    link(machine, &format!("rows/{}-{}", shape.name, edition.name()), shape.about)
        .file("a.o", file.frames(Frames::of(&names).edition(edition).bytes(bytes)).write())
        .step("a.o", "out")
        .facts(of_edition(edition, facts))
}

/// A function without rows: version 3 says that its callers are unknown.
fn without_rows(machine: Machine) -> Case {
    let abi = abi(machine);
    let plain = super::super::blob::function(abi, "_start");
    let mut bytes = blob(abi, Edition::V3, &[plain.clone(), super::super::blob::function(abi, "first")]);
    // The second function's attribute follows the first one's rows; its first two bytes are the count.
    let header = sframe_format::Header::parse(&bytes.bytes).expect("a sound blob");
    let parsed = sframe_format::Blob::parse(&bytes.bytes, 0).expect("a sound blob");
    let fde = parsed.fde(1).expect("two functions");
    let at = header.fre_area().start + fde.fre_offset as usize;
    bytes.bytes.truncate(at + 5);
    bytes.bytes[at..at + 5].fill(0);
    let mut header = header;
    (header.fre_count, header.fre_length) = (plain.rows.len() as u32, fde.fre_offset + 5);
    bytes.bytes[..28].copy_from_slice(&header.to_bytes());
    let file = File::new(machine).function("_start").function("first");
    let source = Source::Sframe("Function Descriptor Entries: no rows mean that the stack ends there (V3)");
    link(machine, "rows/no-rows-v3", "a function without rows behind an ordinary one")
        .file("a.o", file.frames(Frames::of(&["_start", "first"]).bytes(bytes)).write())
        .step("a.o", "out")
        .facts([
            links(),
            described(vec![("_start".into(), plain)]),
            look("no-rows", "the function is there, without rows", source, |linked, _| {
                let address = linked.address("first").ok_or("first is not in the output")?;
                for section in linked.sections() {
                    for blob in Section::new(section.data, section.address).blobs() {
                        let found = blob.fdes().find(|fde| fde.address == address && fde.size > 0);
                        let Some(fde) = found else { continue };
                        let attributes = blob.attributes(&fde).map_err(|error| error.to_string())?;
                        return match attributes.fre_count {
                            0 => Ok(()),
                            rows => Err(format!("it has {rows} rows")),
                        };
                    }
                }
                Err("it is not described".into())
            }),
        ])
}

/// A function without bytes that starts where the next one does.
fn empty_function(machine: Machine) -> Case {
    let abi = abi(machine);
    let rules = rules(abi, abi.stack_pointer(), entry_offset(abi), false);
    let empty = Function { size: 4, rows: vec![Row { start: 0, rules }], ..Function::default() };
    let first = super::super::blob::function(abi, "_start");
    let mut bytes = blob(abi, Edition::V3, &[empty, first.clone()]);
    // The writer has no functions without bytes, but GNU as writes them. The size follows the start field.
    let size = bytes.fields[0] as usize + 8;
    bytes.bytes[size..size + 4].fill(0);
    // Both entries refer to the same function: the empty one is in front of it.
    let file = File::new(machine).function("_start");
    let source = Source::Sframe("Function Descriptor Entries: a size of 0 covers no address");
    link(machine, "rows/empty-function", "an entry of size 0 at the address of the next function")
        .file("a.o", file.frames(Frames::of(&["_start", "_start"]).bytes(bytes)).write())
        .step("a.o", "out")
        .facts([links(), described(vec![("_start".into(), first)]).by(source)])
}
