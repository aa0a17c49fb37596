//! Sections that hold more than one blob of a known version: several blobs, unknown versions, units, junk.

use super::super::blob::{self, Edition, blob};
use super::super::case::{Case, Source};
use super::super::linked::survives;
use super::common::{OLD, Placed, in_order, looks, read, shows, shows_nothing, shows_one, tells};
use super::files::{FRAMES, Place, with_sections};
use sframe_format::write::{Encoder, Function, Options};

const SEVERAL: Source = Source::Proposal("SFrame rule 9: a section holds one blob or several");
const UNKNOWN: Source =
    Source::Proposal("SFrame rule 9: a reader passes over what it cannot read, and reports it");
const UNITS: Source = Source::Proposal("the light linking form (LIGHT.md)");

/// One blob for each function, at multiples of 8, with its start field filled.
fn blobs(place: Place, placed: &Placed, editions: &[Edition]) -> Vec<Vec<u8>> {
    let mut at = FRAMES;
    let mut found = Vec::new();
    for ((address, function), edition) in placed.iter().zip(editions) {
        let mut bytes =
            blob(place.abi, *edition, std::slice::from_ref(function)).placed(at, &[*address]).bytes;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        at += bytes.len() as u64;
        found.push(bytes);
    }
    found
}

fn three(place: Place) -> Placed {
    in_order(&["first", "second", "third"].map(|name| blob::function(place.abi, name)))
}

pub fn cases(place: Place) -> Vec<Case> {
    let mut cases = several(place);
    cases.extend(unknown(place));
    cases.extend(units(place));
    cases
}

fn several(place: Place) -> Vec<Case> {
    let placed = three(place);
    let case = |family: &str, about: &str, editions: [Edition; 3]| {
        let bytes = blobs(place, &placed, &editions).concat();
        read(place, family, about, &bytes)
            .facts([survives(SEVERAL), shows(place.abi, placed.clone(), SEVERAL)])
    };
    let one = blobs(place, &placed, &[Edition::V3; 3]);
    let zeros = [&one[0][..], &[0; 64], &fixed(place, &placed[1], one[0].len() + 64)].concat();
    let two: Placed = placed[..2].to_vec();
    let first = &one[0];
    let second = fixed(place, &placed[1], first.len());
    let both = with_sections(place, &[(".sframe", first), (".sframe", &second)]);
    let mut sections = read(place, "walks/two-sections", "two sections of the name .sframe", &[])
        .facts([survives(SEVERAL), shows(place.abi, two.clone(), SEVERAL)]);
    sections.files[0].1 = both;
    vec![
        case("walks/three-blobs", "three blobs of version 3 in one section", [Edition::V3; 3]),
        case("walks/v2-then-v3", "blobs of versions 2 and 3", [Edition::V2, Edition::V3, Edition::V2]),
        read(place, "walks/zeros-between", "64 zeros between two blobs", &zeros)
            .facts([survives(SEVERAL), shows(place.abi, two, SEVERAL)]),
        sections,
    ]
}

/// A function's blob of version 3 for an offset in the section.
fn fixed(place: Place, function: &(u64, Function), offset: usize) -> Vec<u8> {
    let section = FRAMES + offset as u64;
    blob(place.abi, Edition::V3, std::slice::from_ref(&function.1)).placed(section, &[function.0]).bytes
}

fn unknown(place: Place) -> Vec<Case> {
    let placed = three(place);
    let mut parts = blobs(place, &placed, &[Edition::V3; 3]);
    parts[1][2] = 9;
    let between = parts.concat();
    let alone = parts[1].clone();
    let mut junk = blobs(place, &placed, &[Edition::V3; 3]);
    junk[1].fill(0x5a);
    let junk = junk.concat();
    let outer: Placed = [0, 2].map(|row: usize| placed[row].clone()).to_vec();
    let shows_outer = || {
        let outer = outer.clone();
        looks("shows-the-others", "the blobs before and behind it are shown", UNKNOWN, move |dump| {
            outer.iter().try_for_each(|(address, function)| shows_one(place.abi, dump, *address, function))
        })
        .on(place.abi)
    };
    let case = |family: &str, about: &str, bytes: &[u8]| {
        read(place, family, about, bytes).facts([survives(UNKNOWN), tells(place.abi, UNKNOWN)])
    };
    vec![
        case("walks/unknown-alone", "only a blob of version 9", &alone)
            .facts([shows_nothing(place.abi, UNKNOWN)]),
        case("walks/unknown-between", "a blob of version 9 between two of version 3", &between)
            .facts([shows_outer()]),
        case("walks/junk-between", "junk between two blobs", &junk).facts([shows_outer()]),
        case("walks/junk-alone", "no blob at all", &[0x5a; 64]).facts([shows_nothing(place.abi, UNKNOWN)]),
        old_and_junk(place),
    ]
}

/// Junk behind a blob of version 2.
fn old_and_junk(place: Place) -> Case {
    let placed: Placed = three(place)[..1].to_vec();
    let mut bytes = blobs(place, &placed, &[Edition::V2]).concat();
    bytes.extend([0x5a; 16]);
    let first = placed[0].clone();
    read(place, "walks/junk-behind-v2", "a blob of version 2, then junk", &bytes).facts([
        survives(OLD),
        looks("shows-the-others", "the blob before it is shown", OLD, move |dump| {
            shows_one(place.abi, dump, first.0, &first.1)
        })
        .on(place.abi),
        tells(place.abi, UNKNOWN),
    ])
}

/// Units in a section of their own.
fn units(place: Place) -> Vec<Case> {
    let placed = three(place);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(Options::new(place.abi).share(false));
    let ids: Vec<_> = placed.iter().filter_map(|(_, function)| encoder.add(function).ok()).collect();
    let fields = encoder.write_unit(&ids, &mut bytes).unwrap_or_default();
    for (field, (address, _)) in fields.iter().zip(&placed) {
        let at = *field as usize;
        let value = address.wrapping_sub(FRAMES + u64::from(*field));
        let value = match place.abi.endian() {
            sframe_format::Endian::Little => value.to_le_bytes(),
            sframe_format::Endian::Big => value.to_be_bytes(),
        };
        bytes[at..at + 8].copy_from_slice(&value);
    }
    let mut case = read(place, "walks/units", "a section of units beside an empty .sframe", &[])
        .facts([survives(UNITS), shows(place.abi, placed, UNITS)]);
    case.files[0].1 = with_sections(place, &[(".sframe_light", &bytes)]);
    vec![case]
}
