//! Steps allocate nothing, whether they are hits, misses, steps by tables or by flexible rules, or steps that
//! fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{
    Abi, CfaRule, FileRows, Frame, FrameAddress, Location, Module, ModuleId, RegisterRule, Registers, Row,
    RuleCache, Rules, Unwinder,
};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_step_allocates() {
    let rules = |cfa, fp| {
        let ra = RegisterRule::Saved(Location::at_cfa(-8));
        Rules::Frame(Frame { cfa, ra, fp, mangled: false })
    };
    let function = |rules| Function { size: 16, rows: vec![Row { start: 0, rules }], ..Function::default() };
    let kept = RegisterRule::Saved(Location::in_register(3));
    let functions: Vec<_> = (0..64u64)
        .map(|number| {
            let rules = match number % 3 {
                0 => rules(CfaRule::register(7, 8), RegisterRule::Unchanged),
                1 => rules(CfaRule { register: 7, dereference: true, offset: 8 }, kept),
                _ => Rules::Outermost,
            };
            (0x1000 + 16 * number, function(rules))
        })
        .collect();
    let bytes = write_sorted(Options::new(Abi::Amd64), 0x9000, &functions).unwrap().bytes;
    let rows = || FileRows::new(&*bytes, 0x9000).with_derived(&*bytes, 0x9000);
    for rows in [rows(), rows().tabled()] {
        let mut unwinder = Unwinder::new(Abi::Amd64);
        unwinder.add_module(Module::new(ModuleId(0), 0..0x1_0000, 0, rows));
        let mut cache: RuleCache<8> = RuleCache::new();
        let before = ALLOCATIONS.with(Cell::get);
        for pc in (0xff0u64..0x1500).flat_map(|pc| [pc, pc]) {
            let mut registers = Registers::new(0x7000, 0x7100, None);
            let mut read = |address: u64| if address & 16 == 0 { Ok(address + 0x100) } else { Err(()) };
            let at = FrameAddress::InstructionPointer(pc);
            let _ = unwinder.unwind_frame(at, &mut registers, &mut cache, &mut read);
        }
        assert_eq!(ALLOCATIONS.with(Cell::get), before);
        let (hits, misses) = cache.statistics();
        assert!(hits > 0 && misses > 0);
    }
}
