//! Numbers in patterns: `[[#NAME:]]`, `[[#%x,NAME:]]`, `[[#NAME + 8]]`.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;

/// How a number is written: `%u` decimal (the default), `%d` with a sign, `%x` and `%X` hexadecimal. `#` puts
/// `0x` in front, and `.N` pads to N digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    letter: Option<char>,
    alternate: bool,
    digits: usize,
}

/// A value with the format of its variable.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    pub value: i128,
    pub format: Format,
}

/// The contents of `[[#…]]`.
#[derive(Clone, Debug, Default)]
pub struct Numeric {
    /// `None`: the format of the expression's variables.
    format: Option<Format>,
    pub defines: Option<String>,
    /// Empty: any number matches.
    expression: String,
}

impl Format {
    fn read(text: &str) -> Result<Format> {
        let mut format = Format::default();
        let mut rest = text.strip_prefix('%').context("a format begins with %")?;
        if let Some(after) = rest.strip_prefix('#') {
            (format.alternate, rest) = (true, after);
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            format.digits = after[..end].parse()?;
            rest = &after[end..];
        }
        match rest {
            "u" | "d" | "x" | "X" => format.letter = rest.chars().next(),
            _ => bail!("unknown format {text}"),
        }
        Ok(format)
    }

    fn regex(self) -> String {
        let class = match self.letter {
            Some('x') => "[0-9a-f]",
            Some('X') => "[0-9A-F]",
            _ => "[0-9]",
        };
        let sign = if self.letter == Some('d') { "-?" } else { "" };
        let prefix = if self.alternate { "0x" } else { "" };
        match self.digits {
            0 => format!("{sign}{prefix}{class}+"),
            digits => format!("{sign}{prefix}{class}{{{digits},}}"),
        }
    }

    fn write(self, value: i128) -> String {
        let magnitude = value.unsigned_abs();
        let digits = match self.letter {
            Some('x') => format!("{magnitude:0width$x}", width = self.digits),
            Some('X') => format!("{magnitude:0width$X}", width = self.digits),
            _ => format!("{magnitude:0width$}", width = self.digits),
        };
        let sign = if value < 0 { "-" } else { "" };
        let prefix = if self.alternate { "0x" } else { "" };
        format!("{sign}{prefix}{digits}")
    }

    /// The number in a matched text.
    pub fn parse(self, text: &str) -> Result<Number> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let digits = if self.alternate { digits.trim_start_matches("0x") } else { digits };
        let radix = if matches!(self.letter, Some('x' | 'X')) { 16 } else { 10 };
        let value = i128::from_str_radix(digits, radix).with_context(|| format!("{text} is too large"))?;
        Ok(Number { value: if negative { -value } else { value }, format: self })
    }
}

impl Numeric {
    /// Reads the text between the brackets. `line` is the value of `@LINE`.
    pub fn read(text: &str, line: usize) -> Result<Numeric> {
        let mut numeric = Numeric::default();
        let mut rest = text.trim();
        if rest.starts_with('%') {
            let (format, after) = rest.split_once(',').unwrap_or((rest, ""));
            numeric.format = Some(Format::read(format.trim())?);
            rest = after.trim();
        }
        if let Some((name, after)) = rest.split_once(':') {
            numeric.defines = Some(name.trim().to_owned());
            rest = after.trim();
        }
        rest = rest.strip_prefix("==").unwrap_or(rest).trim();
        numeric.expression = rest.replace("@LINE", &line.to_string());
        Ok(numeric)
    }

    /// The format of the number to match, and a regular expression for it.
    pub fn regex(&self, variables: &BTreeMap<String, Number>) -> Result<(Format, String)> {
        if self.expression.is_empty() {
            let format = self.format.unwrap_or_default();
            return Ok((format, format.regex()));
        }
        let mut parser = Parser { text: &self.expression, variables, format: None };
        let value = parser.sum()?;
        if !parser.text.trim().is_empty() {
            bail!("unexpected `{}` in [[#{}]]", parser.text, self.expression);
        }
        let format = self.format.or(parser.format).unwrap_or_default();
        Ok((format, format.write(value)))
    }

    /// Names in the expression.
    pub fn uses(&self) -> impl Iterator<Item = &str> {
        self.expression
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'))
            .filter(|w| !w.is_empty())
    }
}

struct Parser<'a> {
    text: &'a str,
    variables: &'a BTreeMap<String, Number>,
    /// The format of the first variable in the expression.
    format: Option<Format>,
}

impl<'a> Parser<'a> {
    fn take(&mut self, sign: char) -> bool {
        let rest = self.text.trim_start().strip_prefix(sign);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn sum(&mut self) -> Result<i128> {
        let mut value = self.single()?;
        loop {
            let next = match (self.take('+'), self.take('-')) {
                (true, _) => value.checked_add(self.single()?),
                (_, true) => value.checked_sub(self.single()?),
                _ => return Ok(value),
            };
            value = next.context("a number is too large")?;
        }
    }

    fn single(&mut self) -> Result<i128> {
        if self.take('(') {
            let value = self.sum()?;
            return if self.take(')') { Ok(value) } else { bail!("`)` is missing") };
        }
        if self.take('-') {
            return Ok(-self.single()?);
        }
        let text = self.text.trim_start();
        let end =
            text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.text = rest;
        if let Some(digits) = word.strip_prefix("0x") {
            return i128::from_str_radix(digits, 16).with_context(|| format!("{word} is no number"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().with_context(|| format!("{word} is no number"));
        }
        if self.take('(') {
            return self.call(word);
        }
        let number = self.variables.get(word).with_context(|| format!("undefined variable {word}"))?;
        self.format = self.format.or(Some(number.format));
        Ok(number.value)
    }

    fn call(&mut self, name: &str) -> Result<i128> {
        let first = self.sum()?;
        if !self.take(',') {
            bail!("{name}() takes two numbers");
        }
        let second = self.sum()?;
        if !self.take(')') {
            bail!("`)` is missing");
        }
        let value = match name {
            "add" => first.checked_add(second),
            "sub" => first.checked_sub(second),
            "mul" => first.checked_mul(second),
            "div" => first.checked_div(second),
            "max" => Some(first.max(second)),
            "min" => Some(first.min(second)),
            _ => bail!("unknown function {name}()"),
        };
        value.with_context(|| format!("{name}({first}, {second}) has no value"))
    }
}
