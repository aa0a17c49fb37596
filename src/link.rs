//! The state of a link, as it grows from pass to pass.
//!
//! [`Link`] is what passes read and fill. Each field says which pass fills it; after that pass it
//! is only read (`pipeline.rs` lists the points at which things freeze).

use crate::arch::Target;
use crate::cli::{Config, OutputMode};
use crate::diag::Sink;
use crate::elf::Shdr;
use crate::elf::consts as elf;
use crate::frames::Frames;
use crate::frames::eh_frame::fde_edges;
use crate::ids::{ChunkId, FileId, SectionId, SymbolId};
use crate::input::group::GroupTable;
use crate::input::object::SymbolPlace;
use crate::input::shared::NeededLibraries;
use crate::input::source_lines::{Deed, SourceLines};
use crate::input::{InputStore, ObjectFile, SharedFile};
use crate::layout::Layout;
use crate::merge::Merges;
use crate::output::reports::ReportData;
use crate::relocs::Relocations;
use crate::sframe;
use crate::symbols::{CommonBlock, Definition, NameList, SymbolTable, Versions, flag};
use crate::synth::dynamic_tables::DynamicTables;
use crate::synth::section_names::SectionNames;
use crate::synth::symtab::SymtabPlan;
use crate::synth::thunks::Thunks;
use crate::synth::{self, Kind, SyntheticSection, Synthetics, section_id};
use hashbrown::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bits of [`SectionTable::state`].
pub mod state {
    /// In the output. Set for every section when sections are indexed, cleared for what is
    /// discarded or collected.
    pub const ALIVE: u8 = 1 << 0;
    /// A script's `KEEP`, or another reason to be a root of garbage collection.
    pub const KEEP: u8 = 1 << 1;
    /// Member of a group that lost to another of the same signature.
    pub const DISCARDED_BY_GROUP: u8 = 1 << 2;
    /// Matched by `/DISCARD/`.
    pub const DISCARDED_BY_SCRIPT: u8 = 1 << 3;
    /// Removed by `--gc-sections`.
    pub const COLLECTED: u8 = 1 << 4;
    /// Its contents were taken apart and live on in a section that the linker makes (`.eh_frame`
    /// records, mergeable pieces, properties): it is not laid out itself.
    pub const ABSORBED: u8 = 1 << 5;
    /// Its contents are no part of the program: symbol tables, relocations, groups.
    pub const NOT_CONTENT: u8 = 1 << 6;
    /// Reached by garbage collection.
    pub const MARKED: u8 = 1 << 7;
}

/// Facts about sections, in parallel vectors indexed by [`SectionId`].
#[derive(Default)]
pub struct SectionTable {
    /// The object that each section belongs to; [`FileId::NONE`] for the linker's own.
    pub file: Vec<FileId>,
    /// Bits of [`state`].
    pub state: Vec<AtomicU8>,
    /// The rule of the layout plan that takes it; set by `match_script`.
    pub rule: Vec<u32>,
    /// Output section; set when items are listed.
    pub chunk: Vec<ChunkId>,
    /// Offset in the output section, in bytes; set by layout. Layout passes absorbed sections by;
    /// for them, see [`SectionTable::merge_row`].
    pub offset: Vec<u64>,
    /// Row of the first section that the linker makes.
    pub first_internal: u32,
}

impl SectionTable {
    /// Whether all of `bits` are set.
    #[inline]
    pub fn is(&self, id: SectionId, bits: u8) -> bool {
        self.state[id.index()].load(Ordering::Relaxed) & bits == bits
    }

    /// Sets bits and gives back what was set before.
    #[inline]
    pub fn set(&self, id: SectionId, bits: u8) -> u8 {
        let state = &self.state[id.index()];
        let before = state.load(Ordering::Relaxed);
        if before & bits == bits {
            return before;
        }
        state.fetch_or(bits, Ordering::Relaxed)
    }

    /// Clears bits.
    #[inline]
    pub fn clear(&self, id: SectionId, bits: u8) {
        self.state[id.index()].fetch_and(!bits, Ordering::Relaxed);
    }

    /// The row in [`Link::merges`] of an absorbed section, if its pieces were merged. Kept where
    /// other sections have their offset, so that looking it up needs no table of its own.
    #[inline]
    pub fn merge_row(&self, id: SectionId) -> Option<u32> {
        (self.offset[id.index()] as u32).checked_sub(1)
    }

    /// Sets [`SectionTable::merge_row`].
    pub fn set_merge_row(&mut self, id: SectionId, row: u32) {
        self.offset[id.index()] = u64::from(row) + 1;
        self.set(id, state::ABSORBED);
    }

    /// Whether the section is in the output.
    #[inline]
    pub fn is_alive(&self, id: SectionId) -> bool {
        self.is(id, state::ALIVE)
    }

    /// Number of sections, the linker's own included.
    pub fn len(&self) -> usize {
        self.file.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    /// Adds a row.
    pub fn push(&mut self, file: FileId, state: u8) -> SectionId {
        let id = SectionId::from_index(self.file.len());
        self.file.push(file);
        self.state.push(AtomicU8::new(state));
        self.rule.push(u32::MAX);
        self.chunk.push(ChunkId::NONE);
        self.offset.push(0);
        id
    }
}

/// What a section's header says, wherever it comes from.
#[derive(Clone, Copy, Debug)]
pub struct SectionInfo<'a> {
    /// Name.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Size in memory, in bytes.
    pub size: u64,
    /// Alignment, in bytes: at least 1, a power of two.
    pub align: u64,
    /// Size of an entry, in bytes; 0 if entries have none.
    pub entsize: u64,
}

/// A symbol that the linker itself defines.
#[derive(Clone, Copy, Debug)]
pub struct LinkerSymbol {
    /// Its global.
    pub symbol: SymbolId,
    /// Where its value comes from.
    pub origin: LinkerSymbolOrigin,
    /// Section-relative symbols move with their output section and have its index in the symbol
    /// table; [`ChunkId::NONE`] for absolute ones. Set by layout.
    pub chunk: ChunkId,
    /// Its address or number. Set by layout.
    pub value: u64,
    /// `STV_HIDDEN` definitions are not exported.
    pub hidden: bool,
    /// Its value is a number that does not move with the program.
    pub fixed: bool,
    /// `STT_*`: that of the symbol that it is another name for.
    pub kind: u8,
    /// The definition that this one took the place of.
    pub overridden: Definition,
}

/// Where a linker-defined symbol's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkerSymbolOrigin {
    /// An assignment in the script or a `--defsym`; the layout plan knows which.
    Assignment,
    /// The start of the first chunk that has this name, or of a header: known names such as
    /// `_DYNAMIC`, `_GLOBAL_OFFSET_TABLE_`, `__ehdr_start`.
    Reserved(Reserved),
    /// `__start_NAME`: the start of output section NAME.
    Start,
    /// `__stop_NAME`: its end.
    Stop,
}

/// Reserved names that are not written in the scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reserved {
    /// `_DYNAMIC`: start of `.dynamic`.
    Dynamic,
    /// `_GLOBAL_OFFSET_TABLE_`.
    GlobalOffsetTable,
    /// `__ehdr_start`: the ELF header, if it is loaded.
    EhdrStart,
    /// `__GNU_EH_FRAME_HDR`.
    EhFrameHdr,
    /// `_TLS_MODULE_BASE_`: start of the TLS segment.
    TlsModuleBase,
    /// `_PROCEDURE_LINKAGE_TABLE_`: start of `.plt`.
    ProcedureLinkageTable,
}

/// Everything that is known of a link.
pub struct Link<'a, T: Target> {
    /// The command line.
    pub config: &'a Config,
    /// Where diagnostics go.
    pub sink: &'a Sink,
    /// Keeps bytes until the end.
    pub store: &'a InputStore,
    /// Objects that take part, in link order. Filled by `load_inputs` (all candidates), frozen by
    /// `extract_members`.
    pub objects: Vec<ObjectFile<'a, T::E>>,
    /// Shared libraries, in order of first appearance.
    pub shared: Vec<SharedFile<'a, T::E>>,
    /// Libraries that only libraries need. Filled by `open_needed_libraries`.
    pub needed_libraries: NeededLibraries<'a>,
    /// Symbols.
    pub symbols: SymbolTable<'a>,
    /// Sections.
    pub sections: SectionTable,
    /// Section groups. Filled by `select_comdats`.
    pub groups: GroupTable<'a>,
    /// Common blocks that are allocated, by symbol. Filled by `select_definitions`, placed by
    /// `create_synthetics`.
    pub commons: Vec<CommonBlock>,
    /// Sections whose names are C identifiers that `__start_NAME` or `__stop_NAME` speak of.
    pub identifier_sections: IdentifierSections<'a>,
    /// Names that `--dynamic-list` and its kin export.
    pub dynamic_list: Option<NameList>,
    /// `--dynamic-list` was given for a shared library: what it does not name is bound here.
    pub dynamic_list_is_exclusive: bool,
    /// Versions that the output defines. Scripts are read by `read_versions`, definitions filled by
    /// `assign_versions`.
    pub versions: Versions<'a>,
    /// `--retain-symbols-file`: the globals that stay in the symbol table.
    pub retained_names: Option<NameList>,
    /// Scripts and lists that options name, as they were opened.
    pub script_paths: Vec<PathBuf>,
    /// Symbols that scripts refer to.
    pub script_references: Vec<&'a [u8]>,
    /// The entry symbol's name.
    pub entry: Vec<u8>,
    /// Whether some object asks for an executable stack; `None`: no object says anything about it.
    pub executable_stack: Option<bool>,
    /// How the output's symbol table is divided. Filled when the output sections are known.
    pub symtab: SymtabPlan,
    /// Names of the output sections. Filled when they are known.
    pub section_names: SectionNames,
    /// Contents of output sections that are written compressed.
    pub compressed: HashMap<ChunkId, Vec<u8>, foldhash::fast::FixedState>,
    /// Records of `.eh_frame` sections. Filled by `split_eh_frames`.
    pub frames: Frames<'a, T::E>,
    /// Pieces of mergeable sections. Filled by `merge_strings`.
    pub merges: Merges<'a>,
    /// Symbols that the linker defines.
    pub linker_symbols: Vec<LinkerSymbol>,
    /// Sections that the linker makes, and what they are made of.
    pub synthetics: Synthetics<'a>,
    /// Tables for the dynamic linker. Filled by [`crate::synth::dynamic_tables::size`].
    pub dynamic: DynamicTables<'a>,
    /// Code between branches and far targets. Filled by `lay_out`.
    pub thunks: Thunks,
    /// What relocations ask for. Filled by `scan_relocations` and `build_synthetics`.
    pub relocations: Relocations,
    /// Functions of a section that the linker makes of SFrame inputs. Inputs are read by
    /// `sframe::index::absorb`; `build_sframe` chooses what is written.
    pub sframe: sframe::collect::Collection,
    /// What reports need of passes that are over.
    pub reports: ReportData<'a>,
    /// Output sections, segments, addresses.
    pub layout: Layout<'a>,
    /// The machine.
    pub target: T,
}

/// See [`Link::identifier_sections`].
pub type IdentifierSections<'a> = HashMap<&'a [u8], Vec<SectionId>, foldhash::fast::FixedState>;

impl<'a, T: Target> Link<'a, T> {
    /// A link in which nothing is known yet.
    pub fn new(config: &'a Config, sink: &'a Sink, store: &'a InputStore) -> Self {
        Link {
            config,
            sink,
            store,
            objects: Vec::new(),
            shared: Vec::new(),
            needed_libraries: NeededLibraries::default(),
            symbols: SymbolTable::default(),
            sections: SectionTable::default(),
            groups: GroupTable::default(),
            commons: Vec::new(),
            identifier_sections: HashMap::default(),
            dynamic_list: None,
            dynamic_list_is_exclusive: false,
            versions: Versions::default(),
            retained_names: None,
            script_paths: Vec::new(),
            script_references: Vec::new(),
            entry: Vec::new(),
            executable_stack: None,
            symtab: SymtabPlan::default(),
            section_names: SectionNames::default(),
            compressed: HashMap::default(),
            frames: Frames::default(),
            merges: Merges::default(),
            linker_symbols: Vec::new(),
            synthetics: Synthetics::default(),
            dynamic: DynamicTables::default(),
            thunks: Thunks::default(),
            relocations: Relocations::default(),
            sframe: sframe::collect::Collection::default(),
            reports: ReportData::default(),
            layout: Layout::default(),
            target: T::default(),
        }
    }

    /// The output section that holds the synthetic section of a kind, if it is in the output.
    pub fn chunk_of(&self, kind: Kind) -> Option<ChunkId> {
        let row = self.synthetics.find(kind)?;
        let chunk = self.sections.chunk[(self.sections.first_internal + row) as usize];
        chunk.is_some().then_some(chunk)
    }

    /// Size of a section in the output, in bytes.
    #[inline]
    pub fn section_size(&self, id: SectionId) -> u64 {
        match self.locate(id) {
            Some((object, index)) => object.headers[index as usize].sh_size.get(),
            None => self.synthetics.section(id.0 - self.sections.first_internal).size,
        }
    }

    /// `sh_link` and `sh_info` of a section of relocatable output that has them (relocations,
    /// groups).
    pub fn relocatable_link_and_info(&self, id: ChunkId) -> Option<(u32, u32)> {
        let item = *self.layout.chunks.get(id.index())?.items.first()?;
        let row = item.0.checked_sub(self.sections.first_internal)?;
        let symtab =
            || self.chunk_of(Kind::SymTab).map_or(0, |id| self.layout.chunks[id.index()].header_index);
        match self.synthetics.section(row).kind {
            Kind::OutputRelocations(row) => {
                let target = self.synthetics.output_relocations[row as usize].target;
                Some((symtab(), self.layout.chunks[target.index()].header_index))
            }
            Kind::OutputGroup(row) => {
                let group = &self.synthetics.output_groups[row as usize];
                Some((symtab(), synth::groups::signature_index(self, group)))
            }
            _ => None,
        }
    }

    /// Number of version definitions, and of libraries with needed versions.
    pub fn dynamic_counts(&self) -> (u32, u32) {
        (self.dynamic.defined.len() as u32, self.dynamic.needed.len() as u32)
    }

    /// Whether the output uses what only `ELFOSABI_GNU` has: indirect functions, unique symbols,
    /// retained sections.
    pub fn uses_gnu_extensions(&self) -> bool {
        self.symtab.has_gnu_symbols
            || (self.config.is_relocatable()
                && self.layout.chunks.iter().any(|chunk| chunk.flags & u64::from(elf::SHF_GNU_RETAIN) != 0))
    }

    /// Whether the output has a dynamic section.
    pub fn is_dynamic(&self) -> bool {
        match self.config.mode {
            OutputMode::Relocatable => false,
            OutputMode::Shared | OutputMode::Executable { pie: true } => true,
            OutputMode::Executable { pie: false } => !self.shared.is_empty(),
        }
    }

    /// Whether the definition that was selected is weak.
    pub fn is_weak_definition(&self, id: SymbolId) -> bool {
        match self.symbols.definition(id) {
            Definition::Object { file, symbol } => {
                self.objects[file.index()].symbols[symbol as usize].is_weak()
            }
            _ => false,
        }
    }

    /// Whether a section is SFrame input.
    pub fn is_sframe_section(&self, id: SectionId) -> bool {
        self.locate(id).is_some_and(|(object, index)| sframe::is_input(object, index as usize))
    }

    /// The common block of a symbol, once it is allocated.
    pub fn common_block(&self, id: SymbolId) -> Option<&CommonBlock> {
        let row = self.commons.binary_search_by_key(&id, |block| block.symbol).ok()?;
        Some(&self.commons[row])
    }

    /// The symbols that the FDEs of a function's section refer to besides the function: what a
    /// live function keeps alive through its frame records.
    pub fn frame_edges(&self, function: SectionId) -> impl Iterator<Item = SymbolId> {
        let object = self.locate(function).map(|(object, _)| object);
        let symbol = move |symbol| object.map_or(SymbolId::NONE, |object| object.symbol_id(symbol));
        fde_edges(self, function).map(move |relocation| symbol(relocation.symbol()))
    }

    /// Whether something that is in the output refers to an undefined symbol.
    pub fn is_name_used(&self, id: SymbolId) -> bool {
        !self.config.gc.enabled || self.symbols.flags(id) & flag::LIVE != 0
    }

    /// The output section that a section's contents are in. Those of an absorbed section are all
    /// in one place.
    pub fn output_chunk(&self, id: SectionId) -> ChunkId {
        match self.final_place(id, 0) {
            Some((section, _)) => self.sections.chunk[section.index()],
            None => ChunkId::NONE,
        }
    }

    /// Where an offset of a section is in the end: the section that is laid out, and the offset in
    /// it. The same for most; another for mergeable pieces and `.eh_frame` records. `None` if it
    /// is in no section any more.
    ///
    /// For a section symbol with an addend, the offset is their sum: the addend says which piece
    /// is meant. For any other symbol it is the symbol's value, and the addend is added to the
    /// result.
    #[inline]
    pub fn final_place(&self, id: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        if !self.sections.is(id, state::ABSORBED) {
            return Some((id, offset));
        }
        self.absorbed_place(id, offset)
    }

    fn absorbed_place(&self, id: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        if let Some(row) = self.sections.merge_row(id) {
            return Some(self.merges.place(row, offset));
        }
        let (object, index) = self.locate(id)?;
        let place = self.frames.output_offset(object.id, index, offset)?;
        let row = self.synthetics.find(Kind::EhFrame)?;
        Some((section_id(self.sections.first_internal, row), place))
    }

    /// Address of an offset of an absorbed section, wherever it went; 0 if it is not in the output.
    pub fn absorbed_address(&self, id: SectionId, offset: u64) -> u64 {
        match self.absorbed_place(id, offset) {
            Some((section, offset)) if self.sections.chunk[section.index()].is_some() => {
                self.section_address(section).wrapping_add(offset)
            }
            _ => 0,
        }
    }

    /// Adds a synthetic section; gives its id.
    pub fn add_synthetic(&mut self, section: SyntheticSection<'a>) -> SectionId {
        self.synthetics.sections.push(section);
        self.sections.push(FileId::NONE, state::ALIVE)
    }

    /// The object and header index of a section; `None` for the linker's own.
    #[inline]
    pub fn locate(&self, id: SectionId) -> Option<(&ObjectFile<'a, T::E>, u32)> {
        let file = self.sections.file[id.index()];
        if !file.is_some() {
            return None;
        }
        let object = &self.objects[file.index()];
        Some((object, id.0 - object.first_section))
    }

    /// What the header of a section says.
    pub fn section_info(&self, id: SectionId) -> SectionInfo<'a> {
        match self.locate(id) {
            Some((object, index)) => info_of(object, index as usize, self.config.is_relocatable()),
            None => self.synthetics.section(id.0 - self.sections.first_internal).info(),
        }
    }

    /// `file:(section+offset)` for messages.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        match self.locate(id) {
            Some((object, index)) => {
                format!("{}:({}+{offset:#x})", object.name, object.section_name_lossy(index as usize))
            }
            None => {
                format!("<internal>:({}+{offset:#x})", String::from_utf8_lossy(self.section_info(id).name))
            }
        }
    }

    /// Lines for messages: what happens at a place, with the source line and the function where
    /// they are known.
    pub fn describe_source(
        &self,
        lines: &mut SourceLines,
        deed: Deed,
        id: SectionId,
        offset: u64,
    ) -> Vec<String> {
        match self.locate(id) {
            Some((object, index)) => {
                lines.notes(deed, object, index, offset, self.config.diagnostics.demangle)
            }
            None => vec![format!("{} {}", deed.words(), self.describe_place(id, offset))],
        }
    }

    /// Address of a section in the output; 0 if it is not in it.
    #[inline]
    pub fn section_address(&self, id: SectionId) -> u64 {
        let chunk = self.sections.chunk[id.index()];
        if !chunk.is_some() {
            return 0;
        }
        self.layout.chunks[chunk.index()].address.wrapping_add(self.sections.offset[id.index()])
    }

    /// The section that holds a symbol's definition, and the symbol's offset in it; `None` if it is
    /// not defined in a section of an object.
    pub fn symbol_section(&self, id: SymbolId) -> Option<(SectionId, u64)> {
        let (file, symbol) = self.symbol_entry(id)?;
        self.objects[file.index()].symbol_section(symbol)
    }

    /// The same for what a relocation of an object refers to. Local symbols, which assemblers prefer,
    /// need no search for their object.
    #[inline]
    pub fn referenced_section(&self, object: &ObjectFile<'_, T::E>, symbol: u32) -> Option<(SectionId, u64)> {
        match symbol < object.first_global {
            true => object.symbol_section(symbol),
            false => self.symbol_section(object.symbol_id(symbol)),
        }
    }

    /// The object and symbol index that define a symbol (global or local).
    pub fn symbol_entry(&self, id: SymbolId) -> Option<(FileId, u32)> {
        if self.symbols.is_global(id) {
            return match self.symbols.definition(id) {
                Definition::Object { file, symbol } => Some((file, symbol)),
                _ => None,
            };
        }
        let file = self.objects.partition_point(|object| object.first_local <= id.0).checked_sub(1)?;
        Some((FileId::from_index(file), id.0 - self.objects[file].first_local))
    }

    /// A symbol's name for messages: demangled, unless `--no-demangle`.
    pub fn name_text(&self, name: &[u8]) -> String {
        match self.config.diagnostics.demangle {
            true => crate::diag::demangle::demangle(name),
            false => String::from_utf8_lossy(name).into_owned(),
        }
    }

    /// Name of any symbol for messages; a section symbol has its section's name.
    pub fn symbol_text(&self, id: SymbolId) -> String {
        if self.symbols.is_global(id) {
            return self.name_text(self.symbols.names[id.index()]);
        }
        let Some((file, symbol)) = self.symbol_entry(id) else { return String::new() };
        let object = &self.objects[file.index()];
        match (object.symbol_name(symbol as usize), object.symbol_place(symbol as usize)) {
            (b"", SymbolPlace::Section(section)) => object.section_name_lossy(section as usize),
            (name, _) => self.name_text(name),
        }
    }
}

/// What a section header of an object says. SFrame input has its own type whatever the assembler
/// wrote (product rule 1). Alignments that are no power of two count as 1;
/// `index_sections` has reported them.
pub fn info_of<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'a, E>,
    index: usize,
    relocatable: bool,
) -> SectionInfo<'a> {
    let header: &Shdr<E> = &object.headers[index];
    let align = header.sh_addralign.get();
    let name = object.section_name(index);
    let (name, sh_type) = match sframe::is_input(object, index) {
        true => (sframe::matched_name(name, relocatable), sframe::SHT_GNU_SFRAME),
        false => (name, header.sh_type.get()),
    };
    SectionInfo {
        name,
        sh_type,
        flags: header.sh_flags.get(),
        size: header.sh_size.get(),
        align: if align.is_power_of_two() { align } else { 1 },
        entsize: header.sh_entsize.get(),
    }
}

/// Whether a section takes room in the program's memory.
#[inline]
pub fn is_alloc(flags: u64) -> bool {
    flags & u64::from(elf::SHF_ALLOC) != 0
}
