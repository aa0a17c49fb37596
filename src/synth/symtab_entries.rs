//! Decides which symbols `.symtab` of the output has, and how many bytes their names take.
//!
//! Each object owns its local symbols and the globals that it defines. Symbols without an owner come after
//! them: undefined ones, and those of libraries and the linker. If no other module can see a global (it is
//! hidden, or a version script makes it local), it becomes a local symbol, as the gABI asks.
//!
//! This module first counts the symbols of each object and the bytes of their names. So the part of each
//! object is a slice of its own, and any thread can write it ([`symtab`](super::symtab)).

use crate::arch::Target;
use crate::cli::{Discard, Strip};
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::elf::{Sym, string_at};
use crate::ids::{ChunkId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::{Malformed, SymbolPlace};
use crate::phase::Arranged;
use crate::phase::Inputs;
use crate::phase::Resolved;
use crate::phase::SectionState;
use crate::symbols::{Definition, LinkerSymbolOrigin, MentionedBy, Needs, Reserved, SymbolFlags};
use crate::synth::{groups, references};
use crate::tables::local_names::LocalNames;
use crate::tables::symtab_plan::{Part, SymtabPlan};
use parallel::IntoParallel;

/// Counts symbols and names. The output sections must be known.
pub fn plan<T: Target>(link: &Arranged<'_, T>) -> SymtabPlan {
    let mut plan = SymtabPlan::default();
    if link.config.strip.strip == Strip::All && !link.config.is_relocatable() {
        return plan;
    }
    let writes_relocations = link.config.is_relocatable() || link.config.relocations.emit;
    let (mut next, mut strings) = (1u32, 1u64);
    if writes_relocations {
        plan.section_symbol = vec![0; link.layout.chunks.len()];
        for (index, chunk) in link.layout.chunks.iter().enumerate() {
            if has_section_symbol(chunk.sh_type) {
                plan.section_symbols.push(ChunkId::from_index(index));
                plan.section_symbol[index] = next;
                next += 1;
            }
        }
    }
    if link.config.symbols.unique_locals {
        plan.names = unique_names(link);
    }
    let names = &plan.names;
    (plan.locals, plan.globals) =
        (0..link.objects.len() + 1).into_par_iter().map(|owner| count_owner(link, names, owner)).unzip();
    for (object, part) in link.objects.iter().zip(&plan.locals) {
        if object.measure_of_names().take(part.string_size).is_err() {
            let finding = Malformed::overlap("names of its symbols").what;
            link.sink.report(
                Diagnostic::error(Code::MalformedInput, finding).at(Location::File(object.name.to_string())),
            );
            return SymtabPlan::default();
        }
    }
    place(&mut plan.locals, &mut next, &mut strings);
    plan.first_global = next;
    place(&mut plan.globals, &mut next, &mut strings);
    plan.count = next;
    plan.has_gnu_symbols = plan.locals.iter().chain(&plan.globals).any(|part| part.gnu);
    plan.string_size = strings;
    if strings > u64::from(u32::MAX) {
        link.sink.report(too_many_names(strings));
        return SymtabPlan::default();
    }
    if writes_relocations {
        plan.index_of = index_symbols(link, &plan);
    }
    plan
}

fn too_many_names(bytes: u64) -> Diagnostic {
    let message =
        format!("the names of symbols take {bytes} bytes; `.strtab` cannot have more than {}", u32::MAX);
    Diagnostic::error(Code::LayoutError, message)
        .help("--discard-all leaves out local symbols, --strip-all the whole table")
}

/// Different names for the local symbols of all objects. Names of files stay as they are.
fn unique_names<T: Target>(link: &Arranged<'_, T>) -> LocalNames {
    let is_file = |object: &ObjectFile<'_, T::E>, entry: &Entry<'_>| {
        object.symbols[entry.symbol as usize].kind() == elf::STT_FILE
    };
    let of_object = |object| locals(link, object).filter(move |entry| !is_file(object, entry));
    LocalNames::number(link.objects.iter().flat_map(of_object).map(|entry| (entry.id, entry.name)))
}

/// Counts the local and the global symbols of an owner.
fn count_owner<T: Target>(link: &Arranged<'_, T>, names: &LocalNames, owner: usize) -> (Part, Part) {
    let mut parts = (Part::default(), Part::default());
    for_each_entry(link, owner, |entry, local| {
        let part = if local { &mut parts.0 } else { &mut parts.1 };
        part.count += 1;
        part.string_size += name_size(&names.name(entry.id, entry.name));
        part.gnu |= is_gnu(link, owner, entry);
    });
    parts
}

fn is_gnu<T: Target>(link: &Inputs<'_, T>, owner: usize, entry: Entry<'_>) -> bool {
    let Some(object) = link.objects.get(owner) else { return false };
    let symbol = &object.symbols[entry.symbol as usize];
    symbol.kind() == elf::STT_GNU_IFUNC
        || (symbol.binding() == elf::STB_GNU_UNIQUE && link.config.symbols.gnu_unique)
}

/// Calls `visit` for each symbol of an owner, and tells it whether the symbol is local in the output. The
/// owner is a file, or the number behind the last one for symbols without an owner.
pub(super) fn for_each_entry<'a, T: Target>(
    link: &Arranged<'a, T>,
    owner: usize,
    mut visit: impl FnMut(Entry<'a>, bool),
) {
    match link.objects.get(owner) {
        Some(object) => {
            locals(link, object).for_each(|entry| visit(entry, true));
            globals(link, object).for_each(|entry| visit(entry, is_made_local(link, entry.id)));
        }
        None => {
            synthetic(link).for_each(|entry| visit(entry, true));
            unowned(link).for_each(|entry| visit(entry, is_made_local(link, entry.id)));
        }
    }
}

/// Symbols in the linker's own sections.
fn synthetic<'l, 'a, T: Target>(
    link: &'l Arranged<'a, T>,
) -> impl Iterator<Item = Entry<'a>> + use<'l, 'a, T> {
    let written = link.config.strip.discard != Discard::All;
    let symbols = link.local_symbols.iter().filter(move |_| written).enumerate();
    symbols.map(|(row, symbol)| Entry { id: SymbolId::NONE, name: symbol.name, symbol: row as u32 })
}

/// Whether no other module sees a global, so that it is a local symbol of the output.
fn is_made_local<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> bool {
    if link.config.is_relocatable() {
        return false;
    }
    let confined = matches!(link.definitions.visibility[id.index()], elf::STV_HIDDEN | elf::STV_INTERNAL)
        || link.versions.words[id.index()] == elf::VER_NDX_LOCAL;
    match link.definition(id) {
        Definition::Object { file, .. } => confined || link.objects[file.index()].hide_symbols,
        Definition::Linker(row) => confined || link.linker_symbols[row as usize].hidden,
        Definition::Shared { .. } | Definition::Undefined => false,
    }
}

/// Whether a section gets a section symbol. Relocations, groups and symbol tables get none, because no
/// relocation can refer to them.
fn has_section_symbol(sh_type: u32) -> bool {
    !matches!(
        sh_type,
        elf::SHT_RELA
            | elf::SHT_REL
            | elf::SHT_GROUP
            | elf::SHT_SYMTAB
            | elf::SHT_STRTAB
            | elf::SHT_SYMTAB_SHNDX
    )
}

fn name_size(name: &[u8]) -> u64 {
    if name.is_empty() { 0 } else { name.len() as u64 + 1 }
}

fn place(parts: &mut [Part], next: &mut u32, strings: &mut u64) {
    for part in parts {
        part.first = *next;
        part.string_start = *strings;
        *next += part.count;
        *strings += part.string_size;
    }
}

fn index_symbols<T: Target>(link: &Arranged<'_, T>, plan: &SymtabPlan) -> Vec<u32> {
    let mut index_of = vec![0; link.symbols.len()];
    for (owner, (locals, globals)) in plan.locals.iter().zip(&plan.globals).enumerate() {
        let mut next = (locals.first, globals.first);
        for_each_entry(link, owner, |entry, local| {
            let next = if local { &mut next.0 } else { &mut next.1 };
            if entry.id.is_some() {
                index_of[entry.id.index()] = *next;
            }
            *next += 1;
        });
    }
    index_of
}

/// A symbol that is written.
#[derive(Clone, Copy)]
pub(super) struct Entry<'n> {
    /// [`SymbolId::NONE`] for a symbol in a section that the linker makes.
    pub id: SymbolId,
    pub name: &'n [u8],
    /// The index in its object. If the symbol has no id, the row of [`Arranged::local_symbols`]. Unused for
    /// other symbols without an object.
    pub symbol: u32,
}

/// The local symbols of an object that the output has.
fn locals<'l, 'a, T: Target>(
    link: &'l Arranged<'a, T>,
    object: &'l ObjectFile<'a, T::E>,
) -> impl Iterator<Item = Entry<'a>> + use<'l, 'a, T> {
    let discard = link.config.strip.discard;
    let signatures = groups::local_signatures(link, object.id);
    let referenced = references::locals(link, object);
    let has_gaps = link.merges.is_partial();
    let symbols = &object.symbols[..object.first_global as usize];
    (0..).zip(symbols).skip(1).filter_map(move |(index, symbol)| {
        let kind = symbol.kind();
        if kind == elf::STT_SECTION {
            return None;
        }
        let name = string_at(object.symbol_names, symbol.st_name.get() as usize)?;
        if signatures.binary_search(&index).is_ok() {
            return Some(Entry { id: SymbolId(object.first_local + index), name, symbol: index });
        }
        let referenced = referenced.get(index as usize) == Some(&true);
        if name.is_empty() && !(referenced && link.config.is_relocatable()) {
            return None;
        }
        let section = match object.symbol_place(index as usize) {
            SymbolPlace::Section(section) => Some(section),
            _ => None,
        };
        if let Some(section) = section
            && link.config.is_relocatable()
            && is_merge(object, section)
            && is_written(link, object.section_id(section))
        {
            // The next link must know which piece a reference means. Only a symbol in that piece can tell: an
            // addend may lead behind the piece.
            return Some(Entry { id: SymbolId(object.first_local + index), name, symbol: index });
        }
        if has_gaps
            && let Some(section) = section
            && link.merges.leaves_out(object.section_id(section), symbol.st_value.get())
        {
            return None;
        }
        if referenced {
            return Some(Entry { id: SymbolId(object.first_local + index), name, symbol: index });
        }
        if discard == Discard::All && kind != elf::STT_FILE || !link.retains(name) {
            return None;
        }
        let temporary = name.starts_with(b".L");
        if temporary && discard == Discard::Locals {
            return None;
        }
        if let Some(section) = section {
            if !is_written(link, object.section_id(section)) {
                return None;
            }
            if temporary && discard == Discard::SectionMerge && is_merge(object, section) {
                return None;
            }
        }
        Some(Entry { id: SymbolId(object.first_local + index), name, symbol: index })
    })
}

fn is_merge<E: zerocopy::byteorder::ByteOrder>(object: &ObjectFile<'_, E>, section: u32) -> bool {
    object.headers[section as usize].sh_flags.get() & elf::SHF_MERGE != 0
}

/// Whether symbols of a section have a place in the output.
fn is_written<T: Target>(link: &Arranged<'_, T>, id: crate::ids::SectionId) -> bool {
    link.sections.get(id) & (SectionState::ALIVE | SectionState::NOT_CONTENT) == SectionState::ALIVE
}

/// The globals that this object defines.
fn globals<'l, 'a, T: Target>(
    link: &'l Arranged<'a, T>,
    object: &'l ObjectFile<'a, T::E>,
) -> impl Iterator<Item = Entry<'a>> + use<'l, 'a, T> {
    let has_gaps = link.merges.is_partial();
    // Most names are only referred to. What is known of a global is not beside what is known of the next.
    let mentions = object.globals.iter().zip(&object.usages).enumerate();
    let defined = mentions.filter(|(_, (_, usage))| !usage.is_reference());
    defined.filter_map(move |(offset, (&id, _))| {
        let symbol = object.first_global + offset as u32;
        let owned = Definition::Object { file: object.id, symbol };
        if link.definition(id) != owned || !link.keeps_name(id) {
            return None;
        }
        let is_left_out = match object.symbol_place(symbol as usize) {
            SymbolPlace::Section(section) => {
                let section = object.section_id(section);
                let value = || object.symbols[symbol as usize].st_value.get();
                !is_written(link, section) || has_gaps && link.merges.leaves_out(section, value())
            }
            SymbolPlace::Common => link.symbol_flags(id).contains(SymbolFlags::DISCARDED),
            SymbolPlace::Undefined | SymbolPlace::Absolute => false,
        };
        if is_left_out {
            return None;
        }
        // Later links and debuggers see `name@@VERSION`, which in this link is the definition of the plain
        // name.
        let name = if link.config.is_relocatable() || !object.versioned.is_empty() {
            object.symbol_name(symbol as usize)
        } else {
            link.globals.names[id.index()]
        };
        Some(Entry { id, name, symbol })
    })
}

/// Whether a reserved symbol has no place in the output. There are two cases: the symbol is `_DYNAMIC`,
/// nothing refers to it, and the script discards `.dynamic`; or it is `_GLOBAL_OFFSET_TABLE_`, only symbol
/// tables of objects name it, and the output has no GOT.
fn is_without_place<T: Target>(link: &Arranged<'_, T>, id: SymbolId, row: u32) -> bool {
    let LinkerSymbolOrigin::Reserved(reserved) = link.linker_symbols[row as usize].origin else {
        return false;
    };
    link.linker_values[row as usize].chunk.is_none()
        && match reserved {
            Reserved::Dynamic => !link.mentions(id).contains(MentionedBy::IN_OBJECT),
            Reserved::GlobalOffsetTable => !link.reloc_needs.needs.contains(Needs::GOT_BASE),
            _ => false,
        }
}

/// The globals that no object defines: those of the linker, those of libraries that objects mention, and some
/// undefined ones. An undefined one is there if a live section refers to it, if it is the signature of a
/// group, or if `-u` names it.
fn unowned<'l, 'a, T: Target>(link: &'l Arranged<'a, T>) -> impl Iterator<Item = Entry<'a>> + use<'l, 'a, T> {
    let signatures = groups::global_signatures(link, &link.output_groups);
    let mut wanted: Vec<SymbolId> =
        link.config.symbols.undefined.iter().filter_map(|name| link.globals.lookup(name)).collect();
    wanted.sort_unstable();
    let unreferenced = references::unreferenced(link);
    let is_referenced = |id| {
        link.config.is_relocatable()
            || link.mentions(id).contains(MentionedBy::REFERENCE)
            || !link.symbol_needs(id).is_empty()
    };
    link.globals.ids().filter_map(move |id| {
        let is_named = || link.is_name_used(id) || signatures.binary_search(&id).is_ok();
        let written = match link.definition(id) {
            Definition::Object { .. } => false,
            Definition::Linker(row) => !is_without_place(link, id, row),
            Definition::Shared { .. } => link.mentions(id).contains(MentionedBy::IN_OBJECT),
            Definition::Undefined => {
                link.mentions(id).contains(MentionedBy::IN_OBJECT)
                    && is_named()
                    && is_referenced(id)
                    && unreferenced.binary_search(&id).is_err()
                    || wanted.binary_search(&id).is_ok()
            }
        };
        (written && link.keeps_name(id)).then(|| Entry {
            id,
            name: link.globals.names[id.index()],
            symbol: 0,
        })
    })
}

/// The sizes of the tables in bytes: symbols, strings, extended indices (0 if they are not needed).
pub fn sizes<T: Target>(plan: &SymtabPlan, section_headers: usize) -> (u64, u64, u64) {
    if plan.count == 0 {
        return (0, 0, 0);
    }
    let count = u64::from(plan.count);
    let extended = if section_headers >= usize::from(elf::SHN_LORESERVE) { count * 4 } else { 0 };
    (count * size_of::<Sym<T::E>>() as u64, plan.string_size, extended)
}
