//! `.dynamic`: the table by which the dynamic linker finds all other tables (gABI, "Dynamic Section"), in GNU
//! ld's order.

use super::android;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::arch::target::{PltTags, SignedRelocations};
use crate::cli::{MemoryTagMode, OutputMode, Symbolic};
use crate::elf::Dyn;
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::phase::{Inputs, Live, Numbered, Placed};
use crate::symbols::{Definition, Needs};
use crate::tables::dynamic_tables::{DynamicEntry, DynamicTables, EntryValue as Value};
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, SyntheticSections, WORD, WRITABLE};
use parallel::ParallelSlice;
use zerocopy::FromBytes;
use zerocopy::byteorder::U64;

/// Size of an entry in bytes.
pub const ENTRY: u64 = 16;

const DT_RELRSZ: i64 = 35;
const DT_RELR: i64 = 36;
const DT_RELRENT: i64 = 37;
const DT_ANDROID_RELA: i64 = 0x6000_0011;
const DT_ANDROID_RELASZ: i64 = 0x6000_0012;
const DT_ANDROID_RELR: i64 = 0x6fff_e000;
const DT_ANDROID_RELRSZ: i64 = 0x6fff_e001;
const DT_ANDROID_RELRENT: i64 = 0x6fff_e003;
/// More flags of GNU systems (GNU's ABI extensions, "`DT_GNU_FLAGS_1`").
const DT_GNU_FLAGS_1: i64 = 0x6fff_fdf4;
const DF_GNU_1_UNIQUE: u64 = 1;

struct List<'l, 'a, T: Target> {
    link: &'l Numbered<'a, T>,
    sizes: &'l SyntheticSections<'a>,
    entries: Vec<DynamicEntry>,
}

impl<T: Target> List<'_, '_, T> {
    fn push(&mut self, tag: i64, value: Value) {
        self.entries.push(DynamicEntry { tag, value });
    }

    fn number(&mut self, tag: i64, number: impl Into<u64>) {
        self.push(tag, Value::Number(number.into()));
    }

    /// Whether a section of the linker has contents.
    fn has(&self, kind: Kind) -> bool {
        self.sizes.find(kind).is_some_and(|row| self.sizes.section(row).size > 0)
    }
}

/// `.dynamic`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let flags = if link.config.dynamic.read_only_dynamic { READ_ONLY } else { WRITABLE };
            let section = || SyntheticSection::new(Kind::Dynamic, b".dynamic", elf::SHT_DYNAMIC, flags, WORD);
            link.is_dynamic().then(|| section().entries(ENTRY)).into()
        }),
        size: Size::Numbered(|link| {
            let spare = 1 + u64::from(link.config.dynamic.spare_tags);
            bytes((link.dynamic.entries.len() as u64 + spare) * ENTRY)
        }),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write(link, out)),
    }
}

/// All entries except the null ones. `sizes` tells which tables have contents. Strings are added to `tables`.
pub fn entries<'a, T: Target>(
    link: &Numbered<'a, T>,
    sizes: &SyntheticSections<'a>,
    relative_count: u64,
    tables: &mut DynamicTables<'a>,
) -> Vec<DynamicEntry> {
    let mut list = List { link, sizes, entries: Vec::new() };
    names(&mut list, tables);
    functions(&mut list);
    symbol_tables(&mut list);
    relocations(&mut list);
    flags(&mut list);
    versions(&mut list, tables);
    // This entry comes last, as in GNU ld.
    if relative_count != 0 {
        list.number(elf::DT_RELACOUNT, relative_count);
    }
    list.entries
}

/// Adds needed libraries, the output's own name, and search paths.
fn names<'a, T: Target>(list: &mut List<'_, 'a, T>, tables: &mut DynamicTables<'a>) {
    let link = list.link;
    let needed: Vec<_> = link.shared.iter().filter(|library| tables.needs(library.id)).collect();
    for library in &needed {
        list.number(elf::DT_NEEDED, tables.strings.add(library.soname));
    }
    let options = &link.config.dynamic;
    let single = options.soname.iter().map(|name| (elf::DT_SONAME, name));
    let auxiliary = options.auxiliary.iter().map(|name| (elf::DT_AUXILIARY, name));
    let filter = options.filter.iter().map(|name| (elf::DT_FILTER, name));
    for (tag, name) in single.chain(filter).chain(auxiliary) {
        list.number(tag, tables.strings.add(name));
    }
    let path_tag = if options.new_dtags { elf::DT_RUNPATH } else { elf::DT_RPATH };
    let mut depaudit: Vec<&[u8]> = options.depaudit.iter().map(Vec::as_slice).collect();
    for name in needed.iter().flat_map(|library| &library.audit) {
        if !depaudit.contains(name) {
            depaudit.push(name);
        }
    }
    let slices = |parts: &'a [Vec<u8>]| parts.iter().map(Vec::as_slice).collect();
    let joined: [(i64, Vec<&[u8]>); 3] = [
        (elf::DT_AUDIT, slices(&options.audit)),
        (elf::DT_DEPAUDIT, depaudit),
        (path_tag, slices(&options.rpath)),
    ];
    for (tag, parts) in joined {
        if !parts.is_empty() {
            list.number(tag, tables.strings.add(link.store.keep(parts.join(&b':'))));
        }
    }
}

/// Adds initialisers and finalisers, and arrays of them.
fn functions<T: Target>(list: &mut List<'_, '_, T>) {
    let link = list.link;
    for (tag, name) in [(elf::DT_INIT, &link.config.symbols.init), (elf::DT_FINI, &link.config.symbols.fini)]
    {
        if let Some(id) = link.globals.lookup(name)
            && matches!(link.definition(id), Definition::Object { .. } | Definition::Linker(_))
            && link.symbol_section(id).is_none_or(|(section, _)| link.sections.is_alive(section))
        {
            list.push(tag, Value::Symbol(id));
        }
    }
    let arrays = [
        (elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ, ".preinit_array", elf::SHT_PREINIT_ARRAY, ""),
        (elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ, ".init_array", elf::SHT_INIT_ARRAY, ".ctors"),
        (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ, ".fini_array", elf::SHT_FINI_ARRAY, ".dtors"),
    ];
    for (address, size, name, sh_type, old_name) in arrays {
        if sh_type == elf::SHT_PREINIT_ARRAY && link.config.is_shared() {
            continue;
        }
        if may_have_array(link, name, sh_type, old_name) {
            list.push(address, Value::OutputAddress(name));
            list.push(size, Value::OutputSize(name));
        }
    }
}

/// Whether some section may go into an array of functions. Only the layout knows for sure. If it makes no
/// such array, its entries are left out, and null entries take their place.
fn may_have_array<T: Target>(link: &Live<'_, T>, name: &str, sh_type: u32, old_name: &str) -> bool {
    link.objects.par_iter().any(|object| {
        object.special.iter().map(|&index| index as usize).any(|index| {
            let kind = object.headers[index].sh_type.get();
            let by_name = || {
                let begins = |name: &str| object.section_name_begins(index, name.as_bytes());
                begins(name) || !old_name.is_empty() && begins(old_name)
            };
            (kind == sh_type || kind == elf::SHT_PROGBITS && by_name())
                && link.sections.is_alive(object.section_id(index as u32))
        })
    })
}

fn symbol_tables<T: Target>(list: &mut List<'_, '_, T>) {
    for (tag, kind) in [(elf::DT_HASH, Kind::Hash), (elf::DT_GNU_HASH, Kind::GnuHash)] {
        if list.has(kind) {
            list.push(tag, Value::AddressOf(kind));
        }
    }
    list.push(elf::DT_STRTAB, Value::AddressOf(Kind::DynStr));
    list.push(elf::DT_SYMTAB, Value::AddressOf(Kind::DynSym));
    list.push(elf::DT_STRSZ, Value::SizeOf(Kind::DynStr));
    list.number(elf::DT_SYMENT, 24u64);
    // The dynamic linker leaves an address for debuggers here, if it can write to the section.
    if !list.link.config.is_shared() && !list.link.config.dynamic.read_only_dynamic {
        list.number(elf::DT_DEBUG, 0u64);
    }
}

fn relocations<T: Target>(list: &mut List<'_, '_, T>) {
    if list.has(Kind::GotPlt) || list.has(Kind::RelaPlt) {
        list.push(elf::DT_PLTGOT, Value::ReservedWords);
    }
    if list.has(Kind::RelaPlt) {
        list.push(elf::DT_PLTRELSZ, Value::SizeOf(Kind::RelaPlt));
        list.number(elf::DT_PLTREL, elf::DT_RELA as u64);
        list.push(elf::DT_JMPREL, Value::AddressOf(Kind::RelaPlt));
    }
    // Signed pointers may go from one table to the other when addresses are known. The entries of a table
    // that stays empty are left out.
    if list.has(Kind::RelaDyn) || list.has(Kind::SignedRelrDyn) {
        let (address, size) = if android::is_wanted(list.link) {
            (DT_ANDROID_RELA, DT_ANDROID_RELASZ)
        } else {
            (elf::DT_RELA, elf::DT_RELASZ)
        };
        list.push(address, Value::AddressOf(Kind::RelaDyn));
        list.push(size, Value::SizeOf(Kind::RelaDyn));
        list.push(elf::DT_RELAENT, Value::EntryOf(Kind::RelaDyn, 24));
    }
    if list.has(Kind::RelrDyn) {
        let (address, size, entry) = if list.link.config.relocations.android_relr_tags {
            (DT_ANDROID_RELR, DT_ANDROID_RELRSZ, DT_ANDROID_RELRENT)
        } else {
            (DT_RELR, DT_RELRSZ, DT_RELRENT)
        };
        list.push(address, Value::AddressOf(Kind::RelrDyn));
        list.push(size, Value::SizeOf(Kind::RelrDyn));
        list.number(entry, 8u64);
    }
    if let Some(SignedRelocations { packed_tags: [address, size, entry], .. }) = T::SIGNED
        && list.has(Kind::SignedRelrDyn)
    {
        list.push(address, Value::AddressOf(Kind::SignedRelrDyn));
        list.push(size, Value::SizeOf(Kind::SignedRelrDyn));
        list.number(entry, 8u64);
    }
    let shape = &list.link.plt_shape;
    if let Some(PltTags { numbers: [address, size, entry], .. }) = T::PLT_TAGS
        && list.link.config.dynamic.mark_plt
        && list.has(Kind::Plt)
    {
        let (called, length) =
            if shape.split { (Kind::PltSec, shape.direct_entry) } else { (Kind::Plt, shape.entry) };
        list.push(address, Value::AddressOf(called));
        list.push(size, Value::SizeOf(called));
        list.number(entry, length);
    }
    if list.has(Kind::Plt) {
        T::plt_tags(shape).iter().for_each(|&tag| list.number(tag, 0u64));
    }
    if let Some((_, tag)) = T::VARIANT_CALLS
        && calls_variants(list.link)
    {
        list.number(tag, 0u64);
    }
    let tags = list.link.config.notes.memory_tags;
    if let (Some(numbers), Some(wanted)) = (T::MEMORY_TAGS, tags.mode) {
        list.number(numbers.mode, u64::from(wanted == MemoryTagMode::Asynchronous));
        list.number(numbers.heap, u64::from(tags.heap));
        list.number(numbers.stack, u64::from(tags.stack));
        if list.has(Kind::TaggedGlobals) {
            let [address, size] = numbers.globals;
            list.push(address, Value::AddressOf(Kind::TaggedGlobals));
            list.push(size, Value::SizeOf(Kind::TaggedGlobals));
        }
    }
}

/// Whether any call of a function with another calling convention goes through `.plt`.
fn calls_variants<T: Target>(link: &Numbered<'_, T>) -> bool {
    let is_called = |id: &SymbolId| link.row(*id).is_some_and(|row| row.plt.is_some());
    link.variants.iter().any(is_called)
}

fn flags<T: Target>(list: &mut List<'_, '_, T>) {
    let link = list.link;
    let options = &link.config.dynamic;
    // This link binds references itself, and the flag only tells the dynamic linker to do the same. If there
    // is a dynamic list, the flag would also bind references that the list leaves to other modules.
    let symbolic = link.config.is_shared()
        && link.config.symbols.symbolic == Symbolic::All
        && link.lists.dynamic.is_none()
        && !link.lists.dynamic_is_exclusive;
    let bits = [
        (options.origin, elf::DF_ORIGIN),
        (symbolic, elf::DF_SYMBOLIC),
        (link.reloc_needs.text_relocations, elf::DF_TEXTREL),
        (options.bind_now, elf::DF_BIND_NOW),
        (link.reloc_needs.needs.contains(Needs::STATIC_TLS), elf::DF_STATIC_TLS),
    ];
    // Dynamic linkers that are older than DT_FLAGS read these tags.
    if symbolic {
        list.number(elf::DT_SYMBOLIC, 0u64);
    }
    if link.reloc_needs.text_relocations {
        list.number(elf::DT_TEXTREL, 0u64);
    }
    if options.bind_now && !options.new_dtags {
        list.number(elf::DT_BIND_NOW, 0u64);
    }
    let union = |bits: &[(bool, u32)]| bits.iter().filter(|bit| bit.0).fold(0, |all, bit| all | bit.1);
    let (flags, flags_1) = (union(&bits), union(&flags_1_bits(link)));
    // Each of the other flags has an old tag of its own.
    let only_in_flags = flags & elf::DF_STATIC_TLS != 0;
    if flags != 0 && (options.new_dtags || only_in_flags) {
        list.number(elf::DT_FLAGS, flags);
    }
    if flags_1 != 0 {
        list.number(elf::DT_FLAGS_1, flags_1);
    }
    if options.unique {
        list.number(DT_GNU_FLAGS_1, DF_GNU_1_UNIQUE);
    }
}

fn flags_1_bits<T: Target>(link: &Inputs<'_, T>) -> [(bool, u32); 13] {
    let options = &link.config.dynamic;
    let shared = link.config.is_shared();
    [
        (options.bind_now, elf::DF_1_NOW),
        (options.global, elf::DF_1_GLOBAL),
        (options.group, elf::DF_1_GROUP),
        // These three say how a program may load and unload a library.
        (options.nodelete && shared, elf::DF_1_NODELETE),
        (options.initfirst && shared, elf::DF_1_INITFIRST),
        (options.nodlopen && shared, elf::DF_1_NOOPEN),
        (options.loadfltr, elf::DF_1_LOADFLTR),
        (options.origin, elf::DF_1_ORIGIN),
        (options.interpose, elf::DF_1_INTERPOSE),
        (options.nodefaultlib, elf::DF_1_NODEFLIB),
        (options.nodump, elf::DF_1_NODUMP),
        (options.globalaudit, elf::DF_1_GLOBAUDIT),
        (link.config.mode == OutputMode::Executable { pie: true }, elf::DF_1_PIE),
    ]
}

fn versions<T: Target>(list: &mut List<'_, '_, T>, tables: &DynamicTables<'_>) {
    if !tables.defined.is_empty() {
        list.push(elf::DT_VERDEF, Value::AddressOf(Kind::VerDef));
        list.number(elf::DT_VERDEFNUM, tables.defined.len() as u64);
    }
    if !tables.needed.is_empty() {
        list.push(elf::DT_VERNEED, Value::AddressOf(Kind::VerNeed));
        list.number(elf::DT_VERNEEDNUM, tables.needed.len() as u64);
    }
    if list.has(Kind::VerSym) {
        list.push(elf::DT_VERSYM, Value::AddressOf(Kind::VerSym));
    }
}

/// Writes the section. Entries for sections that the layout dropped are left out.
fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let Ok(out) = <[Dyn<T::E>]>::mut_from_bytes(out) else { return };
    let known =
        link.dynamic.entries.iter().filter_map(|entry| Some((entry.tag, evaluate(link, entry.value)?)));
    let null = std::iter::repeat((elf::DT_NULL, 0));
    for (place, (tag, value)) in out.iter_mut().zip(known.chain(null)) {
        *place = Dyn { d_tag: U64::new(tag as u64), d_val: U64::new(value) };
    }
}

/// The number for an entry; `None` if its section is not in the output.
fn evaluate<T: Target>(link: &Placed<'_, T>, value: Value) -> Option<u64> {
    let output = |name: &str| link.layout.find(name.as_bytes()).map(|id| &link.layout.chunks[id.index()]);
    Some(match value {
        Value::Number(number) => number,
        Value::AddressOf(kind) => {
            link.chunk_of(kind)?;
            link.section_address(link.synthetic_id(link.synthetics.find(kind)?))
        }
        Value::SizeOf(kind) => {
            link.chunk_of(kind)?;
            link.synthetics.section(link.synthetics.find(kind)?).size
        }
        Value::EntryOf(kind, size) => link.chunk_of(kind).map(|_| size)?,
        Value::OutputAddress(name) => output(name).filter(|chunk| chunk.size > 0)?.address,
        Value::OutputSize(name) => output(name).filter(|chunk| chunk.size > 0)?.size,
        Value::ReservedWords => link.addresses.reserved,
        Value::Symbol(id) => link.values[id.index()],
    })
}
