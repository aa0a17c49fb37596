//! Writes `.symtab`, `.strtab` and `.symtab_shndx` of the output.
//!
//! The null symbol comes first, then section symbols (`-r`, `--emit-relocs`), then local symbols by owner,
//! then globals by owner. [`symtab_entries`](super::symtab_entries) says which symbols each owner has.

use crate::arch::Target;
use crate::elf::Sym;
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::Placed;
use crate::region::Region;
use crate::relocs::address;
use crate::symbols::{Definition, MentionedBy, Needs, SymbolFlags};
use crate::synth::references;
use crate::synth::symtab_entries::{Entry, for_each_entry};
use crate::tables::symtab_plan::Part;
use hashbrown::HashMap;
use parallel::IntoParallel;
use zerocopy::FromBytes;
use zerocopy::byteorder::{U16, U32, U64};

/// The places for `.symtab`, `.strtab` and, if it is there, `.symtab_shndx`, or for the same part of each.
#[derive(Default)]
pub struct Tables<'f> {
    /// Entries.
    pub symbols: Region<'f>,
    /// Their names.
    pub strings: Region<'f>,
    /// Their section numbers, where 16 bits are too few for them.
    pub extended: Region<'f>,
}

/// The sizes of a symbol and of an extended section number in bytes (gABI, "Symbol Table").
const SYMBOL: u64 = 24;
const NUMBER: u64 = 4;

impl<'f> Tables<'f> {
    /// Splits off the places of `symbols` symbols and of `bytes` bytes of names.
    fn take_first(&mut self, symbols: u64, bytes: u64) -> Tables<'f> {
        Tables {
            symbols: self.symbols.take_first(symbols * SYMBOL),
            strings: self.strings.take_first(bytes),
            extended: self.extended.take_first(symbols * NUMBER),
        }
    }

    /// Splits off the places of the symbols of `parts`.
    fn take_parts(&mut self, parts: &[Part]) -> Tables<'f> {
        let symbols = parts.iter().map(|part| u64::from(part.count)).sum();
        self.take_first(symbols, parts.iter().map(|part| part.string_size).sum())
    }

    /// Lets `fill` write into all of the tables.
    fn fill<E: zerocopy::byteorder::ByteOrder>(self, fill: impl FnOnce(Cutter<'_, E>)) {
        self.symbols.fill_all(|symbols, _| {
            self.strings.fill_all(|strings, _| {
                self.extended.fill_all(|extended, _| {
                    let symbols = <[Sym<E>]>::mut_from_bytes(symbols).unwrap_or_default();
                    let extended = <[U32<E>]>::mut_from_bytes(extended).unwrap_or_default();
                    fill(Cutter { symbols, strings, extended });
                })
            })
        });
    }
}

/// One job writes the symbols of so many owners.
const BATCH: usize = 16;

/// Writes `.symtab`, `.strtab` and, if it is there, `.symtab_shndx`.
pub fn write<T: Target>(link: &Placed<'_, T>, mut tables: Tables<'_>) {
    let plan = &link.symtab;
    if tables.symbols.is_empty() {
        // Binary images and files without section headers have no symbols.
        return;
    }
    // The null symbol, and the empty name.
    tables.take_first(1, 1);
    tables.take_first(plan.section_symbols.len() as u64, 0).fill::<T::E>(|tables| {
        let mut extended = tables.extended.iter_mut();
        for (&chunk, symbol) in plan.section_symbols.iter().zip(tables.symbols) {
            let place = Placement::of_chunk(link, chunk, link.layout.chunks[chunk.index()].address);
            let entry = Fields { name: 0, info: elf::STT_SECTION, other: 0, size: 0, place };
            entry.store::<T>(symbol, extended.next());
        }
    });
    let locals: Vec<_> = plan.locals.chunks(BATCH).map(|parts| (parts, tables.take_parts(parts))).collect();
    let globals = plan.globals.chunks(BATCH).map(|parts| (parts, tables.take_parts(parts)));
    let jobs: Vec<_> = locals.into_iter().zip(globals).enumerate().collect();
    let kinds = references::kinds(link);
    jobs.into_par_iter().for_each(|(batch, ((local_parts, locals), (global_parts, globals)))| {
        locals.fill::<T::E>(|mut locals| {
            globals.fill::<T::E>(|mut globals| {
                for (index, (local, global)) in local_parts.iter().zip(global_parts).enumerate() {
                    let writers = (locals.cut(link, local), globals.cut(link, global));
                    write_owner(link, batch * BATCH + index, writers, &kinds);
                }
            });
        });
    });
}

/// Writes the local symbols and the global symbols of an owner.
fn write_owner<'a, T: Target>(
    link: &Placed<'a, T>,
    owner: usize,
    (mut locals, mut globals): (Writer<'_, '_, 'a, T>, Writer<'_, '_, 'a, T>),
    kinds: &HashMap<SymbolId, u8>,
) {
    let object = link.objects.get(owner);
    for_each_entry(link, owner, |entry, local| {
        let writer = if local { &mut locals } else { &mut globals };
        match object {
            _ if !entry.id.is_some() => writer.synthetic(entry),
            Some(object) if !link.globals.contains(entry.id) => writer.local(object, entry),
            _ => writer.global(entry, local, kinds.get(&entry.id).copied().unwrap_or(elf::STT_NOTYPE)),
        }
    });
}

/// Slices of the tables. Each owner gets its part, in order.
struct Cutter<'w, E: zerocopy::byteorder::ByteOrder> {
    symbols: &'w mut [Sym<E>],
    strings: &'w mut [u8],
    extended: &'w mut [U32<E>],
}

impl<'w, E: zerocopy::byteorder::ByteOrder> Cutter<'w, E> {
    fn cut<'l, 'a, T: Target<E = E>>(
        &mut self,
        link: &'l Placed<'a, T>,
        part: &Part,
    ) -> Writer<'l, 'w, 'a, T> {
        let count = part.count as usize;
        let symbols = self.symbols.split_off_mut(..count).unwrap_or_default();
        let strings = self.strings.split_off_mut(..part.string_size as usize).unwrap_or_default();
        let extended = self.extended.split_off_mut(..count).unwrap_or_default();
        Writer { link, symbols, strings, extended, position: 0, used: 0, base: part.string_start }
    }
}

/// Section index and value of a symbol.
#[derive(Clone, Copy)]
struct Placement {
    section: u32,
    special: Option<u16>,
    value: u64,
}

impl Placement {
    fn special(section: u16, value: u64) -> Self {
        Placement { section: 0, special: Some(section), value }
    }

    /// A symbol in a section of a separate debug file has no section of the output.
    fn of_chunk<T: Target>(link: &Placed<'_, T>, chunk: ChunkId, address: u64) -> Self {
        if chunk.index() >= link.layout.own_chunks() {
            return Placement::special(elf::SHN_ABS, address);
        }
        let start = if link.config.is_relocatable() { link.layout.chunks[chunk.index()].address } else { 0 };
        Placement { section: chunk.header_index(), special: None, value: address.wrapping_sub(start) }
    }
}

struct Fields {
    name: u32,
    info: u8,
    other: u8,
    size: u64,
    place: Placement,
}

impl Fields {
    fn store<T: Target>(&self, symbol: &mut Sym<T::E>, extended: Option<&mut U32<T::E>>) {
        let (index, word) = match self.place.special {
            Some(special) => (special, 0),
            None if self.place.section >= u32::from(elf::SHN_LORESERVE) => {
                (elf::SHN_XINDEX, self.place.section)
            }
            None => (self.place.section as u16, 0),
        };
        *symbol = Sym {
            st_name: U32::new(self.name),
            st_info: self.info,
            st_other: self.other,
            st_shndx: U16::new(index),
            st_value: U64::new(self.place.value),
            st_size: U64::new(self.size),
        };
        if let Some(extended) = extended {
            extended.set(word);
        }
    }
}

struct Writer<'l, 'w, 'a, T: Target> {
    link: &'l Placed<'a, T>,
    symbols: &'w mut [Sym<T::E>],
    strings: &'w mut [u8],
    extended: &'w mut [U32<T::E>],
    position: usize,
    used: usize,
    base: u64,
}

impl<T: Target> Writer<'_, '_, '_, T> {
    fn name(&mut self, name: &[u8]) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let start = self.used;
        let end = start + name.len();
        self.strings[start..end].copy_from_slice(name);
        self.strings[end] = 0;
        self.used = end + 1;
        (self.base + start as u64) as u32
    }

    fn push(&mut self, name: &[u8], info: u8, other: u8, size: u64, place: Placement) {
        let name = self.name(name);
        let fields = Fields { name, info, other, size, place };
        fields.store::<T>(&mut self.symbols[self.position], self.extended.get_mut(self.position));
        self.position += 1;
    }

    fn local(&mut self, object: &ObjectFile<'_, T::E>, entry: Entry<'_>) {
        let symbol = &object.symbols[entry.symbol as usize];
        let place = self.placement(object, entry);
        let name = self.link.symtab.names.name(entry.id, entry.name);
        self.push(&name, symbol.st_info, symbol.st_other, symbol.st_size.get(), place);
    }

    fn synthetic(&mut self, entry: Entry<'_>) {
        let symbol = self.link.local_symbols[entry.symbol as usize];
        let chunk = self.link.layout.chunk_with(symbol.section);
        let address = self.link.section_address(symbol.section).wrapping_add(symbol.offset);
        let place = match chunk {
            Some(chunk) => Placement::of_chunk(self.link, chunk, address),
            None => Placement::special(elf::SHN_ABS, address),
        };
        self.push(entry.name, symbol.kind, 0, symbol.size, place);
    }

    fn placement(&self, object: &ObjectFile<'_, T::E>, entry: Entry<'_>) -> Placement {
        let symbol = &object.symbols[entry.symbol as usize];
        match object.symbol_place(entry.symbol as usize) {
            SymbolPlace::Undefined => Placement::special(elf::SHN_UNDEF, 0),
            SymbolPlace::Absolute => Placement::special(elf::SHN_ABS, symbol.st_value.get()),
            SymbolPlace::Common => match self.link.common_place(entry.id) {
                Some(common) => self.in_section(common.section, symbol.kind(), entry.id),
                // Under `-r`, the block stays a common block. Its size and alignment are enough for all its
                // declarations.
                None => {
                    let block = self.link.common_block(entry.id);
                    let align = block.map_or(symbol.st_value.get(), |block| block.align);
                    Placement::special(symbol.st_shndx.get(), align)
                }
            },
            SymbolPlace::Section(section) => {
                self.in_section(object.section_id(section), symbol.kind(), entry.id)
            }
        }
    }

    fn in_section(&self, section: crate::ids::SectionId, kind: u8, id: SymbolId) -> Placement {
        let Some(chunk) = self.link.output_chunk(section) else {
            return Placement::special(elf::SHN_ABS, 0);
        };
        Placement::of_chunk(self.link, chunk, self.loaded_value(kind, self.link.values[id.index()]))
    }

    /// The value of a symbol in a file that is loaded. By the gABI, TLS symbols count from the start of the
    /// TLS segment.
    fn loaded_value(&self, kind: u8, value: u64) -> u64 {
        let counts = kind == elf::STT_TLS && !self.link.config.is_relocatable();
        if counts { value.wrapping_sub(self.link.layout.tls.start) } else { value }
    }

    /// The output's type for a common block whose type in its object is `kind` (`-z common`).
    fn common_kind(&self, kind: u8) -> u8 {
        match self.link.config.symbols.common_type {
            _ if !matches!(kind, elf::STT_OBJECT | elf::STT_COMMON) => kind,
            Some(true) if self.link.config.is_relocatable() => elf::STT_COMMON,
            None if self.link.config.is_relocatable() => kind,
            _ => elf::STT_OBJECT,
        }
    }

    /// Writes a global. If it is undefined, it has type `kind`.
    fn global(&mut self, entry: Entry<'_>, local: bool, kind: u8) {
        let link = self.link;
        match link.definition(entry.id) {
            Definition::Object { file, symbol } => {
                let object = &link.objects[file.index()];
                let source = &object.symbols[symbol as usize];
                let mut info = source.st_info;
                if info >> 4 == elf::STB_GNU_UNIQUE && !link.config.symbols.gnu_unique {
                    info = elf::STB_GLOBAL << 4 | info & 0xf;
                }
                if object.symbol_place(symbol as usize) == SymbolPlace::Common {
                    info = info & 0xf0 | self.common_kind(source.kind());
                }
                if local {
                    info = elf::STB_LOCAL << 4 | info & 0xf;
                }
                let mut visibility = link.definitions.visibility[entry.id.index()];
                if object.hide_symbols && link.config.is_relocatable() && visibility == elf::STV_DEFAULT {
                    // `--exclude-libs`: the final link must not export it.
                    visibility = elf::STV_HIDDEN;
                }
                let mut size = link.common_block(entry.id).map_or(source.st_size.get(), |block| block.size);
                let mut place = self.placement(object, Entry { symbol, ..entry });
                if let Some(of_entry) = self.plt_place(entry.id) {
                    (info, size, place) = (info & 0xf0 | elf::STT_FUNC, 0, of_entry);
                }
                self.push(entry.name, info, source.st_other & !3 | visibility, size, place);
            }
            Definition::Linker(row) => self.linker_symbol(entry, row, local),
            Definition::Shared { library, symbol } => {
                let source = &link.shared[library.index()].symbols[symbol as usize];
                let place = self.imported_place(entry.id);
                let kind = if source.kind() == elf::STT_GNU_IFUNC { elf::STT_FUNC } else { source.kind() };
                let size = if place.special.is_none() { source.st_size.get() } else { 0 };
                self.push(entry.name, self.reference_binding(entry.id) << 4 | kind, 0, size, place);
            }
            Definition::Undefined => {
                let other = link.definitions.visibility[entry.id.index()];
                let place = Placement::special(elf::SHN_UNDEF, 0);
                self.push(entry.name, self.reference_binding(entry.id) << 4 | kind, other, 0, place);
            }
        }
    }

    fn reference_binding(&self, id: SymbolId) -> u8 {
        // If no object mentions a symbol, it is there because of -u.
        let mentions = self.link.mentions(id);
        if mentions.contains(MentionedBy::STRONG_REFERENCE) || !mentions.contains(MentionedBy::IN_OBJECT) {
            elf::STB_GLOBAL
        } else {
            elf::STB_WEAK
        }
    }

    /// The place of a library's symbol. A copied variable has a place in this output. A function with a
    /// canonical PLT entry is undefined, but has a value (psABIs, "Function Addresses").
    fn imported_place(&self, id: SymbolId) -> Placement {
        let link = self.link;
        let needs = link.symbol_needs(id);
        let value = link.values[id.index()];
        if needs.contains(Needs::COPY)
            && let Some(chunk) = link.layout.chunk_at(value)
        {
            return Placement::of_chunk(link, chunk, value);
        }
        let value = if needs.contains(Needs::CANONICAL_PLT) { value } else { 0 };
        Placement::special(elf::SHN_UNDEF, value)
    }

    /// The PLT entry of a function with a resolver, if other modules take that entry for the function's
    /// address.
    fn plt_place(&self, id: SymbolId) -> Option<Placement> {
        let link = self.link;
        if !link.is_dynamic()
            || !link.symbol_flags(id).contains(SymbolFlags::IFUNC)
            || !address::is_plt_entry(link, id)
        {
            return None;
        }
        let value = address::plt(link, id);
        Some(Placement::of_chunk(link, link.layout.chunk_at(value)?, value))
    }

    fn linker_symbol(&mut self, entry: Entry<'_>, row: u32, local: bool) {
        let symbol = &self.link.linker_symbols[row as usize];
        let place = self.link.linker_values[row as usize];
        let value = self.loaded_value(symbol.kind, place.value);
        let place = match place.chunk {
            Some(chunk) => Placement::of_chunk(self.link, chunk, value),
            None => Placement::special(elf::SHN_ABS, value),
        };
        let other =
            if symbol.hidden { elf::STV_HIDDEN } else { self.link.definitions.visibility[entry.id.index()] };
        let binding = if local { elf::STB_LOCAL } else { elf::STB_GLOBAL };
        self.push(entry.name, binding << 4 | symbol.kind, other, 0, place);
    }
}
