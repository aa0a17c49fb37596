//! What a reader prints, as functions with rows.
//!
//! Three forms are known: the text of GNU readelf and objdump, that of llvm-readobj, and the JSON of `sframe
//! dump`. Which one it is shows in the text. What a form leaves out (GNU's does not say whether a value that
//! counts from the CFA is read from memory) is not compared.

use regex::Regex;
use serde_json::Value as Json;
use sframe_format::{Abi, Base, Frame, Location, RegisterRule, Rules};
use std::sync::OnceLock;

/// A function as a reader shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its address.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is a signal frame; `None` if the form does not say.
    pub signal: Option<bool>,
    /// Rows: offset in the function, and rules.
    pub rows: Vec<(u64, ShownRules)>,
}

/// The rules of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownRules {
    /// The stack ends here.
    Outermost,
    /// Where CFA, frame pointer and return address are.
    Frame { cfa: Value, fp: Value, ra: Value, signed: bool },
    /// Something that no form has.
    Unknown(String),
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Unchanged, or not tracked.
    Same,
    /// Where the header says.
    Fixed,
    /// `base + offset`; whether memory is read there, if the form says so.
    At { base: Base, offset: i64, memory: Option<bool> },
}

/// Everything that a reader printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The functions, in their order.
    pub functions: Vec<Shown>,
    /// Whether it speaks of bytes that it cannot read.
    pub speaks_of_gaps: bool,
}

/// Reads a reader's output.
///
/// # Errors
/// It has no form that is known.
pub fn parse(abi: Abi, text: &str) -> Result<Dump, String> {
    let trimmed = text.trim_start();
    if trimmed.starts_with('[') {
        let json: Json = serde_json::from_str(trimmed).map_err(|error| format!("no JSON: {error}"))?;
        return Ok(from_json(abi, &json));
    }
    if text.contains("FuncDescEntry") || text.contains("LoadName:") {
        return Ok(from_llvm(abi, text));
    }
    Ok(from_gnu(abi, text))
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap_or(u64::MAX)
}

/// The number of a register by any of its names.
fn register(abi: Abi, name: &str) -> Option<u32> {
    const AMD64: [&str; 8] = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"];
    match name.to_lowercase().as_str() {
        "sp" => Some(abi.stack_pointer()),
        "fp" => Some(abi.frame_pointer()),
        name if abi == Abi::Amd64 && AMD64.contains(&name) => {
            AMD64.iter().position(|known| *known == name).map(|place| place as u32)
        }
        name => name.strip_prefix(['r', 'x'])?.parse().ok(),
    }
}

/// A value such as `sp+8`, `(fp-8)`, `*(cfa-16)`, `c-16`, `r10`, `u`, `f`.
fn value(abi: Abi, text: &str) -> Option<Value> {
    let text = text.trim();
    match text {
        "u" | "U" => return Some(Value::Same),
        "f" => return Some(Value::Fixed),
        _ => {}
    }
    let memory = text.starts_with('(') || text.starts_with('*');
    let inner = text.trim_start_matches(['*', '(']).trim_end_matches(')');
    let at = inner.find(['+', '-']).unwrap_or(inner.len());
    let (base, offset) = inner.split_at(at);
    let offset: i64 = if offset.is_empty() { 0 } else { offset.parse().ok()? };
    match base {
        // GNU's `c` does not say whether memory is read.
        "c" => Some(Value::At { base: Base::Cfa, offset, memory: None }),
        "cfa" => Some(Value::At { base: Base::Cfa, offset, memory: Some(memory) }),
        name => Some(Value::At { base: Base::Register(register(abi, name)?), offset, memory: Some(memory) }),
    }
}

fn frame(abi: Abi, cfa: &str, fp: &str, ra: &str, signed: bool) -> ShownRules {
    match (value(abi, cfa), value(abi, fp), value(abi, ra)) {
        (Some(cfa), Some(fp), Some(ra)) => ShownRules::Frame { cfa, fp, ra, signed },
        _ => ShownRules::Unknown(format!("{cfa} {fp} {ra}")),
    }
}

fn from_gnu(abi: Abi, text: &str) -> Dump {
    let mut dump = Dump::default();
    let mut repeats = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("func idx") {
            let after = |what: &str| line.split(what).nth(1).unwrap_or_default();
            let start = hexadecimal(after("pc = ").split(',').next().unwrap_or_default());
            let size = after("size = ").split(' ').next().and_then(|size| size.parse().ok());
            let letters = after("attr = ").split('"').nth(1).unwrap_or_default();
            let signal = Some(letters.contains('S'));
            dump.functions.push(Shown { start, size: size.unwrap_or(u64::MAX), signal, rows: Vec::new() });
        } else if line.starts_with("STARTPC") {
            repeats = line.starts_with("STARTPC[m]");
        } else if let Some(function) = dump.functions.last_mut() {
            function.rows.extend(gnu_row(abi, line, if repeats { 0 } else { function.start }));
        }
    }
    dump
}

/// A line with an address of 16 digits and three values.
fn gnu_row(abi: Abi, line: &str, base: u64) -> Option<(u64, ShownRules)> {
    let (start, rest) = line.split_once(char::is_whitespace)?;
    if start.len() != 16 || !start.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let start = hexadecimal(start).wrapping_sub(base);
    if rest.contains("undefined") {
        return Some((start, ShownRules::Outermost));
    }
    // Wide values leave no blank between columns.
    let words: Vec<&str> = values().find_iter(rest).map(|found| found.as_str()).collect();
    let &[cfa, fp, ra] = &words[..] else { return Some((start, ShownRules::Unknown(rest.into()))) };
    let (ra, signed) = ra.strip_suffix("[s]").map_or((ra, false), |ra| (ra, true));
    Some((start, frame(abi, cfa, fp, ra, signed)))
}

/// A value in a row of GNU's text.
fn values() -> &'static Regex {
    static VALUES: OnceLock<Regex> = OnceLock::new();
    let text = r"\(?(?:sp|fp|c|r\d+)[+-]\d+\)?(?:\[s\])?|[uUf](?:\[s\])?|r\d+";
    VALUES.get_or_init(|| Regex::new(text).expect("a pattern of this file"))
}

fn from_json(abi: Abi, json: &Json) -> Dump {
    let mut dump = Dump::default();
    let items = |value: &Json, key: &str| value[key].as_array().cloned().unwrap_or_default();
    for section in json.as_array().into_iter().flatten().flat_map(|file| items(file, "sections")) {
        dump.speaks_of_gaps |= !items(&section, "gaps").is_empty();
        for function in items(&section, "blobs").iter().flat_map(|blob| items(blob, "functions")) {
            let rows = items(&function, "rows");
            dump.speaks_of_gaps |= !function["error"].is_null();
            dump.functions.push(Shown {
                start: hexadecimal(function["address"].as_str().unwrap_or_default()),
                size: function["size"].as_u64().unwrap_or(u64::MAX),
                signal: function["attributes"]["signal"].as_bool(),
                rows: rows.iter().map(|row| json_row(abi, row)).collect(),
            });
        }
    }
    dump
}

fn json_row(abi: Abi, row: &Json) -> (u64, ShownRules) {
    let start = row["start"].as_u64().unwrap_or(u64::MAX);
    let word = |key: &str| row[key].as_str().unwrap_or_default();
    let rules = match word("special") {
        "outermost" => ShownRules::Outermost,
        "" => frame(abi, word("cfa"), word("fp"), word("ra"), row["ra_signed"].as_bool() == Some(true)),
        other => ShownRules::Unknown(other.into()),
    };
    (start, rules)
}

/// llvm-readobj: one value a line, in nested blocks.
fn from_llvm(abi: Abi, text: &str) -> Dump {
    let mut dump = Dump::default();
    let mut in_row = false;
    let (mut base, mut signed) = (String::new(), false);
    let (mut cfa, mut fp, mut ra) = (None, Value::Same, Value::Same);
    for line in text.lines().map(str::trim) {
        let (key, word) = line.split_once(": ").map_or((line, ""), |(key, word)| (key, word.trim()));
        let word = word.split(' ').next().unwrap_or_default();
        let offset = || word.parse::<i64>().ok();
        let at = |base, offset| Value::At { base, offset, memory: Some(base == Base::Cfa) };
        if key.starts_with("FuncDescEntry") {
            dump.functions.push(Shown { start: 0, size: 0, signal: None, rows: Vec::new() });
        }
        let Some(function) = dump.functions.last_mut() else { continue };
        match key {
            "Frame Row Entry {" => {
                (in_row, cfa, fp, ra, signed) = (true, None, Value::Same, Value::Same, false);
                function.rows.push((0, ShownRules::Outermost));
            }
            "Start Address" if in_row => {
                // A function that repeats shows offsets.
                let start = hexadecimal(word);
                let offset = if start < function.start { start } else { start - function.start };
                if let Some(row) = function.rows.last_mut() {
                    row.0 = offset;
                }
            }
            "PC" if !in_row => function.start = hexadecimal(word),
            "Start Address" => function.start = hexadecimal(word),
            "Size" if !in_row => function.size = hexadecimal(word),
            "Base Register" => base = word.to_owned(),
            "Return Address Signed" => signed = word == "Yes",
            "CFA Offset" => {
                cfa = register(abi, &base).zip(offset()).map(|(register, offset)| Value::At {
                    base: Base::Register(register),
                    offset,
                    memory: Some(false),
                });
            }
            "RA Offset" => ra = offset().map_or(Value::Same, |offset| at(Base::Cfa, offset)),
            "FP Offset" => fp = offset().map_or(Value::Same, |offset| at(Base::Cfa, offset)),
            "]" | "}" if in_row => {
                if let (Some(cfa), Some(row)) = (cfa, function.rows.last_mut()) {
                    row.1 = ShownRules::Frame { cfa, fp, ra, signed };
                }
                in_row = false;
            }
            _ => {}
        }
    }
    dump
}

/// Whether a reader shows the rules that a row has.
pub fn agrees(abi: Abi, rules: &Rules, shown: &ShownRules) -> bool {
    match (rules, shown) {
        (Rules::Outermost, ShownRules::Outermost) => true,
        (
            Rules::Frame(Frame { cfa, ra, fp, mangled }),
            ShownRules::Frame { cfa: c, fp: f, ra: r, signed },
        ) => {
            let wanted = Value::At {
                base: Base::Register(cfa.register),
                offset: cfa.offset,
                memory: Some(cfa.dereference),
            };
            let fixed = Location::at_cfa(abi.fixed_ra_offset().into());
            let is_fixed = abi.fixed_ra_offset() != 0 && *ra == RegisterRule::Saved(fixed);
            let ra_agrees = is_fixed && matches!(r, Value::Same | Value::Fixed) || same(ra, r);
            same_value(wanted, *c) && same(fp, f) && ra_agrees && mangled == signed
        }
        _ => false,
    }
}

fn same(rule: &RegisterRule, shown: &Value) -> bool {
    match rule {
        RegisterRule::Unchanged => *shown == Value::Same,
        RegisterRule::Saved(Location { base, offset, dereference }) => {
            let wanted = Value::At { base: *base, offset: (*offset).into(), memory: Some(*dereference) };
            same_value(wanted, *shown)
        }
    }
}

fn same_value(wanted: Value, shown: Value) -> bool {
    let (Value::At { base, offset, memory }, Value::At { base: b, offset: o, memory: m }) = (wanted, shown)
    else {
        return wanted == shown;
    };
    base == b && offset == o && (m.is_none() || memory == m)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GNU: &str = "    func idx [0]: pc = 0x401000, size = 13 bytes, attr = \"S\"
    STARTPC         CFA       FP        RA
    0000000000401000  sp+8      u         f
    0000000000401004  (fp-8)    c-16      r11+0
    0000000000401008  RA undefined
";
    const JSON: &str = r#"[{"sections": [{"blobs": [{"functions": [{"address": "0x401000", "size": 13,
        "attributes": {"signal": true}, "rows": [
        {"start": 0, "cfa": "rsp+8", "fp": "u", "ra": "*(cfa-8)", "ra_signed": false},
        {"start": 4, "cfa": "*(rbp-8)", "fp": "*(cfa-16)", "ra": "r11", "ra_signed": false},
        {"start": 8, "special": "outermost"}]}]}], "gaps": [{}]}]}]"#;

    #[test]
    fn the_forms_say_the_same() {
        let abi = Abi::Amd64;
        let (gnu, json) = (parse(abi, GNU).unwrap(), parse(abi, JSON).unwrap());
        assert!(json.speaks_of_gaps && !gnu.speaks_of_gaps);
        for dump in [gnu, json] {
            let [function] = &dump.functions[..] else { panic!("{dump:?}") };
            assert_eq!((function.start, function.size, function.signal), (0x40_1000, 13, Some(true)));
            let starts: Vec<u64> = function.rows.iter().map(|row| row.0).collect();
            assert_eq!(starts, [0, 4, 8]);
            let plain = super::super::super::blob::rules(abi, 7, 8, false);
            assert!(agrees(abi, &plain, &function.rows[0].1));
            assert!(!agrees(abi, &plain, &function.rows[1].1));
            assert!(agrees(abi, &Rules::Outermost, &function.rows[2].1));
        }
    }
}
