//! The hash in `.note.gnu.build-id`, which tells one file from all others.
//!
//! One thread would take long to hash a file of gigabytes. So many threads hash shards of a fixed size, and
//! the identifier is the hash of the shards' hashes. The result depends on the contents alone, not on the
//! number of threads.

use files::holes::pieces;
use parallel::ParallelSlice;
use std::ops::Range;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a shard. Another size would give the same file another identifier.
const SHARD: usize = 4 << 20;

/// The algorithms that compute build-ids, by the words of linkers' `--build-id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// `fast`: XXH3, 8 bytes.
    Fast,
    /// `md5`: 16 bytes.
    Md5,
    /// `sha1`: 20 bytes. They are those of BLAKE3, cut short. No tool recomputes an identifier, so it need
    /// not be SHA-1, which is several times slower. lld does the same.
    Sha1,
}

impl Algorithm {
    /// The algorithm whose identifiers have `length` bytes.
    pub fn of_length(length: usize) -> Option<Self> {
        match length {
            8 => Some(Self::Fast),
            16 => Some(Self::Md5),
            20 => Some(Self::Sha1),
            _ => None,
        }
    }

    /// The identifier of a file. Its `holes`, in order, count as zeros and are not read; the place of the
    /// identifier itself holds zeros.
    pub fn hash(self, file: &[u8], holes: &[Range<u64>]) -> Vec<u8> {
        match self {
            Self::Fast => shards(file, holes, |bytes| xxh3_64(bytes).to_be_bytes()).to_vec(),
            Self::Md5 => shards(file, holes, |bytes| md5::compute(bytes).0).to_vec(),
            Self::Sha1 => shards(file, holes, digest_20).to_vec(),
        }
    }
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

/// The hash of [`Algorithm::Sha1`].
fn digest_20(bytes: &[u8]) -> [u8; 20] {
    let mut digest = [0; 20];
    digest.copy_from_slice(&blake3::hash(bytes).as_bytes()[..20]);
    digest
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
            let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
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
        let whole = Algorithm::Sha1.hash(&file, &[]);
        for hole in &holes {
            file[hole.start as usize..hole.end as usize].fill(1);
        }
        assert_eq!(Algorithm::Sha1.hash(&file, &holes), whole);
    }
}
