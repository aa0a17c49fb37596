//! The table of a thin archive: names of files, without their contents.
//!
//! ```text
//! a.o/         the file a.o
//! /17          the file whose name is at offset 17 of the member `//`
//! /17:72       the member at offset 72 of the archive with that name
//! ```

/// A header of a member is this long.
const HEADER: usize = 60;
/// The first bytes of every thin archive.
const MAGIC: &[u8] = b"!<thin>\n";

/// A member as a thin archive names it.
#[derive(PartialEq, Eq, Debug)]
pub struct Named<'a> {
    /// The path of a file.
    pub name: &'a [u8],
    /// If the file is an archive of which the member is one: the offset of its header there.
    pub inside: Option<u64>,
}

/// Whether these are the bytes of a thin archive.
pub fn is_thin(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The members in their order. An error ends them.
pub fn members(bytes: &[u8]) -> impl Iterator<Item = Result<Named<'_>, String>> {
    let mut table = Table { bytes, at: MAGIC.len(), names: b"" };
    std::iter::from_fn(move || {
        let next = table.next().transpose();
        if matches!(next, Some(Err(_))) {
            table.at = bytes.len();
        }
        next
    })
}

struct Table<'a> {
    bytes: &'a [u8],
    /// The offset of the next header.
    at: usize,
    /// The contents of the member `//`, once it was read.
    names: &'a [u8],
}

impl<'a> Table<'a> {
    fn next(&mut self) -> Result<Option<Named<'a>>, String> {
        while self.at < self.bytes.len() {
            let at = self.at;
            let wrong = |what: &str| format!("{what} in the header at offset {at:#x}");
            let header = self.bytes.get(at..at + HEADER).ok_or_else(|| wrong("the file ends"))?;
            if header[58..] != *b"`\n" {
                return Err(wrong("no end mark"));
            }
            let name = header[..16].trim_ascii_end();
            self.at += HEADER;
            // Only these have contents here: the index of symbols, and long names.
            if matches!(name, b"/" | b"/SYM64/" | b"//") {
                let size = number(header[48..58].trim_ascii_end()).ok_or_else(|| wrong("no size"))? as usize;
                let end = self.at.checked_add(size);
                let contents = end.and_then(|end| self.bytes.get(self.at..end));
                let contents = contents.ok_or_else(|| wrong("the file ends in the member"))?;
                if name == b"//" {
                    self.names = contents;
                }
                self.at += size.next_multiple_of(2);
                continue;
            }
            let Some(long) = name.strip_prefix(b"/") else {
                let name = name.strip_suffix(b"/").unwrap_or(name);
                return Ok(Some(Named { name, inside: None }));
            };
            // GNU ar may leave the end of a short name behind the blanks.
            let long = long.split(|&byte| byte == b' ').next().unwrap_or(long);
            let mut parts = long.splitn(2, |&byte| byte == b':');
            let offset = parts.next().and_then(number).and_then(|offset| usize::try_from(offset).ok());
            let inside = match parts.next() {
                Some(text) => Some(number(text).ok_or_else(|| wrong("no offset in another archive"))?),
                None => None,
            };
            let rest = offset.and_then(|offset| self.names.get(offset..));
            let rest = rest.ok_or_else(|| wrong("a name that is outside of the table"))?;
            let line = rest.split(|&byte| byte == b'\n').next().unwrap_or(rest);
            return Ok(Some(Named { name: line.strip_suffix(b"/").unwrap_or(line), inside }));
        }
        Ok(None)
    }
}

/// A decimal number; `None` if the text is none.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, size: usize) -> String {
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644)
    }

    #[test]
    fn names_are_short_long_or_of_another_archive() {
        let names = "some long name.o/\nin.a/\n";
        let text = [
            "!<thin>\n",
            &header("//", names.len()),
            names,
            &header("a.o/", 9),
            &header("/0", 9),
            &header("/18:72", 9),
            &header("/0             /", 9),
        ];
        let text = text.concat();
        let found: Result<Vec<_>, _> = members(text.as_bytes()).collect();
        let named = |name: &'static str, inside| Named { name: name.as_bytes(), inside };
        assert_eq!(
            found.unwrap(),
            [
                named("a.o", None),
                named("some long name.o", None),
                named("in.a", Some(72)),
                named("some long name.o", None)
            ]
        );
    }

    #[test]
    fn broken_tables_are_errors() {
        for header in [header("/7", 9), header("//", 9), header("/0:x", 9), "short".to_owned()] {
            let text = ["!<thin>\n", &header].concat();
            let found: Vec<_> = members(text.as_bytes()).collect();
            assert!(matches!(&found[..], [Err(_)]), "{header}");
        }
    }
}
