//! Finds the version of a symbol, and whether a list of patterns names it.
//!
//! Several patterns of a version script may fit one symbol. GNU ld's rules say which of them counts, in this
//! order:
//!
//! 1. A name without wildcards. Of several, the first in the script counts; within one node, `global:` comes
//!    before `local:`.
//! 2. A wildcard under `global:`, and after those, one under `local:`. Of several, the last in the script
//!    counts.
//! 3. `*` under `global:`, and last of all `*` under `local:`.

use super::{Language, SymbolPattern, VersionScript};
use crate::glob::Glob;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// The node that a symbol belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VersionMatch {
    /// The node's row in [`VersionScript::nodes`].
    pub node: u32,
    /// Whether the node lists it under `local:`, so that it is not exported.
    pub local: bool,
}

/// A version script, compiled.
#[derive(Debug, Default)]
pub struct VersionMatcher {
    exact: Names<VersionMatch>,
    /// The wildcards other than `*`, in the order of the script.
    global_wildcards: Vec<Wildcard>,
    local_wildcards: Vec<Wildcard>,
    /// The last node that has `*`, for `global:` and for `local:`.
    global_star: Option<u32>,
    local_star: Option<u32>,
}

#[derive(Debug)]
struct Wildcard {
    glob: Glob,
    language: Language,
    node: u32,
}

impl VersionMatcher {
    /// Compiles a script.
    pub fn new(script: &VersionScript) -> Self {
        let mut matcher = VersionMatcher::default();
        for (node, versions) in (0..).zip(&script.nodes) {
            for pattern in &versions.global {
                matcher.add(pattern, VersionMatch { node, local: false });
            }
            for pattern in &versions.local {
                matcher.add(pattern, VersionMatch { node, local: true });
            }
        }
        matcher
    }

    fn add(&mut self, pattern: &SymbolPattern, found: VersionMatch) {
        let VersionMatch { node, local } = found;
        if let Some(name) = pattern.exact() {
            self.exact.add(pattern.language, name, found);
        } else if pattern.is_star() {
            *(if local { &mut self.local_star } else { &mut self.global_star }) = Some(node);
        } else {
            let glob = Glob::new(&pattern.name.bytes);
            let wildcards = if local { &mut self.local_wildcards } else { &mut self.global_wildcards };
            wildcards.push(Wildcard { glob, language: pattern.language, node });
        }
    }

    /// Whether a `local:` lists the symbol's own name, not only a pattern that fits it.
    pub fn names_as_local(&self, name: &[u8]) -> bool {
        self.exact.find(&mut Demangled::new(name)).is_some_and(|found| found.local)
    }

    /// The node of a symbol. The name comes without any `@VERSION`. If no pattern fits, it is `None`, and the
    /// symbol is exported without a version of its own.
    pub fn find(&self, name: &[u8]) -> Option<VersionMatch> {
        let mut demangled = Demangled::new(name);
        if let Some(found) = self.exact.find(&mut demangled) {
            return Some(found);
        }
        let mut last = |wildcards: &[Wildcard]| {
            let fits = |wildcard: &&Wildcard| wildcard.glob.matches(demangled.name(wildcard.language));
            wildcards.iter().rev().find(fits).map(|wildcard| wildcard.node)
        };
        let global = |node| VersionMatch { node, local: false };
        let local = |node| VersionMatch { node, local: true };
        last(&self.global_wildcards)
            .map(global)
            .or_else(|| last(&self.local_wildcards).map(local))
            .or_else(|| self.global_star.map(global))
            .or_else(|| self.local_star.map(local))
    }
}

/// A set of symbols that patterns describe: a dynamic list, or the symbols to export or to retain.
#[derive(Debug, Default)]
pub struct SymbolSet {
    exact: Names<()>,
    wildcards: Vec<(Language, Glob)>,
}

impl SymbolSet {
    /// Compiles patterns.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a SymbolPattern>) -> Self {
        let mut set = SymbolSet::default();
        for pattern in patterns {
            match pattern.exact() {
                Some(name) => set.exact.add(pattern.language, name, ()),
                None => set.wildcards.push((pattern.language, Glob::new(&pattern.name.bytes))),
            }
        }
        set
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty()
    }

    /// Whether a symbol is in the set.
    pub fn contains(&self, name: &[u8]) -> bool {
        let mut demangled = Demangled::new(name);
        self.exact.find(&mut demangled).is_some()
            || self.wildcards.iter().any(|(language, glob)| glob.matches(demangled.name(*language)))
    }
}

/// Names without wildcards, each with a value. If a name is added several times, its smallest value counts.
#[derive(Debug)]
struct Names<T> {
    c: HashMap<Box<[u8]>, T, FixedState>,
    /// The lengths of the names in `c`, a bit for each. Most lists are short, and are asked for all symbols.
    c_lengths: u64,
    cxx: HashMap<Box<[u8]>, T, FixedState>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Names { c: HashMap::default(), c_lengths: 0, cxx: HashMap::default() }
    }
}

impl<T: Copy + Ord> Names<T> {
    fn add(&mut self, language: Language, name: Box<[u8]>, value: T) {
        let names = match language {
            Language::C => {
                self.c_lengths |= length_bit(&name);
                &mut self.c
            }
            Language::Cxx => &mut self.cxx,
        };
        names.entry(name).and_modify(|old| *old = value.min(*old)).or_insert(value);
    }

    fn find(&self, name: &mut Demangled<'_>) -> Option<T> {
        let plain = name.name(Language::C);
        let may_be = self.c_lengths & length_bit(plain) != 0;
        let c = may_be.then(|| self.c.get(plain).copied()).flatten();
        if self.cxx.is_empty() {
            return c;
        }
        let cxx = self.cxx.get(name.name(Language::Cxx)).copied();
        match (c, cxx) {
            (Some(c), Some(cxx)) => Some(c.min(cxx)),
            (c, cxx) => c.or(cxx),
        }
    }

    fn is_empty(&self) -> bool {
        self.c.is_empty() && self.cxx.is_empty()
    }
}

/// The bit for names of this length. Long ones share a bit.
fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}

/// A symbol's name. It is demangled only when a pattern first asks for that.
struct Demangled<'a> {
    name: &'a [u8],
    /// The demangled name, once it is known; empty if the name is not mangled.
    demangled: Option<Vec<u8>>,
}

impl<'a> Demangled<'a> {
    fn new(name: &'a [u8]) -> Self {
        Demangled { name, demangled: None }
    }

    fn name(&mut self, language: Language) -> &[u8] {
        if language == Language::C || !self.name.starts_with(b"_") {
            return self.name;
        }
        let name = self.name;
        let demangled = self.demangled.get_or_insert_with(|| demangle::demangle(name).unwrap_or_default());
        if demangled.is_empty() { self.name } else { demangled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;
    use crate::version::{parse_dynamic_list, parse_version_script};

    /// The node that fits, counted from 1, negative if it lists the name under `local:`; 0 if no node fits.
    fn find(script: &str, name: &str) -> i64 {
        let script = parse_version_script(&mut Sources::new(), "v", script.as_bytes()).unwrap();
        match VersionMatcher::new(&script).find(name.as_bytes()) {
            None => 0,
            Some(VersionMatch { node, local: false }) => i64::from(node) + 1,
            Some(VersionMatch { node, local: true }) => -i64::from(node) - 1,
        }
    }

    #[test]
    fn exact_names_beat_wildcards() {
        let script = "A { global: f*; local: fx; }; B { global: fy; local: *; };";
        assert_eq!(find(script, "fa"), 1);
        assert_eq!(find(script, "fx"), -1);
        assert_eq!(find(script, "fy"), 2);
        assert_eq!(find(script, "g"), -2);
        assert_eq!(find("A { f; }; B { f; };", "f"), 1);
        assert_eq!(find("A { local: f; }; B { global: f; };", "f"), -1);
        assert_eq!(find("A { local: f; global: f; };", "f"), 1);
        assert_eq!(find("A { f; };", "g"), 0);
    }

    #[test]
    fn among_wildcards_global_and_then_the_last_counts() {
        assert_eq!(find("A { f*; }; B { fo*; };", "foo"), 2);
        assert_eq!(find("A { global: f*; local: *; }; B { local: fo*; };", "foo"), 1);
        assert_eq!(find("A { global: *; local: f*; };", "foo"), -1);
        assert_eq!(find("A { global: *; local: f*; };", "bar"), 1);
        assert_eq!(find("A { global: *; }; B { local: *; };", "foo"), 1);
        assert_eq!(find("A { \"f*\"; };", "foo"), 0);
        assert_eq!(find("A { \"f*\"; };", "f*"), 1);
    }

    #[test]
    fn cxx_names() {
        let script = "A { global: extern \"C++\" { ns::*; \"f(int)\"; plain; }; local: *; };";
        assert_eq!(find(script, "_Z1fi"), 1);
        assert_eq!(find(script, "_Z1fc"), -1);
        assert_eq!(find(script, "_ZN2ns1gEv"), 1);
        assert_eq!(find(script, "plain"), 1);
        let script = "A { global: extern \"C++\" { \"vtable for n::S\"; n::*; }; local: *; };";
        for name in ["_ZTVN1n1SE", "_ZN1n1SC2Ev"] {
            assert_eq!(find(script, name), 1, "{name}");
        }
        assert_eq!(find(script, "_ZTIN1n1SE"), -1);
        assert_eq!(find("A { \"f(int)\"; };", "_Z1fi"), 0);
        assert_eq!(find("A { extern \"C++\" { \"f(int)\" }; }; B { _Z1fi; };", "_Z1fi"), 1);
    }

    #[test]
    fn sets_of_symbols() {
        let text = b"{ main; plugin_*; extern \"C++\" { api::*; }; };";
        let patterns = parse_dynamic_list(&mut Sources::new(), "l", text).unwrap();
        let set = SymbolSet::new(&patterns);
        for name in ["main", "plugin_a", "_ZN3api1fEv"] {
            assert!(set.contains(name.as_bytes()), "{name}");
        }
        for name in ["mainx", "plugin", "_ZN2ns1gEv"] {
            assert!(!set.contains(name.as_bytes()), "{name}");
        }
        assert!(SymbolSet::default().is_empty() && !set.is_empty());
        assert!(SymbolSet::new(&[SymbolPattern::plain(b"a?")]).contains(b"ab"));
    }
}
