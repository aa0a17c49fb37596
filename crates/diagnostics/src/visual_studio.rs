//! `--vs-diagnostics`: messages in the form in which Visual Studio finds the source line, as in lld:
//!
//! ```text
//! /src/main.c(12): error: undefined symbol: area
//! ```
//!
//! The line is where the message points to: in a script, or in a note by debug information, `referenced by
//! main.c:12 (/src/main.c:12)`. Without one, the message begins with the program's name as ever.

use super::{Diagnostic, Location, Severity};

/// The words before a source line in a note.
const REFERENCED: &str = "referenced by ";
const DEFINED: &str = "defined at ";

/// What a message begins with in place of the program's name; `None` if it points to no line.
pub fn origin(diagnostic: &Diagnostic) -> Option<String> {
    if diagnostic.severity == Severity::Note {
        return None;
    }
    let (path, line) = match &diagnostic.location {
        Location::Script { file, line, .. } => (file.clone(), line.to_string()),
        _ => {
            let (path, line) = diagnostic.notes.iter().find_map(|note| source(note))?;
            (path.to_owned(), line.to_owned())
        }
    };
    Some(format!("{path}({line})"))
}

/// The diagnostics to show for one: if it names several places of a definition, one for each, because each is
/// a line to look at. The last one has the help.
pub fn parts(diagnostic: &Diagnostic) -> Vec<Diagnostic> {
    let is_place = |note: &String| note.starts_with(DEFINED) && source(note).is_some();
    let mut starts: Vec<usize> = (0..diagnostic.notes.len()).collect();
    starts.retain(|&at| is_place(&diagnostic.notes[at]));
    if starts.len() < 2 {
        return vec![diagnostic.clone()];
    }
    // What stands before the first place belongs to it.
    starts[0] = 0;
    let ends = starts[1..].iter().copied().chain([diagnostic.notes.len()]);
    let part = |(&start, end): (&usize, usize)| {
        let last = end == diagnostic.notes.len();
        Diagnostic {
            notes: diagnostic.notes[start..end].to_vec(),
            help: if last { diagnostic.help.clone() } else { Vec::new() },
            ..diagnostic.clone()
        }
    };
    starts.iter().zip(ends).map(part).collect()
}

/// The path and the line in a note about a place: `referenced by NAME:LINE`, or with ` (PATH:LINE)` behind.
fn source(note: &str) -> Option<(&str, &str)> {
    let place = note.strip_prefix(REFERENCED).or_else(|| note.strip_prefix(DEFINED))?;
    let whole = place.strip_suffix(')').and_then(|place| place.split_once(" (")).map_or(place, |pair| pair.1);
    let (path, line) = whole.rsplit_once(':')?;
    let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    (is_line && !path.is_empty()).then_some((path, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn lines_are_those_of_debug_information() {
        assert_eq!(source("referenced by a.c:3 (/src/a.c:3)"), Some(("/src/a.c", "3")));
        assert_eq!(source("defined at /src/a.c:12"), Some(("/src/a.c", "12")));
        for note in
            ["referenced by a.o:(.text+0x1c)", "defined in a.c:3", "referenced by :3", "referenced by a:"]
        {
            assert_eq!(source(note), None, "{note}");
        }
    }

    #[test]
    fn each_definition_is_a_message_of_its_own() {
        let twice = Diagnostic::error(Code::DuplicateSymbol, "multiple definition of `f'")
            .note("defined at a.c:1")
            .note("a.o:(.text+0x0)")
            .note("defined at b.c:2 (/src/b.c:2)")
            .help("name it otherwise");
        let parts = parts(&twice);
        let origins: Vec<_> = parts.iter().map(origin).collect();
        assert_eq!(origins, [Some("a.c(1)".to_owned()), Some("/src/b.c(2)".to_owned())]);
        assert_eq!(parts[0].notes, twice.notes[..2]);
        assert_eq!((parts[0].help.len(), parts[1].help.len()), (0, 1));
    }

    #[test]
    fn messages_without_a_line_stay_whole() {
        let plain = Diagnostic::error(Code::UndefinedSymbol, "undefined symbol: f")
            .note("defined at a.o:(.text+0x0)")
            .note("defined at b.o:(.text+0x0)");
        assert_eq!(parts(&plain), std::slice::from_ref(&plain));
        assert_eq!(origin(&plain), None);
    }
}
