//! Many functions with SFrame: 300 objects of assembly. Each has one SFrame section for all its functions, as
//! today's assemblers write it.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;

use super::case::{Case, link_line, must_run};
use crate::peers;

/// Number of objects, and of functions in each.
const OBJECTS: usize = 300;
const FUNCTIONS: usize = 500;

/// Assembles the objects in `folder`.
///
/// # Errors
/// No assembler that emits SFrame was fetched, or a tool fails.
pub fn prepare(folder: &Path) -> Result<Case> {
    let assembler = peers::program("as")?;
    std::fs::create_dir_all(folder.join("objects"))?;
    let mut names = vec!["main.o".to_string()];
    for object in 0..OBJECTS {
        let (source, name) = (format!("objects/{object:03}.s"), format!("objects/{object:03}.o"));
        std::fs::write(folder.join(&source), text(object))?;
        let arguments = ["--gsframe", &source, "-o", &name].map(String::from);
        must_run(folder, &assembler, &arguments)?;
        std::fs::remove_file(folder.join(&source))?;
        names.push(name);
    }
    std::fs::write(folder.join("main.c"), include_str!("programs/functions_main.c"))?;
    must_run(folder, "gcc", &["-O2", "-c", "main.c"].map(String::from))?;
    let link = link_line(folder, "gcc", &names)?;
    Ok(Case::new(link, &[], &["300 objects\n"]))
}

/// The source of an object. Each function calls the next one of its object, except for the last one, so a
/// single call per object reaches all of them. Every third function saves a register, so that rows differ.
fn text(object: usize) -> String {
    let mut text = String::new();
    for function in 0..FUNCTIONS {
        let section = format!(".section .text.f{object}_{function},\"ax\",@progbits");
        let global = if function == 0 { ".globl" } else { ".local" };
        let _ = writeln!(text, "{section}\n{global} f{object}_{function}");
        let _ =
            writeln!(text, ".type f{object}_{function}, @function\nf{object}_{function}:\n.cfi_startproc");
        if function % 3 == 0 {
            text += "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n";
        } else {
            text += "sub $24, %rsp\n.cfi_def_cfa_offset 32\n";
        }
        if function + 1 < FUNCTIONS {
            let _ = writeln!(text, "call f{object}_{}", function + 1);
        }
        text += if function % 3 == 0 {
            "pop %rbp\n.cfi_def_cfa %rsp, 8\n"
        } else {
            "add $24, %rsp\n.cfi_def_cfa_offset 8\n"
        };
        let _ = writeln!(text, "ret\n.cfi_endproc\n.size f{object}_{function}, . - f{object}_{function}");
    }
    let _ = writeln!(text, ".section function_table,\"aw\",@progbits\n.quad f{object}_0");
    text += ".section .note.GNU-stack,\"\",@progbits\n";
    text
}
