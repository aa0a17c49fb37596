//! The conditions of `REQUIRES:`, `UNSUPPORTED:` and `XFAIL:`. A condition is made of names of features, `!`,
//! `&&`, `||` and parentheses. Commas separate several conditions.

use anyhow::{Result, bail};
use std::collections::BTreeSet;

/// Features that this run has.
pub type Features = BTreeSet<String>;

/// Whether a condition holds. A malformed condition is an error.
pub fn holds(condition: &str, features: &Features) -> Result<bool> {
    let words = words(condition)?;
    let mut parser = Parser { words: &words, at: 0, features };
    let value = parser.either()?;
    match parser.next() {
        None => Ok(value),
        Some(word) => bail!("unexpected `{word}` in the condition `{condition}`"),
    }
}

fn words(condition: &str) -> Result<Vec<&str>> {
    let mut words = Vec::new();
    let mut rest = condition.trim_start();
    while !rest.is_empty() {
        let name = |c: char| c.is_ascii_alphanumeric() || "-+=._*".contains(c);
        let length = match rest.chars().next() {
            Some('!' | '(' | ')') => 1,
            _ if rest.starts_with("&&") || rest.starts_with("||") => 2,
            _ => rest.find(|c| !name(c)).unwrap_or(rest.len()),
        };
        if length == 0 {
            bail!("unexpected `{rest}` in the condition `{condition}`");
        }
        let (word, after) = rest.split_at(length);
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    features: &'a Features,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.at += 1;
        self.words.get(self.at - 1).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }

    fn either(&mut self) -> Result<bool> {
        let mut value = self.both()?;
        while self.take("||") {
            value |= self.both()?;
        }
        Ok(value)
    }

    fn both(&mut self) -> Result<bool> {
        let mut value = self.single()?;
        while self.take("&&") {
            value &= self.single()?;
        }
        Ok(value)
    }

    fn single(&mut self) -> Result<bool> {
        match self.next() {
            Some("!") => Ok(!self.single()?),
            Some("(") => {
                let value = self.either()?;
                if !self.take(")") {
                    bail!("a condition lacks `)`");
                }
                Ok(value)
            }
            Some("*" | "true") => Ok(true),
            Some("false") => Ok(false),
            Some(word) if !matches!(word, ")" | "&&" | "||") => Ok(self.features.contains(word)),
            Some(word) => bail!("unexpected `{word}` in a condition"),
            None => bail!("a condition ends where a feature should stand"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_c() {
        let features: Features = ["a", "b-1"].map(String::from).into();
        let of = |text| holds(text, &features).unwrap();
        assert!(of("a && b-1") && of("c || a && b-1") && of("!c") && of("*"));
        assert!(!of("c && a || c") && !of("!(a || c)"));
    }

    #[test]
    fn malformed_conditions_are_errors() {
        for text in ["", "a &&", "(a", "a b", "a & b", "a)"] {
            assert!(holds(text, &Features::new()).is_err(), "{text}");
        }
    }
}
