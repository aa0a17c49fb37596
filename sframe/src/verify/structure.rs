//! The structure of a section: the library's checks, with the file's own facts.

use crate::open::{Input, Kind, SFrameSection};
use sframe_format::verify::{Context, Finding, FindingKind, Severity, verify};

/// Findings in one section. Functions that start at no symbol are findings only if the file has a
/// full symbol table.
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

/// Linkers leave functions of discarded sections behind under `-r`: size 0, and no relocation or `R_*_NONE`.
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
