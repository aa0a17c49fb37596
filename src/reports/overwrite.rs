//! No file that a link writes may be one that it reads.
//!
//! The output, maps and dependency files replace existing files, so an input under such a name
//! would be lost. Files are told apart by device and number: other paths, symbolic and hard links
//! lead to the same one. Only regular files count; `/dev/null` may be read and written.

use super::{map_path, trace_path};
use crate::cli::{Config, Explanation};
use crate::diag::{Code, Diagnostic};
use crate::input::FileIdentity;
use crate::phase::Session;
use crate::script::Sources;
use std::path::{Path, PathBuf};

/// Reports every file that would be written over an input. `inputs` are the paths of all inputs but members of thin
/// archives, which the store knows.
///
/// Libraries that are opened only because other libraries need them are no inputs: if libraries need
/// each other, one of them may be the output.
pub fn check(session: Session<'_>, sources: &Sources, inputs: &[PathBuf]) {
    for (name, path) in written(session.config) {
        let Some(identity) = FileIdentity::at(&path) else { continue };
        let same = |read: &&Path| FileIdentity::at(read) == Some(identity);
        // The store knows the identity of each input. Paths of inputs, which may be thousands, are looked up for the
        // message only.
        let input = if session.store.holds(identity) {
            Some(inputs.iter().map(PathBuf::as_path).find(same).unwrap_or(&path))
        } else {
            let arguments = session.config.reports.argument_files.iter();
            sources.names().map(Path::new).chain(arguments.map(PathBuf::as_path)).find(same)
        };
        if let Some(input) = input {
            session.sink.report(overwritten(name, &path, input));
        }
    }
}

/// The files that options ask for, with their names in messages.
fn written(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let reports = &config.reports;
    let explanation = match &reports.explain_discarded {
        Some(Explanation::File(path)) => Some(path.clone()),
        Some(Explanation::Printed) | None => None,
    };
    let files = [
        ("the output", Some(config.output.clone())),
        ("the map", reports.map.as_ref().map(|path| map_path(config, path))),
        ("the dependency file", reports.dependency_file.clone()),
        (REPRODUCE, reports.reproduce.clone()),
        ("the reasons for extraction", reports.why_extract.clone()),
        ("the explanation", explanation),
        ("the order of symbols", reports.symbol_order.clone()),
        ("the time trace", trace_path(config)),
    ];
    files.into_iter().filter_map(|(name, path)| Some((name, path?))).collect()
}

/// The archive of `--reproduce` in messages.
pub const REPRODUCE: &str = "the archive of --reproduce";

/// The report of a file that would be written over an input.
pub fn overwritten(name: &str, path: &Path, input: &Path) -> Diagnostic {
    let message = if path == input {
        format!("{name} {} is also an input", path.display())
    } else {
        format!("{name} {} is the same file as the input {}", path.display(), input.display())
    };
    Diagnostic::error(Code::OutputIsInput, message).help("nothing was written; give it another name")
}
