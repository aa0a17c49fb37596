//! Reads version scripts and symbol lists: `--version-script`, `VERSION { … }` of linker scripts,
//! `--dynamic-list` and its kin, `--retain-symbols-file`.

use crate::diag::{Code, Diagnostic};
use crate::input::InputSource;
use crate::phase::{Lists, Session};
use crate::script::version::{
    Language, SymbolPattern, VersionMatcher, VersionScript, parse_dynamic_list, parse_symbol_names,
    parse_version_command, parse_version_script,
};
use crate::script::{Sources, Span, ast::Name};
use crate::symbols::NameList;
use std::path::{Path, PathBuf};

/// Reads them. `commands` are the `VERSION` commands of linker scripts; the files that are read are
/// added to `paths`.
pub fn run(
    session: Session<'_>,
    commands: &[Span],
    sources: &mut Sources,
    source: &dyn InputSource,
    paths: &mut Vec<PathBuf>,
) -> Lists {
    let Session { config, sink, .. } = session;
    let mut reader = Reader { sources, source, found: Vec::new(), paths };
    let mut script = VersionScript::default();
    for &command in commands {
        let parsed = parse_version_command(reader.sources, command);
        script.append(reader.accept(parsed).unwrap_or_default());
    }
    let options = &config.scripts;
    for path in &options.version_scripts {
        script.append(reader.read(path, "version script", parse_version_script).unwrap_or_default());
    }
    let wrong = script.check(reader.sources);
    reader.found.extend(wrong);
    let mut lists =
        Lists { version_matcher: VersionMatcher::new(&script), version_script: script, ..Lists::default() };

    let mut listed: Vec<SymbolPattern> = Vec::new();
    for path in &options.dynamic_lists {
        listed.extend(reader.read(path, "dynamic list", parse_dynamic_list).unwrap_or_default());
    }
    listed.extend(cxx_patterns(config));
    for path in &options.export_lists {
        listed.extend(reader.read(path, "list of symbols to export", parse_dynamic_list).unwrap_or_default());
    }
    listed.extend(config.symbols.export_symbols.iter().map(|name| SymbolPattern::plain(name)));
    lists.dynamic = (!listed.is_empty()).then(|| NameList::new(&listed));
    // Unlike --export-dynamic-symbol, these bind every definition that they do not name.
    let symbols = &config.symbols;
    lists.dynamic_is_exclusive = !options.dynamic_lists.is_empty()
        || symbols.dynamic_list_data
        || symbols.dynamic_list_cpp_new
        || symbols.dynamic_list_cpp_typeinfo;

    if let Some(path) = &options.retain_symbols {
        let names = reader.read(path, "list of symbols to retain", parse_symbol_names).unwrap_or_default();
        lists.retained = Some(NameList::new(&names));
    }
    reader.found.into_iter().for_each(|diagnostic| sink.report(diagnostic));
    lists
}

/// `--dynamic-list-cpp-new` and `--dynamic-list-cpp-typeinfo`.
fn cxx_patterns(config: &crate::cli::Config) -> Vec<SymbolPattern> {
    let mut texts: Vec<&[u8]> = Vec::new();
    if config.symbols.dynamic_list_cpp_new {
        texts.extend([&b"operator new*"[..], b"operator delete*"]);
    }
    if config.symbols.dynamic_list_cpp_typeinfo {
        texts.extend([&b"typeinfo for*"[..], b"typeinfo name for*"]);
    }
    let pattern = |text: &[u8]| SymbolPattern {
        name: Name { bytes: text.into(), span: Span::default() },
        language: Language::Cxx,
        quoted: false,
    };
    texts.into_iter().map(pattern).collect()
}

struct Reader<'r> {
    sources: &'r mut Sources,
    source: &'r dyn InputSource,
    found: Vec<Diagnostic>,
    paths: &'r mut Vec<PathBuf>,
}

impl Reader<'_> {
    fn read<R>(
        &mut self,
        path: &Path,
        what: &str,
        parse: impl Fn(&mut Sources, &str, &[u8]) -> Result<R, Vec<Diagnostic>>,
    ) -> Option<R> {
        match self.source.read(path) {
            Ok(text) => {
                self.paths.push(path.to_path_buf());
                let parsed = parse(self.sources, &path.to_string_lossy(), &text);
                self.accept(parsed)
            }
            Err(error) => {
                let reason = match error.kind() {
                    std::io::ErrorKind::NotFound => "No such file or directory".to_string(),
                    _ => error.to_string(),
                };
                let message = format!("cannot open {what} {}: {reason}", path.display());
                self.found.push(Diagnostic::error(Code::CannotOpen, message));
                None
            }
        }
    }

    fn accept<R>(&mut self, parsed: Result<R, Vec<Diagnostic>>) -> Option<R> {
        match parsed {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.found.extend(wrong);
                None
            }
        }
    }
}
