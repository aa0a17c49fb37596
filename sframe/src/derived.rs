//! Derives SFrame in memory from a file's `.eh_frame`.

use super::open::{Input, Problem, SFrameSection};
use sframe_format::Version;
use sframe_format::derive::derive_linked;
use sframe_format::write::Options;
use std::borrow::Cow;

/// Name of derived sections.
pub const NAME: &str = ".sframe (derived)";

/// Replaces the SFrame sections of a file by sections that are derived from its `.eh_frame`, at free
/// addresses. If `.eh_frame` has no functions, the file gets no section.
///
/// # Errors
/// `.eh_frame` cannot be read.
pub fn replace(input: &mut Input<'_>, version: Version) -> Result<(), Problem> {
    let Some(abi) = input.abi else { return Ok(()) };
    let options = Options::new(abi).version(version);
    let mut address = input.free_address;
    let mut sections = Vec::new();
    for frames in &input.eh_frame {
        let header = input.eh_frame_header();
        let derived = derive_linked(options, &frames.data, frames.address, header, address)
            .map_err(|error| Problem::new(&*input.name, format!("cannot derive SFrame: {error}")))?;
        if derived.functions == 0 {
            continue;
        }
        let size = derived.bytes.len() as u64;
        sections.push(SFrameSection {
            name: NAME.into(),
            data: Cow::Owned(derived.bytes),
            address,
            relocations: Vec::new(),
            targets: Vec::new(),
            derived: true,
        });
        address = address.saturating_add(size).next_multiple_of(8);
    }
    input.sframe = sections;
    input.compact.clear();
    Ok(())
}
