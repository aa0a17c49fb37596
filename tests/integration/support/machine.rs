//! The machines that programs are linked for: compilers, and emulators that run the programs here.
//!
//! A test that is about all machines takes the machine as its argument and makes its scratch directory with
//! [`Work::on`](super::Work::on). [`on_every_machine!`] lists it and makes a test of it for each machine:
//! `tls::aarch64::every_model_gives_a_shared_library_its_relocations`.
//!
//! Compilers for other machines are Debian's cross compilers, and the emulators are those of `qemu-user`.
//! They come from the tree of peer tools.

use super::tools::{self, Found, GnuLd};
use std::path::PathBuf;

/// The numbers of the relocations that dynamic linkers apply (psABI).
#[derive(Debug)]
pub struct Relocations {
    pub absolute: u32,
    pub copy: u32,
    pub glob_dat: u32,
    pub jump_slot: u32,
    pub relative: u32,
    pub irelative: u32,
    pub dtpmod: u32,
    pub dtpoff: u32,
    pub tpoff: u32,
    /// 0: the machine has no TLS descriptors.
    pub tlsdesc: u32,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    /// Its name for emulators and tests.
    pub name: &'static str,
    /// The GNU triplet, which is the prefix of the cross compiler.
    pub triple: &'static str,
    /// Whether this system's compilers are for it and this system runs its programs.
    pub native: bool,
    /// Whether its C library has start-up code for static position-independent programs.
    pub static_pie: bool,
    pub relocations: Relocations,
    /// Compiler flags that make every dynamic TLS access use one model.
    pub tls_models: &'static [(&'static str, &'static [&'static str])],
}

pub static X86_64: Machine = Machine {
    name: "x86_64",
    triple: "x86_64-linux-gnu",
    native: true,
    static_pie: true,
    relocations: Relocations {
        absolute: 1,
        copy: 5,
        glob_dat: 6,
        jump_slot: 7,
        relative: 8,
        irelative: 37,
        dtpmod: 16,
        dtpoff: 17,
        tpoff: 18,
        tlsdesc: 36,
    },
    tls_models: &[
        ("gd", &["-ftls-model=global-dynamic", "-mtls-dialect=gnu"]),
        ("ld", &["-ftls-model=local-dynamic", "-mtls-dialect=gnu"]),
        ("desc", &["-mtls-dialect=gnu2"]),
        ("ie", &["-ftls-model=initial-exec"]),
        ("noplt", &["-fno-plt", "-mtls-dialect=gnu"]),
    ],
};

pub static AARCH64: Machine = Machine {
    name: "aarch64",
    triple: "aarch64-linux-gnu",
    native: false,
    static_pie: true,
    relocations: Relocations {
        absolute: 257,
        copy: 1024,
        glob_dat: 1025,
        jump_slot: 1026,
        relative: 1027,
        irelative: 1032,
        dtpmod: 1028,
        dtpoff: 1029,
        tpoff: 1030,
        tlsdesc: 1031,
    },
    tls_models: &[
        ("gd", &["-ftls-model=global-dynamic", "-mtls-dialect=trad"]),
        ("ld", &["-ftls-model=local-dynamic", "-mtls-dialect=trad"]),
        ("desc", &["-mtls-dialect=desc"]),
        ("ie", &["-ftls-model=initial-exec"]),
    ],
};

pub static S390X: Machine = Machine {
    name: "s390x",
    triple: "s390x-linux-gnu",
    native: false,
    static_pie: false,
    relocations: Relocations {
        absolute: 22,
        copy: 9,
        glob_dat: 10,
        jump_slot: 11,
        relative: 12,
        irelative: 61,
        dtpmod: 54,
        dtpoff: 55,
        tpoff: 56,
        tlsdesc: 0,
    },
    tls_models: &[
        ("gd", &["-ftls-model=global-dynamic"]),
        ("ld", &["-ftls-model=local-dynamic"]),
        ("ie", &["-ftls-model=initial-exec"]),
    ],
};

impl Machine {
    /// Every version of GNU ld for it in the tree of peers, the newest last.
    pub fn gnu_lds(&self) -> Vec<GnuLd> {
        tools::gnu_lds((!self.native).then_some(self.triple))
    }

    /// A GNU tool for it: `gcc`, `g++`, `as`, `ar`.
    pub fn tool(&self, name: &str) -> Found {
        match self.native {
            true if matches!(name, "gcc" | "g++") => Ok(name.into()),
            true => tools::binutil(name),
            false => tools::peer_program(&format!("{}-{name}", self.triple)),
        }
    }

    /// Whether programs of this form can be linked for it.
    pub fn links(&self, form: &str) -> bool {
        form != "-static-pie" || self.static_pie
    }

    /// An assembler for it that emits SFrame V3.
    pub fn sframe_assembler(&self) -> Found {
        if self.native { tools::assembler(3) } else { tools::cross_assembler(&format!("{}-as", self.triple)) }
    }

    /// The emulator of its programs; `None` if they run without one.
    pub fn emulator(&self) -> Result<Option<PathBuf>, String> {
        if self.native { Ok(None) } else { tools::peer_program(&format!("qemu-{}", self.name)).map(Some) }
    }

    /// Where an emulator finds the machine's dynamic linker.
    pub fn sysroot(&self) -> PathBuf {
        tools::peers().join("root-own/usr").join(self.triple)
    }

    /// Why tests for it cannot run.
    fn missing(&self) -> Option<String> {
        let needed = [self.tool("gcc"), self.tool("g++"), self.tool("ar")];
        let tools = needed.into_iter().find_map(Result::err);
        tools.or_else(|| self.emulator().err())
    }
}

/// Runs a test for a machine, or reports that it is skipped.
#[track_caller]
pub fn check(machine: &'static Machine, test: impl FnOnce(&'static Machine)) {
    match machine.missing() {
        Some(reason) => tools::skip(std::any::type_name_of_val(&test), &reason),
        None => test(machine),
    }
}

/// Makes a test for every machine from each of these functions.
#[macro_export]
macro_rules! on_every_machine {
    ($($test:ident),* $(,)?) => {
        mod x86_64 {
            $(#[test] fn $test() { $crate::support::machine::check(&$crate::support::machine::X86_64, super::$test) })*
        }
        mod aarch64 {
            $(#[test] fn $test() { $crate::support::machine::check(&$crate::support::machine::AARCH64, super::$test) })*
        }
        mod s390x {
            $(#[test] fn $test() { $crate::support::machine::check(&$crate::support::machine::S390X, super::$test) })*
        }
    };
}
