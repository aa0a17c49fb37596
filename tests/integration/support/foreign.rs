//! Programs that need another C library, because the machine's may be too old for them.

use super::tools::peer_programs;
use super::{Outcome, Work};
use std::path::PathBuf;

/// A program that runs with the loader and the libraries of an unpacked tree.
pub struct Foreign {
    libraries: PathBuf,
    program: PathBuf,
}

impl Foreign {
    /// Runs it.
    #[track_caller]
    pub fn run(&self, work: &Work, arguments: &[&str]) -> Outcome {
        let loader = self.libraries.join("ld-linux-x86-64.so.2");
        let (libraries, program) = (self.libraries.to_str().unwrap(), self.program.to_str().unwrap());
        work.command(loader, &[&["--library-path", libraries, program], arguments].concat())
    }
}

/// The program that answers look-ups with libsframe. It is made with the newest libsframe in the tree of
/// peers.
pub fn libsframe(work: &Work) -> Result<Foreign, String> {
    const LIBRARY: &str = "usr/lib/x86_64-linux-gnu/libsframe.so.3";
    let library = peer_programs(LIBRARY).pop().ok_or("no libsframe that reads V3 (cargo xtask peers)")?;
    let source = work.write("libsframe.c", include_str!("libsframe.c"));
    // The library may need a newer C library than the machine's. The tree that it comes from has one.
    let words = ["-O1", "-o", "libsframe", &source, library.to_str().unwrap()];
    work.command("gcc", &[&words[..], &["-Wl,--unresolved-symbols=ignore-in-shared-libs"]].concat()).ok();
    let libraries = library.parent().expect("a file has a folder").to_path_buf();
    Ok(Foreign { libraries, program: work.path("libsframe") })
}
