//! `--oformat binary`: the bytes of the program as a loader would copy them, and nothing else.
//!
//! The image begins with the section of the lowest load address; every section stands as far behind
//! it as their load addresses are apart, with zeros between. Sections without contents, and those
//! that are not loaded, are no part of it. So an image is a file without headers whose sections
//! have file offsets of their own; all other passes treat it as any output.

use crate::chunks::{Chunk, Layout};
use crate::diag::{Code, Diagnostic, Sink};
use crate::elf::is_alloc;
use crate::phase::FileSection;

/// Largest size of an image, in bytes. More is taken for a mistake in the load addresses.
const MAX_IMAGE: u64 = 1 << 40;

/// Gives the sections their file offsets in the image, and returns the size of the file: 0 after an error.
pub fn place(layout: &Layout<'_>, sections: &mut [FileSection<'_>], sink: &Sink) -> u64 {
    let in_image = |chunk: &Chunk<'_>| is_alloc(chunk.flags) && chunk.file_size() > 0;
    let ends = |chunk: &Chunk<'_>| chunk.load_address.saturating_add(chunk.file_size());
    let first = layout.chunks.iter().filter(|chunk| in_image(chunk)).min_by_key(|chunk| chunk.load_address);
    let last = layout.chunks.iter().filter(|chunk| in_image(chunk)).max_by_key(|chunk| ends(chunk));
    let (Some(first), Some(last)) = (first, last) else {
        sections.iter_mut().for_each(leave_out);
        return 0;
    };
    let (start, size) = (first.load_address, ends(last) - first.load_address);
    if size > MAX_IMAGE {
        let name = |chunk: &Chunk<'_>| String::from_utf8_lossy(chunk.name).into_owned();
        sink.report(
            Diagnostic::error(
                Code::LayoutError,
                format!(
                    "a binary image from {} at {:#x} to the end of {} at {:#x} would have {size:#x} bytes",
                    name(first),
                    first.load_address,
                    name(last),
                    ends(last)
                ),
            )
            .help("bring the load addresses together with AT(…) or AT>region in the linker script"),
        );
        return 0;
    }
    for (chunk, section) in layout.chunks.iter().zip(sections) {
        if in_image(chunk) {
            section.offset = chunk.load_address - start;
        } else {
            leave_out(section);
        }
    }
    size
}

/// Takes a section's bytes out of the file.
fn leave_out(section: &mut FileSection<'_>) {
    section.sh_type = crate::elf::consts::SHT_NOBITS;
}
