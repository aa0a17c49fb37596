//! Walks a saved stack by a program's SFrame section, as a profiler does with a sample:
//! `cargo run --example unwind -- PROGRAM PC SP FP WORD...`. All numbers are hexadecimal. The words are those
//! of the stack, starting at SP.

use object::{Object, ObjectSection};
use sframe_format::{Abi, FileRows, FrameAddress, Module, ModuleId, Registers, RuleCache, Unwinder};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = std::fs::read(arguments.next().ok_or("usage: unwind PROGRAM PC SP FP WORD...")?)?;
    let number = |word: String| u64::from_str_radix(word.trim_start_matches("0x"), 16);
    let numbers = arguments.map(number).collect::<Result<Vec<_>, _>>()?;
    let [pc, sp, fp, stack @ ..] = &*numbers else { return Err("registers are missing".into()) };
    let file = object::File::parse(&*program)?;
    let section = file.section_by_name(".sframe").ok_or("the program has no section .sframe")?;

    let mut unwinder = Unwinder::new(Abi::Amd64);
    let rows = FileRows::new(section.data()?.to_vec(), section.address()).tabled();
    // The program is loaded at the addresses in the file itself.
    unwinder.add_module(Module::new(ModuleId(1), 0..u64::MAX, 0, rows));
    let mut cache = RuleCache::<512>::new();
    let mut registers = Registers::new(*sp, *fp, None);
    let mut read = |address: u64| {
        let place = address.wrapping_sub(*sp) / 8;
        stack.get(usize::try_from(place).map_err(drop)?).copied().ok_or(())
    };
    let mut at = FrameAddress::InstructionPointer(*pc);
    // A damaged stack may go in circles.
    for _ in 0..100 {
        println!("{:#x}", at.address());
        match unwinder.unwind_frame(at, &mut registers, &mut cache, &mut read) {
            Ok(Some(caller)) => at = caller.address,
            Ok(None) => break,
            Err(error) => return Err(error.to_string().into()),
        }
    }
    Ok(())
}
