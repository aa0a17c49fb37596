//! Rebuilds Debian's source packages in a minimal root of the distribution. Each package is built by its own
//! `debian/rules`, with its own tests: first with GNU ld, then with this linker instead of GNU ld. The
//! results are compared.
//!
//! The distribution's linker is moved away, and a script takes its place. Both builds call the script, so
//! only the linker differs. A compiler cache makes the second build cheap, because only links are made again.
//! Every link of this linker is made a second time with derived frames and an index, and verified.
//!
//! Packages that throw exceptions, end threads or show their own stacks are built twice more by this linker,
//! with a table in place of `.eh_frame`: with the look-ups, and with the unwinder.
//!
//! A finished package has a row in `tests/proofs/rebuild.json`, and is only built again if it is named. So an
//! interrupted proof goes on where it stopped, on any machine. Several runs may go on at the same time: each
//! locks its roots, and adds its row to those that the file has by then.

mod ledger;
mod list;
mod row;
mod test_counts;
mod way;

use super::bare;
use super::proof::Proof;
use crate::commands::{first_line, output};
use crate::install;
use crate::install::{Program, SframeCommand};
use crate::package::stripped;
use crate::records;
use anyhow::{Context, Result, ensure};
use ledger::{Entry, Ledger};
use list::{SOURCES, Source};
use object::{Object, ObjectSection};
use row::{File, Row, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::TryLockError;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;
use test_counts::Tests;
use way::{GNU, OURS, TABLES, Way};

/// The packages of the root, in addition to those of every bare root.
const PACKAGES: [&str; 5] = ["build-essential", "debhelper", "ccache", "fakeroot", "passwd"];
/// The longest time for a build, in seconds.
const LIMIT: u32 = 3 * 3600;
/// The sections that say how to unwind, in memory.
const FRAMES: [&str; 3] = [".eh_frame", ".eh_frame_hdr", TABLE];
const TABLE: &str = ".sframe_unwind";

/// Builds a package with `debian/rules` as a user without privileges. `build-arch` runs the tests and makes
/// no documents.
const BUILD: &str = r#"
set -e
name=$1
rm -rf /build/tree
mkdir -p /build/tree
cd /build/source/"$name"
dpkg-source --no-check -x ./*.dsc /build/tree/"$name" >/dev/null
chown -R builder /build/tree
cd /build/tree/"$name"
status=0
timeout --kill-after=60 LIMIT setpriv --reuid builder --regid builder --clear-groups env \
    PATH=/usr/lib/ccache:/usr/bin:/bin CCACHE_DIR=/build/ccache CCACHE_NOHASHDIR=1 HOME=/nonexistent USER=builder LOGNAME=builder \
    DEB_BUILD_OPTIONS='parallel=1 nostrip' DEB_BUILD_PROFILES=nodoc \
    dpkg-buildpackage -us -uc -d -rfakeroot --target=build-arch >/build/log 2>&1 </dev/null || status=$?
# What automake hides of its tests, as CTest would show it.
find . -name '*.trs' | sed 's/trs$/log/' | xargs -r sed 's/^/0: /' >>/build/log
echo $status
"#;

/// What the command line asks for.
#[derive(clap::Args)]
pub struct Wanted {
    /// Only this source package, finished or not; repeat it for more
    #[arg(long = "source", value_name = "PACKAGE")]
    names: Vec<String>,
    /// Packages to build at the same time, each in its own root; 0 only writes the page from its rows
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The commit that the linker was built from, if it is not this one
    #[arg(long)]
    commit: Option<String>,
    #[command(flatten)]
    command: SframeCommand,
}

/// Builds packages, and records all that were ever built.
pub fn rebuild(proof: &mut Proof, wanted: &Wanted) -> Result<()> {
    let sframe = &wanted.command.path()?;
    let ledger = Ledger::read(&rows_file())?;
    let sources: Vec<&Source> = match &wanted.names[..] {
        [] => SOURCES.iter().filter(|source| !ledger.has(source)).collect(),
        names => names.iter().map(|name| listed(name)).collect::<Result<_>>()?,
    };
    let runtime = proof.folder.join("runtime");
    let jobs = wanted.jobs.min(sources.len());
    if jobs > 0 && sources.iter().any(|source| source.unwinds) {
        crate::exceptions::build(&runtime)?;
    }
    let roots = prepare(proof, sframe, jobs)?;
    let work = Work { proof, wanted, sources, next: AtomicUsize::new(0) };
    let done: Vec<Result<Entry>> = std::thread::scope(|scope| {
        let workers: Vec<_> = roots.iter().map(|root| scope.spawn(|| work.packages(&root.path))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    });
    let mut ledger = Ledger::read(&rows_file())?;
    let mut failed = Vec::new();
    for result in done {
        match result {
            Ok(entry) => ledger.insert(entry),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    proof.note(ledger.page())?;
    ensure!(failed.is_empty(), "not built:\n{}", failed.join("\n"));
    Ok(())
}

/// The package with this name.
fn listed(name: &str) -> Result<&'static Source> {
    SOURCES.iter().find(|source| source.name == name).with_context(|| format!("{name} is not in the list"))
}

fn rows_file() -> PathBuf {
    records::path("rebuild").with_extension("json")
}

/// What the workers share.
struct Work<'a> {
    proof: &'a Proof,
    wanted: &'a Wanted,
    sources: Vec<&'static Source>,
    /// The first package that no worker has taken.
    next: AtomicUsize,
}

impl Work<'_> {
    /// Builds packages in a root until none is left. Returns what became of each; an error names its package.
    fn packages(&self, root: &Path) -> Vec<Result<Entry>> {
        let mut done = Vec::new();
        while let Some(source) = self.sources.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            println!("{}: begun", source.name);
            let result = package(self.proof, root, source).and_then(|row| self.keep(source, &row));
            let result = result.context(source.name);
            if let Err(error) = &result {
                println!("{error:#}");
            }
            done.push(result);
        }
        done
    }

    /// Makes an entry from a row and keeps it. It also writes the page, because the proof may be interrupted
    /// before its end.
    fn keep(&self, source: &Source, row: &Row) -> Result<Entry> {
        let date = records::today()?.0;
        let head = ["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short", "HEAD"];
        let commit = self.wanted.commit.clone();
        let commit = commit.map_or_else(|| first_line(Command::new("git").args(head)), Ok)?;
        let entry = row.entry(source, &commit, &date);
        println!("{}", entry.show(source));
        entry.tables(source).for_each(|line| println!("{line}"));
        let details = self.proof.folder.join("logs").join(format!("{}.json", source.name));
        std::fs::write(details, serde_json::to_string(row)?)?;
        if self.proof.is_recorded {
            // Other workers and other runs also keep rows.
            let lock = std::fs::File::create(self.proof.folder.join("rows.lock"))?;
            lock.lock()?;
            let mut ledger = Ledger::read(&rows_file())?;
            ledger.insert(entry.clone());
            let page = format!("{}{}\n", self.proof.record, ledger.page());
            records::replace(&rows_file(), ledger.text()?.as_bytes())?;
            records::write("rebuild", &page)?;
        }
        Ok(entry)
    }
}

/// A root that no other run uses while this value exists.
struct Root {
    path: PathBuf,
    _lock: std::fs::File,
}

/// Takes roots that no other run has, and puts today's programs into them. Missing roots are made as copies
/// of the first one taken.
fn prepare(proof: &Proof, sframe: &Path, count: usize) -> Result<Vec<Root>> {
    std::fs::create_dir_all(proof.folder.join("logs"))?;
    let mut roots: Vec<Root> = Vec::new();
    for number in 1.. {
        if roots.len() == count {
            break;
        }
        let path = proof.folder.join(format!("root-{number}"));
        let lock = std::fs::File::create(path.with_extension("lock"))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => continue,
            other => other.with_context(|| format!("{}: cannot be locked", path.display()))?,
        }
        fill(proof, sframe, &path, roots.first())?;
        roots.push(Root { path, _lock: lock });
    }
    Ok(roots)
}

/// Makes a root if it does not exist, and puts today's programs into it.
fn fill(proof: &Proof, sframe: &Path, root: &Path, like: Option<&Root>) -> Result<()> {
    let place = root.join("opt/linker");
    if !place.join("ready").exists() {
        match like {
            None => make_root(proof, root)?,
            Some(like) => {
                output(Command::new("rm").arg("-rf").arg(root))?;
                output(Command::new("cp").args(["-a", "--reflink=auto"]).arg(&like.path).arg(root))?;
            }
        }
    }
    for (from, name) in [(proof.prefix.join("ld"), "sframe-ld"), (sframe.to_owned(), "sframe")] {
        let _ = std::fs::remove_file(place.join(name));
        std::fs::copy(&from, place.join(name)).with_context(|| from.display().to_string())?;
    }
    // The linker finds what programs with a table need beside itself.
    let runtime = proof.folder.join("runtime");
    for name in crate::exceptions::names().iter().filter(|name| runtime.join(name).is_file()) {
        std::fs::copy(runtime.join(name), place.join(name)).with_context(|| name.clone())?;
    }
    std::fs::write(place.join("ld"), include_str!("rebuild/ld.sh"))?;
    Ok(())
}

/// Makes a root in which the script replaces the distribution's linker. Its package manager need not be safe
/// against a loss of power, nor index manual pages.
fn make_root(proof: &Proof, root: &Path) -> Result<()> {
    let place = root.join("opt/linker");
    let release = bare::release("VERSION_CODENAME")?;
    bare::make_root(proof, root, &release)?;
    bare::sources(root, &release)?;
    std::fs::write(root.join("etc/dpkg/dpkg.cfg.d/rebuild"), "force-unsafe-io\n")?;
    bare::add(root, &PACKAGES)?;
    std::fs::create_dir_all(place.join("second"))?;
    std::fs::write(place.join("ld"), "")?;
    bare::enter(
        root,
        &[
            "sh",
            "-ec",
            "useradd --no-create-home builder; mkdir -p /build/source /build/ccache; chown builder /build/ccache\n\
             rm -f /var/lib/man-db/auto-update\n\
             linker=$(readlink -f /usr/bin/ld)\n\
             dpkg-divert --local --rename --divert $linker.distrib --add $linker\n\
             ln -sfn $linker.distrib /opt/linker/gnu; ln -sfn /opt/linker/ld $linker\n\
             chmod 755 /opt/linker/ld; chmod 1777 /opt/linker/second; touch /opt/linker/ready",
        ],
    )
    .map(drop)
}

/// Builds a package in every way. Then its files are removed, but its logs stay.
fn package(proof: &Proof, root: &Path, source: &Source) -> Result<Row> {
    let name = source.name;
    let folder = format!("/build/source/{name}");
    let fetch = format!(
        "set -e; export DEBIAN_FRONTEND=noninteractive DEB_BUILD_PROFILES=nodoc; rm -rf {folder}; mkdir -p {folder}; cd {folder}\n\
         # What an interrupted run has left half-way.\n\
         dpkg --configure -a >/build/log 2>&1\n\
         apt-get source -qq --download-only {name}\n\
         apt-get build-dep -qq -y --no-install-recommends --arch-only {name} >/build/log 2>&1\n\
         apt-get clean; chown -R builder {folder}"
    );
    bare::enter(root, &["sh", "-c", &fetch]).context("its source or what its build depends on")?;
    let version = bare::enter(root, &["sh", "-c", &format!("sed -n 's/^Version: //p' {folder}/*.dsc")])?;
    let gnu = build(proof, root, name, &GNU)?;
    let ours = build(proof, root, name, &OURS)?;
    let ways = if source.unwinds { &TABLES[..] } else { &[] };
    let tables = ways.iter().map(|way| build(proof, root, name, way)).collect::<Result<_>>()?;
    for folder in ["build/source", "build/tree"] {
        let _ = std::fs::remove_dir_all(root.join(folder).join(name));
    }
    Ok(Row { version: version.trim().to_owned(), gnu, ours, tables })
}

fn build(proof: &Proof, root: &Path, name: &str, way: &Way) -> Result<Side> {
    let place = root.join("opt/linker");
    std::fs::write(place.join("mode"), format!("{} {}\n", way.mode, way.options))?;
    let mode = way.name;
    let log = place.join("log");
    std::fs::write(&log, "")?;
    bare::enter(root, &["sh", "-c", "chmod 666 /opt/linker/log; rm -f /opt/linker/second/*"])?;
    let script = BUILD.replace("LIMIT", &LIMIT.to_string());
    let begin = SystemTime::now();
    let said = bare::enter(root, &["sh", "-c", &script, "sh", name])?;
    let built = std::fs::read(root.join("build/log"))?;
    std::fs::write(proof.folder.join("logs").join(format!("{name}-{mode}.log")), &built)?;
    std::fs::copy(&log, proof.folder.join("logs").join(format!("{name}-{mode}.links")))?;
    let text = String::from_utf8_lossy(&built);
    let status = said.trim().parse().with_context(|| format!("status {said:?}"))?;
    let mut side = Side { status, tests: Tests::count(&text), ..Side::default() };
    side.read_links(&String::from_utf8_lossy(&std::fs::read(&log)?), root);
    side.files = linked(root, name, begin)?;
    Ok(side)
}

/// The 64-bit ELF files in a package's folder that its build made. Those of its source are older.
fn linked(root: &Path, name: &str, begin: SystemTime) -> Result<BTreeMap<String, File>> {
    let tree = root.join("build/tree").join(name);
    let mut files = BTreeMap::new();
    for file in stripped::elf_files(&tree)? {
        let path = tree.join(&file);
        let data = std::fs::metadata(&path)?;
        if data.modified()? < begin || !is_64_bit(&path)? {
            continue;
        }
        let interface = interface(&path).with_context(|| file.display().to_string())?;
        let ours = install::made_here(&path).is_ok();
        let (frames, has_table) = frames(&path).with_context(|| file.display().to_string())?;
        let found = File { bytes: data.len(), frames, has_table, ours, interface };
        files.insert(file.display().to_string(), found);
    }
    Ok(files)
}

/// The bytes that say how to unwind a file, and whether a table is among them.
fn frames(path: &Path) -> Result<(u64, bool)> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    let size = |name: &&str| Some(file.section_by_name(name)?.size());
    Ok((FRAMES.iter().filter_map(size).sum(), size(&TABLE).is_some()))
}

/// Whether an ELF file has class `ELFCLASS64`. Some packages also have 32-bit libraries, which GNU ld links.
fn is_64_bit(path: &Path) -> Result<bool> {
    let mut start = [0; 5];
    std::fs::File::open(path)?.read_exact(&mut start)?;
    Ok(start[4] == 2)
}

/// What others see of a file: its libraries, its names, and its exported symbols with versions.
fn interface(path: &Path) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    let text = output(Command::new("readelf").arg("-dW").arg(path))?;
    for tag in ["NEEDED", "SONAME", "RPATH", "RUNPATH", "SYMBOLIC", "TEXTREL"] {
        let marked = format!("({tag})");
        let found = text.lines().filter_map(|line| line.split_once(&marked));
        lines.extend(
            found.map(|(_, value)| format!("{tag} {}", value.split_whitespace().last().unwrap_or_default())),
        );
    }
    let words = ["--dynamic", "--defined-only", "--with-symbol-versions", "--format=posix"];
    let symbols = Command::new("nm").args(words).arg(path).output()?;
    for line in String::from_utf8_lossy(&symbols.stdout).lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(kind)) = (words.next(), words.next()) {
            lines.insert(format!("{name} {kind}"));
        }
    }
    Ok(lines)
}
