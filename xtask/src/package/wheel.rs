//! Makes a wheel, which Python's package clients install (`pip install`): the files of a tree, below the
//! prefix of a Python environment (PEP 427, PEP 600).
//!
//! A wheel cannot contain links. A shell script that becomes the program replaces a link to a program, and a
//! linker script that names the library replaces a link to a library.

use super::tools::files;
use super::zip::Zip;
use crate::commands;
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the wheel and of the project in Python's terms.
const NAME: &str = "sframe_ld";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes the wheel of a tree. Its programs start with the C library of manylinux 2.17.
pub fn wheel(tree: &Path, output: &Path) -> Result<PathBuf> {
    let machine = std::env::consts::ARCH;
    let platforms = format!("manylinux_2_17_{machine}.manylinux2014_{machine}");
    let mut zip = Zip::default();
    let mut record = String::new();
    let mut add = |name: &str, mode: u32, bytes: &[u8]| -> Result<()> {
        writeln!(record, "{name},sha256={},{}", digest(bytes)?, bytes.len())?;
        zip.add(name, 0o100_000 | mode, bytes)
    };
    for file in files(tree)? {
        let path = tree.join(&file);
        let place = match file.strip_prefix("bin") {
            Ok(program) => format!("{NAME}-{VERSION}.data/scripts/{}", program.display()),
            Err(_) => format!("{NAME}-{VERSION}.data/data/{}", file.display()),
        };
        if path.is_symlink() {
            let target = std::fs::read_link(&path)?;
            let is_library = file.starts_with("lib");
            let (mode, text) = if is_library {
                (0o644, format!("INPUT ( {} )\n", target.display()))
            } else {
                (0o755, script(&file, &target)?)
            };
            add(&place, mode, text.as_bytes())?;
        } else {
            let rights = std::fs::metadata(&path)?.permissions().mode();
            let is_program = file.starts_with("bin") || file.starts_with("libexec");
            let mode = if is_program && rights & 0o100 != 0 { 0o755 } else { 0o644 };
            add(&place, mode, &std::fs::read(&path)?)?;
        }
    }
    let information = format!("{NAME}-{VERSION}.dist-info");
    let tags: String = platforms.split('.').map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    let metadata = format!(
        "Metadata-Version: 2.1\nName: sframe-ld\nVersion: {VERSION}\n\
         Summary: An ELF linker that shows how SFrame stack-trace sections should be linked\n\
         License: MIT OR Apache-2.0\nRequires-Python: >=3.7\n\n\
         The commands sframe-ld, sframe and ld-compare. `gcc -B$(python3 -c 'import sys; print(sys.prefix)')/libexec/sframe-ld`\n\
         links by sframe-ld.\n"
    );
    let wheel = format!("Wheel-Version: 1.0\nGenerator: cargo xtask package\nRoot-Is-Purelib: false\n{tags}");
    add(&format!("{information}/METADATA"), 0o644, metadata.as_bytes())?;
    add(&format!("{information}/WHEEL"), 0o644, wheel.as_bytes())?;
    let name = format!("{information}/RECORD");
    writeln!(record, "{name},,")?;
    zip.add(&name, 0o100_644, record.as_bytes())?;
    let path = output.join(format!("{NAME}-{VERSION}-py3-none-{platforms}.whl"));
    std::fs::write(&path, zip.finish()?)?;
    Ok(path)
}

/// A script that replaces a link from `file` to a program. The wrapper around linkers knows by its own name
/// which linker it replaces, so the script has to pass that name on.
fn script(file: &Path, target: &Path) -> Result<String> {
    let wrapped = if file.starts_with("libexec/sframe-wrap-ld") {
        " wrap-ld \"${SFRAME_REAL_LD:-${0##*/}}\""
    } else {
        ""
    };
    let target = target.to_str().context("a name of ours")?;
    ensure!(
        !target.starts_with('/'),
        "{} is a link to {target}, which depends on the prefix",
        file.display()
    );
    Ok(format!("#!/bin/sh\nexec \"${{0%/*}}/{target}\"{wrapped} \"$@\"\n"))
}

/// The SHA-256 of some bytes, in the base64 letters that names of files may contain, without padding.
fn digest(bytes: &[u8]) -> Result<String> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::io::Write::write_all(&mut file, bytes)?;
    let text = commands::output(Command::new("sha256sum").arg(file.path()))?;
    let digits = text.get(..64).context("sha256sum says no digest")?.as_bytes();
    let bits: Vec<u32> = digits.iter().filter_map(|&digit| char::from(digit).to_digit(16)).collect();
    ensure!(bits.len() == 64, "sha256sum says {text}");
    Ok(letters(&bits))
}

/// Turns digits of four bits into letters of six bits.
fn letters(digits: &[u32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bit = |at: usize| digits.get(at / 4).map_or(0, |digit| digit >> (3 - at % 4) & 1);
    let letter = |start: usize| (start..start + 6).fold(0, |value, at| value << 1 | bit(at));
    (0..digits.len() * 4).step_by(6).map(|start| char::from(LETTERS[letter(start) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_records() {
        // The digest of "abc" in RFC 6234, encoded by Python's base64.urlsafe_b64encode.
        assert_eq!(digest(b"abc").unwrap(), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
    }

    #[test]
    fn links_become_scripts() {
        let text = script(Path::new("libexec/sframe-ld/ld"), Path::new("../../bin/sframe-ld")).unwrap();
        assert_eq!(text, "#!/bin/sh\nexec \"${0%/*}/../../bin/sframe-ld\" \"$@\"\n");
        let text = script(Path::new("libexec/sframe-wrap-ld/ld.lld"), Path::new("../../bin/sframe")).unwrap();
        assert!(text.ends_with("bin/sframe\" wrap-ld \"${SFRAME_REAL_LD:-${0##*/}}\" \"$@\"\n"), "{text}");
        assert!(script(Path::new("bin/ld"), Path::new("/usr/bin/ld")).is_err());
    }
}
