//! Demangles names of Rust.
//!
//! Names of the older form are C++ names that end with a hash. libiberty takes 16 hexadecimal digits for a
//! hash if at least five different digits occur.

use std::fmt::Write;

/// The text of a Rust name, without the suffix after a `.`. `None`: it is not a Rust name.
pub fn demangle(name: &[u8]) -> Option<Vec<u8>> {
    let name = std::str::from_utf8(name).ok()?;
    let end =
        if name.starts_with("_R") { name.find('.').unwrap_or(name.len()) } else { end_of_legacy(name)? };
    let symbol = rustc_demangle::try_demangle(name.get(..end)?).ok()?;
    let mut text = Text { bytes: Vec::new(), most: longest_text(name) };
    write!(text, "{symbol:#}").ok()?;
    Some(text.bytes)
}

/// The largest length of a name's text. A name of the older form contains all of its text. A name of the
/// newer form may show a part of itself many times, and the crate reads that part each time, even what it
/// does not show. So the product of both lengths has to stay small.
fn longest_text(name: &str) -> usize {
    if name.starts_with("_R") { (64 * name.len()).min(1 << 14) } else { 2 * name.len() }
}

/// A text that refuses to become too long.
struct Text {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.bytes.len() + text.len() > self.most {
            return Err(std::fmt::Error);
        }
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// The end of `_ZN <name>… 17h<hash> E`. A suffix may follow.
fn end_of_legacy(name: &str) -> Option<usize> {
    let mut rest = name.strip_prefix("_ZN")?;
    let (mut last, mut count) = ("", 0);
    while !rest.starts_with('E') {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = rest.get(..digits)?.parse().ok()?;
        let end = digits.checked_add(length)?;
        last = rest.get(digits..end)?;
        rest = &rest[end..];
        count += 1;
    }
    let suffix = &rest[1..];
    let is_path = count > 1 && (suffix.is_empty() || suffix.starts_with('.'));
    (is_path && is_hash(last)).then(|| name.len() - suffix.len())
}

fn is_hash(name: &str) -> bool {
    let Some(digits) = name.strip_prefix('h') else { return false };
    let mut seen = 0_u16;
    for digit in digits.bytes() {
        seen |= match digit {
            b'0'..=b'9' => 1 << (digit - b'0'),
            b'a'..=b'f' => 1 << (digit - b'a' + 10),
            _ => return false,
        };
    }
    digits.len() == 16 && seen.count_ones() >= 5
}
