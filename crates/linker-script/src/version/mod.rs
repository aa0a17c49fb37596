//! Version scripts and dynamic lists.
//!
//! A version script lists the symbols that a library exports, by version, and those that stay local: `V1 {
//! global: f; local: *; };`. It comes from `--version-script`, or from `VERSION { … }` in a linker script.
//! `--dynamic-list` and `--export-dynamic-symbol-list` read lists of patterns in the same language, without
//! versions; `--retain-symbols-file` reads plain names.
//!
//! This file has the trees. `parse` makes them, and `matcher` finds the node that a symbol belongs to.

mod matcher;
mod parse;

pub use matcher::{SymbolSet, VersionMatch, VersionMatcher};
pub use parse::{parse_dynamic_list, parse_symbol_names, parse_version_command, parse_version_script};

use super::ast::Name;
use super::source::{Sources, Span};
use diagnostics::{Code, Diagnostic};
use std::collections::HashMap;

/// A version script, or several of them one after another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionScript {
    /// The versions, in order.
    pub nodes: Vec<VersionNode>,
}

/// `NAME { global: …; local: …; } DEPENDENCY;`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionNode {
    /// From the name to the closing brace.
    pub span: Span,
    /// The version; `None` for the anonymous node, which only exports and hides.
    pub name: Option<Name>,
    /// The symbols that get this version.
    pub global: Vec<SymbolPattern>,
    /// The symbols that are not exported.
    pub local: Vec<SymbolPattern>,
    /// The versions that this one succeeds.
    pub depends: Vec<Name>,
}

/// A pattern for symbol names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymbolPattern {
    /// The pattern.
    pub name: Name,
    /// The form of a symbol's name that the pattern is compared with.
    pub language: Language,
    /// Whether it is in quotes, so that wildcards stand for themselves.
    pub quoted: bool,
}

/// The form of a symbol's name that patterns are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// The name as it is in the symbol table.
    C,
    /// The demangled name, or the name itself where it is not mangled.
    Cxx,
}

impl SymbolPattern {
    /// A pattern of the command line, such as that of `--export-dynamic-symbol`.
    pub fn plain(pattern: &[u8]) -> Self {
        let name = Name { bytes: pattern.into(), span: Span::default() };
        SymbolPattern { name, language: Language::C, quoted: false }
    }

    /// The one name that the pattern fits, if it has no wildcards. Backslashes are removed.
    pub fn exact(&self) -> Option<Box<[u8]>> {
        if self.quoted {
            return Some(self.name.bytes.clone());
        }
        match super::glob::Glob::new(&self.name.bytes).shape() {
            super::glob::Shape::Exact(bytes) => Some(bytes.into()),
            _ => None,
        }
    }

    /// Whether it is `*`, which counts less than any other pattern.
    pub fn is_star(&self) -> bool {
        !self.quoted && *self.name.bytes == *b"*"
    }
}

impl VersionScript {
    /// Whether it has no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Appends the nodes of a further script.
    pub fn append(&mut self, mut further: VersionScript) {
        self.nodes.append(&mut further.nodes);
    }

    /// The errors that only all nodes together show: an anonymous node beside others, a version that is
    /// defined twice, a dependency on a version that is not defined before it.
    pub fn check(&self, sources: &Sources) -> Vec<Diagnostic> {
        let mut wrong = Vec::new();
        let mut report = |span, message: String, earlier: Option<Span>| {
            let diagnostic = version_error(sources, span, message);
            wrong.push(match earlier.map(|span| sources.location(span)) {
                Some(diagnostics::Location::Script { file, line, .. }) => {
                    diagnostic.note(format!("it is at {file}:{line} already"))
                }
                _ => diagnostic,
            });
        };
        let mut known: HashMap<&[u8], Span> = HashMap::new();
        for node in &self.nodes {
            let Some(name) = &node.name else {
                if self.nodes.len() > 1 {
                    let message = "a version node without a name cannot stand beside others";
                    report(node.span, message.to_owned(), None);
                }
                continue;
            };
            for dependency in &node.depends {
                if !known.contains_key(&*dependency.bytes) {
                    let message = format!("version `{}` is not defined above", dependency.text());
                    report(dependency.span, message, None);
                }
            }
            match known.get(&*name.bytes) {
                Some(earlier) => {
                    report(name.span, format!("version `{}` is defined twice", name.text()), Some(*earlier));
                }
                None => {
                    known.insert(&name.bytes, name.span);
                }
            }
        }
        wrong
    }

    /// The names that `global:` lists without wildcards, each with the number of its node.
    /// `--no-undefined-version` demands a definition of each. C++ names are not among them.
    pub fn exact_globals(&self) -> impl Iterator<Item = (u32, Box<[u8]>, Span)> {
        (0u32..).zip(&self.nodes).flat_map(|(number, node)| {
            node.global
                .iter()
                .filter(|pattern| pattern.language == Language::C)
                .filter_map(move |pattern| Some((number, pattern.exact()?, pattern.name.span)))
        })
    }
}

fn version_error(sources: &Sources, span: Span, message: String) -> Diagnostic {
    Diagnostic::error(Code::VersionScript, message).at(sources.location(span)).ordered(
        span.file,
        0,
        span.start.into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnostics::Location;

    fn script(text: &str) -> VersionScript {
        parse_version_script(&mut Sources::new(), "v", text.as_bytes()).unwrap()
    }

    fn errors(text: &str) -> Vec<(String, u32, u32)> {
        let mut sources = Sources::new();
        let wrong = match parse_version_script(&mut sources, "v", text.as_bytes()) {
            Ok(script) => script.check(&sources),
            Err(wrong) => wrong,
        };
        let place = |diagnostic: Diagnostic| match diagnostic.location {
            Location::Script { line, column, .. } => (diagnostic.message, line, column),
            other => panic!("{other:?}"),
        };
        wrong.into_iter().map(place).collect()
    }

    fn names(patterns: &[SymbolPattern]) -> Vec<String> {
        patterns.iter().map(|pattern| pattern.name.text().into_owned()).collect()
    }

    #[test]
    fn every_form_of_a_node() {
        let script = script(
            "V1.0 { global: f; g*; extern \"C++\" { ns::*; \"h(int)\"; operator*; }; local: *; };
             # a comment
             V2{x;global;local;y::z;}V1.0;/* another */ V3 { global: extern \"C\" { a } local: b; global: c; } V1.0 V2;
             V4 { };",
        );
        let [v1, v2, v3, v4] = &script.nodes[..] else { panic!("{script:?}") };
        assert_eq!(v1.name.as_ref().unwrap().text(), "V1.0");
        assert_eq!(names(&v1.global), ["f", "g*", "ns::*", "h(int)", "operator*"]);
        assert_eq!(v1.global[1].language, Language::C);
        assert_eq!(v1.global[3].language, Language::Cxx);
        assert!(v1.global[3].quoted && !v1.global[2].quoted);
        assert_eq!(names(&v1.local), ["*"]);
        assert_eq!(names(&v2.global), ["x", "global", "local", "y::z"]);
        assert_eq!(v2.depends[0].text(), "V1.0");
        assert_eq!((names(&v3.global), names(&v3.local)), (vec!["a".into(), "c".into()], vec!["b".into()]));
        assert_eq!(v3.depends.len(), 2);
        assert!(v4.global.is_empty() && v4.local.is_empty());
        assert!(script.check(&Sources::new()).is_empty());
        let exact: Vec<_> = script.exact_globals().map(|(node, name, _)| (node, name)).collect();
        assert_eq!(exact[0], (0, Box::from(*b"f")));
        assert_eq!(exact.len(), 7);
    }

    #[test]
    fn the_command_of_a_linker_script() {
        let mut sources = Sources::new();
        let text = b"VERSION { { global: a; local: *; }; } x = 1;";
        let mut include = |_: &str, _: &str| Err(String::new());
        let script = crate::parse_script(&mut sources, "t.ld", text, &mut include).unwrap();
        let Some(crate::ast::Command::Version(span)) = script.commands.first() else { panic!() };
        let versions = parse_version_command(&sources, *span).unwrap();
        assert_eq!(versions.nodes.len(), 1);
        assert!(versions.nodes[0].name.is_none());
        assert_eq!(versions.nodes[0].global[0].name.span, Span { file: 0, start: 20, length: 1 });
    }

    #[test]
    fn lists() {
        let mut sources = Sources::new();
        let list =
            parse_dynamic_list(&mut sources, "l", b"{ f; g*; extern \"C++\" { ns::* }; };\n{h;};").unwrap();
        assert_eq!(names(&list), ["f", "g*", "ns::*", "h"]);
        assert!(parse_dynamic_list(&mut sources, "l", b"V1 { f; };").is_err());
        assert!(parse_dynamic_list(&mut sources, "l", b"{ local: f; };").is_err());
        assert!(parse_dynamic_list(&mut sources, "l", b"{ f; }").is_err());
        let plain = parse_symbol_names(&mut sources, "r", b"main\n  other*  third # note\n").unwrap();
        assert_eq!(names(&plain), ["main", "other*", "third"]);
        assert_eq!(plain[1].exact().as_deref(), Some(&b"other*"[..]));
    }

    #[test]
    fn errors_name_line_and_column() {
        assert_eq!(errors("V1 {\n f\n};"), [("expected `;`, found `}`".into(), 3, 1)]);
        assert_eq!(errors("V1 { f; }"), [("expected `;` or a version, found the end".into(), 1, 10)]);
        assert_eq!(errors("V1 { extern \"D\" { f; }; };"), [("unknown language `D`".into(), 1, 13)]);
        assert_eq!(errors("V1 { \"f; };"), [("unclosed quote".into(), 1, 6)]);
        assert_eq!(errors("V1 { f; /* };"), [("unclosed comment".into(), 1, 9)]);
        assert_eq!(errors("{ f; }; V1 { g; };").len(), 1);
        assert_eq!(errors("V1 { f; };\nV1 { g; };"), [("version `V1` is defined twice".into(), 2, 1)]);
        assert_eq!(errors("V2 { f; } V1;"), [("version `V1` is not defined above".into(), 1, 11)]);
        assert_eq!(errors("V1 { :; };")[0].2, 6);
        assert_eq!(errors("} {")[0], ("expected a version or `{`, found `}`".into(), 1, 1));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(text in "[ -~\n]{0,60}") {
            let _ = parse_version_script(&mut Sources::new(), "v", text.as_bytes());
            let _ = parse_dynamic_list(&mut Sources::new(), "v", text.as_bytes());
            let _ = parse_version_script(&mut Sources::new(), "v", format!("V {{ {text} }};").as_bytes());
        }
    }
}
