//! `--oformat binary`: the bytes of the program as a loader would copy them, and nothing else.
//!
//! The image begins with the section of the lowest load address; every section stands as far behind
//! it as their load addresses are apart, with zeros between. Sections without contents, and those
//! that are not loaded, are no part of it. So an image is a file without headers whose sections
//! have file offsets of their own; all else is done as for any other output.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::elf::is_alloc;
use crate::layout::Chunk;
use crate::link::Link;

/// Bytes that an image may have before it is taken for a mistake.
const MAX_IMAGE: u64 = 1 << 40;

/// Gives the sections their places in the image, and the file its size.
pub fn place<T: Target>(link: &mut Link<'_, T>) {
    let sink = link.sink;
    let layout = &mut link.layout;
    let in_image = |chunk: &Chunk<'_>| is_alloc(chunk.flags) && chunk.file_size() > 0;
    let ends = |chunk: &Chunk<'_>| chunk.load_address.saturating_add(chunk.file_size());
    let first = layout.chunks.iter().filter(|chunk| in_image(chunk)).min_by_key(|chunk| chunk.load_address);
    let last = layout.chunks.iter().filter(|chunk| in_image(chunk)).max_by_key(|chunk| ends(chunk));
    let (Some(first), Some(last)) = (first, last) else {
        layout.file_size = 0;
        layout.chunks.iter_mut().for_each(leave_out);
        return;
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
        return;
    }
    layout.file_size = size;
    for chunk in &mut layout.chunks {
        if in_image(chunk) {
            chunk.file_offset = chunk.load_address - start;
        } else {
            leave_out(chunk);
        }
    }
}

/// Takes a section's bytes out of the file.
fn leave_out(chunk: &mut Chunk<'_>) {
    chunk.sh_type = crate::elf::consts::SHT_NOBITS;
}
