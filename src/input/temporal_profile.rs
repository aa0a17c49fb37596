//! Traces of a program's start: which functions it called for the first time, in order (LLVM's temporal
//! profile, which `-pgo-temporal-instrumentation` records).
//!
//! They are a part of an instrumentation profile. `llvm-profdata merge` writes the *indexed* form:
//!
//! ```text
//! header    magic, version and variant, 0, hash, places of the parts     all little-endian, 8 bytes each
//! table     places of buckets <- number of entries <- header             hash table: name -> counts
//! buckets   hash, size of name, size of counts, name, counts; ...
//! traces    number, number seen; for each: weight, size, hashes of names
//! ```
//!
//! A trace has hashes, and the keys of the table say which names these are. People write the *text* form by
//! hand. In it, traces are in the header, with the names themselves. A name of a local function has its
//! source file in front, with `;` between.

use super::object::Malformed;
use hashbrown::HashMap;

type Hasher = foldhash::fast::FixedState;

/// The traces of a profile.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TemporalProfile {
    /// The functions.
    pub functions: Vec<Function>,
    /// The traces: rows of `functions`, in the order of the first calls.
    pub traces: Vec<Vec<u32>>,
}

/// The name of a function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// The name of a local function's source file, without folders; empty for other functions.
    pub file: Vec<u8>,
    /// The name as in symbol tables, but without suffixes that change from build to build ([`root_name`]).
    pub name: Vec<u8>,
}

impl Function {
    /// Reads a name of a profile.
    fn of(name: &[u8]) -> Function {
        let (file, name) = match memchr::memchr(b';', name) {
            Some(at) => (&name[..at], &name[at + 1..]),
            None => (&b""[..], name),
        };
        Function { file: base_name(file).to_vec(), name: root_name(name).to_vec() }
    }
}

/// The name of a file without folders.
pub fn base_name(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(path, |at| &path[at + 1..])
}

/// The first bytes of an indexed profile.
const INDEXED: &[u8; 8] = b"\xfflprofi\x81";
/// The first bytes of a raw profile in the byte order of its machine; the last letter tells 64 from 32 bits.
const RAW: [&[u8; 8]; 4] = [b"\x81rforpl\xff", b"\xfflprofr\x81", b"\x81Rforpl\xff", b"\xfflprofR\x81"];
/// The versions with traces in a form that is known here. LLVM 17 to 23 write them.
const VERSIONS: std::ops::RangeInclusive<u64> = 10..=14;
/// The bit of the version that says that there are traces.
const TEMPORAL: u64 = 1 << 63;
/// The bits of the version that are the number.
const NUMBER: u64 = 0xffff_ffff;
/// Offsets of fields in the header.
const VERSION: u64 = 8;
const HASH: u64 = 24;
const TABLE: u64 = 32;
const TRACES: u64 = 56;
/// Bytes of a field.
const WORD: u64 = 8;

/// Reads a profile.
///
/// # Errors
/// The file is no profile that this linker reads, or is malformed. The offset is that in the file.
pub fn read(bytes: &[u8]) -> Result<TemporalProfile, Malformed> {
    if bytes.starts_with(INDEXED) {
        return indexed(bytes);
    }
    if RAW.iter().any(|magic| bytes.starts_with(&magic[..])) {
        let what =
            "it is a raw profile, as programs write it; `llvm-profdata merge` makes an indexed one of it";
        return Err(Malformed::at(0, what));
    }
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if !bytes.iter().take(8).all(is_text) {
        return Err(Malformed::at(0, "it is neither an indexed profile of LLVM nor a text"));
    }
    text(bytes)
}

/// A function's name without what differs from build to build: suffixes of names that the compiler made
/// unique or global (`.__uniq.N`, `.llvm.N`).
pub fn root_name(name: &[u8]) -> &[u8] {
    let cut = |name: &'_ [u8], mark: &[u8]| memchr::memmem::rfind(name, mark).unwrap_or(name.len());
    let name = &name[..cut(name, b".llvm.")];
    &name[..cut(name, b".__uniq.")]
}

/// Gives each name a row.
#[derive(Default)]
struct Rows {
    rows: HashMap<Function, u32, Hasher>,
    functions: Vec<Function>,
}

impl Rows {
    fn of(&mut self, name: &[u8]) -> u32 {
        let function = Function::of(name);
        let next = self.functions.len() as u32;
        let row = *self.rows.entry(function.clone()).or_insert(next);
        if row == next {
            self.functions.push(function);
        }
        row
    }
}

/// The bytes of an indexed profile.
#[derive(Clone, Copy)]
struct Indexed<'b>(&'b [u8]);

impl<'b> Indexed<'b> {
    /// The number of 8 bytes at an offset. Messages call it `what`.
    fn word(self, at: u64, what: &str) -> Result<u64, Malformed> {
        let bytes = self.bytes(at, WORD, what)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn bytes(self, at: u64, size: u64, what: &str) -> Result<&'b [u8], Malformed> {
        let end = at.checked_add(size).filter(|&end| end <= self.size());
        let found = end.and_then(|end| self.0.get(at as usize..end as usize));
        found.ok_or_else(|| {
            let end = self.size();
            Malformed::at(
                at,
                format!("{what} of {size} bytes at {at:#x} is past the end of the file ({end:#x})"),
            )
        })
    }

    fn size(self) -> u64 {
        self.0.len() as u64
    }

    /// Checks that there is room for so many entries of at least `size` bytes behind an offset.
    fn expect_room(self, at: u64, count: u64, size: u64, what: &str) -> Result<(), Malformed> {
        let room = self.size().saturating_sub(at) / size;
        if count <= room {
            return Ok(());
        }
        Err(Malformed::at(
            at,
            format!("there cannot be {count} {what} at {at:#x}: the file has room for {room}"),
        ))
    }
}

fn indexed(bytes: &[u8]) -> Result<TemporalProfile, Malformed> {
    let file = Indexed(bytes);
    let version = file.word(VERSION, "the version")?;
    if !VERSIONS.contains(&(version & NUMBER)) {
        let (first, last) = (VERSIONS.start(), VERSIONS.end());
        let what = format!(
            "it is an indexed profile of version {}; this linker reads versions {first} to {last}",
            version & NUMBER
        );
        return Err(Malformed::at(VERSION, what));
    }
    if version & TEMPORAL == 0 {
        return Ok(TemporalProfile::default());
    }
    let hash = file.word(HASH, "the kind of hashes")?;
    if hash != 0 {
        return Err(Malformed::at(HASH, format!("names have hashes of kind {hash}, expected 0 (MD5)")));
    }
    let traces = hashed_traces(file)?;
    let names = names_of(file, &traces)?;
    let mut rows = Rows::default();
    // A name that the table lacks cannot be found among symbols either.
    let mut known = |hash: &u64| Some(rows.of(names.get(hash)?.as_ref()?));
    let traces = traces.iter().map(|trace| trace.iter().filter_map(&mut known).collect()).collect();
    Ok(TemporalProfile { functions: rows.functions, traces })
}

/// The traces, as hashes of names.
fn hashed_traces(file: Indexed<'_>) -> Result<Vec<Vec<u64>>, Malformed> {
    let mut at = file.word(TRACES, "the place of traces")?;
    let count = file.word(at, "the number of traces")?;
    // The number of traces of which these are a choice follows.
    at += 2 * WORD;
    file.expect_room(at, count, 2 * WORD, "traces")?;
    let mut traces = Vec::with_capacity(count as usize);
    for _ in 0..count {
        file.word(at, "a trace's weight")?;
        let size = file.word(at + WORD, "a trace's size")?;
        at += 2 * WORD;
        file.expect_room(at, size, WORD, "functions of a trace")?;
        let hashes = (0..size).map(|row| file.word(at + row * WORD, "a function's hash"));
        traces.push(hashes.collect::<Result<Vec<u64>, Malformed>>()?);
        at += size * WORD;
    }
    Ok(traces)
}

/// The names that have the hashes of these traces.
fn names_of<'b>(
    file: Indexed<'b>,
    traces: &[Vec<u64>],
) -> Result<HashMap<u64, Option<&'b [u8]>, Hasher>, Malformed> {
    let mut names: HashMap<u64, Option<&[u8]>, Hasher> =
        traces.iter().flatten().map(|&hash| (hash, None)).collect();
    let table = file.word(TABLE, "the place of the table of names")?;
    let buckets = file.word(table, "the number of buckets")?;
    let entries = file.word(table.saturating_add(WORD), "the number of names")?;
    let first = table.saturating_add(2 * WORD);
    file.expect_room(first, buckets, WORD, "buckets")?;
    file.expect_room(0, entries, 3 * WORD, "names")?;
    let mut left = entries;
    for bucket in 0..buckets {
        let at = file.word(first + bucket * WORD, "the place of a bucket")?;
        if at == 0 {
            continue;
        }
        let size = file.bytes(at, 2, "the size of a bucket")?;
        let size = u64::from(u16::from_le_bytes([size[0], size[1]]));
        // Buckets that share their entries would cost more time than the file is large.
        left = left.checked_sub(size).ok_or_else(|| {
            Malformed::at(at, format!("the buckets have more names than the table says: {entries}"))
        })?;
        names_of_bucket(file, at + 2, size, &mut names)?;
    }
    Ok(names)
}

/// Notes the names of a bucket that have wanted hashes.
fn names_of_bucket<'b>(
    file: Indexed<'b>,
    mut at: u64,
    size: u64,
    names: &mut HashMap<u64, Option<&'b [u8]>, Hasher>,
) -> Result<(), Malformed> {
    for _ in 0..size {
        let hash = file.word(at, "the hash of a name")?;
        let length = file.word(at + WORD, "the size of a name")?;
        let counts = file.word(at + 2 * WORD, "the size of a function's counts")?;
        let name = file.bytes(at + 3 * WORD, length, "a function's name")?;
        if let Some(wanted) = names.get_mut(&hash) {
            *wanted = Some(name);
        }
        at = (at + 3 * WORD + length).checked_add(counts).filter(|&end| end <= file.size()).ok_or_else(
            || {
                Malformed::at(
                    at,
                    format!("the counts of a function have {counts:#x} bytes, past the end of the file"),
                )
            },
        )?;
    }
    Ok(())
}

/// A profile in text form. Only its header counts: the lines that begin with a colon, and what belongs to
/// them.
fn text(bytes: &[u8]) -> Result<TemporalProfile, Malformed> {
    let mut lines = Lines { text: bytes, at: 0 };
    let mut rows = Rows::default();
    let mut traces = Vec::new();
    while let Some((at, line)) = lines.peek() {
        let Some(word) = line.strip_prefix(b":") else { break };
        lines.next();
        match word.to_ascii_lowercase().as_slice() {
            b"temporal_prof_traces" => traces.extend(text_traces(&mut lines, &mut rows)?),
            b"ir"
            | b"fe"
            | b"csir"
            | b"entry_first"
            | b"not_entry_first"
            | b"instrument_loop_entries"
            | b"single_byte_coverage" => {}
            _ => {
                let what = format!("`{}` is no line of a profile's header", String::from_utf8_lossy(line));
                return Err(Malformed::at(at, what));
            }
        }
    }
    Ok(TemporalProfile { functions: rows.functions, traces })
}

/// The traces of a text: their number, the number seen, and for each its weight and its functions.
fn text_traces(lines: &mut Lines<'_>, rows: &mut Rows) -> Result<Vec<Vec<u32>>, Malformed> {
    let count = lines.number("the number of traces")?;
    lines.number("the number of traces seen")?;
    let mut traces = Vec::new();
    for _ in 0..count {
        lines.number("a trace's weight")?;
        let (_, line) = lines.wanted("the functions of a trace, separated by commas")?;
        traces.push(line.split(|&byte| byte == b',').map(|name| rows.of(name.trim_ascii())).collect());
    }
    Ok(traces)
}

/// The lines of a text, without empty ones and comments (`#`).
struct Lines<'b> {
    text: &'b [u8],
    at: usize,
}

impl<'b> Lines<'b> {
    /// The next line and its offset, which [`Lines::next`] steps over.
    fn peek(&mut self) -> Option<(u64, &'b [u8])> {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
            if !line.trim_ascii().is_empty() && line[0] != b'#' {
                return Some((self.at as u64, line.trim_ascii()));
            }
            self.at += line.len() + 1;
        }
        None
    }

    fn next(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len()) + 1;
    }

    /// The next line, which must exist.
    fn wanted(&mut self, what: &str) -> Result<(u64, &'b [u8]), Malformed> {
        let found = self.peek();
        self.next();
        found.ok_or_else(|| Malformed::at(self.text.len() as u64, format!("the text ends before {what}")))
    }

    fn number(&mut self, what: &str) -> Result<u64, Malformed> {
        let (at, line) = self.wanted(what)?;
        let number = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
        number.ok_or_else(|| {
            let found = String::from_utf8_lossy(line);
            Malformed::at(at, format!("expected {what}, found `{found}`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile in indexed form with a trace of these hashes, and these names in two buckets.
    fn profile(version: u64, trace: &[u64], names: &[(u64, &str)]) -> Vec<u8> {
        let mut bytes = INDEXED.to_vec();
        let words = |bytes: &mut Vec<u8>, words: &[u64]| {
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        };
        words(&mut bytes, &[version | TEMPORAL, 0, 0, 0, 0, 0, 0, 0]);
        let mut buckets = [0, 0];
        for (bucket, names) in buckets.iter_mut().zip(names.chunks(2)) {
            *bucket = bytes.len() as u64;
            bytes.extend((names.len() as u16).to_le_bytes());
            for (hash, name) in names {
                words(&mut bytes, &[*hash, name.len() as u64, 3]);
                bytes.extend(name.as_bytes());
                bytes.extend([7; 3]);
            }
        }
        let table = bytes.len() as u64;
        words(&mut bytes, &[2, names.len() as u64, buckets[0], buckets[1]]);
        let traces = bytes.len() as u64;
        words(&mut bytes, &[1, 1, 1, trace.len() as u64]);
        words(&mut bytes, trace);
        bytes[TABLE as usize..][..8].copy_from_slice(&table.to_le_bytes());
        bytes[TRACES as usize..][..8].copy_from_slice(&traces.to_le_bytes());
        bytes
    }

    fn small() -> Vec<u8> {
        profile(13, &[30, 10, 99, 20], &[(10, "main"), (20, "a/b.c;helper"), (30, "init.llvm.77")])
    }

    fn named(profile: &TemporalProfile) -> Vec<Vec<&str>> {
        let name = |&row: &u32| std::str::from_utf8(&profile.functions[row as usize].name).unwrap();
        profile.traces.iter().map(|trace| trace.iter().map(name).collect()).collect()
    }

    #[test]
    fn indexed_traces_have_the_names_of_the_table() {
        // No name has the hash 99.
        let profile = read(&small()).unwrap();
        assert_eq!(named(&profile), [["init", "main", "helper"]]);
        assert_eq!(
            profile.functions.iter().map(|found| &found.file[..]).collect::<Vec<_>>(),
            [b"", b"", &b"b.c"[..]]
        );
    }

    #[test]
    fn texts_have_names_in_lines() {
        let text = b":ir\n# Traces\n:Temporal_Prof_Traces\n\n2\n9\n1\nmain, a.c;b\n5\n# functions\nmain\n\nmain\n1\n1\n0\n";
        assert_eq!(named(&read(text).unwrap()), [vec!["main", "b"], vec!["main"]]);
        assert_eq!(read(b":ir\nmain\n1\n").unwrap(), TemporalProfile::default());
        assert_eq!(read(b"").unwrap(), TemporalProfile::default());
    }

    #[test]
    fn what_is_wrong_is_told() {
        let told = |bytes: &[u8], words: &str| {
            let malformed = read(bytes).unwrap_err();
            assert!(malformed.what.contains(words), "{malformed:?}");
        };
        told(RAW[0], "llvm-profdata merge");
        told(b"\x7fELF\x02\x01\x01\x00", "neither");
        told(b":ir\n:temporal_prof_traces\nmany\n", "expected the number of traces, found `many`");
        told(b":temporal_prof_traces\n2\n2\n1\na\n", "the text ends before a trace's weight");
        told(b":nothing\n", "`:nothing` is no line");
        told(&profile(9, &[], &[]), "version 9; this linker reads versions 10 to 14");
        told(&INDEXED[..], "the version of 8 bytes");
        let mut other_hash = small();
        other_hash[HASH as usize] = 1;
        told(&other_hash, "kind 1");
        let mut many = small();
        let traces = many.len() - 8 * 8;
        many[traces..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
        told(&many, "traces");
    }

    #[test]
    fn shared_buckets_end() {
        let mut bytes = small();
        let table = u64::from_le_bytes(bytes[TABLE as usize..][..8].try_into().unwrap()) as usize;
        let bucket: [u8; 8] = bytes[table + 16..][..8].try_into().unwrap();
        bytes[table + 24..][..8].copy_from_slice(&bucket);
        assert!(read(&bytes).unwrap_err().what.contains("more names than the table says"));
    }

    #[test]
    fn a_profile_that_ends_early_is_an_error_or_has_no_names() {
        let whole = small();
        for end in 0..whole.len() {
            let _ = read(&whole[..end]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = read(&changed);
            }
        }
    }

    #[test]
    fn suffixes_that_change_do_not_count() {
        for name in ["f", "f.llvm.123", "f.__uniq.5", "f.__uniq.5.llvm.9"] {
            assert_eq!(root_name(name.as_bytes()), b"f", "{name}");
        }
    }
}
