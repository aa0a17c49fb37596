//! The workloads: which links are timed, and which arguments each linker gets in addition.

use std::path::Path;

use ::peers::{Family, Linker};
use anyhow::{Context, Result};
use clap::ValueEnum;

use super::case::{Case, must_run};
use super::generated_program::Program;
use super::{database, functions, generated, programs};

/// A link that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    Tiny,
    Static,
    Rust,
    Llvm,
    LlvmGc,
    Database,
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

    /// The name of the folder with its inputs. Several workloads may share it.
    pub fn folder(self) -> String {
        match self {
            Workload::LlvmGc => Workload::Llvm.name(),
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
            Workload::Database => {
                "RocksDB, 322 objects with per-text SFrame; sframe-ld makes the index and keeps all frames, others keep or drop them"
            }
            Workload::Functions => {
                "150,000 functions with SFrame; sframe-ld makes the index of all of them, others keep or drop them"
            }
            Workload::Generated500 => "500 generated objects",
            Workload::Generated2000 => "2,000 generated objects",
            Workload::Generated8000 => "8,000 generated objects",
            Workload::Generated30000 => "30,000 generated objects",
        }
    }

    /// The case in `folder`. It is made now if it does not exist or comes from an older recipe.
    ///
    /// # Errors
    /// An input cannot be fetched or built.
    pub fn prepared(self, folder: &Path) -> Result<Case> {
        if let Some(case) = Case::load(folder) {
            return Ok(case);
        }
        eprintln!("preparing {}", self.name());
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        let case = self.prepare(folder)?;
        case.save(folder)?;
        Ok(case)
    }

    fn prepare(self, folder: &Path) -> Result<Case> {
        match self {
            Workload::Tiny => programs::prepare_tiny(folder),
            Workload::Static => programs::prepare_static(folder),
            Workload::Rust => programs::prepare_rust(folder),
            Workload::Llvm | Workload::LlvmGc => programs::prepare_llvm(folder),
            Workload::Database => database::prepare(folder),
            Workload::Functions => functions::prepare(folder),
            Workload::Generated500 => prepare_generated(folder, 500),
            Workload::Generated2000 => prepare_generated(folder, 2000),
            Workload::Generated8000 => prepare_generated(folder, 8000),
            Workload::Generated30000 => prepare_generated(folder, 30000),
        }
    }

    /// Makes the files that the workload needs in addition to those of its case.
    ///
    /// # Errors
    /// The workload needs GNU ld's script, and GNU ld is not on `PATH`.
    pub fn complete(self, folder: &Path) -> Result<()> {
        if self != Workload::Llvm {
            return Ok(());
        }
        let text = must_run(folder, "ld.bfd", &["-pie", "--verbose"].map(String::from))?;
        let script = text.split("==================================================\n").nth(1);
        std::fs::write(folder.join(SCRIPT), script.context("ld.bfd --verbose prints no script")?)?;
        Ok(())
    }

    /// A linker with the arguments that this workload has in addition to those of its case.
    pub fn given(self, linker: &Linker) -> Linker {
        with(linker, self.arguments(linker.family))
    }

    /// A linker and its variants, which are timed in the same rounds: without the process that frees the
    /// memory after the link, without garbage collection if that is the default, with other tables of frames,
    /// and this project's linker with GNU ld's script.
    pub fn taking(self, linker: &Linker) -> Vec<Linker> {
        let given = self.given(linker);
        let named = |words: &&[&str]| {
            let mut variant = with(&given, words);
            variant.name = format!("{} {}", linker.name, words.join(" "));
            variant
        };
        let variants: Vec<Linker> = self.variants(linker.family).iter().map(named).collect();
        [vec![given], variants].concat()
    }

    fn arguments(self, family: Family) -> &'static [&'static str] {
        match (self, family) {
            (Workload::LlvmGc, _) => &["--gc-sections"],
            (Workload::Database | Workload::Functions, Family::SFrameLd) => &["--sframe-index"],
            // By default, wild collects garbage.
            (Workload::Functions, Family::Wild) => &["--no-gc-sections"],
            _ => &[],
        }
    }

    fn variants(self, family: Family) -> &'static [&'static [&'static str]] {
        match (self, family) {
            (Workload::Llvm, Family::SFrameLd) => &[&["--no-detach"], &["-T", SCRIPT]],
            (Workload::Rust, Family::SFrameLd) => &[&["--no-detach"]],
            (Workload::Database, Family::SFrameLd) => &[
                &["--no-sframe-index"],
                &["--sframe-index=compact", "--sframe=discard"],
                &["--no-sframe-index", "--sframe=discard"],
            ],
            (Workload::Database, Family::Wild) => &[&["--no-gc-sections"]],
            (Workload::Llvm | Workload::Rust, Family::Wild) => &[&["--no-fork"], &["--no-gc-sections"]],
            (Workload::Llvm | Workload::Rust, Family::Mold) => &[&["--no-fork"]],
            _ => &[],
        }
    }
}

fn prepare_generated(folder: &Path, objects: u64) -> Result<Case> {
    Ok(generated::prepare(folder, Program::usual(objects))?.0)
}

fn with(linker: &Linker, words: &[&str]) -> Linker {
    let mut linker = linker.clone();
    linker.command.extend(words.iter().map(|&word| word.to_owned()));
    linker
}

/// GNU ld's default script, in the case's folder.
pub const SCRIPT: &str = "gnu.ld";
