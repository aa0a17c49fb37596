//! Which version each definition of the output has.
//!
//! A version script names symbols by pattern; a definition that carries a version of its own
//! (`.symver`, `name@VERSION` and `name@@VERSION`) keeps that. What a script lists under `local:`
//! gets version 0 and is not exported. References are not looked at: their versions are those of
//! the libraries that define them.

use crate::arch::Target;
use crate::diag::demangle::demangle;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::shared::VERSION_HIDDEN;
use crate::link::Link;
use crate::script::Span;
use crate::symbols::Definition;
use crate::symbols::versions::{FIRST_VERSION, VersionDefinition};
use rayon::prelude::*;

/// Fills [`crate::symbols::SymbolTable::versions`] and the versions that the output defines.
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    link.symbols.versions = vec![elf::VER_NDX_GLOBAL; link.symbols.global_count()];
    if link.config.is_relocatable() {
        return;
    }
    define_versions(link);
    if !link.versions.script.is_empty() || link.config.symbols.default_symver {
        assign_by_script(link);
    }
    assign_own_versions(link);
    mark_unused(link);
    if !link.config.symbols.allow_undefined_version {
        report_undefined(link);
    }
}

/// The versions of scripts, in their order. `--default-symver` puts one in front of them that has
/// the output's own name.
fn define_versions<T: Target>(link: &mut Link<'_, T>) {
    let mut definitions = Vec::new();
    if link.config.symbols.default_symver {
        let name = link.store.keep(link.config.output_name());
        definitions.push(VersionDefinition { name, parents: Vec::new(), weak: false });
    }
    let keep = |name: &[u8]| link.store.keep(name);
    for node in &link.versions.script.nodes {
        let Some(name) = &node.name else { continue };
        let parents = node.depends.iter().map(|parent| keep(&parent.bytes)).collect();
        definitions.push(VersionDefinition { name: keep(&name.bytes), parents, weak: false });
    }
    if definitions.len() >= usize::from(VERSION_HIDDEN - FIRST_VERSION) {
        link.sink.report(Diagnostic::error(
            Code::VersionScript,
            format!("{} versions are more than .gnu.version can number", definitions.len()),
        ));
        definitions.clear();
    }
    link.versions.definitions = definitions;
}

fn assign_by_script<T: Target>(link: &mut Link<'_, T>) {
    let mut words = std::mem::take(&mut link.symbols.versions);
    let (symbols, versions) = (&link.symbols, &link.versions);
    // By node: the index of its version, 1 for the anonymous node.
    let index_of: Vec<u16> = versions
        .script
        .nodes
        .iter()
        .map(|node| match &node.name {
            Some(name) => versions.index_of(&name.bytes).unwrap_or(elf::VER_NDX_GLOBAL),
            None => elf::VER_NDX_GLOBAL,
        })
        .collect();
    let unlisted = if link.config.symbols.default_symver { FIRST_VERSION } else { elf::VER_NDX_GLOBAL };
    words.par_iter_mut().enumerate().with_min_len(1024).for_each(|(row, word)| {
        let id = SymbolId(row as u32);
        if !matches!(symbols.definition(id), Definition::Object { .. } | Definition::Linker(_)) {
            return;
        }
        *word = match versions.matcher.find(symbols.names[row]) {
            Some(found) if found.local => elf::VER_NDX_LOCAL,
            Some(found) => index_of.get(found.node as usize).copied().unwrap_or(unlisted),
            None => unlisted,
        };
    });
    link.symbols.versions = words;
}

/// Definitions that carry a version.
fn assign_own_versions<T: Target>(link: &mut Link<'_, T>) {
    let mut words = std::mem::take(&mut link.symbols.versions);
    let executable = !link.config.is_shared();
    for object in &link.objects {
        for versioned in &object.versioned {
            let id = object.symbol_id(versioned.symbol);
            let owned = Definition::Object { file: object.id, symbol: versioned.symbol };
            if link.symbols.definition(id) != owned {
                continue;
            }
            let mut index = link.versions.index_of(versioned.version);
            if index.is_none() && executable {
                // An executable's versions need no script: nothing is built against them.
                let definition =
                    VersionDefinition { name: versioned.version, parents: Vec::new(), weak: false };
                link.versions.definitions.push(definition);
                index = link.versions.index_of(versioned.version);
            }
            match index {
                Some(index) => {
                    words[id.index()] = index | if versioned.default { 0 } else { VERSION_HIDDEN };
                }
                None => {
                    let name = String::from_utf8_lossy(object.symbol_name(versioned.symbol as usize));
                    link.sink.report(
                        Diagnostic::error(
                            Code::UndefinedVersion,
                            format!("version node not found for symbol {name}"),
                        )
                        .note(format!("defined in {}", object.name))
                        .help(format!(
                            "define the version in a version script: {} {{ … }};",
                            String::from_utf8_lossy(versioned.version)
                        ))
                        .ordered(object.id.0, 0, versioned.symbol.into()),
                    );
                }
            }
        }
    }
    link.symbols.versions = words;
}

/// A version whose node lists nothing and that no symbol has is only there to be followed by
/// others.
fn mark_unused<T: Target>(link: &mut Link<'_, T>) {
    let lists_nothing: Vec<usize> = link
        .versions
        .definitions
        .iter()
        .enumerate()
        .filter(|(_, definition)| {
            link.versions.script.nodes.iter().any(|node| {
                node.name.as_ref().is_some_and(|name| *name.bytes == *definition.name)
                    && node.global.is_empty()
                    && node.local.is_empty()
            })
        })
        .map(|(row, _)| row)
        .collect();
    for row in lists_nothing {
        let index = row as u16 + FIRST_VERSION;
        let used = link.symbols.versions.par_iter().any(|word| word & !VERSION_HIDDEN == index);
        link.versions.definitions[row].weak = !used;
    }
}

/// `--no-undefined-version`: names of the script that nothing defines.
fn report_undefined<T: Target>(link: &Link<'_, T>) {
    let sources = &link.layout.plan.sources;
    for (node, name, span) in link.versions.script.exact_globals() {
        let version = link.versions.script.nodes.get(node as usize).and_then(|node| node.name.as_ref());
        let version = version.map_or(&b""[..], |name| &name.bytes);
        let own = [&name[..], b"@", version].concat();
        if !is_defined(link, &name) && !is_defined(link, &own) {
            link.sink.report_recoverable(undefined(sources, version, &name, span));
        }
    }
}

fn undefined(sources: &crate::script::Sources, version: &[u8], name: &[u8], span: Span) -> Diagnostic {
    let version = match version {
        b"" => "global".into(),
        name => String::from_utf8_lossy(name),
    };
    Diagnostic::error(
        Code::UndefinedVersion,
        format!(
            "version script assignment of '{version}' to symbol '{}' failed: symbol not defined",
            demangle(name)
        ),
    )
    .at(sources.location(span))
    .ordered(span.file, 0, span.start.into())
    .help("--undefined-version accepts names that do not exist")
}

fn is_defined<T: Target>(link: &Link<'_, T>, name: &[u8]) -> bool {
    link.symbols.lookup(name).is_some_and(|id| {
        matches!(link.symbols.definition(id), Definition::Object { .. } | Definition::Linker(_))
    })
}
