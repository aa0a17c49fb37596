//! Facts about machines that the linker needs before it has chosen one: names, ELF numbers, default
//! directories.

use crate::cli::{Gcs, Machine, PropertyOptions, Report};
use crate::elf::consts as elf;
use std::path::{Path, PathBuf};

/// The machine if neither an option nor an input names one.
pub const DEFAULT: Machine = Machine::X86_64;

/// The section type that the x86-64 psABI gives `.eh_frame` instead of `SHT_PROGBITS` (`SHT_X86_64_UNWIND`).
pub const SHT_UNWIND: u32 = 0x7000_0001;
/// The flag of code that holds no data, so that nobody has to read it (`SHF_AARCH64_PURECODE`). The other
/// machines do not use this bit.
pub const SHF_PURE_CODE: u64 = 0x2000_0000;
/// The section index of common symbols of the large code model (`SHN_X86_64_LCOMMON`). No other machine uses
/// this number.
pub const SHN_LARGE_COMMON: u16 = 0xff02;

/// The machine of an ELF header's `e_machine` and byte order. `None`: this linker does not support the
/// machine.
pub fn from_elf((machine, big_endian): (u16, bool)) -> Option<Machine> {
    match (machine, big_endian) {
        (elf::EM_X86_64, false) => Some(Machine::X86_64),
        (elf::EM_AARCH64, false) => Some(Machine::AArch64),
        (elf::EM_S390, true) => Some(Machine::S390x),
        _ => None,
    }
}

/// The emulation that GNU ld uses for a 32-bit file with this `e_machine` and byte order.
pub fn narrow_emulation((machine, big_endian): (u16, bool)) -> Option<&'static str> {
    match (machine, big_endian) {
        (elf::EM_386, false) => Some("elf_i386"),
        (elf::EM_X86_64, false) => Some("elf32_x86_64"),
        (elf::EM_ARM, false) => Some("armelf_linux_eabi"),
        (elf::EM_ARM, true) => Some("armelfb_linux_eabi"),
        (elf::EM_AARCH64, false) => Some("aarch64linux32"),
        (elf::EM_S390, true) => Some("elf_s390"),
        _ => None,
    }
}

/// The machine as the writer of objects names it.
pub fn object_format(machine: Machine) -> (object::Architecture, object::Endianness) {
    use object::{Architecture, Endianness};
    match machine {
        Machine::X86_64 => (Architecture::X86_64, Endianness::Little),
        Machine::AArch64 => (Architecture::Aarch64, Endianness::Little),
        Machine::S390x => (Architecture::S390x, Endianness::Big),
    }
}

/// The architecture as GNU tools name it.
pub fn architecture(machine: Machine) -> &'static str {
    match machine {
        Machine::X86_64 => "i386:x86-64",
        Machine::AArch64 => "aarch64",
        Machine::S390x => "s390:64-bit",
    }
}

/// The emulation's name in messages.
pub fn describe(machine: Machine) -> &'static str {
    match machine {
        Machine::X86_64 => "elf_x86_64",
        Machine::AArch64 => "aarch64linux",
        Machine::S390x => "elf64_s390",
    }
}

fn triple(machine: Machine) -> &'static str {
    match machine {
        Machine::X86_64 => "x86_64-linux-gnu",
        Machine::AArch64 => "aarch64-linux-gnu",
        Machine::S390x => "s390x-linux-gnu",
    }
}

/// The directories in which `-l` searches last, after those of the command line. They lie below the sysroot.
pub fn library_directories(machine: Machine, sysroot: Option<&Path>) -> Vec<PathBuf> {
    let triple = triple(machine);
    let root = sysroot.unwrap_or(Path::new("/"));
    [
        format!("usr/local/lib/{triple}"),
        format!("lib/{triple}"),
        format!("usr/lib/{triple}"),
        "usr/local/lib".into(),
        "lib64".into(),
        "lib".into(),
        "usr/lib64".into(),
        "usr/lib".into(),
    ]
    .into_iter()
    .map(|directory| root.join(directory))
    .collect()
}

const X86_FEATURE_1_AND: u32 = 0xc000_0002;
const X86_ISA_1_NEEDED: u32 = 0xc000_8002;
const X86_ISA_1_USED: u32 = 0xc001_0002;
const AARCH64_FEATURE_1_AND: u32 = 0xc000_0000;
const AARCH64_FEATURE_PAUTH: u32 = 0xc000_0001;
/// x86: indirect branch tracking.
pub const FEATURE_IBT: u32 = 1;
/// x86: shadow stack.
pub const FEATURE_SHSTK: u32 = 2;
/// x86: linear address masking of 48 bits, and of 57 bits.
pub const FEATURE_LAM_U48: u32 = 4;
/// x86: linear address masking of 57 bits.
pub const FEATURE_LAM_U57: u32 = 8;
/// AArch64: branch target identification.
pub const FEATURE_BTI: u32 = 1;
/// AArch64: pointer authentication.
pub const FEATURE_PAC: u32 = 2;
/// AArch64: guarded control stack.
pub const FEATURE_GCS: u32 = 4;

/// The program property (psABI, "Program Property") whose bits are features of the whole output: a feature
/// holds only if all objects have it.
pub fn feature_property(machine: Machine) -> Option<u32> {
    match machine {
        Machine::X86_64 => Some(X86_FEATURE_1_AND),
        Machine::AArch64 => Some(AARCH64_FEATURE_1_AND),
        Machine::S390x => None,
    }
}

/// The program property with the ABI of signed pointers: a platform and a version, each of 8 bytes. All
/// objects that have this property must agree on its value.
pub fn signed_pointer_property(machine: Machine) -> Option<u32> {
    (machine == Machine::AArch64).then_some(AARCH64_FEATURE_PAUTH)
}

/// Properties, each with the bits that options set no matter what objects say.
pub fn forced_properties(machine: Machine, options: &PropertyOptions) -> Vec<(u32, u32)> {
    let bit = |wanted: bool, bit: u32| if wanted { bit } else { 0 };
    let all = match machine {
        Machine::X86_64 => vec![
            (
                X86_FEATURE_1_AND,
                bit(options.ibt, FEATURE_IBT)
                    | bit(options.shstk, FEATURE_SHSTK)
                    | bit(options.lam_u48, FEATURE_LAM_U48)
                    | bit(options.lam_u57, FEATURE_LAM_U57),
            ),
            (X86_ISA_1_NEEDED, options.x86_64_level.map_or(0, |level| 1 << (level.clamp(1, 4) - 1))),
        ],
        Machine::AArch64 => vec![(
            AARCH64_FEATURE_1_AND,
            bit(options.force_bti, FEATURE_BTI) | bit(options.gcs == Gcs::Always, FEATURE_GCS),
        )],
        Machine::S390x => Vec::new(),
    };
    all.into_iter().filter(|(_, bits)| *bits != 0).collect()
}

/// Properties, each with the bits that options clear no matter what objects say.
pub fn forbidden_properties(machine: Machine, options: &PropertyOptions) -> Vec<(u32, u32)> {
    match machine {
        Machine::AArch64 if options.gcs == Gcs::Never => vec![(AARCH64_FEATURE_1_AND, FEATURE_GCS)],
        _ => Vec::new(),
    }
}

/// Properties whose bits are instruction sets, with their names in messages, that an option asks the linker
/// to print for each object.
pub fn printed_properties(machine: Machine, options: &PropertyOptions) -> Vec<(u32, &'static str)> {
    let levels = options.isa_levels;
    let known = [
        (levels.needed, (X86_ISA_1_NEEDED, "x86 ISA needed")),
        (levels.used, (X86_ISA_1_USED, "x86 ISA used")),
    ];
    let asked = known.into_iter().filter(|(asked, _)| *asked && machine == Machine::X86_64);
    asked.map(|(_, property)| property).collect()
}

/// The name of one bit of such a property.
pub fn instruction_set(bit: u32) -> String {
    match bit {
        1 => "x86-64-baseline".into(),
        2 => "x86-64-v2".into(),
        4 => "x86-64-v3".into(),
        8 => "x86-64-v4".into(),
        _ => format!("<unknown: {bit:#x}>"),
    }
}

/// The features (bit and name) that an option asks the linker to report when an object lacks them, and how to
/// report them.
pub fn reported_features(machine: Machine, options: &PropertyOptions) -> Vec<(Report, ReportedFeatures)> {
    match machine {
        Machine::X86_64 => vec![
            (options.cet_report, &[(FEATURE_IBT, "IBT"), (FEATURE_SHSTK, "SHSTK")]),
            (options.lam_u48_report, &[(FEATURE_LAM_U48, "LAM_U48")]),
            (options.lam_u57_report, &[(FEATURE_LAM_U57, "LAM_U57")]),
        ],
        Machine::AArch64 => {
            vec![(options.bti_report, &[(FEATURE_BTI, "BTI")]), (options.gcs_report(), GCS)]
        }
        Machine::S390x => Vec::new(),
    }
}

const GCS: &[(u32, &str)] = &[(FEATURE_GCS, "GCS")];

/// The same for shared libraries, if the output has these features: without them in every library, the
/// dynamic linker switches them off, or refuses the program.
pub fn reported_in_libraries(machine: Machine, options: &PropertyOptions) -> (Report, ReportedFeatures) {
    match machine {
        Machine::AArch64 => (options.gcs_report_dynamic(), GCS),
        _ => (Report::Ignore, &[]),
    }
}

/// Features, each with its bit and its name.
pub type ReportedFeatures = &'static [(u32, &'static str)];
