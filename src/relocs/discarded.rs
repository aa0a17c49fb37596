//! Reports references from kept sections to symbols in discarded ones.
//!
//! Suppose two objects have a COMDAT group `f`, and the linker keeps the one of a.o:
//!
//! ```text
//! a.o: group f { .text.f }    kept
//! b.o: group f { .text.f }    discarded
//! b.o: .data  ->  local symbol in .text.f of b.o
//! ```
//!
//! Then `.data` refers to text that is not in the output, and no value for it is right. So the gABI ("Section
//! Groups") forbids a section outside a group to refer to a local symbol inside it. In a final link, such a
//! reference from a loaded section is an error. SFrame rule 3 governs references from `.sframe`. References
//! of frames to text that was collected or folded break no rule, and the linker does not report them.
//!
//! `.gcc_except_table` is no exception. Compilers put the table of a COMDAT function into its group, so the
//! linker discards both together. If a table outside the group refers to a discarded function, it is broken:
//! GNU ld writes 0 there, which would send an exception to nowhere.
//!
//! An object that was linked with `-r`, or made from one large source file, may refer to thousands of
//! discarded sections. So the linker reads a referring section once for all advice about it ([`Remedies`]),
//! and writes out only the messages that people will see.

use crate::arch::Target;
use crate::cli::SFrameViolation;
use crate::decision::site::Reference;
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::source_lines::{PlaceRole, SourceLines, referenced_more};
use crate::phase::{Live, SectionState};
use crate::sframe;
use hashbrown::HashMap;

/// The largest number of references that one message shows.
const MAX_SHOWN: usize = 10;

/// The options that would avoid a section's references to discarded text.
#[derive(Clone, Copy)]
pub struct Remedy {
    /// `--sframe-index` and `--sframe=merge`: the section is `.sframe` data that the linker can read, so it
    /// can write a table of its own.
    pub table: bool,
    /// `--sframe-split`.
    pub split: bool,
}

/// The remedies for sections that refer to discarded ones. Each section is read on first use.
#[derive(Default)]
pub struct Remedies(HashMap<SectionId, Remedy>);

impl Remedies {
    /// The remedies for one section.
    pub fn of<T: Target>(&mut self, link: &Live<'_, T>, section: SectionId) -> Remedy {
        *self.0.entry(section).or_insert_with(|| Remedy {
            table: link.is_sframe_section(section)
                && sframe::read::is_readable(link, &link.sections, section),
            split: sframe::split::would_help(link, section),
        })
    }
}

/// The references to one discarded section, for one message.
struct Violation {
    /// The discarded section.
    target: SectionId,
    /// Whether the references come from `.sframe`, and `-z sframe-violation=warning` makes them warnings.
    lenient: bool,
    references: Vec<Reference>,
}

impl Violation {
    fn target(&self) -> SectionId {
        self.target
    }
}

/// Reports all recorded references, with one message for each discarded section (or two, if references from
/// `.sframe` are warnings and others are errors). They are errors in a final link, unless `--noinhibit-exec`
/// or `-z sframe-violation=warning` says otherwise, and warnings under `-r`.
pub fn report<T: Target>(link: &Live<'_, T>, references: &[Vec<Reference>]) {
    let mut violations = violations(link, references);
    // Messages appear in this order, and the first ones get notes and advice.
    violations.sort_by_key(Violation::target);
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

/// Whether a reference breaks the rule. A row of `.sframe` for text that was collected or folded does not.
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

/// The message without notes.
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
    for reference in violation.references.iter().take(MAX_SHOWN) {
        diagnostic = link
            .describe_source(lines, PlaceRole::Referenced, reference.section, reference.offset)
            .into_iter()
            .fold(diagnostic, Diagnostic::note);
    }
    let more = violation.references.len().saturating_sub(MAX_SHOWN) as u64;
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

/// The name of the local symbol that a reference leads to. `None`: compilers themselves write such references
/// from outside a group. That holds for section symbols, temporary labels and SFrame data.
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
    // A mode that leaves rows out helps only if it helps all referring sections.
    let every = Remedy { table: true, split: true };
    let remedy = violation.references.iter().fold(every, |all, reference| {
        let own = remedies.of(link, reference.section);
        Remedy { table: all.table && own.table, split: all.split && own.split }
    });
    let mut diagnostic = diagnostic;
    if remedy.table {
        diagnostic = diagnostic.help(
            "--sframe-index writes one table without such rows instead of .sframe sections, --sframe=merge writes one .sframe without them",
        );
    }
    if remedy.split {
        diagnostic = diagnostic
            .help("--sframe-split splits .sframe sections, so that frames are discarded with their text");
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
