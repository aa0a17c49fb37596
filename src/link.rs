//! The state of a link, as it grows from pass to pass.
//!
//! [`Link`] is what passes read and fill. Each field says which pass fills it; after that pass it
//! is only read (`pipeline.rs` lists the points at which things freeze).

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SectionId};
use crate::layout::Layout;
use crate::phase::{Scanned, SectionInfo, builds_on, info_of};
use crate::relocs::Relocations;
use crate::sframe;
use crate::synth::dynamic_tables::DynamicTables;
use crate::synth::section_names::SectionNames;
use crate::synth::symtab::SymtabPlan;
use crate::synth::thunks::Thunks;
use crate::synth::{self, Kind, SyntheticSection, Synthetics};
use hashbrown::HashMap;

/// Where sections are, in parallel vectors indexed by [`SectionId`].
#[derive(Default)]
pub struct Places {
    /// The rule of [`Layout::plan`] that takes it; orphans get theirs from `lay_out`.
    pub rule: Vec<u32>,
    /// Output section; set when items are listed.
    pub chunk: Vec<ChunkId>,
    /// Offset in the output section, in bytes; set by layout, which passes absorbed sections by.
    pub offset: Vec<u64>,
}

impl Places {
    /// Sections that have no places yet.
    pub fn new(rule: Vec<u32>) -> Self {
        let count = rule.len();
        Places { rule, chunk: vec![ChunkId::NONE; count], offset: vec![0; count] }
    }

    /// Adds a row.
    pub fn push(&mut self) -> SectionId {
        let id = SectionId::from_index(self.chunk.len());
        self.rule.push(u32::MAX);
        self.chunk.push(ChunkId::NONE);
        self.offset.push(0);
        id
    }
}

/// Everything that is known of a link.
pub struct Link<'a, T: Target> {
    /// What the link needs besides its inputs.
    pub scanned: Scanned<'a, T>,
    /// Sections.
    pub places: Places,
    /// Addresses of symbols (TLS symbols too: the address in the initialisation image), for globals
    /// and locals; filled by `compute_values`. Imported symbols without a copy or canonical PLT
    /// entry are 0; an `STT_GNU_IFUNC` of this output has the address of its resolver.
    pub values: Vec<u64>,
    /// For each symbol: its row among [`crate::synth::DynamicRow`]s, `u32::MAX` if it has none.
    /// Filled by `build_synthetics`.
    pub rows: Vec<u32>,
    /// How the output's symbol table is divided. Filled when the output sections are known.
    pub symtab: SymtabPlan,
    /// Names of the output sections. Filled when they are known.
    pub section_names: SectionNames,
    /// Contents of output sections that are written compressed.
    pub compressed: HashMap<ChunkId, Vec<u8>, foldhash::fast::FixedState>,
    /// Sections that the linker makes, and what they are made of.
    pub synthetics: Synthetics<'a>,
    /// Tables for the dynamic linker. Filled by [`crate::synth::dynamic_tables::size`].
    pub dynamic: DynamicTables<'a>,
    /// Code between branches and far targets. Filled by `lay_out`.
    pub thunks: Thunks,
    /// What the tables for the dynamic linker are made of. Filled by `build_synthetics`.
    pub relocations: Relocations,
    /// Functions of a section that the linker makes of SFrame inputs. Inputs are read by
    /// `sframe::index::absorb`; `build_sframe` chooses what is written.
    pub sframe: sframe::collect::Collection,
    /// Output sections, segments, addresses.
    pub layout: Layout<'a>,
}

builds_on!(['a, T: Target] Link<'a, T>, scanned: Scanned<'a, T>);

impl<'a, T: Target> Link<'a, T> {
    /// A link whose tables are not made and whose layout is not begun.
    pub fn new(scanned: Scanned<'a, T>) -> Self {
        let live = &scanned.live;
        let mut sections = live.synthetic.rows.clone();
        for section in &mut sections {
            match section.kind {
                Kind::EhFrame if !live.kept_frames.files.is_empty() => {
                    section.size = synth::eh_frame::size(live);
                }
                Kind::EhFrameHdr => section.size = synth::eh_frame_hdr::size(live.kept_frames.fdes),
                _ => {}
            }
        }
        sections.extend(scanned.merged.iter().map(|merged| merged.section.clone()));
        let rules = live.rules.iter().copied();
        let rules = rules.chain(scanned.merged.iter().map(|merged| merged.rule)).collect();
        Link {
            places: Places::new(rules),
            values: Vec::new(),
            rows: Vec::new(),
            symtab: SymtabPlan::default(),
            section_names: SectionNames::default(),
            compressed: HashMap::default(),
            synthetics: Synthetics { sections, ..Synthetics::default() },
            dynamic: DynamicTables::default(),
            thunks: Thunks::default(),
            relocations: Relocations::default(),
            sframe: sframe::collect::Collection::default(),
            layout: Layout { plan: live.plan.clone(), ..Layout::default() },
            scanned,
        }
    }

    /// Number of sections, with those of the linker.
    pub fn section_count(&self) -> usize {
        self.places.chunk.len()
    }

    /// The output section that holds the synthetic section of a kind, if it is in the output.
    pub fn chunk_of(&self, kind: Kind) -> Option<ChunkId> {
        let row = self.synthetics.find(kind)?;
        let chunk = self.places.chunk[self.synthetic_id(row).index()];
        chunk.is_some().then_some(chunk)
    }

    /// Size of a section in the output, in bytes.
    #[inline]
    pub fn section_size(&self, id: SectionId) -> u64 {
        match self.locate(id) {
            Some((object, index)) => object.headers[index as usize].sh_size.get(),
            None => self.synthetics.section(id.0 - self.first_internal()).size,
        }
    }

    /// `sh_link` and `sh_info` of a section of relocatable output that has them (relocations,
    /// groups).
    pub fn relocatable_link_and_info(&self, id: ChunkId) -> Option<(u32, u32)> {
        let item = *self.layout.chunks.get(id.index())?.items.first()?;
        let row = self.synthetic_row(item)?;
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

    /// The output section that a section's contents are in. Those of an absorbed section are all
    /// in one place.
    pub fn output_chunk(&self, id: SectionId) -> ChunkId {
        match self.final_place(id, 0) {
            Some((section, _)) => self.places.chunk[section.index()],
            None => ChunkId::NONE,
        }
    }

    /// Address of an offset of an absorbed section, wherever it went; 0 if it is not in the output.
    pub fn absorbed_address(&self, id: SectionId, offset: u64) -> u64 {
        match self.absorbed_place(id, offset) {
            Some((section, offset)) if self.places.chunk[section.index()].is_some() => {
                self.section_address(section).wrapping_add(offset)
            }
            _ => 0,
        }
    }

    /// Adds a synthetic section; gives its id.
    pub fn add_synthetic(&mut self, section: SyntheticSection<'a>) -> SectionId {
        self.synthetics.sections.push(section);
        self.places.push()
    }

    /// What the header of a section says.
    pub fn section_info(&self, id: SectionId) -> SectionInfo<'a> {
        match self.locate(id) {
            Some((object, index)) => info_of(object, index as usize, self.config.is_relocatable()),
            None => self.synthetics.section(id.0 - self.first_internal()).info(),
        }
    }

    /// `file:(section+offset)` for messages.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        self.describe_place_in(id, || self.section_info(id).name, offset)
    }

    /// Address of a section in the output; 0 if it is not in it.
    #[inline]
    pub fn section_address(&self, id: SectionId) -> u64 {
        let chunk = self.places.chunk[id.index()];
        if !chunk.is_some() {
            return 0;
        }
        self.layout.chunks[chunk.index()].address.wrapping_add(self.places.offset[id.index()])
    }
}
