//! `--reproduce`: a tar file with every input and with a command line that links them again.
//!
//! The archive contains one folder with the archive's name. In it, each input has its whole path, and
//! `response.txt` holds the options with those paths. `sframe-ld @response.txt`, run in that folder, repeats
//! the link and reads nothing outside. The linker also writes the archive if the link fails, because a bug
//! report then needs it most.

use super::overwrite::{self, overwritten};
use crate::cli::{Config, Reach, WrittenOption, written_option};
use crate::diag::Sink;
use crate::input::{FileBytes, FileIdentity, InputSource};
use crate::report_files::ReportFiles;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An input source that records every file that the link reads.
pub struct Recorder<'s> {
    source: &'s dyn InputSource,
    read: Mutex<BTreeSet<PathBuf>>,
    /// The bytes of pipes, which cannot be read twice.
    passed: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
}

impl<'s> Recorder<'s> {
    /// Reads from `source`.
    pub fn new(source: &'s dyn InputSource) -> Self {
        Recorder { source, read: Mutex::default(), passed: Mutex::default() }
    }

    fn paths(&self) -> BTreeSet<PathBuf> {
        locked(&self.read).clone()
    }

    fn note(&self, path: &Path) {
        locked(&self.read).insert(path.to_path_buf());
    }

    /// The bytes of a file that the link has read. `None`: the file is gone.
    fn again(&self, path: &Path) -> Option<FileBytes> {
        let passed = locked(&self.passed).get(path).cloned();
        passed.map(FileBytes::Owned).or_else(|| self.source.read(path).ok())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InputSource for Recorder<'_> {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let bytes = self.source.read(path)?;
        self.note(path);
        Ok(bytes)
    }

    fn read_named(&self, path: &Path) -> io::Result<FileBytes> {
        let bytes = self.source.read_named(path)?;
        self.note(path);
        if let FileBytes::Owned(bytes) = &bytes {
            locked(&self.passed).insert(path.to_path_buf(), bytes.clone());
        }
        Ok(bytes)
    }

    fn exists(&self, path: &Path) -> bool {
        self.source.exists(path)
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        self.source.canonical(path)
    }
}

/// Writes the archive into its open file. Relative paths count from `current`.
pub fn write(config: &Config, recorder: &Recorder<'_>, current: &Path, files: &ReportFiles, sink: &Sink) {
    let Some(path) = &config.reports.reproduce else { return };
    if let Some(identity) = FileIdentity::at(path)
        && let Some(input) = recorder.paths().iter().find(|read| FileIdentity::at(read) == Some(identity))
    {
        // A failed link may have reported this already, or may have failed before it looked.
        if !sink.has_errors() {
            sink.report(overwritten(overwrite::REPRODUCE, path, input));
        }
        return;
    }
    let folder = PathBuf::from(path.file_stem().unwrap_or(path.as_os_str()));
    let write = |file: &File| write_archive(config, recorder, current, &folder, file);
    // The call reports a failure, which ends the link.
    let _ = files.write(overwrite::REPRODUCE, sink, write);
}

fn write_archive(
    config: &Config,
    recorder: &Recorder<'_>,
    current: &Path,
    folder: &Path,
    file: &File,
) -> io::Result<()> {
    let mut archive = tar::Builder::new(io::BufWriter::new(file));
    let read = recorder.paths();
    let response = response(&config.reports.arguments, &read, current);
    append(&mut archive, &folder.join("response.txt"), &response)?;
    let version = format!("sframe-ld {}\n", env!("CARGO_PKG_VERSION"));
    append(&mut archive, &folder.join("version.txt"), version.as_bytes())?;
    let mut written = BTreeSet::new();
    for path in &read {
        let inside = inside(path, current);
        if written.insert(inside.clone())
            && let Some(bytes) = recorder.again(path)
        {
            append(&mut archive, &folder.join(inside), &bytes)?;
        }
    }
    archive.into_inner()?.flush()
}

/// Adds a file. Owner and time are constants, so that equal links make equal archives.
fn append<W: Write>(archive: &mut tar::Builder<W>, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    archive.append_data(&mut header, path, bytes)
}

/// The place of a file in the archive's folder: its whole path, without `..`.
fn inside(path: &Path, current: &Path) -> PathBuf {
    let mut inside = PathBuf::from(".");
    for component in current.join(path).components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => {
                inside.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    inside
}

/// The options, one on each line, with the paths of the archive.
fn response(arguments: &[Vec<u8>], read: &BTreeSet<PathBuf>, current: &Path) -> Vec<u8> {
    let mut rewriter = Rewriter { read, current, has_sysroot: false };
    let mut lines = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let option = argument.starts_with(b"-").then(|| written_option(argument)).flatten();
        let Some(option) = option else {
            lines.push(rewriter.read_path(argument).unwrap_or_else(|| argument.clone()));
            continue;
        };
        if option.takes_next {
            let Some(value) = rest.next() else { break };
            if let Some(value) = rewriter.value(&option, value) {
                lines.extend([argument.clone(), value]);
            }
        } else if let Some(value) = option.value {
            let name = &argument[..argument.len() - value.len()];
            lines.extend(rewriter.value(&option, value).map(|value| [name, &value].concat()));
        } else if option.name != "repro" {
            lines.push(argument.clone());
        }
    }
    if !rewriter.has_sysroot {
        // Scripts such as that of libc.so contain absolute paths. With this sysroot, the linker finds them in
        // the archive.
        lines.insert(0, b"--sysroot=.".to_vec());
    }
    let mut text = Vec::new();
    for line in lines {
        quote(&line, &mut text);
        text.push(b'\n');
    }
    text
}

struct Rewriter<'r> {
    read: &'r BTreeSet<PathBuf>,
    current: &'r Path,
    has_sysroot: bool,
}

impl Rewriter<'_> {
    /// The new value of an option. `None`: the archive does without the option.
    fn value(&mut self, option: &WrittenOption<'_>, value: &[u8]) -> Option<Vec<u8>> {
        let path = Path::new(std::ffi::OsStr::from_bytes(value));
        Some(match (option.name, option.reach) {
            // Their work is done: the paths are those of the archive.
            ("reproduce" | "C" | "chroot", _) => return None,
            ("sysroot", _) => {
                self.has_sysroot = true;
                self.inside(path)
            }
            // `=` and `$SYSROOT` mean the sysroot, which is in the archive, too.
            ("L" | "rpath-link", _) if !value.starts_with(b"=") && !value.starts_with(b"$SYSROOT") => {
                self.inside(path)
            }
            ("l", _) => value.to_vec(),
            (_, Reach::Writes) => path.file_name().map_or(value, OsStrExt::as_bytes).to_vec(),
            (_, Reach::Reads) => self.read_path(value).unwrap_or_else(|| value.to_vec()),
            // The value goes into the output or to a plugin, even if it is the name of an input.
            (_, Reach::Link | Reach::Runs) => value.to_vec(),
        })
    }

    fn read_path(&self, text: &[u8]) -> Option<Vec<u8>> {
        let path = Path::new(std::ffi::OsStr::from_bytes(text));
        self.read.contains(path).then(|| self.inside(path))
    }

    fn inside(&self, path: &Path) -> Vec<u8> {
        // With the leading `./`, the search finds the file below `--sysroot=.`.
        [&b"./"[..], inside(path, self.current).strip_prefix(".").unwrap_or(path).as_os_str().as_bytes()]
            .concat()
    }
}

/// Quotes an argument for a response file (GNU style).
fn quote(argument: &[u8], out: &mut Vec<u8>) {
    if argument.is_empty() {
        out.extend(b"\"\"");
    }
    for &byte in argument {
        // Behind a backslash, the line would go on.
        if byte == b'\n' {
            out.extend(b"\"\n\"");
            continue;
        }
        if byte.is_ascii_whitespace() || matches!(byte, b'\x0b' | b'\\' | b'"' | b'\'') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(arguments: &[&str], read: &[&str]) -> String {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
        let read = read.iter().map(PathBuf::from).collect();
        String::from_utf8(response(&arguments, &read, Path::new("/work dir"))).unwrap()
    }

    #[test]
    fn paths_are_those_of_the_archive() {
        let arguments = [
            "-o",
            "/out/a.out",
            "a.o",
            "/usr/lib/crt1.o",
            "-L/usr/lib",
            "-L=/lib",
            "-lc",
            "--reproduce=r.tar",
            "--repro",
            "-C/work dir",
            "--chroot",
            "/srv",
            "--version-script=v.map",
            "-Tx.ld",
            "-z",
            "now",
            "--defsym=a=b",
            "../b.o",
            "-dynamic-linker",
            "/lib/ld.so",
        ];
        let read = ["a.o", "/usr/lib/crt1.o", "v.map", "x.ld", "../b.o", "/lib/ld.so"];
        let expected = "--sysroot=.\n-o\na.out\n./work\\ dir/a.o\n./usr/lib/crt1.o\n-L./usr/lib\n-L=/lib\n-lc\n\
            --version-script=./work\\ dir/v.map\n-T./work\\ dir/x.ld\n-z\nnow\n--defsym=a=b\n./b.o\n\
            -dynamic-linker\n/lib/ld.so\n";
        assert_eq!(rewrite(&arguments, &read), expected);
    }

    #[test]
    fn values_are_what_the_table_of_options_says() {
        let arguments = [
            "--why-ext",
            "/tmp/why",
            "--time-trace=/tmp/times",
            "-oprog/x",
            "-Map=-",
            "-soname",
            "a.o",
            "-u",
            "a.o",
            "-l",
            "a.o",
            "--reproduce",
            "r.tar",
            "-T",
            "a.o",
        ];
        let expected = "--sysroot=.\n--why-ext\nwhy\n--time-trace=times\n-ox\n-Map=-\n-soname\na.o\n-u\na.o\n-l\na.o\n\
            -T\n./work\\ dir/a.o\n";
        assert_eq!(rewrite(&arguments, &["a.o"]), expected);
    }

    #[test]
    fn a_sysroot_moves_with_its_files() {
        assert_eq!(rewrite(&["--sysroot=/srv/tree", "-lc"], &[]), "--sysroot=./srv/tree\n-lc\n");
    }

    /// Whoever reads the response file gets the same words.
    #[test]
    fn quoted_words_are_read_back() {
        let words: Vec<Vec<u8>> = (0..=255)
            .map(|byte| vec![b'a', byte, b'b'])
            .chain(["", "\\\n", "\n", "'\"'", "two words\n\n and \\ more", "end\\"].map(|word| word.into()))
            .collect();
        let mut text = Vec::new();
        for word in &words {
            quote(word, &mut text);
            text.push(b'\n');
        }
        assert_eq!(linker_options::response::split(&text), words);
    }
}
