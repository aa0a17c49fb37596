//! Proves the packages: they are installed, used and removed in minimal roots of the distribution, which have
//! gcc and nothing else of this project. The Debian package is tested in a root of this system's release, the
//! tarball and the wheel in a root of the oldest release that mirrors have.

use super::bare;
use super::proof::Proof;
use crate::package::{self, Package};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "#include <stdio.h>\n#include <stdexcept>\n\
    int main() { try { throw std::runtime_error(\"caught\"); } catch (std::exception &e) { printf(\"%s\\n\", e.what()); } }\n";

/// Commands inside the root, each with a text that its output must contain; `@` is the prefix.
const USES: [(&str, &str); 11] = [
    ("sframe-ld --version", "sframe-ld"),
    ("ld-compare --help", "ld-compare"),
    ("g++ -B@/libexec/sframe-ld -o /tmp/use/program /tmp/use/program.cc && /tmp/use/program", "caught"),
    ("readelf -p .comment /tmp/use/program", "sframe-ld"),
    (
        "g++ -B@/libexec/sframe-ld -Wl,--sframe-from-eh-frame=all,--sframe-index -o /tmp/use/index /tmp/use/program.cc && sframe verify /tmp/use/index",
        " 0 wrong",
    ),
    ("g++ -B@/libexec/sframe-wrap-ld -o /tmp/use/wrapped /tmp/use/program.cc && /tmp/use/wrapped", "caught"),
    (
        "g++ -Wl,-plugin,@/lib/sframe-ld/libsframe_split.so -Wl,-plugin-opt=verbose -o /tmp/use/plugin /tmp/use/program.cc && /tmp/use/plugin",
        "caught",
    ),
    (
        "sframe-ld -run g++ -o /tmp/use/run /tmp/use/program.cc && readelf -p .comment /tmp/use/run",
        "sframe-ld",
    ),
    (
        "g++ -flto -O2 -B@/libexec/sframe-ld -o /tmp/use/lto /tmp/use/program.cc && /tmp/use/lto && readelf -p .comment /tmp/use/lto",
        "sframe-ld",
    ),
    ("gcc -c -o /tmp/use/header.o -x c @/include/sframe-unwind.h && echo read", "read"),
    ("cat @/share/doc/sframe-ld/licences/list.txt", "rayon"),
];

/// Uses of what only the Debian package has.
const DEBIAN_USES: [(&str, &str); 2] = [
    (
        "bash -c 'source @/share/bash-completion/completions/sframe; COMP_WORDS=(sframe ver); COMP_CWORD=1; _sframe sframe ver sframe; echo $COMPREPLY'",
        "verify",
    ),
    ("zcat @/share/doc/sframe-ld/changelog.gz", "sframe-ld"),
];

/// The oldest release of Debian that mirrors have. Its C library is older than the one into which most thread
/// functions moved.
const OLD_RELEASE: &str = "bullseye";

/// Makes the packages from programs in `built`, or builds the programs first.
#[derive(clap::Args)]
pub struct Wanted {
    /// Take programs and libraries from this folder instead of building them
    #[arg(long, value_name = "FOLDER")]
    built: Option<PathBuf>,
}

pub fn package(proof: &mut Proof, wanted: &Wanted) -> Result<()> {
    let built = wanted.built.as_deref();
    let root = proof.folder.join("root");
    let output = proof.folder.join("packages");
    let made = package::make_from(built, &output)?;
    proof.note("| file | KiB |\n|---|---|")?;
    for file in made.files() {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        proof.note(format!("| {name} | {} |", std::fs::metadata(file)?.len() >> 10))?;
    }
    let again = package::make_from(built, &output.join("again"))?;
    for (first, second) in made.files().into_iter().zip(again.files()) {
        ensure!(
            std::fs::read(first)? == std::fs::read(second)?,
            "{} differs the second time",
            first.display()
        );
    }
    proof.note("\nPacked a second time, they have the same bytes.\n")?;
    bare::make_root(proof, &root, &bare::release("VERSION_CODENAME")?)?;
    use_and_remove(proof, &root, &made)?;
    lint(proof, &root, &made)?;
    elsewhere(proof, &made)
}

/// Checks that the distribution's checker of packages reports no error, and records its warnings.
fn lint(proof: &mut Proof, root: &Path, made: &Package) -> Result<()> {
    bare::sources(root, &bare::release("VERSION_CODENAME")?)?;
    bare::add(root, &["lintian"])?;
    for (name, file) in [("package.deb", &made.deb), ("debug.deb", &made.debug)] {
        std::fs::copy(file, root.join("tmp").join(name))?;
    }
    let words = ["lintian", "--allow-root", "--fail-on", "error", "/tmp/package.deb", "/tmp/debug.deb"];
    let text = bare::enter(root, &words)?;
    let tags: BTreeSet<&str> = text.lines().filter(|line| !line.starts_with("N:")).collect();
    let version = bare::enter(root, &["dpkg-query", "-W", "-f", "${Version}", "lintian"])?;
    proof.note(format!("\nlintian {version} has no errors, and {} warnings:\n", tags.len()))?;
    tags.into_iter().try_for_each(|tag| proof.note(format!("- `{tag}`")))
}

fn use_and_remove(proof: &mut Proof, root: &Path, made: &Package) -> Result<()> {
    let before = all(root)?;
    std::fs::copy(&made.deb, root.join("tmp/package.deb"))?;
    bare::enter(root, &["dpkg", "--install", "/tmp/package.deb"])?;
    let files = bare::enter(root, &["dpkg", "--listfiles", "sframe-ld"])?;
    let sums = bare::enter(root, &["dpkg", "--verify", "sframe-ld"])?;
    ensure!(sums.is_empty(), "files differ from the package's: {sums}");
    proof.note(format!("Installed: {} files and folders.\n", files.lines().count()))?;
    use_in(proof, root, "/usr", &[&USES[..], &DEBIAN_USES].concat())?;
    pages(proof, root, &files)?;
    bare::enter(root, &["dpkg", "--purge", "sframe-ld"])?;
    for name in ["package.deb", "use", ".cache"] {
        let path = root.join("tmp").join(name);
        if path.is_dir() {
            std::fs::remove_dir_all(path)?;
        } else {
            let _ = std::fs::remove_file(path);
        }
    }
    let after = all(root)?;
    let left: Vec<_> = after.difference(&before).collect();
    ensure!(left.is_empty(), "removal leaves {left:?}");
    proof.note("\nRemoved: nothing is left that was not there before.")
}

/// Runs commands in a root, with the programs below a prefix first on `PATH`, and records what works.
fn use_in(proof: &mut Proof, root: &Path, prefix: &str, uses: &[(&str, &str)]) -> Result<()> {
    std::fs::create_dir_all(root.join("tmp/use"))?;
    std::fs::write(root.join("tmp/use/program.cc"), PROGRAM)?;
    proof.note("| command | holds |\n|---|---|")?;
    for (line, says) in uses {
        let line = line.replace('@', prefix);
        let script = format!("PATH={prefix}/bin:$PATH; {{ {line}; }} 2>&1");
        let said = bare::enter(root, &["sh", "-c", &script]).with_context(|| line.clone())?;
        ensure!(said.contains(says), "{line}: {said}");
        proof.note(format!("| `{}` | {} |", line.replace('|', "\\|"), says.trim()))?;
    }
    Ok(())
}

/// The tarball and the wheel on an old system.
fn elsewhere(proof: &mut Proof, made: &Package) -> Result<()> {
    let root = proof.folder.join("old-root");
    bare::make_root(proof, &root, OLD_RELEASE)?;
    bare::sources(&root, OLD_RELEASE)?;
    bare::add(&root, &["python3-venv", "xz-utils"])?;
    let library = bare::enter(&root, &["ldd", "--version"])?;
    let library = library.lines().next().unwrap_or_default();
    proof.note(format!("\nThe tarball, unpacked on Debian {OLD_RELEASE}, {library}:\n"))?;
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for file in [&made.tarball, &made.wheel] {
        std::fs::copy(file, root.join("tmp").join(name(file)))?;
    }
    let unpacked = format!("/opt/{}", name(&made.tarball).trim_end_matches(".tar.xz"));
    bare::enter(&root, &["tar", "-C", "/opt", "-xf", &format!("/tmp/{}", name(&made.tarball))])?;
    use_in(proof, &root, &unpacked, &USES)?;
    bare::enter(&root, &["python3", "-m", "venv", "/opt/python"])?;
    let wheel = format!("/tmp/{}", name(&made.wheel));
    bare::enter(&root, &["/opt/python/bin/pip", "install", "--no-index", &wheel])?;
    let pip = bare::enter(&root, &["/opt/python/bin/pip", "--version"])?;
    let pip = pip.split(" from").next().unwrap_or_default().to_owned();
    proof.note(format!("\nThe wheel, installed there by {pip}:\n"))?;
    use_in(proof, &root, "/opt/python", &USES)?;
    bare::enter(&root, &["/opt/python/bin/pip", "uninstall", "--yes", "sframe-ld"])?;
    for left in ["bin/sframe-ld", "libexec/sframe-ld/ld", "lib/sframe-ld/libsframe_run.so"] {
        ensure!(!root.join("opt/python").join(left).exists(), "pip leaves {left}");
    }
    proof.note("\nUninstalled: nothing of it is left.")
}

/// Renders every manual page with this system's `man`, because the root has none.
fn pages(proof: &mut Proof, root: &Path, files: &str) -> Result<()> {
    let pages: Vec<&str> =
        files.lines().filter(|line| line.contains("/man/man1/") && line.ends_with(".gz")).collect();
    let folder = root.join("usr/share/man").display().to_string();
    let mut rendered = 0;
    for page in &pages {
        // By name: a page may refer to another one (`.so`), which `man` looks for below the folder.
        let name = page.rsplit('/').next().and_then(|name| name.strip_suffix(".1.gz"));
        let name = name.with_context(|| format!("{page} is in no section"))?;
        let text = proof.tool("man", &["--warnings", "-M", &folder, "1", name])?;
        ensure!(text.contains("NAME"), "{page} is empty");
        rendered += 1;
    }
    ensure!(rendered > 0, "no page");
    proof.note(format!("\n{rendered} manual pages are rendered."))
}

/// All files below a root, without those in which the package manager keeps its own state.
fn all(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let own = ["var/lib/dpkg", "var/log", "var/cache", "proc", "dev", "sys"];
    let (mut found, mut open) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next)? {
            let entry = entry?;
            let path = entry.path().strip_prefix(root)?.to_owned();
            if own.iter().any(|own| path.starts_with(own)) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
            found.insert(path);
        }
    }
    Ok(found)
}
