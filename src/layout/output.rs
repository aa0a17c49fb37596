//! Derives the type and flags of output sections from their items.

use crate::arch::machine::{SHF_PURE_CODE, SHT_UNWIND};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::SectionId;
use crate::input::SectionInfo;
use crate::plan::{Body, OutputPlan};
use crate::script::ast::OutputSectionType;
use sframe_format::SHT_GNU_SFRAME;
use sframe_format::light::SHT_SFRAME_LIGHT;

/// The header fields of several sections, joined. Joining is associative, so blocks can be read in parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputFacts {
    /// Number of sections.
    pub count: u32,
    /// The type of all of them. If some are `SHT_NOBITS`, the type of the others; if the others differ,
    /// `SHT_PROGBITS`.
    pub sh_type: u32,
    /// The first section, and the first one whose type does not go together with the type of the first.
    pub mismatch: Option<(SectionId, SectionId)>,
    /// The first section that is not `SHT_NOBITS`.
    first: Option<(SectionId, u32)>,
    /// Flags that any of them has.
    pub any: u64,
    /// Flags that all of them have.
    pub all: u64,
    /// Entry size of all of them; 0 if they differ.
    pub entsize: u64,
    /// Bytes in all of them, without padding.
    pub bytes: u64,
    /// Whether one of them is SFrame data.
    pub sframe: bool,
    /// Whether one of them is loaded and not code.
    pub data: bool,
    /// Permissions of tables of the linker that are not counted, because they stayed empty.
    pub unused: u64,
}

impl OutputFacts {
    /// The fields of one section.
    #[inline]
    pub fn of(id: SectionId, info: &SectionInfo<'_>) -> OutputFacts {
        OutputFacts {
            count: 1,
            sh_type: info.sh_type,
            mismatch: None,
            first: (info.sh_type != elf::SHT_NOBITS).then_some((id, info.sh_type)),
            any: info.flags,
            // A section without bytes holds no data.
            all: if info.size == 0 { info.flags | SHF_PURE_CODE } else { info.flags },
            entsize: info.entsize,
            bytes: info.size,
            sframe: info.is_sframe(),
            data: info.sh_type != elf::SHT_NOBITS
                && is_alloc(info.flags)
                && info.flags & elf::SHF_EXECINSTR == 0,
            unused: 0,
        }
    }

    /// The fields of a table of the linker that stayed empty.
    pub fn of_unused(info: &SectionInfo<'_>) -> OutputFacts {
        let permissions = elf::SHF_WRITE | elf::SHF_EXECINSTR;
        OutputFacts { unused: info.flags & permissions, ..OutputFacts::default() }
    }

    /// The fields of both, joined. `self` stands first.
    #[must_use]
    #[inline]
    pub fn join(self, next: OutputFacts) -> OutputFacts {
        let unused = self.unused | next.unused;
        if self.count == 0 {
            return OutputFacts { unused, ..next };
        }
        if next.count == 0 {
            return OutputFacts { unused, ..self };
        }
        // Going together is an equivalence, so it is enough to compare everything with the first section.
        let mismatch = self.mismatch.or(match (self.first, next.first) {
            (Some((a, a_type)), Some((b, b_type))) if !go_together(a_type, b_type) => Some((a, b)),
            (Some((a, _)), _) => next.mismatch.map(|(_, other)| (a, other)),
            (None, _) => next.mismatch,
        });
        OutputFacts {
            count: self.count.saturating_add(next.count),
            sh_type: join_types(self.sh_type, next.sh_type),
            mismatch,
            first: self.first.or(next.first),
            any: self.any | next.any,
            all: self.all & next.all,
            entsize: if self.entsize == next.entsize { self.entsize } else { 0 },
            bytes: self.bytes.saturating_add(next.bytes),
            sframe: self.sframe || next.sframe,
            data: self.data || next.data,
            unused,
        }
    }
}

/// The alignment of a section, in bytes. SFrame data starts at multiples of 8, because readers look for the
/// next section's data there (SFrame rule 4). Light units need no such alignment, because they tell their
/// length.
pub fn alignment(info: &SectionInfo<'_>) -> u64 {
    if info.sh_type == SHT_GNU_SFRAME { info.align.max(8) } else { info.align.max(1) }
}

/// The type of an output section with sections of both types. Contents count more than `SHT_NOBITS`, and
/// contents of different types are `SHT_PROGBITS`.
fn join_types(a: u32, b: u32) -> u32 {
    match (a, b) {
        (a, b) if a == b => a,
        (elf::SHT_NOBITS, b) => b,
        (a, elf::SHT_NOBITS) => a,
        _ => elf::SHT_PROGBITS,
    }
}

/// Whether sections of both types can stand in one output section without a loss that deserves a warning.
fn go_together(a: u32, b: u32) -> bool {
    let plain = |sh_type| {
        matches!(
            sh_type,
            elf::SHT_PROGBITS
                | elf::SHT_INIT_ARRAY
                | elf::SHT_FINI_ARRAY
                | elf::SHT_PREINIT_ARRAY
                | elf::SHT_NOTE
                | SHT_UNWIND
                | SHT_GNU_SFRAME
                | SHT_SFRAME_LIGHT
        )
    };
    a == b || plain(a) && plain(b)
}

/// Type, flags and entry size of an output section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// The flags that the section has only because of its name. They do not choose its memory region.
    pub by_name: u64,
    /// Size of an entry in bytes; 0 if entries have no common size.
    pub entsize: u64,
}

/// The header fields of an output section, from its items and the script. `script_data` tells whether the
/// script writes bytes into it, and `script_type` is the value of `TYPE = …`.
pub fn attributes(
    plan: &OutputPlan,
    facts: &OutputFacts,
    script_data: bool,
    script_type: Option<u64>,
    relocatable: bool,
    sframe_alloc: bool,
) -> Attributes {
    let alloc = elf::SHF_ALLOC;
    let mut flags = output_flags(facts, relocatable);
    let mut sh_type = match facts.sh_type {
        _ if facts.count == 0 && script_data => elf::SHT_PROGBITS,
        _ if facts.count == 0 => elf::SHT_NOBITS,
        elf::SHT_NOBITS if script_data => elf::SHT_PROGBITS,
        sh_type => sh_type,
    };
    if facts.count == 0 && script_data && starts_with_data(plan) {
        flags |= alloc;
    } else if facts.count == 0 {
        flags |= alloc | elf::SHF_WRITE;
    }
    if script_data {
        flags &= !SHF_PURE_CODE;
    }
    // What a script adds to `.got` is as writable as the table would be.
    if facts.count == 0 && script_data {
        flags |= facts.unused;
    }
    let by_name = if facts.count == 0 { flags_by_name(&plan.name) & !flags } else { 0 };
    flags |= by_name;
    // If contents of the older form (`.ctors`) stand in an array of functions, they do not change its type.
    if sh_type == elf::SHT_PROGBITS {
        sh_type = match &plan.name[..] {
            b".init_array" => elf::SHT_INIT_ARRAY,
            b".fini_array" => elf::SHT_FINI_ARRAY,
            b".preinit_array" => elf::SHT_PREINIT_ARRAY,
            _ => sh_type,
        };
    }
    let is_sframe = matches!(sh_type, SHT_GNU_SFRAME | SHT_SFRAME_LIGHT) || plan.name.starts_with(b".sframe");
    if facts.sframe && facts.count > 0 && is_sframe {
        if sh_type != SHT_SFRAME_LIGHT {
            sh_type = SHT_GNU_SFRAME;
        }
        if !sframe_alloc {
            flags &= !alloc;
        }
    }
    match plan.kind.as_deref() {
        Some(OutputSectionType::NoLoad) => sh_type = elf::SHT_NOBITS,
        Some(OutputSectionType::NoAlloc) => {
            flags &= !alloc;
            if sh_type == elf::SHT_NOBITS {
                sh_type = elf::SHT_PROGBITS;
            }
        }
        Some(OutputSectionType::ReadOnly) => flags &= !elf::SHF_WRITE,
        Some(OutputSectionType::Type { read_only, .. }) => {
            // The type of its input sections takes precedence (GNU ld's manual, "Output Section Type").
            if let Some(value) = script_type.filter(|_| facts.count == 0) {
                sh_type = value as u32;
            }
            if *read_only {
                flags &= !elf::SHF_WRITE;
            }
        }
        None => {}
    }
    Attributes { sh_type, flags, by_name, entsize: facts.entsize }
}

/// The permissions that a section without input sections has because of its name (gABI, "Special Sections"),
/// as in GNU ld: a program can change what a script writes into `.data`, and run what it writes into `.text`.
fn flags_by_name(name: &[u8]) -> u64 {
    const WRITABLE: [&[u8]; 7] =
        [b".data", b".data1", b".tdata", b".bss", b".init_array", b".fini_array", b".preinit_array"];
    const CODE: [&[u8]; 3] = [b".text", b".init", b".fini"];
    let is_of = |family: &&[u8]| {
        name.strip_prefix(*family).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    };
    if WRITABLE.iter().any(is_of) {
        elf::SHF_WRITE
    } else if CODE.iter().any(is_of) {
        elf::SHF_EXECINSTR
    } else {
        0
    }
}

/// Whether data statements stand before all assignments. As in GNU ld, such a section is read-only if it has
/// no input sections.
fn starts_with_data(plan: &OutputPlan) -> bool {
    let first = plan.body.iter().find(|item| item.writes() || matches!(item, Body::Assignment(_)));
    first.is_some_and(Body::writes)
}

fn output_flags(facts: &OutputFacts, relocatable: bool) -> u64 {
    let merge = elf::SHF_MERGE | elf::SHF_STRINGS;
    let of_inputs = elf::SHF_INFO_LINK | elf::SHF_COMPRESSED;
    let mut flags = facts.any & !(merge | of_inputs);
    // Code is free of data if all parts are.
    if facts.all & SHF_PURE_CODE == 0 {
        flags &= !SHF_PURE_CODE;
    }
    // Only the linker's own `.rela.plt` has this flag. Its `sh_info` names the section that it applies to.
    if is_alloc(flags) {
        flags |= facts.all & elf::SHF_INFO_LINK;
    }
    // The flags stay only if all pieces have one size. Otherwise no reader could split the section into
    // pieces.
    if facts.all & elf::SHF_MERGE != 0 && facts.entsize != 0 {
        flags |= facts.all & merge;
    }
    // In later links, the flag applies to the whole section, so under `-r` all input sections must have it.
    // In a final link, plain sections may stand before the ordered ones.
    if relocatable && facts.all & elf::SHF_LINK_ORDER == 0 {
        flags &= !elf::SHF_LINK_ORDER;
    }
    if facts.all & elf::SHF_GROUP == 0 || !relocatable {
        flags &= !elf::SHF_GROUP;
    }
    if !relocatable {
        flags &= !(elf::SHF_EXCLUDE | elf::SHF_GNU_RETAIN);
    } else if facts.all & elf::SHF_EXCLUDE == 0 {
        flags &= !elf::SHF_EXCLUDE;
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Span;

    fn info(name: &'static [u8], sh_type: u32, flags: u64, entsize: u64) -> SectionInfo<'static> {
        SectionInfo { name, sh_type, flags, size: 8, align: 4, entsize }
    }

    fn joined(infos: &[SectionInfo<'static>]) -> OutputFacts {
        let facts = |(id, info)| OutputFacts::of(SectionId(id as u32), info);
        infos.iter().enumerate().map(facts).fold(OutputFacts::default(), OutputFacts::join)
    }

    fn attributes_of(name: &[u8], infos: &[SectionInfo<'static>]) -> Attributes {
        attributes(&OutputPlan::named(name, Span::default()), &joined(infos), false, None, false, true)
    }

    #[test]
    fn contents_win_over_zeros_and_writable_over_read_only() {
        let a = attributes_of(
            b".data",
            &[
                info(b".bss", elf::SHT_NOBITS, elf::SHF_ALLOC | elf::SHF_WRITE, 0),
                info(b".data", elf::SHT_PROGBITS, elf::SHF_ALLOC, 0),
            ],
        );
        assert_eq!(a.sh_type, elf::SHT_PROGBITS);
        assert_eq!(a.flags, elf::SHF_ALLOC | elf::SHF_WRITE);
    }

    #[test]
    fn merge_flags_stay_only_where_all_pieces_have_one_size() {
        let strings = elf::SHF_ALLOC | elf::SHF_MERGE | elf::SHF_STRINGS;
        let one = info(b".rodata.str1.1", elf::SHT_PROGBITS, strings, 1);
        assert_eq!(attributes_of(b".rodata", &[one, one]).flags, strings);
        let wide = SectionInfo { entsize: 4, ..one };
        assert_eq!(attributes_of(b".rodata", &[one, wide]).flags, elf::SHF_ALLOC);
        let plain = info(b".rodata", elf::SHT_PROGBITS, elf::SHF_ALLOC, 0);
        assert_eq!(attributes_of(b".rodata", &[one, plain]).flags, elf::SHF_ALLOC);
    }

    #[test]
    fn old_constructors_join_an_array_of_functions() {
        let a = attributes_of(
            b".init_array",
            &[
                info(b".init_array", elf::SHT_INIT_ARRAY, elf::SHF_ALLOC | elf::SHF_WRITE, 8),
                info(b".ctors", elf::SHT_PROGBITS, elf::SHF_ALLOC | elf::SHF_WRITE, 0),
            ],
        );
        assert_eq!(a.sh_type, elf::SHT_INIT_ARRAY);
    }

    #[test]
    fn sframe_has_its_type_whatever_stands_beside_it() {
        let sframe = info(b".sframe", SHT_GNU_SFRAME, elf::SHF_ALLOC, 0);
        let data = info(b".sframe", elf::SHT_PROGBITS, elf::SHF_ALLOC, 0);
        assert_eq!(attributes_of(b".sframe", &[sframe]).sh_type, SHT_GNU_SFRAME);
        assert_eq!(attributes_of(b".sframe", &[data, sframe]).sh_type, SHT_GNU_SFRAME);
        assert_eq!(alignment(&SectionInfo { align: 1, ..sframe }), 8);
    }

    #[test]
    fn contradicting_types_are_reported() {
        let data = info(b"a", elf::SHT_PROGBITS, elf::SHF_ALLOC, 0);
        let strings = info(b"a", elf::SHT_STRTAB, elf::SHF_ALLOC, 0);
        assert_eq!(joined(&[data, data, strings]).mismatch, Some((SectionId(0), SectionId(2))));
        assert_eq!(joined(&[data, info(b"a", elf::SHT_NOTE, 0, 0)]).mismatch, None);
    }

    #[test]
    fn joining_is_associative() {
        let infos = [
            info(b"a", elf::SHT_NOBITS, elf::SHF_ALLOC, 0),
            info(b"b", elf::SHT_PROGBITS, elf::SHF_ALLOC | elf::SHF_WRITE, 4),
            info(b"c", elf::SHT_STRTAB, 0, 4),
            info(b"d", elf::SHT_NOTE, elf::SHF_MERGE, 0),
        ];
        let all = joined(&infos);
        for cut in 1..infos.len() {
            let of = |range: std::ops::Range<usize>| {
                range
                    .map(|id| OutputFacts::of(SectionId(id as u32), &infos[id]))
                    .fold(OutputFacts::default(), OutputFacts::join)
            };
            assert_eq!(of(0..cut).join(of(cut..infos.len())), all);
        }
    }
}
