//! An index over blobs that stay as they are takes each blob as a whole or not at all.

use pretty_assertions::assert_eq;
use sframe_format::write::{Function, Options, Overlaid, overlay_size, takes, write_overlay, write_sorted};
use sframe_format::{Abi, Blob, CfaRule, ErrorKind, Frame, Location, RegisterRule, Row, Rules, Section};

const ADDRESS: u64 = 0x40_0000;
/// For three functions.
const ROOM: usize = overlay_size(3).next_multiple_of(8);

fn rules() -> Rules {
    Rules::Frame(Frame {
        cfa: CfaRule::register(7, 8),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Unchanged,
        mangled: false,
    })
}

/// A function of 16 bytes.
fn function(repeat_size: Option<u8>) -> Function {
    let rows = vec![Row { start: 0, rules: rules() }];
    Function { size: 16, repeat_size, rows, ..Function::default() }
}

fn append(section: &mut Vec<u8>, functions: &[(u64, Function)]) {
    let address = ADDRESS + section.len() as u64;
    section.extend(write_sorted(Options::new(Abi::Amd64), address, functions).unwrap().bytes);
    section.resize(section.len().next_multiple_of(8), 0);
}

/// Room for an index, a blob with one function, and a blob with two.
fn section() -> Vec<u8> {
    let mut section = vec![0; ROOM];
    append(&mut section, &[(0x1000, function(None))]);
    append(&mut section, &[(0x2000, function(None)), (0x2010, function(Some(8)))]);
    section
}

/// Writes the index. Returns the counts of what it covers, and whether a reader of the index finds each of
/// the three functions.
fn index(mut section: Vec<u8>) -> (Overlaid, [bool; 3]) {
    let found = write_overlay(Options::new(Abi::Amd64), &mut section, ADDRESS, ROOM).unwrap();
    let blob = Blob::parse(&section, ADDRESS).unwrap();
    let rules_at = |address| blob.lookup(address).unwrap().map(|found| found.row.rules);
    (found, [0x1008, 0x2008, 0x2018].map(|address| rules_at(address) == Some(rules())))
}

#[test]
fn sound_blobs_are_taken() {
    let expected = Overlaid { functions: 3, blobs: 2, others: 0 };
    assert_eq!(index(section()), (expected, [true; 3]));
}

#[test]
fn nothing_of_a_corrupt_blob_is_taken() {
    let sound = section();
    let blob = Section::new(&sound[ROOM..], 0).blobs().nth(1).unwrap();
    let start = ROOM + blob.offset();
    let fde = start + blob.header().fde_position(0).unwrap();
    let attribute = |index| {
        let in_area = blob.fde(index).unwrap().fre_offset as usize;
        start + blob.header().fre_area().start + in_area
    };
    let damages = [
        ("the header counts other rows", start + 12, 9),
        ("the rows of a function are elsewhere", fde + 15, 0xff),
        ("an attribute has reserved bits", attribute(0) + 2, 0x40),
        ("a repetition block has no bytes", attribute(1) + 4, 0),
        ("a row has words of no known size", attribute(0) + 6, 0x63),
    ];
    for (what, at, value) in damages {
        let mut damaged = sound.clone();
        damaged[at] = value;
        let taken = Section::new(&damaged[ROOM..], 0).blobs();
        let taken: Vec<bool> = taken.map(|blob| takes(Options::new(Abi::Amd64), &blob)).collect();
        assert_eq!(taken, [true, false], "{what}");
        let expected = Overlaid { functions: 1, blobs: 1, others: 1 };
        assert_eq!(index(damaged), (expected, [true, false, false]), "{what}");
    }
}

#[test]
fn too_little_room_is_an_error_and_changes_nothing() {
    let options = Options::new(Abi::Amd64);
    let whole = section();
    for (length, room) in [(whole.len(), ROOM - 16), (ROOM / 2, ROOM), (0, 1)] {
        let mut section = whole[..length].to_vec();
        let error = write_overlay(options, &mut section, ADDRESS, room).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Truncated { .. }), "{error:?}");
        assert!(section == whole[..length]);
    }
}
