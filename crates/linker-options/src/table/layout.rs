//! Options for addresses, segments and the order of sections.

use crate::config::{
    CompressionGroup, Magic, OrphanHandling, Shuffle, ShuffleOrder, SortCommon, SortSection,
};
use crate::spec::{OptionSpec, Reach, flag, optional, value};
use crate::state::State;
use crate::values::{Outcome, address, number, pair, path, shown, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    flag(&["n", "nmagic"], "Do not align segments to pages, and search only for static libraries", |state| {
        state.config.layout.magic = Magic::NMagic;
        state.current.static_only = true;
    }),
    flag(&["N", "omagic"], "Same as -n, and make the code writable", |state| {
        state.config.layout.magic = Magic::OMagic;
        state.current.static_only = true;
    }),
    flag(&["no-nmagic", "no-omagic"], "Align segments to pages (default)", |state| {
        state.config.layout.magic = Magic::Paged;
    }),
    value(&["image-base", "Ttext-segment"], "ADDRESS", "Put the first segment at ADDRESS", |state, text| {
        state.config.layout.image_base = Some(address(text)?);
        Ok(())
    }),
    value(&["Trodata-segment"], "ADDRESS", "Put the segment of read-only data at ADDRESS", |state, text| {
        state.config.layout.rodata_segment = Some(address(text)?);
        Ok(())
    }),
    value(&["Tldata-segment"], "ADDRESS", "Put the segment of large data at ADDRESS", |state, text| {
        state.config.layout.ldata_segment = Some(address(text)?);
        Ok(())
    }),
    value(&["Ttext"], "ADDRESS", "Put .text at ADDRESS", |state, text| start_section(state, b".text", text)),
    value(&["Tdata"], "ADDRESS", "Put .data at ADDRESS", |state, text| start_section(state, b".data", text)),
    value(&["Tbss"], "ADDRESS", "Put .bss at ADDRESS", |state, text| start_section(state, b".bss", text)),
    value(
        &["section-start"],
        "SECTION=ADDRESS",
        "Put the output section SECTION at ADDRESS",
        |state, text| {
            let (section, text) = pair(text, "SECTION=ADDRESS")?;
            start_section(state, section, text)
        },
    ),
    value(
        &["orphan-handling"],
        "MODE",
        "What to do with sections that the script does not name: place (default), warn, error or discard",
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
        "Make an output section of each input section that matches PATTERN (without PATTERN: of each orphan)",
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
        "Sort the input sections that wildcards of a script match, by KEY: name, alignment or none",
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
        "Order input sections by FILE: patterns of names, one a line, or OUTPUT : { PATTERNS } as in scripts",
        |state, file| {
            state.config.scripts.section_orders.push(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["symbol-ordering-file"],
        "FILE",
        "Put the sections of the symbols that FILE names, one a line, first and in that order",
        |state, file| {
            state.config.scripts.symbol_order = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    flag(
        &["warn-symbol-ordering"],
        "Warn about names in ordering files that order nothing (default)",
        |state| {
            state.config.diagnostics.warn_symbol_ordering = true;
        },
    ),
    flag(
        &["no-warn-symbol-ordering"],
        "Do not warn about names in ordering files that order nothing",
        |state| {
            state.config.diagnostics.warn_symbol_ordering = false;
        },
    ),
    optional(
        &["call-graph-profile-sort"],
        "WAY",
        "Order functions by the profiles in objects: hfsort (default), cdsort (the same here) or none",
        |state, way| {
            let ways = [("hfsort", true), ("cdsort", true), ("none", false)];
            state.config.layout.call_graph_sort = word(way.unwrap_or(b"hfsort"), &ways)?;
            Ok(())
        },
    ),
    flag(&["no-call-graph-profile-sort"], "Do not order functions by the profiles in objects", |state| {
        state.config.layout.call_graph_sort = false;
    }),
    value(
        &["call-graph-ordering-file"],
        "FILE",
        "Order functions by the calls in FILE (lines of caller, function, count), not by profiles in objects",
        |state, file| {
            state.config.scripts.call_graph = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["irpgo-profile"],
        "FILE",
        "Take the traces of the program's start from FILE, a profile of LLVM's instrumentation",
        |state, file| {
            state.config.layout.balance.profile = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["bp-startup-sort"],
        "WHAT",
        "Put functions that the traces of --irpgo-profile call first and close together: function or none",
        |state, what| {
            state.config.layout.balance.startup = word(what, &[("function", true), ("none", false)])?;
            Ok(())
        },
    ),
    flag(
        &["bp-compression-sort-startup-functions"],
        "Put similar functions of --bp-startup-sort beside each other, too, so that they compress better",
        |state| state.config.layout.balance.similar_startup = true,
    ),
    flag(
        &["no-bp-compression-sort-startup-functions"],
        "Order functions of --bp-startup-sort only by the traces (default)",
        |state| state.config.layout.balance.similar_startup = false,
    ),
    value(
        &["bp-compression-sort"],
        "WHAT",
        "Put similar sections beside each other, so that the output compresses better: function, data, both or none",
        |state, what| {
            let (yes, no) = (true, false);
            let kinds =
                [("none", (no, no)), ("function", (yes, no)), ("data", (no, yes)), ("both", (yes, yes))];
            let balance = &mut state.config.layout.balance;
            (balance.functions, balance.data) = word(what, &kinds)?;
            Ok(())
        },
    ),
    value(
        &["bp-compression-sort-section"],
        "PATTERN[=LAYOUT[=MATCH]]",
        "Put similar ones of the sections that match PATTERN beside each other; groups of lower LAYOUT come first; of several patterns, the one of lowest MATCH counts",
        |state, text| {
            state.config.layout.balance.groups.push(compression_group(text)?);
            Ok(())
        },
    ),
    flag(
        &["verbose-bp-section-orderer"],
        "Say how many sections --bp-startup-sort and --bp-compression-sort have ordered",
        |state| state.config.layout.balance.verbose = true,
    ),
    optional(
        &["shuffle-sections"],
        "[PATTERN=]SEED",
        "Reorder input sections that match PATTERN (default: all): SEED -1 reverses, any other SEED (default: 0) gives one fixed order",
        |state, text| {
            let text = text.unwrap_or(b"0");
            let (pattern, seed) =
                if text.contains(&b'=') { pair(text, "PATTERN=SEED")? } else { (&b"*"[..], text) };
            let shuffle = Shuffle { pattern: pattern.to_vec(), order: shuffle_order(seed)? };
            state.config.layout.shuffles.push(shuffle);
            Ok(())
        },
    ),
    value(
        &["randomize-section-padding"],
        "SEED",
        "Put bytes before some sections and at the start of segments, as SEED chooses them",
        |state, seed| {
            state.config.layout.padding_seed = Some(number(seed)?);
            Ok(())
        },
    ),
    flag(
        &["zero-to-bss"],
        "Give writable sections of zeros no space in the file, as .bss has none",
        |state| {
            state.config.layout.zeros_as_bss = true;
        },
    ),
    flag(&["reverse-sections"], "Reverse the input sections, as --shuffle-sections=-1 does", |state| {
        let shuffle = Shuffle { pattern: b"*".to_vec(), order: ShuffleOrder::Reverse };
        state.config.layout.shuffles.push(shuffle);
    }),
    flag(
        &["enable-non-contiguous-regions"],
        "Move sections that do not fit their memory region to the next statement that matches them",
        |state| state.config.layout.non_contiguous_regions = true,
    ),
    flag(
        &["enable-non-contiguous-regions-warnings"],
        "Warn about each section that --enable-non-contiguous-regions moves",
        |state| state.config.layout.non_contiguous_regions_warnings = true,
    ),
    optional(
        &["split-by-file"],
        "SIZE",
        "With -r, begin another output section before one reaches SIZE bytes (default 1: one for each input)",
        |state, size| {
            state.config.layout.split_by_file = Some(size.map_or(Ok(1), number)?);
            Ok(())
        },
    ),
    optional(
        &["split-by-reloc"],
        "COUNT",
        "With -r, begin another output section before one reaches COUNT relocations (default 32768)",
        |state, count| {
            state.config.layout.split_by_reloc = Some(count.map_or(Ok(32768), number)?);
            Ok(())
        },
    ),
    flag(
        &["force-group-allocation"],
        "With -r, dissolve section groups and link their members like other sections",
        |state| {
            state.config.layout.force_group_allocation = true;
        },
    ),
    flag(&["rosegment"], "Keep read-only data in a segment of its own", |state| {
        state.config.layout.rosegment = Some(true);
    }),
    value(
        &["spare-program-headers"],
        "N",
        "Leave room for N more program headers, which other tools may fill",
        |state, count| {
            const MOST: u64 = 1000;
            let count = number(count)?;
            if count > MOST {
                return Err(format!("at most {MOST} are allowed"));
            }
            state.config.layout.spare_program_headers = count as u32;
            Ok(())
        },
    ),
    flag(&["execute-only"], "Let code be run and not read, in segments that hold nothing else", |state| {
        state.config.layout.execute_only = true;
    }),
    flag(&["no-execute-only"], "Let code be read, too (default)", |state| {
        state.config.layout.execute_only = false;
    }),
    flag(
        &["xosegment"],
        "Give code that is marked as pure segments of its own, which cannot be read",
        |state| {
            state.config.layout.xosegment = true;
        },
    ),
    flag(&["no-xosegment"], "Let pure code share segments with other code (default)", |state| {
        state.config.layout.xosegment = false;
    }),
    flag(&["no-rosegment"], "Put read-only data into the segment of the code", |state| {
        state.config.layout.rosegment = Some(false);
    }),
    value(
        &["O"],
        "LEVEL",
        "Merge no strings and constants (0 or fast), equal ones (1, default or -), also strings that end another (2)",
        |state, level| {
            state.config.layout.optimization = match level {
                b"-" | b"default" => 1,
                b"fast" => 0,
                _ => number(level)?.min(2) as u8,
            };
            Ok(())
        },
    ),
    flag(&["check-sections"], "Report overlapping sections as an error (default)", |state| {
        state.config.layout.check_sections = true;
    }),
    flag(&["no-check-sections"], "Allow sections to overlap", |state| {
        state.config.layout.check_sections = false;
    }),
];

fn start_section(state: &mut State<'_>, section: &[u8], text: &[u8]) -> Outcome {
    let start = address(text)?;
    state.config.layout.section_starts.push((section.to_vec(), start));
    Ok(())
}

/// Reads a seed. `-1` reverses the order; any other negative number wraps around at 32 bits, as in lld.
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

/// Reads `PATTERN[=LAYOUT[=MATCH]]`.
fn compression_group(text: &[u8]) -> Result<CompressionGroup, String> {
    let mut parts = text.split(|&byte| byte == b'=');
    let pattern = parts.next().unwrap_or_default().to_vec();
    let mut priority = |what: &str| match parts.next() {
        None | Some(b"") => Ok(None),
        Some(text) => {
            let read = number(text).ok().and_then(|number| u32::try_from(number).ok());
            read.map(Some).ok_or_else(|| format!("{what} '{}' is not a number of 32 bits", shown(text)))
        }
    };
    let layout_priority = priority("the layout priority")?.unwrap_or(0);
    let match_priority = priority("the match priority")?;
    if pattern.is_empty() || parts.next().is_some() {
        return Err(format!("'{}' is not of the form PATTERN[=LAYOUT[=MATCH]]", shown(text)));
    }
    Ok(CompressionGroup { pattern, layout_priority, match_priority })
}
