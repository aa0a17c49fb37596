//! Unpacks the Debian packages that the kernel's proofs need, by package name, into a folder outside the
//! repository. Nothing is installed, and no scripts of packages run.

use crate::apt;
use crate::commands::output;
use crate::peers::library_folders;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages with programs that build and boot kernels, and with headers for compiling the kernel's own
/// tools.
const TOOLS: [&str; 12] = [
    "make",
    "bc",
    "flex",
    "bison",
    "xz-utils",
    "gcc-aarch64-linux-gnu",
    "gcc-s390x-linux-gnu",
    "qemu-system-x86",
    "qemu-system-arm",
    "qemu-system-misc",
    "libelf-dev",
    "libssl-dev",
];
const TRIPLE: &str = "x86_64-linux-gnu";

/// The folder for everything that is fetched and built: `SFRAME_KERNEL`, or one in the system's folder for
/// temporary files.
pub fn folder() -> Result<PathBuf> {
    let folder = std::env::var_os("SFRAME_KERNEL")
        .map_or_else(|| std::env::temp_dir().join("sframe-kernel"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

/// A folder with the contents of the named package, and of those of its dependencies whose names start with
/// `follow`. `machine` is Debian's name.
pub fn unpack(machine: &str, package: &str, follow: &str) -> Result<PathBuf> {
    let root = folder()?.join(format!("{package}-{machine}"));
    if root.exists() {
        return Ok(root);
    }
    let view = folder()?.join("apt").join(machine);
    let mut options = apt::options(&view, None)?;
    options.extend(["APT::Architecture", "APT::Architectures"].map(|name| format!("{name}={machine}")));
    let client = |program: &str| {
        let mut command = Command::new(program);
        command.args(options.iter().flat_map(|option| ["-o", option]));
        command
    };
    output(client("apt-get").args(["update", "-qq"]))?;
    let mut names = BTreeSet::from([package.to_owned()]);
    let mut open = vec![package.to_owned()];
    while let Some(name) = open.pop() {
        let output = client("apt-cache").args(["depends", "--important", &name]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let needed = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        for name in needed.filter(|name| !follow.is_empty() && name.starts_with(follow)) {
            if names.insert(name.to_owned()) {
                open.push(name.to_owned());
            }
        }
    }
    let packages = view.join(package);
    std::fs::create_dir_all(&packages)?;
    output(client("apt-get").current_dir(&packages).args(["download", "-qq"]).args(&names))?;
    let partial = root.with_extension("partial");
    std::fs::create_dir_all(&partial)?;
    for entry in std::fs::read_dir(&packages)? {
        output(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(&partial))?;
    }
    std::fs::remove_dir_all(&packages)?;
    std::fs::rename(&partial, &root)?;
    Ok(root)
}

/// The entry of a folder whose name starts in this way. [`unpack`] uses it, because the names of files
/// contain versions.
pub fn entry(folder: &Path, start: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)));
    found.sort();
    found.pop().with_context(|| format!("no {start}* in {}", folder.display()))
}

/// A folder with the tools.
pub struct Tools {
    root: PathBuf,
}

impl Tools {
    pub fn prepare() -> Result<Tools> {
        let view = folder()?.join("apt/tools");
        let root = folder()?.join("tools");
        apt::fetch_and_unpack(&view, &apt::options(&view, None)?, &TOOLS, &root)?;
        Ok(Tools { root })
    }

    /// A command that finds the tools and lets its children find them.
    pub fn command(&self, program: &str) -> Command {
        let root = &self.root;
        let own = root.join("usr/bin").join(program);
        let mut command = if own.exists() { Command::new(own) } else { Command::new(program) };
        let usr = |path: &str| root.join("usr").join(path).display().to_string();
        let with = |name: &str, first: String| match std::env::var(name) {
            Ok(rest) if !rest.is_empty() => format!("{first}:{rest}"),
            _ => first,
        };
        let libraries = library_folders(root).map(|folder| folder.display().to_string()).join(":");
        command.env("PATH", with("PATH", usr("bin")));
        command.env("LD_LIBRARY_PATH", with("LD_LIBRARY_PATH", libraries.clone()));
        command.env("LIBRARY_PATH", with("LIBRARY_PATH", libraries));
        let headers = format!("{}:{}", usr("include"), usr(&format!("include/{TRIPLE}")));
        command.env("C_INCLUDE_PATH", with("C_INCLUDE_PATH", headers));
        command.env("BISON_PKGDATADIR", usr("share/bison"));
        // By default, bison runs the system's m4, which may not exist.
        command.env("M4", usr("bin/m4"));
        command
    }

    /// Where qemu's firmware is, if qemu does not look there itself.
    pub fn firmware(&self) -> Vec<PathBuf> {
        let folders = ["qemu", "seabios"].map(|name| self.root.join("usr/share").join(name)).into_iter();
        folders.filter(|folder| folder.exists()).collect()
    }
}
