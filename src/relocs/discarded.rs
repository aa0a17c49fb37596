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
//!
//! An object that was linked with `-r`, or made of one large file, may refer to thousands of discarded
//! sections. So a referring section is read once for all advice about it ([`Remedies`]), and only messages
//! that people will see are made in full.

use crate::arch::Target;
use crate::cli::SFrameViolation;
use crate::decision::site::Reference;
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::source_lines::{Deed, SourceLines, referenced_more};
use crate::phase::{Live, Resolved, SectionState};
use crate::sframe;
use hashbrown::HashMap;

/// Most references that one message shows.
const SHOWN: usize = 10;

/// Options that would leave a section's references to discarded text out.
#[derive(Clone, Copy)]
pub struct Remedy {
    /// A table of the linker's own (`--sframe-index`, `--sframe=merge`): it is `.sframe` that the linker can
    /// read.
    pub table: bool,
    /// `--sframe-split`.
    pub split: bool,
}

/// The remedies for sections that refer to discarded ones, each read on first use.
#[derive(Default)]
pub struct Remedies(HashMap<SectionId, Remedy>);

impl Remedies {
    /// What would help a section's references.
    pub fn of<T: Target>(&mut self, link: &Resolved<'_, T>, section: SectionId) -> Remedy {
        *self.0.entry(section).or_insert_with(|| Remedy {
            table: link.is_sframe_section(section) && sframe::read::is_readable(link, section),
            split: sframe::split::would_help(link, section),
        })
    }
}

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
    let mut violations = violations(link, references);
    // In the order in which they are shown, because the first ones get notes and advice.
    violations.sort_by_key(|violation| violation.target);
    let limit = link.config.diagnostics.error_limit.map_or(usize::MAX, |limit| limit.get());
    let (mut lines, mut remedies) = (SourceLines::default(), Remedies::default());
    let mut shown: HashMap<Severity, usize> = HashMap::new();
    for violation in &violations {
        let brief = brief(link, violation);
        let Some(severity) = link.sink.judged(brief.severity) else { continue };
        let number = shown.entry(severity).or_default();
        *number += 1;
        let is_shown = *number <= limit;
        link.sink.report_recoverable(if is_shown {
            with_details(link, &mut lines, &mut remedies, violation, brief)
        } else {
            brief
        });
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

/// The message in one line.
fn brief<T: Target>(link: &Live<'_, T>, violation: &Violation) -> Diagnostic {
    let warning = link.config.is_relocatable() || violation.lenient;
    let severity = if warning { Severity::Warning } else { Severity::Error };
    let name = String::from_utf8_lossy(link.section_info(violation.target).name);
    let why = if link.sections.is(violation.target, SectionState::DISCARDED_BY_SCRIPT) {
        "a section that the linker script discards"
    } else {
        "a discarded section"
    };
    let diagnostic =
        Diagnostic::new(severity, Code::DiscardedReference, format!("relocation refers to {why}: {name}"));
    match link.locate(violation.target) {
        Some((object, index)) => diagnostic.ordered(object.id.0, index, 0),
        None => diagnostic,
    }
}

fn with_details<T: Target>(
    link: &Live<'_, T>,
    lines: &mut SourceLines,
    remedies: &mut Remedies,
    violation: &Violation,
    brief: Diagnostic,
) -> Diagnostic {
    let mut diagnostic = brief;
    if let Some((object, index)) = link.locate(violation.target) {
        diagnostic = diagnostic.note(format!("defined in {}", object.name));
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
    let by_group = link.sections.is(violation.target, SectionState::DISCARDED_BY_GROUP);
    let mut names = violation.references.iter().filter_map(|reference| local_name(link, reference));
    if by_group
        && diagnostic.severity == Severity::Error
        && let Some(name) = names.next()
    {
        let name = link.name_text(name);
        diagnostic = diagnostic.note(format!("the reference is to the local symbol {name} there")).help(format!(
            "if {name} was made local after compiling (objcopy --localize-hidden, --keep-global-symbols), dissolve the \
             groups before that: -r --force-group-allocation keeps each file's copy"
        ));
    }
    with_help(link, remedies, violation, diagnostic)
}

/// The name of the local symbol that a reference leads to, if compilers do not refer to it from outside its
/// group: no section, no temporary label, and the reference is not from SFrame data.
fn local_name<'a, T: Target>(link: &Live<'a, T>, reference: &Reference) -> Option<&'a [u8]> {
    if link.is_sframe_section(reference.section) {
        return None;
    }
    let (object, _) = link.locate(reference.section)?;
    let index = reference.symbol.0.checked_sub(object.first_local).filter(|&it| it < object.first_global)?;
    let name = object.symbol_name(index as usize);
    let is_named = object.symbols[index as usize].kind() != elf::STT_SECTION && !name.is_empty();
    (is_named && !name.starts_with(b".L")).then_some(name)
}

fn with_help<T: Target>(
    link: &Live<'_, T>,
    remedies: &mut Remedies,
    violation: &Violation,
    diagnostic: Diagnostic,
) -> Diagnostic {
    let warning = diagnostic.severity == Severity::Warning;
    let frames = violation.references.iter().any(|reference| link.is_sframe_section(reference.section));
    if !frames {
        return if warning { diagnostic } else { diagnostic.help("--noinhibit-exec makes this a warning") };
    }
    // Modes that leave rows out help only if they help all referring sections.
    let every = Remedy { table: true, split: true };
    let remedy = violation.references.iter().fold(every, |all, reference| {
        let own = remedies.of(link, reference.section);
        Remedy { table: all.table && own.table, split: all.split && own.split }
    });
    let mut diagnostic = diagnostic;
    if remedy.table {
        diagnostic = diagnostic.help(
            "--sframe-index replaces .sframe sections by one table without such rows, --sframe=merge makes one .sframe of them",
        );
    }
    if remedy.split {
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
