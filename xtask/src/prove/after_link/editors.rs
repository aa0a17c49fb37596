//! The programs that change finished files, each as a line of the shell that makes `out` of `in`.

use crate::folders;
use crate::peers;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The versions of GNU's tools. The other machines have the last one alone.
pub const BINUTILS: [&str; 3] = ["2.40", "2.44", "2.47"];

/// A way to change a file.
pub struct Editor {
    /// Its name in the record.
    pub name: &'static str,
    /// The program whose folder goes onto `PATH`; empty for GNU's tools, which there are in several versions.
    pub program: &'static str,
    /// The machines whose files it takes.
    pub machines: &'static [&'static str],
    /// The first version that can do it, of GNU's tools.
    pub since: &'static str,
    /// What the file must be linked with.
    pub links_with: &'static [&'static str],
    /// Makes `out` of `in`.
    pub line: &'static str,
}

const ALL: &[&str] = &["x86_64", "aarch64", "s390x"];
/// The machines whose files BOLT and UPX take.
const TWO: &[&str] = &["x86_64", "aarch64"];

const fn gnu(name: &'static str, line: &'static str) -> Editor {
    Editor { name, program: "", machines: ALL, since: "", links_with: &[], line }
}

const fn other(name: &'static str, program: &'static str, line: &'static str) -> Editor {
    Editor { name, program, machines: ALL, since: "", links_with: &[], line }
}

/// Every way. Lines of distributions are what their tools run on programs (debhelper's `dh_strip`, rpm's
/// `find-debuginfo`, Gentoo's `estrip`, Arch's `makepkg`).
pub const EDITORS: [Editor; 29] = [
    gnu("GNU strip", "strip -o out in"),
    gnu("GNU strip -g", "strip -g -o out in"),
    Editor {
        since: "2.41",
        ..gnu("GNU strip --strip-section-headers", "strip --strip-section-headers -o out in")
    },
    gnu("GNU objcopy", "objcopy in out"),
    gnu("GNU objcopy --compress-debug-sections", "objcopy --compress-debug-sections in out"),
    gnu(
        "GNU objcopy --only-keep-debug, strip, --add-gnu-debuglink (Arch)",
        "objcopy --only-keep-debug in out.debug && strip -o out in && objcopy --add-gnu-debuglink=out.debug out",
    ),
    gnu(
        "debhelper's lines",
        "objcopy --only-keep-debug --compress-debug-sections in out.debug && \
         strip --remove-section=.comment --remove-section=.note -o out in && objcopy --add-gnu-debuglink out.debug out",
    ),
    gnu(
        "Gentoo's lines",
        "objcopy --only-keep-debug in out.debug && strip --strip-unneeded -N __gentoo_check_ldflags__ -R .comment \
         -R .GCC.command.line -R .note.gnu.gold-version -o out in && objcopy --add-gnu-debuglink out.debug out",
    ),
    other("eu-strip", "eu-strip", "eu-strip -o out in"),
    other("eu-strip -f", "eu-strip", "eu-strip -f out.debug -o out in"),
    other("eu-strip -g --remove-comment", "eu-strip", "eu-strip -g --remove-comment -f out.debug -o out in"),
    other(
        "eu-strip -f, eu-unstrip",
        "eu-strip",
        "eu-strip -f out.debug -o small in && eu-unstrip -o out small out.debug",
    ),
    other("eu-elfcompress", "eu-elfcompress", "eu-elfcompress -t zlib -o out in"),
    other("llvm-strip", "llvm-strip", "llvm-strip -o out in"),
    other("llvm-strip -g", "llvm-strip", "llvm-strip -g -o out in"),
    other("llvm-strip --strip-sections", "llvm-strip", "llvm-strip --strip-sections -o out in"),
    other("llvm-objcopy", "llvm-objcopy", "llvm-objcopy in out"),
    other(
        "llvm-objcopy --only-keep-debug, --add-gnu-debuglink",
        "llvm-objcopy",
        "llvm-objcopy --only-keep-debug in out.debug && llvm-objcopy --strip-all --add-gnu-debuglink=out.debug in out",
    ),
    other("dwz", "dwz", "dwz -o out in"),
    other("debugedit", "debugedit", "cp in out && debugedit -b \"$PWD\" -d /usr/src/debug -i -l sources out"),
    other(
        "rpm's lines",
        "eu-strip",
        "cp in whole && debugedit -b \"$PWD\" -d /usr/src/debug -i -l sources whole && dwz whole && \
         eu-strip --remove-comment -g -f out.debug -o out whole",
    ),
    other("patchelf --add-rpath", "patchelf", "cp in out && patchelf --add-rpath /opt/some/where/else out"),
    other(
        "patchelf --set-interpreter, --set-rpath (Nix)",
        "patchelf",
        "cp in out && old=$(patchelf --print-interpreter in) && at=$(dirname \"$old\") && \
         patchelf --set-interpreter \"$at/../$(basename \"$at\")/$(basename \"$old\")\" \
         --set-rpath \"$(patchelf --print-rpath in):/nix/store/00000000000000000000000000000000-some/lib\" out",
    ),
    other("patchelf --add-needed", "patchelf", "cp in out && patchelf --add-needed libm.so.6 out"),
    other(
        "patchelf, then GNU strip",
        "patchelf",
        "cp in out && patchelf --add-needed libm.so.6 out && strip out",
    ),
    other("GNU strip, then patchelf", "patchelf", "strip -o out in && patchelf --add-needed libm.so.6 out"),
    Editor { machines: TWO, ..other("UPX", "upx", "upx -q -o out in") },
    Editor { machines: TWO, ..other("BOLT", "llvm-bolt", "llvm-bolt -o out in") },
    Editor {
        machines: TWO,
        links_with: &["-Wl,--emit-relocs"],
        ..other("BOLT, with --emit-relocs", "llvm-bolt", "llvm-bolt --lite=0 -o out in")
    },
];

impl Editor {
    /// The folders of programs that the line needs, for every version of it. Empty if it was not fetched.
    pub fn folders(&self, gnu: &[(String, PathBuf)]) -> Vec<(String, Vec<PathBuf>)> {
        if self.program.is_empty() {
            let able = gnu.iter().filter(|(version, _)| **version >= *self.since);
            return able.map(|(version, folder)| (version.clone(), vec![folder.clone()])).collect();
        }
        let own = peers::program(self.program).ok();
        let own = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        match (own, gnu.last()) {
            (Some(own), Some((_, newest))) => vec![(String::new(), vec![own, newest.clone()])],
            _ => Vec::new(),
        }
    }
}

/// The folders of GNU's tools for a machine, in which they have their usual names, by version.
pub fn gnu_folders(folder: &Path, machine: &str) -> Result<Vec<(String, PathBuf)>> {
    let prefix = if machine == "x86_64" { String::new() } else { format!("{machine}-linux-gnu-") };
    let mut found = Vec::new();
    for version in BINUTILS {
        let tools = peers::folder().join(format!("binutils-{version}"));
        let names = ["strip", "objcopy"].map(|name| (name, tools.join(format!("{prefix}{name}"))));
        if names.iter().all(|(_, path)| path.is_file()) {
            let at = folder.join(format!("gnu-{machine}-{version}"));
            std::fs::create_dir_all(&at)?;
            for (name, path) in names {
                folders::link(path, &at.join(name))?;
            }
            found.push((version.to_owned(), at));
        }
    }
    Ok(found)
}
