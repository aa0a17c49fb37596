//! Patterns for names: `*`, `?`, `[a-z]`, `[!a-z]` (also `[^a-z]`), and `\` before a byte that stands for
//! itself.
//!
//! `/` and a leading period are bytes like any other.

/// A pattern, compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// Exactly these bytes.
    Literal(Box<[u8]>),
    /// Any one byte.
    Any,
    /// One byte of a set, which has a bit for each byte.
    Set(Box<[u64; 4]>),
    /// Any bytes, or none.
    Star,
}

/// The form of a pattern. Some forms have a quick test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape<'a> {
    /// No wildcard: exactly these bytes.
    Exact(&'a [u8]),
    /// A prefix: these bytes and anything behind them.
    Prefix(&'a [u8]),
    /// `*`.
    Everything,
    /// Any other pattern. These are the bytes before its first wildcard.
    General(&'a [u8]),
}

/// Whether a pattern matches a whole text. It compiles the pattern each time; a [`Glob`] compiles it once.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Glob::new(pattern).matches(text)
}

impl Glob {
    /// Compiles a pattern. Every text is a pattern: a bracket that is not closed stands for itself.
    pub fn new(pattern: &[u8]) -> Self {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = pattern;
        // Once nothing closes a bracket, nothing closes a later one either. Without this flag, each of them
        // would search the rest of the text again.
        let mut closed = true;
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            let part = match byte {
                b'*' => Part::Star,
                b'?' => Part::Any,
                b'[' => match closed.then(|| set(tail)).flatten() {
                    Some((bits, after)) => {
                        rest = after;
                        Part::Set(Box::new(bits))
                    }
                    None => {
                        closed = false;
                        literal.push(byte);
                        continue;
                    }
                },
                b'\\' => {
                    let (&escaped, after) = tail.split_first().unwrap_or((&b'\\', &[]));
                    literal.push(escaped);
                    rest = after;
                    continue;
                }
                _ => {
                    literal.push(byte);
                    continue;
                }
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal).into()));
            }
            if part != Part::Star || parts.last() != Some(&Part::Star) {
                parts.push(part);
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        Glob { parts }
    }

    /// The form of the pattern.
    pub fn shape(&self) -> Shape<'_> {
        match &self.parts[..] {
            [] => Shape::Exact(b""),
            [Part::Literal(text)] => Shape::Exact(text),
            [Part::Star] => Shape::Everything,
            [Part::Literal(text), Part::Star] => Shape::Prefix(text),
            [Part::Literal(text), ..] => Shape::General(text),
            _ => Shape::General(b""),
        }
    }

    /// Whether the pattern is a name without wildcards.
    pub fn is_exact(&self) -> bool {
        matches!(self.shape(), Shape::Exact(_))
    }

    /// Whether the whole text fits. The time is at most proportional to the text's length times the
    /// pattern's.
    pub fn matches(&self, text: &[u8]) -> bool {
        // Nearly every name fails this test for `.text.*_unlikely`; without it, the loop would try
        // the pattern's end at each byte of each mangled name.
        if let Some(Part::Literal(end)) = self.parts.last()
            && !text.ends_with(end)
        {
            return false;
        }
        let mut at = 0;
        let mut part = 0;
        // The part after the last `*`, and where the text of that `*` ends for now. If a part does not fit,
        // that `*` takes one byte more. To give more bytes to an earlier `*` cannot help.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let step = match self.parts.get(part) {
                None if at == text.len() => return true,
                None => None,
                Some(Part::Star) => {
                    retry = Some((part + 1, at));
                    part += 1;
                    continue;
                }
                Some(one) => one.length_at(&text[at..]),
            };
            match (step, &mut retry) {
                (Some(length), _) => {
                    at += length;
                    part += 1;
                }
                (None, Some((next, from))) if *from < text.len() => {
                    *from += 1;
                    (part, at) = (*next, *from);
                }
                (None, _) => return false,
            }
        }
    }
}

impl Part {
    /// The number of bytes that this part takes at the start of `rest`, if it fits. `*` has no such number.
    fn length_at(&self, rest: &[u8]) -> Option<usize> {
        match (self, rest.first()) {
            (Part::Literal(literal), _) => rest.starts_with(literal).then_some(literal.len()),
            (Part::Any, Some(_)) => Some(1),
            (Part::Set(bits), Some(&byte)) => has(bits, byte).then_some(1),
            _ => None,
        }
    }
}

fn has(bits: &[u64; 4], byte: u8) -> bool {
    bits[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
}

/// The set behind an opening bracket, and the text behind the closing one. A `]` that comes first is a member
/// of the set; a `-` between two bytes makes a range.
fn set(text: &[u8]) -> Option<([u64; 4], &[u8])> {
    let (inverted, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut bits = [0u64; 4];
    let mut first = true;
    loop {
        let (mut low, mut tail) = rest.split_first()?;
        if *low == b']' && !first {
            rest = tail;
            break;
        }
        first = false;
        if *low == b'\\' {
            (low, tail) = tail.split_first()?;
        }
        let mut high = low;
        if let [b'-', end, after @ ..] = tail
            && *end != b']'
        {
            (high, tail) = (end, after);
            if *end == b'\\' {
                (high, tail) = after.split_first()?;
            }
        }
        for byte in *low..=*high {
            bits[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
        rest = tail;
    }
    if inverted {
        bits = bits.map(|word| !word);
    }
    Some((bits, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fits(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes()).matches(text.as_bytes())
    }

    #[test]
    fn wildcards() {
        for (pattern, text) in [
            ("", ""),
            ("abc", "abc"),
            ("*", ""),
            ("*", "a/b.c"),
            (".text.*", ".text."),
            (".text.*_unlikely", ".text.f_unlikely"),
            ("*crtbegin?.o", "dir/crtbeginS.o"),
            ("a*b*c", "aXbYbc"),
            (".text.[0-9a-zA-Z_]*", ".text.f"),
            ("[!a]x", "bx"),
            ("[^a]x", "bx"),
            ("[]a]", "]"),
            ("[a-]", "-"),
            ("[\\]]", "]"),
            ("\\*a", "*a"),
            ("a[b", "a[b"),
            ("**a**", "a"),
            ("___ksymtab+*", "___ksymtab+foo"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("abc", "abcd"),
            ("?", ""),
            (".text.*", ".text"),
            ("a*b*c", "aXbY"),
            (".text.[0-9a-zA-Z_]*", ".text..f"),
            ("[!a]x", "ax"),
            ("[b-a]", "a"),
            ("\\*a", "xa"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn shapes() {
        let shape = |pattern: &str| format!("{:?}", Glob::new(pattern.as_bytes()).shape());
        assert_eq!(shape(".a\\*"), format!("{:?}", Shape::Exact(b".a*")));
        assert_eq!(shape(".a**"), format!("{:?}", Shape::Prefix(b".a")));
        assert_eq!(shape("*"), format!("{:?}", Shape::Everything));
        assert_eq!(shape(".a?"), format!("{:?}", Shape::General(b".a")));
        assert_eq!(shape("*a"), format!("{:?}", Shape::General(b"")));
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(50) + "b";
        assert!(!fits(&pattern, &"a".repeat(10_000)));
    }

    #[test]
    fn many_open_brackets_take_no_time() {
        let pattern = "[".repeat(1 << 20);
        assert!(fits(&pattern, &pattern));
        assert!(fits(&(pattern.clone() + "*"), &pattern));
    }

    /// A bracket that nothing closes does not change what the brackets behind it mean.
    #[test]
    fn brackets_are_closed_as_if_each_were_looked_at() {
        fn compiled(pattern: &[u8]) -> Vec<Part> {
            let Some((&first, tail)) = pattern.split_first() else { return Vec::new() };
            match (first, set(tail)) {
                (b'[', Some((bits, after))) => {
                    let mut parts = vec![Part::Set(Box::new(bits))];
                    parts.extend(compiled(after));
                    parts
                }
                (b'\\', _) => match tail.split_first() {
                    Some((&byte, after)) => joined(byte, compiled(after)),
                    None => joined(b'\\', Vec::new()),
                },
                (byte, _) => joined(byte, compiled(tail)),
            }
        }
        fn joined(byte: u8, mut parts: Vec<Part>) -> Vec<Part> {
            match parts.first_mut() {
                Some(Part::Literal(text)) => *text = [&[byte], &text[..]].concat().into(),
                _ => parts.insert(0, Part::Literal([byte].into())),
            }
            parts
        }
        let letters = b"[]\\-!a";
        for number in 0..letters.len().pow(7) {
            let digit = |place: u32| letters[number / letters.len().pow(place) % letters.len()];
            let pattern: Vec<u8> = (0..7).map(digit).collect();
            assert_eq!(
                Glob::new(&pattern).parts,
                compiled(&pattern),
                "{}",
                String::from_utf8_lossy(&pattern)
            );
        }
    }

    /// What a pattern means, without any cleverness.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|at| naive(rest, &text[at..])),
            [b'?', rest @ ..] => !text.is_empty() && naive(rest, &text[1..]),
            [byte, rest @ ..] => text.first() == Some(byte) && naive(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(fits(&pattern, &text), naive(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn any_bytes_are_a_pattern(pattern: Vec<u8>, text: Vec<u8>) {
            let _ = Glob::new(&pattern).matches(&text);
        }
    }
}
