//! Conversion of real sections: every byte of every function keeps its answer, or the result lists the
//! function as omitted.

mod common;

use std::collections::BTreeSet;

use sframe_format::convert::{OmittedReason, convert};
use sframe_format::verify::{Context, Severity, verify};
use sframe_format::write::{Encoder, Function, Inexpressible, LeftOut, Options, Reason};
use sframe_format::{Blob, Section, SectionIndex, Version};

#[test]
fn every_address_keeps_its_row() {
    let (mut compared, mut reasons) = (0, Vec::new());
    // In objects, all text sections start at 0 here and functions overlap, so the answers would be arbitrary.
    let single = |fixture: &common::Fixture| {
        let sections: BTreeSet<usize> = fixture.targets.iter().map(|target| target.0).collect();
        sections.len() <= 1
    };
    for fixture in common::all().into_iter().filter(single) {
        let name = fixture.name();
        let data = if fixture.relocatable { common::relocated(&fixture) } else { fixture.data.clone() };
        let section = Section::new(&data, fixture.address);
        let abi = section.blob_at(0).unwrap().header().abi;
        let before = SectionIndex::new(&*data, fixture.address);
        for version in [Version::V2, Version::V3] {
            let converted = convert(&section, Options::new(abi).version(version), fixture.address).unwrap();
            let findings = verify(&Section::new(&converted.bytes, fixture.address), &Context::default());
            let worst = findings.iter().find(|finding| finding.kind.severity() == Severity::Error);
            assert!(worst.is_none(), "{name}: {}", worst.unwrap());
            let omitted: BTreeSet<usize> = converted.omitted.iter().map(|omitted| omitted.offset).collect();
            let after = SectionIndex::new(&*converted.bytes, fixture.address);
            for fde in section.blobs().flat_map(|blob| blob.fdes()) {
                if omitted.contains(&fde.offset) {
                    continue;
                }
                for pc in (0..fde.size).map(|offset| fde.address + u64::from(offset)) {
                    let rules = |index: &SectionIndex<&[u8]>| {
                        let found = index.lookup(pc).unwrap();
                        found.map(|found| (found.row.rules, found.is_signal(), found.pauth_key()))
                    };
                    assert_eq!(rules(&after), rules(&before), "{name}: {pc:#x}");
                    compared += 1;
                }
            }
            reasons
                .extend(converted.omitted.into_iter().map(|omitted| (name.clone(), version, omitted.reason)));
        }
    }
    assert!(compared > 10_000, "only {compared} addresses were compared");
    for (name, version, reason) in reasons {
        let expected = match reason {
            OmittedReason::LeftOut(LeftOut::Inexpressible(Inexpressible { reason, .. })) => {
                version == Version::V2 || reason == Reason::NoRows
            }
            OmittedReason::LeftOut(LeftOut::Duplicate | LeftOut::Empty) => true,
            OmittedReason::Gap(_) => name.contains("padnz"),
            _ => false,
        };
        assert!(expected, "{name} {version}: {reason}");
    }
}

#[test]
fn copied_functions_equal_encoded_ones() {
    let (mut copied, mut all) = (0, 0);
    for fixture in common::all() {
        let name = fixture.name();
        let section = Section::new(&fixture.data, fixture.address).strict();
        for blob in section.blobs().filter(|blob| blob.header().version == Version::V3) {
            for fde in blob.fdes() {
                let options = Options::new(blob.header().abi);
                let (mut by_copy, mut by_rows) = (Encoder::new(options), Encoder::new(options));
                all += 1;
                let Ok(attributes) = blob.attributes(&fde) else { continue };
                let Some((id, rows)) = by_copy.copy(&blob, &fde, &attributes) else { continue };
                let function = Function::read(&blob, &fde).unwrap();
                assert_eq!(by_rows.add(&function), Ok(id), "{name}: {fde:?}");
                assert_eq!(rows as usize, function.rows.len(), "{name}: {fde:?}");
                let bytes = |encoder: &Encoder| {
                    let mut bytes = vec![0; encoder.size()];
                    encoder.write(0, &[(0x1000, id)], &mut bytes).unwrap();
                    bytes
                };
                assert_eq!(bytes(&by_copy), bytes(&by_rows), "{name}: {fde:?}");
                copied += 1;
                let wide = with_wide_starts(&bytes(&by_copy));
                let wide = Section::new(&wide, 0).strict().blob_at(0).unwrap();
                let fde = wide.fde(0).unwrap();
                assert_eq!(Function::read(&wide, &fde).unwrap(), function, "{name}: {fde:?}");
                let mut narrowed = Encoder::new(options);
                let attributes = wide.attributes(&fde).unwrap();
                let id_of_narrowed = narrowed.copy(&wide, &fde, &attributes).map(|(id, _)| id);
                assert_eq!(id_of_narrowed, Some(id), "{name}: {fde:?}");
                assert_eq!(bytes(&narrowed), bytes(&by_rows), "{name}: {fde:?}");
            }
        }
    }
    assert!(copied > 100 && copied < all, "{copied} of {all} functions were copied");
}

/// Bytes of the attribute in front of the rows.
const ATTRIBUTE: usize = 5;

/// A little-endian V3 blob with one function, whose starts take four bytes.
fn with_wide_starts(bytes: &[u8]) -> Vec<u8> {
    let blob = Blob::parse(bytes, 0).unwrap();
    let attributes = blob.attributes(&blob.fde(0).unwrap()).unwrap();
    let rows_at = bytes.len() - blob.fre_bytes().len() + ATTRIBUTE;
    let mut wide = bytes[..rows_at].to_vec();
    wide[rows_at - 3] = wide[rows_at - 3] & !3 | 2;
    for row in blob.fres(&attributes).flatten() {
        wide.extend(row.start.to_le_bytes());
        wide.push(row.info);
        wide.extend(row.words);
    }
    let length = (wide.len() - rows_at + ATTRIBUTE) as u32;
    wide[16..20].copy_from_slice(&length.to_le_bytes());
    wide
}
