//! The rules by which the kernel's series takes a table of SFrame V3, as a test of outputs.
//!
//! Sources, all on the lists of 2025 and 2026, none merged: "unwind_deferred: Implement sframe handling" (for
//! programs, `kernel/unwind/sframe.c`), "x86/vdso: Enable sframe generation in VDSO", and "unwind, arm64: add
//! sframe unwinder for kernel" v6 (for vmlinux and modules). Each rule below names the function that has it.
//!
//! A table is registered with a range of code (`struct sframe_section`: start and end of the table and of the
//! code, the places of the index and of the rows, the fixed offsets). With `CONFIG_SFRAME_VALIDATION`, all of
//! it is checked at once; otherwise a lookup meets what is wrong, and the table is given up.

use super::elf::{Bytes, Section, half, quad, word};
use super::sframe::{PCREL, SORTED};
use std::ops::Range;

/// Sizes of the structures: `sframe_header`, `sframe_fde_v3`, `sframe_fda_v3`.
const HEADER: usize = 28;
const ENTRY: usize = 16;
const ATTRIBUTES: usize = 5;

/// The words of one row beyond the first: the offsets that the header does not fix.
struct Fixed {
    fp: bool,
    ra: bool,
}

/// Checks a table that stands for `code`. Returns the number of its functions.
///
/// # Errors
/// The first rule that does not hold.
pub fn check(table: &Section, code: &[Range<u64>]) -> Result<usize, String> {
    let data = &table.data;
    // sframe_read_header.
    if data.len() < HEADER || half(data, 0) != 0xdee2 || data[2] != 3 {
        return Err("no header of version 3".into());
    }
    if data[3] & (SORTED | PCREL) != SORTED | PCREL || data[7] != 0 {
        return Err(format!("flags {:#x}, auxiliary header of {} bytes", data[3], data[7]));
    }
    let count = word(data, 8) as usize;
    if count == 0 || word(data, 12) == 0 {
        return Err("no function, or no row".into());
    }
    let index = HEADER + word(data, 20) as usize;
    let rows = HEADER + word(data, 24) as usize;
    let end = rows + word(data, 16) as usize;
    if index + count * ENTRY > rows || end > data.len() {
        return Err("the index and the rows do not follow each other inside the section".into());
    }
    let fixed = Fixed { fp: data[5] != 0, ra: data[6] != 0 };
    let mut last = 0;
    for number in 0..count {
        let at = index + number * ENTRY;
        // __read_fde: the start counts from its own field, and the code of the table holds it.
        let start = (table.addr + at as u64).wrapping_add(quad(data, at));
        if !code.iter().any(|code| code.contains(&start)) {
            return Err(format!("function {number} at {start:#x} is outside the code"));
        }
        // sframe_validate_section: each starts after the one before. So none shares an address.
        if start <= last {
            return Err(format!("function {number} at {start:#x} is not sorted"));
        }
        last = start;
        let attributes = rows + word(data, at + 12) as usize;
        if attributes + ATTRIBUTES > end {
            return Err(format!("the attributes of function {number} are outside the rows"));
        }
        function(data, attributes, end, word(data, at + 8), &fixed)
            .map_err(|rule| format!("function {number} at {start:#x}: {rule}"))?;
    }
    Ok(count)
}

/// Checks the rows of a function of `size` bytes, whose attributes are at `at`. The rows end before `end`.
fn function(data: &Bytes, mut at: usize, end: usize, size: u32, fixed: &Fixed) -> Result<(), String> {
    let (count, info, kind, block) = (half(data, at), data[at + 2], data[at + 3] & 0x1f, data[at + 4]);
    // __find_fre divides by the size of a block.
    let blocks = info & 0x10 != 0;
    if blocks && block == 0 {
        return Err("blocks of no bytes".into());
    }
    let width = match info & 0xf {
        kind @ 0..=2 => 1 << kind,
        kind => return Err(format!("row type {kind}")),
    };
    at += ATTRIBUTES;
    let mut last = None;
    for _ in 0..count {
        // __read_fre.
        if at + width + 1 > end {
            return Err("a row outside the rows".into());
        }
        let offset = number(data, at, width);
        if !blocks && offset > size {
            return Err(format!("a row at byte {offset} of {size}"));
        }
        let info = data[at + width];
        let (words, code) = (usize::from(info >> 1 & 0xf), info >> 5 & 3);
        if code == 3 {
            return Err("words of no known size".into());
        }
        let first = at + width + 1;
        at = first + (words << code);
        if at > end {
            return Err("the words of a row outside the rows".into());
        }
        if words > 0 {
            let values: Vec<u32> =
                (0..words).map(|word| number(data, first + (word << code), 1 << code)).collect();
            match kind {
                0 => offsets(&values, fixed)?,
                1 => locations(&values)?,
                kind => return Err(format!("function type {kind}")),
            }
        }
        // sframe_validate_section.
        if last.is_some_and(|last| offset <= last) {
            return Err(format!("the row at byte {offset} is not sorted"));
        }
        last = Some(offset);
    }
    Ok(())
}

/// __read_default_fre_datawords: an offset for the CFA, one for the return address unless it is fixed, one
/// for the frame pointer, and no more.
fn offsets(values: &[u32], fixed: &Fixed) -> Result<(), String> {
    let most = 3 - usize::from(fixed.ra) - usize::from(fixed.fp);
    if values.len() > most { Err(format!("{} words, at most {most}", values.len())) } else { Ok(()) }
}

/// __read_flex_fde_fre_datawords: pairs of a control word and an offset, for the CFA, the return address and
/// the frame pointer; a control word of 0 stands alone. sframe_init_cfa_rule_data: the CFA counts from a
/// register.
fn locations(values: &[u32]) -> Result<(), String> {
    let [control, _, rest @ ..] = values else { return Err("a location of the CFA in one word".into()) };
    if control & 1 == 0 {
        return Err("a CFA without a register".into());
    }
    let mut rest = rest;
    for _ in ["return address", "frame pointer"] {
        if let [control, _, ..] = rest {
            rest = &rest[if *control == 0 { 1 } else { 2 }..];
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("{} words too many", rest.len())) }
}

fn number(data: &Bytes, at: usize, width: usize) -> u32 {
    match width {
        1 => data[at].into(),
        2 => half(data, at).into(),
        _ => word(data, at),
    }
}
