//! Reads the scripts of the link, and joins them into one layout plan.
//!
//! There is always a main script: the one of `-T`, or the built-in one for the kind of output (`-dT` names
//! another). Scripts among the inputs and `--defsym` add to it. This pass also takes their directives about
//! symbols (entry, references), because the search for definitions needs them.

use crate::cli::{
    Config, Magic, OutputFormat, OutputMode, SeparateCode, TARGETS, is_32_bit, is_32_bit_architecture,
};
use crate::diag::{Code, Diagnostic, Sink};
use crate::input::InputSource;
use crate::input::side_files::{OptionFiles, read_include};
use crate::passes::{read_orders, read_versions};
use crate::phase::{Directives, Session};
use crate::plan::LayoutPlan;
use crate::plan::Scripts;
use crate::script::ast::{Command, Script};
use crate::script::builtin::{Layout as BuiltIn, Order};
use crate::script::{Include, Sources, Span, parse_defsym, parse_mri_script, parse_script};
use crate::symbols::Globals;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The scripts that options name. They are read before any input, because they may name inputs and the
/// output.
#[derive(Default)]
pub struct MainScripts {
    /// The scripts of `-T`, in order.
    pub replacing: Vec<MainScript>,
    /// The script of `-dT`.
    default: Option<Script>,
    paths: Vec<PathBuf>,
}

/// A script of `-T`.
pub struct MainScript {
    /// The path that it was read from.
    pub path: PathBuf,
    /// Its commands.
    pub script: Script,
    /// Number of inputs before it on the command line.
    pub inputs_before: usize,
}

/// Reads the scripts of `-T` and `-dT`.
pub fn open(config: &Config, source: &dyn InputSource, sources: &mut Sources, sink: &Sink) -> MainScripts {
    let mut main = MainScripts::default();
    let mut files = OptionFiles { source, sources, sink, paths: &mut main.paths };
    for file in &config.scripts.scripts {
        let found = main_script(
            config,
            &mut files,
            &file.path,
            if file.mri { parse_mri_script } else { parse_script },
        );
        let inputs_before = file.inputs_before;
        main.replacing.extend(found.map(|(path, script)| MainScript { path, script, inputs_before }));
    }
    let default = config.scripts.default_script.as_ref().filter(|_| config.scripts.scripts.is_empty());
    main.default = default.map(|path| {
        main_script(config, &mut files, path, parse_script).map(|(_, script)| script).unwrap_or_default()
    });
    main
}

/// Applies the commands of `-T` scripts that act like options: name and format of the output, and the map.
/// Also settles what the format implies.
pub fn configure<'c>(config: &'c Config, main: &MainScripts) -> Cow<'c, Config> {
    let mut config = Cow::Borrowed(config);
    for command in main.replacing.iter().flat_map(|main| &main.script.commands) {
        match command {
            Command::Output(name) if !config.output_given => {
                config.to_mut().output = PathBuf::from(OsStr::from_bytes(&name.bytes));
            }
            Command::OutputFormat { default, .. } if *default.bytes == *b"binary" => {
                config.to_mut().output_format = OutputFormat::Binary;
            }
            Command::PrintMap => config.to_mut().reports.print_map = true,
            _ => {}
        }
    }
    if config.output_format == OutputFormat::Binary {
        // A binary image has no headers and no tables about itself.
        config.to_mut().layout.no_section_headers = true;
    }
    config
}

/// The command of a `-T` script that asks for an output with 32 bits. Scripts among the inputs do not count:
/// on systems whose compilers serve several machines, another machine's libraries may be such scripts.
pub fn needs_32_bit_linker(config: &Config, main: &MainScripts) -> Option<String> {
    if config.output_format == OutputFormat::Binary {
        return None;
    }
    let of_command = |command: &Command| match command {
        Command::OutputFormat { default, .. } if is_32_bit(&default.bytes) => {
            Some(format!("OUTPUT_FORMAT({})", default.text()))
        }
        Command::OutputArch(name) if is_32_bit_architecture(&name.bytes) => {
            Some(format!("OUTPUT_ARCH({})", name.text()))
        }
        _ => None,
    };
    let of_script = |main: &MainScript| {
        let command = main.script.commands.iter().find_map(of_command)?;
        Some(format!("{command} of {}", main.path.display()))
    };
    main.replacing.iter().find_map(of_script)
}

/// Joins all scripts into the layout plan, and collects what scripts and lists say about symbols.
/// `augmenting` has the scripts among the inputs, already parsed into `sources`, each with the number of
/// inputs before it. The arguments are borrowed, because objects may name libraries that are scripts, and
/// then the caller calls this again.
pub fn run<'a>(
    session: Session<'a>,
    main: &MainScripts,
    augmenting: &[(usize, Script)],
    sources: &Sources,
    source: &dyn InputSource,
) -> (Directives<'a>, LayoutPlan) {
    let Session { config, sink, store, .. } = session;
    let (mut sources, mut paths) = (sources.clone(), main.paths.clone());
    let mut scripts = Scripts {
        augmenting: augmenting.to_vec(),
        own_default: main.default.is_some(),
        replacing: main.replacing.iter().map(|main| (main.inputs_before, main.script.clone())).collect(),
        ..Scripts::default()
    };
    scripts.builtin =
        main.default.clone().unwrap_or_else(|| built_in(config).script(built_in_order(config), &mut sources));
    for defsym in &config.symbols.defsyms {
        let text = [&defsym.name[..], b"=", defsym.expression.as_bytes()].concat();
        match parse_defsym(&mut sources, "--defsym", &text) {
            Ok(assignment) => scripts.defsyms.push((defsym.clone(), assignment)),
            Err(found) => found.into_iter().for_each(|diagnostic| sink.report(diagnostic)),
        }
    }
    let mut files = OptionFiles { source, sources: &mut sources, sink, paths: &mut paths };
    let lists = read_versions::run(session, &version_commands(&scripts), &mut files);
    let (orders, ordered) = read_orders::run(session, &mut files);
    scripts.orders = ordered;
    report_formats(&scripts.replacing, &sources, sink);
    scripts.sources = sources;
    let (plan, found) = LayoutPlan::new(scripts, config);
    found.into_iter().for_each(|diagnostic| sink.report(diagnostic));
    let referenced = plan.referenced_symbols(&|_| false);
    let names = referenced.into_iter().chain(&plan.undefined);
    let script_references = names.map(|name| store.keep(&name.bytes[..])).collect();
    let entry = entry(config, &plan);
    (Directives { session, entry, script_references, script_paths: paths, lists, orders }, plan)
}

/// Reports unknown formats in `OUTPUT_FORMAT` and `TARGET`. Any `elf…` is accepted, because inputs of another
/// machine get a report of their own.
fn report_formats(scripts: &[(usize, Script)], sources: &Sources, sink: &Sink) {
    for command in scripts.iter().flat_map(|(_, script)| &script.commands) {
        let (format, of, help) = match command {
            Command::OutputFormat { default, .. } => {
                (default, "output ", "and binary; objcopy makes others of them")
            }
            Command::Target(format) => (format, "", "and binary"),
            _ => continue,
        };
        let known = matches!(&format.bytes[..], b"binary" | b"default") || format.bytes.starts_with(b"elf");
        if !known {
            let message = format!("unknown {of}format `{}'", format.text());
            let formats: Vec<&str> = TARGETS.iter().map(|&(name, _)| name).collect();
            let help = format!("the formats are {} {help}", formats.join(", "));
            let finding = Diagnostic::error(Code::ScriptError, message).at(sources.location(format.span));
            sink.report(finding.help(help));
        }
    }
}

/// The `VERSION` commands of all scripts.
fn version_commands(scripts: &Scripts) -> Vec<Span> {
    let replacing = scripts.replacing.iter().map(|(_, script)| script);
    let augmenting = scripts.augmenting.iter().map(|(_, script)| script);
    let all = replacing.chain([&scripts.builtin]).chain(augmenting);
    all.flat_map(|script| &script.commands)
        .filter_map(|command| match command {
            Command::Version(span) => Some(*span),
            _ => None,
        })
        .collect()
}

/// The built-in script of a kind of output.
pub fn built_in(config: &Config) -> BuiltIn {
    match config.mode {
        OutputMode::Executable { pie: false } => BuiltIn::Static,
        OutputMode::Executable { pie: true } => BuiltIn::Pie,
        OutputMode::Shared => BuiltIn::Shared,
        OutputMode::Relocatable => BuiltIn::Relocatable,
    }
}

/// The order of the built-in script. As in GNU ld, `--rosegment` has no effect if `-z noseparate-code` lets
/// code share pages with data.
pub fn built_in_order(config: &Config) -> Order {
    let layout = &config.layout;
    Order {
        rosegment: layout.rosegment == Some(true) && layout.separate_code != Some(SeparateCode::No),
        text_parts: layout.text_parts,
        large_constants_first: layout.large_constants_first,
        one_got: config.dynamic.bind_now && layout.relro && layout.magic != Magic::OMagic,
    }
}

/// The parser of a script's language.
type Parse = fn(&mut Sources, &str, &[u8], &mut Include<'_>) -> Result<Script, Vec<Diagnostic>>;

/// Reads a script that an option names. Its path is the given one, or it is found in the first `-L` directory
/// that has it.
fn main_script(
    config: &Config,
    files: &mut OptionFiles<'_>,
    path: &Path,
    parse: Parse,
) -> Option<(PathBuf, Script)> {
    let directories = &config.search.directories;
    let (name, text) = files.find(path, directories, "linker script file")?;
    let source = files.source;
    let mut include = |name: &str, _: &str| read_include(source, directories, name);
    let parsed = parse(files.sources, &name, &text, &mut include);
    Some((name.into(), files.accept(parsed)?))
}

/// Takes `_start` for the entry if neither a script nor an option names one and no file or script knows GNU
/// ld's default, `start`. As the entry, the symbol is a root of garbage collection.
pub fn choose_entry(directives: &mut Directives<'_>, plan: &LayoutPlan, globals: &Globals<'_>) {
    let config = directives.session.config;
    let is_default = config.symbols.entry.is_none() && plan.entry.is_none() && plan.replaces_default;
    let is_known = |name: &[u8]| {
        globals.lookup(name).is_some() || plan.symbols().iter().any(|symbol| symbol.name == name)
    };
    if is_default && !config.is_relocatable() && !is_known(b"start") {
        directives.entry = b"_start".to_vec();
    }
}

/// The entry symbol's name.
fn entry(config: &Config, plan: &LayoutPlan) -> Vec<u8> {
    match (&config.symbols.entry, &plan.entry) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.bytes.to_vec(),
        (None, None) if config.is_relocatable() => Vec::new(),
        // This is GNU ld's own default. Its built-in scripts override it.
        (None, None) if plan.replaces_default => b"start".to_vec(),
        (None, None) => b"_start".to_vec(),
    }
}
