//! Response files: `@FILE` stands for the arguments in the file.
//!
//! Arguments are quoted as in GNU tools: white space separates them, unless it is inside single or double
//! quotes. A backslash takes the next byte as it is, also inside quotes; behind one at the end of a line, the
//! line goes on. Files may name further files, relative to the working directory. As in GNU tools, `@NAME`
//! stays an argument if there is no such file.

use super::state::FileReader;
use super::values::{path, shown};
use diagnostics::{Code, Diagnostic, Location, Sink};
use files::BYTE_ORDER_MARK;
use std::io;

/// How many response files one command line may read. Repetitions count.
const FILE_LIMIT: usize = 2000;

/// The arguments with all response files in their places.
pub fn expand(arguments: Vec<Vec<u8>>, files: FileReader<'_>, sink: &Sink) -> Vec<Vec<u8>> {
    let mut expansion = Expansion { files, sink, open: Vec::new(), read: 0, out: Vec::new() };
    expansion.take(arguments);
    expansion.out
}

struct Expansion<'a> {
    files: FileReader<'a>,
    sink: &'a Sink,
    /// The files that are being expanded, outermost first.
    open: Vec<Vec<u8>>,
    read: usize,
    out: Vec<Vec<u8>>,
}

impl Expansion<'_> {
    fn take(&mut self, arguments: Vec<Vec<u8>>) {
        for argument in arguments {
            match argument.strip_prefix(b"@") {
                Some(name) if !name.is_empty() => self.take_file(name),
                _ => self.out.push(argument),
            }
        }
    }

    fn take_file(&mut self, name: &[u8]) {
        if self.open.iter().any(|open| open == name) {
            let chain: Vec<_> = self.open.iter().map(|open| format!("@{}", shown(open))).collect();
            self.complain(name, "the response file names itself", &chain);
            return;
        }
        if self.read >= FILE_LIMIT {
            if self.read == FILE_LIMIT {
                self.read += 1;
                self.complain(name, &format!("more than {FILE_LIMIT} response files"), &[]);
            }
            return;
        }
        match (self.files)(&path(name)) {
            Ok(text) => {
                self.read += 1;
                self.open.push(name.to_vec());
                self.take(split(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text)));
                self.open.pop();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.out.push([b"@", name].concat());
            }
            Err(error) => self.complain(name, &format!("cannot read the response file: {error}"), &[]),
        }
    }

    fn complain(&self, name: &[u8], message: &str, chain: &[String]) {
        let mut diagnostic =
            Diagnostic::error(Code::BadOption, message).at(Location::Argument(format!("@{}", shown(name))));
        for outer in chain {
            diagnostic = diagnostic.note(format!("included from {outer}"));
        }
        self.sink.report(diagnostic);
    }
}

/// The arguments that a text holds.
pub fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let mut arguments = Vec::new();
    let mut current: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            match bytes.next() {
                // The line goes on, as in GNU ld from 2.44 on.
                Some(b'\n') if quote != Some(b'\'') => {}
                next => current.get_or_insert_default().extend(next),
            }
        } else if quote == Some(byte) {
            quote = None;
        } else if quote.is_some() {
            current.get_or_insert_default().push(byte);
        } else if byte == b'\'' || byte == b'"' {
            quote = Some(byte);
            current.get_or_insert_default();
        } else if byte.is_ascii_whitespace() || byte == b'\x0b' {
            arguments.extend(current.take());
        } else {
            current.get_or_insert_default().push(byte);
        }
    }
    arguments.extend(current);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn words(text: &str) -> Vec<String> {
        split(text.as_bytes()).into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn quoting() {
        assert_eq!(words(" a.o\n\t-lm  "), ["a.o", "-lm"]);
        assert_eq!(words(r#""two words" 'it "is"' x"y z"w"#), ["two words", "it \"is\"", "xy zw"]);
        assert_eq!(words(r#"a\ b "c\"d" \\ \'"#), ["a b", "c\"d", "\\", "'"]);
        assert_eq!(words("'' \"\""), ["", ""]);
        assert_eq!(words("'open quote"), ["open quote"]);
        assert_eq!(words("end\\"), ["end"]);
        assert_eq!(words("one\\\ntwo \\\n three \"x\\\ny\""), ["onetwo", "three", "xy"]);
        assert!(words(" \n").is_empty());
    }

    fn files(name: &Path) -> io::Result<Vec<u8>> {
        match name.to_str().unwrap() {
            "outer" => Ok(b"1 @inner @missing 4".to_vec()),
            "inner" => Ok(b"2\n3".to_vec()),
            "cycle" => Ok(b"x @back y".to_vec()),
            "back" => Ok(b"@cycle".to_vec()),
            "many" => Ok(b"@inner ".repeat(3000)),
            "denied" => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn expand_all(arguments: &[&str]) -> (Vec<String>, Vec<Diagnostic>) {
        let sink = Sink::default();
        let arguments = arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect();
        let out = expand(arguments, &files, &sink);
        (out.into_iter().map(|word| String::from_utf8(word).unwrap()).collect(), sink.into_sorted())
    }

    #[test]
    fn nested_missing_and_bare() {
        let (out, diagnostics) = expand_all(&["0", "@outer", "@", "5"]);
        assert_eq!(out, ["0", "1", "2", "3", "@missing", "4", "@", "5"]);
        assert!(diagnostics.is_empty());
    }

    #[test]
    fn cycles_and_unreadable_files_are_errors() {
        let (out, diagnostics) = expand_all(&["@cycle", "@denied"]);
        assert_eq!(out, ["x", "y"]);
        let cycle = diagnostics.iter().find(|d| d.message.contains("names itself")).unwrap();
        assert_eq!(cycle.location, Location::Argument("@cycle".into()));
        assert_eq!(cycle.notes, ["included from @cycle", "included from @back"]);
        assert_eq!(diagnostics.len(), 2);
    }

    #[test]
    fn there_is_a_limit() {
        let (out, diagnostics) = expand_all(&["@many", "@many"]);
        assert_eq!(out.len(), 2 * (FILE_LIMIT - 1));
        assert_eq!(diagnostics.len(), 1);
    }
}
