//! Tests the bound on open files: stacks, names and numbers are the same whether files are closed between
//! samples or not, and a file that is gone is never closed.

use sframe_format::Abi;
use stacks::event::{Chain, Event, Mapped, Sample, User};
use stacks::files::{Bound, FileId, Open};
use stacks::kernel::Kernel;
use stacks::namer::Namer;
use stacks::process::Place;
use stacks::session::{Frame, Session, Settings};
use stacks::statistics::End;
use std::path::{Path, PathBuf};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/undescribed");
const STACK: u64 = 0x7ffe_0000_1000;
/// Places in the fixture: see `undescribed.rs`.
const LEAF: u64 = 0x40_00da;
const IN_WORK: u64 = 0x40_00c9;
const IN_START: u64 = 0x40_00b5;
const FILES: u32 = 12;

/// Copies of one program. Each is mapped into a process of its own.
fn copies(folder: &Path) -> Vec<PathBuf> {
    let copy = |number| {
        let path = folder.join(format!("program{number}"));
        std::fs::copy(FIXTURE, &path).unwrap();
        path
    };
    (0..FILES).map(copy).collect()
}

fn session(bound: Bound) -> Session {
    let mut settings = Settings::default();
    settings.files.bound = bound;
    Session::new(Abi::Amd64, settings)
}

fn map(session: &mut Session, pid: u32, path: &Path) {
    let (address, length, offset) = (0x40_0000, 0x1000, 0);
    let (executable, kernel, build_id, identity) = (true, false, None, None);
    let path = path.as_os_str().as_encoded_bytes();
    let mapped = Mapped { pid, address, length, offset, executable, kernel, build_id, identity, path };
    session.handle(0, Some(&Event::Mapped(mapped)), &mut |_| {});
}

/// The frames of a sample, and where the walk ended.
fn sample(session: &mut Session, pid: u32) -> (Vec<Frame>, End) {
    let stack: Vec<u8> =
        [1, IN_WORK, 0, 0, 0, IN_START].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let values = [5, STACK, LEAF].map(u64::to_le_bytes);
    let user = Some(User::new(true, 1 << 6 | 1 << 7 | 1 << 8, &values, &stack));
    let (chain, period) = (Chain::default(), 1);
    let (cpu, time, ip, kernel) = (None, None, 0, false);
    let sample = Event::Sample(Sample { pid, tid: pid, cpu, time, period, ip, kernel, chain, user });
    let mut found = None;
    session.handle(0, Some(&sample), &mut |stack| found = Some((stack.frames.to_vec(), stack.end)));
    found.expect("a sample has a stack")
}

/// Samples of all processes, several times in another order, with their names.
fn samples(session: &mut Session) -> Vec<String> {
    let mut namer = Namer::default();
    let mut all = Vec::new();
    for turn in 0..4 {
        for number in 0..FILES {
            let pid = 1 + (number * 5 + turn) % FILES;
            let (frames, end) = sample(session, pid);
            let name = |frame: &Frame| namer.names(session.files(), &Kernel::default(), frame, false);
            let names: Vec<_> = frames.iter().map(name).collect();
            session.close_unused();
            all.push(format!("{pid} {end:?} {frames:?} {names:?}"));
        }
    }
    all
}

#[test]
fn stacks_are_the_same_whatever_is_closed_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let paths = copies(folder.path());
    let size = std::fs::metadata(FIXTURE).unwrap().len();
    let run = |bound| {
        let mut session = session(bound);
        for (pid, path) in (1..).zip(&paths) {
            map(&mut session, pid, path);
        }
        let found = samples(&mut session);
        let open = session.files().open_now();
        // What the system says of this process's memory agrees.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let folder = folder.path().to_str().unwrap();
        assert_eq!(maps.lines().filter(|line| line.contains(folder)).count() as u64, open.files);
        (found, open)
    };
    let (expected, open) = run(Bound::default());
    assert!(expected[0].contains("Root") && expected[0].contains("\"work\""), "{}", expected[0]);
    assert_eq!((open.files, open.closed, open.reopened), (FILES.into(), 0, 0));
    assert_eq!(open.bytes, size * u64::from(FILES));
    for bound in [Bound { files: Some(3), bytes: None }, Bound { files: None, bytes: Some(3 * size + 1) }] {
        let (found, Open { files, bytes, closed, reopened }) = run(bound);
        assert_eq!(found, expected, "{bound:?}");
        assert!(files <= 3 && bytes <= 3 * size, "{bound:?}: {files} files, {bytes} bytes");
        assert!(closed >= 30 && reopened >= 30, "{bound:?}: {closed}, {reopened}");
    }
}

#[test]
fn a_file_that_could_not_be_opened_again_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let paths = copies(folder.path());
    let mut session = session(Bound { files: Some(1), bytes: None });
    map(&mut session, 1, &paths[0]);
    std::fs::remove_file(&paths[0]).unwrap();
    for (pid, path) in (1..).zip(&paths).skip(1) {
        map(&mut session, pid, path);
        sample(&mut session, pid);
    }
    // The first one and that of the last sample.
    assert_eq!(session.files().open_now().files, 1);
    assert_eq!(sample(&mut session, 1).1, End::Root);
    // It was closed, and another file has its path now.
    let other = folder.path().join("other");
    std::fs::copy(FIXTURE, &other).unwrap();
    std::fs::rename(&other, &paths[2]).unwrap();
    // Rules that the session has kept are those of the file that was mapped.
    let (frames, end) = sample(&mut session, 3);
    assert_eq!(end, End::NoRows(FileId(2)));
    let Place::File(file, _) = frames[0].place else { panic!("{frames:?}") };
    let reason = session.files().get(file).unwrap().image().err().map(str::to_owned);
    assert_eq!(reason.as_deref(), Some("the file was replaced after it was closed"));
}
