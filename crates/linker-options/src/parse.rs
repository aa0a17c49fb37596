//! Walks the arguments of a command line from left to right.
//!
//! Each argument is a file or an option of the table. An option's effect changes the state. So a later option
//! wins over an earlier one, and a positional option applies to the files behind it.

use super::config::Config;
use super::help::{emulation_names, help_text};
use super::identity::{Identity, version_text};
use super::inputs::InputSpec;
use super::resolve::resolve;
use super::response;
use super::spec::{Effect, OptionSpec, Reach, Refused, allows_single_dash, dashed};
use super::state::{FileReader, State};
use super::table;
use super::values::{Outcome, TARGETS, nearest, path, shown};
use diagnostics::{Aborted, Code, Diagnostic, Location, Sink};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The caller's environment and terminal. The library never looks at them itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment<'a> {
    /// Name of the program, for messages and `--help`.
    pub program: &'a str,
    /// `SFRAME_LD_OPTIONS`: options that come before those of the command line, quoted as in a response file.
    pub options: Option<&'a OsStr>,
    /// `SFRAME_LD_IDENTITY`: the same as `--identity`, which overrides it. An empty value counts as none.
    pub identity: Option<&'a OsStr>,
    /// `LD_RUN_PATH`: the run path if there is no `-rpath`. An empty value counts as none.
    pub run_path: Option<&'a OsStr>,
    /// Changes the directory of the process, for `-C`. Without it, that option is an error: a library must
    /// not move its process.
    pub enter: Option<fn(&Path) -> std::io::Result<()>>,
}

/// The result of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Print this text on standard output and end with success.
    Print(String),
    /// Print [`Config::banner`], if any, and link. The list of inputs is empty only if a script may
    /// name inputs, or if `--verbose` alone asks for the built-in script.
    Link(Box<Config>, Vec<InputSpec>),
}

/// Reads a command line, without the program's name.
///
/// It reports everything to `sink`, whose policy need not be right yet, because only the command line sets
/// it. The caller passes the diagnostics on to a sink with the policy of
/// [`super::config::DiagnosticOptions::policy`].
///
/// # Errors
/// [`Aborted`] if anything was wrong with any argument. Everything that was wrong has been reported.
pub fn parse(
    arguments: &[OsString],
    environment: &Environment<'_>,
    files: FileReader<'_>,
    sink: &Sink,
) -> Result<Invocation, Aborted> {
    let read = RefCell::new(Vec::new());
    let files = &|path: &Path| {
        let text = files(path)?;
        read.borrow_mut().push(path.to_path_buf());
        Ok(text)
    };
    let mut all = environment.options.map(|text| response::split(text.as_bytes())).unwrap_or_default();
    all.extend(arguments.iter().map(|argument| argument.clone().into_vec()));
    let all = response::expand(all, files, sink);

    let mut state = State::new(files, sink);
    state.config.program = environment.program.to_string();
    take_identity(&mut state, environment);
    enter_directory(&state, &all, environment);
    take_arguments(&mut state, &all);
    if let Some(run_path) = environment.run_path.filter(|text| !text.is_empty())
        && state.config.dynamic.rpath.is_empty()
    {
        state.config.dynamic.rpath.push(run_path.as_bytes().to_vec());
    }
    state.config.reports.arguments = all;
    state.config.reports.argument_files = read.take();
    finish(state, sink)
}

fn take_identity(state: &mut State<'_>, environment: &Environment<'_>) {
    let Some(identity) = environment.identity.filter(|text| !text.is_empty()) else { return };
    match Identity::from_word(identity.as_bytes()) {
        Ok(identity) => state.requests.identity = identity,
        Err(wrong) => state.report(
            Diagnostic::error(Code::BadOption, wrong).at(Location::Argument("SFRAME_LD_IDENTITY".into())),
        ),
    }
}

/// Changes to the directory of the last `-C`. All relative paths count from there, also those before it.
fn enter_directory(state: &State<'_>, all: &[Vec<u8>], environment: &Environment<'_>) {
    // Hardly any command line has the option, and then nothing is read twice.
    let begins =
        |argument: &Vec<u8>| [&b"-C"[..], b"-di", b"--di"].iter().any(|one| argument.starts_with(one));
    if !all.iter().any(begins) {
        return;
    }
    let Some(directory) = last_directory(all) else { return };
    let entered = match environment.enter {
        Some(enter) => enter(&path(directory)),
        None => Err(std::io::ErrorKind::Unsupported.into()),
    };
    if let Err(error) = entered {
        let message = format!("cannot change to the directory {}: {error}", shown(directory));
        state.report(Diagnostic::error(Code::BadOption, message).at(Location::Argument("-C".into())));
    }
}

/// The value of the last `-C`.
fn last_directory(all: &[Vec<u8>]) -> Option<&[u8]> {
    let mut directory = None;
    let mut rest = all.iter().map(Vec::as_slice).take_while(|argument| *argument != b"--");
    while let Some(argument) = rest.next() {
        let written = argument.starts_with(b"-").then(|| written_option(argument)).flatten();
        let Some(written) = written else { continue };
        let value = if written.takes_next { rest.next() } else { written.value };
        if written.name == "C" {
            directory = value.or(directory);
        }
    }
    directory
}

fn take_arguments(state: &mut State<'_>, all: &[Vec<u8>]) {
    let mut rest = all.iter().map(Vec::as_slice);
    let mut only_files = false;
    while let Some(argument) = rest.next() {
        state.argument = shown(argument).into_owned();
        state.argument_index = state.argument_index.saturating_add(1);
        if only_files || argument == b"-" || !argument.starts_with(b"-") {
            state.add_file(argument);
        } else if argument == b"--" {
            only_files = true;
        } else {
            match recognise(argument) {
                Recognised::Option(written) => take_option(state, &written, &mut rest),
                Recognised::Refused(refused) => report_refused(state, argument, refused),
                Recognised::Ambiguous(names) => report_ambiguous(state, argument, &names),
                Recognised::Unknown => report_unknown(state, argument),
            }
        }
    }
}

/// An option as it was written.
struct Written<'a> {
    spec: &'static OptionSpec,
    /// The name that was used.
    name: String,
    /// The value in the same argument.
    value: Option<&'a [u8]>,
}

/// An option of a command line that this program does not carry out, but passes on.
pub struct WrittenOption<'a> {
    /// The first of the option's names in `--help`, whichever was used.
    pub name: &'static str,
    /// The value in the same argument.
    pub value: Option<&'a [u8]>,
    /// Whether the next argument is the value.
    pub takes_next: bool,
    /// What it reaches outside of the link.
    pub reach: Reach,
}

/// The option that an argument is, as [`parse`] would take it.
pub fn written_option(argument: &[u8]) -> Option<WrittenOption<'_>> {
    let Recognised::Option(Written { spec, value, .. }) = recognise(argument) else { return None };
    let takes_next = spec.needs_value() && value.is_none();
    spec.names.first().map(|name| WrittenOption { name, value, takes_next, reach: spec.reach })
}

/// The kind of an argument that starts with a dash.
enum Recognised<'a> {
    Option(Written<'a>),
    Refused(&'static Refused),
    /// The argument is the beginning of several names.
    Ambiguous(Vec<&'static str>),
    Unknown,
}

/// Finds the option that an argument is. It looks for a whole long name first, then for a single letter, then
/// for the beginning of a long name.
fn recognise(argument: &[u8]) -> Recognised<'_> {
    let (text, two_dashes) = match argument.strip_prefix(b"--") {
        Some(text) => (text, true),
        None => (argument.strip_prefix(b"-").unwrap_or(argument), false),
    };
    let may_be_long = two_dashes || allows_single_dash(&shown(text));
    if may_be_long && let Some(written) = recognise_long(text) {
        return Recognised::Option(written);
    }
    let (name, _) = split_value(text);
    if may_be_long
        && name.len() > 1
        && let Some(refused) = table::find_refused(name)
    {
        return Recognised::Refused(refused);
    }
    let other = if two_dashes { recognise_family(text) } else { recognise_short(text) };
    if let Some(written) = other {
        return Recognised::Option(written);
    }
    let cut_short = may_be_long && table::find(name).is_none();
    match if cut_short { recognise_abbreviation(text) } else { Recognised::Unknown } {
        Recognised::Unknown if !two_dashes => refused_letter(text),
        found => found,
    }
}

/// Finds the only option that an abbreviated name can stand for.
fn recognise_abbreviation(text: &[u8]) -> Recognised<'_> {
    let (name, value) = split_value(text);
    // A single letter is not an abbreviation.
    let mut names = if name.len() > 1 { table::completions(name) } else { Vec::new() };
    if let [name] = names[..] {
        if let Some(refused) = table::find_refused(name.as_bytes()) {
            return Recognised::Refused(refused);
        }
        let spec = table::find(name.as_bytes()).filter(|spec| value.is_none() || spec.takes_value());
        return match spec {
            Some(spec) => Recognised::Option(Written { spec, name: name.to_string(), value }),
            None => Recognised::Unknown,
        };
    }
    if names.is_empty() {
        return Recognised::Unknown;
    }
    names.sort_unstable();
    Recognised::Ambiguous(names)
}

/// A refused option of one letter, with its value joined.
fn refused_letter(text: &[u8]) -> Recognised<'_> {
    text.get(..1).and_then(table::find_refused).map_or(Recognised::Unknown, Recognised::Refused)
}

/// Splits a text at its first `=`.
fn split_value(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'=') {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    }
}

fn recognise_long(text: &[u8]) -> Option<Written<'_>> {
    let (name, value) = split_value(text);
    let spec = if name.len() > 1 { table::find(name)? } else { return None };
    let fits = value.is_none() || spec.takes_value();
    fits.then(|| Written { spec, name: shown(name).into_owned(), value })
}

fn recognise_family(text: &[u8]) -> Option<Written<'_>> {
    table::find_prefix(text).map(|spec| Written { spec, name: shown(text).into_owned(), value: None })
}

fn recognise_short(text: &[u8]) -> Option<Written<'_>> {
    let spec = table::find(text.get(..1)?)?;
    let value = Some(&text[1..]).filter(|value| !value.is_empty());
    let fits = value.is_none() || spec.needs_value();
    fits.then(|| Written { spec, name: shown(&text[..1]).into_owned(), value })
}

fn take_option<'a>(state: &mut State<'_>, written: &Written<'a>, rest: &mut impl Iterator<Item = &'a [u8]>) {
    let mut value = written.value;
    if written.spec.needs_value() && value.is_none() {
        value = rest.next();
        let Some(separate) = value else {
            let message = format!("option '{}' requires an argument", state.argument);
            let example = format!("write {} {}", dashed(&written.name), written.spec.value_name);
            state.report(Diagnostic::error(Code::BadOption, message).help(example.trim_end()));
            return;
        };
        state.argument_index = state.argument_index.saturating_add(1);
        state.argument = format!("{} {}", state.argument, shown(separate));
    }
    if let Err(wrong) = carry_out(state, written.spec.effect, value) {
        state.report(Diagnostic::error(Code::BadOption, wrong).at(state.place()));
    }
}

fn carry_out(state: &mut State<'_>, effect: Effect, value: Option<&[u8]>) -> Outcome {
    match effect {
        Effect::Flag(apply) => apply(state),
        Effect::Positional(apply) => apply(state)?,
        Effect::Value(apply) => apply(state, value.unwrap_or_default())?,
        Effect::Optional(apply) => apply(state, value)?,
        Effect::IgnoredFlag | Effect::IgnoredValue | Effect::IgnoredOptional | Effect::IgnoredPrefix => {}
    }
    Ok(())
}

fn report_unknown(state: &State<'_>, argument: &[u8]) {
    let mut error = unrecognized(argument);
    let text = shown(argument);
    if let Some(help) = for_compilers(&text).or_else(|| suggestion(&text)) {
        error = error.help(help);
    }
    state.report(error.help("use the --help option for usage information"));
}

fn unrecognized(argument: &[u8]) -> Diagnostic {
    Diagnostic::error(Code::BadOption, format!("unrecognized option '{}'", shown(argument)))
}

fn report_refused(state: &State<'_>, argument: &[u8], refused: &Refused) {
    state.report(unrecognized(argument).note(refused.why));
}

fn report_ambiguous(state: &State<'_>, argument: &[u8], names: &[&str]) {
    let (written, _) = split_value(argument);
    let names: Vec<String> = names.iter().map(|name| format!("'{}'", dashed(name))).collect();
    let message = format!("option '{}' is ambiguous; possibilities: {}", shown(written), names.join(" "));
    state.report(Diagnostic::error(Code::BadOption, message).help("write the name in full"));
}

/// What helps if the argument is one for compilers, which start the linker with other words.
fn for_compilers(text: &str) -> Option<String> {
    if let Some(words) = text.strip_prefix("-Wl,") {
        return Some(format!(
            "-Wl, is for compilers, which hand on what follows: write {}",
            words.replace(',', " ")
        ));
    }
    let is_for_compilers = OF_COMPILERS.iter().any(|option| text.starts_with(option));
    is_for_compilers.then(|| format!("{text} is for compilers: link with the compiler, or leave it out"))
}

/// How options of compilers begin that people hand to the linker. No option of the linker begins so.
const OF_COMPILERS: [&str; 12] = [
    "-D",
    "-W",
    "-ggdb",
    "-include",
    "-isystem",
    "-nodefaultlibs",
    "-nostartfiles",
    "-pg",
    "-pipe",
    "-pthread",
    "-static-lib",
    "-std=",
];

/// A known option that is close to one that does not exist.
fn suggestion(text: &str) -> Option<String> {
    let (written, value) = match text.split_once('=') {
        Some((written, value)) => (written, Some(value)),
        None => (text, None),
    };
    let name = written.trim_start_matches('-');
    if let Some(option) = table::find(name.as_bytes()) {
        let exact = dashed(name);
        return Some(match value {
            Some(_) if !option.takes_value() => format!("{exact} takes no value"),
            _ => format!("did you mean '{exact}'?"),
        });
    }
    let names = table::all().flat_map(|option| option.names).copied().filter(|name| name.len() > 1);
    nearest(name, names).map(|near| format!("did you mean '{}'?", dashed(near)))
}

/// Decides whether to print or to link.
fn finish(mut state: State<'_>, sink: &Sink) -> Result<Invocation, Aborted> {
    let requests = std::mem::take(&mut state.requests);
    let program = state.config.program.clone();
    let (mut config, inputs) = resolve(state);
    let only_prints = requests.prints(inputs.is_empty());
    if config.needs_32_bit_linker.is_some() && !config.no_fallback && !only_prints {
        // Another linker checks the options then.
        return Ok(Invocation::Link(Box::new(config), inputs));
    }
    sink.checkpoint()?;

    if requests.help {
        return Ok(Invocation::Print(help_text(&program)));
    }
    if requests.version {
        return Ok(Invocation::Print(version_text(requests.identity)));
    }
    if requests.sysroot {
        let sysroot = config.search.sysroot.as_deref().unwrap_or("".as_ref());
        return Ok(Invocation::Print(format!("{}\n", sysroot.display())));
    }
    if requests.output_format {
        return Ok(Invocation::Print(format!("{}\n", format_name(&config))));
    }
    if requests.short_version || requests.emulations {
        let mut banner = format!("{}\n", requests.identity.version_line());
        if requests.emulations {
            banner.push_str("  Supported emulations:\n");
            banner.extend(emulation_names().iter().map(|name| format!("   {name}\n")));
        }
        if inputs.is_empty() {
            return Ok(Invocation::Print(banner));
        }
        config.banner = Some(banner);
    }
    let may_lack_inputs = config.reports.verbose || !config.scripts.scripts.is_empty();
    if inputs.is_empty() && !may_lack_inputs {
        sink.report(
            Diagnostic::error(Code::NoInput, "no input files")
                .help("use the --help option for usage information"),
        );
        sink.checkpoint()?;
    }
    Ok(Invocation::Link(Box::new(config), inputs))
}

fn format_name(config: &Config) -> &'static str {
    use super::config::OutputFormat;
    if config.output_format == OutputFormat::Binary {
        return "binary";
    }
    let target = TARGETS.iter().find(|&&(_, machine)| Some(machine) == config.machine);
    target.or(TARGETS.first()).map_or("", |&(name, _)| name)
}
