//! References from kept sections to symbols of discarded ones.
//!
//! The section-group rule (gABI, "Section Groups"): a section outside a group must not refer to a
//! local symbol inside it, because another group of the same signature may prevail. A loaded
//! section that does so anyway has no right value, so a final link refuses; SFrame rule 3 governs
//! such references from `.sframe`. Frames of collected and folded text are no violation and stay silent.
//!
//! `.gcc_except_table` is no exception: compilers put the table of a COMDAT function into its group, so
//! it is discarded with the function. A table outside that refers to a discarded function is broken,
//! and the 0 that GNU ld writes there would send an exception to nowhere.

use crate::arch::Target;
use crate::cli::SFrameViolation;
use crate::decision::site::Reference;
use crate::diag::{Code, Diagnostic, Severity};
use crate::ids::SectionId;
use crate::input::source_lines::{Deed, SourceLines, referenced_more};
use crate::phase::Live;
use crate::phase::SectionState;
use crate::sframe;
use hashbrown::HashMap;

/// Most references that one message shows.
const SHOWN: usize = 10;

/// The references to one discarded section, for one message.
struct Violation {
    /// The discarded section.
    target: SectionId,
    /// The references come from `.sframe`, and `-z sframe-violation=warning` makes these warnings.
    lenient: bool,
    references: Vec<Reference>,
}

/// Reports all recorded references, one message for each discarded section (two if references from `.sframe`
/// are warnings and others are errors). An error in a final link, unless `--noinhibit-exec` or
/// `-z sframe-violation=warning` says otherwise; a warning under `-r`.
pub fn report<T: Target>(link: &Live<'_, T>, references: &[Vec<Reference>]) {
    let mut lines = SourceLines::default();
    for violation in violations(link, references) {
        let diagnostic = describe(link, &mut lines, &violation);
        link.sink.report_recoverable(diagnostic);
    }
}

/// Whether a reference breaks the rule. A dead row in `.sframe` for text that was collected or folded
/// does not.
pub fn is_violation<T: Target>(link: &Live<'_, T>, reference: &Reference) -> bool {
    let Some((target, _)) = link.symbol_section(reference.symbol) else { return false };
    let gone = SectionState::COLLECTED | SectionState::FOLDED;
    !(link.is_sframe_section(reference.section) && link.sections.get(target).intersects(gone))
}

fn violations<T: Target>(link: &Live<'_, T>, references: &[Vec<Reference>]) -> Vec<Violation> {
    let mut rows: HashMap<(SectionId, bool), usize> = HashMap::new();
    let mut found: Vec<Violation> = Vec::new();
    let lenient_sframe = link.config.sframe.violation == SFrameViolation::Warning;
    for reference in references.iter().flatten() {
        let Some((target, _)) = link.symbol_section(reference.symbol) else { continue };
        if !is_violation(link, reference) {
            continue;
        }
        let lenient = lenient_sframe && link.is_sframe_section(reference.section);
        let row = *rows.entry((target, lenient)).or_insert_with(|| {
            found.push(Violation { target, lenient, references: Vec::new() });
            found.len() - 1
        });
        found[row].references.push(*reference);
    }
    found
}

fn describe<T: Target>(link: &Live<'_, T>, lines: &mut SourceLines, violation: &Violation) -> Diagnostic {
    let relocatable = link.config.is_relocatable();
    let warning = relocatable || violation.lenient;
    let severity = if warning { Severity::Warning } else { Severity::Error };
    let name = String::from_utf8_lossy(link.section_info(violation.target).name).into_owned();
    let why = if link.sections.is(violation.target, SectionState::DISCARDED_BY_SCRIPT) {
        "a section that the linker script discards"
    } else {
        "a discarded section"
    };
    let mut diagnostic =
        Diagnostic::new(severity, Code::DiscardedReference, format!("relocation refers to {why}: {name}"));
    if let Some((object, index)) = link.locate(violation.target) {
        diagnostic = diagnostic.note(format!("defined in {}", object.name)).ordered(object.id.0, index, 0);
        if let Some(entry) = link.groups.of_section(object.id, index)
            && entry.discarded
        {
            diagnostic = diagnostic
                .note(format!("section group signature: {}", link.name_text(entry.group.signature)));
            if let Some(prevailing) = link.objects.get(entry.prevailing.index()) {
                diagnostic = diagnostic.note(format!("prevailing definition is in {}", prevailing.name));
            }
        }
    }
    for reference in violation.references.iter().take(SHOWN) {
        diagnostic = link
            .describe_source(lines, Deed::Referenced, reference.section, reference.offset)
            .into_iter()
            .fold(diagnostic, Diagnostic::note);
    }
    let more = violation.references.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        diagnostic = diagnostic.note(referenced_more(more));
    }
    with_help(link, violation, diagnostic, warning)
}

fn with_help<T: Target>(
    link: &Live<'_, T>,
    violation: &Violation,
    diagnostic: Diagnostic,
    warning: bool,
) -> Diagnostic {
    let frames = violation.references.iter().any(|reference| link.is_sframe_section(reference.section));
    if !frames {
        return if warning { diagnostic } else { diagnostic.help("--noinhibit-exec makes this a warning") };
    }
    // Modes that leave rows out help only if the linker can read all referring sections, and all are `.sframe`.
    let all = |helps: &dyn Fn(SectionId) -> bool| {
        violation.references.iter().all(|reference| helps(reference.section))
    };
    let mut diagnostic = diagnostic;
    if all(&|section| link.is_sframe_section(section) && sframe::read::is_readable(link, section)) {
        diagnostic = diagnostic.help(
            "--sframe-index replaces .sframe sections by one table without such rows, --sframe=merge makes one .sframe of them",
        );
    }
    if all(&|section| sframe::split::would_help(link, section)) {
        diagnostic =
            diagnostic.help("--sframe-split takes .sframe sections apart, so that frames go with their text");
    }
    let diagnostic =
        diagnostic.help("--sframe=discard (or --discard-sframe) leaves .sframe sections out of the output");
    if warning {
        return diagnostic;
    }
    diagnostic.help(
        "-z sframe-violation=warning (or --noinhibit-exec) keeps them, with dead rows for discarded functions",
    )
}
