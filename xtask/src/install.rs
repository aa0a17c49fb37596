//! Lays out the programs as users find them: `bin/`, and a folder where the linker has every name that
//! compilers look for.

use crate::folders::link;
use crate::package::pages;
use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names of linkers that gcc, clang and rustc look for.
const NAMES: [&str; 5] = ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"];

/// The packages whose libraries and headers programs are built with.
const FOR_PROGRAMS: [&str; 2] = ["sframe-unwind", "sframe-stacks"];
/// The one of these that is also installed as an archive. Others would double the size of a package.
const STATIC: &str = "sframe-unwind";

#[derive(clap::Args)]
pub struct Arguments {
    /// Folder that gets `bin/`, `libexec/` and `share/`
    #[arg(long)]
    prefix: PathBuf,
    #[command(flatten)]
    linker: Linker,
    #[command(flatten)]
    command: SframeCommand,
    #[command(flatten)]
    wrapper: Wrapper,
    #[command(flatten)]
    comparer: Comparer,
    /// Folder with libsframe_unwind.so and .a, instead of building them
    #[arg(long, value_name = "FOLDER")]
    unwind_library: Option<PathBuf>,
}

/// The argument that names a program or library for a chore.
pub trait Program: clap::Args {
    /// Its absolute path. If none was given, it is built with optimization.
    fn path(&self) -> Result<PathBuf>;
}

macro_rules! given {
    ($(#[$about:meta])* $name:ident, $long:literal, $variable:literal, $build:expr) => {
        $(#[$about])*
        #[derive(clap::Args)]
        pub struct $name {
            #[arg(id = $long, long = $long, env = $variable, value_name = "FILE")]
            #[arg(help = concat!("Take this ", $long, " instead of building one"))]
            path: Option<PathBuf>,
        }

        impl Program for $name {
            fn path(&self) -> Result<PathBuf> {
                match &self.path {
                    Some(path) => {
                        path.canonicalize().with_context(|| format!("no {} {}", $long, path.display()))
                    }
                    None => $build,
                }
            }
        }
    };
}

given!(
    /// The command `sframe`.
    SframeCommand, "sframe", "SFRAME_COMMAND", build("sframe", "release")
);
given!(
    /// The wrapper around assemblers.
    Wrapper, "wrapper", "SFRAME_AS", build("sframe-as", "release")
);
given!(
    /// The program that compares linkers.
    Comparer, "ld-compare", "LD_COMPARE", build("ld-compare", "release")
);
given!(
    /// The plugin for other linkers.
    Plugin, "plugin", "SFRAME_SPLIT_PLUGIN", Ok(build_library()?.join("libsframe_split.so"))
);
given!(
    /// The linker.
    Linker, "linker", "SFRAME_LD", build("sframe-ld", "release")
);

impl Linker {
    /// The same, but built in the profile of the tests, which is quicker; the tests then use the same files.
    pub fn soon(&self) -> Result<PathBuf> {
        match &self.path {
            Some(_) => self.path(),
            None => build("sframe-ld", "dev"),
        }
    }
}

pub fn run(arguments: Arguments) -> Result<()> {
    let libraries = arguments.unwind_library.clone().map_or_else(build_library, Ok)?;
    let parts = Parts {
        linker: arguments.linker.path()?,
        command: arguments.command.path()?,
        comparer: arguments.comparer.path()?,
        assembler: arguments.wrapper.path()?,
        libraries,
    };
    let prefix = &arguments.prefix;
    std::fs::create_dir_all(prefix)?;
    lay_out(&parts, prefix)?;
    let folder = |name: &str| prefix.join("libexec").join(name).canonicalize();
    println!("installed; use it with gcc -B{}", folder("sframe-ld")?.display());
    println!("per-text frames at assembly: gcc -B{} -Wa,--gsframe", folder("sframe-as")?.display());
    Ok(())
}

/// Everything that is installed.
pub struct Parts {
    pub linker: PathBuf,
    pub command: PathBuf,
    pub comparer: PathBuf,
    pub assembler: PathBuf,
    /// The folder of the libraries.
    pub libraries: PathBuf,
}

/// Lays out an installation below a folder. No file names the folder, so users can move it.
pub fn lay_out(parts: &Parts, folder: &Path) -> Result<()> {
    install(&parts.linker, folder)?;
    install_command(&parts.command, folder)?;
    replace(&parts.comparer, &folder.join("bin/ld-compare"))?;
    install_assembler(&parts.assembler, folder)?;
    pages::write(&parts.linker, &parts.comparer, &folder.join("share"))?;
    install_library(&parts.libraries, folder)
}

/// Builds a program in a profile. It builds with the features of all members of the workspace, as the tests
/// do; otherwise dependencies would be built again with other features.
fn build(program: &str, profile: &str) -> Result<PathBuf> {
    let status = Command::new("cargo")
        .current_dir(crate::folders::workspace())
        .args(["build", "--workspace", "--profile", profile, "--bin", program])
        .status()?;
    if !status.success() {
        bail!("{program} does not build");
    }
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(crate::folders::target().join(folder).join(program))
}

/// Copies the command `sframe` below the prefix, with its man pages, completions for shells, and the script
/// for gdb.
fn install_command(command: &Path, prefix: &Path) -> Result<()> {
    let bin = prefix.join("bin");
    std::fs::create_dir_all(&bin)?;
    let installed = bin.join("sframe");
    replace(command, &installed)?;
    let status = Command::new(&installed).arg("generate").arg(prefix.join("share")).status()?;
    if !status.success() {
        bail!("sframe generate failed");
    }
    // Under the names of linkers, the command is the wrapper around them.
    let wrappers = prefix.join("libexec/sframe-wrap-ld");
    std::fs::create_dir_all(&wrappers)?;
    for name in NAMES.iter().chain(&["ld.wild"]) {
        link("../../bin/sframe", &wrappers.join(name))?;
    }
    Ok(())
}

/// Builds the libraries: those for programs that walk stacks, the one of `sframe-ld -run`, the
/// plugin that splits, and the look-ups of programs with an unwind table.
fn build_library() -> Result<PathBuf> {
    let status = Command::new("cargo")
        .current_dir(crate::folders::workspace())
        .args(["build", "--release", "-p", "sframe-unwind", "-p", "sframe-stacks"])
        .args(["-p", "sframe-run", "-p", "sframe-split"])
        .status()?;
    if !status.success() {
        bail!("the libraries do not build");
    }
    let folder = crate::folders::target().join("release");
    crate::exceptions::build(&folder)?;
    Ok(folder)
}

/// Copies the libraries for programs that walk stacks, their own or others', with header and file for
/// `pkg-config`. Also copies the libraries of the linker itself.
fn install_library(built: &Path, folder: &Path) -> Result<()> {
    let root = crate::folders::workspace();
    let (library, include) = (folder.join("lib"), folder.join("include"));
    std::fs::create_dir_all(library.join("pkgconfig"))?;
    std::fs::create_dir_all(&include)?;
    for package in FOR_PROGRAMS {
        let name = format!("lib{}", package.replace('-', "_"));
        // Programs are linked to the first name, and load the library by the second, which the package's
        // `build.rs` gives it.
        let (shared, soname) = (format!("{name}.so"), format!("{name}.so.1"));
        // A folder that `--unwind-library` gives may lack one.
        if !built.join(&shared).is_file() {
            continue;
        }
        replace(&built.join(&shared), &library.join(&soname))?;
        link(&soname, &library.join(&shared))?;
        if package == STATIC {
            let archive = format!("{name}.a");
            replace(&built.join(&archive), &library.join(&archive))?;
        }
        let sources = root.join("crates").join(package);
        let header = format!("{package}.h");
        replace(&sources.join("include").join(&header), &include.join(&header))?;
        let template = std::fs::read_to_string(sources.join(format!("{package}.pc.in")))?;
        let text = template.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        std::fs::write(library.join("pkgconfig").join(format!("{package}.pc")), text)?;
    }
    std::fs::create_dir_all(library.join("sframe-ld"))?;
    let archives = crate::exceptions::names();
    for name in
        ["libsframe_run.so", "libsframe_split.so"].into_iter().chain(archives.iter().map(String::as_str))
    {
        if built.join(name).is_file() {
            replace(&built.join(name), &library.join("sframe-ld").join(name))?;
        }
    }
    Ok(())
}

/// Copies the assembler wrapper below the prefix, into a folder of its own. In the linker's folder, it would
/// split every object, even if nobody asked for it. Returns the folder for `gcc -B`.
pub fn install_assembler(wrapper: &Path, prefix: &Path) -> Result<PathBuf> {
    let folder = prefix.join("libexec/sframe-as");
    std::fs::create_dir_all(&folder)?;
    replace(wrapper, &folder.join("as"))?;
    Ok(folder.canonicalize()?)
}

/// Copies the linker below the prefix. Returns the folder for `gcc -B`.
pub fn install(linker: &Path, prefix: &Path) -> Result<PathBuf> {
    let bin = prefix.join("bin");
    let folder = prefix.join("libexec/sframe-ld");
    std::fs::create_dir_all(&bin)?;
    std::fs::create_dir_all(&folder)?;
    replace(linker, &bin.join("sframe-ld"))?;
    link("sframe-ld", &bin.join("ld.sframe"))?;
    for name in NAMES {
        link("../../bin/sframe-ld", &folder.join(name))?;
    }
    Ok(folder.canonicalize()?)
}

/// Checks that the `.comment` of a linked file names this linker.
///
/// Otherwise a driver could find another linker first, and nobody would notice.
pub fn made_here(file: &Path) -> Result<()> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let parsed = object::File::parse(&*bytes).with_context(|| file.display().to_string())?;
    let comment = parsed.section_by_name(".comment").map(|section| section.data()).transpose()?;
    let said = String::from_utf8_lossy(comment.unwrap_or_default());
    ensure!(said.contains("sframe-ld"), "{} was linked by another linker: {said:?}", file.display());
    Ok(())
}

/// Copies a program over one that may be running. If the old one is the same, it stays, so that files made by
/// it do not count as old.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let size = |path: &Path| std::fs::metadata(path).map(|data| data.len());
    if size(from).ok() == size(to).ok() && std::fs::read(from)? == std::fs::read(to)? {
        return Ok(());
    }
    let new = to.with_extension("new");
    std::fs::copy(from, &new).with_context(|| format!("cannot copy to {}", new.display()))?;
    Ok(std::fs::rename(new, to)?)
}
