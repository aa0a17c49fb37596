//! Proves the linker on a C++ compiler, linked from Debian's static archives of libclang and LLVM.

use super::proof::Proof;
use crate::bench::{case::Case, programs};
use crate::commands::output;
use anyhow::Result;
use std::process::Command;

pub fn llvm(proof: &mut Proof) -> Result<()> {
    let folder = proof.folder.join("case");
    std::fs::create_dir_all(&folder)?;
    let case = match Case::load(&folder) {
        Some(case) => case,
        None => {
            let case = programs::prepare_llvm(&folder)?;
            case.save(&folder)?;
            case
        }
    };
    let program = folder.join("compiler");
    let mut command = Command::new(proof.folder.join("installed/bin/sframe-ld"));
    command.current_dir(&folder).args(&case.link).arg("-o").arg(&program);
    output(&mut command)?;
    proof.check(&program)?;
    case.check(&folder, &program).map_err(anyhow::Error::msg)?;
    let archives = case.link.iter().filter(|a| a.ends_with(".a")).count();
    proof.note(format!(
        "- {archives} archives named; the linked compiler compiles C++ to s390x assembly as expected"
    ))
}
