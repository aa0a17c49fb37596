//! Words of messages and reports: a number with its noun, the system's reason without its number, and names
//! that cannot harm a terminal.
//!
//! Names come from files that other people made. An escape character in a name could move the cursor of a
//! terminal and replace one message by another; a newline could make two lines of one. So every text for
//! people shows such characters as Rust writes them in a string. JSON has its own escapes.

use std::borrow::Cow;
use std::fmt::Write;

/// A number and its noun: `1 file`, `2 files`, `3 entries`.
pub fn count(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    format!("{number} {}", form(number, noun))
}

/// A noun in the form that its number requires.
pub fn form(number: u64, noun: &str) -> Cow<'_, str> {
    if number == 1 {
        return Cow::Borrowed(noun);
    }
    Cow::Owned(match noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o'])) {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with('s') || noun.ends_with('x') => format!("{noun}es"),
        None => format!("{noun}s"),
    })
}

/// A text for people, in one line. Control characters are escaped. `io::Error` adds a number to the system's
/// reason; the number goes, because it says nothing more.
pub fn plain(text: &str) -> Cow<'_, str> {
    match without_numbers(text) {
        Cow::Borrowed(text) => shown(text),
        Cow::Owned(text) => Cow::Owned(shown(&text).into_owned()),
    }
}

/// [`plain`] for a text with several lines.
pub fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

const NUMBER: &str = " (os error ";

fn without_numbers(text: &str) -> Cow<'_, str> {
    let Some((mut out, mut rest)) = text.split_once(NUMBER).map(|(before, rest)| (before.to_owned(), rest))
    else {
        return Cow::Borrowed(text);
    };
    loop {
        match rest.split_once(')') {
            Some((digits, behind)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => rest = behind,
            _ => out.push_str(NUMBER),
        }
        let Some((before, behind)) = rest.split_once(NUMBER) else { break };
        out.push_str(before);
        rest = behind;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A name for people. Control characters are escaped, and so are characters that change the direction of
/// writing or end a line. Nearly every name is returned as it is.
pub fn shown(name: &str) -> Cow<'_, str> {
    // Bytes below the blank, DEL, and the first UTF-8 bytes of the other characters.
    let suspicious = |byte: u8| byte < b' ' || byte == 0x7f || byte == 0xc2 || byte == 0xe2;
    if !name.bytes().any(suspicious) || !name.chars().any(is_hidden) {
        return Cow::Borrowed(name);
    }
    let mut text = String::with_capacity(name.len() + 8);
    for character in name.chars() {
        match character {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(text, "\\x{:02x}", u32::from(character));
            }
            other if is_hidden(other) => {
                let _ = write!(text, "\\u{{{:x}}}", u32::from(other));
            }
            other => text.push(other),
        }
    }
    Cow::Owned(text)
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::{count, plain, plain_lines, shown};
    use std::borrow::Cow;

    #[test]
    fn nouns_follow_their_numbers() {
        let texts = [(0u64, "file"), (1, "file"), (2, "entry"), (1, "entry"), (3, "key"), (2, "suffix")];
        let texts = texts.map(|(number, noun)| count(number, noun));
        assert_eq!(texts, ["0 files", "1 file", "2 entries", "1 entry", "3 keys", "2 suffixes"]);
    }

    #[test]
    fn reasons_have_no_numbers() {
        let error = std::io::Error::from_raw_os_error(2);
        let text = format!("cannot open a.o: {error}; b.o: {error}");
        assert_eq!(
            plain(&text),
            "cannot open a.o: No such file or directory; b.o: No such file or directory"
        );
        for kept in ["a (os error x)", "a (os error 2", "(os error 2)", "plain"] {
            assert_eq!(plain(kept), kept);
        }
    }

    #[test]
    fn characters_that_a_terminal_obeys_are_escaped() {
        let cases = [
            ("a\x1b[2Jb", "a\\x1b[2Jb"),
            ("a\nb\r\tc\x7f", "a\\nb\\r\\tc\\x7f"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt", "\\u{202e}txt"),
        ];
        for (name, text) in cases {
            assert_eq!(shown(name), text);
        }
        for name in ["plain", "größe", "a\\b", "日本語", "“quoted”", "£"] {
            assert!(matches!(shown(name), Cow::Borrowed(same) if same == name));
        }
        assert_eq!(plain_lines("a\x07\nb"), "a\\x07\nb");
    }
}
