//! `sframe stacks`: unwinds the samples of a recording of perf, or writes a profile in another form.

use super::args::Stacks;
use super::open::Problem;
use super::report::{Outcome, complain};
use super::samples::Samples;
use super::stack_output::{Plan, settings, write_all, write_kept};

/// Unwinds all samples and writes them. If a recording is damaged, the samples before the damage are written.
pub fn run(arguments: &Stacks) -> Outcome {
    match unwind(arguments) {
        Ok(None) => Outcome::Fine,
        Ok(Some(problem)) | Err(problem) => {
            complain(&problem);
            Outcome::Unusable
        }
    }
}

/// Writes the samples. Returns the damage of the recording, if there is any.
fn unwind(arguments: &Stacks) -> Result<Option<Problem>, Problem> {
    let plan = Plan::new(&arguments.output, Some(&arguments.recording))?;
    let stats = arguments.output.stats.is_some();
    let settings = settings(&arguments.rows, arguments.sysroot.clone(), stats);
    match Samples::read(&arguments.recording, settings, plan.wants_addresses())? {
        Samples::Kept(kept) => write_kept(&plan, &kept).map(|()| None),
        Samples::Recorded(unwound) => {
            let title = arguments.recording.display().to_string();
            let (files, statistics) = (&unwound.files, &unwound.statistics);
            write_all(&plan, unwound.profile, files, statistics, &unwound.kernel, &title)?;
            std::mem::forget(unwound.files);
            Ok(unwound.damage)
        }
    }
}
