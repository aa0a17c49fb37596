//! Machines before one is chosen: names, ELF numbers, default directories.

use crate::cli::Machine;
use crate::elf::consts as elf;
use std::path::{Path, PathBuf};

/// The machine of an ELF header's `e_machine` and byte order; `None` for all that are not linked
/// for.
pub fn from_elf((machine, big_endian): (u16, bool)) -> Option<Machine> {
    match (machine, big_endian) {
        (elf::EM_X86_64, false) => Some(Machine::X86_64),
        (elf::EM_AARCH64, false) => Some(Machine::AArch64),
        (elf::EM_S390, true) => Some(Machine::S390x),
        _ => None,
    }
}

/// The machine's name in messages.
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

/// The directories that `-l` searches after those of the command line, below the sysroot.
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
