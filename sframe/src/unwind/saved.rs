//! Registers and memory that something else saved: a text file with registers, a binary file with the stack.

use super::memory::Memory;
use super::modules::{Loading, Modules, Place};
use super::process::{Process, Thread, bad};
use crate::args::Unwind;
use crate::open::{Problem, for_each_input};
use crate::registers;
use sframe_format::Abi;
use stacks::bytes::Bytes;

/// Reads registers, memory and modules as the command line names them.
///
/// # Errors
/// A file cannot be read, a register is not known, or one that is needed is missing.
pub fn read(arguments: &Unwind) -> Result<Process, Problem> {
    let (Some(path), Some(first)) = (&arguments.registers, arguments.modules.first()) else {
        return Err(bad("arguments", "expected --core, or --registers, --memory and modules as FILE@BIAS"));
    };
    let mut abi = None;
    for_each_input(&first.path, 0, &mut |input| {
        abi = input.abi;
        Ok(())
    })?;
    let abi = abi.ok_or_else(|| bad(&first.path.display().to_string(), "neither a program nor a library"))?;
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| bad(&name, format!("cannot read: {error}")))?;
    let thread = parse_registers(abi, &text).map_err(|message| bad(&name, message))?;
    let mut pieces = Vec::new();
    for piece in &arguments.memory {
        let file = piece.path.display().to_string();
        let bytes = Bytes::open(&piece.path).map_err(|error| bad(&file, format!("cannot read: {error}")))?;
        let address = piece.bias.ok_or_else(|| bad(&file, "expected FILE@ADDRESS"))?;
        pieces.push((address, bytes));
    }
    let mut modules = Modules::new(abi);
    for module in &arguments.modules {
        let file = module.path.display().to_string();
        let place = Place::Bias(module.bias.unwrap_or(0));
        modules.add_file(&module.path, &file, &[Loading { place, build_id: None }], arguments.derivation);
    }
    let saved = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    Ok(Process { abi, threads: vec![thread], memory: Memory::new(pieces), modules, saved })
}

/// Reads registers from lines such as `rip 0x401000` or `rsp = 0x7ffe00001000`; a third column, as
/// gdb's `info registers` has it, is not read.
pub fn parse_registers(abi: Abi, text: &str) -> Result<Thread, String> {
    let mut thread = Thread { name: "saved registers".into(), pc: 0, registers: vec![None; 33] };
    let mut pc = None;
    for (line, content) in text.lines().enumerate() {
        let mut words =
            content.split(|c: char| c.is_whitespace() || c == '=').filter(|word| !word.is_empty());
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let value = value.map_err(|error| format!("line {}: value of {name}: {error}", line + 1))?;
        match number(abi, name) {
            Some(place) if abi == Abi::Amd64 && place == 16 => pc = Some(value),
            Some(place) => {
                if let Some(register) = thread.registers.get_mut(place) {
                    *register = Some(value);
                }
            }
            None if matches!(name, "pc" | "pswa") => pc = Some(value),
            // Flags, segments and the like.
            None => {}
        }
    }
    let needed = |what: &str| format!("no value for the {what}");
    thread.pc = pc.ok_or_else(|| needed("program counter"))?;
    let pointer = thread.registers.get(abi.stack_pointer() as usize).copied().flatten();
    pointer.ok_or_else(|| needed("stack pointer"))?;
    Ok(thread)
}

fn number(abi: Abi, name: &str) -> Option<usize> {
    let known = (0..33).find(|&number| registers::register(abi, number) == name);
    let alias = match (abi, name) {
        (Abi::AArch64Little | Abi::AArch64Big, "fp") => Some(29),
        (Abi::AArch64Little | Abi::AArch64Big, "lr") => Some(30),
        (_, "sp") => Some(abi.stack_pointer()),
        _ => None,
    };
    known.or(alias).map(|number| number as usize)
}
