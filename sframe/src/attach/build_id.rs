//! Computes the build-id of a changed file again.

use super::super::edit::Image;
use super::super::open::Problem;
use build_id::Algorithm;
use elf::{consts, notes::notes};
use zerocopy::byteorder::ByteOrder;

/// Computes the build-id again: a hash of the file, with zeros in place of the build-id. The length of the
/// build-id decides which algorithm computes it.
///
/// # Errors
/// The file has no build-id, or no known algorithm gives one of this length.
pub fn recompute<E: ByteOrder>(name: &str, bytes: &mut [u8]) -> Result<(), Problem> {
    let problem = |message: String| Problem::new(name, message);
    let place = {
        let image = Image::<E>::parse(name, bytes)?;
        find(&image)
            .ok_or_else(|| problem("no build-id to compute anew; --build-id=keep changes none".into()))?
    };
    if let Some(descriptor) = bytes.get_mut(place.clone()) {
        descriptor.fill(0);
    }
    let algorithm = Algorithm::of_length(place.len()).ok_or_else(|| {
        let message =
            "its build-id has {} bytes, expected 8, 16, 20 or 32; --build-id=keep leaves it as it is";
        problem(message.replace("{}", &place.len().to_string()))
    })?;
    let hash = algorithm.hash(bytes, &[]);
    if let Some(descriptor) = bytes.get_mut(place) {
        descriptor.copy_from_slice(&hash);
    }
    Ok(())
}

/// The place of the build-id in the file.
fn find<E: ByteOrder>(image: &Image<'_, E>) -> Option<std::ops::Range<usize>> {
    let segments = image.segments.iter().filter(|s| s.p_type.get() == consts::PT_NOTE);
    let segments = segments.map(|s| (s.p_offset.get(), s.p_filesz.get(), s.p_align.get()));
    let sections = image.sections.iter().filter(|s| s.sh_type.get() == consts::SHT_NOTE);
    let sections = sections.map(|s| (s.sh_offset.get(), s.sh_size.get(), s.sh_addralign.get()));
    segments.chain(sections).find_map(|(offset, size, alignment)| {
        let data = image.range(offset, size)?;
        let note = notes::<E>(data, alignment as usize)
            .find(|note| note.name == b"GNU" && note.kind == consts::NT_GNU_BUILD_ID)?;
        let start = note.descriptor.as_ptr() as usize - image.bytes.as_ptr() as usize;
        Some(start..start + note.descriptor.len())
    })
}
