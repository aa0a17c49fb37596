//! Compares every function and row of every fixture with the recorded output of `readelf --sframe`.

mod common;

use pretty_assertions::assert_eq;
use sframe_format::{
    Abi, Blob, BlobMut, ErrorKind, Fde, Flags, Header, PcType, Piece, Registers, RuleTable, Rules, Section,
    SectionIndex, Version,
};

#[test]
fn rows_agree_with_readelf() {
    let (mut compared, mut rows) = (Vec::new(), 0);
    for fixture in common::all() {
        let Some((version, fdes, fres, printed)) = fixture.text.as_deref().and_then(common::parse_readelf)
        else {
            continue;
        };
        let data = if fixture.relocatable { common::relocated(&fixture) } else { fixture.data.clone() };
        let blob = Section::new(&data, fixture.address).strict().blob_at(0).unwrap();
        let header = *blob.header();
        let name = fixture.name();
        assert_eq!(
            (header.version as u8, header.fde_count, header.fre_count),
            (version, fdes, fres),
            "{name}"
        );
        let mut read: Vec<_> = blob.fdes().map(|fde| common::print_function(&blob, &fde)).collect();
        // readelf 2.40 and 2.44 do not apply relocations, and print 0 for every function of an object.
        if fixture.relocatable && printed.iter().all(|function| function.pc == 0) {
            read.iter_mut().for_each(|function| function.pc = 0);
        }
        assert_eq!(read, printed, "{name}");
        compared.push(fixture.path.clone());
        rows += printed.iter().map(|function| function.rows.len()).sum::<usize>();
    }
    // The texts of all files that readelf could print. It failed on 8.
    let folders = std::fs::read_dir(common::root()).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|path| std::fs::read_dir(path).unwrap());
    let texts =
        files.map(|file| file.unwrap().path()).filter(|path| path.to_string_lossy().ends_with(".txt"));
    let useful = texts.filter(|path| std::fs::read_to_string(path).unwrap().contains("SFRAME_VERSION"));
    compared.dedup();
    assert_eq!(compared.len(), useful.count());
    assert!(compared.len() >= 85 && rows >= 1000, "only {} files with {rows} rows", compared.len());
}

#[test]
fn every_fixture_has_one_blob_or_the_crafted_number() {
    for fixture in common::all() {
        let name = fixture.name();
        let section = Section::new(&fixture.data, fixture.address);
        let pieces: Vec<Piece> = section.pieces().collect();
        let blobs = pieces.iter().filter(|piece| matches!(piece, Piece::Blob(_))).count();
        let gaps = pieces.len() - blobs;
        let expected = match name.as_str() {
            name if name.contains("/padnz") => (1, 1),
            name if name.contains("/twice") => (2, 0),
            name if name.contains("concat") => (2, 0),
            _ => (1, 0),
        };
        assert_eq!((blobs, gaps), expected, "{name}");
    }
}

#[test]
fn lookup_finds_the_row_of_every_byte() {
    for fixture in common::all() {
        let data = if fixture.relocatable { common::relocated(&fixture) } else { fixture.data.clone() };
        let section = Section::new(&data, fixture.address);
        let index = SectionIndex::new(&*data, fixture.address);
        let table = RuleTable::new(&index);
        for blob in section.blobs() {
            for fde in blob.fdes() {
                let attributes = blob.attributes(&fde).unwrap();
                let rows: Vec<_> = blob.rows(&attributes).map(Result::unwrap).collect();
                for offset in 0..fde.size {
                    let pc = fde.address + u64::from(offset);
                    let found = blob.lookup_in(fde, pc).unwrap();
                    let residue = match attributes.pc_type {
                        sframe_format::PcType::Mask => offset % u32::from(attributes.repeat_size),
                        sframe_format::PcType::Increment => offset,
                    };
                    let row = rows.iter().rev().find(|row| row.start <= residue);
                    if !rows.is_empty() {
                        assert_eq!(found.map(|found| found.row), row.copied(), "{} {pc:#x}", fixture.name());
                    }
                    if !fixture.relocatable {
                        assert_eq!(blob.lookup(pc).unwrap(), found, "{} {pc:#x}", fixture.name());
                        assert_eq!(section.lookup(pc).unwrap(), found);
                        assert_eq!(index.lookup(pc).unwrap(), found);
                        if let Some(table) = &table {
                            common::exercise::assert_agrees(table, &index, pc);
                        }
                    }
                }
            }
        }
        assert_eq!(index.lookup(u64::MAX).unwrap(), None);
    }
}

#[test]
fn unknown_version_is_a_gap_and_the_walk_goes_on() {
    let fixture = common::all().into_iter().find(|fixture| fixture.name().contains("twice.x86_64")).unwrap();
    let mut data = fixture.data;
    data[2] = 4;
    let pieces: Vec<Piece> = Section::new(&data, 0).pieces().collect();
    let [Piece::Gap(gap), Piece::Blob(blob)] = &pieces[..] else { panic!("{pieces:?}") };
    assert_eq!((gap.offset, gap.error.kind), (0, ErrorKind::Version { found: 4 }));
    assert_eq!((gap.length, blob.header().fde_count), (blob.offset(), 1));
}

#[test]
fn dead_functions_match_no_address() {
    for fixture in common::all().into_iter().filter(|fixture| !fixture.relocatable) {
        let mut data = fixture.data.clone();
        let mut blob = BlobMut::parse(&mut data, fixture.address).unwrap();
        let count = blob.header().fde_count;
        blob.mark_dead(&Vec::from_iter(0..count)).unwrap();
        blob.set_sorted(false);
        let section = Section::new(&data, fixture.address);
        let blob = section.blob_at(0).unwrap();
        assert!(blob.fdes().all(|fde| fde.size == 0 && fde.address == fixture.address));
        assert_eq!(blob.lookup(fixture.address).unwrap(), None, "{}", fixture.name());
    }
}

#[test]
fn shortened_functions_have_no_rows_behind_their_end() {
    let mut dropped = 0;
    for fixture in common::all() {
        let section = Section::new(&fixture.data, fixture.address);
        let Some(before) = section.blobs().next().filter(|blob| blob.offset() == 0 && blob.check().is_ok())
        else {
            continue;
        };
        let mut data = fixture.data.clone();
        let mut blob = BlobMut::parse(&mut data, fixture.address).unwrap();
        let starts = |blob: &Blob<'_>, fde: &Fde| {
            let attributes = blob.attributes(fde).unwrap();
            blob.rows(&attributes).map(|row| row.unwrap().start).collect::<Vec<_>>()
        };
        // Each function loses the part of its last row.
        let sizes = before.fdes().map(|fde| {
            let last = *starts(&before, &fde).last().unwrap_or(&0);
            if last == 0 { fde.size.saturating_sub(1).max(1).min(fde.size) } else { last }
        });
        let sizes = Vec::from_iter(sizes);
        blob.shorten(&Vec::from_iter((0..).zip(sizes.iter().copied()))).unwrap();
        let after = Section::new(&data, fixture.address).blob_at(0).unwrap();
        after.check().unwrap();
        for (old, new) in before.fdes().zip(after.fdes()) {
            let size = sizes[new.index as usize];
            assert_eq!(new.size, size, "{} {}", fixture.name(), new.index);
            let (was, is) = (starts(&before, &old), starts(&after, &new));
            let shared = before.fdes().filter(|other| other.fre_offset == old.fre_offset).count() > 1;
            let expected = was.iter().copied().filter(|&start| start < size || shared);
            if before.attributes(&old).unwrap().pc_type == PcType::Increment && !was.is_empty() {
                assert!(is.iter().copied().eq(expected), "{} {}: {was:?} {is:?}", fixture.name(), new.index);
                dropped += was.len() - is.len();
            }
        }
    }
    assert!(dropped > 0, "no row was dropped");
}

#[test]
fn dead_functions_have_no_rows_and_leave_those_of_others() {
    let mut shared = 0;
    for fixture in common::all() {
        let section = Section::new(&fixture.data, fixture.address);
        let Some(before) = section.blobs().next().filter(|blob| blob.offset() == 0 && blob.check().is_ok())
        else {
            continue;
        };
        for first in 0..2 {
            let dead = Vec::from_iter((first..before.header().fde_count).step_by(2));
            let is_dead = |index: u32| index % 2 == first;
            let rows_at = |alive: bool| {
                let fdes = before.fdes().filter(move |fde| is_dead(fde.index) != alive);
                fdes.map(|fde| fde.fre_offset).collect::<std::collections::HashSet<u32>>()
            };
            shared += usize::from(
                before.header().version == Version::V3 && !rows_at(true).is_disjoint(&rows_at(false)),
            );
            let mut data = fixture.data.clone();
            let mut blob = BlobMut::parse(&mut data, fixture.address).unwrap();
            blob.mark_dead(&dead).unwrap();
            let after = Section::new(&data, fixture.address).blob_at(0).unwrap();
            after.check().unwrap();
            for (old, new) in before.fdes().zip(after.fdes()) {
                let (was, is) = (before.attributes(&old).unwrap(), after.attributes(&new).unwrap());
                if is_dead(new.index) {
                    assert_eq!((new.size, is.fre_count), (0, 0), "{} {}", fixture.name(), new.index);
                } else {
                    assert!(
                        before.rows(&was).eq(after.rows(&is)) && new.size == old.size,
                        "{}",
                        fixture.name()
                    );
                }
            }
        }
    }
    assert!(shared > 0, "no fixture in which living and dead functions share rows");
}

#[test]
fn starts_are_written_by_the_version_of_the_blob() {
    for fixture in common::all().into_iter().filter(|fixture| fixture.relocatable) {
        let mut data = fixture.data.clone();
        let mut blob = BlobMut::parse(&mut data, 0x10_0000).unwrap();
        blob.make_field_relative();
        let (count, version) = (blob.header().fde_count, blob.header().version);
        for index in 0..count {
            blob.set_function_start(index, 0x20_0000 + u64::from(index) * 16).unwrap();
        }
        assert!(blob.as_blob().is_ascending());
        let blob = Section::new(&data, 0x10_0000).blob_at(0).unwrap();
        assert_eq!(blob.header().flags.contains(Flags::FIELD_RELATIVE), version != Version::V1);
        for fde in blob.fdes() {
            assert_eq!(fde.address, 0x20_0000 + u64::from(fde.index) * 16);
            let from = if version == Version::V1 { 0 } else { fde.offset as i64 };
            assert_eq!(fde.raw_start, fde.address as i64 - 0x10_0000 - from);
        }
    }
}

/// Errata 2 of V2: a row without data words ends the stack. No producer wrote such rows before that.
#[test]
fn rows_without_words_are_outermost_in_v2() {
    for abi in [Abi::Amd64, Abi::AArch64Little, Abi::S390x] {
        let (endian, flags) = (abi.endian(), Flags::SORTED.with(Flags::FIELD_RELATIVE, true));
        let header = Header {
            version: Version::V2,
            endian,
            flags,
            abi,
            fixed_fp_offset: 0,
            fixed_ra_offset: abi.fixed_ra_offset(),
            auxiliary_length: 0,
            fde_count: 1,
            fre_count: 2,
            fre_length: 5,
            fde_offset: 0,
            fre_offset: 20,
            unit_distance: 0,
        };
        let fde = [(0x1000 - 28) as u32, 16, 0, 2].map(|word| endian.u32_bytes(word)).concat();
        // Rows at 0 (no words) and at 4 (one word of one byte, stack pointer).
        let data = [&header.to_bytes()[..], &fde, &[0; 4], &[0, 0], &[4, 0x03, 8]].concat();
        let blob = Section::new(&data, 0).strict().blob_at(0).unwrap();
        let rules = |pc| blob.lookup(pc).unwrap().unwrap().row.rules;
        assert_eq!(rules(0x1003), Rules::Outermost, "{abi}");
        assert!(matches!(rules(0x1004), Rules::Frame(_)), "{abi}");
        // An invalid word size is no error if the row has no words, and the reader reads the rows after it.
        let mut data = data.clone();
        data[28 + 20 + 1] |= 0x60;
        let lenient = Section::new(&data, 0).blob_at(0).unwrap();
        let rules = |pc| lenient.lookup(pc).unwrap().unwrap().row.rules;
        assert_eq!(rules(0x1003), Rules::Outermost, "{abi}");
        assert!(matches!(rules(0x1004), Rules::Frame(_)), "{abi}");
        let mut registers = Registers::new(0x7000, 0, None);
        let found = blob.lookup(0x1000).unwrap().unwrap();
        assert_eq!(found.step(true, &mut registers, &mut |_| Err(())), Ok(None), "{abi}");
    }
}
