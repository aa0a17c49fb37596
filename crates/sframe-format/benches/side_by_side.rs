//! Gives the same work to all unwinders in turns, for machines that do other work at the same time: a
//! disturbance of one pass also hits its neighbours. Prints the fastest and the median pass of each unwinder,
//! in nanoseconds for each frame or look-up, and how many times as long framehop took. `look_up.rs` measures
//! one unwinder after the other.
//!
//! `cargo bench --features derive --bench side_by_side -- [PASSES] [NAME]`. With a name, only that unwinder
//! runs, so that a simulator can count its instructions and cache misses.

mod input;

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use input::{Input, Stack};
use sframe_format::{FrameAddress, Registers, RuleCache, SectionIndex, Unwinder};

const FRAMES: usize = 4000;
/// Number of frames of the stack whose rules are all in the caches, and number of its different return
/// addresses.
const CACHED: (usize, usize) = (200, 8);
const RANDOM: usize = 100_000;

/// Does the work once with one unwinder. Returns the number of frames or look-ups.
type Work<'input> = Box<dyn FnMut() -> usize + 'input>;

/// A stack with a number of frames and a number of different return addresses. If both are equal, no rule
/// cache helps.
fn all_steps(input: &Input, (frames, distinct): (usize, usize)) -> Vec<(&'static str, Work<'_>)> {
    let stack = Rc::new(input.stack(frames, distinct));
    let (unwinder, mut cache, own_stack) = (input.framehop(), CacheX86_64::<_>::new(), stack.clone());
    let framehop = Box::new(move || input::count_with_framehop(&unwinder, &own_stack, &mut cache));
    let tabled = steps(input.tabled(), stack.clone());
    let compact = steps(input.by_compact_table(), stack.clone());
    let bisecting = steps(input.unwinder(), stack);
    vec![("framehop", framehop), ("bisecting", bisecting), ("with table", tabled), ("compact", compact)]
}

fn steps<'input>(unwinder: Unwinder<&'input [u8]>, stack: Rc<Stack>) -> Work<'input> {
    let mut cache = RuleCache::<512>::new();
    Box::new(move || input::count(&unwinder, &stack, &mut cache))
}

/// A look-up and step at random addresses.
fn random_addresses(input: &Input) -> Vec<(&'static str, Work<'_>)> {
    let pcs = Rc::new(input.random_pcs(RANDOM));
    let (unwinder, mut cache, own) = (input.framehop(), CacheX86_64::<_>::new(), pcs.clone());
    let framehop = Box::new(move || {
        for &pc in &*own {
            let mut registers = UnwindRegsX86_64::new(pc, 0x7000_0000, 0x7000_1000);
            let address = framehop::FrameAddress::from_instruction_pointer(pc);
            let _ = black_box(unwinder.unwind_frame(address, &mut registers, &mut cache, &mut read));
        }
        own.len()
    });
    let tabled = single_steps(input.tabled(), pcs.clone());
    let compact = single_steps(input.by_compact_table(), pcs.clone());
    let (rows, table) = (look_ups(input, pcs.clone()), compact_look_ups(input, pcs.clone()));
    let bisecting = single_steps(input.unwinder(), pcs);
    vec![
        ("framehop", framehop),
        ("bisecting", bisecting),
        ("with table", tabled),
        ("compact", compact),
        ("bisecting, row only", rows),
        ("compact, row only", table),
    ]
}

/// Look-ups without steps, in the section and in the compact table.
fn look_ups(input: &Input, pcs: Rc<Vec<u64>>) -> Work<'_> {
    let index = SectionIndex::new(&*input.sframe, input.sframe_address);
    Box::new(move || {
        for &pc in &*pcs {
            let _ = black_box(index.lookup(pc));
        }
        pcs.len()
    })
}

fn compact_look_ups(input: &Input, pcs: Rc<Vec<u64>>) -> Work<'_> {
    let table = input.compact();
    Box::new(move || {
        for &pc in &*pcs {
            let _ = black_box(table.lookup(pc));
        }
        pcs.len()
    })
}

fn single_steps<'input>(unwinder: Unwinder<&'input [u8]>, pcs: Rc<Vec<u64>>) -> Work<'input> {
    let mut cache = RuleCache::<512>::new();
    Box::new(move || {
        for &pc in &*pcs {
            let mut registers = Registers::new(0x7000_0000, 0x7000_1000, None);
            let address = FrameAddress::InstructionPointer(pc);
            let _ = black_box(unwinder.unwind_frame(address, &mut registers, &mut cache, &mut read));
        }
        pcs.len()
    })
}

fn read(address: u64) -> Result<u64, ()> {
    if address != 0 { Ok(address) } else { Err(()) }
}

fn measure(what: &str, mut contenders: Vec<(&str, Work<'_>)>, passes: usize) {
    let wanted = std::env::args().skip(1).find(|argument| argument.starts_with(char::is_alphabetic));
    contenders.retain(|(name, _)| wanted.as_ref().is_none_or(|wanted| name.contains(wanted)));
    let mut times = vec![Vec::with_capacity(passes); contenders.len()];
    for _ in 0..passes {
        for ((_, work), times) in contenders.iter_mut().zip(&mut times) {
            let start = Instant::now();
            let count = work();
            times.push(start.elapsed().as_nanos() as f64 / count as f64);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let figures = |times: &[f64]| [times[0], times[times.len() / 2]];
    let base = figures(&times[0]);
    for ((name, _), times) in contenders.iter().zip(&times) {
        let [least, median] = figures(times);
        println!(
            "{what:40} {name:19} least {least:6.1} ns ({:4.2}x)  median {median:6.1} ns ({:4.2}x)",
            base[0] / least,
            base[1] / median,
        );
    }
}

fn main() {
    let passes = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(100);
    for prefix in ["libstd-", "librustc_driver-"] {
        let Some(input) = Input::of_toolchain(prefix) else {
            println!("no {prefix}*.so in this toolchain");
            continue;
        };
        println!("{}: {} functions, {} bytes of .sframe", input.name, input.functions(), input.sframe.len());
        measure(&format!("cached step, {}", input.name), all_steps(&input, CACHED), 50 * passes);
        measure(&format!("uncached step, {}", input.name), all_steps(&input, (FRAMES, FRAMES)), passes);
        measure(&format!("random address, {}", input.name), random_addresses(&input), passes);
    }
}
