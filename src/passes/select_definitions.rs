//! Selects the prevailing definition of each global.
//!
//! If a.o, b.o and the C library all define `log`, each reference to `log` must lead to one of them, the same
//! for all. The gABI gives the order: a definition that is not weak beats a common block, which beats a weak
//! definition, which beats a shared library's. Among equals, the first file in link order wins.
//!
//! All objects are read in parallel. If threads took turns, or the first thread to come won, the link would
//! be slow or its result random. So each candidate becomes a key, and the smallest key of a global prevails.
//! An atomic minimum gives the same result in any order:
//!
//! ```text
//! rank (8 bits)  file (24)  symbol (32)
//! 3 weak         a.o  0     12
//! 1 strong       b.o  1      5              <- the smallest key: b.o's definition prevails
//! 4 shared       libc 0    310
//! ```
//!
//! Symbols in discarded sections define nothing: they are no candidates.

use crate::arch::Target;
use crate::diag::demangle::shown;
use crate::diag::{Code, Diagnostic, Location, Sink};
use crate::elf::consts as elf;
use crate::ids::{FileId, SectionId, SharedId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::input::source_lines::{PlaceRole, SourceLines};
use crate::input::{ObjectFile, SharedFile, SymbolUse};
use crate::phase::{Inputs, SectionState, SectionStates};
use crate::plan::LayoutPlan;
use crate::symbols::versions::split;
use crate::symbols::{CommonBlock, Definition, Definitions, MentionedBy};
use hashbrown::HashMap;
use parallel::{IntoParallel, ParallelSlice, ParallelSort};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const RANK_STRONG: u64 = 1;
const RANK_COMMON: u64 = 2;
const RANK_WEAK: u64 = 3;
const RANK_SHARED: u64 = 4;
const NOTHING: u64 = u64::MAX;
/// Bits of a key that number the file. [`run`] panics on more objects or libraries.
const FILE_BITS: u32 = 24;

/// Selects definitions, and reports duplicates unless they are allowed.
pub fn run<T: Target>(inputs: &Inputs<'_, T>, sections: &SectionStates, plan: &LayoutPlan) -> Definitions {
    let Inputs { objects, shared, globals, .. } = inputs;
    assert!(objects.len() < 1 << FILE_BITS && shared.len() < 1 << FILE_BITS, "fewer than 2^24 files");
    let rows = 0..globals.len();
    let best: Vec<AtomicU64> = rows.clone().into_par_iter().map(|_| AtomicU64::new(NOTHING)).collect();
    let visibility: Vec<AtomicU8> =
        rows.clone().into_par_iter().map(|_| AtomicU8::new(VISIBILITY_DEFAULT)).collect();
    let mentions: Vec<AtomicU8> = rows.into_par_iter().map(|_| AtomicU8::new(0)).collect();
    let sink = inputs.sink;
    let commons: Vec<Vec<u32>> = objects
        .par_iter()
        .map(|object| offer_object(object, sections, &best, &visibility, &mentions, sink))
        .collect();
    shared.par_iter().for_each(|library| offer_shared(library, &best));
    if !inputs.config.symbols.allow_multiple_definition {
        report_duplicates(inputs, sections, &best);
    }
    let select = |(key, visibility): (&AtomicU64, &AtomicU8)| match unpack(key.load(Ordering::Relaxed)) {
        // A reference that is not of default visibility stays inside the output, so no library can define it.
        Definition::Shared { .. } if visibility.load(Ordering::Relaxed) != VISIBILITY_DEFAULT => {
            Definition::Undefined
        }
        definition => definition,
    };
    let mut definitions: Vec<Definition> = best.par_iter().zip(&visibility).map(select).collect();
    drop(best);
    let mut commons = join_commons(objects, &commons, &mut definitions);
    let replaced = meet_libraries(inputs, &visibility, &mentions, &mut commons, &mut definitions);
    if !replaced.is_empty() {
        prefer_weak_definitions(objects, sections, &replaced, &mut definitions);
    }
    let overridden_libraries = shared.iter().map(|library| is_overridden(library, &definitions)).collect();
    let mut definitions = Definitions {
        of: definitions,
        visibility: visibility.par_iter().map(|rank| from_rank(rank.load(Ordering::Relaxed))).collect(),
        mentions: with_references(inputs, plan, &mentions, &replaced),
        commons,
        replaced_commons: replaced,
        overridden_libraries,
        loaded_libraries: Vec::new(),
    };
    if !plan.allocates_commons(inputs.config) && !inputs.config.is_relocatable() {
        leave_commons(&mut definitions);
    }
    definitions
}

/// Turns common blocks that get no room in a final link into references, because another module may define
/// them.
fn leave_commons(definitions: &mut Definitions) {
    for block in std::mem::take(&mut definitions.commons) {
        let row = block.symbol.index();
        definitions.of[row] = Definition::Undefined;
        definitions.mentions[row] |=
            MentionedBy::IN_OBJECT | MentionedBy::REFERENCE | MentionedBy::STRONG_REFERENCE;
    }
}

/// The mentions of globals. A library's data replaced the common blocks in `replaced`, so these count as
/// references. A weak reference to a symbol of `-u` or `EXTERN` wants a definition, as in GNU ld and lld.
fn with_references<T: Target>(
    inputs: &Inputs<'_, T>,
    plan: &LayoutPlan,
    mentions: &[AtomicU8],
    replaced: &[CommonBlock],
) -> Vec<MentionedBy> {
    let mut mentions: Vec<MentionedBy> =
        mentions.par_iter().map(|bits| MentionedBy::from_bits_retain(bits.load(Ordering::Relaxed))).collect();
    replaced.iter().for_each(|block| mentions[block.symbol.index()] |= MentionedBy::STRONG_REFERENCE);
    let of_options = inputs.config.symbols.undefined.iter().map(Vec::as_slice);
    let of_scripts = plan.undefined.iter().map(|name| &*name.bytes);
    for id in of_options.chain(of_scripts).filter_map(|name| inputs.globals.lookup(name)) {
        let mentions = &mut mentions[id.index()];
        if mentions.contains(MentionedBy::REFERENCE) {
            mentions.insert(MentionedBy::STRONG_REFERENCE);
        }
    }
    mentions
}

/// Settles common blocks that a shared library defines, too. The block prevails over zeros and over weak
/// definitions, and grows to the library's size and alignment, because the library will use it. If the
/// library's data is initialised, the block would hide the values. Then the library's definition prevails,
/// and the block is a reference. A block that is not of default visibility, or that `--exclude-libs` hides,
/// belongs to this output alone. So does one of which only a library knows that the program does not load: a
/// block alone makes no library of `--as-needed` needed. Returns the blocks that became references, sorted by
/// symbol.
fn meet_libraries<T: Target>(
    inputs: &Inputs<'_, T>,
    visibility: &[AtomicU8],
    mentions: &[AtomicU8],
    commons: &mut Vec<CommonBlock>,
    definitions: &mut [Definition],
) -> Vec<CommonBlock> {
    let mut replaced = Vec::new();
    if commons.is_empty() {
        return replaced;
    }
    let mut seen = vec![false; commons.len()];
    // Few libraries define a name of a common block, and the question goes through all their names.
    let mut loaded = None;
    for library in &inputs.shared {
        for (index, (symbol, id)) in library.symbols.iter().zip(&library.globals).enumerate() {
            if symbol.is_undefined() || symbol.kind() != elf::STT_OBJECT {
                continue;
            }
            // Libraries name many symbols that no object mentions.
            let own = |visibility: &AtomicU8| visibility.load(Ordering::Relaxed) != VISIBILITY_DEFAULT;
            if visibility.get(id.index()).is_none_or(own) {
                continue;
            }
            let Ok(row) = commons.binary_search_by_key(id, |block| block.symbol) else { continue };
            let block = &mut commons[row];
            if !loaded.get_or_insert_with(|| loaded_libraries(inputs, definitions, mentions))
                [library.id.index()]
                || std::mem::replace(&mut seen[row], true)
                || inputs.objects[block.file.index()].hide_symbols
            {
                continue;
            }
            if library.has_bytes(symbol) && !symbol.is_weak() {
                definitions[id.index()] = Definition::Shared { library: library.id, symbol: index as u32 };
                replaced.push(*block);
            } else {
                block.size = block.size.max(symbol.st_size.get());
                block.align = block.align.max(library.data_alignment(symbol));
            }
        }
    }
    replaced.par_sort_by_key(|block| block.symbol);
    commons.retain(|block| !holds(&replaced, block.symbol));
    replaced
}

/// By library: whether the program loads it whatever its common blocks are, by itself or because a library
/// that it loads names it.
fn loaded_libraries<T: Target>(
    inputs: &Inputs<'_, T>,
    definitions: &[Definition],
    mentions: &[AtomicU8],
) -> Vec<bool> {
    let is_named = |library: &SharedFile<'_, T::E>| is_loaded(library, definitions, mentions);
    let mut loaded: Vec<bool> = inputs.shared.iter().map(is_named).collect();
    let rows: HashMap<&[u8], usize> = inputs.shared.iter().map(|library| library.soname).zip(0..).collect();
    let mut open: Vec<usize> = (0..loaded.len()).filter(|&row| loaded[row]).collect();
    while let Some(row) = open.pop() {
        let named = inputs.shared[row].needed.iter().filter_map(|name| rows.get(name));
        open.extend(named.filter(|&&row| !std::mem::replace(&mut loaded[row], true)));
    }
    loaded
}

/// Whether the program loads a library whatever its common blocks are, if no other library names it.
fn is_loaded<E: zerocopy::byteorder::ByteOrder>(
    library: &SharedFile<'_, E>,
    definitions: &[Definition],
    mentions: &[AtomicU8],
) -> bool {
    let mentions_of =
        |id: SymbolId| MentionedBy::from_bits_retain(mentions[id.index()].load(Ordering::Relaxed));
    !library.as_needed
        || is_overridden(library, definitions)
        || is_taken_from(library, |id| definitions[id.index()], mentions_of)
}

/// Whether an object's definition prevails over one of a library to which a file before the library referred.
fn is_overridden<E: zerocopy::byteorder::ByteOrder>(
    library: &SharedFile<'_, E>,
    definitions: &[Definition],
) -> bool {
    library.wanted.iter().any(|id| matches!(definitions[id.index()], Definition::Object { .. }))
}

/// Whether an object takes a definition from a library by a reference that is not weak.
pub fn is_taken_from<E: zerocopy::byteorder::ByteOrder>(
    library: &SharedFile<'_, E>,
    definition: impl Fn(SymbolId) -> Definition,
    mentions: impl Fn(SymbolId) -> MentionedBy,
) -> bool {
    let strong = MentionedBy::IN_OBJECT | MentionedBy::STRONG_REFERENCE;
    library.globals.iter().any(|&id| {
        id.is_some()
            && matches!(definition(id), Definition::Shared { library: of, .. } if of == library.id)
            && mentions(id).contains(strong)
    })
}

/// Whether `blocks`, which are sorted by symbol, hold a block of this symbol.
fn holds(blocks: &[CommonBlock], symbol: SymbolId) -> bool {
    blocks.binary_search_by_key(&symbol, |block| block.symbol).is_ok()
}

/// Some common blocks became references. If an object has a weak definition of such a symbol, the first one
/// prevails over the library's.
fn prefer_weak_definitions<E: zerocopy::byteorder::ByteOrder + Sync>(
    objects: &[ObjectFile<'_, E>],
    sections: &SectionStates,
    replaced: &[CommonBlock],
    definitions: &mut [Definition],
) {
    let weak_of = |object: &ObjectFile<'_, E>, offset: usize| {
        let index = object.first_global as usize + offset;
        let is_weak = rank_of(object, index, sections) == Some(RANK_WEAK);
        is_weak.then(|| pack(RANK_WEAK, object.id.0, index as u32))
    };
    let mut weak: Vec<(SymbolId, u64)> = objects
        .par_iter()
        .flat_map_iter(|object| {
            let wanted = object.globals.iter().enumerate().filter(|(_, id)| holds(replaced, **id));
            wanted.filter_map(move |(offset, &id)| Some((id, weak_of(object, offset)?)))
        })
        .collect();
    weak.sort_unstable();
    weak.dedup_by_key(|(id, _)| *id);
    for (id, key) in weak {
        definitions[id.index()] = unpack(key);
    }
}

fn pack(rank: u64, file: u32, symbol: u32) -> u64 {
    rank << 56 | u64::from(file) << 32 | u64::from(symbol)
}

fn unpack(key: u64) -> Definition {
    let (file, symbol) = ((key >> 32) as u32 & ((1 << FILE_BITS) - 1), key as u32);
    match key >> 56 {
        RANK_SHARED => Definition::Shared { library: SharedId(file), symbol },
        RANK_STRONG..=RANK_WEAK => Definition::Object { file: FileId(file), symbol },
        _ => Definition::Undefined,
    }
}

const VISIBILITY_DEFAULT: u8 = 3;

/// The rank of a visibility (`STV_*`). The most constraining comes first: internal, hidden, protected,
/// default. If files disagree, the gABI wants the most constraining one, which is the minimum.
fn to_rank(visibility: u8) -> u8 {
    visibility.wrapping_sub(1) & 3
}

fn from_rank(rank: u8) -> u8 {
    rank.wrapping_add(1) & 3
}

/// The rank of an object's symbol as a definition; `None` if it is a reference.
#[inline]
fn rank_of<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    index: usize,
    sections: &SectionStates,
) -> Option<u64> {
    let symbol = &object.symbols[index];
    match object.symbol_place(index) {
        SymbolPlace::Undefined => None,
        SymbolPlace::Common => Some(RANK_COMMON),
        SymbolPlace::Section(section) if !may_define(sections, object.section_id(section)) => None,
        _ if symbol.is_weak() => Some(RANK_WEAK),
        _ => Some(RANK_STRONG),
    }
}

/// The key of an object's symbol as a candidate: of all candidates for a global, the smallest key prevails.
/// `None` if the symbol is a reference.
pub fn key_of<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    index: usize,
    sections: &SectionStates,
) -> Option<u64> {
    rank_of(object, index, sections).map(|rank| pack(rank, object.id.0, index as u32))
}

/// Whether symbols of a section are definitions: the section was neither discarded with its group nor left
/// out of the output (`SHF_EXCLUDE`).
pub fn may_define(sections: &SectionStates, section: SectionId) -> bool {
    let state = sections.get(section);
    !state.is_empty() && !state.contains(SectionState::DISCARDED_BY_GROUP)
}

fn mention(mentions: &AtomicU8, how: MentionedBy) {
    let bits = how.bits();
    if mentions.load(Ordering::Relaxed) & bits != bits {
        mentions.fetch_or(bits, Ordering::Relaxed);
    }
}

/// Offers an object's definitions, and notes its mentions and visibilities. Returns the indices of its common
/// symbols.
fn offer_object<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    sections: &SectionStates,
    best: &[AtomicU64],
    visibility: &[AtomicU8],
    mentions: &[AtomicU8],
    sink: &Sink,
) -> Vec<u32> {
    let mut commons = Vec::new();
    let first = object.first_global as usize;
    for (offset, &id) in object.globals.iter().enumerate() {
        let index = first + offset;
        let symbol = &object.symbols[index];
        let mut how = MentionedBy::IN_OBJECT;
        if symbol.visibility() != elf::STV_DEFAULT {
            visibility[id.index()].fetch_min(to_rank(symbol.visibility()), Ordering::Relaxed);
        }
        // A common block that a library's data replaces is a reference to it.
        if symbol.is_undefined() || symbol.is_common() {
            how |= MentionedBy::REFERENCE;
        }
        match rank_of(object, index, sections) {
            Some(rank) => {
                if rank == RANK_COMMON {
                    commons.push(index as u32);
                }
                let key = pack(rank, object.id.0, index as u32);
                let best = &best[id.index()];
                if key < best.load(Ordering::Relaxed) {
                    best.fetch_min(key, Ordering::Relaxed);
                }
            }
            None => {
                if object.is_misplaced(index) {
                    report_misplaced(object, index, sink);
                }
                if !symbol.is_weak() {
                    how |= MentionedBy::STRONG_REFERENCE;
                }
                how |= MentionedBy::of_kind(symbol.kind());
            }
        }
        mention(&mentions[id.index()], how);
    }
    commons
}

fn report_misplaced<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    index: usize,
    sink: &Sink,
) {
    let section = object.symbols[index].st_shndx.get();
    let name = String::from_utf8_lossy(object.symbol_name(index));
    let what = format!(
        "symbol {name} (number {index}) lies in section {section}, and the file has {} sections",
        object.headers.len()
    );
    let finding = Diagnostic::error(Code::MalformedInput, what);
    sink.report(finding.at(Location::File(object.name.to_string())).ordered(object.id.0, 0, index as u64));
}

fn offer_shared<E: zerocopy::byteorder::ByteOrder>(library: &SharedFile<'_, E>, best: &[AtomicU64]) {
    for (index, (symbol, &id)) in library.symbols.iter().zip(&library.globals).enumerate() {
        if !id.is_some() {
            continue;
        }
        if !symbol.is_undefined() {
            let key = pack(RANK_SHARED, library.id.0, index as u32);
            best[id.index()].fetch_min(key, Ordering::Relaxed);
        }
    }
}

/// Makes the largest declaration of a common block its definition, the first among equals.
fn join_commons<E: zerocopy::byteorder::ByteOrder>(
    objects: &[ObjectFile<'_, E>],
    commons: &[Vec<u32>],
    definitions: &mut [Definition],
) -> Vec<CommonBlock> {
    let mut blocks: indexmap::IndexMap<SymbolId, CommonBlock, foldhash::fast::FixedState> =
        indexmap::IndexMap::default();
    for (object, commons) in objects.iter().zip(commons) {
        for &index in commons {
            let id = object.symbol_id(index);
            let Definition::Object { file, symbol } = definitions[id.index()] else { continue };
            if !matches!(objects[file.index()].symbol_place(symbol as usize), SymbolPlace::Common) {
                continue;
            }
            let declared = &object.symbols[index as usize];
            let align = declared.st_value.get();
            let align = if align.is_power_of_two() { align } else { 1 };
            let size = declared.st_size.get();
            let block =
                blocks.entry(id).or_insert(CommonBlock { symbol: id, size: 0, align: 1, file: object.id });
            block.align = block.align.max(align);
            if size > block.size || block.size == 0 {
                block.size = size;
                block.file = object.id;
                definitions[id.index()] = Definition::Object { file: object.id, symbol: index };
            }
        }
    }
    let mut blocks: Vec<CommonBlock> = blocks.into_values().collect();
    blocks.par_sort_by_key(|block| block.symbol);
    blocks
}

/// Reports each strong definition that does not prevail because another strong one does.
fn report_duplicates<T: Target>(inputs: &Inputs<'_, T>, sections: &SectionStates, best: &[AtomicU64]) {
    let (objects, names, sink) = (&inputs.objects[..], &inputs.globals.names, inputs.sink);
    let demangled = inputs.config.diagnostics.demangle;
    let beside_just_symbols = !inputs.config.symbols.defined_once_beside_just_symbols;
    let (mut lines, mut same) = (SourceLines::default(), HashMap::new());
    let mut clashes: Vec<(SymbolId, FileId, u32)> = objects
        .par_iter()
        .flat_map_iter(|object| {
            // Few names are defined other than weakly, and only these need a look at what prevails.
            let mentions = object.globals.iter().zip(&object.usages).enumerate();
            let may_clash = |usage| matches!(usage, SymbolUse::Definition | SymbolUse::Common);
            mentions.filter(move |(_, (_, usage))| may_clash(**usage)).filter_map(
                move |(offset, (&id, _))| {
                    let index = object.first_global as usize + offset;
                    let winner = best[id.index()].load(Ordering::Relaxed);
                    let own = pack(RANK_STRONG, object.id.0, index as u32);
                    (winner >> 56 == RANK_STRONG
                        && winner != own
                        && !same_place(winner, object, index)
                        && rank_of(object, index, sections) == Some(RANK_STRONG)
                        && !same_absolute(objects, winner, object, index)
                        && !(beside_just_symbols && stands_in(objects, winner, object, index)))
                    .then_some((id, object.id, index as u32))
                },
            )
        })
        .collect();
    clashes.par_sort_by_key(|&(id, file, index)| (best[id.index()].load(Ordering::Relaxed), file, index));
    for group in clashes.chunk_by(|a, b| a.0 == b.0) {
        let id = group[0].0;
        let winner = best[id.index()].load(Ordering::Relaxed);
        let Definition::Object { file, symbol } = unpack(winner) else { continue };
        let name = shown(names[id.index()], demangled);
        let mut defining = group.iter().map(|&(_, file, index)| (file, index)).chain([(file, symbol)]);
        let version = defining
            .find_map(|(file, index)| version_in(&objects[file.index()], index))
            .filter(|_| split(names[id.index()]).is_none())
            .map_or(String::new(), |version| format!("@{}", shown(version, false)));
        let mut diagnostic =
            Diagnostic::error(Code::DuplicateSymbol, format!("multiple definition of `{name}{version}'"))
                .ordered(file.0, 0, symbol.into());
        // Two objects may clash in all of their symbols, and are compared once.
        let mut is_same = |&other: &FileId| {
            *same
                .entry((file, other))
                .or_insert_with(|| is_same_file(&objects[file.index()], &objects[other.index()]))
        };
        let twice = group.iter().map(|&(_, other, _)| other).find(&mut is_same);
        let others = group.iter().map(|&(_, file, index)| (file, index));
        for (file, index) in std::iter::once((file, symbol)).chain(others) {
            diagnostic = defined_at(&objects[file.index()], index as usize, &mut lines, demangled)
                .into_iter()
                .fold(diagnostic, Diagnostic::note);
        }
        let help = match twice {
            Some(other) => {
                format!("{} is among the inputs twice: name it once", objects[other.index()].name)
            }
            None => "--allow-multiple-definition (-z muldefs) takes the first of them".to_owned(),
        };
        sink.report_recoverable(diagnostic.help(help));
    }
}

/// The version that an object gives a symbol (`name@VERSION`, `name@@VERSION`).
fn version_in<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'a, E>,
    index: u32,
) -> Option<&'a [u8]> {
    split(object.symbol_name(index as usize)).map(|(_, version)| version)
}

/// Whether two objects are one file, or one member of an archive.
fn is_same_file<E: zerocopy::byteorder::ByteOrder>(a: &ObjectFile<'_, E>, b: &ObjectFile<'_, E>) -> bool {
    a.id != b.id && (a.name.path, a.name.member) == (b.name.path, b.name.member) && a.bytes == b.bytes
}

/// Whether a symbol and the prevailing one are two names of an object for one place. These do not clash:
/// `.symver name, name@@VERSION` leaves both names.
fn same_place<E: zerocopy::byteorder::ByteOrder>(
    winner: u64,
    object: &ObjectFile<'_, E>,
    index: usize,
) -> bool {
    matches!(unpack(winner), Definition::Object { file, symbol }
        if file == object.id && object.is_same_place(symbol as usize, index))
}

/// Whether a symbol and the prevailing one are absolute and have the same value. Then they do not clash.
fn same_absolute<E: zerocopy::byteorder::ByteOrder>(
    objects: &[ObjectFile<'_, E>],
    winner: u64,
    object: &ObjectFile<'_, E>,
    index: usize,
) -> bool {
    let Definition::Object { file, symbol } = unpack(winner) else { return false };
    let other = &objects[file.index()];
    object.symbol_place(index) == SymbolPlace::Absolute
        && other.symbol_place(symbol as usize) == SymbolPlace::Absolute
        && object.symbols[index].st_value.get() == other.symbols[symbol as usize].st_value.get()
}

/// Whether a symbol or the prevailing one only says where a section of another program is (`--just-symbols`).
/// As in GNU ld, it does not clash then with a definition of the link's own.
fn stands_in<E: zerocopy::byteorder::ByteOrder>(
    objects: &[ObjectFile<'_, E>],
    winner: u64,
    object: &ObjectFile<'_, E>,
    index: usize,
) -> bool {
    let Definition::Object { file, symbol } = unpack(winner) else { return false };
    let is_of_section = |object: &ObjectFile<'_, E>, index: usize| {
        object.just_symbols && object.symbols[index].st_shndx.get() != elf::SHN_ABS
    };
    is_of_section(object, index) || is_of_section(&objects[file.index()], symbol as usize)
}

fn defined_at<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    index: usize,
    lines: &mut SourceLines,
    demangled: bool,
) -> Vec<String> {
    match object.symbol_place(index) {
        SymbolPlace::Section(section) => {
            let offset = object.symbols[index].st_value.get();
            lines.notes(PlaceRole::Defined, object, section, offset, demangled)
        }
        _ => vec![format!("defined at {}", object.name)],
    }
}
