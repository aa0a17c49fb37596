//! The identifier in `.note.gnu.build-id`: a hash of the whole file, with zeros in the place of the
//! identifier.
//!
//! One thread would take long to hash a file of gigabytes. So many threads hash shards of a fixed size, and
//! the identifier is the hash of the shards' hashes. The result depends on the contents alone, not on the
//! number of threads.

use crate::arch::Target;
use crate::cli::BuildId;
use crate::output::file::pieces;
use crate::phase::Image;
use crate::synth::notes;
use crate::tables::section::Kind;
use md5::{Digest, Md5};
use rayon::prelude::*;
use std::io::Read;
use std::ops::Range;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a shard. Another size would give the same file another identifier.
const SHARD: usize = 4 << 20;

/// Writes the identifier into the file, which is finished otherwise. It does not touch the `holes`, which are
/// in order.
///
/// # Errors
/// The system has no random bytes for `--build-id=uuid`.
pub fn write<T: Target>(link: &Image<'_, T>, file: &mut [u8], holes: &[Range<u64>]) -> std::io::Result<()> {
    let Some(place) = place(link) else { return Ok(()) };
    let identifier = match link.config.notes.build_id {
        // A given identifier is already in the file: the note was written with it.
        BuildId::None | BuildId::Hex(_) => return Ok(()),
        BuildId::Fast => shards(file, holes, |bytes| xxh3_64(bytes).to_be_bytes()).to_vec(),
        BuildId::Md5 => shards(file, holes, |bytes| Md5::digest(bytes).into()).to_vec(),
        BuildId::Sha1 => shards(file, holes, digest_20).to_vec(),
        BuildId::Uuid => random_uuid()?.to_vec(),
    };
    if let Some(out) = file.get_mut(place..).and_then(|rest| rest.get_mut(..identifier.len())) {
        out.copy_from_slice(&identifier);
    }
    Ok(())
}

/// The identifier for these bytes of a file. `length` chooses the algorithm: 8 for the fast hash, 16 for MD5,
/// 20 for `--build-id=sha1`. `None`: no algorithm has this length.
pub fn hash(file: &[u8], length: usize) -> Option<Vec<u8>> {
    match length {
        8 => Some(shards(file, &[], |bytes| xxh3_64(bytes).to_be_bytes()).to_vec()),
        16 => Some(shards(file, &[], |bytes| -> [u8; 16] { Md5::digest(bytes).into() }).to_vec()),
        20 => Some(shards(file, &[], digest_20).to_vec()),
        _ => None,
    }
}

/// File offset of the identifier.
fn place<T: Target>(link: &Image<'_, T>) -> Option<usize> {
    let row = link.synthetics.find(Kind::BuildIdNote)?;
    let section = &link.file_sections[link.chunk_of(Kind::BuildIdNote)?.index()];
    let offset = link.places.offset[link.synthetic_id(row).index()];
    Some((section.offset + offset) as usize + notes::DESCRIPTOR_OFFSET)
}

/// The hash of the hashes of all shards. Holes count as zeros and are not read.
fn shards<const N: usize>(
    file: &[u8],
    holes: &[Range<u64>],
    hash: impl Fn(&[u8]) -> [u8; N] + Sync,
) -> [u8; N] {
    let empty = OnceLock::new();
    let of_shard = |(index, shard): (usize, &[u8])| {
        let start = (index * SHARD) as u64;
        let taken = pieces(start..start + shard.len() as u64, holes);
        match taken[..] {
            [ref all] if all.end - all.start == shard.len() as u64 => hash(shard),
            [] if shard.len() == SHARD => *empty.get_or_init(|| hash(&vec![0; SHARD])),
            _ => {
                let mut copy = vec![0; shard.len()];
                for piece in taken {
                    let bytes = (piece.start - start) as usize..(piece.end - start) as usize;
                    copy[bytes.clone()].copy_from_slice(&shard[bytes]);
                }
                hash(&copy)
            }
        }
    };
    let hashes: Vec<[u8; N]> = file.par_chunks(SHARD).enumerate().map(of_shard).collect();
    hash(hashes.as_flattened())
}

/// The hash for `--build-id=sha1`, of 20 bytes: BLAKE3, cut short. No tool recomputes an identifier, so it
/// need not be SHA-1, which is several times slower. lld does the same.
fn digest_20(bytes: &[u8]) -> [u8; 20] {
    let mut digest = [0; 20];
    digest.copy_from_slice(&blake3::hash(bytes).as_bytes()[..20]);
    digest
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
    use super::*;

    #[test]
    fn the_hash_does_not_depend_on_threads_and_does_on_every_byte() {
        let mut file = vec![7u8; 2 * SHARD + 5];
        let hash = |file: &[u8]| shards(file, &[], digest_20);
        let first = hash(&file);
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| hash(&file)), first);
        }
        *file.last_mut().unwrap() = 8;
        assert_ne!(hash(&file), first);
    }

    #[test]
    fn holes_count_as_zeros_and_are_not_read() {
        let size = 4 * SHARD as u64 + 9;
        let holes = [100..SHARD as u64 + 7, SHARD as u64 + 90..4 * SHARD as u64 + 3];
        let mut file = vec![0; size as usize];
        for piece in pieces(0..size, &holes) {
            file[piece.start as usize..piece.end as usize].fill(7);
        }
        let whole = hash(&file, 20).unwrap();
        for hole in &holes {
            file[hole.start as usize..hole.end as usize].fill(1);
        }
        assert_eq!(shards(&file, &holes, digest_20), whole[..]);
    }

    #[test]
    fn random_identifiers_carry_version_and_variant() {
        let bytes = random_uuid().unwrap();
        assert_eq!((bytes[6] >> 4, bytes[8] >> 6), (4, 2));
    }
}
