//! The texts of scripts, the places of their nodes, and names from them.
//!
//! Every node of a script has a [`Span`] of twelve bytes. [`Sources`] keeps the texts, and turns a span into
//! a file, a line and a column only when a diagnostic is made.

use diagnostics::Location;
use files::BYTE_ORDER_MARK;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// A stretch of one source text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Span {
    /// Which text, as [`Sources::add`] numbered it.
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// Length in bytes.
    pub length: u32,
}

impl Span {
    /// The span from the start of `self` to the end of `last`. If an `INCLUDE` in between put them into
    /// different texts, it is `self`.
    #[must_use]
    pub fn to(self, last: Span) -> Span {
        let end = last.start.saturating_add(last.length);
        if self.file != last.file || end < self.start {
            return self;
        }
        Span { length: end - self.start, ..self }
    }
}

/// A name as written: bytes, quotes removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The bytes, without quotes.
    pub bytes: Box<[u8]>,
    /// Where it stands, quotes included.
    pub span: Span,
}

impl Name {
    /// The name as text, for messages.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// A diagnostic shows at most this many bytes of a line before its mark, and as many behind it. Generated
/// scripts may be one long line with many errors.
const SHOWN: usize = 200;

/// Where a text begins in its file. Both fields count from 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// The number of whole lines before it.
    pub line: usize,
    /// The number of bytes before it in its first line.
    pub column: usize,
}

#[derive(Clone, Debug)]
struct Source {
    name: String,
    text: Arc<[u8]>,
    start: Start,
    /// The ends of lines, computed for the first diagnostic.
    line_ends: OnceLock<Vec<u32>>,
}

impl Source {
    /// The number of the line that holds a byte, counted from 1 in the file.
    fn line(&self, at: usize) -> usize {
        let ends = self
            .line_ends
            .get_or_init(|| memchr::memchr_iter(b'\n', &self.text).map(|end| end as u32).collect());
        self.start.line + ends.partition_point(|&end| (end as usize) < at) + 1
    }
}

/// All script texts of a link: linker scripts, included files, version scripts, and the texts of
/// options such as `--defsym`.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
    /// Counts the texts that scripts include, and the scripts that they name as inputs.
    included: Quota,
    named: Quota,
    /// Hashes of all these texts, and of the scripts that the command line names.
    seen: HashSet<u64>,
}

/// How many texts scripts have brought in so far, and how large they are. There is one count for each of the
/// two ways.
#[derive(Clone, Debug, Default)]
struct Quota {
    files: usize,
    bytes: usize,
    /// The bytes of those texts that had been seen before.
    repeated: usize,
}

/// The bounds of [`Quota`]. Without them, thirty scripts of two lines, each of which includes the next one
/// twice, would be read a billion times. A text that comes again has a bound of its own, because a statement
/// of four bytes takes some hundred bytes of memory: a few kilobytes that come in four thousand times would
/// take gigabytes.
const MAX_FILES: usize = 4096;
const MAX_BYTES: usize = 64 << 20;
const MAX_REPEATED_BYTES: usize = 2 << 20;

impl Quota {
    /// Counts a file. `verb` is what scripts do to bring it in, for the message that is the error.
    fn count(&mut self, verb: &str, name: &str, bytes: usize, again: bool) -> Result<(), String> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.repeated = self.repeated.saturating_add(if again { bytes } else { 0 });
        if self.files > MAX_FILES {
            return Err(format!(
                "`{name}` is file {} that scripts {verb}, but at most {MAX_FILES} are allowed; does one {verb} \
                 another more than once?",
                self.files
            ));
        }
        if self.repeated > MAX_REPEATED_BYTES {
            return Err(format!(
                "with `{name}`, files that scripts {verb} more than once have {} bytes together, not counting the first \
                 time, but at most {MAX_REPEATED_BYTES} are allowed",
                self.repeated
            ));
        }
        if self.bytes > MAX_BYTES { Err(self.too_large(verb, name)) } else { Ok(()) }
    }

    fn too_large(&self, verb: &str, name: &str) -> String {
        format!(
            "with `{name}`, files that scripts {verb} have {} bytes together, but at most {MAX_BYTES} are allowed; \
             does one {verb} another more than once?",
            self.bytes
        )
    }
}

impl Sources {
    /// No texts yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text. `name` is the path as given, or the name for messages (`<built-in>`, `--defsym`). Returns
    /// the number that the text's spans carry; `None` if the text's length or the number of texts does not
    /// fit 32 bits. A UTF-8 byte order mark at the start is left out.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<[u8]>>) -> Option<u32> {
        self.add_at(name, text, Start::default())
    }

    /// Adds a text that another text includes, as [`Self::add`] does.
    ///
    /// # Errors
    /// A message, if all included texts together are too many or too large.
    pub fn include(&mut self, name: &str, text: impl Into<Arc<[u8]>>) -> Result<u32, String> {
        let text = text.into();
        let again = self.is_again(&text);
        self.included.count("include", name, text.len(), again)?;
        self.add(name, text).ok_or_else(|| self.included.too_large("include", name))
    }

    /// Counts a script that is an input, before it is parsed. Scripts that other scripts name (`by_script`)
    /// have the same bounds as included texts; the command line may name as many as it likes. Returns whether
    /// this text was seen before.
    ///
    /// # Errors
    /// A message, if all scripts that scripts name are together too many or too large.
    pub fn count_input(&mut self, name: &str, text: &[u8], by_script: bool) -> Result<bool, String> {
        let again = self.is_again(text);
        if by_script {
            self.named.count("name", name, text.len(), again)?;
        }
        Ok(again)
    }

    /// Whether this text was seen before, at whatever path.
    fn is_again(&mut self, text: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        !self.seen.insert(hasher.finish())
    }

    /// Adds a text that begins somewhere in its file, as [`Self::add`] does.
    pub fn add_at(
        &mut self,
        name: impl Into<String>,
        text: impl Into<Arc<[u8]>>,
        start: Start,
    ) -> Option<u32> {
        let mut text = text.into();
        if let Some(rest) = text.strip_prefix(BYTE_ORDER_MARK) {
            text = rest.into();
        }
        u32::try_from(text.len()).ok()?;
        let file = u32::try_from(self.files.len()).ok()?;
        self.files.push(Source { name: name.into(), text, start, line_ends: OnceLock::new() });
        Some(file)
    }

    /// The whole text of a file, empty if there is no such file.
    pub fn text(&self, file: u32) -> Arc<[u8]> {
        match self.files.get(file as usize) {
            Some(source) => Arc::clone(&source.text),
            None => Arc::from([]),
        }
    }

    /// The name of a file, empty if there is no such file.
    pub fn name(&self, file: u32) -> &str {
        self.files.get(file as usize).map_or("", |source| &source.name)
    }

    /// The bytes of a span, empty if it does not lie in a text.
    pub fn slice(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        let end = start.saturating_add(span.length as usize);
        self.files.get(span.file as usize).and_then(|s| s.text.get(start..end)).unwrap_or_default()
    }

    /// The names of all files, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|source| source.name.as_str())
    }

    /// The place of a span for a diagnostic: file, line and column, both counted from 1, the column in bytes,
    /// and the text of the line. A span over several lines is shown on its first line.
    ///
    /// The text of the line is not always the line itself: bytes that are not UTF-8 are replaced, a very long
    /// line is cut, and if the text begins inside a line, blanks stand for the part before it. So the column
    /// and the length count bytes of the text that is returned.
    pub fn location(&self, span: Span) -> Location {
        let Some(source) = self.files.get(span.file as usize) else {
            return Location::Link;
        };
        let text = &source.text[..];
        let start = (span.start as usize).min(text.len());
        let (before, after) = text.split_at(start);
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let line_end = memchr::memchr(b'\n', after).map_or(text.len(), |at| start + at);
        let line_end = if text[start..line_end].ends_with(b"\r") { line_end - 1 } else { line_end };
        let line_start = line_start.max(start.saturating_sub(SHOWN));
        let line_end = line_end.min(start.saturating_add(SHOWN));
        let marked_end = start + (span.length as usize).min(line_end - start);
        // Each part is converted on its own, so that the mark starts and ends between characters.
        let columns = if line_start == 0 { source.start.column.min(SHOWN) } else { 0 };
        let mut shown = " ".repeat(columns);
        shown.push_str(&String::from_utf8_lossy(&text[line_start..start]));
        let before_mark = shown.len();
        shown.push_str(&String::from_utf8_lossy(&text[start..marked_end]));
        let length = (shown.len() - before_mark).max(1);
        shown.push_str(&String::from_utf8_lossy(&text[marked_end..line_end]));
        Location::Script {
            file: source.name.clone(),
            line: number(source.line(start)),
            column: number(before_mark + 1),
            length: number(length),
            text: shown,
        }
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_and_column_of_a_span() {
        let mut sources = Sources::new();
        let file = sources.add("a.ld", &b"one\r\n  two = 3;\nlast"[..]).unwrap();
        let place = |start, length| sources.location(Span { file, start, length });
        let script = |line, column, length, text: &str| Location::Script {
            file: "a.ld".into(),
            line,
            column,
            length,
            text: text.into(),
        };
        assert_eq!(place(0, 3), script(1, 1, 3, "one"));
        assert_eq!(place(7, 3), script(2, 3, 3, "  two = 3;"));
        assert_eq!(place(7, 300), script(2, 3, 8, "  two = 3;"));
        assert_eq!(place(16, 4), script(3, 1, 4, "last"));
        assert_eq!(place(20, 0), script(3, 5, 1, "last"));
        assert_eq!(sources.location(Span { file: 9, start: 0, length: 0 }), Location::Link);
    }

    #[test]
    fn of_a_very_long_line_a_part_is_shown() {
        let mut sources = Sources::new();
        let text = format!("\n{}wrong{}\n", "a".repeat(1 << 20), "b".repeat(1 << 20));
        let file = sources.add("a.ld", text.as_bytes()).unwrap();
        let Location::Script { line, column, length, text, .. } =
            sources.location(Span { file, start: 1 + (1 << 20), length: 5 })
        else {
            panic!("no place in a script");
        };
        assert_eq!(line, 2);
        assert_eq!(&text[column as usize - 1..][..length as usize], "wrong");
        assert!(text.len() <= 2 * SHOWN);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_replaced_and_the_mark_stays_right() {
        let mut sources = Sources::new();
        let file = sources.add("a.ld", &b"\xff\xfe = \xe2\x82\xac;"[..]).unwrap();
        let place = |start, length| match sources.location(Span { file, start, length }) {
            Location::Script { column, length, text, .. } => {
                text[column as usize - 1..][..length as usize].to_owned()
            }
            _ => String::new(),
        };
        assert_eq!(place(0, 1), "\u{fffd}");
        assert_eq!(place(5, 3), "\u{20ac}");
        assert_eq!(place(6, 1), "\u{fffd}", "the middle of a character");
        assert_eq!(place(8, 1), ";");
    }

    #[test]
    fn a_part_of_a_text_counts_the_lines_and_columns_before_it() {
        let mut sources = Sources::new();
        let file = sources.add_at("a.mri", &b"one\ntwo"[..], Start { line: 6, column: 4 }).unwrap();
        let place = |start| match sources.location(Span { file, start, length: 3 }) {
            Location::Script { line, column, text, .. } => (line, column, text),
            place => panic!("{place:?}"),
        };
        assert_eq!(place(0), (7, 5, "    one".into()));
        assert_eq!(place(4), (8, 1, "two".into()));
    }

    #[test]
    fn included_texts_have_a_bound_in_number_and_in_bytes() {
        let mut sources = Sources::new();
        assert!((0..MAX_FILES).all(|_| sources.include("a.ld", Vec::new()).is_ok()));
        assert!(sources.include("a.ld", Vec::new()).unwrap_err().contains("file 4097"));
        let mut sources = Sources::new();
        assert!(sources.include("a.ld", vec![b' '; MAX_BYTES]).is_ok());
        assert!(
            sources
                .include("b.ld", vec![b' '])
                .unwrap_err()
                .contains("`b.ld`, files that scripts include have 67108865 bytes")
        );
    }

    #[test]
    fn a_text_that_comes_again_has_a_smaller_bound() {
        let mut sources = Sources::new();
        let half = vec![b' '; MAX_REPEATED_BYTES / 2];
        assert!((0..3).all(|number| sources.include(&format!("{number}.ld"), half.clone()).is_ok()));
        assert!(sources.include("b.ld", vec![b'\n'; MAX_REPEATED_BYTES]).is_ok(), "another text");
        let error = sources.include("c.ld", half.clone()).unwrap_err();
        assert!(
            error.contains("`c.ld`, files that scripts include more than once have 3145728 bytes"),
            "{error}"
        );
        assert_eq!(sources.count_input("d.ld", &half, false), Ok(true));
        assert!((0..2).all(|_| sources.count_input("d.ld", &half, true) == Ok(true)));
        let error = sources.count_input("d.ld", &half, true).unwrap_err();
        assert!(
            error.contains("`d.ld`, files that scripts name more than once have 3145728 bytes"),
            "{error}"
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let mut sources = Sources::new();
        let file = sources.add("a.ld", &b"\xef\xbb\xbfone"[..]).unwrap();
        assert_eq!(&sources.text(file)[..], b"one");
    }

    #[test]
    fn spans_join_inside_one_text() {
        let a = Span { file: 0, start: 2, length: 3 };
        assert_eq!(a.to(Span { file: 0, start: 9, length: 4 }), Span { file: 0, start: 2, length: 11 });
        assert_eq!(a.to(Span { file: 1, start: 9, length: 4 }), a);
        assert_eq!(a.to(Span { file: 0, start: 0, length: 1 }), a);
    }
}
