//! Measures look-ups and unwinding steps beside `framehop` (on `.eh_frame` with `.eh_frame_hdr`) and
//! `simple-frame-rs`.
//!
//! All three read the same functions: those of a library of the Rust toolchain. The bench derives the
//! library's SFrame section itself, so it runs on every machine that can build this crate. `librustc_driver`
//! has about a hundred thousand functions, `libstd` a few thousand. Before it measures anything, the bench
//! compares the results of framehop with those of this crate.
//!
//! - `add`: a module with a sorted section, or with `.eh_frame_hdr`.
//! - `random`: one look-up and step at a random program counter of a random function.
//! - `deep`: a stack of 4000 frames with as many different return addresses, so that no rule cache helps.
//! - `shallow`: a stack of 200 frames over 8 functions, so that every rule is in the caches.

mod input;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use input::Input;
use sframe_format::{Abi, FrameAddress, Module, ModuleId, Registers, RuleCache, SectionIndex};

const DEEP: usize = 4000;
const RANDOM: usize = 100_000;

fn add(criterion: &mut Criterion, input: &Input) {
    let mut group = criterion.benchmark_group(format!("add/{}", input.name));
    group.bench_function("sframe-format", |bencher| {
        let mut unwinder = sframe_format::Unwinder::new(Abi::Amd64);
        bencher.iter(|| {
            unwinder.add_module(input.module());
            unwinder.remove_module(black_box(0));
        });
    });
    group.bench_function("sframe-format, table", |bencher| {
        let mut unwinder = sframe_format::Unwinder::new(Abi::Amd64);
        bencher.iter(|| {
            unwinder.add_module(Module::new(ModuleId(1), 0..1, 0, input.rows().tabled()));
            unwinder.remove_module(black_box(0));
        });
    });
    group.bench_function("framehop", |bencher| {
        let mut unwinder = framehop::x86_64::UnwinderX86_64::<&[u8]>::new();
        bencher.iter(|| {
            unwinder.add_module(input.framehop_module());
            unwinder.remove_module(black_box(0));
        });
    });
    group.finish();
}

/// This crate's unwinders: with the V3 section only, with an additional `RuleTable`, and with a compact table
/// only.
fn unwinders(input: &Input) -> [(&'static str, sframe_format::Unwinder<&[u8]>); 3] {
    [
        ("sframe-format", input.unwinder()),
        ("sframe-format, table", input.tabled()),
        ("sframe-format, compact", input.by_compact_table()),
    ]
}

fn random(criterion: &mut Criterion, input: &Input) {
    let pcs = input.random_pcs(RANDOM);
    let mut group = criterion.benchmark_group(format!("random/{}", input.name));
    group.throughput(Throughput::Elements(pcs.len() as u64)).sample_size(20);
    let mut read = |address: u64| if address != 0 { Ok(address) } else { Err(()) };
    for (name, unwinder) in unwinders(input) {
        let mut cache = RuleCache::<512>::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for &pc in &pcs {
                    let mut registers = Registers::new(0x7000_0000, 0x7000_1000, None);
                    let address = FrameAddress::InstructionPointer(pc);
                    let _ = black_box(unwinder.unwind_frame(address, &mut registers, &mut cache, &mut read));
                }
            });
        });
    }
    let unwinder = input.framehop();
    let mut cache = CacheX86_64::<_>::new();
    group.bench_function("framehop", |bencher| {
        bencher.iter(|| {
            for &pc in &pcs {
                let mut registers = UnwindRegsX86_64::new(pc, 0x7000_0000, 0x7000_1000);
                let address = framehop::FrameAddress::from_instruction_pointer(pc);
                let _ = black_box(unwinder.unwind_frame(address, &mut registers, &mut cache, &mut read));
            }
        });
    });
    group.finish();
    rows_only(criterion, input, &pcs);
}

/// Look-ups without steps, because simple-frame-rs does nothing else.
fn rows_only(criterion: &mut Criterion, input: &Input, pcs: &[u64]) {
    let mut group = criterion.benchmark_group(format!("row/{}", input.name));
    group.throughput(Throughput::Elements(pcs.len() as u64)).sample_size(20);
    let index = SectionIndex::new(&*input.sframe, input.sframe_address);
    group.bench_function("sframe-format", |bencher| {
        bencher.iter(|| {
            pcs.iter().for_each(|&pc| {
                let _ = black_box(index.lookup(pc));
            });
        });
    });
    let compact = input.compact();
    group.bench_function("sframe-format, compact", |bencher| {
        bencher.iter(|| {
            pcs.iter().for_each(|&pc| {
                let _ = black_box(compact.lookup(pc));
            });
        });
    });
    let section = simple_frame_rs::SFrameSection::from(&input.sframe, input.sframe_address).unwrap();
    group.bench_function("simple-frame-rs", |bencher| {
        bencher.iter(|| {
            for &pc in pcs {
                let fde = section.find_fde(pc).unwrap().unwrap();
                let _ = black_box(fde.find_fre(&section, pc));
            }
        });
    });
    group.finish();
}

fn stacks(criterion: &mut Criterion, input: &Input) {
    for (name, stack) in [("deep", input.stack(DEEP, DEEP)), ("shallow", input.stack(200, 8))] {
        let mut group = criterion.benchmark_group(format!("{name}/{}", input.name));
        group.throughput(Throughput::Elements(stack.frames.len() as u64)).sample_size(50);
        for (kind, unwinder) in unwinders(input) {
            let mut cache = RuleCache::<512>::new();
            group
                .bench_function(kind, |bencher| bencher.iter(|| input::count(&unwinder, &stack, &mut cache)));
        }
        let unwinder = input.framehop();
        let mut cache = CacheX86_64::<_>::new();
        group.bench_function("framehop", |bencher| {
            bencher.iter(|| input::count_with_framehop(&unwinder, &stack, &mut cache));
        });
        group.finish();
        let statistics = cache.stats();
        println!("framehop's cache: {} hits, {} misses", statistics.hits(), statistics.misses());
    }
}

fn all(criterion: &mut Criterion) {
    for prefix in ["libstd-", "librustc_driver-"] {
        let Some(input) = Input::of_toolchain(prefix) else {
            println!("no {prefix}*.so in this toolchain");
            continue;
        };
        println!("{}: {} functions, {} bytes of .sframe", input.name, input.functions(), input.sframe.len());
        add(criterion, &input);
        random(criterion, &input);
        stacks(criterion, &input);
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
