//! Finds what readelf says against outputs of valid inputs.

use crate::description::Link;
use object::Endianness;
use object::elf::{FileHeader64, PT_DYNAMIC};
use object::read::elf::{FileHeader, ProgramHeader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The system's readelf, otherwise the one in the tree of other projects' tools; `None` if there is neither.
pub fn readelf() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let answers = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok();
    let in_tree = || Some(PathBuf::from(std::env::var_os("SFRAME_PEERS")?).join("binutils-2.47/readelf"));
    let find = || ["readelf".into()].into_iter().chain(in_tree()).find(answers);
    FOUND.get_or_init(find).as_deref()
}

/// readelf's complaint about versions in a file without `PT_DYNAMIC`. It also says this about files of GNU
/// ld.
const VERSIONS_NOWHERE: &str = "Warning: Virtual address 0 not located in any PT_LOAD segment.";

/// Whether a program printed only this line, whatever its name is.
fn is_only(said: &str, line: &str) -> bool {
    said.lines().count() == 1 && said.trim_end().ends_with(line)
}

/// Whether an ELF file has a `PT_DYNAMIC`.
fn has_dynamic_segment(bytes: &[u8]) -> bool {
    let found = FileHeader64::<Endianness>::parse(bytes).and_then(|header| {
        let endian = header.endian()?;
        let segments = header.program_headers(endian, bytes)?;
        Ok(segments.iter().any(|segment| segment.p_type(endian) == PT_DYNAMIC))
    });
    found == Ok(true)
}

/// What readelf says against an output; empty also if it complains about an input. `None` if nothing can be
/// said, because the inputs were damaged or the output is not an ELF file.
///
/// # Panics
/// A file cannot be written, or readelf cannot be started.
pub fn of_output(link: &Link, output: &[u8], readelf: &Path) -> Option<String> {
    let has = |option: &str| link.arguments.iter().any(|word| word == option);
    if link.damaged || has("--oformat=binary") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder for readelf's input");
    let path = folder.path().join("output");
    let complaints = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("a file for readelf");
        let said = Command::new(readelf).args(["-aW", "--"]).arg(&path).output().expect("readelf starts");
        String::from_utf8_lossy(&said.stderr).into_owned()
    };
    let found = match complaints(output) {
        // If the script has no header for PT_DYNAMIC, readelf looks for the versions at address 0.
        found if is_only(&found, VERSIONS_NOWHERE) && !has_dynamic_segment(output) => String::new(),
        found => found,
    };
    let is_of_input = || link.objects().iter().any(|bytes| !complaints(bytes).is_empty());
    Some(if found.is_empty() || is_of_input() { String::new() } else { found })
}
