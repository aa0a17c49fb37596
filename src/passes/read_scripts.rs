//! The scripts of the link, joined into one layout plan.
//!
//! There is always a main script: that of `-T`, or the built-in one of the kind of output (`-dT`
//! names another). Scripts among the inputs and `--defsym` add to it. What scripts say about
//! symbols (entry, references) is noted here, because the search for definitions must know it.

use crate::arch::Target;
use crate::cli::{Config, OutputMode};
use crate::diag::{Code, Diagnostic};
use crate::input::InputSource;
use crate::layout::LayoutPlan;
use crate::layout::plan::Scripts;
use crate::link::Link;
use crate::passes::open_inputs::read_include;
use crate::passes::read_versions;
use crate::script::ast::{Command, Script};
use crate::script::builtin::Layout as BuiltIn;
use crate::script::{Sources, Span, parse_defsym, parse_script};
use std::path::{Path, PathBuf};

/// Reads all scripts and makes the plan. `augmenting` are those among the inputs, already parsed
/// into `sources`.
pub fn run<T: Target>(
    link: &mut Link<'_, T>,
    augmenting: Vec<Script>,
    sources: Sources,
    source: &dyn InputSource,
) {
    let mut reader = Reader { config: link.config, source, sources, found: Vec::new(), paths: Vec::new() };
    let mut scripts = Scripts { augmenting, ..Scripts::default() };
    for path in &link.config.scripts.scripts {
        scripts.replacing.extend(reader.file(path));
    }
    scripts.builtin = match &link.config.scripts.default_script {
        Some(path) => reader.file(path).unwrap_or_default(),
        None => built_in(link.config).script(&mut reader.sources),
    };
    for defsym in &link.config.symbols.defsyms {
        let text = [&defsym.name[..], b"=", defsym.expression.as_bytes()].concat();
        match parse_defsym(&mut reader.sources, "--defsym", &text) {
            Ok(assignment) => scripts.defsyms.push(assignment),
            Err(found) => reader.found.extend(found),
        }
    }
    let Reader { mut sources, mut found, paths, .. } = reader;
    link.script_paths = paths;
    read_versions::run(link, &version_commands(&scripts), &mut sources, source);
    scripts.sources = sources;
    let (plan, more) = LayoutPlan::new(scripts, link.config);
    found.extend(more);
    found.into_iter().for_each(|diagnostic| link.sink.report(diagnostic));
    note_symbols(link, &plan);
    link.layout.plan = plan;
}

/// The `VERSION` commands of all scripts.
fn version_commands(scripts: &Scripts) -> Vec<Span> {
    let all = scripts.replacing.iter().chain([&scripts.builtin]).chain(&scripts.augmenting);
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

struct Reader<'r> {
    config: &'r Config,
    source: &'r dyn InputSource,
    sources: Sources,
    found: Vec<Diagnostic>,
    paths: Vec<PathBuf>,
}

impl Reader<'_> {
    /// A script that an option names: as given, or in the first `-L` directory that has it.
    fn file(&mut self, path: &Path) -> Option<Script> {
        let directories = &self.config.search.directories;
        let name = path.to_string_lossy();
        let (found_as, text) = match read_include(self.source, directories, &name) {
            Ok(found) => found,
            Err(reason) => {
                let message = format!("cannot open linker script {}: {reason}", path.display());
                self.found.push(Diagnostic::error(Code::CannotOpen, message));
                return None;
            }
        };
        self.paths.push(PathBuf::from(&found_as));
        let source = self.source;
        let mut include = |name: &str, _: &str| read_include(source, directories, name);
        match parse_script(&mut self.sources, &found_as, &text, &mut include) {
            Ok(script) => Some(script),
            Err(diagnostics) => {
                self.found.extend(diagnostics);
                None
            }
        }
    }
}

/// The entry and what expressions refer to.
fn note_symbols<T: Target>(link: &mut Link<'_, T>, plan: &LayoutPlan) {
    link.entry = match (&link.config.symbols.entry, &plan.entry) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.bytes.to_vec(),
        (None, None) if link.config.is_relocatable() => Vec::new(),
        (None, None) => b"_start".to_vec(),
    };
    let referenced = plan.referenced_symbols(&|_| false);
    let names = referenced.into_iter().chain(&plan.undefined);
    link.script_references = names.map(|name| link.store.keep(&name.bytes[..])).collect();
}
