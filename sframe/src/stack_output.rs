//! The output of `sframe stacks` and `sframe record`: the samples in one or several forms, and statistics.
//! The command settles and checks where it goes before it does any work.

use super::args::{RowSources, StackOutput, StackRows, StatsFormat};
use super::destination::{self, Way};
use super::open::Problem;
use super::report;
use stacks::files::{Files, Options};
use stacks::image::Sources;
use stacks::kernel::Kernel;
use stacks::profile::{Names, Profile};
use stacks::session::Settings;
use stacks::statistics::Statistics;
use stacks::write::{Format, Named, write};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
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

/// What to write where. This is checked before samples are taken or read.
pub struct Plan<'a> {
    arguments: &'a StackOutput,
    format: Format,
    /// `None` is standard output.
    output: Option<&'a Path>,
}

impl<'a> Plan<'a> {
    /// Settles the form of the main output: the one of `--format`, otherwise the one that the ending of the
    /// output's name means, otherwise text. It is [`Format::None`] if the user asks for a page only.
    ///
    /// # Errors
    /// A file cannot be written, is the input, or has an ending that names no form; or a form is not fit for
    /// a terminal.
    pub fn new(arguments: &'a StackOutput, input: Option<&Path>) -> Result<Self, Problem> {
        let output = arguments.output.as_deref().filter(|path| path.as_os_str() != "-");
        let format = match (arguments.format, output) {
            (Some(format), _) => format,
            (None, Some(path)) => format_of(path).map_err(|message| problem(path, message))?,
            (None, None) if arguments.html.is_some() && arguments.output.is_none() => Format::None,
            (None, None) => Format::Text,
        };
        let files: Vec<&Path> = output.into_iter().chain(arguments.html.as_deref()).collect();
        for path in &files {
            destination::check(path, Way::Written).map_err(|message| problem(path, message))?;
            if let Some(input) = input.filter(|input| input.as_os_str() != "-") {
                let apart = destination::check_apart(path, input);
                apart.map_err(|_| problem(path, "the recording, which the result would replace".into()))?;
            }
        }
        if let [one, other] = files[..] {
            destination::check_apart(one, other).map_err(|message| problem(one, message))?;
        }
        if format == Format::Pprof && output.is_none() && io::stdout().is_terminal() {
            let message = "the pprof form is binary, and this is a terminal; name a file with -o";
            return Err(Problem::new("standard output", message));
        }
        Ok(Self { arguments, format, output })
    }

    /// Whether the output contains the addresses of frames.
    pub fn wants_addresses(&self) -> bool {
        matches!(self.format, Format::Text | Format::Json)
    }

    /// The files to write.
    pub fn files(&self) -> impl Iterator<Item = &'a Path> {
        self.output.into_iter().chain(self.arguments.html.as_deref())
    }
}

fn problem(path: &Path, message: String) -> Problem {
    Problem::new(path.display().to_string(), message)
}

/// Writes everything that the user asked for.
///
/// # Errors
/// A file or standard output cannot be written.
pub fn write_all(
    plan: &Plan<'_>,
    profile: &Profile,
    files: &Files,
    statistics: &Statistics,
    kernel: &Kernel,
    title: &str,
) -> Result<(), Problem> {
    let &Plan { arguments, format: main, output } = plan;
    if let Some(form) = arguments.stats {
        let report = statistics.report(files);
        match form {
            StatsFormat::Text => eprint!("{}", report.text()),
            StatsFormat::Json => eprintln!("{}", serde_json::to_string(&report).unwrap_or_default()),
        }
    }
    warn_of_replaced(files);
    if main == Format::None && arguments.html.is_none() {
        return Ok(());
    }
    let names = Names::new(profile, files, kernel, arguments.inline);
    let named = Named { profile, names: &names, files, title };
    match output {
        Some(path) if main != Format::None => write_file(main, named, path)?,
        Some(_) => {}
        None => report::write(|output| write(main, named, output))?,
    }
    arguments.html.iter().try_for_each(|path| write_file(Format::Html, named, path))
}

/// Tells of each path that leads to another file than the one that was mapped.
fn warn_of_replaced(files: &Files) {
    let reasons = files.iter().filter_map(|(_, file)| Some((&*file.path, file.replaced()?)));
    for (path, reason) in reasons.collect::<BTreeMap<_, _>>() {
        report::warn(&format!("{path}: {reason}; its frames have offsets for names"));
    }
}

fn write_file(format: Format, named: Named<'_>, path: &Path) -> Result<(), Problem> {
    let failed =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot write: {error}"));
    let mut file = BufWriter::with_capacity(1 << 18, File::create(path).map_err(failed)?);
    write(format, named, &mut file).and_then(|()| file.flush()).map_err(failed)
}

/// The form that the ending of a file's name means; text for a name without an ending.
fn format_of(path: &Path) -> Result<Format, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((stem, ending)) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) else {
        return Ok(Format::Text);
    };
    let packed = stem.rsplit_once('.').map(|(_, inner)| inner);
    match ending.to_ascii_lowercase().as_str() {
        "html" | "htm" => Ok(Format::Html),
        "folded" => Ok(Format::Folded),
        "json" if packed == Some("speedscope") => Ok(Format::Speedscope),
        "json" => Ok(Format::Json),
        "pb" | "pprof" => Ok(Format::Pprof),
        "gz" if matches!(packed, None | Some("pb" | "pprof")) => Ok(Format::Pprof),
        "txt" | "text" | "perf" | "script" => Ok(Format::Text),
        _ => {
            let found =
                if ending == "gz" { &name[stem.len() - packed.unwrap_or_default().len()..] } else { ending };
            Err(format!(
                "its ending .{found} names no form; expected .html, .folded, .json, .speedscope.json, .pb.gz or .txt, or --format, which \
                 serves for any name"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::format_of;
    use stacks::write::Format;

    #[test]
    fn endings_name_forms_or_are_refused() {
        let cases = [
            ("a.html", Format::Html),
            ("a.b.folded", Format::Folded),
            ("x/a.JSON", Format::Json),
            ("a.speedscope.json", Format::Speedscope),
            ("a.pb.gz", Format::Pprof),
            ("cpu.gz", Format::Pprof),
            ("stacks", Format::Text),
            (".hidden", Format::Text),
            ("a.d/stacks", Format::Text),
            ("a.txt", Format::Text),
        ];
        for (name, format) in cases {
            assert_eq!(format_of(name.as_ref()), Ok(format), "{name}");
        }
        for name in ["a.svg", "a.png", "a.folded.gz", "a.html.gz", "a.foldd", "a.html~"] {
            assert!(format_of(name.as_ref()).unwrap_err().contains("--format"), "{name}");
        }
    }
}
