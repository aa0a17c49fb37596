//! Finds which functions `.eh_frame` and SFrame cover, with `sframe verify`.

use super::collector::{Aspect, Collector};
use super::view::View;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use object::elf;
use sframe::for_each_input;
use sframe::verify::verify_input;
use sframe_format::{Section, Version};
use std::collections::BTreeMap;
use std::path::Path;

/// Collects the covered functions.
pub fn look_at(collector: &mut Collector, view: &View<'_>, path: &Path) {
    let functions = functions(view);
    for (aspect, covered) in [(Aspect::EhFrame, eh_frame(view)), (Aspect::Sframe, sframe(view))] {
        let Some(covered) = covered.filter(|_| !view.is_relocatable()) else { continue };
        // A function without a name is the linker's (PLT) or does not belong to the case.
        for (address, name) in &functions {
            if covered.binary_search(address).is_ok() {
                collector.set(aspect, *name, "covered");
            }
        }
    }
    // This cannot fail: the file is known to be readable ELF.
    let _ = for_each_input(path, 0, &mut |input| {
        if input.sframe.is_empty() {
            return Ok(());
        }
        let found = verify_input(&input, Version::V3);
        let versions: Vec<String> =
            found.versions.iter().map(|version| format!("V{}", *version as u8)).collect();
        collector.set(Aspect::Sframe, "(versions)", versions.join(" "));
        let blobs: usize = input.sframe.iter().map(|section| section.section().blobs().count()).sum();
        collector.set(Aspect::Sframe, "(blobs)", if blobs > 1 { "several" } else { "one" });
        if let Some(comparison) = &found.comparison {
            let wrong = comparison.wrong.functions;
            collector.set(Aspect::Sframe, "(wrong functions)", wrong.to_string());
        }
        let findings = found.structure.iter().flatten();
        let errors = findings.filter(|f| f.kind.severity() == sframe_format::verify::Severity::Error).count();
        collector.set(Aspect::Sframe, "(structural errors)", if errors > 0 { "some" } else { "none" });
        Ok(())
    });
}

/// The functions of the symbol table, one name for each address.
fn functions<'a>(view: &'a View<'_>) -> BTreeMap<u64, &'a str> {
    let mut functions = BTreeMap::new();
    for symbol in view.symbols.iter().filter(|s| s.kind == elf::STT_FUNC && s.is_defined() && s.size > 0) {
        let name = functions.entry(symbol.value).or_insert(symbol.name.as_str());
        *name = (*name).min(symbol.name.as_str());
    }
    functions
}

/// Start addresses of functions with an FDE in `.eh_frame`, ascending.
pub fn eh_frame(view: &View<'_>) -> Option<Vec<u64>> {
    let (_, section) = view.section(".eh_frame")?;
    let endian = if view.big { RunTimeEndian::Big } else { RunTimeEndian::Little };
    let mut frames = EhFrame::from(EndianSlice::new(section.data, endian));
    frames.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address);
    let mut entries = frames.entries(&bases);
    let mut starts = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(EhFrame::cie_from_offset)
        {
            starts.push(fde.initial_address());
        }
    }
    starts.sort_unstable();
    Some(starts)
}

/// Start addresses of functions that an SFrame section describes, ascending.
pub fn sframe(view: &View<'_>) -> Option<Vec<u64>> {
    let sections = view
        .sections
        .iter()
        .filter(|section| section.kind == sframe_format::SHT_GNU_SFRAME || section.name == ".sframe");
    let mut starts = Vec::new();
    let mut any = false;
    for section in sections {
        any = true;
        for blob in Section::new(section.data, section.address).blobs() {
            starts.extend(blob.fdes().filter(|fde| fde.size > 0).map(|fde| fde.address));
        }
    }
    starts.sort_unstable();
    any.then_some(starts)
}
