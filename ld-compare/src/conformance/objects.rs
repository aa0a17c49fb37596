//! What a relocatable object says of functions, as facts of cases: an assembler's output, or a linker's with
//! `-r`.
//!
//! An entry has no address there. Its relocation says which function it is about.

use super::case::{Fact, Source};
use super::linked::{Expected, Linked, look};
use crate::facts::{Relocation, View};
use sframe_format::write::Function;
use sframe_format::{Blob, Fde, Flags, Section};

const START: Source =
    Source::Sframe("Function Descriptor Entries: the start is filled by a PC-relative relocation");

/// The relocations of a section.
pub fn relocations<'v>(view: &'v View<'_>, section: usize) -> impl Iterator<Item = &'v Relocation> {
    let of = view.relocations.iter().filter(move |(row, _)| view.sections[*row].info as usize == section);
    of.flat_map(|(_, records)| records).filter(|record| record.kind != 0)
}

/// The section and offset that a relocation refers to.
pub fn target(view: &View<'_>, relocation: &Relocation) -> Option<(u32, u64)> {
    let symbol = view.symbols.get(relocation.symbol as usize)?;
    symbol.is_defined().then(|| (symbol.section, symbol.value.wrapping_add(relocation.addend as u64)))
}

/// Visits every function with a size: its section, its blob, its entry, and its relocations.
pub fn each_function(
    linked: &Linked<'_>,
    mut visit: impl FnMut(usize, &Blob<'_>, &Fde, &[&Relocation]) -> Result<(), String>,
) -> Result<(), String> {
    for &row in &linked.sframe {
        for blob in Section::new(linked.view.sections[row].data, 0).blobs() {
            for fde in blob.fdes().filter(|fde| fde.size > 0) {
                let here: Vec<&Relocation> = relocations(&linked.view, row)
                    .filter(|record| record.offset == fde.offset as u64)
                    .collect();
                visit(row, &blob, &fde, &here)?;
            }
        }
    }
    Ok(())
}

/// Every function of the output has one relocation, of the right type, at its start field.
pub fn one_relocation_each() -> Fact {
    let says = "each entry has exactly one relocation, at its start field, of the type that its version has";
    look("one-relocation-each", says, START, |linked, _| {
        let mut count = 0;
        each_function(linked, |_, blob, fde, here| {
            count += 1;
            let kind = blob.header().abi.start_relocation(blob.header().version);
            match here {
                [one] if one.kind == kind => Ok(()),
                [one] => Err(format!("type {} at {:#x}, not {kind}", one.kind, one.offset)),
                _ => Err(format!("{} relocations for the entry at {:#x}", here.len(), fde.offset)),
            }
        })?;
        let all: usize = linked.sframe.iter().map(|&row| relocations(&linked.view, row).count()).sum();
        match (count, all) {
            (0, _) => Err("no entry has a size".into()),
            (entries, all) if entries != all => Err(format!("{all} relocations, {entries} entries")),
            _ => Ok(()),
        }
    })
}

/// Every function is described, and refers to itself.
pub fn refers_to(functions: Vec<Expected>) -> Fact {
    let says = "every function that an input describes has its rows, and an entry that refers to it";
    look("refers", says, START, move |linked, _| {
        for (name, function) in &functions {
            let symbol =
                linked.view.symbols.iter().find(|symbol| symbol.name == *name && symbol.is_defined());
            let symbol = symbol.ok_or_else(|| format!("{name} is not in the output"))?;
            let mut found = false;
            each_function(linked, |_, blob, fde, here| {
                let at = here.first().and_then(|record| target(&linked.view, record));
                if at == Some((symbol.section, symbol.value)) {
                    found = true;
                    let read = Function::read(blob, fde).map_err(|error| format!("{name}: {error}"))?;
                    if read.rows != function.rows || read.size != function.size {
                        return Err(format!("{name} has other rows"));
                    }
                }
                Ok(())
            })?;
            if !found {
                return Err(format!("no entry refers to {name}"));
            }
        }
        Ok(())
    })
}

/// SORTED is not set: addresses are not known yet.
pub fn not_sorted() -> Fact {
    let source =
        Source::Sframe("SFrame Flags: SFRAME_F_FDE_SORTED is about addresses, which are not known yet");
    look("not-sorted", "no blob over several text sections is marked sorted", source, |linked, _| {
        for &row in &linked.sframe {
            for blob in Section::new(linked.view.sections[row].data, 0).blobs() {
                let mut places: Vec<u32> = relocations(&linked.view, row)
                    .filter_map(|record| target(&linked.view, record))
                    .map(|(section, _)| section)
                    .collect();
                places.dedup();
                if blob.header().flags.contains(Flags::SORTED) && places.len() > 1 {
                    return Err(format!("{} is marked sorted", linked.view.sections[row].name));
                }
            }
        }
        Ok(())
    })
}
