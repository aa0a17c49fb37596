//! The hash in `.note.gnu.build-id`, which tells one file from all others.
//!
//! One thread would take long to hash a file of gigabytes, and whoever hashes a file that was just written
//! fetches all of it into the caches again. So whoever writes a part of the file adds the part's digest
//! ([`Digests::add`]), on any thread, while the bytes are still at hand. The identifier is the hash of all
//! digests with their places. What nobody has added is hashed at the end, in shards, on all threads. So the
//! identifier depends on the contents and on where parts begin, and not on the number of threads.

use files::holes::pieces;
use parallel::ParallelSlice;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// The most bytes that are hashed in one go. Another size would give the same file another identifier.
const SHARD: usize = 1 << 20;
/// How many shards one job hashes. Whoever adds no more waits for no other thread, and so does not take up
/// another job with its bytes in hand.
const SHARDS_PER_JOB: usize = 4;
/// The bytes of the longest identifier.
const LONGEST: usize = 32;

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
    /// `sha256`: 32 bytes, all of BLAKE3's.
    Sha256,
}

impl Algorithm {
    /// The algorithm whose identifiers have `length` bytes.
    pub fn of_length(length: usize) -> Option<Self> {
        match length {
            8 => Some(Self::Fast),
            16 => Some(Self::Md5),
            20 => Some(Self::Sha1),
            32 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The identifier of a file of which nobody has hashed a part. Its `holes`, in order, count as zeros and
    /// are not read; the place of the identifier itself holds zeros.
    pub fn hash(self, file: &[u8], holes: &[Range<u64>]) -> Vec<u8> {
        Digests::new(self).finish(file, holes)
    }

    /// The bytes of an identifier.
    const fn length(self) -> usize {
        match self {
            Self::Fast => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => LONGEST,
        }
    }

    /// The digest of these bytes, with zeros behind it.
    fn digest(self, bytes: &[u8]) -> [u8; LONGEST] {
        let mut digest = [0; LONGEST];
        let out = &mut digest[..self.length()];
        match self {
            Self::Fast => out.copy_from_slice(&xxh3_64(bytes).to_be_bytes()),
            Self::Md5 => out.copy_from_slice(&md5::compute(bytes).0),
            Self::Sha1 | Self::Sha256 => {
                out.copy_from_slice(&blake3::hash(bytes).as_bytes()[..self.length()]);
            }
        }
        digest
    }
}

/// The digests of parts of a file.
#[derive(Debug)]
pub struct Digests {
    algorithm: Algorithm,
    /// A part is so large that the lock is nothing beside its digest.
    parts: Mutex<Vec<Part>>,
}

/// A part of a file. The order is that of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Part {
    start: u64,
    end: u64,
    digest: [u8; LONGEST],
}

impl Digests {
    /// No digests yet.
    pub fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, parts: Mutex::default() }
    }

    /// Adds the part of the file that begins at `start`. Parts do not overlap. Another division into parts
    /// gives another identifier. Bytes that change later must follow from the others.
    pub fn add(&self, start: u64, bytes: &[u8]) {
        let shards = bytes.par_chunks(SHARD).enumerate().with_min_len(SHARDS_PER_JOB);
        shards.for_each(|(number, shard)| {
            let start = start + (number * SHARD) as u64;
            let digest = self.algorithm.digest(shard);
            let part = Part { start, end: start + shard.len() as u64, digest };
            self.lock().push(part);
        });
    }

    /// The identifier. Adds what is in no part yet, without the `holes` of the file, which are in order.
    pub fn finish(self, file: &[u8], holes: &[Range<u64>]) -> Vec<u8> {
        let size = file.len() as u64;
        let mut known: Vec<Range<u64>> = self.lock().iter().map(|part| part.start..part.end).collect();
        known.extend_from_slice(holes);
        known.sort_unstable_by_key(|range| range.start);
        for piece in pieces(0..size, &known) {
            self.add(piece.start, &file[piece.start as usize..piece.end as usize]);
        }
        let mut parts = self.lock();
        parts.sort_unstable();
        let mut all = size.to_le_bytes().to_vec();
        for Part { start, end, digest } in &*parts {
            all.extend([start.to_le_bytes(), end.to_le_bytes()].as_flattened());
            all.extend_from_slice(&digest[..self.algorithm.length()]);
        }
        self.algorithm.digest(&all)[..self.algorithm.length()].to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Algorithm; 4] = [Algorithm::Fast, Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256];

    #[test]
    fn the_hash_does_not_depend_on_threads_and_does_on_every_byte() {
        for algorithm in ALL {
            let mut file = vec![7u8; 2 * SHARD + 5];
            let first = algorithm.hash(&file, &[]);
            for threads in [1, 3] {
                let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(pool.install(|| algorithm.hash(&file, &[])), first);
            }
            assert_eq!(Algorithm::of_length(first.len()), Some(algorithm));
            for place in [0, SHARD - 1, SHARD, 2 * SHARD + 4] {
                file[place] = 8;
                assert_ne!(algorithm.hash(&file, &[]), first);
                file[place] = 7;
            }
            file.push(0);
            assert_ne!(algorithm.hash(&file, &[]), first);
        }
    }

    #[test]
    fn the_order_in_which_parts_are_added_does_not_matter_and_their_bytes_do() {
        let file: Vec<u8> = (0..5000).map(|place| place as u8).collect();
        let identifier = |parts: &[Range<usize>], file: &[u8]| {
            let digests = Digests::new(Algorithm::Sha1);
            parts.iter().for_each(|part| digests.add(part.start as u64, &file[part.clone()]));
            digests.finish(file, &[])
        };
        let parts = [100..101, 101..3000, 4000..5000, 7..7];
        let first = identifier(&parts, &file);
        let turned: Vec<Range<usize>> = parts.iter().rev().cloned().collect();
        assert_eq!(identifier(&turned, &file), first);
        for place in [0, 99, 100, 101, 2999, 3000, 3999, 4000, 4999] {
            let mut other = file.clone();
            other[place] ^= 1;
            assert_ne!(identifier(&parts, &other), first, "{place}");
        }
    }

    #[test]
    fn holes_are_not_read() {
        let size = 4 * SHARD as u64 + 9;
        let holes = [100..SHARD as u64 + 7, SHARD as u64 + 90..4 * SHARD as u64 + 3];
        let mut file = vec![7; size as usize];
        let digests = || {
            let digests = Digests::new(Algorithm::Sha1);
            digests.add(SHARD as u64 + 10, &[7; 3]);
            digests
        };
        let first = digests().finish(&file, &holes);
        for hole in &holes {
            file[hole.start as usize..hole.end as usize].fill(1);
        }
        assert_eq!(digests().finish(&file, &holes), first);
        file[SHARD + 8] = 1;
        assert_ne!(digests().finish(&file, &holes), first);
    }
}
