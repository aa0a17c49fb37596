//! Finds tools of other projects that a test may need, by what they do. If one is missing, the test is
//! skipped, by name.
//!
//! They come from the tree that `cargo xtask peers` makes (`SFRAME_PEERS`, otherwise `target/peers`),
//! whatever the machine has installed. From the machine itself come only gcc, g++ and cargo, and if the tree
//! was not made, the tools that come with gcc (`ar`, `readelf`).
//!
//! With `SFRAME_TESTS_REQUIRE_ALL=1`, a skip is a failure ([`peers::tree::skip`]).

pub use peers::tree::folder as peers;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A tool, or why there is none.
pub type Found = Result<PathBuf, String>;

/// Reports that a test cannot run here.
#[track_caller]
pub fn skip(test: &str, reason: &str) {
    let test = test.trim_end_matches("::{{closure}}");
    peers::tree::skip(Path::new(env!("CARGO_TARGET_TMPDIR")), test, reason);
}

/// All programs with a name in the tree of peers, in the order of the folders' names.
pub fn peer_programs(name: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(peers())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join(name))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The newest program with a name in the tree of peers.
pub fn peer_program(name: &str) -> Found {
    peer_programs(name).pop().ok_or_else(|| format!("no {name} (cargo xtask peers)"))
}

/// The `configure` of a libffi release, with its source beside it.
pub fn libffi_configure() -> Found {
    let configure = peers().join("libffi/configure");
    configure.is_file().then_some(configure).ok_or_else(|| "no source of libffi (cargo xtask peers)".into())
}

/// A tool of binutils for the machine that runs the tests.
pub fn binutil(name: &str) -> Found {
    peer_program(name).or_else(|reason| on_path(name).ok_or(reason))
}

/// An assembler that emits SFrame of this version.
pub fn assembler(version: u8) -> Found {
    static FOUND: OnceLock<Vec<(u8, PathBuf)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let candidates = peer_programs("as").into_iter();
        candidates.filter_map(|path| Some((emitted_version(&path)?, path))).collect()
    });
    let fitting = found.iter().find(|(v, _)| *v == version).map(|(_, path)| path.clone());
    fitting.ok_or_else(|| format!("no assembler that emits SFrame V{version} (cargo xtask peers)"))
}

/// An assembler of this name that emits SFrame V3.
pub fn cross_assembler(name: &str) -> Found {
    let found = peer_programs(name).into_iter().rfind(|path| emitted_version(path) == Some(3));
    found.ok_or_else(|| format!("no {name} that emits SFrame V3 (cargo xtask peers)"))
}

/// The SFrame version that an assembler emits.
fn emitted_version(assembler: &Path) -> Option<u8> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).ok()?;
    let (source, object) = (dir.path().join("probe.s"), dir.path().join("probe.o"));
    std::fs::write(&source, ".cfi_sections .sframe\nf: .cfi_startproc\nnop\n.cfi_endproc\n").ok()?;
    let status = Command::new(assembler).arg("-o").arg(&object).arg(&source).output().ok()?.status;
    let elf = super::elf::Elf::parse(std::fs::read(object).ok()?).ok()?;
    let section = elf.find(".sframe")?;
    (status.success() && section.data.len() > 4).then(|| section.data[2])
}

/// The newest `readelf` that can be found.
pub fn readelf() -> Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| binutil("readelf")).clone()
}

/// A `readelf` that reads SFrame V3.
pub fn sframe_readelf() -> Found {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| sframe_reader("readelf")).clone().ok_or_else(|| no_reader("readelf"))
}

/// An `objdump` that reads SFrame V3.
pub fn sframe_objdump() -> Found {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| sframe_reader("objdump")).clone().ok_or_else(|| no_reader("objdump"))
}

fn no_reader(name: &str) -> String {
    format!("no {name} that reads SFrame V3 (cargo xtask peers)")
}

/// The newest program of this name that shows the contents of a V3 section.
fn sframe_reader(name: &str) -> Option<PathBuf> {
    let object = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sframe/v3-gas2.47/demo.x86_64.o");
    let reads = |path: &PathBuf| {
        let output = Command::new(path).arg("--sframe").arg(&object).output();
        output
            .is_ok_and(|it| it.status.success() && String::from_utf8_lossy(&it.stdout).contains("VERSION_3"))
    };
    peer_programs(name).into_iter().rev().find(reads)
}

/// The file of a library that this machine's programs load.
pub fn library(name: &str) -> PathBuf {
    let output = Command::new("gcc").arg(format!("-print-file-name={name}")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// `eu-elflint`.
pub fn elflint() -> Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| peer_program("eu-elflint")).clone()
}

/// `clang` or `clang++`.
pub fn clang(name: &str) -> Found {
    peer_program(name)
}

/// LLVM's linker plugin, at the path that clang passes to linkers.
pub fn llvm_plugin() -> Found {
    let output = Command::new(clang("clang")?).args(["-###", "-flto", "-x", "c", "/dev/null"]).output();
    let words = output.map(|it| String::from_utf8_lossy(&it.stderr).into_owned()).unwrap_or_default();
    let mut paths = words.split('"').filter(|word| word.ends_with("LLVMgold.so")).map(PathBuf::from);
    paths.find(|path| path.is_file()).ok_or_else(|| "no LLVMgold.so (cargo xtask peers)".into())
}

/// The folders of the libraries that LLVM's plugin loads, in the form for the loader. Processes of clang know
/// these folders, but a linker that is not started by clang does not.
pub fn llvm_libraries() -> String {
    let folder = |name: &str| peers().join("root-own").join(name).join("x86_64-linux-gnu");
    ["usr/lib", "lib"].map(|name| folder(name).display().to_string()).join(":")
}

/// The debugger.
pub fn gdb() -> Found {
    peer_program("gdb")
}

/// valgrind, which runs programs on a processor that it simulates.
pub fn valgrind() -> Found {
    peer_program("valgrind")
}

/// The program that tells compilers about installed libraries.
pub fn pkg_config() -> Found {
    peer_program("pkg-config")
}

/// A program that every machine has: cargo, rustc, tar.
pub fn program(name: &str) -> Found {
    on_path(name).ok_or_else(|| format!("no {name}"))
}

/// Whether `eu-elflint` has this complaint about good files, too; the list says why.
pub fn known_to_elflint(machine: &str, line: &str) -> bool {
    let list = include_str!("../../elflint-known.txt");
    let own = |l: &'static str| match l.split_once('|') {
        Some((name, pattern)) => (name == machine).then_some(pattern),
        None => Some(l),
    };
    let fits = |pattern: &str| {
        let mut rest = Some(line);
        for part in pattern.split('*') {
            rest = rest.and_then(|r| r.split_once(part)).map(|(_, after)| after);
        }
        rest.is_some()
    };
    list.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).filter_map(own).any(fits)
}

/// Why a test of the product's own behaviour does not run with another linker (`SFRAME_TEST_LD`).
/// `SFRAME_TEST_OWN` says that the other one is an sframe-ld that was built differently.
pub fn own_linker() -> Result<(), String> {
    let another =
        std::env::var_os("SFRAME_TEST_LD").is_some() && std::env::var_os("SFRAME_TEST_OWN").is_none();
    if another { Err("it holds for sframe-ld only".into()) } else { Ok(()) }
}

/// GNU ld in some version.
#[derive(Clone, Debug)]
pub struct GnuLd {
    pub path: PathBuf,
    /// Major and minor version.
    pub version: (u32, u32),
}

/// Every version of GNU ld in the tree of peers, the newest last: for the machine of this triplet, or for
/// this machine.
pub fn gnu_lds(triple: Option<&str>) -> Vec<GnuLd> {
    let paths = match triple {
        None => peer_programs("ld").into_iter().filter(|path| is_in_folder(path, "bfd")).collect(),
        Some(triple) => peer_programs(&format!("{triple}-ld")),
    };
    let mut found: Vec<GnuLd> = paths.into_iter().filter_map(GnuLd::at).collect();
    found.sort_by_key(|ld| ld.version);
    found.dedup_by_key(|ld| ld.version);
    found
}

impl GnuLd {
    fn at(path: PathBuf) -> Option<Self> {
        let output = Command::new(&path).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = text.lines().next()?.split_whitespace().next_back()?.split('.');
        let version = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(Self { path, version })
    }
}

/// Whether the name of a program's folder starts in this way.
fn is_in_folder(path: &Path, name: &str) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|folder| folder.to_string_lossy().starts_with(name))
}

/// A linker of another project, by the start of its folder's name: `gold`, `lld`, `mold`, `bfd-2.47`.
pub fn peer_linker(family: &str) -> Found {
    let found = peer_programs("ld").into_iter().rfind(|path| is_in_folder(path, family));
    found.ok_or_else(|| format!("no linker {family} (cargo xtask peers)"))
}
