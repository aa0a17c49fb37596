//! `-z memtag-mode`: finds the variables whose memory the dynamic linker tags (Memtag ABI, "Tagging Global
//! Variables").
//!
//! A compiler that tags a variable names it in a relocation of a section of marks, which has no contents. It
//! then loads the variable's address from the GOT wherever it uses it, because only the dynamic linker knows
//! the tag. Code of another compiler may compute the address without a tag, and would fault. So a global is
//! tagged only if every object that mentions it marks it.

use crate::arch::{RelocExpr, Target};
use crate::cli::Config;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::{Intermediate, SymbolPlace};
use crate::phase::{Live, TaggedGlobal, TaggedGlobals};
use crate::relocs::address;
use crate::synth::tagged_globals::{GRANULE, home};
use crate::tables::section::Kind;
use parallel::ParallelSlice;

/// Finds the variables, if this output has a table for them ([`Live::tagged`]).
pub fn run<T: Target>(mut link: Live<'_, T>) -> Live<'_, T> {
    let table = link.synthetic.find(Kind::TaggedGlobals);
    if let Some(tagging) = T::MEMORY_TAGS
        && table.is_some_and(|row| link.sections.is_alive(link.synthetic_id(row)))
    {
        link.tagged = TaggedGlobals::new(find(&link, tagging.marks));
        report(&link);
    }
    link
}

fn find<T: Target>(link: &Live<'_, T>, marks: u32) -> Vec<TaggedGlobal> {
    let marked: Vec<Vec<SymbolId>> =
        link.objects.par_iter().map(|object| marked_in::<T>(object, marks)).collect();
    let mut all: Vec<SymbolId> = marked.concat();
    all.sort_unstable();
    all.dedup();
    if all.is_empty() {
        return Vec::new();
    }
    let used_plainly = |(object, marked): (&ObjectFile<'_, T::E>, &Vec<SymbolId>)| {
        let is_plain = |id: &&SymbolId| marked.binary_search(id).is_err() && all.binary_search(id).is_ok();
        let globals = if object.intermediate == Intermediate::Only { &[][..] } else { &object.globals[..] };
        globals.iter().filter(is_plain).copied().collect::<Vec<SymbolId>>()
    };
    let mut plain = link.objects.par_iter().zip(&marked).map(used_plainly).collect().concat();
    plain.sort_unstable();
    let leaders: Vec<SectionId> = link.folds.pairs().into_iter().map(|(leader, _)| leader).collect();
    all.into_iter()
        .filter(|id| plain.binary_search(id).is_err())
        .filter_map(|symbol| Some(TaggedGlobal { symbol, size: size(link, &leaders, symbol)? }))
        .collect()
}

/// The symbols that an object marks, sorted. The marks of a discarded group count as well: the object uses
/// the definition of another one in the same way.
fn marked_in<T: Target>(object: &ObjectFile<'_, T::E>, marks: u32) -> Vec<SymbolId> {
    let sections = object.headers.iter().enumerate().filter(|(_, header)| header.sh_type.get() == marks);
    let is_mark = |kind| T::reloc_info(kind).is_some_and(|info| info.expr == RelocExpr::Nothing);
    let mut marked: Vec<SymbolId> = sections
        .flat_map(|(index, _)| object.relocations(index))
        .filter(|relocation| relocation.symbol() != 0 && is_mark(relocation.kind()))
        .map(|relocation| object.symbol_id(relocation.symbol()))
        .collect();
    marked.sort_unstable();
    marked.dedup();
    marked
}

/// The size of a variable; `None` for anything else, and for a variable that is not in the output by itself:
/// a piece of a merged section, or one that was folded with another.
fn size<T: Target>(link: &Live<'_, T>, leaders: &[SectionId], id: SymbolId) -> Option<u64> {
    let (file, index) = link.symbol_entry(id)?;
    let object = &link.objects[file.index()];
    let symbol = object.symbols.get(index as usize)?;
    let stands_alone = match object.symbol_place(index as usize) {
        SymbolPlace::Common => link.common_place(id).is_some(),
        SymbolPlace::Section(section) => {
            let flags = object.headers[section as usize].sh_flags.get();
            let section = object.section_id(section);
            link.sections.is_in_output(section)
                && flags & elf::SHF_MERGE == 0
                && flags & elf::SHF_ALLOC != 0
                && leaders.binary_search(&section).is_err()
        }
        SymbolPlace::Undefined | SymbolPlace::Absolute => false,
    };
    // Objects mark functions and symbols of the linker, too, which have no tags.
    let is_variable = matches!(symbol.kind(), elf::STT_OBJECT | elf::STT_COMMON);
    (is_variable && stands_alone).then(|| address::symbol_size(link, object, index, id))
}

/// Reports variables that are not whole granules. Places of dynamic relocations tell where tags come from, so
/// nothing else may be written there.
fn report<T: Target>(link: &Live<'_, T>) {
    let globals = link.tagged.all();
    for global in globals.iter().filter(|global| global.size == 0 || !global.size.is_multiple_of(GRANULE)) {
        let (definition, size) = (link.symbol_entry(global.symbol), global.size);
        let name = link.symbol_text(global.symbol);
        let message =
            format!("the tagged variable {name} has {size} bytes, expected a multiple of {GRANULE}");
        link.sink.report(
            Diagnostic::error(Code::MalformedInput, message)
                .at(home(link, definition))
                .help("enlarge it where it is defined, or do not tag it")
                .ordered(definition.map_or(u32::MAX, |(file, _)| file.0), 0, global.symbol.0.into()),
        );
    }
    if !globals.is_empty() && writes_places(link.config) {
        let message = "cannot be used with tagged variables, because the places of dynamic relocations say \
                       where tags come from";
        let option = Location::Argument("--apply-dynamic-relocs".into());
        link.sink.report(Diagnostic::error(Code::BadOption, message).at(option));
    }
}

fn writes_places(config: &Config) -> bool {
    config.relocations.apply_dynamic == Some(true)
}
