//! The workloads: which links are timed, and how they differ for one linker or another.

use std::path::Path;

use ::peers::{Family, Linker};
use anyhow::{Context, Result};
use clap::ValueEnum;

use super::case::{Case, must_run};
use super::{functions, generated, programs};

/// A link that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    Tiny,
    Static,
    Rust,
    Llvm,
    LlvmGc,
    LlvmScript,
    Functions,
    #[value(name = "generated-500")]
    Generated500,
    #[value(name = "generated-2000")]
    Generated2000,
    #[value(name = "generated-8000")]
    Generated8000,
    #[value(name = "generated-30000")]
    Generated30000,
}

impl Workload {
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }

    /// The name of the folder with its inputs, which several workloads may share.
    pub fn folder(self) -> String {
        match self {
            Workload::LlvmGc | Workload::LlvmScript => Workload::Llvm.name(),
            _ => self.name(),
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Workload::Tiny => "two C++ objects and the shared C++ library",
            Workload::Static => "a C program with the static C library",
            Workload::Rust => "ripgrep with full debug information, as cargo builds it in debug mode",
            Workload::Llvm => "a C++ compiler for all targets, from the static archives of libclang and LLVM",
            Workload::LlvmGc => "the same compiler, with --gc-sections",
            Workload::LlvmScript => "the same compiler, through GNU ld's default script as -T",
            Workload::Functions => {
                "150,000 functions with SFrame; sframe-ld makes the index of all of them, others keep or drop them"
            }
            Workload::Generated500 => "500 generated objects",
            Workload::Generated2000 => "2,000 generated objects",
            Workload::Generated8000 => "8,000 generated objects",
            Workload::Generated30000 => "30,000 generated objects",
        }
    }

    pub fn prepare(self, folder: &Path) -> Result<Case> {
        match self {
            Workload::Tiny => programs::prepare_tiny(folder),
            Workload::Static => programs::prepare_static(folder),
            Workload::Rust => programs::prepare_rust(folder),
            Workload::Llvm | Workload::LlvmGc | Workload::LlvmScript => programs::prepare_llvm(folder),
            Workload::Functions => functions::prepare(folder),
            Workload::Generated500 => generated::prepare(folder, 500),
            Workload::Generated2000 => generated::prepare(folder, 2000),
            Workload::Generated8000 => generated::prepare(folder, 8000),
            Workload::Generated30000 => generated::prepare(folder, 30000),
        }
    }

    /// Makes the files that the workload needs beside those of its case.
    ///
    /// # Errors
    /// GNU ld, whose script is wanted, is not on `PATH`.
    pub fn complete(self, folder: &Path) -> Result<()> {
        if self != Workload::LlvmScript {
            return Ok(());
        }
        let text = must_run(folder, "ld.bfd", &["-pie", "--verbose"].map(String::from))?;
        let script = text.split("==================================================\n").nth(1);
        std::fs::write(folder.join(SCRIPT), script.context("ld.bfd --verbose prints no script")?)?;
        Ok(())
    }

    /// Whether a linker takes part. A script of GNU ld says of other linkers only how much of it they understand.
    pub fn takes(self, linker: &Linker) -> bool {
        self != Workload::LlvmScript || linker.is_ours()
    }

    /// Arguments before those of the case.
    pub fn arguments(self, linker: &Linker) -> &'static [&'static str] {
        match (self, linker.family) {
            (Workload::LlvmGc, _) => &["--gc-sections"],
            (Workload::LlvmScript, _) => &["-T", SCRIPT],
            (Workload::Functions, Family::SframeLd) => &["--sframe-index"],
            // wild collects garbage unless told otherwise.
            (Workload::Functions, Family::Wild) => &["--no-gc-sections"],
            _ => &[],
        }
    }

    /// Whether rows show what linkers gain by leaving work to a process behind them, and by dropping sections.
    pub fn shows_variants(self) -> bool {
        matches!(self, Workload::Rust | Workload::Llvm)
    }
}

const SCRIPT: &str = "gnu.ld";

/// The same linker without the process that takes its memory apart when it has ended, and without garbage collection
/// where that is its default.
pub fn variants(linker: &Linker) -> Vec<Linker> {
    let options: &[&str] = match linker.family {
        Family::SframeLd => &["--no-detach"],
        Family::Wild => &["--no-fork", "--no-gc-sections"],
        Family::Mold => &["--no-fork"],
        _ => &[],
    };
    let with = |option: &&str| {
        let mut variant = linker.clone();
        variant.name = format!("{} {option}", linker.name);
        variant.command.push((*option).into());
        variant
    };
    options.iter().map(with).collect()
}
