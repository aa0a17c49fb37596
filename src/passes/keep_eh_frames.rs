//! Settles which `.eh_frame` records are in the output, and where: comes when liveness is frozen,
//! and before relocations are scanned, so that only those of kept records count.

use crate::arch::Target;
use crate::frames::eh_merge;
use crate::link::Link;
use crate::synth::{Kind, eh_frame, eh_frame_hdr};

/// Gives records their offsets and the two sections made of them their sizes.
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    if link.config.is_relocatable() {
        return;
    }
    // A script that discards the linker's `.eh_frame` discards all records.
    let Some(row) = link.synthetics.find(Kind::EhFrame) else { return };
    if !link.sections.is_alive(link.synthetic_id(row)) {
        return;
    }
    let fdes = eh_merge::assign_offsets(link);
    link.synthetics.sections[row as usize].size = eh_frame::size(link);
    if let Some(row) = link.synthetics.find(Kind::EhFrameHdr) {
        link.synthetics.sections[row as usize].size = eh_frame_hdr::size(fdes);
    }
}
