//! Headers: every flag, every field, and blobs that are not what they say.

use super::super::blob::{self, Blob, Edition, blob};
use super::super::case::{Case, Source};
use super::super::linked::survives;
use super::common::{OLD, Placed, at_places, in_order, looks, read, shows, shows_nothing, shows_one, tells};
use super::files::Place;
use super::rows::of_edition;
use sframe_format::write::Function;

const FLAGS: Source = Source::Sframe("SFrame Flags");
const LENGTHS: Source = Source::Sframe("SFrame Header: lengths and offsets of the parts");
const ROBUST: Source = Source::Proposal("SFrame rule 10: a clear message, no crash");

fn three(place: Place) -> [Function; 3] {
    ["first", "second", "third"].map(|name| blob::function(place.abi, name))
}

pub fn cases(place: Place) -> Vec<Case> {
    let mut cases = flags(place);
    cases.extend(lengths(place));
    cases.extend(damaged(place));
    cases.extend(dead(place));
    cases
}

/// Flags that say something, and flags that say nothing.
fn flags(place: Place) -> Vec<Case> {
    let functions = three(place);
    let placed = in_order(&functions);
    let mut cases = Vec::new();
    let case = |family: &str, about: &str, edition: Edition, bits: u8| {
        let bytes = at_places(blob(place.abi, edition, &functions).with_flags(bits), &placed);
        let source = if edition == Edition::V3 { FLAGS } else { OLD };
        read(place, family, about, &bytes).facts([survives(source), shows(place.abi, placed.clone(), source)])
    };
    cases.push(case("flags/sorted-v3", "sorted functions, marked as sorted", Edition::V3, 1));
    cases.push(case("flags/sorted-v2", "sorted functions, marked as sorted", Edition::V2, 1));
    cases.push(case("flags/frame-pointer-v2", "the flag for frame pointers", Edition::V2, 2));
    let backwards: Placed = placed.iter().rev().cloned().collect();
    let turned: Vec<Function> = functions.iter().rev().cloned().collect();
    let bytes = at_places(blob(place.abi, Edition::V3, &turned), &backwards);
    cases.push(
        read(place, "flags/unsorted-v3", "functions that descend, and no mark", &bytes)
            .facts([survives(FLAGS), shows(place.abi, placed.clone(), FLAGS)]),
    );
    let bytes = at_places(blob(place.abi, Edition::V3, &functions), &placed);
    let reserved = {
        let mut bytes = bytes;
        bytes[3] |= 0x40;
        bytes
    };
    cases.push(
        read(place, "flags/reserved-v3", "a flag that version 3 does not define", &reserved)
            .facts([survives(ROBUST), tells(place.abi, ROBUST)]),
    );
    cases
}

/// Fields that say where the parts are.
fn lengths(place: Place) -> Vec<Case> {
    let functions = three(place);
    let placed = in_order(&functions);
    let case = |family: &str, about: &str, edition: Edition, with: fn(Blob) -> Blob| {
        let bytes = at_places(with(blob(place.abi, edition, &functions)), &placed);
        let source = of_edition(edition, "SFrame Header: lengths and offsets of the parts");
        read(place, family, about, &bytes).facts([survives(source), shows(place.abi, placed.clone(), source)])
    };
    let empty = blob(place.abi, Edition::V3, &[]).bytes;
    let equal = [blob::function(place.abi, "same"), blob::function(place.abi, "twin")];
    let equal_placed = in_order(&equal);
    let shared = at_places(blob::shared(place.abi, Edition::V3, &equal, true), &equal_placed);
    vec![
        case("lengths/auxiliary-header", "an auxiliary header of 4 bytes", Edition::V3, |blob| {
            blob.with_auxiliary(4)
        }),
        case("lengths/auxiliary-header-v2", "an auxiliary header of 4 bytes", Edition::V2, |blob| {
            blob.with_auxiliary(4)
        }),
        case("lengths/gaps", "unused bytes before entries and rows", Edition::V3, |blob| blob.with_gaps(8)),
        case("lengths/gaps-v2", "unused bytes before entries and rows", Edition::V2, |blob| {
            blob.with_gaps(8)
        }),
        case("lengths/trailing-zeros", "zeros behind the blob", Edition::V3, |blob| {
            let length = blob.bytes.len() + 8;
            blob.with_length(length)
        }),
        read(place, "lengths/no-functions", "a header alone", &empty)
            .facts([survives(LENGTHS), shows(place.abi, Vec::new(), LENGTHS)]),
        read(place, "lengths/shared-rows", "two functions whose entries name the same rows", &shared)
            .facts([survives(LENGTHS), shows(place.abi, equal_placed, LENGTHS)]),
    ]
}

/// Bytes that break the format.
fn damaged(place: Place) -> Vec<Case> {
    let functions = three(place);
    let placed = in_order(&functions);
    let bytes = at_places(blob(place.abi, Edition::V3, &functions), &placed);
    let length = bytes.len();
    let edit = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    // V3: a header of 28 bytes, three entries of 16, then the first function's attribute of 5.
    let (entry, attribute) = (28, 28 + 3 * 16);
    let other = if place.abi == sframe_format::Abi::Amd64 { 2 } else { 3 };
    let inputs = [
        ("magic", "the first byte is no magic number", edit(0, &[0])),
        ("abi-unknown", "the header names no machine", edit(4, &[99])),
        ("abi-other", "the header names another machine", edit(4, &[other])),
        ("cut-preamble", "three bytes", bytes[..3].to_vec()),
        ("cut-header", "the section ends in the header", bytes[..20].to_vec()),
        ("cut-entries", "the section ends in the second entry", bytes[..50].to_vec()),
        ("cut-rows", "the section ends in the rows", bytes[..length - 6].to_vec()),
        ("entry-count", "a count of entries that the section has no room for", edit(8, &[0xff; 4])),
        ("row-length", "a length of the rows that the section has no room for", edit(16, &[0xff; 4])),
        ("entry-offset", "entries far behind the section", edit(20, &[0x7f; 4])),
        ("row-offset", "rows far behind the section", edit(24, &[0x7f; 4])),
        ("function-rows", "a function whose rows lie outside", edit(entry + 12, &[0x7f; 4])),
        ("start-width", "a width of starts that does not exist", edit(attribute + 2, &[0x0f])),
        ("word-size", "a size of data words that does not exist", edit(attribute + 5 + 1, &[0x63])),
        ("row-order", "a row that starts before the one in front of it", edit(attribute + 5, &[0x7f])),
    ];
    let mut cases = Vec::new();
    for (name, about, bytes) in inputs {
        let case = read(place, &format!("damaged/{name}"), about, &bytes).facts([survives(ROBUST)]);
        // These bytes can be read, so a reader may show them as they are. To judge them is a verifier's task.
        let readable = ["abi-other", "row-order"].contains(&name);
        cases.push(if readable { case } else { case.facts([tells(place.abi, ROBUST)]) });
    }
    let mask = Function { repeat_size: Some(16), ..blob::function(place.abi, "first") };
    let placed = in_order(std::slice::from_ref(&mask));
    let mut bytes = at_places(
        blob(place.abi, Edition::V3, &[Function { rows: mask.rows[..2].to_vec(), ..mask }]),
        &placed,
    );
    // The attribute's last byte is the size of the block.
    bytes[28 + 16 + 4] = 0;
    cases.push(
        read(place, "damaged/repeat-size", "rows that repeat every 0 bytes", &bytes)
            .facts([survives(ROBUST)]),
    );
    cases
}

/// Functions that linkers left behind when text was discarded.
fn dead(place: Place) -> Vec<Case> {
    let functions = three(place);
    let placed = in_order(&functions);
    let bytes = at_places(blob(place.abi, Edition::V3, &functions), &placed);
    // The size follows the start in the second entry.
    let mut without_size = bytes;
    without_size[28 + 16 + 8..28 + 16 + 12].fill(0);
    let covers_nothing = Source::Sframe("Function Descriptor Entries: a size of 0 covers no address");
    let mut version_2 = at_places(blob(place.abi, Edition::V2, &functions), &placed);
    version_2[28 + 20 + 4..28 + 20 + 8].fill(0);
    let survivors = |source| {
        let others: Placed = [0, 2].map(|row: usize| placed[row].clone()).to_vec();
        looks("shows-the-others", "the functions beside it are shown", source, move |dump| {
            others.iter().try_for_each(|(address, function)| shows_one(place.abi, dump, *address, function))
        })
        .on(place.abi)
    };
    vec![
        read(
            place,
            "dead/rows-behind-the-end",
            "a function of size 0 that has rows, as dead rows of linkers",
            &without_size,
        )
        .facts([survives(covers_nothing), survivors(covers_nothing)]),
        read(place, "dead/rows-behind-the-end-v2", "the same in version 2", &version_2)
            .facts([survives(OLD), survivors(OLD)]),
        read(place, "dead/foreign-magic", "the magic number of the other byte order", &foreign(place))
            .facts([survives(ROBUST), tells(place.abi, ROBUST), shows_nothing(place.abi, ROBUST)]),
    ]
}

/// A blob of the other byte order.
fn foreign(place: Place) -> Vec<u8> {
    let mut bytes = blob(place.abi, Edition::V3, &[blob::function(place.abi, "first")]).bytes;
    bytes.swap(0, 1);
    bytes
}
