//! The ways in which programs find their frames.

use crate::exceptions;
use crate::prove::proof::Proof;
use anyhow::{Context, Result};

/// How programs find their frames: a name, and the options of the link.
pub struct Way {
    pub name: &'static str,
    pub options: Vec<String>,
    /// Where its program is, below the proof's folder. The program has the same name in every way.
    pub folder: &'static str,
}

/// The usual way, and the two of a table, whose archives are built.
pub fn ways(proof: &Proof) -> Result<Vec<Way>> {
    let archives = exceptions::build(&proof.folder.join("runtime"))?;
    let archive = |name: &str| {
        let file = format!("lib{name}-{}.a", std::env::consts::ARCH);
        let found = archives.iter().find(|path| path.ends_with(&file));
        let path = found.with_context(|| format!("no {file} was built"))?;
        Ok::<_, anyhow::Error>(format!("--unwind-runtime-archive={}", path.display()))
    };
    let replace = || "--unwind-table=replace".to_owned();
    let full = "--unwind-runtime=full".to_owned();
    Ok(vec![
        Way { name: "`.eh_frame`", folder: "usual", options: Vec::new() },
        Way { name: "look-ups", folder: "look-ups", options: vec![replace(), archive("sframe_exceptions")?] },
        Way {
            name: "unwinder",
            folder: "unwinder",
            options: vec![replace(), full, archive("sframe_unwinder")?],
        },
    ])
}
