//! Written rows read back the same, whatever they are, and conversion keeps every answer.

mod common;

use proptest::prelude::*;
use sframe_format::convert::convert;
use sframe_format::verify::{Context, Severity, verify};
use sframe_format::write::{Encoder, Function, Options, Reason, write_sorted};
use sframe_format::{
    Abi, Base, Blob, CfaRule, ErrorKind, Frame, HEADER_SIZE, Location, PauthKey, RegisterRule, Row,
    RuleTable, Rules, Section, SectionIndex, Version,
};

fn abi() -> impl Strategy<Value = Abi> {
    prop_oneof![Just(Abi::Amd64), Just(Abi::AArch64Little), Just(Abi::AArch64Big), Just(Abi::S390x)]
}

fn offset() -> impl Strategy<Value = i32> {
    prop_oneof![-128..128i32, -40000..40000i32, any::<i32>()].prop_map(|offset| offset & !7)
}

fn rule(rich: bool) -> impl Strategy<Value = RegisterRule> {
    let location =
        (prop::option::of(0..40u32), offset(), any::<bool>()).prop_map(move |(base, offset, dereference)| {
            match base {
                Some(register) if rich => {
                    RegisterRule::Saved(Location { base: Base::Register(register), offset, dereference })
                }
                _ => RegisterRule::Saved(Location::at_cfa(offset)),
            }
        });
    prop_oneof![Just(RegisterRule::Unchanged), location]
}

/// Rules that V3 can express. Simple ones (`rich` is false) mostly become default rows.
fn rules(abi: Abi, rich: bool) -> impl Strategy<Value = Rules> {
    let register = prop_oneof![
        Just(abi.stack_pointer()),
        Just(abi.frame_pointer()),
        if rich { 0..40u32 } else { abi.stack_pointer()..abi.stack_pointer() + 1 }
    ];
    let frame = (register, offset(), any::<bool>(), rule(rich), rule(rich), any::<bool>());
    let frame = frame.prop_map(move |(register, offset, dereference, ra, fp, mangled)| {
        let fixed = RegisterRule::Saved(Location::at_cfa(-8));
        let ra = match (abi, ra) {
            (Abi::Amd64, RegisterRule::Unchanged) => fixed,
            (Abi::Amd64, _) if !rich => fixed,
            // On s390x, a default row cannot say that the return address is at the CFA itself.
            (Abi::S390x, ra) if ra == RegisterRule::Saved(Location::at_cfa(0)) => RegisterRule::Unchanged,
            (_, ra) => ra,
        };
        let cfa = CfaRule { register, dereference: rich && dereference, offset: i64::from(offset) };
        Rules::Frame(Frame { cfa, ra, fp, mangled: mangled && abi.is_aarch64() })
    });
    prop_oneof![9 => frame, 1 => Just(Rules::Outermost)]
}

fn function(abi: Abi, rich: bool) -> impl Strategy<Value = Function> {
    let rows = prop::collection::btree_map(0..70_000u32, rules(abi, rich), 1..12);
    (rows, 1..300u32, any::<bool>(), any::<bool>()).prop_map(move |(rows, tail, signal, key)| {
        let rows: Vec<Row> = rows.into_iter().map(|(start, rules)| Row { start, rules }).collect();
        Function {
            size: rows.last().unwrap().start + tail,
            signal: signal && rich,
            pauth_key: if key && abi.is_aarch64() { PauthKey::B } else { PauthKey::A },
            repeat_size: None,
            rows,
        }
    })
}

/// Functions at ascending addresses that do not overlap.
fn functions(abi: Abi, rich: bool) -> impl Strategy<Value = Vec<(u64, Function)>> {
    prop::collection::vec((0..50u64, function(abi, rich)), 0..12).prop_map(|functions| {
        let mut address = 0x40_0000;
        let place = |(gap, function): (u64, Function)| {
            let start = address + gap;
            address = start + u64::from(function.size);
            (start, function)
        };
        functions.into_iter().map(place).collect()
    })
}

fn blob_functions(rich: bool) -> impl Strategy<Value = (Abi, Vec<(u64, Function)>)> {
    abi().prop_flat_map(move |abi| (Just(abi), functions(abi, rich)))
}

fn merged(mut function: Function) -> Function {
    function.rows.dedup_by(|next, row| next.rules == row.rules);
    function
}

fn read_all(bytes: &[u8], address: u64) -> Vec<(u64, Function)> {
    let blob = Section::new(bytes, address).strict().blob_at(0).unwrap();
    blob.fdes().map(|fde| (fde.address, Function::read(&blob, &fde).unwrap())).collect()
}

proptest! {
    #[test]
    fn written_rows_are_read_back((abi, functions) in blob_functions(true), share in any::<bool>(), address in 0..1u64 << 40) {
        let written = write_sorted(Options::new(abi).share(share), address, &functions).unwrap();
        let mut expected = functions.clone();
        for &(place, ref reason) in written.left_out.iter().rev() {
            // Only "the return address is CFA + offset itself" and offsets that s390x cannot scale may be
            // omitted.
            let text = reason.to_string();
            prop_assert!(text.contains("has no encoding") || text.contains("does not fit"), "{}", text);
            expected.remove(place);
        }
        let expected: Vec<_> = expected.into_iter().map(|(at, function)| (at, merged(function))).collect();
        prop_assert_eq!(read_all(&written.bytes, address), expected);
        let findings = verify(&Section::new(&written.bytes, address), &Context::default());
        let worst = findings.iter().find(|finding| finding.kind.severity() > Severity::Note);
        // Shared rows only make several functions end at one place.
        prop_assert!(worst.is_none(), "{:?}", worst);
    }

    #[test]
    fn copied_functions_equal_encoded_ones((abi, functions) in blob_functions(true)) {
        let written = write_sorted(Options::new(abi), 0x1000, &functions).unwrap();
        let blob = Section::new(&written.bytes, 0x1000).strict().blob_at(0).unwrap();
        for fde in blob.fdes() {
            let (mut by_copy, mut by_rows) = (Encoder::new(Options::new(abi)), Encoder::new(Options::new(abi)));
            let Some((id, _)) = by_copy.copy(&blob, &fde, &blob.attributes(&fde).unwrap()) else { continue };
            prop_assert_eq!(by_rows.add(&Function::read(&blob, &fde).unwrap()), Ok(id));
            let bytes = |encoder: &Encoder| {
                let mut bytes = vec![0; encoder.size()];
                encoder.write(0, &[(0x1000, id)], &mut bytes).unwrap();
                bytes
            };
            prop_assert_eq!(bytes(&by_copy), bytes(&by_rows));
        }
    }

    #[test]
    fn conversion_keeps_every_answer((abi, functions) in blob_functions(false)) {
        let address = 0x50_0000;
        let v2 = write_sorted(Options::new(abi).version(Version::V2), address, &functions).unwrap();
        let v3 = convert(&Section::new(&v2.bytes, address), Options::new(abi), 0x1000).unwrap();
        let back = convert(&Section::new(&v3.bytes, 0x1000), Options::new(abi).version(Version::V2), address).unwrap();
        prop_assert!(v3.omitted.is_empty() && back.omitted.is_empty());
        prop_assert_eq!(read_all(&v2.bytes, address), read_all(&v3.bytes, 0x1000));
        prop_assert_eq!(&v2.bytes, &back.bytes);
        let (first, second) = (SectionIndex::new(&*v2.bytes, address), SectionIndex::new(&*v3.bytes, 0x1000));
        for (start, function) in &functions {
            for row in &function.rows {
                for pc in [start + u64::from(row.start), (start + u64::from(row.start)).wrapping_sub(1), start + u64::from(function.size)] {
                    let answers = [first.lookup(pc), second.lookup(pc)].map(|found| found.unwrap().map(|found| found.row));
                    prop_assert_eq!(answers[0], answers[1]);
                }
            }
        }
    }

    #[test]
    fn look_ups_agree_in_any_order_of_blobs((abi, functions) in blob_functions(true), cuts in prop::collection::vec(0..12usize, 0..4), reverse in any::<bool>()) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(functions.len())).chain([0, functions.len()]).collect();
        cuts.sort();
        let mut parts: Vec<_> = cuts.windows(2).map(|cut| &functions[cut[0]..cut[1]]).collect();
        if reverse {
            parts.reverse();
        }
        let mut section = Vec::new();
        for part in parts {
            section.resize(section.len().next_multiple_of(8), 0);
            let written = write_sorted(Options::new(abi), 0x1000 + section.len() as u64, part).unwrap();
            section.extend(written.bytes);
        }
        let whole = write_sorted(Options::new(abi), 0x1000, &functions).unwrap();
        let (index, whole) = (SectionIndex::new(&*section, 0x1000), SectionIndex::new(&*whole.bytes, 0x1000));
        prop_assert!(index.gaps().is_empty());
        let table = RuleTable::new(&SectionIndex::new(&*section, 0x1000));
        for (start, function) in &functions {
            for pc in [*start, start + u64::from(function.size) / 2, start + u64::from(function.size)] {
                table.as_ref().inspect(|table| common::exercise::assert_agrees(table, &SectionIndex::new(&*section, 0x1000), pc));
                let row = whole.lookup(pc).unwrap().map(|found| found.row);
                prop_assert_eq!(index.lookup(pc).unwrap().map(|found| found.row), row);
                prop_assert_eq!(index.section().lookup(pc).unwrap().map(|found| found.row), row);
            }
        }
    }

    #[test]
    fn a_rewound_encoder_is_as_it_was((abi, functions) in blob_functions(true), at in 0..12usize) {
        let add = |encoder: &mut Encoder, functions: &[(u64, Function)]| {
            for (_, function) in functions {
                let _ = encoder.add(function);
            }
        };
        let (first, second) = functions.split_at(at.min(functions.len()));
        let (mut rewound, mut straight) = (Encoder::new(Options::new(abi)), Encoder::new(Options::new(abi)));
        add(&mut rewound, first);
        let mark = rewound.mark();
        add(&mut rewound, second);
        rewound.rewind(mark);
        add(&mut rewound, second);
        add(&mut straight, &functions);
        let order: Vec<_> = (0..straight.len() as u32).map(sframe_format::write::FunctionId).collect();
        let bytes = |encoder: &Encoder| {
            let mut bytes = vec![0; encoder.size()];
            encoder.write_relocatable(&order, false, &mut bytes).unwrap();
            bytes
        };
        prop_assert_eq!(bytes(&rewound), bytes(&straight));
    }

    #[test]
    fn encoders_can_be_put_together(
        (abi, functions) in blob_functions(true), at in 0..12usize, share: bool, in_batch: bool, version in prop_oneof![Just(Version::V2), Just(Version::V3)],
    ) {
        let options = Options::new(abi).version(version).share(share);
        let encode = |mut encoder: Encoder, functions: &[(u64, Function)]| {
            for (_, function) in functions {
                let _ = encoder.add(function);
                // A function that may be shared.
                let _ = encoder.add(&Function { size: function.size.saturating_add(1), ..function.clone() });
            }
            encoder
        };
        let (first, second) = functions.split_at(at.min(functions.len()));
        let (mut joined, whole) = (encode(Encoder::new(options), first), encode(Encoder::new(options), &functions));
        let batch = if in_batch { Encoder::for_batch(options) } else { Encoder::new(options) };
        joined.append(&encode(batch, second)).unwrap();
        prop_assert_eq!(joined.len(), whole.len());
        let order: Vec<_> = (0..whole.len() as u32).map(sframe_format::write::FunctionId).collect();
        let bytes = |encoder: &Encoder| {
            let mut bytes = vec![0; encoder.size()];
            encoder.write_relocatable(&order, false, &mut bytes).unwrap();
            bytes
        };
        prop_assert_eq!(bytes(&joined), bytes(&whole));
    }

    #[test]
    fn a_blob_in_parts_is_the_blob((abi, functions) in blob_functions(true), at in 0..12usize) {
        let mut encoder = Encoder::new(Options::new(abi));
        let mut placed = Vec::new();
        for (address, function) in &functions {
            placed.extend(encoder.add(function).ok().map(|id| (*address, id)));
        }
        let mut whole = vec![0; encoder.size()];
        encoder.write(0x9000, &placed, &mut whole).unwrap();
        let sorted = placed.is_sorted_by_key(|&(address, _)| address);
        let mut parts = encoder.header(placed.iter().map(|&(_, id)| id), sorted).unwrap().to_vec();
        let (first, second) = placed.split_at(at.min(placed.len()));
        for (start, part) in [(0, first), (first.len(), second)] {
            let mut fdes = vec![0; part.len() * Version::V3.fde_size()];
            encoder.write_fdes(Some(0x9000), start, part.iter().copied(), &mut fdes).unwrap();
            parts.append(&mut fdes);
        }
        parts.extend_from_slice(encoder.rows());
        prop_assert_eq!(parts, whole);
    }

    #[test]
    fn sorted_search_agrees_with_linear(gaps in prop::collection::vec(prop_oneof![0..64u64, 0..100_000u64, 0..1u64 << 30], 1..400), probes in prop::collection::vec(any::<u64>(), 50)) {
        let rules = Rules::Frame(Frame {
            cfa: CfaRule::register(7, 8),
            ra: RegisterRule::Saved(Location::at_cfa(-8)),
            fp: RegisterRule::Unchanged,
            mangled: false,
        });
        let function = Function { size: 16, rows: vec![Row { start: 0, rules }], ..Function::default() };
        let mut address = 0x1000;
        let functions: Vec<_> = gaps.iter().map(|gap| { address += gap + 16; (address, function.clone()) }).collect();
        let written = write_sorted(Options::new(Abi::Amd64), 0, &functions).unwrap();
        let blob = Blob::parse(&written.bytes, 0).unwrap();
        let index = SectionIndex::new(&*written.bytes, 0);
        let table = RuleTable::new(&index);
        let linear = |pc: u64| blob.fdes().find(|fde| pc.wrapping_sub(fde.address) < 16);
        for pc in probes.into_iter().map(|probe| probe % (address + 32)).chain(functions.iter().flat_map(|f| [f.0 - 1, f.0, f.0 + 15, f.0 + 16])) {
            prop_assert_eq!(blob.find_fde(pc), linear(pc));
            prop_assert_eq!(index.find(pc).map(|(_, fde)| fde), linear(pc));
            table.as_ref().inspect(|table| common::exercise::assert_agrees(table, &index, pc));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        common::exercise::all(&bytes);
    }
}

#[test]
fn version_2_reports_functions_that_it_cannot_express() {
    let frame = Frame {
        cfa: CfaRule::register(7, 8),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Unchanged,
        mangled: false,
    };
    let reason = |rules, signal| {
        let function =
            Function { size: 4, signal, rows: vec![Row { start: 0, rules }], ..Function::default() };
        Encoder::new(Options::new(Abi::Amd64).version(Version::V2))
            .add(&function)
            .map_err(|error| error.reason)
    };
    assert!(reason(Rules::Frame(frame), false).is_ok());
    assert_eq!(reason(Rules::Frame(frame), true), Err(Reason::SignalFrame));
    assert_eq!(reason(Rules::Outermost, false), Err(Reason::Outermost));
    let cfa = CfaRule::register(10, 0);
    assert_eq!(reason(Rules::Frame(Frame { cfa, ..frame }), false), Err(Reason::Cfa(cfa)));
    let ra = RegisterRule::Saved(Location::at_cfa(-16));
    assert_eq!(reason(Rules::Frame(Frame { ra, ..frame }), false), Err(Reason::ReturnAddress(ra)));
    let fp = RegisterRule::Saved(Location::in_register(8));
    assert_eq!(reason(Rules::Frame(Frame { fp, ..frame }), false), Err(Reason::FramePointer(fp)));
}

#[test]
fn a_function_out_of_reach_of_version_2_costs_no_other() {
    const SECTION: u64 = 0x2_0000_0000;
    const FAR: u64 = 0x1_0000_0000;
    let rules = Rules::Frame(Frame {
        cfa: CfaRule::register(7, 8),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Unchanged,
        mangled: false,
    });
    let function = Function { size: 16, rows: vec![Row { start: 0, rules }], ..Function::default() };
    let mut encoder = Encoder::new(Options::new(Abi::Amd64).version(Version::V2));
    let addresses = [SECTION - FAR, SECTION - 0x2000, SECTION + 0x1000, SECTION + 0x2000, SECTION + FAR];
    let placed = addresses.map(|address| (address, encoder.add(&function).unwrap()));
    let mut bytes = vec![0; encoder.size()];
    let error = encoder.write(SECTION, &placed, &mut bytes).unwrap_err();
    let distance = -(FAR as i64) - HEADER_SIZE as i64;
    assert_eq!((error.offset, error.kind), (HEADER_SIZE, ErrorKind::StartRange { distance, width: 4 }));
    let blob = Blob::parse(&bytes, SECTION).unwrap();
    blob.check().unwrap();
    assert!(blob.header().is_sorted() && blob.is_ascending());
    assert_eq!(blob.fdes().map(|fde| fde.size).collect::<Vec<_>>(), [0, 16, 16, 16, 0]);
    for address in addresses {
        let found = blob.lookup(address + 8).unwrap().map(|found| found.row.rules);
        let is_near = address.abs_diff(SECTION) < FAR;
        assert_eq!(found, is_near.then_some(rules), "{address:#x}");
    }
}
