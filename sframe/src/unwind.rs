//! `sframe unwind`: the stacks of a process that no longer exists, from a core file or from saved registers
//! and memory. Both the engine and the forms of output are those of `sframe stacks` (`crates/stacks`). The
//! modules find out which files were mapped where.
//!
//! | module | contents |
//! | module | contents |
//! |---|---|
//! | `core` | the files that a core file says were mapped, and those that replace them |
//! | `saved` | registers and memory that another program saved in plain files |

mod core;
mod saved;

use super::args::Unwind;
use super::open::Problem;
use super::report::{Outcome, complain};
use super::stack_output::{Plan, settings, write_all};
use stacks::kernel::Kernel;
use stacks::profile::Profile;
use stacks::session::{Session, Settings};

/// Unwinds every thread.
pub fn run(arguments: &Unwind) -> Outcome {
    match unwind(arguments) {
        Ok(true) => Outcome::Fine,
        Ok(false) => Outcome::Findings,
        Err(problem) => {
            complain(&problem);
            Outcome::Unusable
        }
    }
}

/// Writes the stacks. Returns whether all of them reach their roots.
fn unwind(arguments: &Unwind) -> Result<bool, Problem> {
    let plan = Plan::new(&arguments.output, arguments.core.as_deref())?;
    let stats = arguments.output.stats.is_some();
    let settings = settings(&arguments.rows, arguments.sysroot.clone(), stats);
    let (snapshot, mut session) = match &arguments.core {
        Some(path) => core::read(path, arguments, settings)?,
        None => saved::read(arguments, settings)?,
    };
    let mut profile = Profile::new(plan.wants_addresses());
    profile.events = snapshot.events();
    let mut complete = true;
    session.unwind_saved(&snapshot, &mut |stack| {
        complete &= stack.end.is_rooted();
        profile.add(stack);
    });
    let (files, statistics) = session.finish(&mut |_| {});
    for (_, file) in files.iter() {
        if let Err(reason) = file.image() {
            complain(&Problem::new(&*file.path, reason));
        }
    }
    let title = String::from_utf8_lossy(&snapshot.name);
    write_all(&plan, profile, &files, &statistics, &Kernel::default(), &title)?;
    Ok(complete)
}

/// Reads bytes as a core file and unwinds its threads. It has no file but the vDSO that the bytes contain.
/// For `exercise`.
pub fn exercise(bytes: &stacks::bytes::Bytes) {
    let Ok(core) = stacks::core_file::CoreFile::read(bytes) else { return };
    let mut session = Session::new(core.snapshot.abi, Settings::default());
    core.map_vdso(&mut session);
    session.unwind_saved(&core.snapshot, &mut |_| {});
}

#[cfg(test)]
mod tests;
