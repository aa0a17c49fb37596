//! The output of `sframe stacks` and `sframe record`: the samples in one form or several, and statistics.

use super::args::{RowSources, StackOutput, StackRows, StatsFormat};
use super::open::Problem;
use super::report;
use stacks::files::{Files, Options};
use stacks::image::Sources;
use stacks::kernel::Kernel;
use stacks::profile::{Names, Profile};
use stacks::session::Settings;
use stacks::statistics::Statistics;
use stacks::write::{Format, Named, write};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The settings of a session.
pub fn settings(rows: &StackRows, sysroot: Option<PathBuf>, measure: bool) -> Settings {
    let sources = match rows.sources {
        RowSources::All => Sources::All,
        RowSources::Sframe => Sources::Sframe,
        RowSources::EhFrame => Sources::Derived,
    };
    let files = Options { sysroot, sources, here: false, measure };
    Settings { files, frame_pointers: rows.frame_pointers }
}

/// Whether the addresses of frames are written.
pub fn wants_addresses(arguments: &StackOutput) -> bool {
    matches!(main_format(arguments), Format::Text | Format::Json)
}

/// Writes everything that was asked for.
///
/// # Errors
/// A file or standard output cannot be written.
pub fn write_all(
    arguments: &StackOutput,
    profile: &Profile,
    files: &Files,
    statistics: &Statistics,
    kernel: &Kernel,
    title: &str,
) -> Result<(), Problem> {
    if let Some(form) = arguments.stats {
        let report = statistics.report(files);
        match form {
            StatsFormat::Text => eprint!("{}", report.text()),
            StatsFormat::Json => eprintln!("{}", serde_json::to_string(&report).unwrap_or_default()),
        }
    }
    let main = main_format(arguments);
    if main == Format::None && arguments.html.is_none() {
        return Ok(());
    }
    let names = Names::new(profile, files, kernel, arguments.inline);
    let named = Named { profile, names: &names, files, title };
    match &arguments.output {
        Some(path) if main != Format::None => write_file(main, named, path)?,
        Some(_) => {}
        None => report::write(|output| write(main, named, output))?,
    }
    arguments.html.iter().try_for_each(|path| write_file(Format::Html, named, path))
}

fn write_file(format: Format, named: Named<'_>, path: &Path) -> Result<(), Problem> {
    let failed =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot write: {error}"));
    let mut file = BufWriter::with_capacity(1 << 18, File::create(path).map_err(failed)?);
    write(format, named, &mut file).and_then(|()| file.flush()).map_err(failed)
}

/// The form of the main output: that of `--format`, else that of the output's file name, else text.
/// [`Format::None`] if only a page is asked for.
fn main_format(arguments: &StackOutput) -> Format {
    let by_name = || {
        let Some(path) = &arguments.output else {
            return if arguments.html.is_some() { Format::None } else { Format::Text };
        };
        let name = path.to_string_lossy();
        match name.rsplit('.').next() {
            Some("html" | "htm") => Format::Html,
            Some("folded") => Format::Folded,
            Some("json") => Format::Json,
            Some("gz" | "pb" | "pprof") => Format::Pprof,
            _ => Format::Text,
        }
    };
    arguments.format.unwrap_or_else(by_name)
}
