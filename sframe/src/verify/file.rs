//! Verifies one file: checks the structure of its sections, and compares them with `.eh_frame`.

use super::compare::{self, Comparison};
use super::structure;
use crate::open::Input;
use sframe_format::Version;
use sframe_format::verify::Finding;

/// The findings about one file.
pub struct Verified {
    /// Findings of each section.
    pub structure: Vec<Vec<Finding>>,
    /// Versions of the blobs, in ascending order and without repetition.
    pub versions: Vec<Version>,
    /// Number of functions in the SFrame sections.
    pub functions: u64,
    /// The comparison with `.eh_frame`, if the file has one.
    pub comparison: Option<Comparison>,
}

/// Verifies one file. `version` is the requested version; it applies if the file has no blob.
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
