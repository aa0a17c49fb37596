//! `sframe verify`: checks that the section is well-formed and agrees with call frame information.
//!
//! | module | contents |
//! |---|---|
//! | `structure` | the demands of the format |
//! | `cfi` | `.eh_frame`, read anew |
//! | `machine` | rules of both sides, carried out on made-up machines |
//! | `compare` | both sides brought together by address |
//! | `explain` | why code is not covered, and differences in words |
//! | `report` | the printed text |

mod cfi;
mod compare;
mod explain;
mod machine;
mod report;
mod structure;

use super::args::Verify;
use super::derived;
use super::inputs::{self, FileResult};
use super::open::{Input, Problem};
use super::report::Outcome;
use compare::Comparison;
use sframe_format::Version;
use sframe_format::verify::Finding;

pub use report::{FileReport, Total};

/// The findings about one file.
pub struct Verified {
    /// Findings of each section.
    pub structure: Vec<Vec<Finding>>,
    /// Versions of the blobs, ascending, without repetition.
    pub versions: Vec<Version>,
    /// Functions of the SFrame sections.
    pub functions: u64,
    /// Comparison with `.eh_frame`, if the file has one.
    pub comparison: Option<Comparison>,
}

/// Verifies one file. `version` is the one that was asked for, should nothing of the file be expressed.
pub fn verify_input(input: &Input<'_>, version: Version) -> Verified {
    let structure = input.sframe.iter().map(|section| structure::check(input, section)).collect();
    let headers =
        input.sframe.iter().flat_map(|section| section.section().blobs()).map(|blob| *blob.header());
    let (mut versions, mut functions) = (Vec::new(), 0u64);
    for header in headers {
        versions.push(header.version);
        functions += u64::from(header.fde_count);
    }
    versions.sort_unstable();
    versions.dedup();
    let abi = input.abi.filter(|_| !input.eh_frame.is_empty());
    Verified {
        structure,
        versions,
        functions,
        comparison: abi.map(|abi| compare::compare(abi, version, input)),
    }
}

/// Verifies all files.
pub fn run(arguments: &Verify) -> Outcome {
    let version = arguments.derivation.version();
    let results = inputs::for_each_file(&arguments.files, arguments.address, &|mut input| {
        let derive = arguments.derivation.wanted(&input);
        if derive {
            derived::replace(&mut input, version)?;
        }
        if input.sframe.is_empty() && !derive {
            return Ok(None);
        }
        let verified = verify_input(&input, version);
        Ok(Some(FileReport::new(&input, &verified, arguments)))
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
    report::print(&reports, &total, arguments);
    outcome
}

fn missing(name: &str, arguments: &Verify) -> Problem {
    let advice = if arguments.derivation.derived { "" } else { "; --derived verifies what .eh_frame gives" };
    Problem::new(name, format!("no SFrame section{advice}"))
}

#[cfg(test)]
mod tests;
