//! How many bytes OpenTelemetry's eBPF profiler keeps for a file's call frame information.
//!
//! A delta is an address and the number of the rules from there on. The end of a function is a delta without
//! rules, unless the next function starts at most [`GAP`] bytes after it. A delta with the same rules as the
//! previous one is dropped. If the next delta comes one or two bytes later and only its CFA differs, by 8, an
//! opcode in the number of rules stands for both deltas.

use anyhow::Result;
use sframe_format::{CfaRule, CompactTable, RegisterRule, Rules};
use std::collections::{BTreeSet, HashSet};

/// In gaps up to this size between functions, the rules before the gap continue.
const GAP: u64 = 15;
/// Size of a delta: the low 16 bits of the address, and the number of the rules.
const DELTA: u64 = 4;
/// The kernel rounds the size of array elements up to this.
const ROUNDED: u64 = 8;
/// Size of a page's entry: the file and the address as the key, the first delta, the number of deltas and
/// their map.
const PAGE: u64 = 16 + 8;
const PAGE_BITS: u32 = 16;
/// Size of the rules of one number.
const RULES: u64 = 12;
/// The number of deltas in the smallest map.
const SMALLEST_MAP: u64 = 1 << 8;

/// The bytes for a file.
#[derive(Clone, Copy, Default)]
pub struct Sizes {
    /// Bytes of deltas, pages and rules.
    pub used: u64,
    /// Unused bytes of the maps, whose sizes are powers of two.
    pub slack: u64,
}

/// Rules in the form of deltas: what finds the CFA, its offset, and the saved registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Info {
    /// No rules. At the end of a function, the next function may replace this.
    Invalid {
        end: bool,
    },
    /// A way to the caller that has its own number: end of the stack, signal frame, PLT.
    Command(u8),
    Frame {
        cfa: CfaRule,
        ra: RegisterRule,
        fp: RegisterRule,
    },
}

struct Delta {
    address: u64,
    info: Info,
}

/// The sizes of the deltas for the rows of a table.
pub fn sizes(table: &CompactTable<&[u8]>) -> Result<Sizes> {
    let deltas = deltas(table)?;
    let mut rules = HashSet::new();
    let mut pages = BTreeSet::new();
    let mut kept = 0;
    let mut place = 0;
    while let Some(delta) = deltas.get(place) {
        let merged = deltas.get(place + 1).and_then(|next| merge_opcode(delta, next));
        rules.insert((without_end(delta.info), merged));
        pages.insert(delta.address >> PAGE_BITS);
        kept += 1;
        place += 1 + usize::from(merged.is_some());
    }
    // The map also contains pages without deltas.
    let pages = match (pages.first(), pages.last()) {
        (Some(first), Some(last)) => last - first + 1,
        _ => 0,
    };
    let used = kept * DELTA + pages * PAGE + rules.len() as u64 * RULES;
    let room = kept.max(SMALLEST_MAP).next_power_of_two() * ROUNDED;
    Ok(Sizes { used, slack: room - kept * DELTA })
}

fn without_end(info: Info) -> Info {
    if matches!(info, Info::Invalid { .. }) { Info::Invalid { end: false } } else { info }
}

fn deltas(table: &CompactTable<&[u8]>) -> Result<Vec<Delta>> {
    let mut deltas = Vec::new();
    for piece in table.pieces() {
        let malformed = |error: sframe_format::Error| anyhow::anyhow!("{error}");
        let repeats = piece.repeat_size().is_some();
        for row in piece.rows() {
            let row = row.map_err(malformed)?;
            let info = match row.rules.map(|rules| (rules.rules, rules.signal)) {
                _ if repeats => Info::Command(0),
                None => Info::Invalid { end: false },
                Some((Rules::Outermost, _)) => Info::Command(1),
                Some((Rules::SignalContext, _) | (_, true)) => Info::Command(2),
                Some((Rules::Frame(frame), _)) => Info::Frame { cfa: frame.cfa, ra: frame.ra, fp: frame.fp },
            };
            add(&mut deltas, piece.address + u64::from(row.start), info);
        }
        let end = piece.address + u64::from(piece.size().map_err(malformed)?);
        add(&mut deltas, end, Info::Invalid { end: true });
    }
    Ok(deltas)
}

fn add(deltas: &mut Vec<Delta>, address: u64, info: Info) {
    if let Some(last) = deltas.last()
        && last.info == (Info::Invalid { end: true })
        && last.address + GAP >= address
    {
        deltas.pop();
    } else if deltas.last().is_some_and(|last| last.address == address) {
        deltas.pop();
    }
    if deltas.last().is_none_or(|last| last.info != info) {
        deltas.push(Delta { address, info });
    }
}

/// The distance to the next delta, and whether the CFA goes down, if one opcode can stand for both deltas.
fn merge_opcode(delta: &Delta, next: &Delta) -> Option<(u64, bool)> {
    let (Info::Frame { cfa, ra, fp }, Info::Frame { cfa: next_cfa, ra: next_ra, fp: next_fp }) =
        (delta.info, next.info)
    else {
        return None;
    };
    let distance = next.address - delta.address;
    let same = cfa.register == next_cfa.register && cfa.dereference == next_cfa.dereference;
    let change = next_cfa.offset - cfa.offset;
    ((1..=2).contains(&distance) && same && (ra, fp) == (next_ra, next_fp) && change.abs() == 8)
        .then_some((distance, change < 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sframe_format::Location;

    fn frame(offset: i64) -> Info {
        let ra = RegisterRule::Saved(Location::at_cfa(-8));
        Info::Frame { cfa: CfaRule::register(7, offset), ra, fp: RegisterRule::Unchanged }
    }

    #[test]
    fn small_gaps_and_equal_rules_cost_nothing() {
        let mut deltas = Vec::new();
        let end = Info::Invalid { end: true };
        for (address, info) in
            [(0, frame(8)), (10, end), (20, frame(8)), (30, end), (46, frame(8)), (50, frame(16)), (60, end)]
        {
            add(&mut deltas, address, info);
        }
        let places: Vec<u64> = deltas.iter().map(|delta| delta.address).collect();
        assert_eq!(places, [0, 30, 46, 50, 60]);
    }

    #[test]
    fn pushes_and_pops_join() {
        let at = |address, info| Delta { address, info };
        assert_eq!(merge_opcode(&at(0, frame(8)), &at(1, frame(16))), Some((1, false)));
        assert_eq!(merge_opcode(&at(0, frame(16)), &at(2, frame(8))), Some((2, true)));
        assert_eq!(merge_opcode(&at(0, frame(8)), &at(3, frame(16))), None);
        assert_eq!(merge_opcode(&at(0, frame(8)), &at(1, frame(24))), None);
    }
}
