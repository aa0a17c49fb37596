//! `.dynsym`: the symbols that this output imports from other modules, and those that it exports.
//!
//! The null symbol comes first, then imports, then exports, sorted by their buckets in `.gnu.hash`. Otherwise
//! symbols are in the order in which the files mention them first; without `.gnu.hash`, all of them are.
//! Copied variables and functions with a canonical PLT entry count as exports, though a library defines them:
//! the dynamic linker has to find them here first.

use super::gnu_hash;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::cli::OutputMode;
use crate::elf::Sym;
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SectionId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::input::shared::VERSION_HIDDEN;
use crate::phase::{Inputs, Placed, Resolved, Scanned};
use crate::relocs::address;
use crate::symbols::MentionedBy;
use crate::symbols::{Definition, Needs, SymbolFlags};
use crate::tables::dynamic_tables::{DynamicSymbol, GnuHashShape};
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use parallel::{IntoParallel, ParallelSlice, ParallelSort};
use zerocopy::FromBytes;
use zerocopy::byteorder::{U16, U32, U64};

/// `.dynsym`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let section =
                || SyntheticSection::new(Kind::DynSym, b".dynsym", elf::SHT_DYNSYM, READ_ONLY, WORD);
            link.is_dynamic().then(|| section().entries(ENTRY)).into()
        }),
        size: Size::Numbered(|link| bytes((link.dynamic.symbols.len() as u64 + 1) * ENTRY)),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write(link, out)),
    }
}

/// Size of a symbol in bytes (gABI, "Symbol Table").
const ENTRY: u64 = 24;

/// The needs that make a library's symbol a definition here: other modules must find it in this output.
const FOUND_HERE: Needs = Needs::COPY.union(Needs::CANONICAL_PLT);

/// Whether this is `name@`, a base version beside a newer default. In hash tables it precedes the others of
/// its bucket, because the dynamic linker lets a reference without a version bind to the first of `name@` and
/// the oldest named version that it finds.
pub fn is_hidden_base<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> bool {
    link.versions.words[id.index()] == elf::VER_NDX_GLOBAL | VERSION_HIDDEN
}

/// The symbols in their order, without the null symbol, and the position of the first hashed one. Name
/// offsets are still 0.
pub fn select<'a, T: Target>(link: &Scanned<'a, T>) -> (Vec<DynamicSymbol<'a>>, usize, GnuHashShape) {
    let roles: Vec<(SymbolId, Role)> = (0..link.globals.len() as u32)
        .into_par_iter()
        .with_min_len(4096)
        .filter_map(|row| Some((SymbolId(row), role(link, SymbolId(row))?)))
        .collect();
    let symbol = |&(id, _): &(SymbolId, Role)| {
        let name = plain_name(link.globals.names[id.index()]);
        DynamicSymbol { id, name, name_offset: 0, gnu_hash: gnu_hash::hash(name) }
    };
    let is_definition = |row: &&(SymbolId, Role)| row.1 == Role::Definition;
    let shape = GnuHashShape::new(roles.par_iter().filter(is_definition).count());
    let mut symbols: Vec<(Option<u32>, DynamicSymbol<'a>)> = roles
        .par_iter()
        .map(|row| {
            let symbol = symbol(row);
            let hashed = link.config.dynamic.hash_style.gnu && is_definition(&row);
            (hashed.then(|| shape.bucket(symbol.gnu_hash)), symbol)
        })
        .collect();
    symbols.par_sort_by_key(|(bucket, symbol)| {
        let is_newer = bucket.is_none() || !is_hidden_base(link, symbol.id);
        (*bucket, is_newer, link.globals.order(symbol.id))
    });
    let first_hashed = symbols.partition_point(|(bucket, _)| bucket.is_none());
    (symbols.into_iter().map(|(_, symbol)| symbol).collect(), first_hashed, shape)
}

/// A name without its version.
pub fn plain_name(name: &[u8]) -> &[u8] {
    match memchr::memchr(b'@', name) {
        Some(at) if at != 0 => &name[..at],
        _ => name,
    }
}

/// The role of a global in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Another module has to define it.
    Reference,
    /// Other modules find it here, so the hash tables have it.
    Definition,
}

/// The role of a global; `None` if it is not in the table. Only this function decides which globals are in
/// the table: flags and needs say how a symbol is bound and what relocations ask for.
fn role<T: Target>(link: &Scanned<'_, T>, id: SymbolId) -> Option<Role> {
    let (flags, needs) = (link.symbol_flags(id), link.symbol_needs(id));
    let bound_elsewhere = SymbolFlags::EXPORTED | SymbolFlags::IMPORTED;
    if !flags.intersects(bound_elsewhere) && !needs.intersects(Needs::DYNSYM | Needs::COPY) {
        return None;
    }
    match link.definition(id) {
        Definition::Object { .. } | Definition::Linker(_) => {
            let exported = flags.contains(SymbolFlags::EXPORTED);
            (exported && representative(link, id) == id && is_in_output(link, id)).then_some(Role::Definition)
        }
        Definition::Shared { .. } | Definition::Undefined => {
            let by_object = MentionedBy::IN_OBJECT | MentionedBy::REFERENCE;
            let referenced = link.mentions(id).contains(by_object) && link.is_name_used(id);
            // Without libraries, no symbol can come from elsewhere, even if a reference names it that was
            // relaxed away.
            let elsewhere = link.config.mode == OutputMode::Shared || !link.shared.is_empty();
            let imported = flags.contains(SymbolFlags::IMPORTED) && elsewhere;
            let wanted = !needs.is_empty() || imported && referenced;
            let role = if needs.intersects(FOUND_HERE) { Role::Definition } else { Role::Reference };
            (wanted && representative(link, id) == id).then_some(role)
        }
    }
}

/// The global whose row this one shares. If `name@VERSION` and the plain name have the same definition, it is
/// the global of the plain name.
pub fn representative<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> SymbolId {
    let name = link.globals.names[id.index()];
    let plain = plain_name(name);
    if plain.len() == name.len() {
        return id;
    }
    let definition = link.definition(id);
    match link.globals.lookup(plain) {
        Some(other) if definition != Definition::Undefined && link.definition(other) == definition => other,
        _ => id,
    }
}

/// Whether a definition of this output is absolute or lies in a section that is laid out.
fn is_in_output<T: Target>(link: &Scanned<'_, T>, id: SymbolId) -> bool {
    match link.symbol_section(id) {
        Some((section, offset)) => {
            link.sections.is_alive(section) && !link.merges.leaves_out(section, offset)
        }
        None => true,
    }
}

/// The fields of an entry other than its name.
struct Entry {
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Entry {
    fn undefined(info: u8, other: u8, value: u64) -> Self {
        Entry { info, other, section: elf::SHN_UNDEF, value, size: 0 }
    }
}

/// Writes the table.
fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let Ok(rows) = <[Sym<T::E>]>::mut_from_bytes(out) else { return };
    let Some((_, rows)) = rows.split_first_mut() else { return };
    rows.par_iter_mut().zip(&link.dynamic.symbols).with_min_len(512).for_each(|(row, symbol)| {
        let entry = entry(link, symbol.id);
        *row = Sym {
            st_name: U32::new(symbol.name_offset),
            st_info: entry.info,
            st_other: entry.other,
            st_shndx: U16::new(entry.section),
            st_value: U64::new(entry.value),
            st_size: U64::new(entry.size),
        };
    });
}

fn entry<T: Target>(link: &Placed<'_, T>, id: SymbolId) -> Entry {
    let mut entry = plain_entry(link, id);
    if let Some((bit, _)) = T::VARIANT_CALLS
        && link.variants.binary_search(&id).is_ok()
    {
        entry.other |= bit;
    }
    entry
}

fn plain_entry<T: Target>(link: &Placed<'_, T>, id: SymbolId) -> Entry {
    let visibility = link.definitions.visibility[id.index()];
    let needs = link.symbol_needs(id);
    let canonical = address::is_plt_entry(link, id);
    let value = if canonical { address::plt(link, id) } else { link.values[id.index()] };
    // The table entry of a function that this output defines and whose address is its PLT entry.
    let plt_entry = |info: u8| {
        let chunk = canonical.then(|| link.layout.chunk_at(value)).flatten()?;
        let (info, section) = (defined_info(link, info, canonical), chunk_index(chunk));
        Some(Entry { info, other: visibility, section, value, size: 0 })
    };
    match link.definition(id) {
        Definition::Object { file, symbol } => {
            let object = &link.objects[file.index()];
            let source = &object.symbols[symbol as usize];
            if let Some(entry) = plt_entry(source.st_info) {
                return entry;
            }
            let (section, value) = match object.symbol_place(symbol as usize) {
                SymbolPlace::Undefined | SymbolPlace::Absolute => (elf::SHN_ABS, value),
                SymbolPlace::Section(section) => {
                    in_section(link, object.section_id(section), source.kind(), value)
                }
                SymbolPlace::Common => match link.common_place(id) {
                    Some(common) => in_section(link, common.section, source.kind(), value),
                    None => (elf::SHN_ABS, value),
                },
            };
            Entry {
                info: defined_info(link, source.st_info, canonical),
                other: source.st_other & !3 | visibility,
                section,
                value,
                size: link.common_block(id).map_or(source.st_size.get(), |block| block.size),
            }
        }
        Definition::Linker(row) => {
            let symbol = &link.linker_symbols[row as usize];
            let place = link.linker_values[row as usize];
            let section = place.chunk.map_or(elf::SHN_ABS, chunk_index);
            let info = elf::STB_GLOBAL << 4 | symbol.kind;
            if let Some(entry) = plt_entry(info) {
                return entry;
            }
            let value = from_tls_start(link, symbol.kind, place.value);
            Entry { info, other: visibility, section, value, size: 0 }
        }
        Definition::Shared { library, symbol } => {
            let source = &link.shared[library.index()].symbols[symbol as usize];
            let kind = if source.kind() == elf::STT_GNU_IFUNC { elf::STT_FUNC } else { source.kind() };
            if needs.contains(Needs::COPY)
                && let Some(chunk) = link.layout.chunk_at(value)
            {
                let info = source.binding() << 4 | kind;
                let section = chunk_index(chunk);
                return Entry { info, other: 0, section, value, size: source.st_size.get() };
            }
            // By the psABIs ("Function Addresses"), such a symbol is undefined, but has a value: the
            // function's address in this program.
            let value = if canonical { value } else { 0 };
            Entry::undefined(reference_binding(link, id) << 4 | kind, 0, value)
        }
        Definition::Undefined => {
            // Linkers that read this output compare the type with that of the definition.
            Entry::undefined(reference_binding(link, id) << 4 | link.mentions(id).kind(), visibility, 0)
        }
    }
}

/// The binding and type of a definition in this output. Its PLT entry may be `canonical`.
fn defined_info<T: Target>(link: &Inputs<'_, T>, info: u8, canonical: bool) -> u8 {
    let (mut binding, mut kind) = (info >> 4, info & 0xf);
    if binding == elf::STB_GNU_UNIQUE && !link.config.symbols.gnu_unique {
        binding = elf::STB_GLOBAL;
    }
    if kind == elf::STT_COMMON {
        kind = elf::STT_OBJECT;
    }
    // The value is the address of the PLT entry, which is not a resolver.
    if kind == elf::STT_GNU_IFUNC && canonical {
        kind = elf::STT_FUNC;
    }
    binding << 4 | kind
}

fn reference_binding<T: Target>(link: &Resolved<'_, T>, id: SymbolId) -> u8 {
    if link.mentions(id).contains(MentionedBy::STRONG_REFERENCE) { elf::STB_GLOBAL } else { elf::STB_WEAK }
}

fn in_section<T: Target>(link: &Placed<'_, T>, section: SectionId, kind: u8, value: u64) -> (u16, u64) {
    let Some(chunk) = link.output_chunk(section) else { return (elf::SHN_ABS, value) };
    (chunk_index(chunk), from_tls_start(link, kind, value))
}

/// The value of a symbol in a file that is loaded. By the gABI, TLS symbols count from the start of the TLS
/// segment.
fn from_tls_start<T: Target>(link: &Placed<'_, T>, kind: u8, value: u64) -> u64 {
    let start = if kind == elf::STT_TLS { link.addresses.tls_start } else { 0 };
    value.wrapping_sub(start)
}

/// The section index of an output section. Dynamic symbols have no table of extended indices, and dynamic
/// linkers only ask whether the index is `SHN_UNDEF` or `SHN_ABS`. So if an index does not fit, or if the
/// file has no section headers, the nearest ordinary index takes its place.
fn chunk_index(chunk: ChunkId) -> u16 {
    chunk.header_index().clamp(1, u32::from(elf::SHN_LORESERVE) - 1) as u16
}
