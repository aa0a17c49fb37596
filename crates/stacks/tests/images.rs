//! Tests which files serve a recording, and for what.

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, mapping, words};
use stacks::statistics::End;
use stacks::write::Format;

const STACK: u64 = 0x7ffe_0000_1000;

/// A 32-bit program has no rows, but its instruction is a frame and has a name.
#[test]
fn samples_of_a_32_bit_program_have_their_first_frame() {
    const LEAF: u64 = 0x804_8090;
    let mut writer = Writer::default();
    writer.comm(7, "narrow", true, 1);
    writer.mmap(7, (0x804_8000, 0x1000, 0), &fixture("tests/fixtures/narrow"), 2);
    writer.sample(7, 10, [STACK, 5, LEAF], &[], &[]);
    // The registers are behind their ABI, and the sizes of an empty copy of the stack follow them.
    let abi = writer.data.len() - 8 * (1 + 17 + 2);
    assert_eq!(writer.data[abi..abi + 8], words(&[2]));
    writer.data[abi] = 1;
    let unwound = Unwound::of(&writer);
    assert_eq!(unwound.frames(0).iter().map(|frame| frame.0).collect::<Vec<_>>(), [LEAF]);
    assert_eq!(unwound.profile.rows[0].end, End::Narrow);
    let folded = String::from_utf8(unwound.written(Format::Folded)).unwrap();
    assert!(folded.contains("leaf"), "{folded}");
}

/// Changes every fifth byte of files whose rows come from instructions, expressions and tables of other
/// compilers. No change makes the walk panic or go on for ever.
#[test]
fn damaged_files_give_frames_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    let places = [("undescribed", 0x40_00da), ("expressions", 0x40_00e2), ("debug_frame", 0x40_00e0)];
    for (program, ip) in
        places.into_iter().chain([("go_table", 0x40_0120), ("go_stacks", 0x40_0100), ("narrow", 0x804_8090)])
    {
        let whole = std::fs::read(fixture(&format!("tests/fixtures/{program}"))).unwrap();
        for at in (0..whole.len()).step_by(5) {
            let mut damaged = whole.clone();
            damaged[at] ^= [0xff, 0x81, 0x10][at % 3];
            std::fs::write(&path, damaged).unwrap();
            let mut writer = Writer::default();
            writer.mmap(7, (ip & !0xfff, 0x1000, 0), path.to_str().unwrap(), 2);
            writer.sample(
                7,
                10,
                [STACK, STACK + 16, ip],
                &[],
                &words(&[STACK, 0x40_00c9, 7, 0x40_00b5, 0, 0]),
            );
            let unwound = Unwound::of(&writer);
            assert!(!unwound.frames(0).is_empty());
            unwound.written(Format::Folded);
        }
    }
}

/// The build-id of the kernel that runs, from its notes.
fn running_kernel() -> Option<Vec<u8>> {
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    let place = notes.windows(8).position(|window| window == b"\x03\0\0\0GNU\0")?;
    let size = u32::from_ne_bytes(*notes.get(place - 4..)?.first_chunk()?) as usize;
    notes.get(place + 8..place + 8 + size).map(<[u8]>::to_vec)
}

/// perf 7.2 records the kernel's build-id with its mapping, and none of the vDSO.
#[test]
fn the_vdso_of_the_same_kernel_is_the_one_that_runs() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let (Some(kernel), true) = (running_kernel(), maps.contains("[vdso]")) else { return };
    let mut other = kernel.clone();
    other[0] ^= 1;
    for (id, is_used) in [(&kernel, true), (&other, false)] {
        let mut writer = Writer::default();
        let mut identity = vec![0; 24];
        identity[0] = id.len() as u8;
        identity[4..4 + id.len()].copy_from_slice(id);
        let place = [0xffff_ffff_8100_0000, 0x100_0000, 0xffff_ffff_8100_0000];
        let body = mapping(u32::MAX, place, &identity, 5, "[kernel.kallsyms]_text");
        writer.event(10, 1 | 1 << 14, &body, u32::MAX, 1);
        writer.mmap(7, (0x7000_0000, 0x2000, 0), "[vdso]", 2);
        writer.sample(7, 10, [STACK, 5, 0x7000_0a00], &[], &[]);
        let unwound = Unwound::of(&writer);
        let (_, file) = unwound.files.iter().find(|(_, file)| &*file.path == "[vdso]").unwrap();
        assert_eq!(file.image().is_ok(), is_used, "{:?}", file.image().err());
    }
}
