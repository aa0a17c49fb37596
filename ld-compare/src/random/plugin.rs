//! Link-time optimization: names the compiler's plugin to linkers, as the compiler itself would.
//!
//! The plugin starts the compiler again, through a program that asks for the arguments of the compiler that
//! started the link. Here no compiler started it, so a script in the program's folder supplies the arguments.

use crate::peers::{Family, Linker};
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script that starts the compiler again. Linkers find it in the folder of the program.
const WRAPPER: &str = "lto-wrapper";

/// The compiler's plugin.
pub struct Plugin {
    /// Its file.
    pub library: String,
    /// The script.
    wrapper: PathBuf,
    /// A mold that can start itself again, if a script is necessary for that.
    mold: Option<Linker>,
}

impl Plugin {
    /// The plugin of a compiler, if it has one. Scripts are written into `folder`.
    ///
    /// # Errors
    /// The compiler cannot be started, or the folder cannot be written.
    pub fn new(compiler: &Path, linkers: &[Linker], folder: &Path) -> Result<Option<Self>> {
        let ask = |question: &str| -> Result<String> {
            let said = Command::new(compiler).arg(question).output();
            let said = said.with_context(|| format!("cannot run {}", compiler.display()))?;
            Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
        };
        let library = ask("-print-file-name=liblto_plugin.so")?;
        let program = ask("-print-prog-name=lto-wrapper")?;
        if !Path::new(&library).is_absolute() {
            return Ok(None);
        }
        let wrapper = folder.join(WRAPPER);
        let words = "'-O2' '-ffreestanding' '-fno-stack-protector' '-flto' '-flto-partition=none' '-w'";
        let compiler = compiler.display();
        let text =
            format!("COLLECT_GCC='{compiler}' COLLECT_GCC_OPTIONS=\"{words}\" exec '{program}' \"$@\"\n");
        write_script(&wrapper, &text)?;
        let mold = linkers.iter().find(|linker| linker.family == Family::Mold);
        let mold = mold.map(|mold| by_itself(mold, folder)).transpose()?.flatten();
        Ok(Some(Plugin { library, wrapper, mold }))
    }

    /// The arguments for linkers.
    pub fn words(&self) -> Vec<String> {
        let wrapper = format!("-plugin-opt=./{WRAPPER}");
        ["-plugin", &self.library, &wrapper, "-plugin-opt=-fresolution=lto.resolution"]
            .map(String::from)
            .to_vec()
    }

    /// Copies the script into a program's folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn copy_to(&self, folder: &Path) -> std::io::Result<u64> {
        std::fs::copy(&self.wrapper, folder.join(WRAPPER))
    }

    /// The linker in a form that can start itself again.
    pub fn restarted<'a>(&'a self, linker: &'a Linker) -> &'a Linker {
        self.mold.as_ref().filter(|_| linker.family == Family::Mold).unwrap_or(linker)
    }
}

fn write_script(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(path, format!("#!/bin/sh\n{text}"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

/// For link-time optimization, mold starts itself again. A mold from another system is started through that
/// system's dynamic linker (the file `cmd` beside it has the words), so mold would start that dynamic linker
/// instead. So a script starts mold directly here, with the one library that this system lacks.
fn by_itself(mold: &Linker, folder: &Path) -> Result<Option<Linker>> {
    let words = mold.command.last().map(|file| Path::new(file).with_file_name("cmd"));
    let Some(Ok(text)) = words.map(std::fs::read_to_string) else { return Ok(None) };
    let words: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let at = words.iter().position(|word| *word == "--library-path");
    let (Some(folders), Some(program)) = (at.and_then(|at| words.get(at + 1)), words.last()) else {
        return Ok(None);
    };
    for from in folders.split(':') {
        for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("libmimalloc.so.") {
                std::fs::copy(entry.path(), folder.join(entry.file_name()))?;
            }
        }
    }
    let script = folder.join("mold-by-itself");
    write_script(&script, &format!("LD_LIBRARY_PATH='{}' exec '{program}' \"$@\"\n", folder.display()))?;
    Ok(Linker::probe(&mold.name, vec![script.display().to_string()]))
}
