//! Writes names of registers, and rules that use them.

use sframe_format::abi::Register;
use sframe_format::cfi::Saved;
use sframe_format::{Abi, Base, CfaRule, Location, RegisterRule, Rules};

/// Names of the x86-64 registers by DWARF number (x86-64 psABI, "DWARF Register Number Mapping").
const AMD64: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip",
];

/// The name of a register by DWARF number.
pub fn register(abi: Abi, number: Register) -> String {
    let name = match abi {
        Abi::Amd64 => AMD64.get(number as usize).map(|name| (*name).to_owned()),
        Abi::AArch64Little | Abi::AArch64Big => match number {
            0..=30 => Some(format!("x{number}")),
            31 => Some("sp".into()),
            _ => None,
        },
        Abi::S390x => match number {
            0..=15 => Some(format!("r{number}")),
            // The first sixteen floating-point registers have their own order in the psABI.
            16..=31 => {
                let order = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];
                order.get(number as usize - 16).map(|place: &u8| format!("f{place}"))
            }
            _ => None,
        },
    };
    name.unwrap_or_else(|| format!("register{number}"))
}

/// A CFA rule: `rsp+16`, `*(rbp-8)`.
pub fn cfa(abi: Abi, rule: &CfaRule) -> String {
    sum(&register(abi, rule.register), rule.offset, rule.dereference)
}

/// A location: `*(cfa-8)`, `rbx`.
fn location(abi: Abi, location: &Location) -> String {
    let base = match location.base {
        Base::Cfa => "cfa".into(),
        Base::Register(number) => register(abi, number),
    };
    sum(&base, location.offset.into(), location.dereference)
}

fn sum(base: &str, offset: i64, dereference: bool) -> String {
    let sum = if offset == 0 { base.to_owned() } else { format!("{base}{offset:+}") };
    if dereference { format!("*({sum})") } else { sum }
}

/// Where to find the caller's value of a register; `u` means "unchanged".
pub fn rule(abi: Abi, rule: &RegisterRule) -> String {
    match rule {
        RegisterRule::Unchanged => "u".into(),
        RegisterRule::Saved(place) => location(abi, place),
    }
}

/// Where a table of version 2 says that the caller's value of a register is.
pub fn saved(abi: Abi, saved: Saved) -> String {
    match saved {
        Saved::AtCfa(offset) => sum("cfa", offset, true),
        Saved::CfaPlus(offset) => sum("cfa", offset, false),
        Saved::In(other) => register(abi, other),
        Saved::Undefined => "lost".into(),
    }
}

/// All rules of a row, on one line.
pub fn rules(abi: Abi, rules: &Rules) -> String {
    match rules {
        Rules::Frame(frame) => format!(
            "cfa={} fp={} ra={}{}",
            cfa(abi, &frame.cfa),
            rule(abi, &frame.fp),
            rule(abi, &frame.ra),
            if frame.mangled { " signed" } else { "" }
        ),
        Rules::Outermost => "outermost".into(),
        Rules::SignalContext => "signal-context".into(),
    }
}
