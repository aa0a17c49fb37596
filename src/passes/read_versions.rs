//! Reads version scripts and symbol lists: `--version-script`, `VERSION { … }` of linker scripts,
//! `--dynamic-list` and related options, and `--retain-symbols-file`.
//!
//! Version scripts and lists of dynamic symbols are also looked for in the directories of libraries, as GNU
//! ld and gold do. The list of symbols to retain is not.

use crate::cli::Config;
use crate::diag::Diagnostic;
use crate::input::side_files::OptionFiles;
use crate::phase::{Lists, Session};
use crate::script::version::{
    Language, SymbolPattern, VersionMatcher, VersionScript, parse_dynamic_list, parse_symbol_names,
    parse_version_command, parse_version_script,
};
use crate::script::{Sources, Span, ast::Name};
use crate::symbols::NameList;
use std::path::Path;

/// Reads all lists that options name. `commands` has the `VERSION` commands of linker scripts.
pub fn run(session: Session<'_>, commands: &[Span], files: &mut OptionFiles<'_>) -> Lists {
    let Session { config, sink, .. } = session;
    let mut script = VersionScript::default();
    for &command in commands {
        let parsed = parse_version_command(files.sources, command);
        script.append(files.accept(parsed).unwrap_or_default());
    }
    let options = &config.scripts;
    for path in &options.version_scripts {
        script.append(parsed(config, files, path, "version script", parse_version_script));
    }
    script.check(files.sources).into_iter().for_each(|finding| sink.report(finding));
    let mut lists =
        Lists { version_matcher: VersionMatcher::new(&script), version_script: script, ..Lists::default() };

    let mut listed: Vec<SymbolPattern> = Vec::new();
    for path in &options.dynamic_lists {
        listed.extend(parsed(config, files, path, "dynamic list", parse_dynamic_list));
    }
    listed.extend(cxx_patterns(config));
    for path in &options.export_lists {
        listed.extend(parsed(config, files, path, "list of symbols to export", parse_dynamic_list));
    }
    listed.extend(config.symbols.export_symbols.iter().map(|name| SymbolPattern::plain(name)));
    lists.dynamic = (!listed.is_empty()).then(|| NameList::new(&listed));
    // These options, unlike --export-dynamic-symbol, bind definitions inside the output if no list names
    // them.
    let symbols = &config.symbols;
    lists.dynamic_is_exclusive = !options.dynamic_lists.is_empty()
        || symbols.dynamic_list_data
        || symbols.dynamic_list_cpp_new
        || symbols.dynamic_list_cpp_typeinfo;

    if let Some(path) = &options.retain_symbols {
        let kind = "list of symbols to retain";
        let names = files.read(path, kind).and_then(|text| {
            let parsed = parse_symbol_names(files.sources, &path.to_string_lossy(), &text);
            files.accept(parsed)
        });
        lists.retained = Some(NameList::new(&names.unwrap_or_default()));
    }
    lists
}

/// The parsed contents of a file, which is named by path or found in a `-L` directory. If it cannot be read
/// or parsed, this reports it and returns the empty default.
fn parsed<R: Default>(
    config: &Config,
    files: &mut OptionFiles<'_>,
    path: &Path,
    kind: &str,
    parse: impl Fn(&mut Sources, &str, &[u8]) -> Result<R, Vec<Diagnostic>>,
) -> R {
    let Some((name, text)) = files.find(path, &config.search.directories, kind) else {
        return R::default();
    };
    let parsed = parse(files.sources, &name, &text);
    files.accept(parsed).unwrap_or_default()
}

/// The patterns of `--dynamic-list-cpp-new` and `--dynamic-list-cpp-typeinfo`.
fn cxx_patterns(config: &Config) -> Vec<SymbolPattern> {
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
