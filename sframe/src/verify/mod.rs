//! `sframe verify`: checks that SFrame sections are well-formed and agree with call frame information.
//!
//! | module | contents |
//! |---|---|
//! | `structure` | the rules of the format |
//! | `cfi` | `.eh_frame`, read independently of the derivation |
//! | `machine` | evaluates the rules of both sides on made-up machines |
//! | `overlap` | finds ranges of addresses that overlap |
//! | `compare` | compares both sides by address |
//! | `explain` | why code is not covered, and differences in words |
//! | `file` | all of this for one file |
//! | `report` | the printed text |

mod cfi;
mod compare;
mod explain;
mod file;
mod machine;
mod overlap;
mod report;
mod structure;

use super::args::Verify;
use super::inputs::{self, FileResult};
use super::open::Problem;
use super::report::Outcome;
use super::{compact, derived};

pub use file::{Verified, verify_input};
pub use report::{FileReport, Total};

/// Verifies all files.
pub fn run(arguments: &Verify) -> Outcome {
    let version = arguments.derivation.version();
    let results = inputs::for_each_file(&arguments.files, arguments.address, &|mut input| {
        let derive = arguments.derivation.wanted(&input);
        if derive {
            derived::replace(&mut input, version)?;
        }
        if !input.has_rows() && !derive {
            return Ok(None);
        }
        let broken = compact::expand(&mut input);
        let verified = verify_input(&input, version);
        let mut report = FileReport::new(&input, &verified, arguments);
        report.add_tables(&broken);
        report.add_rewritten(&input);
        Ok(Some(report))
    });
    let mut outcome = Outcome::Fine;
    let mut total = Total::default();
    let mut reports = Vec::new();
    for result in results {
        match result {
            FileResult::Done(report) => {
                outcome = outcome.max(report.outcome(arguments.complete));
                total.add(&report);
                reports.push(report);
            }
            FileResult::Problem(problem) => {
                super::report::complain(&problem);
                total.unusable += 1;
                outcome = Outcome::Unusable;
            }
            FileResult::Nothing(name, named) => {
                total.without += 1;
                if named {
                    super::report::complain(&missing(&name, arguments));
                    outcome = Outcome::Unusable;
                }
            }
        }
    }
    outcome.max(Outcome::of(report::print(&reports, &total, arguments)))
}

fn missing(name: &str, arguments: &Verify) -> Problem {
    let advice = if arguments.derivation.derived { "" } else { "; --derived verifies what .eh_frame gives" };
    Problem::new(name, format!("no SFrame section{advice}"))
}

#[cfg(test)]
mod tests;
