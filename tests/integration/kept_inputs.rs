//! Inputs that fuzzing the readers of objects and archives found worth keeping, as they are and mutated.

use std::path::Path;

#[test]
fn kept_inputs_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/object");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 20, "the corpus is gone");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    for path in paths {
        let original = std::fs::read(path).unwrap();
        sframe_ld::input::exercise(&original);
        for _ in 0..200 {
            let mut bytes = original.clone();
            for _ in 0..1 + next(4) {
                let at = next(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = next(256) as u8;
                }
            }
            bytes.truncate(if next(4) == 0 { next(bytes.len()) } else { bytes.len() });
            sframe_ld::input::exercise(&bytes);
        }
    }
}
