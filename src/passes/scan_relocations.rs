//! Collects what the relocations in live sections need.
//!
//! One parallel walk over the loaded sections collects the needs of symbols (GOT slots, PLT entries, copies),
//! the places of dynamic relocations, and references to undefined and discarded symbols. Later passes count
//! and write from these results, and do not scan again. A section may report a few problems, so that one
//! broken section does not hide the next one.

use crate::arch::relocation::SymbolFacts;
use crate::arch::{RelocExpr, RelocInfo, Target};
use crate::cli::TextRelocations;
use crate::decision::decide::{Action, DynamicKind, Problem};
use crate::decision::site::{DynRelocSite, Reference};
use crate::diag::{Code, Diagnostic, Location, Severity};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::{InputSource, ObjectFile, SectionClass};
use crate::passes::open_needed_libraries;
use crate::phase::{Live, RelocNeeds, SectionState};
use crate::relocs::undefined::hints::FindLeftOut;
use crate::relocs::walk::{Decided, Undecided, Visitor, Walk};
use crate::relocs::{discarded, undefined};
use crate::symbols::{AtomicNeeds, Definition, Needs, SymbolFlags};
use parallel::ParallelSlice;

/// One section reports at most so many problems.
const MAX_REPORTS: u32 = 8;

/// The results of scanning one object.
#[derive(Default)]
pub struct ScanResults {
    /// Places of dynamic relocations.
    pub sites: Vec<DynRelocSite>,
    /// References to symbols that nothing defines. Those to weak ones count if a group took the definition.
    pub undefined: Vec<Reference>,
    /// References to symbols of discarded sections.
    pub discarded: Vec<Reference>,
    /// Needs that the link as a whole has ([`Needs::OF_LINK`]).
    pub needs: Needs,
    /// The first dynamic relocation in a section that is not writable.
    pub text_relocation: Option<Reference>,
}

/// Scans all objects; under `-r`, only for references to discarded sections. It only reads the link, so
/// mergeable sections can be merged at the same time. Returns the results of each object, and the needs of
/// each symbol.
pub fn run<T: Target>(link: &Live<'_, T>) -> (Vec<ScanResults>, Vec<Needs>) {
    let relocatable = link.config.is_relocatable();
    let needs = AtomicNeeds::new(link.symbol_count);
    let pieces =
        link.objects.par_iter().fold_pieces(<(Vec<ScanResults>, Vec<_>)>::default, |(all, sites), object| {
            let mut found = ScanResults { sites: std::mem::take(sites), ..ScanResults::default() };
            for index in 1..object.headers.len() {
                if is_scanned(link, object, index) {
                    let section = object.section_id(index as u32);
                    let relocations = object.relocations(index);
                    match relocatable {
                        // An FDE loses its relocations if its function is discarded. Nothing is wrong then.
                        true if is_frame_section(link, object, index) => {}
                        true => find_discarded(link, object, section, relocations, &mut found),
                        false => scan_lists(link, section, [relocations], &needs, &mut found),
                    }
                }
            }
            scan_frames(link, object, &needs, &mut found);
            // The list keeps its capacity from object to object. A new one would be copied again and again as
            // it grows.
            *sites = std::mem::take(&mut found.sites);
            found.sites = sites.clone();
            sites.clear();
            all.push(found);
        });
    (pieces.into_iter().flat_map(|piece| piece.0).collect(), needs.into_needs())
}

/// Joins the results of all objects, and reports problems. `left_out` finds members that were not taken.
pub fn finish<'a, T: Target>(
    link: &Live<'a, T>,
    (found, of_symbols): (Vec<ScanResults>, Vec<Needs>),
    source: &dyn InputSource,
    left_out: FindLeftOut<'_, 'a>,
) -> RelocNeeds {
    let mut undefined = Vec::with_capacity(found.len());
    let mut text_relocation = None;
    let mut asked = RelocNeeds { of_symbols, ..RelocNeeds::default() };
    for found in found {
        asked.sites.push(found.sites);
        asked.discarded.push(found.discarded);
        asked.needs |= found.needs;
        text_relocation = text_relocation.or(found.text_relocation);
        undefined.push(found.undefined);
    }
    asked.text_relocations = text_relocation.is_some();
    if let Some(first) = text_relocation {
        report_text_relocations(link, first);
        if link.config.diagnostics.ifunc_textrel {
            report_resolvers(link, &asked);
        }
    }
    if link.config.relocations.report_relative {
        report_relative(link, &asked.sites);
    }
    if undefined.iter().any(|references| !references.is_empty()) {
        undefined::report(link, &undefined, &open_needed_libraries::for_messages(link, source), left_out);
    }
    undefined::report_shared(link, || open_needed_libraries::of_loaded(link, source));
    discarded::report(link, &asked.discarded);
    link.describe_relocation_errors();
    asked
}

/// Whether a section is loaded and copied to the output, so that its relocations count. Absorbed sections are
/// left out: [`scan_frames`] scans the records of `.eh_frame`.
fn is_scanned<T: Target>(link: &Live<'_, T>, object: &ObjectFile<'_, T::E>, index: usize) -> bool {
    let id = object.section_id(index as u32);
    link.class_of(id).contains(SectionClass::ALLOC | SectionClass::RELOCATED)
        && link.sections.is_alive(id)
        && !link.sections.is(id, SectionState::ABSORBED)
        && !link.sections.is(id, SectionState::NOT_CONTENT)
}

/// Whether a section is an `.eh_frame` that the linker split into records.
fn is_frame_section<T: Target>(link: &Live<'_, T>, object: &ObjectFile<'_, T::E>, index: usize) -> bool {
    let frames = link.frames.files.get(object.id.index());
    frames.is_some_and(|frames| frames.section(index as u32).is_some())
}

fn find_discarded<T: Target>(
    link: &Live<'_, T>,
    object: &ObjectFile<'_, T::E>,
    section: SectionId,
    relocations: &[Rela<T::E>],
    found: &mut ScanResults,
) {
    for relocation in relocations {
        let symbol = object.symbol_id(relocation.symbol());
        if relocation.symbol() != 0 && link.symbol_flags(symbol).contains(SymbolFlags::DISCARDED) {
            found.discarded.push(Reference { section, offset: relocation.r_offset.get(), symbol });
        }
    }
}

/// Scans the records of an object's `.eh_frame` sections that are kept, or in the unwind table.
fn scan_frames<T: Target>(
    link: &Live<'_, T>,
    object: &ObjectFile<'_, T::E>,
    needs: &AtomicNeeds,
    found: &mut ScanResults,
) {
    let Some(kept) = link.kept_frames.files.get(object.id.index()) else { return };
    let frames = &link.frames.files[object.id.index()];
    for section in &frames.sections {
        let lists = kept.records(frames, section).map(|record| record.relocations);
        scan_lists(link, object.section_id(section.index), lists, needs, found);
    }
    let tabled = link.unwind_table.iter().flat_map(|table| table.relocations(object.id, frames));
    for (section, list) in tabled {
        scan_lists(link, object.section_id(section), [list], needs, found);
    }
}

/// Scans relocations of one section. The lists hold all of them, or only those of the kept records.
fn scan_lists<'r, T: Target>(
    link: &Live<'_, T>,
    section: SectionId,
    lists: impl IntoIterator<Item = &'r [Rela<T::E>]>,
    needs: &AtomicNeeds,
    found: &mut ScanResults,
) {
    let Some((object, index)) = link.locate(section) else { return };
    let walk = Walk::new(link, object, index as usize);
    let mut scan = Scan { link, walk: &walk, section, reported: 0, needs, found };
    for relocations in lists {
        walk.each(relocations, &mut scan);
    }
}

struct Scan<'s, 'a, T: Target> {
    link: &'s Live<'a, T>,
    walk: &'s Walk<'s, 'a, T>,
    section: SectionId,
    reported: u32,
    needs: &'s AtomicNeeds,
    found: &'s mut ScanResults,
}

impl<T: Target> Visitor<T> for Scan<'_, '_, T> {
    #[inline]
    fn decided(&mut self, relocation: Decided<'_, T>) {
        let Decided { info, offset, index, symbol, addend, facts, action } = relocation;
        let reference = Reference { section: self.section, offset, symbol };
        if facts.intersects(SymbolFacts::UNDEFINED | SymbolFacts::UNDEFINED_WEAK) {
            self.undefined(facts, reference);
        }
        if facts.contains(SymbolFacts::GOT_BASE) {
            self.found.needs |= Needs::GOT_BASE;
        }
        if info.expr.is_tls() != facts.contains(SymbolFacts::TLS) {
            self.check_thread_locality(info, &reference, index);
        }
        self.take(info, action, &reference, addend);
        // The undefined symbol itself has been reported.
        if let Some(problem) = action.problem
            && !facts.contains(SymbolFacts::UNDEFINED)
        {
            self.problem(info, problem, &reference);
        }
    }

    fn undecided(&mut self, relocation: Undecided<'_, T>) {
        match relocation {
            Undecided::UnknownType(relocation) => self.unknown(relocation),
            Undecided::Outside(info, relocation) => self.outside(info, relocation),
            Undecided::NoSymbol(info, relocation) => self.no_symbol(info, relocation),
            Undecided::Discarded(_, relocation, symbol) => {
                let offset = relocation.r_offset.get();
                self.found.discarded.push(Reference { section: self.section, offset, symbol });
            }
        }
    }
}

impl<T: Target> Scan<'_, '_, T> {
    #[cold]
    fn undefined(&mut self, facts: SymbolFacts, reference: Reference) {
        if facts.contains(SymbolFacts::UNDEFINED)
            || undefined::has_lost_definition(self.link, reference.symbol)
        {
            self.found.undefined.push(reference);
        }
    }

    #[inline]
    fn take(&mut self, info: &RelocInfo<T>, action: &Action<T>, reference: &Reference, addend: i64) {
        let needs = action.needs & Needs::OF_SYMBOL;
        if !needs.is_empty() {
            self.needs.add(reference.symbol, needs);
            if needs.intersects(Needs::COPY | Needs::CANONICAL_PLT) {
                self.check_preemption(info, reference);
            }
        }
        self.found.needs |= action.needs & Needs::OF_LINK;
        if let Some(kind) = action.dynamic {
            self.dynamic(info, kind, reference, addend);
        }
    }

    fn dynamic(&mut self, info: &RelocInfo<T>, kind: DynamicKind, reference: &Reference, addend: i64) {
        let &Reference { section, offset, symbol } = reference;
        self.found.sites.push(DynRelocSite::new(section, offset, symbol, addend, kind));
        if self.walk.writable {
            return;
        }
        self.found.text_relocation.get_or_insert(*reference);
        if self.link.config.relocations.text == TextRelocations::Error {
            let message = format!(
                "{} against {} needs a dynamic relocation, but the section is read-only",
                info.name,
                self.link.symbol_text(symbol)
            );
            self.tell(
                reference.offset,
                Diagnostic::error(Code::TextRelocation, message)
                    .help("recompile with -fPIC")
                    .help("-z notext allows it: the dynamic linker then makes the section writable"),
            );
        }
    }

    fn tell(&mut self, offset: u64, diagnostic: Diagnostic) {
        self.reported += 1;
        if self.reported > MAX_REPORTS {
            return;
        }
        let index = self.section.0 - self.walk.object.first_section;
        let location = Location::Section {
            file: self.walk.object.name.to_string(),
            section: self.walk.object.section_name_lossy(index as usize),
            offset,
        };
        self.link.sink.report_recoverable(diagnostic.at(location).ordered(
            self.walk.object.id.0,
            index,
            offset,
        ));
    }

    #[cold]
    fn unknown(&mut self, relocation: &Rela<T::E>) {
        let message = format!(
            "unknown relocation type {} against {}",
            relocation.kind(),
            self.link.symbol_text(self.walk.object.symbol_id(relocation.symbol()))
        );
        self.tell(relocation.r_offset.get(), Diagnostic::error(Code::UnknownRelocation, message));
    }

    #[cold]
    fn outside(&mut self, info: &RelocInfo<T>, relocation: &Rela<T::E>) {
        let message = format!(
            "{} reaches past the end of the section, which has {:#x} bytes in the file",
            info.name,
            self.walk.bytes.len()
        );
        self.tell(relocation.r_offset.get(), Diagnostic::error(Code::MalformedInput, message));
    }

    #[cold]
    fn no_symbol(&mut self, info: &RelocInfo<T>, relocation: &Rela<T::E>) {
        let message = format!(
            "{} refers to symbol {}, but the file has {} symbols",
            info.name,
            relocation.symbol(),
            self.walk.object.symbols.len()
        );
        self.tell(relocation.r_offset.get(), Diagnostic::error(Code::MalformedInput, message));
    }

    /// Reports a TLS relocation against a symbol that is not thread-local, or the reverse. Section symbols
    /// and symbols that the linker defines have no type, so they are not checked.
    #[cold]
    fn check_thread_locality(&mut self, info: &RelocInfo<T>, reference: &Reference, index: u32) {
        let symbol = reference.symbol;
        let (kind, definer) = match self.link.definition(symbol) {
            Definition::Object { file, symbol } => {
                let object = &self.link.objects[file.index()];
                (object.symbols[symbol as usize].kind(), object.name)
            }
            Definition::Shared { library, symbol } => {
                let library = &self.link.shared[library.index()];
                (library.symbols[symbol as usize].kind(), library.name)
            }
            _ if index != 0 && !self.link.globals.contains(symbol) => {
                let own = self.walk.object.symbols.get(index as usize);
                (own.map_or(elf::STT_NOTYPE, |symbol| symbol.kind()), self.walk.object.name)
            }
            _ => return,
        };
        let harmless = matches!(kind, elf::STT_SECTION | elf::STT_NOTYPE)
            || matches!(info.expr, RelocExpr::Size | RelocExpr::TlsLd | RelocExpr::GotBase);
        if harmless {
            return;
        }
        let message = if info.expr.is_tls() {
            format!("{} against {}, which is not thread-local", info.name, self.link.symbol_text(symbol))
        } else {
            format!(
                "{} against thread-local {}: an address of it exists only at run time",
                info.name,
                self.link.symbol_text(symbol)
            )
        };
        self.tell(
            reference.offset,
            Diagnostic::error(Code::SymbolMismatch, message)
                .note(format!("defined in {definer}"))
                .help("declare it alike (thread_local, __thread) wherever it is used"),
        );
    }

    /// Reports copies and canonical PLT entries that cannot work: those of protected symbols, because the
    /// library goes on using its own definition, and copies of data without a size.
    fn check_preemption(&mut self, info: &RelocInfo<T>, reference: &Reference) {
        let link = self.link;
        let Definition::Shared { library, symbol } = link.definition(reference.symbol) else {
            return;
        };
        let library = &link.shared[library.index()];
        let definition = &library.symbols[symbol as usize];
        let copy = !link.symbol_flags(reference.symbol).contains(SymbolFlags::FUNCTION);
        let name = link.symbol_text(reference.symbol);
        let refused = |why: String| {
            Diagnostic::error(Code::RelocationNotAllowed, why)
                .note(format!("defined in {}", library.name))
                .help("recompile with -fPIC (or -fPIE)")
        };
        if definition.visibility() == elf::STV_PROTECTED {
            let what = if copy { "a copy of its data" } else { "an address of its own" };
            let message = format!(
                "{} against protected symbol {name} would need {what} in this output, which its library would not use",
                info.name
            );
            self.tell(reference.offset, refused(message));
        } else if copy && definition.st_size.get() == 0 {
            let message = format!("{} against {name}: no copy can be made, its size is 0", info.name);
            self.tell(reference.offset, refused(message));
        }
    }

    #[cold]
    fn problem(&mut self, info: &RelocInfo<T>, problem: Problem, reference: &Reference) {
        let mode = &self.link.mode;
        let output = match (mode.shared, mode.position_independent) {
            (true, _) => "a shared library",
            (false, true) => "a position-independent executable",
            (false, false) => "an executable",
        };
        // The option stands in the message's own line, where people look for it.
        let option = if mode.shared { "-fPIC" } else { "-fPIC or -fPIE" };
        let relocation = info.name;
        let symbol = self.link.symbol_text(reference.symbol);
        let (message, help) = match problem {
            Problem::NeedsPic => (
                format!(
                    "relocation {relocation} cannot be used against {symbol} in {output}; recompile with {option}"
                ),
                None,
            ),
            Problem::AbsoluteDistance => (
                format!(
                    "relocation {relocation} cannot be used against absolute symbol {symbol} in {output}: \
                     the distance depends on the load address"
                ),
                Some("use an absolute relocation, or define the symbol in a section"),
            ),
            Problem::DistanceToNothing => (
                format!(
                    "relocation {relocation} cannot be used against undefined weak symbol {symbol} in {output}: \
                     the code would find the load address where it expects 0; recompile with {option}"
                ),
                None,
            ),
            Problem::NeedsTlsModel => (
                format!(
                    "relocation {relocation} against {symbol} cannot be used in {output}; \
                     recompile with {option}, without -ftls-model=local-exec"
                ),
                None,
            ),
            Problem::CopyForbidden => (
                format!(
                    "relocation {relocation} against {symbol} needs a copy relocation, which -z nocopyreloc \
                     and -z indirect-extern-access forbid; recompile with {option}"
                ),
                None,
            ),
            Problem::NotOwnFunction => (
                format!(
                    "relocation {relocation} cannot be used against {symbol}, which other modules may define or \
                     a resolver chooses"
                ),
                Some("make the function hidden, or static"),
            ),
            Problem::NotNumber => (
                format!("relocation {relocation} against {symbol}, which is no number of this output"),
                Some("the symbol stands for an instruction: define it as an absolute, hidden symbol"),
            ),
            Problem::UnexpectedInstruction => (
                format!(
                    "relocation {relocation} against {symbol} is on an instruction that its ABI does not allow"
                ),
                Some(
                    "the linker rewrites only the sequences of the psABI; recompile, or mend the assembly code",
                ),
            ),
        };
        let diagnostic = Diagnostic::error(Code::RelocationNotAllowed, message);
        self.tell(reference.offset, help.into_iter().fold(diagnostic, Diagnostic::help));
    }
}

fn report_text_relocations<T: Target>(link: &Live<'_, T>, first: Reference) {
    let wanted = match link.config.relocations.text {
        TextRelocations::Warn => true,
        TextRelocations::Allow => {
            let wanted = &link.config.diagnostics;
            wanted.textrel || wanted.shared_textrel && link.config.is_shared()
        }
        TextRelocations::Error => false,
    };
    if !wanted {
        return;
    }
    let place = link.describe_place(first.section, first.offset);
    link.sink.report(
        Diagnostic::warning(
            Code::TextRelocation,
            "the output has dynamic relocations in read-only sections (DT_TEXTREL)",
        )
        .note(format!("the first is {place} against {}", link.symbol_text(first.symbol)))
        .help("recompile with -fPIC; -z text makes this an error, -z notext allows it"),
    );
}

/// Warns of `STT_GNU_IFUNC` functions together with text relocations. While the dynamic linker applies text
/// relocations, it makes the code writable and not executable, and it may call resolvers at that time.
fn report_resolvers<T: Target>(link: &Live<'_, T>, asked: &RelocNeeds) {
    if asked.sites.iter().flatten().any(|site| site.kind() == DynamicKind::Resolved) {
        link.sink.report(
            Diagnostic::warning(
                Code::TextRelocation,
                "functions with resolvers (STT_GNU_IFUNC) and dynamic relocations in read-only sections: the program may crash when it is loaded",
            )
            .help("recompile with -fPIC or -fPIE; --no-warn-ifunc-textrel turns this warning off"),
        );
    }
}

/// `-z report-relative-reloc`: reports a note for every place that gets a relative relocation.
fn report_relative<T: Target>(link: &Live<'_, T>, sites: &[Vec<DynRelocSite>]) {
    let relative = T::DYNAMIC.relative;
    for site in sites.iter().flatten() {
        if site.kind() != DynamicKind::Relative {
            continue;
        }
        let place = link.describe_place(site.section, site.offset());
        let message = format!(
            "{place}: relative relocation (type {relative}) against {}",
            link.symbol_text(site.symbol)
        );
        let file = link.rank_of_file(site.section);
        link.sink.report(Diagnostic::new(Severity::Note, Code::RelativeRelocation, message).ordered(
            file,
            site.section.0,
            site.offset(),
        ));
    }
}
