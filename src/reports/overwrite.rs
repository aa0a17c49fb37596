//! Refuses to write over an input.
//!
//! The output, maps and dependency files replace existing files, so an input of such a name would be lost.
//! The linker compares device and inode number, because other paths, symbolic links and hard links may lead
//! to the same file. Only regular files count: a link may read and write `/dev/null`.

use crate::cli::{Config, Explanation};
use crate::diag::{Code, Diagnostic};
use crate::input::FileIdentity;
use crate::phase::Session;
use crate::script::Sources;
use std::path::{Path, PathBuf};

/// Reports every file that the link would write over an input. `inputs` are the paths of all inputs except
/// members of thin archives, which the store knows.
///
/// A library that the linker opens only because another library needs it is no input: if libraries need each
/// other, one of them may be the output.
pub fn check(session: Session<'_>, sources: &Sources, inputs: &[PathBuf]) {
    for (name, path) in outputs(session.config).into_iter().chain(written(session.config)) {
        let Some(identity) = FileIdentity::at(&path) else { continue };
        let same = |read: &&Path| FileIdentity::at(read) == Some(identity);
        // The store knows the identity of each input. The paths of inputs, which may be thousands, are only
        // needed for the message.
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

/// What the link makes, and its names in messages.
pub fn outputs(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let debug_file = config.debug_file().map(|path| ("the debug file", path));
    std::iter::once(("the output", config.output.clone())).chain(debug_file).collect()
}

/// The reports that options ask for, and their names in messages. `-` is standard output.
pub fn written(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let reports = &config.reports;
    let explanation = match &reports.explain_discarded {
        Some(Explanation::File(path)) => Some(path.clone()),
        Some(Explanation::Printed) | None => None,
    };
    let files = [
        (MAP, reports.map.as_ref().map(|path| map_path(config, path))),
        (DEPENDENCIES, reports.dependency_file.clone()),
        (REPRODUCE, reports.reproduce.clone()),
        (REASONS, reports.why_extract.clone()),
        (ARCHIVES, reports.archive_stats.clone()),
        (EXPLANATION, explanation),
        (REMOVED, config.gc.print.clone()),
        (FOLDED, config.icf.print.clone()),
        (SYMBOL_ORDER, reports.symbol_order.clone()),
        (TIME_TRACE, trace_path(config)),
    ];
    let files = files.into_iter().filter_map(|(name, path)| Some((name, path?)));
    files.filter(|(_, path)| path.as_os_str() != "-").collect()
}

/// `-Map=DIRECTORY` means `DIRECTORY/OUTPUT.map`.
fn map_path(config: &Config, path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_path_buf();
    }
    let mut name = config.output.file_name().unwrap_or_default().to_os_string();
    name.push(".map");
    path.join(name)
}

/// `--time-trace` without a file means `OUTPUT.time-trace`.
fn trace_path(config: &Config) -> Option<PathBuf> {
    let path = config.reports.time_trace.as_ref()?;
    if !path.as_os_str().is_empty() {
        return Some(path.clone());
    }
    let mut beside = config.output.clone().into_os_string();
    beside.push(".time-trace");
    Some(beside.into())
}

/// What messages call the file of `-Map`.
pub const MAP: &str = "the map";
/// The file of `--dependency-file`.
pub const DEPENDENCIES: &str = "the dependency file";
/// The file of `--reproduce`.
pub const REPRODUCE: &str = "the archive of --reproduce";
/// The file of `--why-extract`.
pub const REASONS: &str = "the reasons for extraction";
/// The file of `--print-archive-stats`.
pub const ARCHIVES: &str = "the table of archives";
/// The file of `--explain-discarded`.
pub const EXPLANATION: &str = "the explanation";
/// The file of `--print-icf-sections`.
pub const FOLDED: &str = "the list of folded sections";
/// The file of `--print-gc-sections`.
pub const REMOVED: &str = "the list of removed sections";
/// The file of `--print-symbol-order`.
pub const SYMBOL_ORDER: &str = "the order of symbols";
/// The file of `--time-trace`.
pub const TIME_TRACE: &str = "the time trace";

/// The diagnostic for a file that would be written over an input.
pub fn overwritten(name: &str, path: &Path, input: &Path) -> Diagnostic {
    let message = if path == input {
        format!("{name} {} is also an input", path.display())
    } else {
        format!("{name} {} is the same file as the input {}", path.display(), input.display())
    };
    Diagnostic::error(Code::OutputIsInput, message).help("nothing was written; give it another name")
}
