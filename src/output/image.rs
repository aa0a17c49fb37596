//! `--oformat binary`: the bytes of the program as a loader would copy them, and nothing else.
//!
//! The image begins with the section that has the lowest load address. The distance between two sections is
//! that of their load addresses, and zeros fill the gaps. An image omits sections without contents and
//! sections that are not loaded. So an image is a file without headers in which sections have other file
//! offsets; all other passes treat it like any output.

use crate::chunks::{Chunk, Layout};
use crate::diag::{Code, Diagnostic, Sink};
use crate::elf::is_alloc;
use crate::phase::FileSection;

/// Largest size of an image, in bytes. A larger one means a mistake in the load addresses.
const MAX_IMAGE: u64 = 1 << 40;

/// Gives the sections their file offsets in the image. Returns the size of the file, or 0 after an error.
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

/// Removes a section's bytes from the file.
fn leave_out(section: &mut FileSection<'_>) {
    section.sh_type = crate::elf::consts::SHT_NOBITS;
}
