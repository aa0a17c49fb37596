//! Brings messages of linkers to one form.
//!
//! Every linker words its messages differently. This module recognises a message by its topic (an entry of
//! [`TOPICS`]) and by the name in it. A message that no pattern matches stays as it is, without paths and
//! addresses.

use regex::Regex;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::OnceLock;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Message {
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// Its topic; `other` if no pattern matches.
    pub topic: String,
    /// The symbol, section, option or library that it names; for topic `other`, its text.
    pub subject: String,
    /// The first line as the linker wrote it.
    pub text: String,
}

impl Message {
    /// The key that messages of linkers are compared by. All unknown messages have the same key, because
    /// their texts differ between linkers.
    pub fn key(&self) -> String {
        match self.topic.as_str() {
            "other" => format!("{}: other", self.severity),
            // Linkers name the same place in different ways, and report one reference or all references.
            "discarded-reference" | "sframe" | "corrupt-group" | "execstack" => {
                format!("{}: {}", self.severity, self.topic)
            }
            topic => format!("{}: {topic} {}", self.severity, self.subject),
        }
    }
}

/// The topics, each with a pattern that recognises it. The first group of the pattern is the subject.
const TOPICS: &[(&str, &str)] = &[
    ("discarded-reference", r"relocation refers to a discarded section: ?(\S*)"),
    ("discarded-reference", r"relocation refers to a section that the linker script discards: ?(\S*)"),
    (
        "discarded-reference",
        r#"relocation refers to (?:local|global) symbol "([^"]*)" \[\d+\], which is defined in a discarded"#,
    ),
    ("discarded-reference", r"`([^']*)' referenced in section `[^']*' of .*: defined in discarded section"),
    (
        "discarded-reference",
        r"(?i)relocation refers to (?:a )?(?:symbol in )?discarded (?:comdat )?(?:section|symbol):? ?(\S*)",
    ),
    ("link-order-discarded", r"sh_link points to discarded section (\S*)"),
    (
        "link-order-discarded",
        r"linked-to section of (\S+) is discarded|`\S+' refers to a discarded section (\S+)",
    ),
    ("undefined", r"undefined (?:reference to|symbol:?|hidden symbol:?) ?[`']?([^'`\s]+)"),
    ("duplicate", r"(?:multiple definition of|duplicate symbol:?) ?[`']?([^'`\s]+)"),
    ("no-library", r"(?:cannot find|unable to find library|library not found:?|cannot open) -?-?(l\S+)"),
    ("no-file", r"(?:cannot (?:find|open)|No such file)[: ]+'?([^'\s:]+)"),
    ("overflow", r"(?:relocation truncated to fit: (\S+)|relocation (\S+) out of range|relocation overflow)"),
    (
        "option",
        r"(?:unrecognized option|unknown option|unknown (?:command line )?argument(?:\(s\))?|unknown command line option)[: ]*'?([^'\s]+)",
    ),
    ("option", r"(-\S+): unknown option"),
    ("incompatible", r"skipping incompatible \S+ when searching for (\S+)"),
    ("execstack", r"(?:executable stack|GNU-stack section|requires? executable|\.note\.GNU-stack)"),
    ("sframe", r"(?i)\bs_?frame\b"),
    ("corrupt-group", r"(?i)(?:sht_group|section group|invalid entry \(0x)"),
    ("pic", r"relocation (R_\S+) (?:against|cannot be used)"),
    ("no-entry", r"cannot find entry symbol (\S+)"),
    ("final", r"final link failed|ld returned \d+ exit status"),
];

struct Patterns {
    topics: Vec<(&'static str, Regex)>,
    severity: Regex,
    note: Regex,
    prefix: Regex,
    address: Regex,
}

fn patterns() -> &'static Patterns {
    static PATTERNS: OnceLock<Patterns> = OnceLock::new();
    // The patterns are constants, and a test compiles all of them.
    let regex = |text: &str| Regex::new(text).expect("a pattern of this file");
    PATTERNS.get_or_init(|| Patterns {
        topics: TOPICS.iter().map(|(name, text)| (*name, regex(text))).collect(),
        severity: regex(r"(?i)\b(internal error|fatal error|fatal|error|warning|panicked)\b"),
        note: regex(r"^(?:>>>|\s|note:|help:)|: (?:note|help): "),
        prefix: regex(r"^(?:[^\s:]*/)?(?:[\w.+-]*ld(?:\.\w+)?|mold|wild|sframe-ld|\S+-ld-?\S*): "),
        address: regex(r"0x[0-9a-fA-F]+"),
    })
}

/// Finds the messages in a linker's output. `folder` is a path that differs from run to run.
pub fn read(text: &str, folder: &Path) -> Vec<Message> {
    let folder = folder.display().to_string();
    let mut messages: Vec<Message> = Vec::new();
    for line in text.lines() {
        let line = line.replace(&folder, "OUT");
        if line.trim().is_empty() {
            continue;
        }
        messages.extend(message(&line));
    }
    messages.sort();
    messages.dedup_by(|a, b| (&a.severity, &a.topic, &a.subject) == (&b.severity, &b.topic, &b.subject));
    messages
}

fn message(line: &str) -> Option<Message> {
    let patterns = patterns();
    let named = patterns.prefix.is_match(line);
    let bare = patterns.prefix.replace(line, "").into_owned();
    let severity = patterns.severity.find(&bare).map(|found| found.as_str().to_lowercase());
    let recognised = patterns.topics.iter().find_map(|(topic, regex)| {
        let found = regex.captures(&bare)?;
        let subject = found.iter().skip(1).flatten().next().map_or("", |subject| subject.as_str());
        Some((*topic, subject.trim_end_matches([',', ':', ';', '\'', '"', ')']).to_owned()))
    });
    if patterns.note.is_match(line) && severity.is_none() {
        return None;
    }
    let severity = match severity.as_deref() {
        Some("warning") => "warning",
        Some(_) => "error",
        // GNU ld writes most of its errors without the word "error".
        None if recognised.is_some() && named => "error",
        None if recognised.is_some() && bare.contains(": ") => "error",
        None => "note",
    };
    let (topic, subject) = match recognised {
        Some(("final", _)) => return None,
        Some((topic, subject)) => (topic.to_owned(), subject),
        None if severity == "note" => return None,
        None => ("other".to_owned(), patterns.address.replace_all(&bare, "0x…").into_owned()),
    };
    Some(Message { severity: severity.into(), topic, subject, text: bare })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn keys(text: &str) -> Vec<String> {
        read(text, Path::new("/tmp/x")).iter().map(Message::key).collect()
    }

    #[test]
    fn violations_of_every_linker_have_one_topic() {
        for text in [
            "ld.lld: error: relocation refers to a discarded section: .text.f\n>>> defined in b.o\n>>> referenced by b.o:(.sframe+0x1c)",
            "b.o(.sframe+0x1c): error: relocation refers to local symbol \".text.f\" [2], which is defined in a discarded section\n  section group signature: \"f\"",
            "/x/ld: `.text.f' referenced in section `.data' of b.o: defined in discarded section `.text.f[f]' of b.o",
            "sframe-ld: error: relocation refers to a discarded section: .text.f",
        ] {
            assert_eq!(keys(text), ["error: discarded-reference"], "{text}");
        }
        let warning = "ld.lld: warning: relocation refers to a discarded section: .text.f";
        assert_eq!(keys(warning), ["warning: discarded-reference"]);
    }

    #[test]
    fn undefined_and_duplicate_symbols_are_named() {
        for text in [
            "/usr/bin/ld: a.o: in function `main':\na.c:(.text+0x5): undefined reference to `gone'",
            "ld.lld: error: undefined symbol: gone\n>>> referenced by a.o:(.text+0x5)",
            "mold: error: undefined symbol: gone\n>>> referenced by a.o",
        ] {
            assert_eq!(keys(text), ["error: undefined gone"], "{text}");
        }
        let text = "/usr/bin/ld: b.o:(.text+0x0): multiple definition of `twice'; a.o:(.text+0x0): first defined here";
        assert_eq!(keys(text), ["error: duplicate twice"]);
    }

    #[test]
    fn notes_are_no_messages() {
        assert_eq!(keys("note: something\n  indented\nplain talk\n"), Vec::<String>::new());
    }
}
