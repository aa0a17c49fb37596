//! Compares rows derived from `.eh_frame` with the rows that assemblers made from the same directives.
#![cfg(feature = "derive")]

mod common;

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use sframe_format::derive::{FdeIndex, Reason, Scratch, for_each, for_each_linked};
use sframe_format::write::Function;
use sframe_format::{Rules, Section, Version};

/// The derived functions of a fixture by section and address, or why one is missing.
fn derived(
    fixture: &common::Fixture,
    abi: sframe_format::Abi,
) -> BTreeMap<common::Target, Result<Function, Reason>> {
    let mut functions = BTreeMap::new();
    for_each(abi, &fixture.eh_frame, fixture.eh_frame_address, |source, result| {
        // The start field of an FDE's range is 8 bytes into the FDE.
        let target = if fixture.relocatable {
            fixture.eh_frame_targets[&(source.offset as u64 + 8)]
        } else {
            (0, source.address)
        };
        // If a part of a function has no form, assemblers make no rows for the function at all.
        match functions.get(&target) {
            Some(Err(_)) if fixture.relocatable => {}
            _ => drop(functions.insert(target, result.cloned())),
        }
    })
    .unwrap();
    functions
}

#[test]
fn derived_rows_are_those_of_the_assembler() {
    let (mut compared, mut extra) = (0, Vec::new());
    for fixture in common::all() {
        let name = fixture.name();
        // Crafted objects have no CFI, and `ld -r` and concatenation of other releases move relocations.
        if fixture.eh_frame.is_empty() || name.starts_with("crafted") || name.contains("reloc") {
            continue;
        }
        let blob = Section::new(&fixture.data, fixture.address).blob_at(0).unwrap();
        let mut derived = derived(&fixture, blob.header().abi);
        for fde in blob.fdes() {
            let target =
                if fixture.relocatable { fixture.targets[fde.index as usize] } else { (0, fde.address) };
            let Some(found) = derived.remove(&target) else { continue };
            let mut expected = Function::read(&blob, &fde).unwrap();
            // GNU as writes this if it cannot express a signal frame or finds no CFA.
            if expected.rows[0].rules == Rules::SignalContext || found == Err(Reason::NoCfa) {
                continue;
            }
            let mut found = found.unwrap_or_else(|reason| panic!("{name}: FDE {}: {reason}", fde.index));
            // GNU ld's PLTs: on s390x, .eh_frame has one FDE for all entries, and .plt.got has a wrong CFA.
            let plt_got = name.contains("prog_pltgot") && expected.repeat_size == Some(8);
            if name.contains("s390x.ld") && found.size != expected.size || plt_got {
                continue;
            }
            merge(&mut expected);
            merge(&mut found);
            if blob.header().version != Version::V3 {
                found.signal = false;
            }
            assert_eq!(found, expected, "{name}: FDE {}", fde.index);
            compared += 1;
        }
        if !name.starts_with("linked") {
            extra.extend(derived.into_iter().map(|(target, found)| (name.clone(), target.1, found)));
        }
    }
    assert!(compared >= 450, "only {compared} functions were compared");
    // GNU as drops these although SFrame can express them.
    let mut expressed: Vec<_> = extra
        .iter()
        .filter(|(_, _, found)| found.is_ok())
        .map(|(name, at, _)| (name.as_str(), *at))
        .collect();
    expressed.sort();
    let expected = [
        // V2 has no CFA from other registers and no outermost frames.
        ("v2e1-gas2.45/special.s390x.o", 0x1e),
        ("v2e1-gas2.45/special.s390x.o", 0x26),
        // FP saved without RA, RA in a register, CFA from another register, CFA by an expression SP + 0.
        ("v3-gas2.47/special.aarch64.o", 0x4),
        ("v3-gas2.47/special.aarch64.o", 0x8),
        ("v3-gas2.47/special.aarch64.o", 0x10),
        // A return address that is signed with the program counter.
        ("v3-gas2.47/special.aarch64.o", 0x18),
        ("v3-gas2.47/special.aarch64.o", 0x20),
    ];
    assert_eq!(expressed, expected);
}

/// Joins equal neighbours, and removes a repetition block that does not repeat.
fn merge(function: &mut Function) {
    function.repeat_size = function.repeat_size.filter(|&size| u32::from(size) < function.size);
    function.rows.dedup_by(|next, row| next.rules == row.rules);
}

/// `.eh_frame_hdr` at `address` for FDEs by start and offset, in the byte order of the architecture.
fn header(abi: sframe_format::Abi, address: u64, section: u64, fdes: &[(u64, usize)]) -> Vec<u8> {
    let word = |value: u64| match abi.endian() {
        sframe_format::Endian::Little => (value as u32).to_le_bytes(),
        sframe_format::Endian::Big => (value as u32).to_be_bytes(),
    };
    let mut bytes = vec![1, 0x1b, 3, 0x3b];
    bytes.extend(word(section.wrapping_sub(address + 4)));
    bytes.extend(word(fdes.len() as u64));
    for &(start, offset) in fdes {
        bytes.extend(word(start.wrapping_sub(address)));
        bytes.extend(word((section + offset as u64).wrapping_sub(address)));
    }
    bytes
}

#[test]
fn functions_one_by_one_have_the_rows_of_all_together() {
    let mut compared = 0;
    for fixture in common::all().iter().filter(|fixture| !fixture.relocatable && !fixture.eh_frame.is_empty())
    {
        let name = fixture.name();
        let abi = Section::new(&fixture.data, fixture.address).blob_at(0).unwrap().header().abi;
        let (mut functions, mut fdes) = (Vec::new(), BTreeMap::new());
        for_each(abi, &fixture.eh_frame, fixture.eh_frame_address, |source, function| {
            fdes.entry(source.address).or_insert(source.offset);
            functions.push((source, function.cloned()));
        })
        .unwrap();
        // A PLT's FDE gives two functions. The header knows the first one.
        let mut of_offset = BTreeMap::new();
        for (&start, &offset) in &fdes {
            of_offset.entry(offset).or_insert(start);
        }
        let mut table: Vec<(u64, usize)> =
            of_offset.into_iter().map(|(offset, start)| (start, offset)).collect();
        table.sort_unstable();
        let (at, section) = (fixture.eh_frame_address + 0x10000, fixture.eh_frame_address);
        let bytes = header(abi, at, section, &table);
        for header in [None, Some((&*bytes, at))] {
            let index = FdeIndex::new(abi, &*fixture.eh_frame, section, header);
            let mut scratch = Scratch::default();
            for (source, function) in &functions {
                let Ok(function) = function else { continue };
                for (number, row) in function.rows.iter().enumerate() {
                    let end = function.rows.get(number + 1).map_or(function.size, |next| next.start);
                    for offset in [row.start, end - 1] {
                        let found = index.rules_at(source.address + u64::from(offset), &mut scratch);
                        let Some(Ok(Some(found))) = found else { panic!("{name}: {source:?} {offset}") };
                        // The rows of a repeated entry are those of its bytes.
                        if function.repeat_size.is_none() || offset == row.start {
                            assert_eq!(found.rules, row.rules, "{name}: {source:?} {offset}");
                        }
                        assert_eq!(found.signal, function.signal);
                        compared += 1;
                    }
                }
                assert!(index.gap_at(source.address).is_empty());
            }
            let last = functions.iter().map(|(source, _)| source.address + source.size).max().unwrap();
            assert_eq!(index.gap_at(last), last..u64::MAX, "{name}");
            assert!(index.rules_at(last, &mut scratch).is_none());
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// The same section twice, with a terminator in between: a walk ends there, but the table leads on.
#[test]
fn behind_a_terminator_are_the_functions_that_the_table_leads_to() {
    for fixture in common::all().iter().filter(|fixture| !fixture.relocatable && !fixture.eh_frame.is_empty())
    {
        let (name, section) = (fixture.name(), fixture.eh_frame_address);
        let abi = Section::new(&fixture.data, fixture.address).blob_at(0).unwrap().header().abi;
        let functions = |data: &[u8], header| {
            let mut found = Vec::new();
            for_each_linked(abi, data, section, header, |source, function| {
                found.push((source.address, source.offset, function.cloned()));
            })
            .unwrap();
            found
        };
        let whole = functions(&fixture.eh_frame, None);
        let mut end = 0;
        while let Some(length) = abi.endian().read_u32(&fixture.eh_frame, end).filter(|&length| length > 0) {
            end += 4 + length as usize;
        }
        let records = &fixture.eh_frame[..end];
        // Entries of a PLT stay at multiples of their size.
        let shift = (records.len() + 4).next_multiple_of(32);
        let twice = [records, &vec![0; shift - records.len()], records].concat();
        let table: Vec<(u64, usize)> = whole.iter().map(|&(address, offset, _)| (address, offset)).collect();
        assert_eq!(functions(&twice, None).len(), whole.len(), "{name}");
        let shifted: Vec<(u64, usize)> =
            table.iter().map(|&(address, offset)| (address + shift as u64, offset + shift)).collect();
        let at = section + 0x10000;
        let all = header(abi, at, section, &[&table[..], &shifted].concat());
        let found = functions(&twice, Some((&all, at)));
        assert_eq!(found.len(), 2 * whole.len(), "{name}");
        for ((first, second), (address, offset)) in found.iter().zip(&found[whole.len()..]).zip(&shifted) {
            // Starts are distances from their own fields.
            assert_eq!((second.0, second.1), (*address, *offset), "{name}");
            assert_eq!(first.2, second.2, "{name}");
        }
        // A table of only those before the terminator leads to no others.
        let first = header(abi, at, section, &table);
        assert_eq!(functions(&twice, Some((&first, at))).len(), whole.len(), "{name}");
    }
}

/// The same section twice, and both describe the same code, as after a tool that rewrites functions. The FDEs
/// that the table leads to count.
#[test]
fn of_two_fdes_of_the_same_code_the_listed_one_counts() {
    for fixture in common::all().iter().filter(|fixture| !fixture.relocatable && !fixture.eh_frame.is_empty())
    {
        let (name, section) = (fixture.name(), fixture.eh_frame_address);
        let abi = Section::new(&fixture.data, fixture.address).blob_at(0).unwrap().header().abi;
        let endian = abi.endian();
        let (mut again, mut fdes, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(length) = endian.read_u32(&fixture.eh_frame, at).filter(|&length| length > 0) {
            let end = at + 4 + length as usize;
            again.extend(&fixture.eh_frame[at..end]);
            if endian.read_u32(&fixture.eh_frame, at + 4) != Some(0) {
                fdes.push(at);
            }
            at = end;
        }
        let shift = again.len();
        for start in fdes.iter().map(|fde| fde + 8) {
            let distance = endian.read_i32(&again, start).unwrap() - shift as i32;
            let big = endian == sframe_format::Endian::Big;
            let bytes = if big { distance.to_be_bytes() } else { distance.to_le_bytes() };
            again[start..start + 4].copy_from_slice(&bytes);
        }
        let twice = [&fixture.eh_frame[..shift], &again].concat();
        let functions = |data: &[u8], header: Option<(&[u8], u64)>| {
            let (mut found, mut replaced) = (Vec::new(), Vec::new());
            for_each_linked(abi, data, section, header, |source, function| match function {
                Err(Reason::Replaced) => replaced.push(source.offset),
                function => found.push((source.address, source.offset, function.cloned())),
            })
            .unwrap();
            (found, replaced)
        };
        let (whole, _) = functions(&fixture.eh_frame, None);
        assert_eq!(functions(&twice, None).0.len(), 2 * whole.len(), "{name}");
        for behind in [0, shift] {
            let table: Vec<(u64, usize)> =
                whole.iter().map(|(address, offset, _)| (*address, offset + behind)).collect();
            let table = header(abi, section + 0x10000, section, &table);
            let (found, replaced) = functions(&twice, Some((&table, section + 0x10000)));
            let expected: Vec<_> = whole
                .iter()
                .map(|(address, offset, rows)| (*address, offset + behind, rows.clone()))
                .collect();
            assert_eq!(found, expected, "{name}");
            let others: Vec<usize> = fdes.iter().map(|offset| offset + (shift - behind)).collect();
            assert_eq!(replaced, others, "{name}");
        }
    }
}
