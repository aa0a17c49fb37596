//! Ways of writing a large file that many threads make in pieces, as a linker's jobs make an output.
//!
//! Each piece is made in a buffer of its thread and then brought into the file. Making one costs about what
//! relocating it would: its bytes are copied four times within the processor's cache. The file gets a
//! temporary name, and its own when it is whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use memmap2::MmapMut;

use crate::children;

/// Bytes of the file: about those of a compiler's program.
const SIZE: usize = if cfg!(test) { 16 << 20 } else { 192 << 20 };
/// Bytes of a piece, where a way does not say otherwise.
const PIECE: usize = 1 << 20;
/// How often the bytes of a piece are copied before they are written.
const COPIES: usize = 4;
/// What O_DIRECT asks of addresses, offsets and sizes.
const ALIGNED: usize = 4096;

/// A way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// System calls, each of so many bytes.
    Calls(usize),
    /// System calls that go past the system's cache.
    Direct,
    /// Requests in a ring of each thread, two at a time.
    Ring,
    /// One thread writes what the others make.
    OneWriter,
    /// A shared mapping.
    Mapping,
    /// A shared mapping whose pages are made before a piece is copied there.
    Populated,
    /// A shared mapping that may have huge pages.
    Huge,
}

impl Way {
    pub const ALL: [Way; 9] = [
        Way::Calls(64 << 10),
        Way::Calls(PIECE),
        Way::Calls(8 << 20),
        Way::Direct,
        Way::Ring,
        Way::OneWriter,
        Way::Mapping,
        Way::Populated,
        Way::Huge,
    ];

    pub fn name(self) -> String {
        match self {
            Way::Calls(bytes) => format!("system calls of {} KiB", bytes >> 10),
            Way::Direct => "the same past the cache (`O_DIRECT`), 1,024 KiB".into(),
            Way::Ring => "`io_uring`, two requests of 1,024 KiB for each thread".into(),
            Way::OneWriter => "one thread writes, the others make".into(),
            Way::Mapping => "a shared mapping".into(),
            Way::Populated => "the same, `MADV_POPULATE_WRITE` for each piece".into(),
            Way::Huge => "the same, `MADV_HUGEPAGE`".into(),
        }
    }

    fn piece(self) -> usize {
        if let Way::Calls(bytes) = self { bytes } else { PIECE }
    }
}

/// The cost of one file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub wall: Duration,
    /// Processor time of all threads, the system's included.
    pub cpu: Duration,
}

/// Writes the file at `path` with so many threads. `over` says whether the last one is still there.
///
/// # Errors
/// The system's, above all that the file system does not offer the way.
pub fn write(way: Way, threads: usize, path: &Path, over: bool) -> io::Result<Cost> {
    if !over && path.exists() {
        std::fs::remove_file(path)?;
    }
    let temporary = path.with_extension("new");
    let before = processor_time();
    let started = Instant::now();
    let written = fill(way, threads, &temporary);
    if let Err(error) = written {
        drop(std::fs::remove_file(&temporary));
        return Err(error);
    }
    std::fs::rename(&temporary, path)?;
    Ok(Cost { wall: started.elapsed(), cpu: processor_time().saturating_sub(before) })
}

fn fill(way: Way, threads: usize, path: &Path) -> io::Result<()> {
    let file = create(way, path)?;
    // SAFETY: this reserves room in a file that is this process's own.
    let reserved = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, SIZE as libc::off_t) };
    if reserved != 0 {
        return Err(io::Error::last_os_error());
    }
    match way {
        Way::Calls(_) | Way::Direct => by_calls(way, threads, &file),
        Way::Ring => by_rings(threads, &file),
        Way::OneWriter => by_one_writer(threads, &file),
        Way::Mapping | Way::Populated | Way::Huge => by_mapping(way, threads, &file),
    }
}

fn create(way: Way, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    if way == Way::Direct {
        options.custom_flags(libc::O_DIRECT);
    }
    options.open(path)
}

/// User and system time of this process so far.
fn processor_time() -> Duration {
    // SAFETY: `rusage` is plain data that may be all zeros, and the call fills it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    children::processor_time(&usage)
}

/// A buffer in which pieces are made.
struct Maker {
    source: Vec<u8>,
    buffer: Vec<u8>,
    /// Where the aligned part of the buffer begins.
    start: usize,
    piece: usize,
}

impl Maker {
    fn new(piece: usize) -> Self {
        let buffer = vec![0; piece + ALIGNED];
        let start = buffer.as_ptr().align_offset(ALIGNED);
        Maker { source: vec![0xa5; piece], buffer, start, piece }
    }

    /// Makes a piece.
    fn make(&mut self, number: usize) -> &[u8] {
        self.source[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let bytes = &mut self.buffer[self.start..self.start + self.piece];
        for _ in 0..COPIES {
            bytes.copy_from_slice(std::hint::black_box(&self.source));
        }
        bytes
    }
}

/// Runs `work` on so many threads. The first error of any comes back.
fn on_threads(threads: usize, work: impl Fn() -> io::Result<()> + Sync) -> io::Result<()> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        let ends = others.into_iter().map(|thread| thread.join().expect("no thread of this panics"));
        let own = work();
        ends.fold(own, io::Result::and)
    })
}

fn by_calls(way: Way, threads: usize, file: &File) -> io::Result<()> {
    let piece = way.piece();
    let next = AtomicUsize::new(0);
    on_threads(threads, || {
        let mut maker = Maker::new(piece);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number * piece >= SIZE {
                return Ok(());
            }
            file.write_all_at(maker.make(number), (number * piece) as u64)?;
        }
    })
}

fn by_rings(threads: usize, file: &File) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    on_threads(threads, || {
        // After an error, requests may still read the buffers. Those stay then.
        let mut makers = ManuallyDrop::new([Maker::new(PIECE), Maker::new(PIECE)]);
        by_ring(&mut makers, &next, file)?;
        drop(ManuallyDrop::into_inner(makers));
        Ok(())
    })
}

/// Writes pieces of one thread. If all went well, no request is left.
fn by_ring(makers: &mut [Maker; 2], next: &AtomicUsize, file: &File) -> io::Result<()> {
    let mut ring = IoUring::new(2)?;
    for turn in 0.. {
        // The requests of a ring end in any order, so that both have to end before a buffer is free.
        if turn % 2 == 0 {
            finish(&mut ring, turn.min(2))?;
        }
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number * PIECE >= SIZE {
            return finish(&mut ring, turn % 2);
        }
        let bytes = makers[turn % 2].make(number);
        let target = types::Fd(file.as_raw_fd());
        let request = opcode::Write::new(target, bytes.as_ptr(), PIECE as u32);
        let request = request.offset((number * PIECE) as u64).build();
        // SAFETY: the buffer is not touched before the request has ended, and the caller keeps it for good if
        // this returns an error or panics before that.
        unsafe { ring.submission().push(&request) }.map_err(io::Error::other)?;
        ring.submit()?;
    }
    Ok(())
}

/// Waits until so many requests have ended.
fn finish(ring: &mut IoUring, requests: usize) -> io::Result<()> {
    if requests == 0 {
        return Ok(());
    }
    ring.submit_and_wait(requests)?;
    for end in ring.completion() {
        match end.result() {
            error if error < 0 => return Err(io::Error::from_raw_os_error(-error)),
            written if written as usize != PIECE => return Err(io::ErrorKind::WriteZero.into()),
            _ => {}
        }
    }
    Ok(())
}

fn by_one_writer(threads: usize, file: &File) -> io::Result<()> {
    if threads == 1 {
        return by_calls(Way::Calls(PIECE), 1, file);
    }
    let next = AtomicUsize::new(0);
    let (full, filled): (SyncSender<(usize, Maker)>, Receiver<_>) = sync_channel(2 * threads);
    let (empty, emptied) = sync_channel(2 * threads);
    (0..2 * threads).for_each(|_| drop(empty.send(Maker::new(PIECE))));
    let emptied = Arc::new(Mutex::new(emptied));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let (full, emptied, next) = (full.clone(), Arc::clone(&emptied), &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let free = emptied.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let (Ok(mut maker), true) = (free, number * PIECE < SIZE) else { return };
                    maker.make(number);
                    if full.send((number, maker)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(full);
        for (number, maker) in filled {
            let bytes = &maker.buffer[maker.start..maker.start + PIECE];
            file.write_all_at(bytes, (number * PIECE) as u64)?;
            drop(empty.send(maker));
        }
        Ok(())
    })
}

fn by_mapping(way: Way, threads: usize, file: &File) -> io::Result<()> {
    // SAFETY: the file is this process's own under a name that nobody else knows.
    let mut mapping = unsafe { MmapMut::map_mut(file)? };
    if way == Way::Huge {
        mapping.advise(memmap2::Advice::HugePage)?;
    }
    let pieces = Mutex::new(mapping.chunks_mut(PIECE).enumerate());
    on_threads(threads, || {
        let mut maker = Maker::new(PIECE);
        loop {
            let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, bytes)) = next else { return Ok(()) };
            if way == Way::Populated {
                // SAFETY: the bytes are whole pages of the mapping, and keep their contents.
                let made = unsafe {
                    libc::madvise(bytes.as_mut_ptr().cast(), bytes.len(), libc::MADV_POPULATE_WRITE)
                };
                if made != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            bytes.copy_from_slice(maker.make(number));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_writes_every_piece() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for way in Way::ALL {
            for threads in [1, 3] {
                // A file system or a system without the way says so.
                let Ok(_) = write(way, threads, &path, true) else { continue };
                let bytes = std::fs::read(&path).unwrap();
                assert_eq!(bytes.len(), SIZE, "{way:?}");
                for (number, piece) in bytes.chunks(way.piece()).enumerate() {
                    let stamp = u64::from_le_bytes(piece[..8].try_into().unwrap());
                    assert_eq!(stamp, number as u64, "{way:?} with {threads} threads");
                    assert!(piece[8..].iter().all(|&byte| byte == 0xa5), "{way:?}");
                }
            }
        }
    }
}
