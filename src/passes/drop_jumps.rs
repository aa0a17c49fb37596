//! `--optimize-bb-jumps`: takes jumps away that lead to the next instruction anyway.
//!
//! With `-fbasic-block-sections`, compilers put each basic block into a section of its own, so that the
//! linker may lay blocks out in the order in which a profile saw them run. A compiler cannot know that order,
//! so each block ends with a jump even to the block that will follow it:
//!
//! ```text
//! f:         test  %edi, %edi                  f:         test  %edi, %edi
//!            je    f.part.1                               jne   f.part.2
//!            jmp   f.part.2            ->
//! f.part.1:  mov   $1, %eax                    f.part.1:  mov   $1, %eax
//!            jmp   f.part.3
//! f.part.3:  ret                               f.part.3:  ret
//! ```
//!
//! The pass runs when the order of sections is known and before anything has an address. Sections then have
//! fewer bytes, so everything that counts them must know: this pass gives the objects other headers, bytes,
//! relocations and symbols ([`edit`]), as if the compiler had written them so, and no later pass needs to
//! know of it. The records of frames that cover a dropped jump end before it, in `.eh_frame` and in the
//! linker's own tables, because records must not overlap. So does what debug information says of it.
//!
//! A jump stays if its section would be empty without it, or if a function begins with it: another function
//! would then have the same address. If the condition before it would be turned around, it also stays if
//! something else may lead to the jump ([`labels`]).

mod edit;
mod find;
mod jumps;
mod labels;

use crate::arch::Target;
use crate::cli::UnwindTableMode;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::frames::unwind_table;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::layout::place::{self, List};
use crate::phase::Contents;
use crate::plan::LayoutPlan;
use crate::sframe::collect::Chosen;
use crate::sframe_output::compact;
use crate::tables::section::Kind;
use jumps::Jumps;
use parallel::ParallelSlice;

/// Whether the option is given, in a link where it does something.
pub fn is_wanted<T: Target>(link: &Contents<'_, T>) -> bool {
    link.config.relocations.drop_jumps && !link.config.is_relocatable() && !link.sink.has_errors()
}

/// Drops the jumps. `lists` has the sections in their final order. The functions in `chosen` get shorter,
/// too.
pub fn run<'a, T: Target>(
    contents: Contents<'a, T>,
    chosen: Chosen,
    plan: &LayoutPlan,
    lists: &mut [List],
) -> (Contents<'a, T>, Chosen) {
    let found = find::run(&contents, plan, lists);
    let mut jumps = Jumps::new(found, contents.first_internal() as usize);
    let mut kept = kept_for_symbols(&contents, &chosen, &jumps);
    kept.extend(labels::of_turned(&contents, &jumps));
    jumps.spare(kept);
    if jumps.list.is_empty() {
        return (contents, chosen);
    }
    let (contents, chosen) = shorten_tables(contents, chosen, &jumps);
    let contents = remake_unwind_table(edit::run(contents, &jumps));
    place::gather(&contents, lists);
    (contents, chosen)
}

/// The sections with a function that begins with the jump, or with a label behind it.
fn kept_for_symbols<'a, T: Target>(link: &Contents<'a, T>, chosen: &Chosen, jumps: &Jumps) -> Vec<SectionId> {
    let begins = |section: SectionId, offset: u64| {
        jumps.size(section).is_some_and(|size| size <= offset && offset < link.input_size(section))
    };
    let of_object = |object: &ObjectFile<'a, T::E>| {
        let mut kept = Vec::new();
        for (index, symbol) in object.symbols.iter().enumerate().skip(1) {
            let SymbolPlace::Section(section) = object.symbol_place(index) else { continue };
            let section = link.folds.standing(object.section_id(section));
            let value = symbol.st_value.get();
            let is_function = symbol.kind() == elf::STT_FUNC || index >= object.first_global as usize;
            // A label behind the jump means that there is something else than padding.
            let is_behind = symbol.kind() != elf::STT_SECTION && jumps.size(section) != Some(value);
            if (is_function || is_behind) && begins(section, value) {
                kept.push(section);
            }
        }
        let frames = link.frames.files.get(object.id.index()).filter(|_| !jumps.of(object).is_empty());
        for jump in jumps.of(object) {
            let mut codes = frames.into_iter().flat_map(|frames| frames.codes_of(object, jump.section));
            if codes.any(|code| begins(jump.section, code.begin)) {
                kept.push(jump.section);
            }
        }
        kept
    };
    let mut kept: Vec<SectionId> = link.objects.par_iter().flat_map_iter(of_object).collect();
    let described = chosen.table.iter().flat_map(|table| &table.functions);
    kept.extend(described.map(|it| it.place).filter(|at| begins(at.section, at.offset)).map(|at| at.section));
    kept
}

/// Shortens the functions of the linker's own SFrame section, and what `.gdb_index` says of addresses.
fn shorten_tables<'a, T: Target>(
    mut contents: Contents<'a, T>,
    mut chosen: Chosen,
    jumps: &Jumps,
) -> (Contents<'a, T>, Chosen) {
    for area in &mut contents.tables.debug_index.areas {
        if let Some(size) = jumps.size(area.section) {
            area.range.1 = area.range.1.min(size).max(area.range.0);
        }
    }
    let Some(table) = chosen.table.take() else { return (contents, chosen) };
    let shortened = table.shortened(&|section| jumps.size(section)).and_then(|table| {
        let compact = chosen.compact.is_some().then(|| compact::of_table(&table)).transpose()?;
        Ok((table, compact))
    });
    match shortened {
        Ok((table, compact)) => {
            let size = compact.as_ref().map_or(table.size(), |compact| compact::first_guess(compact, &table));
            contents.synthetics.set_size(Kind::SFrame, size, 1);
            (chosen.table, chosen.compact) = (Some(table), compact);
        }
        Err(error) => {
            let message = format!("functions of the SFrame table cannot be shortened: {error}");
            let finding = Diagnostic::error(Code::LayoutError, message);
            contents.sink.report(finding.help("link without --optimize-bb-jumps"));
        }
    }
    (contents, chosen)
}

/// Makes the table of `--unwind-table` again, of records that have become shorter. It stands for the same
/// records as before.
fn remake_unwind_table<T: Target>(mut contents: Contents<'_, T>) -> Contents<'_, T> {
    let live = &mut contents.tables.numbered.scanned.live;
    let Some(before) = &live.unwind_table else { return contents };
    let replaces = live.config.unwind.table == Some(UnwindTableMode::Replace);
    let remade = unwind_table::choose(&live.bound, &live.sections, &live.frames, replaces);
    let stands_for_same = |remade: &unwind_table::UnwindTable| {
        let records = |table: &unwind_table::UnwindTable| {
            table.functions.iter().map(|function| (function.file, function.fde)).collect::<Vec<_>>()
        };
        records(remade) == records(before)
    };
    match remade.filter(stands_for_same) {
        Some(remade) => live.unwind_table = Some(remade),
        None => live.sink.report(
            Diagnostic::error(Code::LayoutError, "the unwind table cannot be made without dropped jumps")
                .help("link without --optimize-bb-jumps or without --unwind-table"),
        ),
    }
    contents
}
