//! Code that is generic over framehop's trait walks the same stack with this crate's unwinder.

use std::collections::BTreeMap;

use framehop::Unwinder as _;
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{
    Abi, CfaRule, FileRows, Frame, Location, Module, ModuleId, RegisterRule, Registers, Row, RuleCache,
    Rules, Unwinder,
};

/// Walks as framehop's users do, and knows nothing but the trait.
fn walk<U: framehop::Unwinder>(
    unwinder: &U,
    pc: u64,
    registers: U::UnwindRegs,
    cache: &mut U::Cache,
    words: &BTreeMap<u64, u64>,
) -> (Vec<u64>, Option<framehop::Error>) {
    let mut read = |address| words.get(&address).copied().ok_or(());
    let mut frames = unwinder.iter_frames(pc, registers, cache, &mut read);
    let mut found = Vec::new();
    loop {
        match frames.next() {
            Ok(Some(frame)) => found.push(frame.address()),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
        }
    }
}

#[test]
fn generic_code_unwinds_by_sframe() {
    let leaf = Rules::Frame(Frame {
        cfa: CfaRule::register(7, 8),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Unchanged,
        mangled: false,
    });
    let function = |rules| Function { size: 16, rows: vec![Row { start: 0, rules }], ..Function::default() };
    let functions = [(0x1000, function(leaf)), (0x1010, function(Rules::Outermost))];
    let bytes = write_sorted(Options::new(Abi::Amd64), 0x5000, &functions).unwrap().bytes;
    let mut unwinder = Unwinder::new(Abi::Amd64);
    framehop::Unwinder::add_module(
        &mut unwinder,
        Module::new(ModuleId(1), 0x1000..0x2000, 0, FileRows::new(bytes, 0x5000)),
    );
    assert_eq!(unwinder.max_known_code_address(), 0x2000);
    let mut cache = RuleCache::new();
    let registers = || Registers::new(0x8000, 0, None);
    let words = BTreeMap::from([(0x8000, 0x1014)]);
    assert_eq!(walk(&unwinder, 0x1004, registers(), &mut cache, &words), (vec![0x1004, 0x1014], None));
    let (frames, error) = walk(&unwinder, 0x1004, registers(), &mut cache, &BTreeMap::new());
    assert_eq!((frames, error), (vec![0x1004], Some(framehop::Error::CouldNotReadStack(0x8000))));
    let (frames, error) = walk(&unwinder, 0x1800, registers(), &mut cache, &words);
    assert_eq!((frames, error), (vec![0x1800], Some(framehop::Error::DidNotAdvance)));
}
