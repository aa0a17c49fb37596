//! The output of `sframe stacks` and `sframe record`: the samples in one or several forms, and statistics.
//! The command settles and checks where it goes before it does any work.

use super::args::{RowSources, StackOutput, StackRows, StatsFormat};
use super::destination::{self, Way};
use super::open::Problem;
use super::report;
use diagnostics::words::count;
use stacks::files::{Files, Options};
use stacks::image::Sources;
use stacks::kernel::Kernel;
use stacks::nameless::{nameless, of_made_code, of_scripts};
use stacks::profile::Profile;
use stacks::session::Settings;
use stacks::statistics::{End, Report, Statistics};
use stacks::write::{Format, Kept, write};
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The settings of a session.
pub fn settings(rows: &StackRows, sysroot: Option<PathBuf>, measure: bool) -> Settings {
    let sources = match rows.sources {
        RowSources::All => Sources::All,
        RowSources::Sframe => Sources::Sframe,
        RowSources::EhFrame => Sources::Derived,
    };
    let may_fetch = std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
    let fetcher = may_fetch.then(|| "debuginfod-find".into());
    let files = Options { sysroot, fetcher, sources, measure, ..Options::default() };
    Settings { files, frame_pointers: rows.frame_pointers }
}

/// What to write where. This is checked before samples are taken or read.
pub struct Plan<'a> {
    arguments: &'a StackOutput,
    format: Format,
    /// `None` is standard output.
    output: Option<&'a Path>,
    /// Whether files get their names when they are complete.
    renames: bool,
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
        if matches!(format, Format::Pprof | Format::Otlp | Format::PerfData | Format::Profile)
            && output.is_none()
            && io::stdout().is_terminal()
        {
            let message = "this form is binary, and this is a terminal; name a file with -o";
            return Err(Problem::new("standard output", message));
        }
        Ok(Self { arguments, format, output, renames: false })
    }

    /// The same, with files that get their names when they are complete.
    pub fn renamed(self) -> Self {
        Self { renames: true, ..self }
    }

    /// Whether something goes to standard output.
    pub fn prints(&self) -> bool {
        self.output.is_none() && self.format != Format::None
    }

    /// Whether the output contains the addresses of frames.
    pub fn wants_addresses(&self) -> bool {
        matches!(self.format, Format::Text | Format::Json | Format::PerfData | Format::Profile)
    }

    /// Whether only statistics are wanted.
    fn is_empty(&self) -> bool {
        self.format == Format::None && self.arguments.html.is_none()
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
    profile: Profile,
    files: &Files,
    statistics: &Statistics,
    kernel: &Kernel,
    title: &str,
) -> Result<(), Problem> {
    if plan.is_empty() {
        replaced(files).iter().for_each(|sentence| report::warn(sentence));
        print_statistics(plan, &statistics.report(files));
        return Ok(());
    }
    let kept = Kept::new(profile, (files, kernel), statistics, plan.arguments.inline, title);
    warnings(&kept, files).iter().for_each(|sentence| report::warn(sentence));
    write_kept(plan, &kept)?;
    // The process ends now, and the system frees its memory faster than destructors would.
    std::mem::forget(kept);
    Ok(())
}

/// Writes everything that the user asked for of a profile with names.
///
/// # Errors
/// As [`write_all`].
pub fn write_kept(plan: &Plan<'_>, kept: &Kept) -> Result<(), Problem> {
    let &Plan { arguments, format: main, output, renames } = plan;
    print_statistics(plan, &kept.report);
    let write_file = if renames { write_renamed } else { write_file };
    match output {
        Some(path) if main != Format::None => write_file(main, kept, path)?,
        None if main != Format::None => report::write(|output| write(main, kept.named(), output))?,
        _ => {}
    }
    arguments.html.iter().try_for_each(|path| write_file(Format::Html, kept, path))
}

/// Prints the statistics if the user asked for them, and what helps if the recording lacks stacks.
fn print_statistics(plan: &Plan<'_>, report: &Report) {
    if let (count @ 1.., all) = report.without_registers() {
        report::warn(&format!(
            "{count} of {all} samples have neither registers nor a call chain, so each has one frame: record with `perf \
             record --call-graph dwarf,32768`, or with -g for the kernel's call chains"
        ));
    }
    match plan.arguments.stats {
        Some(StatsFormat::Text) => eprint!("{}", report.text()),
        Some(StatsFormat::Json) => eprintln!("{}", serde_json::to_string(report).unwrap_or_default()),
        None => {}
    }
}

/// What makes the stacks of a profile worse than they could be: files that were replaced or have no names,
/// code that programs made, and scripts.
pub fn warnings(kept: &Kept, files: &Files) -> Vec<String> {
    let mut all = replaced(files);
    all.extend(nameless(&kept.profile, &kept.names, files));
    all.extend(of_made_code(&kept.profile, &kept.names, files));
    all.extend(of_scripts(&kept.profile, &kept.names, files));
    all
}

/// Names each path that leads to another file than the one that was mapped.
fn replaced(files: &Files) -> Vec<String> {
    let reasons = files.iter().filter_map(|(_, file)| Some((&*file.path, file.replaced()?)));
    let reasons: BTreeMap<_, _> = reasons.collect();
    reasons
        .iter()
        .map(|(path, reason)| format!("{path}: {reason}; its frames have offsets for names"))
        .collect()
}

/// How complete the samples of a profile are.
pub fn summary(profile: &Profile) -> String {
    let whole = profile.rows.iter().filter(|row| row.end.is_rooted()).count();
    let all = profile.rows.iter().filter(|row| row.end != End::NotSampled).count();
    let samples = count(all as u64, "sample");
    format!("{samples}, {whole} from the root on")
}

fn write_file(format: Format, kept: &Kept, path: &Path) -> Result<(), Problem> {
    write_whole(path, |file| write(format, kept.named(), file))
}

/// Writes a file beside its place, and puts it there when it is complete, unless another one is there.
fn write_renamed(format: Format, kept: &Kept, path: &Path) -> Result<(), Problem> {
    let failed = |error: io::Error| problem(path, format!("cannot write: {error}"));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // The process's umask decides about a new file.
    builder.prefix(".sframe-").suffix(".new").permissions(Permissions::from_mode(0o666));
    let file = builder.tempfile_in(folder).map_err(failed)?;
    let mut buffer = BufWriter::with_capacity(1 << 18, file.as_file());
    write(format, kept.named(), &mut buffer).and_then(|()| buffer.flush()).map_err(failed)?;
    drop(buffer);
    // Not every file system can do this without replacing a file.
    let placed = file.persist_noclobber(path).or_else(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => Err(error),
        _ => error.file.persist(path),
    });
    placed.map(drop).map_err(|error| failed(error.error))
}

/// Writes a file by a function.
///
/// # Errors
/// It cannot be written.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Problem> {
    let failed =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot write: {error}"));
    let mut file = BufWriter::with_capacity(1 << 18, File::create(path).map_err(failed)?);
    write(&mut file).and_then(|()| file.flush()).map_err(failed)
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
        "sframe-profile" => Ok(Format::Profile),
        "svg" => Ok(Format::Svg),
        "otlp" => Ok(Format::Otlp),
        "data" => Ok(Format::PerfData),
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
                "its ending .{found} names no form; expected .html, .svg, .sframe-profile, .folded, .json, .speedscope.json, .pb.gz, .otlp, .data or .txt, or \
                 --format, which serves for any name"
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
            ("a.sframe-profile", Format::Profile),
            ("a.svg", Format::Svg),
            ("a.otlp", Format::Otlp),
            ("perf.data", Format::PerfData),
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
        for name in ["a.png", "a.folded.gz", "a.html.gz", "a.foldd", "a.html~"] {
            assert!(format_of(name.as_ref()).unwrap_err().contains("--format"), "{name}");
        }
    }
}
