//! Decompresses sections that are in the output.
//!
//! The pass runs after garbage collection, so that no dead section is decompressed, and before any pass that
//! reads contents of sections which are not loaded (`fold_sections`, `merge_strings`, debug indexes, the
//! output).

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::input::ObjectFile;
use crate::input::decompress::unpack;
use crate::phase::{Inputs, SectionStates};
use parallel::ParallelSlice;
use zerocopy::byteorder::ByteOrder;

/// Decompresses kept sections. Reports those that cannot be decompressed.
pub fn run<T: Target>(link: &Inputs<'_, T>, sections: &SectionStates) {
    link.objects.par_iter().filter(|object| !object.packed.is_empty()).for_each(|object| {
        object.packed.par_iter().for_each(|entry| {
            if !sections.is_alive(object.section_id(entry.section)) {
                return;
            }
            match unpack(entry) {
                Ok(bytes) => _ = entry.bytes.set(link.store.keep(bytes)),
                Err(what) => link.sink.report(finding(object, entry.section, 0, what)),
            }
        });
    });
}

/// The message about a compressed section with malformed contents.
pub fn finding<E: ByteOrder>(
    object: &ObjectFile<'_, E>,
    section: u32,
    offset: u64,
    what: String,
) -> Diagnostic {
    Diagnostic::error(Code::Compression, format!("cannot unpack the section: {what}"))
        .at(Location::Section {
            file: object.name.to_string(),
            section: object.section_name_lossy(section as usize),
            offset,
        })
        .help("the file is damaged, or was written by a tool that compresses in another way; build it anew")
        .ordered(object.id.0, section, offset)
}
