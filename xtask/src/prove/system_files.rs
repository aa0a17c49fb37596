//! Well-known large files of the system, for proofs about frames.

use super::packages;
use crate::commands::output;
use crate::peers;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files and where they are; of several that match, the last one counts. `?` stands for a part of a path.
pub const FILES: [(&str, &[&str]); 12] = [
    ("libc", &["/usr/lib/x86_64-linux-gnu", "libc.so.6"]),
    ("libstdc++", &["/usr/lib/x86_64-linux-gnu", "libstdc++.so.6"]),
    ("libpython", &["/usr/lib/x86_64-linux-gnu", "libpython3.?.so.1.0"]),
    ("libLLVM", &["/usr/lib/x86_64-linux-gnu", "libLLVM-?.so.1"]),
    ("libjvm", &["/usr/lib/jvm", "?", "lib/server", "libjvm.so"]),
    ("node", &["/usr/bin", "node"]),
    ("librustc_driver", &["$SYSROOT", "lib", "librustc_driver-?.so"]),
    ("cc1plus", &["/usr/lib/gcc/x86_64-linux-gnu", "?", "cc1plus"]),
    ("cargo", &["$SYSROOT", "bin", "cargo"]),
    ("libclang-cpp", &["/usr/lib/x86_64-linux-gnu", "libclang-cpp.so.?"]),
    ("libc, AArch64", &["$AARCH64", "lib", "libc.so.6"]),
    ("libstdc++, AArch64", &["$AARCH64", "lib", "libstdc++.so.6"]),
];

/// The same for s390x.
pub const S390X_FILES: [(&str, &[&str]); 2] = [
    ("libc, s390x", &["$S390X", "lib", "libc.so.6"]),
    ("libstdc++, s390x", &["$S390X", "lib", "libstdc++.so.6"]),
];

/// Large files of the distribution for the other machines: of which package, with which of its dependencies,
/// by the start of their names, and where they are.
const PACKAGED: [(&str, &str, &str, &[&str]); 8] = [
    ("libLLVM", "libllvm15", "", &["usr/lib", "?", "libLLVM-?.so.1"]),
    ("libclang-cpp", "libclang-cpp14", "", &["usr/lib/llvm-14/lib", "libclang-cpp.so.?"]),
    ("librustc_driver", "rustc", "libstd-rust", &["usr/lib", "?", "librustc_driver-?.so"]),
    ("cargo", "cargo", "", &["usr/bin", "cargo"]),
    ("cc1", "cpp-12", "", &["usr/lib/gcc", "?", "12", "cc1"]),
    ("libpython", "libpython3.11", "", &["usr/lib", "?", "libpython3.?.so.1.0"]),
    ("libjvm", "openjdk-17-jre-headless", "", &["usr/lib/jvm", "?", "lib/server/libjvm.so"]),
    ("libnode", "libnode108", "", &["usr/lib", "?", "libnode.so.?"]),
];

/// The machines that packages are for, with the distribution's names.
const OTHER_MACHINES: [(&str, &str); 2] = [("AArch64", "arm64"), ("s390x", "s390x")];

/// The files of packages for other machines: unpacked, outside the repository, when they are first asked
/// for. A file is `None` if the package does not have it, and an error if there is no such package, or no
/// network.
pub fn packaged() -> impl Iterator<Item = (String, Result<Option<PathBuf>>)> {
    OTHER_MACHINES.into_iter().flat_map(|(machine, debian)| {
        PACKAGED.into_iter().map(move |(name, package, follow, parts)| {
            let root = packages::unpack(debian, package, follow);
            (format!("{name}, {machine}"), root.map(|root| last(vec![root], parts)))
        })
    })
}

/// The newest file of that name on this machine.
///
/// # Errors
/// `rustc` does not run.
pub fn find(parts: &[&str]) -> Result<Option<PathBuf>> {
    let (first, rest) = parts.split_first().unwrap_or((&"", &[]));
    let start = match *first {
        "$SYSROOT" => output(Command::new("rustc").args(["--print", "sysroot"]))?.trim().into(),
        "$AARCH64" => peers::sysroot("aarch64-linux-gnu"),
        "$S390X" => peers::sysroot("s390x-linux-gnu"),
        folder => folder.into(),
    };
    Ok(last(vec![start], rest))
}

/// The last file, in the order of paths, to which the parts lead from these folders.
fn last(mut paths: Vec<PathBuf>, parts: &[&str]) -> Option<PathBuf> {
    for part in parts {
        paths = if part.contains('?') {
            paths.iter().flat_map(|path| fitting(path, part)).collect()
        } else {
            paths.into_iter().map(|path| path.join(part)).collect()
        };
    }
    paths.retain(|path| path.is_file());
    paths.sort();
    paths.pop()
}

/// The files in a folder whose names match a pattern with a `?`.
fn fitting(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let (before, behind) = pattern.split_once('?').unwrap_or((pattern, ""));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(before) && name.ends_with(behind) && name.len() > before.len() + behind.len()
    };
    entries.map(|entry| entry.path()).filter(|path| pattern == "?" || fits(path)).collect()
}
