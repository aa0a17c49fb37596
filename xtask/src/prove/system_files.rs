//! Well-known large files of the system, for proofs about frames.

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

/// The newest file of that name on this machine.
///
/// # Errors
/// `rustc` does not run.
pub fn find(parts: &[&str]) -> Result<Option<PathBuf>> {
    let mut paths = vec![PathBuf::new()];
    for part in parts {
        paths = match *part {
            "$SYSROOT" => vec![output(Command::new("rustc").args(["--print", "sysroot"]))?.trim().into()],
            "$AARCH64" => vec![peers::sysroot("aarch64-linux-gnu")],
            "$S390X" => vec![peers::sysroot("s390x-linux-gnu")],
            _ if !part.contains('?') => paths.into_iter().map(|path| path.join(part)).collect(),
            _ => paths.iter().flat_map(|path| fitting(path, part)).collect(),
        };
    }
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths.pop())
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
