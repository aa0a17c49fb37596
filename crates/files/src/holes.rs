//! Files with holes: stretches of zeros that take no room on a disk.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;

/// The stretches of a file of `size` bytes that take no room, in order. The file's position changes.
///
/// # Errors
/// The system's error.
pub fn gaps(file: &File, size: u64) -> io::Result<Vec<Range<u64>>> {
    let (mut gaps, mut position) = (Vec::new(), 0);
    while position < size {
        // The end of a file counts as one.
        let start = seek(file, SeekFrom::Hole(position))?.min(size);
        position = match seek(file, SeekFrom::Data(start)) {
            Ok(end) => end.min(size),
            Err(Errno::NXIO) => size,
            Err(error) => return Err(error.into()),
        };
        gaps.push(start..position);
    }
    gaps.retain(|gap| !gap.is_empty());
    Ok(gaps)
}

/// The parts of a stretch that are outside of `holes`, in order. None of them is empty. The holes must be in
/// order too.
pub fn pieces(stretch: Range<u64>, holes: &[Range<u64>]) -> Vec<Range<u64>> {
    let starts = std::iter::once(stretch.start).chain(holes.iter().map(|hole| hole.end.max(stretch.start)));
    let ends = holes.iter().map(|hole| hole.start.min(stretch.end)).chain(std::iter::once(stretch.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|piece| !piece.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::{gaps, pieces};
    use std::os::unix::fs::FileExt;

    #[test]
    fn gaps_and_what_was_written_are_the_whole_file() {
        let file = tempfile::tempfile().unwrap();
        let size = 64 << 20;
        file.set_len(size).unwrap();
        file.write_all_at(b"words", 16 << 20).unwrap();
        file.write_all_at(b"words", size - 5).unwrap();
        let found = gaps(&file, size).unwrap();
        let taken: u64 = pieces(0..size, &found).iter().map(|piece| piece.end - piece.start).sum();
        // A file system that knows no holes says that there are none.
        assert!(found.is_empty() || (found.len() == 2 && taken < 4 << 20), "{found:?}");
        assert_eq!(gaps(&file, 0).unwrap(), []);
    }
}
