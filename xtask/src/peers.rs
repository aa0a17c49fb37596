//! Fetches tools of other projects, for the tests and the comparisons, by package name through the system's
//! package client. They are unpacked into a folder of their own, and nothing is installed.
//!
//! A suite has a name (`bookworm`, `trixie`, `sid`), and the mirror is the one that apt is configured with.
//! Packages of such a suite come with all their libraries and run with their own loader. Compilers and
//! emulators come from the machine's own suite and run with its C library. Whether the machine has them
//! installed makes no difference ([`crate::apt`]). libffi comes as source.
//!
//! The resulting folder has one folder for each tool and version. For a linker it contains `NAME/ld` with
//! `NAME/cmd` (its words, one per line), and `NAME/MACHINE/ld` for another machine. For the rest it contains
//! `NAME/as`, `NAME/readelf`, `NAME/TRIPLE-as` and so on. A test chooses among them by what they do.

use crate::apt;
use crate::commands::output;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest releases of LLVM in sid, which the unversioned packages do not have yet, and their tools that
/// write, read and link SFrame. The two linkers keep the same rules.
const LLVM: [(&str, &[&str]); 2] =
    [("22", &["llvm-mc", "llvm-readobj"]), ("23", &["llvm-mc", "llvm-readobj", "ld.lld"])];
/// The version of wild. Its compiler must not have to be newer than ours.
const WILD_VERSION: &str = "0.10.0";
const TRIPLE: &str = "x86_64-linux-gnu";
/// The other machines, by the names of emulators and of packages.
const CROSS: [(&str, &str); 2] = [("aarch64", "aarch64-linux-gnu"), ("s390x", "s390x-linux-gnu")];
const BINUTILS: [&str; 10] =
    ["as", "readelf", "objdump", "objcopy", "strip", "nm", "ar", "ranlib", "addr2line", "size"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Fetch only what the tests need
    #[arg(long)]
    for_tests: bool,
    /// Folder to fill (by default `SFRAME_PEERS`, or else target/peers)
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The folder of the tools.
pub fn folder() -> PathBuf {
    std::env::var_os("SFRAME_PEERS")
        .map_or_else(|| crate::folders::workspace().join("target/peers"), PathBuf::from)
}

/// The newest program of this name in the folder of tools.
///
/// # Errors
/// No such program was fetched.
pub fn program(name: &str) -> Result<PathBuf> {
    let folders = std::fs::read_dir(folder()).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = folders.map(|f| f.join(name)).filter(|p| p.is_file()).collect();
    found.sort();
    found.pop().with_context(|| format!("no {name}; run cargo xtask peers"))
}

/// The names of the folders with linkers, sorted.
pub fn linkers() -> Vec<String> {
    let folders = std::fs::read_dir(folder()).into_iter().flatten().flatten();
    let linkers = folders.filter(|folder| folder.path().join("ld").is_file());
    let mut names: Vec<String> = linkers.map(|f| f.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The folder where emulators find the dynamic linker and the libraries of a machine.
pub fn sysroot(triple: &str) -> PathBuf {
    folder().join("root-own/usr").join(triple)
}

pub fn run(arguments: Arguments) -> Result<()> {
    let missing = prepare(&arguments.folder.unwrap_or_else(folder), arguments.for_tests)?;
    for line in &missing {
        println!("not to be had: {line}");
    }
    println!("{} missing", missing.len());
    Ok(())
}

/// A step: the name of the tool, whether the tests need it, and the function that fetches it.
struct Step {
    name: &'static str,
    for_tests: bool,
    fetch: fn(&Peers) -> Result<()>,
}

const STEPS: [Step; 34] = [
    Step { name: "binutils that emit SFrame V3 (sid)", for_tests: true, fetch: |p| p.binutils("sid") },
    Step { name: "binutils that emit SFrame V2 (trixie)", for_tests: true, fetch: |p| p.binutils("trixie") },
    Step {
        name: "binutils that emit SFrame V1 (bookworm)",
        for_tests: true,
        fetch: |p| p.binutils("bookworm"),
    },
    Step { name: "eu-elflint", for_tests: true, fetch: Peers::elfutils },
    Step { name: "clang", for_tests: true, fetch: Peers::clang },
    Step { name: "compilers, emulators and gold for other machines", for_tests: true, fetch: Peers::cross },
    Step { name: "binutils for other machines (sid)", for_tests: true, fetch: Peers::cross_binutils },
    Step { name: "GNU ld (sid)", for_tests: true, fetch: |p| p.gnu_ld("sid") },
    Step { name: "GNU ld and gold (trixie)", for_tests: true, fetch: Peers::gold },
    Step { name: "GNU ld (bookworm)", for_tests: true, fetch: |p| p.gnu_ld("bookworm") },
    Step { name: "lld and mold (sid)", for_tests: true, fetch: Peers::lld_and_mold },
    Step { name: "gdb with Python", for_tests: true, fetch: Peers::gdb },
    Step { name: "valgrind", for_tests: true, fetch: Peers::valgrind },
    Step { name: "make", for_tests: true, fetch: Peers::make },
    Step { name: "pkg-config", for_tests: true, fetch: Peers::pkg_config },
    Step { name: "QuickJS (trixie)", for_tests: true, fetch: Peers::quickjs },
    Step { name: "CMake, Meson and ninja (sid)", for_tests: true, fetch: Peers::build_systems },
    Step { name: "libffi's source (bookworm)", for_tests: true, fetch: Peers::libffi },
    Step { name: "the kernel's test of linkers (bookworm)", for_tests: true, fetch: Peers::kernel_test },
    Step { name: "Go", for_tests: true, fetch: Peers::go },
    Step { name: "llvm-profdata (sid)", for_tests: false, fetch: Peers::profile_merger },
    Step { name: "libdw (sid)", for_tests: false, fetch: Peers::libdw },
    Step { name: "eu-strip, dwz, debugedit and patchelf", for_tests: false, fetch: Peers::editors },
    Step { name: "llvm-objcopy (sid)", for_tests: false, fetch: Peers::llvm_objcopy },
    Step { name: "LLVM's newest assemblers, readers and linker (sid)", for_tests: false, fetch: Peers::llvm },
    Step { name: "BOLT", for_tests: false, fetch: Peers::bolt },
    Step { name: "UPX (sid)", for_tests: false, fetch: Peers::upx },
    Step { name: "glibc's source (experimental)", for_tests: false, fetch: Peers::glibc },
    Step { name: "gcc's tests of exceptions (bookworm)", for_tests: false, fetch: Peers::gcc_tests },
    Step { name: "LLVM's tests of exceptions (bookworm)", for_tests: false, fetch: Peers::llvm_tests },
    Step { name: "LLVM's C++ library", for_tests: false, fetch: Peers::llvm_library },
    Step { name: "Rust's tests (sid)", for_tests: false, fetch: Peers::rust_tests },
    Step { name: "mold's tests (sid)", for_tests: false, fetch: Peers::mold_tests },
    Step { name: "wild", for_tests: false, fetch: Peers::wild },
];

/// This number goes up when a step writes something different. Then existing folders are brought up to date.
const LAYOUT: u32 = 2;

/// Fills the folder with the tools that it lacks. Returns the tools that could not be fetched, each with the
/// reason.
pub fn prepare(folder: &Path, for_tests: bool) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    let peers = Peers { folder: folder.canonicalize()? };
    // Two processes that fill it at the same time would unpack over each other's files.
    let lock = std::fs::File::create(peers.folder.join(".lock"))?;
    lock.lock()?;
    let mut missing = Vec::new();
    for step in STEPS.iter().filter(|s| s.for_tests || !for_tests) {
        let mark = peers.folder.join(format!(".have-{LAYOUT}-{}", step.name.replace([' ', '(', ')'], "-")));
        if mark.exists() {
            continue;
        }
        eprintln!("peers: {}", step.name);
        match (step.fetch)(&peers) {
            Ok(()) => std::fs::write(mark, "")?,
            Err(error) => missing.push(format!("{}: {error:#}", step.name)),
        }
    }
    for (machine, _) in CROSS {
        let target = format!("{machine}-unknown-linux-gnu");
        if let Err(error) = rust_library(&target) {
            missing.push(format!("Rust's standard library for {target}: {error:#}"));
        }
    }
    Ok(missing)
}

/// Makes sure that Rust's standard library for another machine exists. If not, `rustup` adds it to the
/// toolchain.
///
/// # Errors
/// It does not exist, and `rustup` does not exist or cannot fetch it.
pub fn rust_library(target: &str) -> Result<()> {
    let asked = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output()?;
    if Path::new(String::from_utf8_lossy(&asked.stdout).trim()).is_dir() {
        return Ok(());
    }
    eprintln!("peers: Rust's standard library for {target}");
    output(Command::new("rustup").args(["target", "add", target])).map(drop)
}

struct Peers {
    folder: PathBuf,
}

impl Peers {
    fn binutils(&self, suite: &str) -> Result<()> {
        let root = self.unpack(suite, &["binutils"])?;
        let version = version_of(&root.words(&format!("{TRIPLE}-as")))?;
        for tool in BINUTILS {
            let program = format!("{TRIPLE}-{tool}");
            if root.path.join("usr/bin").join(&program).exists() {
                self.wrap(&format!("binutils-{version}"), tool, &root.words(&program))?;
            }
        }
        Ok(())
    }

    fn gnu_ld(&self, suite: &str) -> Result<()> {
        let root = self.unpack(suite, &["binutils"])?;
        self.linker("bfd", &root.words(&format!("{TRIPLE}-ld.bfd")))
    }

    fn gold(&self) -> Result<()> {
        self.gnu_ld("trixie")?;
        let root = self.unpack("trixie", &["binutils-gold"])?;
        self.linker("gold", &root.words(&format!("{TRIPLE}-ld.gold")))
    }

    /// Each of the two links for all machines.
    fn lld_and_mold(&self) -> Result<()> {
        let root = self.unpack("sid", &["lld", "mold"])?;
        let program = find(&root.path.join("usr/lib"), "bin/lld").context("no lld in its package")?;
        let mut lld = root.loader("ld.lld");
        lld.push(program.display().to_string());
        for (name, words) in [("lld", lld), ("mold", root.words("mold"))] {
            self.linker(name, &words)?;
            let folder = format!("{name}-{}", version_of(&words)?);
            for (machine, _) in CROSS {
                self.wrap(&format!("{folder}/{machine}"), "ld", &words)?;
            }
        }
        Ok(())
    }

    /// It must know the form of the profiles that rustc's own LLVM writes.
    fn profile_merger(&self) -> Result<()> {
        let text = output(Command::new("rustc").arg("-vV"))?;
        let version = text.lines().find_map(|line| line.strip_prefix("LLVM version: "));
        let major = version.and_then(|version| version.split('.').next());
        let major = major.context("rustc -vV names no version of LLVM")?;
        let root = self.unpack("sid", &[&format!("llvm-{major}")])?;
        let program = root.path.join(format!("usr/lib/llvm-{major}/bin/llvm-profdata"));
        let mut words = root.loader("llvm-profdata");
        words.push(program.display().to_string());
        self.wrap("llvm-profdata", "llvm-profdata", &words)
    }

    /// The debugger for programs of all machines, with the Python that its scripts need.
    fn gdb(&self) -> Result<()> {
        let root = self.unpack_own(&["gdb-multiarch"])?;
        let (home, program) = (root.join("usr"), root.join("usr/bin/gdb-multiarch"));
        let line = format!(
            "{} PYTHONHOME='{}' PYTHONDONTWRITEBYTECODE=1 exec '{}' --data-directory '{}' \"$@\"",
            library_path(&root),
            home.display(),
            program.display(),
            home.join("share/gdb").display()
        );
        self.script("gdb", "gdb", &line)
    }

    /// valgrind finds its own tools at the path of an installation, unless the environment names another one.
    fn valgrind(&self) -> Result<()> {
        let root = self.unpack_own(&["valgrind"])?;
        let tools = root.join("usr/libexec/valgrind");
        let program = root.join("usr/bin/valgrind.bin");
        let line = format!("VALGRIND_LIB='{}' exec '{}' \"$@\"", tools.display(), program.display());
        self.script("valgrind", "valgrind", &line)
    }

    fn make(&self) -> Result<()> {
        let root = self.unpack_own(&["make"])?;
        self.wrap_own("make", "make", &root, &root.join("usr/bin/make"))
    }

    fn pkg_config(&self) -> Result<()> {
        let root = self.unpack_own(&["pkgconf-bin"])?;
        self.wrap_own("pkg-config", "pkg-config", &root, &root.join("usr/bin/pkgconf"))
    }

    fn quickjs(&self) -> Result<()> {
        let root = self.unpack("trixie", &["quickjs"])?;
        self.wrap("quickjs", "qjs", &root.words("qjs"))
    }

    /// Programs that the build systems start must find these wrappers again. CMake looks beside itself, and
    /// Meson runs its interpreter by the name that it was started with.
    fn build_systems(&self) -> Result<()> {
        let root = self.unpack("sid", &["cmake", "meson"])?;
        self.wrap("ninja", "ninja", &root.words("ninja"))?;
        self.cmake(&root)?;
        let python = self.folder.join("meson/python3").display().to_string();
        let mut words = root.loader(&python);
        words.push(root.path.join("usr/bin/python3").display().to_string());
        let home = root.path.join("usr");
        let line = format!("PYTHONPATH= PYTHONHOME='{}' exec {} \"$@\"", home.display(), quoted(&words));
        self.script("meson", "python3", &line)?;
        self.wrap("meson", "meson", &[&python, "-m", "mesonbuild.mesonmain"].map(str::to_owned))
    }

    /// CMake assumes that it lies in the folder of the program that the kernel started, but that is the
    /// loader. So a copy of the loader lies in a tree that looks like CMake's. The copy must have the same
    /// version as the C library, which later packages may replace.
    fn cmake(&self, root: &Root) -> Result<()> {
        let folder = self.folder.join("cmake");
        let copy = folder.join("bin/ld.so").display().to_string();
        let own_name = folder.join("bin/cmake").display().to_string();
        let mut words = root.loader(&own_name);
        let loader = std::mem::replace(&mut words[0], copy.clone());
        words.push(root.path.join("usr/bin/cmake").display().to_string());
        let refresh = format!(
            "cmp -s '{loader}' '{copy}' || {{ cp '{loader}' '{copy}'.$$ && mv -f '{copy}'.$$ '{copy}'; }}"
        );
        self.script("cmake/bin", "cmake", &format!("{refresh}\nexec {} \"$@\"", quoted(&words)))?;
        let share = folder.join("share");
        crate::folders::link(root.path.join("usr/share"), &share)
    }

    /// A library whose release contains a `configure` with libtool and gcc's macros for symbol versions.
    fn libffi(&self) -> Result<()> {
        let view = self.folder.join("apt/source-bookworm");
        let sources = format!("deb-src {} bookworm main\n", apt::mirror()?);
        let options = apt::options(&view, Some(&sources))?;
        apt::fetch_source(&view, &options, "libffi", &self.folder.join("libffi"), &[])
    }

    /// `scripts/ld-version.sh`: a kernel's configuration recognises its linker by it.
    fn kernel_test(&self) -> Result<()> {
        let root = self.unpack("bookworm", &["linux-kbuild-6.1"])?;
        let script = root.path.join("usr/lib/linux-kbuild-6.1/scripts/ld-version.sh");
        std::fs::create_dir_all(self.folder.join("kernel"))?;
        std::fs::copy(script, self.folder.join("kernel/ld-version.sh"))?;
        Ok(())
    }

    /// The compiler looks for its library beside itself, or where the environment says.
    fn go(&self) -> Result<()> {
        let root = self.unpack_own(&["golang-go"])?;
        let program = find(&root.join("usr/lib"), "bin/go").context("no go in its package")?;
        let home = program.ancestors().nth(2).context("no folder of go")?;
        let line = format!("GOROOT='{}' exec '{}' \"$@\"", home.display(), program.display());
        self.script("go", "go", &line)
    }

    fn wild(&self) -> Result<()> {
        let root = self.folder.join("wild-root");
        output(
            Command::new("cargo")
                .args(["install", "wild-linker", "--locked", "--version", WILD_VERSION, "--root"])
                .arg(&root),
        )?;
        self.linker("wild", &[root.join("bin/wild").display().to_string()])
    }

    fn elfutils(&self) -> Result<()> {
        let root = self.unpack_own(&["elfutils"])?;
        self.wrap_own("elfutils", "eu-elflint", &root, &root.join("usr/bin/eu-elflint"))
    }

    /// Programs that change linked files.
    fn editors(&self) -> Result<()> {
        let root = self.unpack_own(&["elfutils", "dwz", "debugedit", "patchelf"])?;
        for tool in ["eu-strip", "eu-unstrip", "eu-elfcompress", "dwz", "debugedit", "patchelf"] {
            self.wrap_own("editors", tool, &root, &root.join("usr/bin").join(tool))?;
        }
        Ok(())
    }

    fn llvm_objcopy(&self) -> Result<()> {
        let root = self.unpack("sid", &["llvm"])?;
        for tool in ["llvm-objcopy", "llvm-strip"] {
            let program = find(&root.path.join("usr/lib"), &format!("bin/{tool}"));
            let mut words = root.loader(tool);
            words.push(program.with_context(|| format!("no {tool} in its package"))?.display().to_string());
            self.wrap("llvm-objcopy", tool, &words)?;
        }
        Ok(())
    }

    /// Tools of LLVM that are newer than those that the tests use. The linker is not named as theirs, so that
    /// these do not take it.
    fn llvm(&self) -> Result<()> {
        for (release, tools) in LLVM {
            let (llvm, lld) = (format!("llvm-{release}"), format!("lld-{release}"));
            let packages = if tools.contains(&"ld.lld") { &[&*llvm, &*lld][..] } else { &[&*llvm] };
            let root = self.unpack("sid", packages)?;
            for tool in tools {
                let program = root.path.join(format!("usr/lib/llvm-{release}/bin")).join(tool);
                let words = [root.loader(tool), vec![program.display().to_string()]].concat();
                self.wrap(&format!("llvm-mc-{release}"), tool, &words)?;
            }
        }
        Ok(())
    }

    /// BOLT, which moves the code of linked programs. (The package `bolt` is another program.)
    fn bolt(&self) -> Result<()> {
        let root = self.unpack_own(&["bolt-22"])?;
        let program = find(&root.join("usr/lib"), "bin/llvm-bolt").context("no llvm-bolt in its package")?;
        self.wrap_own("bolt", "llvm-bolt", &root, &program)
    }

    fn upx(&self) -> Result<()> {
        let root = self.unpack("sid", &["upx-ucl"])?;
        self.wrap("upx", "upx", &root.words("upx-ucl"))
    }

    /// A compiler for programs that use libdw. They start with the loader of the suite, because libdw needs
    /// its C library.
    fn libdw(&self) -> Result<()> {
        let root = self.unpack("sid", &["libdw-dev"])?;
        let words = root.loader("libdw");
        let (loader, folders) = (&words[0], &words[2]);
        let (include, library) = (root.path.join("usr/include"), find_library(&root.path, "libdw.so.1")?);
        let line = format!(
            "exec gcc -idirafter '{}' \"$@\" '{}' -Wl,--allow-shlib-undefined,--dynamic-linker='{loader}',-rpath='{folders}'",
            include.display(),
            library.display()
        );
        self.script("libdw", "libdw-gcc", &line)
    }

    /// The source of the newest glibc, and the programs without which it cannot be built.
    fn glibc(&self) -> Result<()> {
        let view = self.folder.join("apt/source-experimental");
        let mirror = apt::mirror()?;
        // What has left experimental is in sid.
        let sources = format!("deb-src {mirror} experimental main\ndeb-src {mirror} sid main\n");
        let options = apt::options(&view, Some(&sources))?;
        apt::fetch_source(&view, &options, "glibc", &self.folder.join("glibc"), &[])?;
        let root = self.unpack_own(&["bison", "gawk", "python3"])?;
        let bin = root.join("usr/bin");
        for tool in ["gawk", "python3"] {
            self.wrap_own("glibc-tools", tool, &root, &bin.join(tool))?;
        }
        let (share, m4) = (root.join("usr/share/bison"), bin.join("m4"));
        let line = format!("BISON_PKGDATADIR='{}' M4='{}'", share.display(), m4.display());
        let program = bin.join("bison");
        let exec = format!("{line} {} exec '{}' \"$@\"", library_path(&root), program.display());
        self.script("glibc-tools", "bison", &exec)
    }

    /// Parts of the suite of a compiler and its C++ library. Debian's package has their whole source.
    fn gcc_tests(&self) -> Result<()> {
        const PARTS: [&str; 4] = [
            "*/gcc/testsuite/g++.dg/eh/*",
            "*/gcc/testsuite/gcc.dg/cleanup-*",
            "*/libstdc++-v3/testsuite/18_support/*",
            "*/libstdc++-v3/testsuite/util/*",
        ];
        let view = self.folder.join("apt/alone-bookworm");
        let sources = format!("deb {} bookworm main\n", apt::mirror()?);
        let options = apt::options(&view, Some(&sources))?;
        let package = apt::fetch_alone(&view, &options, "gcc-12-source")?;
        let (root, tests) = (view.join("root"), self.folder.join("gcc-tests"));
        output(Command::new("dpkg").arg("-x").arg(&package).arg(&root))?;
        let mut files =
            std::fs::read_dir(root.join("usr/src/gcc-12"))?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_source = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("gcc-") && name.ends_with(".tar.xz")
        };
        let archive = files.find(is_source).context("no archive in gcc's source package")?;
        std::fs::create_dir_all(&tests)?;
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(archive).arg("-C").arg(tests).args(["--strip-components=1", "--no-same-owner"]);
        output(tar.arg("--wildcards").args(PARTS))?;
        std::fs::remove_dir_all(view)?;
        Ok(())
    }

    /// Tests of LLVM's C++ library and of its unwinder, of the release whose library [`Peers::llvm_library`]
    /// unpacks.
    fn llvm_tests(&self) -> Result<()> {
        const PARTS: [&str; 3] = ["*/libcxxabi/test/*", "*/libcxx/test/support/*", "*/libunwind/test/*"];
        self.tests("bookworm", |_, _| Ok("llvm-toolchain-14".into()), "llvm-tests", &PARTS)
    }

    /// Those of the newest release whose source can be had.
    fn mold_tests(&self) -> Result<()> {
        let of_version = |version: usize| {
            let package = move |view: &Path, options: &[String]| {
                let versions = apt::source_versions(view, options, "mold")?;
                let found = versions.iter().rev().nth(version).context("no source of mold can be had")?;
                Ok(format!("mold={found}"))
            };
            self.tests("sid", package, "mold-tests", &["*/test/*"])
        };
        // A suite may list a release that its mirror does not have yet.
        of_version(0).or_else(|_| of_version(1))
    }

    /// The libraries without which clang has gcc's.
    fn llvm_library(&self) -> Result<()> {
        self.unpack_own(&["libc++-dev", "libc++abi-dev"]).map(drop)
    }

    /// Those of this rustc's release, or else of the newest.
    fn rust_tests(&self) -> Result<()> {
        let package = |view: &Path, options: &[String]| {
            let own = output(Command::new("rustc").arg("-V"))?;
            let own = own.split(' ').nth(1).unwrap_or_default();
            let versions = apt::source_versions(view, options, "rustc")?;
            let version = versions.iter().find(|version| version.starts_with(own)).or(versions.last());
            Ok(format!("rustc={}", version.context("the package client knows no source of rustc")?))
        };
        self.tests("sid", package, "rust-tests", &["*/tests/ui/*.rs"])
    }

    /// Fetches parts of a package's source. What they came from is deleted.
    fn tests(
        &self,
        suite: &str,
        package: impl Fn(&Path, &[String]) -> Result<String>,
        folder: &str,
        parts: &[&str],
    ) -> Result<()> {
        let view = self.folder.join("apt/alone-source");
        let sources = format!("deb-src {} {suite} main\n", apt::mirror()?);
        let options = apt::options(&view, Some(&sources))?;
        let package = package(&view, &options)?;
        apt::fetch_source(&view, &options, &package, &self.folder.join(folder), parts)?;
        Ok(std::fs::remove_dir_all(view)?)
    }

    fn clang(&self) -> Result<()> {
        let root = self.unpack_own(&["clang"])?;
        for tool in ["clang", "clang++"] {
            let program =
                find(&root.join("usr/lib"), &format!("bin/{tool}")).context("no clang in its package")?;
            self.wrap_own("clang", tool, &root, &program)?;
        }
        Ok(())
    }

    /// Debian's cross compilers and the emulators for their programs.
    fn cross(&self) -> Result<()> {
        let compilers =
            CROSS.iter().flat_map(|(_, triple)| [format!("gcc-{triple}"), format!("g++-{triple}")]);
        let packages: Vec<String> = compilers.chain(["qemu-user".to_owned()]).collect();
        let root = self.unpack_own(&packages.iter().map(String::as_str).collect::<Vec<_>>())?;
        let _ = std::fs::remove_dir_all(self.folder.join("cross"));
        let bin = root.join("usr/bin");
        for (machine, triple) in CROSS {
            for tool in ["gcc", "g++"] {
                let name = format!("{triple}-{tool}");
                self.script("cross", &name, &cross_compiler(&root, triple, &bin.join(&name)))?;
            }
            let emulator = format!("qemu-{machine}");
            self.wrap_own("cross", &emulator, &root, &bin.join(&emulator))?;
            let gold = bin.join(format!("{triple}-ld.gold"));
            let version = version_of(&[gold.display().to_string()])?;
            self.wrap_own(&format!("gold-{version}/{machine}"), "ld", &root, &gold)?;
        }
        Ok(())
    }

    /// The newest binutils for the other machines; their assemblers emit SFrame V3.
    fn cross_binutils(&self) -> Result<()> {
        let packages = CROSS.map(|(_, triple)| format!("binutils-{triple}"));
        let root = self.unpack("sid", &packages.each_ref().map(String::as_str))?;
        for (machine, triple) in CROSS {
            let version = version_of(&root.words(&format!("{triple}-as")))?;
            for tool in BINUTILS {
                let program = format!("{triple}-{tool}");
                self.wrap(&format!("binutils-{version}"), &program, &root.words(&program))?;
            }
            let linker = root.words(&format!("{triple}-ld.bfd"));
            self.wrap(&format!("binutils-{version}"), &format!("{triple}-ld"), &linker)?;
            self.wrap(&format!("bfd-{version}/{machine}"), "ld", &linker)?;
        }
        Ok(())
    }

    /// Writes `NAME-VERSION/ld` and `cmd`.
    fn linker(&self, name: &str, words: &[String]) -> Result<()> {
        let folder = format!("{name}-{}", version_of(words)?);
        self.wrap(&folder, "ld", words)?;
        Ok(std::fs::write(self.folder.join(folder).join("cmd"), words.join("\n") + "\n")?)
    }

    /// Writes `FOLDER/TOOL`, a script that runs these words, followed by the script's own arguments.
    fn wrap(&self, folder: &str, tool: &str, words: &[String]) -> Result<()> {
        self.script(folder, tool, &format!("exec {} \"$@\"", quoted(words)))
    }

    /// The same for a program of the machine's own suite, with the libraries that are unpacked beside it.
    fn wrap_own(&self, folder: &str, tool: &str, root: &Path, program: &Path) -> Result<()> {
        self.script(folder, tool, &format!("{} exec '{}' \"$@\"", library_path(root), program.display()))
    }

    fn script(&self, folder: &str, tool: &str, line: &str) -> Result<()> {
        write_script(&self.folder.join(folder).join(tool), line)
    }

    /// Unpacks packages of a named suite with everything that they depend on.
    fn unpack(&self, suite: &str, packages: &[&str]) -> Result<Root> {
        let view = self.folder.join("apt").join(suite);
        let sources = format!("deb {} {suite} main\n", apt::mirror()?);
        let options = apt::options(&view, Some(&sources))?;
        let root = self.folder.join(format!("root-{suite}"));
        apt::fetch_and_unpack(&view, &options, packages, &root)?;
        Ok(Root { path: root })
    }

    /// Unpacks packages of the machine's own suite, with their dependencies, except for those that gcc needs
    /// anyway.
    fn unpack_own(&self, packages: &[&str]) -> Result<PathBuf> {
        let view = self.folder.join("apt/own");
        let options = apt::options(&view, None)?;
        let root = self.folder.join("root-own");
        apt::fetch_and_unpack(&view, &options, packages, &root)?;
        Ok(root)
    }
}

/// Writes a shell script. A process that runs the old script keeps the old one.
pub(crate) fn write_script(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    let new = path.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\n{text}\n"))?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755))?;
    Ok(std::fs::rename(new, path)?)
}

/// Quotes words for a shell.
fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

/// The words of the shell with which a program of an unpacked tree finds its libraries.
fn library_path(root: &Path) -> String {
    let folders = library_folders(root).map(|folder| format!("'{}'", folder.display()));
    format!("LD_LIBRARY_PATH={}:\"$LD_LIBRARY_PATH\"", folders.join(":"))
}

/// The folders where packages have their libraries. Some packages of Debian 12 still use `lib` besides
/// `usr/lib`.
pub(crate) fn library_folders(root: &Path) -> [PathBuf; 2] {
    ["usr/lib", "lib"].map(|folder| root.join(folder).join(TRIPLE))
}

/// The line that runs an unpacked cross compiler.
///
/// It finds its parts and headers relative to itself. The line says where the C library is, and where the
/// assembler and the linker are if the caller names none: gcc searches the folders of `-B` in order, and the
/// caller's come first.
fn cross_compiler(root: &Path, triple: &str, program: &Path) -> String {
    let own = root.join("usr").join(triple);
    let (own, root_folder, program) = (own.display(), root.display(), program.display());
    format!(
        "{} exec '{program}' --sysroot='{root_folder}' \"$@\" -B'{own}/bin/' -B'{own}/lib/' -L'{own}/lib'",
        library_path(root)
    )
}

/// A tree of unpacked packages with its own C library.
struct Root {
    path: PathBuf,
}

impl Root {
    /// The words that start a program in `usr/bin` with the tree's own loader and libraries.
    fn words(&self, program: &str) -> Vec<String> {
        let path = self.path.join("usr/bin").join(program).display().to_string();
        let mut words = self.loader(&path);
        words.push(path);
        words
    }

    fn loader(&self, name: &str) -> Vec<String> {
        let folders = library_folders(&self.path);
        let loaders = folders.each_ref().map(|folder| folder.join("ld-linux-x86-64.so.2"));
        let loader = loaders.iter().find(|path| path.exists()).unwrap_or(&loaders[0]).display().to_string();
        let path = folders.map(|folder| folder.display().to_string()).join(":");
        vec![loader, "--library-path".into(), path, "--argv0".into(), name.into()]
    }
}

/// The first two numbers in a program's `--version`, such as `2.44`; a single one if there are no more.
fn version_of(words: &[String]) -> Result<String> {
    let output = Command::new(&words[0]).args(&words[1..]).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().context("says nothing for --version")?;
    let number = |w: &&str| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.');
    let mut numbers = line.split([' ', '(', ')', '-', '+']).filter(number);
    // GNU's lines end with the version; in others it comes first.
    let version = if line.starts_with("GNU") { numbers.next_back() } else { numbers.next() };
    let version = version.with_context(|| format!("no version in {line:?}"))?;
    Ok(version.split('.').take(2).collect::<Vec<_>>().join("."))
}

/// A library of an unpacked tree.
fn find_library(root: &Path, name: &str) -> Result<PathBuf> {
    let mut places = library_folders(root).into_iter().map(|folder| folder.join(name));
    places.find(|place| place.exists()).with_context(|| format!("no {name} in its package"))
}

/// The file with this name in any folder below; of several, the last in the order of paths.
fn find(folder: &Path, suffix: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|e| e.path().join(suffix))
        .filter(|p| p.exists())
        .collect();
    found.sort();
    found.pop()
}
