//! Options for addresses, segments and the order of sections.

use crate::config::{Magic, OrphanHandling, Shuffle, ShuffleOrder, SortCommon, SortSection};
use crate::spec::{OptionSpec, Reach, flag, optional, value};
use crate::state::State;
use crate::values::{Outcome, address, number, pair, path, shown, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    flag(&["n", "nmagic"], "Do not page-align segments; static libraries only", |state| {
        state.config.layout.magic = Magic::NMagic;
        state.current.static_only = true;
    }),
    flag(&["N", "omagic"], "As -n, and text is writable", |state| {
        state.config.layout.magic = Magic::OMagic;
        state.current.static_only = true;
    }),
    flag(&["no-nmagic", "no-omagic"], "Page-align segments (default)", |state| {
        state.config.layout.magic = Magic::Paged;
    }),
    value(&["image-base", "Ttext-segment"], "ADDRESS", "Address of the first segment", |state, text| {
        state.config.layout.image_base = Some(address(text)?);
        Ok(())
    }),
    value(&["Trodata-segment"], "ADDRESS", "Address of the segment of read-only data", |state, text| {
        state.config.layout.rodata_segment = Some(address(text)?);
        Ok(())
    }),
    value(&["Tldata-segment"], "ADDRESS", "Address of the segment of large data", |state, text| {
        state.config.layout.ldata_segment = Some(address(text)?);
        Ok(())
    }),
    value(&["Ttext"], "ADDRESS", "Address of .text", |state, text| start_section(state, b".text", text)),
    value(&["Tdata"], "ADDRESS", "Address of .data", |state, text| start_section(state, b".data", text)),
    value(&["Tbss"], "ADDRESS", "Address of .bss", |state, text| start_section(state, b".bss", text)),
    value(&["section-start"], "SECTION=ADDRESS", "Address of an output section", |state, text| {
        let (section, text) = pair(text, "SECTION=ADDRESS")?;
        start_section(state, section, text)
    }),
    value(
        &["orphan-handling"],
        "MODE",
        "Sections that the script does not name: place, warn, error or discard",
        |state, mode| {
            let modes = [
                ("place", OrphanHandling::Place),
                ("warn", OrphanHandling::Warn),
                ("error", OrphanHandling::Error),
                ("discard", OrphanHandling::Discard),
            ];
            state.config.layout.orphan_handling = word(mode, &modes)?;
            Ok(())
        },
    ),
    optional(
        &["unique"],
        "PATTERN",
        "Keep input sections (those that match PATTERN) apart",
        |state, pattern| {
            match pattern {
                Some(pattern) => state.config.layout.unique.patterns.push(pattern.to_vec()),
                None => state.config.layout.unique.orphans = true,
            }
            Ok(())
        },
    ),
    value(
        &["sort-section"],
        "KEY",
        "Sort what a script's wildcards match: name, alignment or none",
        |state, key| {
            let keys = [
                ("name", SortSection::Name),
                ("alignment", SortSection::Alignment),
                ("none", SortSection::None),
            ];
            state.config.layout.sort_section = word(key, &keys)?;
            Ok(())
        },
    ),
    optional(
        &["sort-common"],
        "ORDER",
        "Sort common symbols by alignment: descending (default) or ascending",
        |state, order| {
            let orders = [("descending", SortCommon::Descending), ("ascending", SortCommon::Ascending)];
            state.config.layout.sort_common = word(order.unwrap_or(b"descending"), &orders)?;
            Ok(())
        },
    ),
    value(
        &["section-ordering-file"],
        "FILE",
        "Order input sections as FILE says: patterns of names, one a line, or OUTPUT : { PATTERNS } as in a script",
        |state, file| {
            state.config.scripts.section_orders.push(path(file));
            Ok(())
        },
    ).reaches(Reach::Reads),
    value(
        &["symbol-ordering-file"],
        "FILE",
        "Put the sections of the symbols that FILE names, one a line, first and in that order",
        |state, file| {
            state.config.scripts.symbol_order = Some(path(file));
            Ok(())
        },
    ).reaches(Reach::Reads),
    flag(&["warn-symbol-ordering"], "Report names of ordering files that order nothing (default)", |state| {
        state.config.diagnostics.warn_symbol_ordering = true;
    }),
    flag(&["no-warn-symbol-ordering"], "Do not report them", |state| {
        state.config.diagnostics.warn_symbol_ordering = false;
    }),
    optional(
        &["call-graph-profile-sort"],
        "WAY",
        "Order functions by the profiles in objects: hfsort (default; cdsort means the same) or none",
        |state, way| {
            let ways = [("hfsort", true), ("cdsort", true), ("none", false)];
            state.config.layout.call_graph_sort = word(way.unwrap_or(b"hfsort"), &ways)?;
            Ok(())
        },
    ),
    flag(&["no-call-graph-profile-sort"], "Do not order functions by profiles", |state| {
        state.config.layout.call_graph_sort = false;
    }),
    value(
        &["call-graph-ordering-file"],
        "FILE",
        "Order functions by the calls of FILE (lines of caller, function, count), not by profiles in objects",
        |state, file| {
            state.config.scripts.call_graph = Some(path(file));
            Ok(())
        },
    ).reaches(Reach::Reads),
    value(
        &["shuffle-sections"],
        "PATTERN=SEED",
        "Put input sections that match PATTERN in another order: -1 reverses, other seeds (0 too) always give the same",
        |state, text| {
            let (pattern, seed) = pair(text, "PATTERN=SEED")?;
            let shuffle = Shuffle { pattern: pattern.to_vec(), order: shuffle_order(seed)? };
            state.config.layout.shuffles.push(shuffle);
            Ok(())
        },
    ),
    flag(
        &["enable-non-contiguous-regions"],
        "Sections that do not fit a memory region go on to the next statement that matches them",
        |state| state.config.layout.non_contiguous_regions = true,
    ),
    flag(
        &["enable-non-contiguous-regions-warnings"],
        "Report the sections that --enable-non-contiguous-regions moves",
        |state| state.config.layout.non_contiguous_regions_warnings = true,
    ),
    optional(
        &["split-by-file"],
        "SIZE",
        "Under -r, begin another output section rather than reach SIZE bytes (default 1: for each input)",
        |state, size| {
            state.config.layout.split_by_file = Some(size.map_or(Ok(1), number)?);
            Ok(())
        },
    ),
    optional(
        &["split-by-reloc"],
        "COUNT",
        "Under -r, begin another output section rather than reach COUNT relocations (default 32768)",
        |state, count| {
            state.config.layout.split_by_reloc = Some(count.map_or(Ok(32768), number)?);
            Ok(())
        },
    ),
    flag(&["force-group-allocation"], "Dissolve section groups under -r", |state| {
        state.config.layout.force_group_allocation = true;
    }),
    flag(&["rosegment"], "Keep read-only data in a segment of its own", |state| {
        state.config.layout.rosegment = Some(true);
    }),
    flag(&["no-rosegment"], "Put read-only data into the segment of the code", |state| {
        state.config.layout.rosegment = Some(false);
    }),
    value(
        &["O"],
        "LEVEL",
        "Merge equal strings and constants at 1 (default), ends of strings too at 2, nothing at 0",
        |state, level| {
            state.config.layout.optimization = number(level)?.min(2) as u8;
            Ok(())
        },
    ),
    flag(&["check-sections"], "Overlapping sections are an error (default)", |state| {
        state.config.layout.check_sections = true;
    }),
    flag(&["no-check-sections"], "Sections may overlap", |state| {
        state.config.layout.check_sections = false;
    }),
];

fn start_section(state: &mut State<'_>, section: &[u8], text: &[u8]) -> Outcome {
    let start = address(text)?;
    state.config.layout.section_starts.push((section.to_vec(), start));
    Ok(())
}

/// `-1` reverses; a negative number is that of 32 bits, as lld has it.
fn shuffle_order(text: &[u8]) -> Result<ShuffleOrder, String> {
    match text.strip_prefix(b"-") {
        None => Ok(ShuffleOrder::Seed(number(text)?)),
        Some(b"1") => Ok(ShuffleOrder::Reverse),
        Some(digits) => match u32::try_from(number(digits)?) {
            Ok(value) => Ok(ShuffleOrder::Seed(value.wrapping_neg().into())),
            Err(_) => Err(format!("seed {} does not fit 32 bits", shown(text))),
        },
    }
}
