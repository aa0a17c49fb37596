//! Checks the structure of a section: the checks of the format crate, together with facts about the file.

use crate::open::{Input, Kind, SFrameSection};
use sframe_format::verify::{Context, Finding, FindingKind, Severity, verify};

/// The findings in one section. A function that starts at no symbol is a finding only if the file has a full
/// symbol table.
pub fn check(input: &Input<'_>, section: &SFrameSection<'_>) -> Vec<Finding> {
    let mut starts: Vec<u64> = if input.has_symbol_table {
        input.places.symbols().iter().filter(|s| s.function).map(|s| s.address).collect()
    } else {
        Vec::new()
    };
    starts.dedup();
    let relocatable = input.kind == Kind::Relocatable && !section.derived;
    let context = Context {
        abi: input.abi,
        text: &input.text,
        function_starts: &starts,
        relocations: relocatable.then_some(section.relocations.as_slice()),
    };
    let mut findings = verify(&section.section(), &context);
    if relocatable {
        mark_dead(section, &mut findings);
    }
    findings
}

/// Marks dead functions. With `-r`, linkers leave functions of discarded sections behind: their size is 0,
/// and they have no relocation or `R_*_NONE`.
fn mark_dead(section: &SFrameSection<'_>, findings: &mut [Finding]) {
    let sizes: Vec<(usize, u32)> =
        section.section().blobs().flat_map(|blob| blob.fdes()).map(|fde| (fde.offset, fde.size)).collect();
    for finding in findings.iter_mut().filter(|finding| finding.kind == FindingKind::NoRelocation) {
        let place = sizes.binary_search_by_key(&finding.offset, |(offset, _)| *offset);
        let size = place.ok().and_then(|place| sizes.get(place)).map(|(_, size)| *size);
        if size == Some(0) {
            finding.kind = FindingKind::Dead;
        }
    }
}

/// Whether a finding breaks the section.
pub fn is_error(finding: &Finding) -> bool {
    finding.kind.severity() == Severity::Error
}
