//! The one sorted blob: `.sframe_idx` of `--sframe-index`, `.sframe` of `--sframe=merge`.
//!
//! [`absorb`] reads the inputs before scripts are matched: recognised sections count as absorbed
//! from then on, so `*(.sframe)` matches only the rest, and the linker's own section takes their
//! place. [`choose`] chooses the functions once liveness is frozen, which determines the size.
//! [`order`] sorts them once addresses are known, and [`write()`] copies them.
//!
//! Under `-r` there are no addresses: rows are ordered by output section and offset, the start
//! fields are 0, and each has one PC-relative relocation ([`relocations`]). `--emit-relocs` gives
//! the same relocations in a final link.

use super::collect::{
    self, Batch, Chosen, Described, LeftOut, Ordered, Origin, Place, Refused, Role, Table, unite,
};
use super::read;
use super::{abi, derive, encoding, plt};
use crate::arch::Target;
use crate::cli::{SFrameFromEhFrame, SFrameMode};
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::frames::Frames;
use crate::ids::{ChunkId, SectionId};
use crate::phase::{Inputs, Made, Numbered, Placed, Resolved, Scanned, state};
use crate::synth::section::{Kind, SyntheticSection};
use rayon::prelude::*;
use sframe_format::write::FunctionId;
use sframe_format::{BlobMut, ErrorKind, HEADER_SIZE, SHT_GNU_SFRAME};
use zerocopy::byteorder::{I64, U64};

/// Whether this link makes one blob of the inputs that it recognises.
pub fn is_wanted<T: Target>(link: &Inputs<'_, T>) -> bool {
    link.config.sframe.index.is_some() || link.config.sframe.mode == SFrameMode::Merge
}

/// The role of recognised inputs; `None` if the linker makes no blob of its own. With
/// `--sframe-from-eh-frame=all`, derived functions take their place in every mode.
fn role_of_inputs<T: Target>(link: &Inputs<'_, T>) -> Option<Role> {
    match (link.config.sframe.from_eh_frame, is_wanted(link)) {
        (None, false) => None,
        (_, false) if link.config.sframe.mode == SFrameMode::Discard => None,
        (Some(SFrameFromEhFrame::All), _) => Some(Role::Superseded),
        (_, true) => Some(Role::Written),
        (Some(SFrameFromEhFrame::Missing), false) => Some(Role::Present),
    }
}

/// Reads the inputs and marks those that the blob replaces.
pub fn absorb<'a, T: Target>(link: &Resolved<'a, T>, frames: &Frames<'a, T::E>) -> collect::Inputs {
    let Some(role) = role_of_inputs(link) else { return collect::Inputs::default() };
    let (mut batches, mut refused) = read::inputs(link, role);
    if role == Role::Present {
        // Unrecognised sections pass unchanged; `check_sframes` looks at them with all others that
        // do.
        refused.clear();
    } else {
        replace(link, &batches, &refused);
    }
    if let Some(which) = link.config.sframe.from_eh_frame {
        batches.extend(derive::batches(link, frames, which, &batches));
    }
    collect::Inputs { batches, refused }
}

/// Marks recognised inputs as absorbed, and reports the others.
fn replace<T: Target>(link: &Resolved<'_, T>, batches: &[Batch], refused: &[Refused]) {
    for share in batches.iter().flat_map(Batch::shares) {
        if let Origin::Input(section) = share.origin {
            link.sections.set(section, state::ABSORBED);
        }
    }
    for refused in refused {
        report(link, refused);
        if link.config.sframe.mode == SFrameMode::Merge {
            link.sections.clear(refused.section, state::ALIVE);
        }
    }
}

/// The section that will hold the blob, if there may be one. [`absorb`] has read the inputs.
pub fn section<'a, T: Target>(link: &Made<'a, T>) -> Option<SyntheticSection<'a>> {
    let describes = link.described.batches.iter().any(|batch| batch.role == Role::Written);
    // `--sframe-plt` in a concat link: a blob of its own.
    let wants_plt = link.config.sframe.plt
        && role_of_inputs(link).is_none()
        && link.config.sframe.mode == SFrameMode::Concat
        && !link.config.is_relocatable();
    if !describes && !wants_plt {
        return None;
    }
    let name: &[u8] = if link.config.sframe.index.is_some() { b".sframe_idx" } else { b".sframe" };
    let flags = if link.config.sframe.alloc { u64::from(elf::SHF_ALLOC) } else { 0 };
    Some(SyntheticSection::new(Kind::SFrame, name, SHT_GNU_SFRAME, flags, 8))
}

/// Reports an input that is not recognised.
fn report<T: Target>(link: &Inputs<'_, T>, refused: &Refused) {
    let Some((object, index)) = link.locate(refused.section) else { return };
    let (code, message) = match refused.version {
        Some(version) => {
            let message = format!("SFrame version {version} is not known; versions 1 to 3 are");
            (Code::SFrameVersion, message)
        }
        None => (Code::SFrameCorrupt, format!("corrupt SFrame data: {}", refused.what)),
    };
    let fate = match (link.config.sframe.mode, link.config.sframe.index) {
        (SFrameMode::Merge, _) => "the section is left out",
        (SFrameMode::Discard, _) => "the section is left out, as --sframe=discard says",
        (SFrameMode::Concat, Some(_)) => "the section is not in the index; it goes into .sframe as it is",
        (SFrameMode::Concat, None) => "no derived rows take its place; it goes into .sframe as it is",
    };
    link.sink.report(
        Diagnostic::warning(code, message)
            .at(Location::Section {
                file: object.name.to_string(),
                section: object.section_name_lossy(index as usize),
                offset: refused.offset,
            })
            .note(fate)
            .ordered(object.id.0, index, refused.offset),
    );
}

/// Chooses the functions, which determines the section's size. Comes once liveness is frozen and
/// the PLTs have their entries.
pub fn choose<T: Target>(link: &Numbered<'_, T>) -> Chosen {
    let Some(row) = link.synthetic.find(Kind::SFrame) else { return Chosen::default() };
    if !link.sections.is_alive(link.synthetic_id(row)) {
        return Chosen::default();
    }
    let plts = (link.config.sframe.plt && !link.config.is_relocatable()).then(|| plt::describe(link));
    let batches: Vec<&Batch> = link.described.batches.iter().chain(&plts).collect();
    let table = unite(link, &batches);
    report_left_out(link, &batches);
    report_overlays(link, &table);
    Chosen { plts, table: Some(table) }
}

/// All batches, those of inputs first.
pub fn batches<'l, T: Target>(link: &'l Placed<'_, T>) -> impl Iterator<Item = &'l Batch> {
    link.described.batches.iter().chain(&link.chosen.plts)
}

/// One message for all functions that the version cannot express. Functions that cannot be derived
/// are listed by reports only, because every C library has some.
fn report_left_out<T: Target>(link: &Scanned<'_, T>, batches: &[&Batch]) {
    let written = batches.iter().filter(|batch| batch.role == Role::Written);
    let all: Vec<&LeftOut> = written
        .flat_map(|batch| batch.shares())
        .filter(|share| !matches!(share.origin, Origin::EhFrame(_)))
        .flat_map(|share| share.left_out)
        .filter(|left_out| link.sections.is_alive(left_out.place.section))
        .collect();
    if all.is_empty() {
        return;
    }
    let version = encoding::<T>(link.config).version as u8;
    let count = match all.len() {
        1 => "1 function is".to_owned(),
        count => format!("{count} functions are"),
    };
    let mut diagnostic = Diagnostic::warning(
        Code::SFrameNote,
        format!("{count} left out: SFrame V{version} cannot express them"),
    )
    .at(Location::Link);
    for left_out in all.iter().take(NAMED) {
        let place = link.describe_place(left_out.place.section, left_out.place.offset);
        diagnostic = diagnostic.note(format!("{place}: {}", left_out.reason));
    }
    if all.len() > NAMED {
        diagnostic = diagnostic.note(format!("and {} more", all.len() - NAMED));
    }
    if version == 2 {
        diagnostic = diagnostic.help("--sframe-version=3 can express more");
    }
    link.sink.report(diagnostic);
}

/// Warns of functions in overlays: their sections share addresses, so a program counter does not
/// identify a function.
fn report_overlays<T: Target>(link: &Scanned<'_, T>, table: &Table) {
    let plan = &link.plan;
    if plan.outputs.iter().all(|output| output.overlay.is_none()) {
        return;
    }
    let mut last = ChunkId::NONE.0;
    for function in &table.functions {
        let section = function.place.section;
        let Some(rule) = plan.rules.get(link.rules[section.index()] as usize) else { continue };
        let output = &plan.outputs[rule.output as usize];
        if output.overlay.is_none() || last == rule.output {
            continue;
        }
        last = rule.output;
        let name = String::from_utf8_lossy(&output.name);
        link.sink.report_recoverable(
            Diagnostic::error(
                Code::LayoutError,
                format!("functions of overlay section {name} cannot be in one sorted SFrame blob"),
            )
            .note(format!("the first one is at {}", describe(link, function.place)))
            .note("sections of an overlay have the same addresses")
            .help("--sframe=concat or --sframe=discard without --sframe-index")
            .ordered(link.section_file(section).0, section.0, 0),
        );
    }
}

/// Functions that are worth a job of their own.
const FUNCTIONS_PER_JOB: usize = 4096;

/// Sorts the functions by address, under `-r` by output section and offset. Comes once addresses
/// are final.
pub fn order<T: Target>(link: &Placed<'_, T>) -> Ordered {
    let Some(table) = &link.chosen.table else { return Ordered::default() };
    let relocatable = link.config.is_relocatable();
    let key = |function: &Described| {
        let Place { section, offset } = function.place;
        if relocatable {
            let chunk = link.places.chunk[section.index()];
            (chunk.0, link.places.offset[section.index()].wrapping_add(offset))
        } else {
            (0, link.section_address(section).wrapping_add(offset))
        }
    };
    let mut keyed: Vec<((u32, u64), FunctionId)> = table
        .functions
        .par_iter()
        .enumerate()
        .with_min_len(FUNCTIONS_PER_JOB)
        .map(|(number, function)| (key(function), FunctionId(number as u32)))
        .collect();
    keyed.par_sort_unstable();
    let chunk = |entry: Option<&((u32, u64), FunctionId)>| entry.map(|entry| entry.0.0);
    let sorted = chunk(keyed.first()) == chunk(keyed.last());
    Ordered { functions: keyed.into_iter().map(|((_, address), id)| (address, id)).collect(), sorted }
}

/// Writes the section, which is at `address`.
pub fn write<T: Target>(link: &Placed<'_, T>, address: u64, out: &mut [u8]) {
    let Some(table) = &link.chosen.table else { return };
    let result = if link.config.is_relocatable() {
        let order: Vec<FunctionId> = link.frame_order.functions.iter().map(|&(_, id)| id).collect();
        table.encoder.write_relocatable(&order, link.frame_order.sorted, out)
    } else {
        table.encoder.write(address, &link.frame_order.functions, out)
    };
    let Err(error) = result else { return clear_sorted(link, address, out) };
    match error.kind {
        ErrorKind::StartRange { .. } => report_reach(link, table, address),
        kind => link.sink.report(Diagnostic::error(Code::Internal, format!("SFrame index: {kind}"))),
    }
}

/// Clears the SORTED flag unless the blob is alone in its output section (SFrame rule 4): readers
/// that look at one blob take a sorted one for the whole section.
fn clear_sorted<T: Target>(link: &Placed<'_, T>, address: u64, out: &mut [u8]) {
    let chunk = link.chunk_of(Kind::SFrame).and_then(|chunk| link.layout.chunks.get(chunk.index()));
    let alone = chunk.is_some_and(|chunk| chunk.items.len() == 1);
    if !alone && let Ok(mut blob) = BlobMut::parse(out, address) {
        blob.set_sorted(false);
    }
}

/// Functions that one message names.
const NAMED: usize = 5;

/// Names the functions that 32 bits do not reach.
fn report_reach<T: Target>(link: &Placed<'_, T>, table: &Table, address: u64) {
    let width = encoding::<T>(link.config).version.fde_size() as u64;
    let mut far = Vec::new();
    for (row, &(function, id)) in (0..).zip(&link.frame_order.functions) {
        let field = address.wrapping_add(HEADER_SIZE as u64 + row * width);
        let distance = function.wrapping_sub(field) as i64;
        if i32::try_from(distance).is_err() {
            far.push((table.functions[id.0 as usize].place, function));
        }
    }
    let Some(&(first, at)) = far.first() else { return };
    let mut diagnostic = Diagnostic::error(
        Code::RelocationOverflow,
        format!(
            "function {} at {at:#x} is out of reach of SFrame V2: it is more than 2 GiB away from the section at \
             {address:#x}",
            describe(link, first)
        ),
    );
    for &(place, at) in far.iter().take(NAMED).skip(1) {
        diagnostic = diagnostic.note(format!("so is {} at {at:#x}", describe(link, place)));
    }
    if far.len() > NAMED {
        diagnostic = diagnostic.note(format!("and {} more", far.len() - NAMED));
    }
    link.sink.report_recoverable(diagnostic.help("--sframe-version=3 has no such limit"));
}

/// The function's name, if it has a symbol, and its place.
fn describe<T: Target>(link: &Resolved<'_, T>, place: Place) -> String {
    let text = link.describe_place(place.section, place.offset);
    let Some((object, index)) = link.locate(place.section) else { return text };
    let named = object.symbols.iter().enumerate().find(|(number, symbol)| {
        symbol.kind() == elf::STT_FUNC
            && symbol.st_value.get() == place.offset
            && object.symbol_place(*number) == crate::input::object::SymbolPlace::Section(index)
    });
    match named {
        Some((number, _)) => format!("{} ({text})", link.name_text(object.symbol_name(number))),
        None => text,
    }
}

/// How many relocations the section has where relocations are written.
pub fn relocation_count<T: Target>(link: &Placed<'_, T>) -> u32 {
    link.chosen.table.as_ref().map_or(0, |table| table.settled as u32)
}

/// Writes one relocation for each function but thunks, for which `--emit-relocs` writes none
/// elsewhere either. Offsets count from `base`: the section's address, or its offset in its output
/// section.
pub fn relocations<T: Target>(link: &Placed<'_, T>, base: u64, out: &mut [Rela<T::E>]) {
    let Some(table) = &link.chosen.table else { return };
    let version = encoding::<T>(link.config).version;
    let kind = abi::<T>().start_relocation(version);
    let rows = (0..).zip(&link.frame_order.functions).filter(|(_, (_, id))| (id.0 as usize) < table.settled);
    for (place, (row, &(_, id))) in out.iter_mut().zip(rows) {
        let Place { section, offset } = table.functions[id.0 as usize].place;
        let chunk = link.places.chunk[section.index()];
        let symbol = link.symtab.section_symbol.get(chunk.index()).copied().unwrap_or(0);
        let addend = link.places.offset[section.index()].wrapping_add(offset);
        let field = HEADER_SIZE as u64 + row * version.fde_size() as u64;
        *place = Rela {
            r_offset: U64::new(base.wrapping_add(field)),
            r_info: U64::new(u64::from(symbol) << 32 | u64::from(kind)),
            r_addend: I64::new(addend as i64),
        };
    }
}

/// Whether an input was reported as not recognised.
pub fn is_refused<T: Target>(link: &Made<'_, T>, id: SectionId) -> bool {
    link.described.refused.binary_search_by_key(&id, |refused| refused.section).is_ok()
}
