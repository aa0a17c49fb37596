//! Reads, edits and writes arbitrary bytes as the reducer does, for the fuzz target `reduce` and a test of
//! it.

use super::{archive, assembly};
use crate::machine::Machine;
use crate::model::Object;
use std::path::Path;

/// Reads `bytes` as an object and as an archive, and edits the object. Any result is right, as long as
/// nothing panics, and a written object can be read again and gives the same bytes.
///
/// # Panics
/// A written object cannot be read, or gives other bytes.
pub fn exercise(bytes: &[u8]) {
    if let Ok(object) = Object::parse(bytes) {
        edit(&object);
    }
    // The members of a thin archive are files, and none exist here.
    let Ok(members) = archive::read(bytes, Path::new("/none/such")) else { return };
    let _ = archive::read(&archive::write(&members), Path::new("/none/such"));
}

/// For each kind of rows, leaves out every second row of that kind alone, and writes the rest.
fn edit(object: &Object) {
    written(object);
    let _ = assembly::write(object, Machine::X86_64);
    let all = [object.sections.len(), object.symbols.len(), object.groups.len()];
    for kind in 0..3 {
        for parity in 0..2 {
            let mut kept = all.map(|count| vec![true; count]);
            kept[kind].iter_mut().enumerate().for_each(|(row, keep)| *keep = row % 2 == parity);
            let mut less = object.clone();
            less.retain(&kept[0], &kept[1], &kept[2]);
            written(&less);
        }
    }
}

fn written(object: &Object) {
    let bytes = object.write();
    match Object::parse(&bytes) {
        Ok(again) => assert!(again.write() == bytes, "an object is another when it was written and read"),
        Err(error) => panic!("an object cannot be read when it was written: {error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::random::rng::Rng;

    /// Takes objects that assemblers wrote, and damages some bytes.
    #[test]
    fn damaged_objects_are_edited_or_refused() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/sframe/crafted-v3");
        let mut numbers = Rng::new(0);
        for entry in std::fs::read_dir(root).unwrap().flatten() {
            let original = std::fs::read(entry.path()).unwrap();
            super::exercise(&original);
            for _ in 0..40 {
                let mut damaged = original.clone();
                (0..3).for_each(|_| damaged[numbers.below(original.len())] = numbers.number() as u8);
                super::exercise(&damaged);
            }
        }
    }
}
