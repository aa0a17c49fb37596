//! The state of one run of the location counter: sections, symbols, regions, and the counter itself.

use super::names::{OutputNames, Symbols};
use super::output::{Attributes, OutputFacts};
use super::overflow::Overflows;
use super::place::List;
use crate::chunks::memory::Region;
use crate::chunks::{Data, Fill};
use crate::diag::Diagnostic;
use crate::elf::consts as elf;
use crate::ids::{OutputId, RegionId, RuleId};
use crate::plan::LayoutPlan;
use crate::script::builtin::LayoutConstants;
use crate::script::data_segment::DataSegment;
use std::cell::Cell;

/// Settings that options and the machine determine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The largest page size that the output may run with, in bytes (`-z max-page-size`).
    pub max_page_size: u64,
    /// The usual page size, in bytes (`-z common-page-size`).
    pub common_page_size: u64,
    /// The size in bytes of the page on whose boundary the relocation-read-only part ends, if it is larger
    /// than `common_page_size`.
    pub relro_page_size: u64,
    /// Values for the conditions of built-in scripts; `None` in tests, which read no such script.
    pub switches: Option<LayoutConstants>,
    /// `-Ttext-segment`, `--image-base`.
    pub image_base: Option<u64>,
    /// `-Trodata-segment`.
    pub rodata_segment: Option<u64>,
    /// `-Tldata-segment`.
    pub ldata_segment: Option<u64>,
    /// `--xosegment`: whether pure code shares no page with anything else.
    pub separate_pure_code: bool,
    /// `--warn-section-align`: whether to report sections that their alignment moves.
    pub warn_section_align: bool,
    /// `-r`.
    pub relocatable: bool,
    /// Byte order of data statements.
    pub big_endian: bool,
}

/// Whether an output section is in the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stays {
    /// Only if it has contents.
    #[default]
    IfFilled,
    /// Always, because of a statement (`. = .`), a visible symbol in it, or a table that gets its size after
    /// layout.
    Always,
    /// Never, even if statements would keep it.
    Never,
}

/// The state of one output section of the plan.
#[derive(Clone, Debug, Default)]
pub struct OutputState {
    /// Header fields of its sections, joined.
    pub facts: OutputFacts,
    /// Type and flags.
    pub attributes: Attributes,
    /// Largest alignment of its sections, in bytes.
    pub input_align: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Address of its first byte.
    pub address: u64,
    /// Load address of its first byte.
    pub load_address: u64,
    /// Size in bytes.
    pub size: u64,
    /// The region that it is in.
    pub region: RegionId,
    /// Whether it has a header in the output. Empty output sections are dropped.
    pub in_output: bool,
    /// Whether it stays while it is empty.
    pub stays: Stays,
    /// Whether it assigns symbols. Then its statements are carried out even if it is dropped.
    pub assigns: bool,
    /// Whether it has an address, from this run or the one before.
    pub placed: bool,
    /// Whether this run did not find its address or its size, because an expression is wrong or names a value
    /// that only later statements give.
    pub undetermined: bool,
    /// Fills, by offset.
    pub fills: Vec<Fill>,
    /// Bytes that the script writes, by offset.
    pub data: Vec<Data>,
}

impl OutputState {
    /// Makes it stay although it is empty.
    pub fn keep(&mut self) {
        if self.stays == Stays::IfFilled {
            self.stays = Stays::Always;
        }
    }

    /// Whether a run carries out its statements.
    pub fn is_processed(&self) -> bool {
        self.in_output || self.assigns
    }

    /// Whether it is `.tbss`, which takes no address space.
    pub fn is_tls_zeros(&self) -> bool {
        self.attributes.sh_type == elf::SHT_NOBITS && self.attributes.flags & elf::SHF_TLS != 0
    }
}

/// The state of a run.
pub struct LayoutState<'p> {
    /// The commands to carry out.
    pub plan: &'p LayoutPlan,
    /// Sections of each rule.
    pub lists: Vec<List>,
    /// Offset of each section in its list.
    pub offsets: Vec<u64>,
    /// Rule of each section.
    pub section_rules: Vec<Option<RuleId>>,
    /// Output sections, as the plan numbers them.
    pub outputs: Vec<OutputState>,
    /// Output sections by name.
    pub output_names: OutputNames<'p>,
    /// Symbols that the plan mentions.
    pub symbols: Symbols<'p>,
    /// Settings that options and the machine determine.
    pub settings: Settings,
    /// Bytes of the file header and the program headers.
    pub headers_size: u64,
    /// Address of the file header in the round before; `None` if no segment loads it.
    pub headers_address: Option<u64>,
    /// The regions. The first one is the default region.
    pub regions: Vec<Region>,
    /// The relocation-read-only part.
    pub data_segment: DataSegment,
    /// Address of the location counter.
    pub dot: u64,
    /// The output section that the run is in.
    pub current: Option<OutputId>,
    /// The command that the run has come to.
    pub position: usize,
    /// Whether the run evaluates bounds of regions. For these, all statements of the script count as carried
    /// out.
    pub(super) in_regions: bool,
    /// Errors and warnings of this run. The next run starts without any.
    pub findings: Vec<Diagnostic>,
    /// Regions that turned out too small in this run.
    pub(super) overflows: Overflows,
    /// The last allocated output section before the location counter that is not thread-local.
    pub(super) last_output: Option<OutputId>,
    /// The position of the next command whose section is loaded, and that section; `None` if it was not
    /// searched yet.
    pub(super) next_loaded: Cell<Option<(usize, Option<OutputId>)>>,
    /// The end of `.tbss`, if that was the last section. Another `.tbss` continues there.
    pub(super) tls_zeros_end: Option<u64>,
    pub(super) overlay_start: u64,
    pub(super) overlay_end: u64,
    /// Whether the script gives the overlay an address.
    pub(super) overlay_fixed: bool,
    /// Whether a section of the overlay has been made.
    pub(super) overlay_begun: bool,
    pub(super) overlay_region: RegionId,
    /// The fill of gaps. Empty for the default.
    pub(super) pattern: Vec<u8>,
    /// Whether the location counter was assigned outside of sections, and no section has come since.
    pub(super) dot_assigned: bool,
    /// The regions for addresses and load addresses of the output section before.
    pub(super) regions_before: (RegionId, Option<RegionId>),
}

/// The start of a section, and the alignments that led to it.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) address: u64,
    /// Bytes that alignment put before the address.
    pub(super) padding: u64,
    /// The alignment that was applied.
    pub(super) used: u64,
    /// The alignment that the description asks for.
    pub(super) asked: u64,
}

impl<'p> LayoutState<'p> {
    /// The state before the first run.
    pub fn new(
        plan: &'p LayoutPlan,
        section_rules: Vec<Option<RuleId>>,
        lists: Vec<List>,
        offsets: Vec<u64>,
        outputs: Vec<OutputState>,
        settings: Settings,
    ) -> Self {
        LayoutState {
            plan,
            lists,
            offsets,
            section_rules,
            outputs,
            output_names: OutputNames::default(),
            symbols: Symbols::default(),
            settings,
            headers_size: 0,
            headers_address: None,
            regions: Vec::new(),
            data_segment: DataSegment::new(),
            dot: 0,
            current: None,
            position: 0,
            in_regions: false,
            findings: Vec::new(),
            overflows: Overflows::default(),
            last_output: None,
            next_loaded: Cell::new(None),
            tls_zeros_end: None,
            overlay_start: 0,
            overlay_end: 0,
            overlay_fixed: false,
            overlay_begun: false,
            overlay_region: RegionId::DEFAULT,
            pattern: Vec::new(),
            dot_assigned: false,
            regions_before: (RegionId::DEFAULT, None),
        }
    }
}
