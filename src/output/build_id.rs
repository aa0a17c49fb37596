//! The identifier in `.note.gnu.build-id`: a hash of the whole file, with zeros in the place of the
//! identifier (`build_id::Digests`).

use crate::arch::Target;
use crate::cli::BuildId;
use crate::phase::Image;
use crate::synth::notes;
use crate::tables::section::Kind;
use build_id::Algorithm;
use std::io::Read;

/// The algorithm that hashes the contents of the file: for the build-id, or to tell its debug file from those
/// of other links. `None`: nobody needs a hash.
pub fn algorithm<T: Target>(link: &Image<'_, T>) -> Option<Algorithm> {
    let for_debug_file = link.config.strip.separate_debug.is_some().then_some(Algorithm::Fast);
    match link.config.notes.build_id {
        _ if place(link).is_none() => for_debug_file,
        BuildId::None | BuildId::Hex(_) => for_debug_file,
        BuildId::Fast => Some(Algorithm::Fast),
        BuildId::Md5 => Some(Algorithm::Md5),
        BuildId::Sha1 => Some(Algorithm::Sha1),
        BuildId::Sha256 => Some(Algorithm::Sha256),
        BuildId::Uuid => None,
    }
}

/// Writes the identifier into the file, which is finished otherwise, and returns it. `hash` is that of
/// [`algorithm`]. `None`: the file has none, or the command line gave one.
///
/// # Errors
/// The system has no random bytes for `--build-id=uuid`.
pub fn write<T: Target>(
    link: &Image<'_, T>,
    file: &mut [u8],
    hash: Option<&[u8]>,
) -> std::io::Result<Option<Vec<u8>>> {
    let identifier = match (&link.config.notes.build_id, hash) {
        _ if place(link).is_none() => return Ok(None),
        // A given identifier is already in the file: the note was written with it.
        (BuildId::None | BuildId::Hex(_), _) => return Ok(None),
        (BuildId::Uuid, _) => random_uuid()?.to_vec(),
        (_, hash) => hash.unwrap_or_default().to_vec(),
    };
    store(link, file, &identifier);
    Ok(Some(identifier))
}

/// Writes this identifier into a file.
pub fn store<T: Target>(link: &Image<'_, T>, file: &mut [u8], identifier: &[u8]) {
    let place = place(link).and_then(|place| file.get_mut(place..)?.get_mut(..identifier.len()));
    if let Some(out) = place {
        out.copy_from_slice(identifier);
    }
}

/// File offset of the identifier; `None` if a script leaves the note without bytes (`NOLOAD`).
fn place<T: Target>(link: &Image<'_, T>) -> Option<usize> {
    let row = link.synthetics.find(Kind::BuildIdNote)?;
    let section = &link.file_sections[link.chunk_of(Kind::BuildIdNote)?.index()];
    if section.file_size() == 0 {
        return None;
    }
    let offset = link.layout.offset_of(link.synthetic_id(row));
    Some((section.offset + offset) as usize + notes::DESCRIPTOR_OFFSET)
}

/// A random identifier (RFC 9562, version 4).
fn random_uuid() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::random_uuid;

    #[test]
    fn random_identifiers_carry_version_and_variant() {
        let bytes = random_uuid().unwrap();
        assert_eq!((bytes[6] >> 4, bytes[8] >> 6), (4, 2));
    }
}
