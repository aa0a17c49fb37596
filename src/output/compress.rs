//! Compresses sections that are not loaded (`--compress-debug-sections`, `--compress-sections`).
//!
//! Many threads compress shards of a fixed size, so the bytes do not depend on the number of threads. The
//! shards must form one stream that any reader accepts. For zlib, each shard but the last ends with a flush
//! on a byte boundary, so the shards together are one deflate stream; the stream's checksum is combined from
//! theirs. For zstd, each shard is a frame, and readers accept a sequence of frames.

use crate::cli::{CompressDebug, CompressMethod, StripOptions};
use crate::elf::{Chdr, consts as elf};
use crate::script::glob;
use flate2::{Compress, Compression, FlushCompress, Status};
use parallel::ParallelSlice;
use zerocopy::IntoBytes;
use zerocopy::byteorder::ByteOrder;
use zlib_rs::adler32::{adler32, adler32_combine};

/// Bytes of contents in a shard.
const SHARD: usize = 1 << 20;
/// Fast levels: sections are large, and higher levels gain little on debug information.
const ZLIB_LEVEL: u8 = 1;
const ZSTD_LEVEL: u8 = 3;
/// The highest level of zstd.
const ZSTD_MAX_LEVEL: u8 = 22;

/// The method for an output section, from `--compress-sections` and `--compress-debug-sections`.
pub fn method(options: &StripOptions, name: &[u8], flags: u64) -> CompressMethod {
    match options.compress_sections.iter().rev().find(|rule| glob::matches(&rule.pattern, name)) {
        Some(rule) => rule.compression,
        None if is_debug(name, flags) => options.compress_debug,
        None => CompressMethod::default(),
    }
}

/// The zlib header (RFC 1950): deflate with a 32 KiB window, and a class that tells the level.
fn zlib_header(level: u8) -> [u8; 2] {
    match level {
        0..=1 => [0x78, 0x01],
        2..=5 => [0x78, 0x5e],
        6 => [0x78, 0x9c],
        _ => [0x78, 0xda],
    }
}

/// Whether an output section contains debug information and is not loaded.
fn is_debug(name: &[u8], flags: u64) -> bool {
    flags & elf::SHF_ALLOC == 0 && name.starts_with(b".debug_")
}

/// The name of a section that is compressed in the old GNU way.
pub fn old_name(name: &[u8]) -> Vec<u8> {
    [b".z", name.strip_prefix(b".").unwrap_or(name)].concat()
}

/// Alignment of compressed contents: that of their header, in bytes.
pub fn alignment(kind: CompressDebug) -> u64 {
    if kind == CompressDebug::ZlibGnu { 1 } else { 8 }
}

/// These contents compressed, including the header. `None`: they would not become smaller. `align` is their
/// alignment in bytes.
pub fn compress<E: ByteOrder>(method: CompressMethod, contents: &[u8], align: u64) -> Option<Vec<u8>> {
    let CompressMethod { format, level } = method;
    let zlib = |contents| zlib(contents, level.unwrap_or(ZLIB_LEVEL));
    let size = contents.len() as u64;
    let header = |ch_type: u32| {
        let header = Chdr::<E> {
            ch_type: ch_type.into(),
            ch_reserved: 0.into(),
            ch_size: size.into(),
            ch_addralign: align.into(),
        };
        header.as_bytes().to_vec()
    };
    let (mut out, shards) = match format {
        CompressDebug::None => return None,
        CompressDebug::Zlib => (header(elf::ELFCOMPRESS_ZLIB), zlib(contents)),
        CompressDebug::ZlibGnu => ([b"ZLIB".as_slice(), &size.to_be_bytes()].concat(), zlib(contents)),
        CompressDebug::Zstd => (header(elf::ELFCOMPRESS_ZSTD), zstd(contents, level.unwrap_or(ZSTD_LEVEL))?),
    };
    let total = out.len() + shards.iter().map(Vec::len).sum::<usize>();
    if total >= contents.len() {
        return None;
    }
    out.reserve_exact(total - out.len());
    shards.iter().for_each(|shard| out.extend_from_slice(shard));
    Some(out)
}

/// The shards of one zlib stream, compressed.
fn zlib(contents: &[u8], level: u8) -> Vec<Vec<u8>> {
    let last = contents.len().div_ceil(SHARD).saturating_sub(1);
    let shards: Vec<(Vec<u8>, u32, u64)> = contents
        .par_chunks(SHARD)
        .enumerate()
        .map(|(number, shard)| {
            let flush = if number == last { FlushCompress::Finish } else { FlushCompress::Sync };
            (deflate(shard, level, flush), adler32(1, shard), shard.len() as u64)
        })
        .collect();
    let checksum = shards.iter().fold(1, |sum, &(_, part, length)| adler32_combine(sum, part, length));
    let mut parts = vec![zlib_header(level).to_vec()];
    parts.extend(shards.into_iter().map(|(bytes, ..)| bytes));
    parts.push(checksum.to_be_bytes().to_vec());
    parts
}

/// One shard of a deflate stream. If the library fails, the result is longer than the shard, so [`compress`]
/// rejects the whole.
fn deflate(shard: &[u8], level: u8, flush: FlushCompress) -> Vec<u8> {
    let mut state = Compress::new(Compression::new(level.into()), false);
    let mut out = Vec::with_capacity(shard.len() / 2 + 64);
    loop {
        let rest = &shard[state.total_in() as usize..];
        let status = state.compress_vec(rest, &mut out, flush);
        let is_done = match (flush, status) {
            (FlushCompress::Finish, Ok(status)) => status == Status::StreamEnd,
            // A flush is complete if it leaves room in the buffer.
            (_, Ok(_)) => state.total_in() == shard.len() as u64 && out.len() < out.capacity(),
            (_, Err(_)) => return vec![0; shard.len() * 2 + 64],
        };
        if is_done {
            // Over all shards, the room left over would be as large as the contents.
            out.shrink_to_fit();
            return out;
        }
        out.reserve(out.capacity().max(64));
    }
}

/// Makes one frame of each shard.
fn zstd(contents: &[u8], level: u8) -> Option<Vec<Vec<u8>>> {
    let compressor = || zstd::bulk::Compressor::new(level.min(ZSTD_MAX_LEVEL).into());
    let frame = |compressor: &mut std::io::Result<zstd::bulk::Compressor<'_>>, shard: &[u8]| {
        let mut frame = compressor.as_mut().ok()?.compress(shard).ok()?;
        frame.shrink_to_fit();
        Some(frame)
    };
    // A piece keeps its compressor, which has much memory.
    let pieces = contents.par_chunks(SHARD).fold_pieces(
        || (compressor(), Vec::new()),
        |(compressor, frames), shard| frames.push(frame(compressor, shard)),
    );
    pieces.into_iter().flat_map(|(_, frames)| frames).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CompressSections;
    use crate::input::decompress::{CompressedSection, Format, unpack};
    use proptest::prelude::*;
    use zerocopy::FromBytes;
    use zerocopy::byteorder::{BigEndian, LittleEndian};

    fn text(size: usize) -> Vec<u8> {
        (0..size).map(|index| (index * index / 1000) as u8 ^ (index / 77) as u8).collect()
    }

    fn by(format: CompressDebug) -> CompressMethod {
        CompressMethod { format, level: None }
    }

    fn unpacked(packed: &[u8], format: Format, size: usize) -> Vec<u8> {
        unpack(&CompressedSection {
            section: 1,
            format,
            packed,
            size: size as u64,
            bytes: Default::default(),
        })
        .expect("sound data")
    }

    #[test]
    fn several_shards_are_one_stream() {
        for size in [SHARD - 1, SHARD, SHARD + 1, 3 * SHARD + 12345] {
            let contents = text(size);
            let packed = compress::<LittleEndian>(by(CompressDebug::Zlib), &contents, 16).expect("smaller");
            let (header, rest) = Chdr::<LittleEndian>::ref_from_prefix(&packed).expect("a header");
            assert_eq!((header.ch_type.get(), header.ch_size.get()), (1, size as u64));
            assert_eq!(header.ch_addralign.get(), 16);
            assert_eq!(unpacked(rest, Format::Zlib, size), contents);
            let packed = compress::<BigEndian>(by(CompressDebug::Zstd), &contents, 1).expect("smaller");
            let (header, rest) = Chdr::<BigEndian>::ref_from_prefix(&packed).expect("a header");
            assert_eq!((header.ch_type.get(), header.ch_size.get()), (2, size as u64));
            assert_eq!(unpacked(rest, Format::Zstd, size), contents);
        }
    }

    #[test]
    fn old_headers_have_a_big_endian_size() {
        let contents = text(5000);
        let packed = compress::<LittleEndian>(by(CompressDebug::ZlibGnu), &contents, 1).expect("smaller");
        assert_eq!(packed[..12], [b"ZLIB".as_slice(), &5000u64.to_be_bytes()].concat());
        assert_eq!(unpacked(&packed[12..], Format::Zlib, 5000), contents);
        assert_eq!(old_name(b".debug_info"), b".zdebug_info");
    }

    #[test]
    fn every_level_unpacks_to_the_same() {
        let contents = text(20_000);
        for level in 0..=9 {
            let method = CompressMethod { format: CompressDebug::Zlib, level: Some(level) };
            let Some(packed) = compress::<LittleEndian>(method, &contents, 1) else {
                assert_eq!(level, 0, "only level 0 packs nothing");
                continue;
            };
            assert_eq!(unpacked(&packed[24..], Format::Zlib, contents.len()), contents);
        }
        for level in [0, 1, 19, 22, 255] {
            let method = CompressMethod { format: CompressDebug::Zstd, level: Some(level) };
            let packed = compress::<LittleEndian>(method, &contents, 1).expect("smaller");
            assert_eq!(unpacked(&packed[24..], Format::Zstd, contents.len()), contents);
        }
    }

    #[test]
    fn the_last_pattern_that_matches_holds() {
        let rule = |pattern: &[u8], format, level| CompressSections {
            pattern: pattern.to_vec(),
            compression: CompressMethod { format, level },
        };
        let options = StripOptions {
            compress_debug: by(CompressDebug::Zlib),
            compress_sections: vec![
                rule(b".debug_*", CompressDebug::Zstd, Some(5)),
                rule(b".debug_str", CompressDebug::None, None),
            ],
            ..StripOptions::default()
        };
        assert_eq!(
            method(&options, b".debug_info", 0),
            CompressMethod { format: CompressDebug::Zstd, level: Some(5) }
        );
        assert_eq!(method(&options, b".debug_str", 0), by(CompressDebug::None));
        assert_eq!(method(&options, b"other", 0), by(CompressDebug::None));
        let plain = StripOptions { compress_sections: Vec::new(), ..options };
        assert_eq!(method(&plain, b".debug_str", 0), by(CompressDebug::Zlib));
    }

    #[test]
    fn contents_that_do_not_shrink_stay() {
        assert_eq!(compress::<LittleEndian>(by(CompressDebug::Zlib), b"abc", 1), None);
        assert_eq!(compress::<LittleEndian>(by(CompressDebug::Zstd), b"", 1), None);
    }

    #[test]
    fn shards_that_shrink_keep_no_room() {
        let zeros = vec![0; 4 * SHARD];
        for shards in [zlib(&zeros, ZLIB_LEVEL), zstd(&zeros, ZSTD_LEVEL).expect("frames")] {
            assert!(shards.iter().map(Vec::capacity).sum::<usize>() < SHARD / 2);
        }
    }

    #[test]
    fn bytes_do_not_depend_on_the_number_of_threads() {
        let contents = text(5 * SHARD);
        let run = |threads| {
            let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| compress::<LittleEndian>(by(CompressDebug::Zlib), &contents, 1))
        };
        assert_eq!(run(1), run(4));
    }

    proptest! {
        #[test]
        fn deflate_pieces_join(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..4)) {
            let mut stream = zlib_header(1).to_vec();
            let mut checksum = 1;
            for (number, part) in parts.iter().enumerate() {
                let is_last = number + 1 == parts.len();
                stream.extend(deflate(part, 1, if is_last { FlushCompress::Finish } else { FlushCompress::Sync }));
                checksum = adler32_combine(checksum, adler32(1, part), part.len() as u64);
            }
            stream.extend(checksum.to_be_bytes());
            let whole = parts.concat();
            prop_assert_eq!(unpacked(&stream, Format::Zlib, whole.len()), whole);
        }
    }
}
