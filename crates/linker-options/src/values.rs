//! Reads the values of options: numbers, addresses, sizes, words, paths.

use super::config::{Machine, MemoryTagMode, Report};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The result of reading an option's value. The error says what is wrong with it.
pub type Outcome = Result<(), String>;

/// An emulation of `-m`.
pub struct Emulation {
    /// Its name.
    pub name: &'static str,
    /// Its machine.
    pub machine: Machine,
    /// Whether the output is for FreeBSD.
    pub freebsd: bool,
}

impl Emulation {
    const fn new(name: &'static str, machine: Machine) -> Self {
        Emulation { name, machine, freebsd: false }
    }

    const fn of_freebsd(name: &'static str, machine: Machine) -> Self {
        Emulation { name, machine, freebsd: true }
    }
}

/// The emulations of `-m`.
pub static EMULATIONS: &[Emulation] = &[
    Emulation::new("elf_x86_64", Machine::X86_64),
    Emulation::new("elf_amd64", Machine::X86_64),
    Emulation::new("aarch64linux", Machine::AArch64),
    Emulation::new("aarch64elf", Machine::AArch64),
    Emulation::new("elf64_s390", Machine::S390x),
    Emulation::of_freebsd("elf_x86_64_fbsd", Machine::X86_64),
    Emulation::of_freebsd("elf_amd64_fbsd", Machine::X86_64),
    Emulation::of_freebsd("aarch64fbsd", Machine::AArch64),
];

/// BFD's names of the formats that this linker writes, and the machine of each.
pub static TARGETS: &[(&str, Machine)] = &[
    ("elf64-x86-64", Machine::X86_64),
    ("elf64-littleaarch64", Machine::AArch64),
    ("elf64-s390", Machine::S390x),
];

/// Whether a name of `-m`, `--oformat` or `OUTPUT_FORMAT` is that of a 32-bit machine. The system's linker
/// knows such names.
pub fn is_32_bit(name: &[u8]) -> bool {
    let starts = |prefix: &str| name.starts_with(prefix.as_bytes());
    let ends = |suffix: &str| name.ends_with(suffix.as_bytes());
    starts("elf32")
        || starts("elf_i386")
        || starts("armelf")
        || matches!(name, b"elf_s390" | b"elf_iamcu")
        || starts("aarch64") && (ends("32") || ends("32b"))
}

/// Whether a name of `OUTPUT_ARCH` is BFD's name of a 32-bit machine.
pub fn is_32_bit_architecture(name: &[u8]) -> bool {
    matches!(
        name,
        b"i386" | b"i8086" | b"iamcu" | b"i386:x64-32" | b"s390" | b"s390:31-bit" | b"aarch64:ilp32"
    ) || name.starts_with(b"arm")
}

/// The values of `-z …-report=`.
pub static REPORT_WORDS: &[(&str, Report)] =
    &[("none", Report::Ignore), ("warning", Report::Warning), ("error", Report::Error)];

/// The values of `-z memtag-mode=`.
pub static MEMORY_TAG_MODES: &[(&str, Option<MemoryTagMode>)] = &[
    ("none", None),
    ("sync", Some(MemoryTagMode::Synchronous)),
    ("async", Some(MemoryTagMode::Asynchronous)),
];

/// A value as a text for messages.
pub fn shown(value: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(value)
}

/// A value as a path, byte for byte.
pub fn path(value: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(value))
}

/// Reads a value that is one of a few words.
///
/// # Errors
/// The value is none of the words. The text lists them, and says so if another option was taken as the value.
pub fn word<T: Copy>(value: &[u8], words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| word.as_bytes() == value);
    found.map(|&(_, meaning)| meaning).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
        let taken =
            if value.starts_with(b"-") { "; the next word is the value unless '=' gives one" } else { "" };
        format!("unknown value '{}', expected {}{taken}", shown(value), list(&known))
    })
}

/// Joins words as `a, b or c`.
pub fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_string(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

/// Reads a number as C writes it: hexadecimal with `0x`, octal with a leading `0`, otherwise decimal.
///
/// # Errors
/// A text with the value and the expectation.
pub fn number(value: &[u8]) -> Result<u64, String> {
    let text = shown(value);
    let parsed = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => parse_radix(&text[2..], 16),
        [b'0', _, ..] => parse_radix(&text[1..], 8),
        _ => parse_radix(&text, 10),
    };
    parsed.ok_or_else(|| format!("'{text}' is not a number"))
}

/// Reads an address: hexadecimal, with or without `0x`, as GNU ld reads the value of `-Ttext`.
///
/// # Errors
/// A text with the value and the expectation.
pub fn address(value: &[u8]) -> Result<u64, String> {
    let text = shown(value);
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(&text);
    parse_radix(digits, 16).ok_or_else(|| format!("'{text}' is not a hexadecimal address"))
}

fn parse_radix(digits: &str, radix: u32) -> Option<u64> {
    // `from_str_radix` accepts a sign, but an option's number has none.
    if digits.starts_with(['+', '-']) { None } else { u64::from_str_radix(digits, radix).ok() }
}

/// Reads a page size: a number that is a power of two.
///
/// # Errors
/// A text with the value and the expectation.
pub fn page_size(value: &[u8]) -> Result<u64, String> {
    let size = number(value)?;
    if size.is_power_of_two() { Ok(size) } else { Err(format!("page size {size:#x} is not a power of two")) }
}

/// Splits `LEFT=RIGHT`. Neither side may be empty.
///
/// # Errors
/// The value has another form. The text says which was expected.
pub fn pair<'v>(value: &'v [u8], form: &str) -> Result<(&'v [u8], &'v [u8]), String> {
    match value.iter().position(|&byte| byte == b'=') {
        Some(at) if at > 0 && at + 1 < value.len() => Ok((&value[..at], &value[at + 1..])),
        _ => Err(format!("'{}' is not of the form {form}", shown(value))),
    }
}

/// The bytes that hexadecimal digits spell. `-` and `:` may separate them.
///
/// # Errors
/// The digits are wrong. The text says how.
pub fn hex_bytes(digits: &[u8]) -> Result<Vec<u8>, String> {
    let mut nibbles = Vec::with_capacity(digits.len());
    for &byte in digits.iter().filter(|byte| !matches!(byte, b'-' | b':')) {
        let nibble = (byte as char)
            .to_digit(16)
            .ok_or_else(|| format!("'{}' is not a hexadecimal digit", (byte as char).escape_default()))?;
        nibbles.push(nibble as u8);
    }
    if nibbles.is_empty() || !nibbles.len().is_multiple_of(2) {
        return Err("expected an even number of hexadecimal digits".into());
    }
    Ok(nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Decodes percent-encoded bytes. A `%` with neither two digits nor a known name in brackets behind it stands
/// for itself, as in GNU ld.
pub fn percent_decode(value: &[u8]) -> Vec<u8> {
    const NAMED: [(&[u8], u8); 6] = [
        (b"%[comma]", b','),
        (b"%[lbrace]", b'{'),
        (b"%[pct]", b'%'),
        (b"%[quot]", b'"'),
        (b"%[rbrace]", b'}'),
        (b"%[space]", b' '),
    ];
    let digit = |at: usize| value.get(at).and_then(|&byte| (byte as char).to_digit(16));
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while at < value.len() {
        if let Some((name, byte)) = NAMED.iter().find(|(name, _)| value[at..].starts_with(name)) {
            out.push(*byte);
            at += name.len();
            continue;
        }
        match (value[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Drops names that occur earlier in a list. It does so for the whole list at once: to search the list for
/// each new name would take quadratic time, and a list may be as long as the command line.
pub fn drop_repeated(list: &mut Vec<Vec<u8>>) {
    let mut seen: HashSet<Vec<u8>> = HashSet::with_capacity(list.len());
    list.retain(|item| seen.insert(item.clone()));
}

/// The known word that is nearest to a misspelled one, if one is near enough.
pub fn nearest<'w>(misspelled: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let length = misspelled.chars().count();
    let limit = (length / 3).max(1);
    known
        // At least as many edits are needed as the lengths differ by. So a text as long as a file is compared
        // with no word.
        .filter(|word| word.len().abs_diff(length) <= limit)
        .map(|word| (strsim::osa_distance(misspelled, word), word))
        .filter(|&(distance, word)| distance <= limit && distance < word.len())
        .min()
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b"0x1000"), Ok(4096));
        assert_eq!(number(b"4096"), Ok(4096));
        assert_eq!(number(b"010"), Ok(8));
        assert_eq!(number(b"0"), Ok(0));
        for bad in [&b""[..], b"0x", b"12k", b"+1", b"0x+1", b"\xff"] {
            assert!(number(bad).is_err(), "{bad:?}");
        }
        assert_eq!(address(b"1000"), Ok(4096));
        assert_eq!(address(b"0xffffffff81000000"), Ok(0xffff_ffff_8100_0000));
        assert!(address(b"0x").is_err() && address(b"10000000000000000").is_err());
        assert!(page_size(b"3").is_err() && page_size(b"0").is_err());
    }

    #[test]
    fn bytes() {
        assert_eq!(hex_bytes(b"12-ab:CD"), Ok(vec![0x12, 0xab, 0xcd]));
        assert!(hex_bytes(b"1").is_err() && hex_bytes(b"").is_err() && hex_bytes(b"zz").is_err());
        assert_eq!(percent_decode(b"%7B%22a%22%3a1}%[pct]"), b"{\"a\":1}%");
        assert_eq!(percent_decode(b"a%2"), b"a%2");
        assert_eq!(percent_decode(b"50%%22%[no]%"), b"50%\"%[no]%");
    }

    #[test]
    fn nearest_word() {
        let known = ["gc-sections", "no-gc-sections", "shared"];
        assert_eq!(nearest("gc-sectons", known.into_iter()), Some("gc-sections"));
        assert_eq!(nearest("sahred", known.into_iter()), Some("shared"));
        assert_eq!(nearest("frobnicate", known.into_iter()), None);
    }
}
