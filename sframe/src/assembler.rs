//! The assembler wrapper: runs the real assembler and splits the `.sframe` of its output.
//!
//! GNU as writes one `.sframe` for all text sections of an object. If the linker discards one of these
//! sections, its rows stay behind. This wrapper gives each text section an `.sframe` of its own, so that both
//! live and die together.
//!
//! Users install it as `as` in a folder of its own, where `gcc -B` finds it. It passes its arguments on
//! unchanged, so it has to understand only one of them: the name of the output. Its exit status is that of
//! the real assembler.

use super::edit::{ORDER_LITTLE, byte_order};
use super::split::split_file;
use commands::programs::Programs;
use diagnostics::Sink;
use elf::{Ehdr, Shdr, consts, whole_table};
use files::{open_regular, read_arguments};
use linker_options::response;
use sframe_sections::split::Form;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use zerocopy::FromBytes;
use zerocopy::byteorder::{BE, ByteOrder, LE};

/// The environment variable that asks for light units instead of blobs. An empty value and `0` mean no.
pub const LIGHT: &str = "SFRAME_AS_LIGHT";
/// The environment variable that names the real assembler.
pub const REAL_ASSEMBLER: &str = "SFRAME_REAL_AS";

/// The options of GNU as, besides `-o`, that take the next word as their argument.
const WITH_ARGUMENT: [&[u8]; 4] = [b"-I", b"--defsym", b"--MD", b"--debug-prefix-map"];

/// Runs the assembler with these arguments (without the program's name) and splits its output.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let programs = Programs::of_environment();
    let assembler = match real_assembler(&programs) {
        Ok(assembler) => assembler,
        Err(message) => return fail(&message),
    };
    let output = output(&arguments);
    let before = std::fs::metadata(&output).ok();
    let (name, passed) = programs.passed_on();
    let status = match Command::new(&assembler).args(&arguments).env(name, passed).status() {
        Ok(status) => status,
        Err(error) => return fail(&format!("cannot run {}: {error}", assembler.display())),
    };
    if !status.success() {
        return ended(status);
    }
    // `--version` and the like write no output, and /dev/null is no regular file.
    let after = std::fs::metadata(&output).ok().filter(Metadata::is_file);
    let written =
        after.is_some_and(|after| before.is_none_or(|before| identity(&before) != identity(&after)));
    if !written || !has_sframe(&output) {
        return ExitCode::SUCCESS;
    }
    let light = std::env::var_os(LIGHT).is_some_and(|value| !value.is_empty() && value != "0");
    let form = if light { Form::Light } else { Form::Same };
    match split_file(&output, &output, form) {
        Ok(_) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("sframe-as: warning: {problem}; left as the assembler wrote it");
            ExitCode::SUCCESS
        }
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("sframe-as: {message}");
    ExitCode::FAILURE
}

/// The exit status of an assembler that failed. If a signal ended it, the status is the one that shells use.
fn ended(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// A value that changes if the file is written again.
fn identity(metadata: &Metadata) -> (u64, u64, i64, i64, u64) {
    (metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size())
}

/// The file that the assembler writes: the argument of the last `-o`, otherwise `a.out`.
fn output(arguments: &[OsString]) -> PathBuf {
    let words = arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
    // The assembler itself reports a broken response file.
    let words = response::expand(words, &read_arguments, &Sink::default());
    let mut output = b"a.out".to_vec();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == b"-o" {
            output = words.next().unwrap_or(output);
        } else if let Some(joined) = word.strip_prefix(b"-o") {
            output = joined.to_vec();
        } else if word == b"--" {
            break;
        } else if WITH_ARGUMENT.contains(&&*word) {
            words.next();
        }
    }
    OsString::from_vec(output).into()
}

/// The assembler that `SFRAME_REAL_AS` names, otherwise the first `as` on `PATH` that is not this wrapper.
fn real_assembler(programs: &Programs) -> Result<PathBuf, String> {
    let named = std::env::var_os(REAL_ASSEMBLER).filter(|name| !name.is_empty());
    programs.real(named.as_deref().unwrap_or(OsStr::new("as")), REAL_ASSEMBLER)
}

/// Whether an object has an SFrame section; `true` if in doubt. Reads as few bytes as possible.
fn has_sframe(path: &Path) -> bool {
    let look = || -> std::io::Result<bool> {
        let (file, _) = open_regular(path)?;
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0)?;
        match byte_order("", &header) {
            Ok(ORDER_LITTLE) => names_sframe::<LE>(&file, &header),
            Ok(_) => names_sframe::<BE>(&file, &header),
            Err(_) => Ok(false),
        }
    };
    look().unwrap_or(true)
}

fn names_sframe<E: ByteOrder>(file: &File, header: &[u8; 64]) -> std::io::Result<bool> {
    let malformed = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let header = Ehdr::<E>::read_from_bytes(header).map_err(|_| malformed())?;
    let (offset, length) = (header.e_shoff.get(), file.metadata()?.len());
    let read = |offset: u64, size: u64| -> std::io::Result<Vec<u8>> {
        let end = offset.checked_add(size).filter(|end| *end <= length).ok_or_else(malformed)?;
        let mut bytes = vec![0; (end - offset) as usize];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    };
    let first = Shdr::<E>::read_from_bytes(&read(offset, 64)?).map_err(|_| malformed())?;
    let count = match header.e_shnum.get() {
        0 => first.sh_size.get(),
        count => count.into(),
    };
    let table = read(offset, count.saturating_mul(64))?;
    let sections: &[Shdr<E>] = whole_table(&table);
    if sections.iter().any(|section| section.sh_type.get() == sframe_format::SHT_GNU_SFRAME) {
        return Ok(true);
    }
    let names = match header.e_shstrndx.get() {
        consts::SHN_XINDEX => first.sh_link.get() as usize,
        index => index.into(),
    };
    let names = sections.get(names).ok_or_else(malformed)?;
    let names = read(names.sh_offset.get(), names.sh_size.get())?;
    Ok(memchr::memmem::find(&names, b".sframe").is_some())
}

#[cfg(test)]
mod tests {
    use super::output;
    use std::ffi::OsString;

    #[test]
    fn the_last_output_option_counts() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            output(&words).into_os_string().into_string().unwrap()
        };
        assert_eq!(of("--64 x.s"), "a.out");
        assert_eq!(of("-o x.o x.s"), "x.o");
        assert_eq!(of("-ox.o x.s -o y.o"), "y.o");
        assert_eq!(of("-I -o --defsym a=1 x.s"), "a.out");
        assert_eq!(of("-o x.o -- -o y.o"), "x.o");
    }

    #[test]
    fn response_files_are_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("words");
        std::fs::write(&file, "--gsframe -o 'a b.o'").unwrap();
        let mut word = OsString::from("@");
        word.push(&file);
        assert_eq!(output(&[word, "x.s".into()]).to_str(), Some("a b.o"));
    }
}
