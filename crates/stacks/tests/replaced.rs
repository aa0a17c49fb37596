//! Tests which file is read for a mapping of a process that runs, if its path leads to another one. The
//! mappings are at addresses where this process has none, so `/proc/PID/map_files` does not help, as it does
//! not help an ordinary user.

use sframe_format::Abi;
use stacks::event::{Event, Mapped};
use stacks::running::Identity;
use stacks::session::{Session, Settings};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/undescribed");

fn identity(metadata: &Metadata) -> Identity {
    // Numbers of devices on Linux: `gnu_dev_major`, `gnu_dev_minor`, as far as they have 20 bits.
    let device = metadata.dev();
    Identity {
        device: (device as u32 >> 8 & 0xfff, device as u32 & 0xff | (device >> 12) as u32 & 0xf_ff00),
        inode: metadata.ino(),
    }
}

/// Maps files into this process and returns for each why it is not used, if it is not.
fn reasons(files: &[(&Path, Identity)]) -> Vec<Option<String>> {
    let mut settings = Settings::default();
    settings.files.here = true;
    let mut session = Session::new(Abi::Amd64, settings);
    for (number, (path, identity)) in files.iter().enumerate() {
        let event = Event::Mapped(Mapped {
            pid: std::process::id(),
            address: 0x1000 * (number as u64 + 1),
            length: 0x1000,
            offset: 0,
            executable: true,
            kernel: false,
            build_id: None,
            identity: Some(*identity),
            path: path.as_os_str().as_encoded_bytes(),
        });
        session.handle(0, Some(&event), &mut |_| {});
    }
    session.files().iter().map(|(_, file)| file.replaced().map(str::to_owned)).collect()
}

#[test]
fn a_file_with_another_inode_is_told_and_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    std::fs::copy(FIXTURE, &path).unwrap();
    let before = identity(&path.metadata().unwrap());
    assert_eq!(reasons(&[(&path, before), (&path, before)]), [None], "one file");
    let new = folder.path().join("new");
    std::fs::copy(FIXTURE, &new).unwrap();
    std::fs::rename(&new, &path).unwrap();
    let after = identity(&path.metadata().unwrap());
    let reasons = reasons(&[(&path, before), (&path, after)]);
    let [Some(reason), None] = &reasons[..] else { panic!("{reasons:?}") };
    let says = format!("the file was replaced: it is {after}, the process has mapped {before}");
    assert_eq!(*reason, says);
}

/// The program is another file by now, but the process still executes the one that it began with.
#[test]
fn the_program_is_found_without_its_path() {
    let program = std::env::current_exe().unwrap();
    let own = identity(&program.metadata().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    std::fs::copy(FIXTURE, &path).unwrap();
    assert_eq!(reasons(&[(&path, own)]), [None]);
}
