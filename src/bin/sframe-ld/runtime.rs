//! Finds the archive that a program with an unwind table needs: with the look-ups
//! (`--unwind-runtime=hooks`), or with these and an unwinder (`--unwind-runtime=full`).
//!
//! It stands first among the inputs. In a static link, an archive of the compiler has a definition of the
//! same name, and the first definition counts.

use sframe_ld::cli::{Config, InputSource, InputSpec, InputState, UnwindRuntime};
use sframe_ld::diag::{Code, Diagnostic, Location, Sink};
use std::path::PathBuf;

/// The variable that names the archive.
const VARIABLE: &str = "SFRAME_UNWIND_RUNTIME";

/// Adds the archive to the inputs of a link that needs it.
pub fn add(config: &Config, inputs: &mut Vec<InputSpec>, sink: &Sink) {
    if !config.unwind.links_runtime() || config.is_relocatable() || config.needs_32_bit_linker.is_some() {
        return;
    }
    let name = archive_name(config);
    let archive = match &config.unwind.archive {
        Some(archive) => archive.clone(),
        None => match find(&name) {
            Some(archive) => archive,
            None => {
                sink.report(
                    Diagnostic::error(Code::CannotOpen, format!("{name} is not installed with the linker"))
                        .at(Location::Argument("--unwind-table=replace".into()))
                        .note("it has the code by which exceptions find frames in the table")
                        .help("--unwind-runtime-archive=FILE names it"),
                );
                return;
            }
        },
    };
    let argument = archive.display().to_string();
    inputs
        .insert(0, InputSpec { source: InputSource::File(archive), state: InputState::default(), argument });
}

/// There is an archive of each kind for each machine.
fn archive_name(config: &Config) -> String {
    let machine = match config.machine {
        Some(machine) => machine.name().replace('-', "_"),
        None => std::env::consts::ARCH.to_owned(),
    };
    let library = match config.unwind.runtime {
        UnwindRuntime::Full => "sframe_unwinder",
        UnwindRuntime::Hooks | UnwindRuntime::Program => "sframe_exceptions",
    };
    format!("lib{library}-{}.a", machine.to_ascii_lowercase())
}

/// The archive beside the linker (in the folder of a build), or below the folder of the installation.
fn find(name: &str) -> Option<PathBuf> {
    if let Some(archive) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return Some(archive.into());
    }
    let own = std::env::current_exe().ok()?.canonicalize().ok()?;
    let places = [name.to_owned(), format!("../lib/sframe-ld/{name}")].map(|name| own.with_file_name(name));
    places.into_iter().find(|place| place.is_file())
}
