//! The rules of a row, as people and programs read them.

use super::registers::{cfa, rule};
use super::report::hexadecimal;
use serde::Serialize;
use sframe_format::{Abi, Rules};
use std::io::{self, Write};

/// The rules of a row.
#[derive(Serialize)]
#[serde(untagged)]
pub enum RulesDump {
    /// Rules that find the caller.
    Frame {
        /// The canonical frame address.
        cfa: String,
        /// The caller's frame pointer.
        fp: String,
        /// The return address.
        ra: String,
        /// Whether it is signed.
        ra_signed: bool,
    },
    /// Anything else, by name.
    Special {
        /// The name.
        special: &'static str,
    },
}

/// Writes a number in the form of an address.
pub fn as_hexadecimal<S: serde::Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hexadecimal(*value))
}

/// Rules in words; `None` if no rule is known.
pub fn rules_dump(abi: Abi, rules: Option<&Rules>) -> RulesDump {
    match rules {
        Some(Rules::Frame(frame)) => RulesDump::Frame {
            cfa: cfa(abi, &frame.cfa),
            fp: rule(abi, &frame.fp),
            ra: rule(abi, &frame.ra),
            ra_signed: frame.mangled,
        },
        Some(Rules::Outermost) => RulesDump::Special { special: "outermost" },
        Some(Rules::SignalContext) => RulesDump::Special { special: "signal-context" },
        None => RulesDump::Special { special: "no-row" },
    }
}

/// Prints a row.
///
/// # Errors
/// The output cannot be written.
pub fn write_rules(output: &mut dyn Write, start: u32, rules: &RulesDump) -> io::Result<()> {
    write_rules_and(output, start, rules, "")
}

/// Prints a row, with `more` behind the rules of a frame.
///
/// # Errors
/// The output cannot be written.
pub fn write_rules_and(output: &mut dyn Write, start: u32, rules: &RulesDump, more: &str) -> io::Result<()> {
    match rules {
        RulesDump::Frame { cfa, fp, ra, ra_signed } => {
            let signed = if *ra_signed { " signed" } else { "" };
            writeln!(output, "      +{start:<6x} cfa={cfa:<12} fp={fp:<12} ra={ra}{signed}{more}")
        }
        RulesDump::Special { special } => writeln!(output, "      +{start:<6x} {special}"),
    }
}
