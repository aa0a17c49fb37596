//! Finds the rule of a script that takes an input section: the first one whose pattern fits.
//!
//! A script has a few hundred patterns, and a link may have millions of sections. To try one pattern after
//! another on each section is too slow. But nearly all patterns are names (`.text`) or prefixes (`.text.*`),
//! and a tree of their bytes (a trie) answers both in one walk along the section's name:
//!
//! ```text
//! section   .text.main
//! walks     "" . .t .te .tex .text .text.    which ends where no pattern goes on with `m`
//! finds     the pattern .text.*, at the node ".text."
//! ```
//!
//! Any other pattern (`.text.*_unlikely`) is kept under its literal beginning, and only tried on sections
//! that begin with it. Of all patterns that fit, the first in the script wins. The file and the flags of a
//! section are compared only where its name fits.

use super::ast::{FilePattern, InputStatement, Name, SectionFlags, SectionPattern};
use super::glob::{Glob, Shape};

/// A file as file patterns see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File<'a> {
    /// The path as given; for a member of an archive, the member's name.
    pub name: &'a [u8],
    /// The path of the archive, as given.
    pub archive: Option<&'a [u8]>,
}

/// The rule that takes a section.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Match {
    /// The number that [`Matcher::new`] got with the statement.
    pub rule: u32,
    /// Which of the statement's section patterns fits, from 0.
    pub pattern: u32,
}

/// The input statements of a script, compiled.
#[derive(Debug)]
pub struct Matcher {
    /// All patterns, in the order of the script.
    entries: Vec<Entry>,
    /// The beginnings of the names and prefixes of patterns. The first is the empty one.
    nodes: Vec<Node>,
    /// The names and the literal beginnings of patterns.
    keys: Vec<Key>,
    /// Patterns that may fit any name, ascending.
    always: Vec<u32>,
}

/// A beginning of names. Those that go on with one byte more are its children, which form a list. A node has
/// few children, but for the one of the dot, and a walk rarely goes beyond ten nodes.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The last byte.
    byte: u8,
    /// The number of its first child, or [`NONE`].
    child: u32,
    /// The number of the next child of its parent, or [`NONE`].
    sibling: u32,
    /// The number of the key with these bytes, or [`NONE`].
    key: u32,
}

/// Stands for no node and no key.
const NONE: u32 = u32::MAX;

/// What is filed under a node.
#[derive(Debug, Default)]
struct Key {
    /// The patterns for names that begin so, ascending.
    prefixes: Vec<u32>,
    /// The patterns for this very name, ascending.
    names: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    found: Match,
    /// The pattern for the name, unless its key alone decides.
    name: Option<Glob>,
    file: FileTest,
    exclude: Vec<FileTest>,
    flags: SectionFlags,
}

impl Matcher {
    /// Compiles statements, in the order in which they are tried. The number of each becomes [`Match::rule`].
    pub fn new<'a>(statements: impl IntoIterator<Item = (u32, &'a InputStatement)>) -> Self {
        let root = Node { byte: 0, child: NONE, sibling: NONE, key: NONE };
        let mut matcher =
            Matcher { entries: Vec::new(), nodes: vec![root], keys: Vec::new(), always: Vec::new() };
        for (rule, statement) in statements {
            match &statement.sections {
                None => matcher.add(Match { rule, pattern: 0 }, statement, b"*", &[]),
                Some(patterns) => {
                    for (pattern, SectionPattern { glob, exclude, .. }) in (0..).zip(patterns) {
                        matcher.add(Match { rule, pattern }, statement, &glob.bytes, exclude);
                    }
                }
            }
        }
        matcher
    }

    fn add(&mut self, found: Match, statement: &InputStatement, name: &[u8], exclude: &[Name]) {
        let FilePattern { glob, exclude: exclude_files, .. } = &statement.file;
        let excluded = exclude_files.iter().chain(exclude);
        let id = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let name = Glob::new(name);
        let test = match name.shape() {
            Shape::Exact(bytes) => {
                self.key(bytes).names.push(id);
                None
            }
            Shape::Prefix(bytes) => {
                self.key(bytes).prefixes.push(id);
                None
            }
            Shape::Everything => {
                self.always.push(id);
                None
            }
            Shape::General(b"") => {
                self.always.push(id);
                Some(name)
            }
            Shape::General(bytes) => {
                self.key(bytes).prefixes.push(id);
                Some(name)
            }
        };
        self.entries.push(Entry {
            found,
            name: test,
            file: FileTest::new(&glob.bytes, false),
            exclude: excluded.map(|name| FileTest::new(&name.bytes, true)).collect(),
            flags: statement.flags.unwrap_or_default(),
        });
    }

    /// The key with these bytes, which is made if there is none.
    fn key(&mut self, bytes: &[u8]) -> &mut Key {
        let mut at = 0;
        for &byte in bytes {
            at = match self.child(at, byte) {
                Some(child) => child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node { byte, child: NONE, sibling: NONE, key: NONE });
                    *self.last_child(at) = child as u32;
                    child
                }
            };
        }
        let node = &mut self.nodes[at];
        if node.key == NONE {
            node.key = self.keys.len() as u32;
            self.keys.push(Key::default());
        }
        &mut self.keys[node.key as usize]
    }

    /// Where the number of the next new child stands. The first of the script stay the first, since names of
    /// sections of code come early in it.
    fn last_child(&mut self, node: usize) -> &mut u32 {
        let mut last = None;
        let mut next = self.nodes[node].child;
        while next != NONE {
            last = Some(next as usize);
            next = self.nodes[next as usize].sibling;
        }
        match last {
            Some(last) => &mut self.nodes[last].sibling,
            None => &mut self.nodes[node].child,
        }
    }

    /// The node that goes on with `byte`.
    #[inline]
    fn child(&self, node: usize, byte: u8) -> Option<usize> {
        let mut next = self.nodes[node].child as usize;
        while let Some(child) = self.nodes.get(next) {
            if child.byte == byte {
                return Some(next);
            }
            next = child.sibling as usize;
        }
        None
    }

    /// The first rule that fits a section of this name, file and `sh_flags`. The name `COMMON` asks for the
    /// rule of common symbols.
    pub fn find(&self, name: &[u8], file: File<'_>, sh_flags: u64) -> Option<Match> {
        self.find_among(name, file, sh_flags, |_| true)
    }

    /// As [`Matcher::find`], but only among the rules that `accept` takes. Some output sections exist only
    /// under a condition.
    pub fn find_among(
        &self,
        name: &[u8],
        file: File<'_>,
        sh_flags: u64,
        accept: impl Fn(u32) -> bool,
    ) -> Option<Match> {
        let mut best = u32::MAX;
        let mut consider = |ids: &[u32]| {
            for &id in ids {
                if id >= best {
                    break;
                }
                let Some(entry) = self.entries.get(id as usize) else { break };
                if entry.accepts(name, file, sh_flags) && accept(entry.found.rule) {
                    best = id;
                    break;
                }
            }
        };
        let (mut node, mut rest) = (0, name.iter());
        loop {
            let key = self.keys.get(self.nodes[node].key as usize);
            if let Some(key) = key {
                consider(&key.prefixes);
            }
            let Some(&byte) = rest.next() else {
                consider(key.map_or(&[][..], |key| &key.names));
                break;
            };
            match self.child(node, byte) {
                Some(child) => node = child,
                None => break,
            }
        }
        consider(&self.always);
        self.entries.get(best as usize).map(|entry| entry.found)
    }
}

impl Entry {
    fn accepts(&self, name: &[u8], file: File<'_>, sh_flags: u64) -> bool {
        self.flags.accepts(sh_flags)
            && self.name.as_ref().is_none_or(|glob| glob.matches(name))
            && self.file.accepts(file)
            && !self.exclude.iter().any(|exclude| exclude.accepts(file))
    }
}

/// A compiled file pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileTest {
    /// The pattern for the name of the file or the member; `None` takes any name.
    name: Option<Glob>,
    archive: ArchiveTest,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum ArchiveTest {
    /// The file may be in an archive or in none.
    Whatever,
    /// The file is in no archive.
    None,
    /// The file is in an archive that matches.
    Like(Glob),
    /// The file's own name matches, or the name of its archive.
    OrItsName(Glob),
}

impl FileTest {
    /// Compiles a file pattern, with its colon if it has one. In `EXCLUDE_FILE`, a name without a colon also
    /// means an archive of that name.
    pub fn new(pattern: &[u8], excluding: bool) -> Self {
        let glob = |text: &[u8]| (text != b"*").then(|| Glob::new(text));
        let Some(colon) = memchr::memchr(b':', pattern) else {
            let archive = if excluding && pattern != b"*" {
                ArchiveTest::OrItsName(Glob::new(pattern))
            } else {
                ArchiveTest::Whatever
            };
            return FileTest { name: glob(pattern), archive };
        };
        let (archive, member) = (&pattern[..colon], &pattern[colon + 1..]);
        let name = if member.is_empty() { None } else { glob(member) };
        let archive =
            if archive.is_empty() { ArchiveTest::None } else { ArchiveTest::Like(Glob::new(archive)) };
        FileTest { name, archive }
    }

    /// Whether the pattern fits a file.
    pub fn accepts(&self, file: File<'_>) -> bool {
        let name_fits = self.name.as_ref().is_none_or(|glob| glob.matches(file.name));
        match (&self.archive, file.archive) {
            (ArchiveTest::Whatever, _) | (ArchiveTest::None, None) => name_fits,
            (ArchiveTest::OrItsName(glob), archive) => {
                name_fits || archive.is_some_and(|archive| glob.matches(archive))
            }
            (ArchiveTest::Like(glob), Some(archive)) => name_fits && glob.matches(archive),
            (ArchiveTest::None, Some(_)) | (ArchiveTest::Like(_), None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{BodyItem, Command, Script, SectionsItem};
    use crate::builtin::{Layout, Order};
    use crate::{Sources, parse_script};
    use proptest::prelude::*;

    fn statements(script: &Script) -> Vec<(u32, &InputStatement)> {
        let mut all = Vec::new();
        for command in &script.commands {
            let Command::Sections(items) = command else { continue };
            for item in items {
                let SectionsItem::Output(section) = item else { continue };
                all.extend(section.body.iter().filter_map(|item| match item {
                    BodyItem::Input(statement) => Some(statement),
                    _ => None,
                }));
            }
        }
        (0..).zip(all).collect()
    }

    fn parse(body: &str) -> Script {
        let text = format!("SECTIONS {{ .x : {{ {body} }} }}");
        let mut include = |_: &str, _: &str| Err(String::new());
        parse_script(&mut Sources::new(), "t.ld", text.as_bytes(), &mut include).unwrap()
    }

    /// What the matcher must find: tries one pattern after another.
    fn naive(
        statements: &[(u32, &InputStatement)],
        name: &[u8],
        file: File<'_>,
        flags: u64,
    ) -> Option<Match> {
        for (rule, statement) in statements {
            let exclude = |names: &[Name]| names.iter().any(|n| FileTest::new(&n.bytes, true).accepts(file));
            if !statement.flags.unwrap_or_default().accepts(flags)
                || !FileTest::new(&statement.file.glob.bytes, false).accepts(file)
                || exclude(&statement.file.exclude)
            {
                continue;
            }
            let Some(patterns) = &statement.sections else {
                return Some(Match { rule: *rule, pattern: 0 });
            };
            for (pattern, section) in (0..).zip(patterns) {
                if Glob::new(&section.glob.bytes).matches(name) && !exclude(&section.exclude) {
                    return Some(Match { rule: *rule, pattern });
                }
            }
        }
        None
    }

    const OBJECT: File<'_> = File { name: b"dir/main.o", archive: None };

    fn found(body: &str, name: &str, file: File<'_>, flags: u64) -> Option<(u32, u32)> {
        let script = parse(body);
        let found = Matcher::new(statements(&script)).find(name.as_bytes(), file, flags);
        assert_eq!(found, naive(&statements(&script), name.as_bytes(), file, flags));
        found.map(|found| (found.rule, found.pattern))
    }

    #[test]
    fn first_in_the_script_wins() {
        let body = "*(.text.unlikely .text.*_unlikely) *(.text .text.*) *(.text.hot) *(*)";
        assert_eq!(found(body, ".text", OBJECT, 0), Some((1, 0)));
        assert_eq!(found(body, ".text.hot", OBJECT, 0), Some((1, 1)));
        assert_eq!(found(body, ".text.f_unlikely", OBJECT, 0), Some((0, 1)));
        assert_eq!(found(body, ".data", OBJECT, 0), Some((3, 0)));
        assert_eq!(found("*(.a) *(.a*)", ".a", OBJECT, 0), Some((0, 0)));
        assert_eq!(found("*(.a*) *(.a)", ".a", OBJECT, 0), Some((0, 0)));
        assert_eq!(found("*(.b)", ".a", OBJECT, 0), None);
        assert_eq!(found("*(COMMON)", "COMMON", OBJECT, 0), Some((0, 0)));
    }

    #[test]
    fn files_and_archives() {
        let member = File { name: b"crtbegin.o", archive: Some(b"lib/libgcc.a") };
        assert_eq!(found("*crtbegin.o(.x) *(.x)", ".x", member, 0), Some((0, 0)));
        assert_eq!(found("*crtbegin.o(.x) *(.x)", ".x", OBJECT, 0), Some((1, 0)));
        assert_eq!(found("*libgcc.a:(.x)", ".x", member, 0), Some((0, 0)));
        assert_eq!(found("*libgcc.a:crt*(.x)", ".x", member, 0), Some((0, 0)));
        assert_eq!(found("*libgcc.a:x.o(.x) *.a:*(.y)", ".x", member, 0), None);
        assert_eq!(found("*libgcc.a(.x)", ".x", member, 0), None);
        assert_eq!(found(":*(.x)", ".x", member, 0), None);
        assert_eq!(found(":*main.o(.x)", ".x", OBJECT, 0), Some((0, 0)));
        assert_eq!(found("*:*(.x)", ".x", OBJECT, 0), None);
        assert_eq!(found("dir/main.o", ".anything", OBJECT, 0), Some((0, 0)));
        assert_eq!(found("main.o", ".anything", OBJECT, 0), None);
    }

    #[test]
    fn excluded_files() {
        let member = File { name: b"a.o", archive: Some(b"lib/libx.a") };
        assert_eq!(found("*(EXCLUDE_FILE(*main.o) .x .y)", ".x", OBJECT, 0), None);
        assert_eq!(found("*(EXCLUDE_FILE(*main.o) .x .y)", ".y", OBJECT, 0), Some((0, 1)));
        assert_eq!(found("EXCLUDE_FILE(*main.o) *(.x .y)", ".y", OBJECT, 0), None);
        assert_eq!(found("EXCLUDE_FILE(*libx.a) *(.x)", ".x", member, 0), None);
        assert_eq!(found("EXCLUDE_FILE(*libx.a:b.o) *(.x)", ".x", member, 0), Some((0, 0)));
    }

    #[test]
    fn flags_and_conditions() {
        let body = "INPUT_SECTION_FLAGS(SHF_WRITE) *(.x) INPUT_SECTION_FLAGS(!SHF_ALLOC) *(.x) *(.x)";
        assert_eq!(found(body, ".x", OBJECT, 3), Some((0, 0)));
        assert_eq!(found(body, ".x", OBJECT, 0), Some((1, 0)));
        assert_eq!(found(body, ".x", OBJECT, 2), Some((2, 0)));
        let script = parse("*(.x) *(.x .y)");
        let matcher = Matcher::new(statements(&script));
        let accepted = matcher.find_among(b".x", OBJECT, 0, |rule| rule != 0);
        assert_eq!(accepted, Some(Match { rule: 1, pattern: 0 }));
    }

    #[test]
    fn default_layouts_agree_with_the_definition() {
        let names = [
            ".text",
            ".text.",
            ".text.f",
            ".text.f_unlikely",
            ".text.unlikely.f",
            ".text.hot.f",
            ".data.rel.ro",
            ".data.rel.ro.local.x",
            ".data.rel",
            ".init_array",
            ".init_array.00100",
            ".ctors",
            ".ctors.65435",
            ".bss.x",
            "COMMON",
            ".debug_line.x",
            ".debug_str",
            ".sframe",
            ".sframe.x",
            ".foo",
            "",
            ".gnu.lto_x",
        ];
        let files = [
            OBJECT,
            File { name: b"/usr/lib/crtbeginS.o", archive: None },
            File { name: b"crtend.o", archive: Some(b"libgcc.a") },
        ];
        for layout in Layout::ALL {
            let script = layout.script(Order::default(), &mut Sources::new());
            let statements = statements(&script);
            let matcher = Matcher::new(statements.iter().copied());
            for name in names {
                for file in files {
                    let name = name.as_bytes();
                    assert_eq!(
                        matcher.find(name, file, 3),
                        naive(&statements, name, file, 3),
                        "{layout:?} {name:?}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_one_after_another(
            patterns in proptest::collection::vec(("[ab*:]{1,4}", "[.ab*?]{1,5}", proptest::bool::ANY), 1..12),
            names in proptest::collection::vec("[.ab]{0,5}", 1..8),
            file in "[ab]{1,3}",
            archive in proptest::option::of("[ab]{1,3}"),
        ) {
            let mut body = String::new();
            for (file, section, exclude) in &patterns {
                let exclude = if *exclude { "EXCLUDE_FILE(a*) " } else { "" };
                body += &format!("\"{file}\"({exclude}\"{section}\" \"{section}b\") ");
            }
            let script = parse(&body);
            let statements = statements(&script);
            let matcher = Matcher::new(statements.iter().copied());
            let file = File { name: file.as_bytes(), archive: archive.as_ref().map(std::string::String::as_bytes) };
            for name in &names {
                let name = name.as_bytes();
                prop_assert_eq!(matcher.find(name, file, 0), naive(&statements, name, file, 0));
            }
        }
    }
}
