//! Registers and memory that another program saved: a text file with registers, a binary file with the stack.

use crate::args::Unwind;
use crate::open::Problem;
use crate::registers;
use sframe_format::Abi;
use stacks::bytes::Bytes;
use stacks::image::Image;
use stacks::memory::Memory;
use stacks::session::{Session, Settings};
use stacks::snapshot::{Snapshot, Thread};

/// Reads the registers, memory and modules that the command line names.
///
/// # Errors
/// A file cannot be read, a register is unknown, or a necessary one is missing.
pub fn read(arguments: &Unwind, settings: Settings) -> Result<(Snapshot, Session), Problem> {
    let (Some(path), Some(first)) = (&arguments.registers, arguments.modules.first()) else {
        return Err(Problem::new(
            "arguments",
            "expected --core, or --registers, --memory and modules as FILE@BIAS",
        ));
    };
    let abi = match Image::open(&first.path) {
        Ok(image) => image.abi(),
        Err(message) => return Err(Problem::new(first.path.display().to_string(), message)),
    };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::new(&name, format!("cannot read: {error}")))?;
    let mut snapshot = Snapshot::new(abi);
    snapshot.threads.push(parse_registers(abi, &text).map_err(|message| Problem::new(&name, message))?);
    let mut pieces = Vec::new();
    for piece in &arguments.memory {
        let file = piece.path.display().to_string();
        let bytes =
            Bytes::open(&piece.path).map_err(|error| Problem::new(&file, format!("cannot read: {error}")))?;
        let address = piece.bias.ok_or_else(|| Problem::new(&file, "expected FILE@ADDRESS"))?;
        pieces.push((address, bytes));
    }
    snapshot.saved = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    snapshot.memory = Memory::new(pieces);
    snapshot.name = first.path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
    let mut session = Session::new(abi, settings);
    for module in &arguments.modules {
        let id = session.files_mut().open_here(&module.path, None);
        session.map_whole(snapshot.pid, id, |_| Some(module.bias.unwrap_or(0)));
    }
    Ok((snapshot, session))
}

/// Reads registers from lines such as `rip 0x401000` or `rsp = 0x7ffe00001000`. It ignores a third column,
/// which gdb's `info registers` has.
pub fn parse_registers(abi: Abi, text: &str) -> Result<Thread, String> {
    let mut thread = Thread { tid: 0, signal: 0, pc: 0, registers: vec![None; 33], base: None };
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
            None if abi == Abi::Amd64 && name == "fs_base" => thread.base = Some(value),
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
