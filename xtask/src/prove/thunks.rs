//! Proves thunks at size: an AArch64 program with 300 MiB of code, in which thousands of functions are called
//! from further away than a branch reaches (128 MiB). It is compared with the same program with near calls.
//!
//! The objects are written directly. Each contains functions in sections of their own. A function calls
//! functions of its object; every fourth one also calls a function that is half of the program away:
//!
//! ```text
//! 0 MiB            150 MiB                300 MiB
//! ├── a calls b ──────► b calls c ──────► c ...      the branches do not reach, so each needs a thunk
//! ```
//!
//! The first function of an object calls all others in it, and the main program calls the first ones. So the
//! running program makes every call. Each function returns the sum of a constant and its callees' results, so
//! a branch to the wrong place changes the output.

use super::proof::Proof;
use crate::bench::case::{link_line, must_run};
use crate::bench::generated_object::{
    AARCH64, ALLOCATED, EXECUTABLE, ObjectFile, SymbolId, SymbolKind, WRITABLE,
};
use crate::bench::generated_program::mix;
use crate::bench::measure::{Cost, measure, median};
use crate::commands::output;
use crate::peers;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const TRIPLE: &str = "aarch64-linux-gnu";
const OBJECTS: u64 = 1550;
/// Functions in an object.
const FUNCTIONS: u64 = 100;
/// Size of a function in bytes.
const SIZE: usize = 2048;
/// Calls in a function.
const CALLS: u64 = 16;
/// One function in this many makes a far call.
const FAR_EVERY: u64 = 4;
/// Functions in an object that are called from far away.
const SHARED: u64 = 4;
/// The distances of far calls vary by this many objects.
const JITTER: u64 = 150;
/// Timed runs of each link.
const RUNS: usize = 7;
const THREADS: usize = 2;
/// The largest allowed ratio between the times of the links with and without thunks.
const MOST: f64 = 1.3;

/// Relocation types (AArch64 ELF psABI, 5.7).
const R_ABS64: u32 = 257;
const R_CALL26: u32 = 283;

pub fn thunks(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let driver = peers::program(&format!("{TRIPLE}-gcc"))?;
    let (far, near) = (prepare(proof, &driver, true)?, prepare(proof, &driver, false)?);
    let mebibytes = (OBJECTS * FUNCTIONS * SIZE as u64) >> 20;
    proof.note(format!(
        "{OBJECTS} objects, {mebibytes} MiB of their code, {} calls\n",
        OBJECTS * FUNCTIONS * CALLS
    ))?;
    let far_program = link(proof, &far, &[], "far")?;
    let near_program = link(proof, &near, &[], "near")?;
    run(proof, &far_program, true)?;
    run(proof, &near_program, false)?;
    let (count, none) = (thunk_count(proof, &far_program)?, thunk_count(proof, &near_program)?);
    ensure!(count >= 4000 && none == 0, "{count} thunks, {none} in the near program");
    proof.note(format!(
        "- {count} thunks, none in the other program; under the emulator both print the right sums"
    ))?;
    let first = std::fs::read(&far_program)?;
    for threads in [1, 2, 3, 8] {
        let again = link(proof, &far, &[format!("--threads={threads}")], "again")?;
        ensure!(std::fs::read(&again)? == first, "{threads} threads give other bytes");
    }
    proof.note("- 1, 2, 3 and 8 threads give the same bytes")?;
    let framed =
        link(proof, &far, &["--sframe-index", "--sframe-from-eh-frame=all"].map(String::from), "again")?;
    let said = proof.tool(sframe, &["verify", &framed.display().to_string()])?;
    // Only the main program has frames in its code; all others in the index are those of thunks.
    let rows = format!("not in .eh_frame: {count} functions");
    ensure!(said.contains(" 0 errors, 0 warnings") && said.contains(&rows), "{said}");
    proof.note(format!("- `--sframe-index` has rows for all {count}, and `sframe verify` is content"))?;
    compare(proof, &far, &near)
}

/// A prepared link.
struct Inputs {
    folder: PathBuf,
    arguments: Vec<String>,
}

fn prepare(proof: &Proof, driver: &Path, far: bool) -> Result<Inputs> {
    let folder = proof.folder.join(if far { "inputs-far" } else { "inputs-near" });
    std::fs::create_dir_all(&folder)?;
    let driver = driver.display().to_string();
    std::fs::write(folder.join("main.c"), include_str!("thunks_main.c"))?;
    must_run(&folder, &driver, &["-O2", "-ffreestanding", "-c", "main.c"].map(String::from))?;
    let mut names = Vec::new();
    for object in 0..OBJECTS {
        let name = format!("{object:04}.o");
        std::fs::write(folder.join(&name), write_object(object, far))?;
        names.push(name);
    }
    names.extend(["main.o", "-static", "-nostdlib"].map(String::from));
    let arguments = link_line(&folder, &driver, &names)?;
    Ok(Inputs { folder, arguments })
}

fn name(object: u64, function: u64) -> String {
    format!("_ZN4unit{object:04}8function{function:02}Em")
}

/// The constant of a function, without the results of its callees; 16 bits.
fn constant(object: u64, function: u64) -> u64 {
    (object * 40_503 + function * 30_011 + 7) & 0xffff
}

/// The callees of a function.
fn callees(object: u64, function: u64, far: bool) -> Vec<(u64, u64)> {
    if function == 0 {
        return (1..FUNCTIONS).map(|callee| (object, callee)).collect();
    }
    let near = |call: u64| (object, 1 + (function * 7 + call * 13) % (FUNCTIONS - 1));
    let mut all: Vec<_> = (0..CALLS).map(near).collect();
    if function % FAR_EVERY == 1 {
        let mixed = mix(object, function);
        let distance = OBJECTS / 2 - JITTER / 2 + mixed % JITTER;
        let callee = 1 + (mixed / JITTER) % SHARED;
        all[0] = if far { ((object + distance) % OBJECTS, callee) } else { (object, callee) };
    }
    all
}

/// The result of a function, called with this depth.
fn result(object: u64, function: u64, depth: u64, far: bool) -> u64 {
    let mut sum = constant(object, function);
    if depth > 0 {
        sum += callees(object, function, far).iter().map(|&(o, f)| result(o, f, depth - 1, far)).sum::<u64>();
    }
    sum
}

fn write_object(number: u64, far: bool) -> Vec<u8> {
    let mut object = ObjectFile::new(AARCH64, &format!("unit_{number:04}.cpp"));
    object.add_section(".note.GNU-stack", 0, 1, None);
    let table = object.add_section("function_table", ALLOCATED | WRITABLE, 8, None);
    for function in 0..FUNCTIONS {
        let own = name(number, function);
        let section = object.add_section(&format!(".text.{own}"), ALLOCATED | EXECUTABLE, 16, None);
        let callees = callees(number, function, far);
        let (code, calls) = code(constant(number, function) as u32, callees.len());
        object.append(section, &code);
        object.define(&own, SymbolKind::Function, false, section);
        for (offset, (o, f)) in calls.into_iter().zip(callees) {
            let callee = object.global(&name(o, f));
            object.relocate(section, offset, callee, R_CALL26, 0);
        }
    }
    let entry: SymbolId = object.global(&name(number, 0));
    let offset = object.append(table, &[0; 8]);
    object.relocate(table, offset, entry, R_ABS64, 0);
    object.write()
}

/// The code of a function, and the places of its calls. It calls others with a depth that is less by one,
/// unless the depth is 0.
fn code(constant: u32, calls: usize) -> (Vec<u8>, Vec<u64>) {
    let mut words: Vec<u32> = vec![
        0xa9be_7bfd,                               // stp x29, x30, [sp, #-32]!
        0xa901_53f3,                               // stp x19, x20, [sp, #16]
        0xaa00_03f3,                               // mov x19, x0
        0xd280_0014 | constant << 5,               // movz x20, constant
        0xb400_0013 | (calls as u32 * 3 + 1) << 5, // cbz x19, past the calls
    ];
    let mut places = Vec::new();
    for _ in 0..calls {
        words.push(0xd100_0660); // sub x0, x19, #1
        places.push(words.len() as u64 * 4);
        words.push(0x9400_0000); // bl
        words.push(0x8b00_0294); // add x20, x20, x0
    }
    words.push(0xaa14_03e0); // mov x0, x20
    words.push(0xa941_53f3); // ldp x19, x20, [sp, #16]
    words.push(0xa8c2_7bfd); // ldp x29, x30, [sp], #32
    words.push(0xd65f_03c0); // ret
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let nop = 0xd503_201f_u32.to_le_bytes();
    while bytes.len() < SIZE {
        bytes.extend(nop);
    }
    (bytes, places)
}

fn command(proof: &Proof, inputs: &Inputs, more: &[String], out: &Path) -> Vec<String> {
    let mut words = vec![proof.prefix.join("ld").display().to_string()];
    words.extend(inputs.arguments.iter().chain(more).cloned());
    words.extend(["-o".to_owned(), out.display().to_string()]);
    words
}

fn link(proof: &Proof, inputs: &Inputs, more: &[String], out: &str) -> Result<PathBuf> {
    let out = proof.folder.join(out);
    let words = command(proof, inputs, more, &out);
    output(Command::new(&words[0]).args(&words[1..]).current_dir(&inputs.folder))?;
    Ok(out)
}

fn run(proof: &Proof, program: &Path, far: bool) -> Result<()> {
    let emulator = peers::program("qemu-aarch64")?;
    let text = proof.tool(emulator, &[&program.display().to_string()])?;
    let sum = (0..OBJECTS).map(|object| result(object, 0, 2, far)).sum::<u64>();
    let expected = format!("{sum}\n");
    ensure!(text == expected, "{} prints {text:?}, not {expected:?}", program.display());
    Ok(())
}

fn thunk_count(proof: &Proof, program: &Path) -> Result<usize> {
    let symbols = proof.tool("readelf", &["-sW", &program.display().to_string()])?;
    Ok(symbols.lines().filter(|line| line.ends_with("_veneer") && !line.contains("__erratum")).count())
}

/// Links both programs in turns, and compares the medians.
fn compare(proof: &mut Proof, far: &Inputs, near: &Inputs) -> Result<()> {
    let mut costs: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
    let out = proof.folder.join("timed");
    for round in 0..=RUNS {
        for (inputs, costs) in [near, far].into_iter().zip(&mut costs) {
            let _ = std::fs::remove_file(&out);
            let words = command(proof, inputs, &[format!("--threads={THREADS}")], &out);
            let run = measure(&inputs.folder, THREADS, &words)?;
            ensure!(run.cost.success, "{}", run.messages);
            // The first round only warms the file cache.
            costs.extend((round > 0).then_some(run.cost));
        }
    }
    let median = |costs: &[Cost], of: fn(&Cost) -> f64| median(costs.iter().map(of)).unwrap_or(f64::NAN);
    proof.note(format!("\nMedians of {RUNS} links each, in turns, {THREADS} threads:\n"))?;
    proof.note("| | near calls | far calls | ratio |\n|---|---|---|---|")?;
    let mut ratios = Vec::new();
    for (what, of) in [("wall, s", (|cost| cost.wall) as fn(&Cost) -> f64), ("processor, s", |cost| cost.cpu)]
    {
        let (near, far) = (median(&costs[0], of), median(&costs[1], of));
        proof.note(format!("| {what} | {near:.3} | {far:.3} | {:.2} |", far / near))?;
        ratios.push(far / near);
    }
    ensure!(ratios[0] <= MOST, "the link with thunks takes more than {MOST} times as long");
    Ok(())
}
