//! Links programs so that they start on every Linux of the last ten years.
//!
//! A program that is linked on today's system asks for today's versions of symbols
//! (`pthread_create@GLIBC_2.34`), so it starts on no older system, although the C library keeps each older
//! version for ever. A static program starts everywhere, but cannot load the plugins of compilers.
//!
//! So packages are linked to stand-ins for the system's libraries. For each symbol, a stand-in defines the
//! newest version that [`OLDEST`] has:
//!
//! ```text
//! system's libc.so.6:   pthread_create@GLIBC_2.34, pthread_create@GLIBC_2.2.5
//! stand-in:             pthread_create@GLIBC_2.2.5, in libpthread.so.0
//! ```
//!
//! A symbol that came later has no version in the stand-in. Programs refer to it weakly (`statx`) and find it
//! where it exists; [`check`] allows no other reference to it. Some functions have moved into `libc.so.6`
//! since. The stand-ins define them in their old library, because the dynamic linker of an old system looks
//! for them there.

use crate::commands;
use anyhow::{Context, Result, ensure};
use object::read::elf::{ElfFile64, Sym};
use object::{Endianness, elf};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C library of RHEL 7 (2014), the oldest that Rust's standard library supports.
const OLDEST: [u32; 2] = [2, 17];
/// Replaces what today's start files and headers need from the C library, by means of the older one.
const SHIM: [(&str, &str); 2] =
    [("start", include_str!("old_libc/start.c")), ("status", include_str!("old_libc/status.c"))];
/// The options of the linker for it.
const OPTIONS: [&str; 2] = ["-Wl,--wrap=__libc_start_main", "-lold_libc"];
/// The libraries that Rust and C programs are linked to, by the names under which gcc finds them.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1"];
/// The libraries whose functions are in `libc.so.6` since glibc 2.34, with the first letters of the
/// functions' names.
const MOVED: [(&str, &[&str]); 2] = [("libdl.so.2", &["dl"]), ("libpthread.so.0", &["pthread_", "sem_"])];

/// The version of symbols that the libraries of glibc share only among themselves.
const PRIVATE: &str = "GLIBC_PRIVATE";

/// A symbol in a stand-in.
struct Symbol {
    name: String,
    /// `None` if it came later.
    version: Option<String>,
    is_object: bool,
    size: u64,
}

/// Makes the stand-ins in a folder. Returns the flags for rustc.
///
/// # Errors
/// The system's libraries cannot be read, or gcc fails.
pub fn stand_ins(folder: &Path) -> Result<String> {
    std::fs::create_dir_all(folder)?;
    let mut group = Vec::new();
    for library in LIBRARIES {
        let mut symbols = symbols(&system(library)?).with_context(|| library.to_owned())?;
        if library == "libc.so.6" {
            for (older, starts) in MOVED {
                let is_moved =
                    |symbol: &mut Symbol| starts.iter().any(|start| symbol.name.starts_with(start));
                write(folder, older, &symbols.extract_if(.., is_moved).collect::<Vec<_>>())?;
                group.push(older);
            }
        }
        write(folder, library, &symbols)?;
    }
    // This is what `-lc` finds. The dynamic linker has had `__tls_get_addr` from the start.
    let usual = std::fs::read_to_string(system("libc.so")?).context("the system's libc.so is no script")?;
    let loader = usual
        .split_whitespace()
        .find_map(|word| word.rsplit_once("/ld"))
        .context("it names no dynamic linker")?;
    let loader = system(&format!("ld{}", loader.1))?;
    let script = format!("GROUP ( libc.so.6 AS_NEEDED ( {} {} ) )\n", group.join(" "), loader.display());
    // A link with this name exists; replace it.
    crate::records::replace(&folder.join("libc.so"), script.as_bytes())?;
    let archive = folder.join("libold_libc.a");
    let _ = std::fs::remove_file(&archive);
    for (name, text) in SHIM {
        let (source, object) = (folder.join(name).with_extension("c"), folder.join(name).with_extension("o"));
        std::fs::write(&source, text)?;
        let options = ["-O2", "-fPIC", "-ffreestanding", "-c", "-o"];
        commands::output(Command::new("gcc").args(options).arg(&object).arg(&source))?;
        commands::output(Command::new("ar").arg("rcsD").arg(&archive).arg(&object))?;
    }
    let options = OPTIONS.map(|option| format!(" -C link-arg={option}")).concat();
    Ok(format!("-L native={0} -C link-arg=-L{0}{options}", folder.display()))
}

/// The path of a system library.
fn system(library: &str) -> Result<PathBuf> {
    let path = PathBuf::from(
        commands::output(Command::new("gcc").arg(format!("-print-file-name={library}")))?.trim(),
    );
    ensure!(path.is_absolute(), "gcc finds no {library}");
    Ok(path)
}

/// The symbols of a library, each in the newest version that the old library has.
fn symbols(library: &Path) -> Result<Vec<Symbol>> {
    let bytes = std::fs::read(library)?;
    let file = ElfFile64::<Endianness>::parse(&*bytes)?;
    let (endian, strings) = (file.endian(), file.elf_dynamic_symbol_table().strings());
    let versions = file.elf_section_table().versions(endian, &*bytes)?.context("no versions")?;
    let mut newest: BTreeMap<Vec<u8>, (Vec<u32>, Symbol)> = BTreeMap::new();
    for (index, symbol) in file.elf_dynamic_symbol_table().enumerate() {
        let Some(version) = versions.version(versions.version_index(endian, index))? else { continue };
        // Absolute symbols are the names of versions.
        let is_version = symbol.st_shndx(endian) == elf::SHN_ABS;
        let version = std::str::from_utf8(version.name())?;
        if symbol.is_undefined(endian) || is_version || symbol.st_type() == elf::STT_TLS || version == PRIVATE
        {
            continue;
        }
        let name = symbol.name(endian, strings)?;
        let (age, version) = match age(version) {
            Some(age) => (age, Some(version.to_owned())),
            None => (Vec::new(), None),
        };
        if newest.get(name).is_none_or(|(known, _)| *known < age) {
            let name_read = String::from_utf8(name.to_vec())?;
            let is_object = symbol.st_type() == elf::STT_OBJECT;
            let symbol = Symbol { name: name_read, version, is_object, size: symbol.st_size(endian) };
            newest.insert(name.to_vec(), (age, symbol));
        }
    }
    let symbols = newest.into_values().map(|(_, symbol)| symbol);
    let is_ours = |name: &str| SHIM.iter().any(|(_, text)| text.contains(&format!("HIDDEN int {name}(")));
    Ok(symbols.filter(|symbol| !is_ours(&symbol.name)).collect())
}

/// The numbers of a version if [`OLDEST`] has it. The versions of compilers' libraries are older, so all of
/// them pass.
fn age(version: &str) -> Option<Vec<u32>> {
    let (library, numbers) = version.split_once('_')?;
    let numbers: Vec<u32> = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    (library != "GLIBC" || numbers[..] <= OLDEST[..]).then_some(numbers)
}

/// Writes a stand-in under the library's name, and makes a link with the name that `-l` looks for.
fn write(folder: &Path, library: &str, symbols: &[Symbol]) -> Result<()> {
    let mut source = String::from(".text\n");
    for (number, symbol) in symbols.iter().enumerate() {
        let kind = if symbol.is_object { "object" } else { "function" };
        let Symbol { name, version, size, .. } = symbol;
        let label = version.as_ref().map_or_else(|| name.clone(), |_| format!("versioned{number}"));
        writeln!(source, ".globl {label}\n.type {label}, %{kind}\n.size {label}, {size}\n{label}: .byte 0")?;
        if let Some(version) = version {
            writeln!(source, ".symver {label}, {name}@@@{version}")?;
        }
    }
    let mut script = String::new();
    let versions = symbols
        .iter()
        .filter_map(|symbol| symbol.version.as_ref())
        .collect::<std::collections::BTreeSet<_>>();
    for version in versions {
        writeln!(script, "{version} {{ }};")?;
    }
    let (assembly, versions) = (folder.join("stand-in.s"), folder.join("stand-in.map"));
    std::fs::write(&assembly, source)?;
    std::fs::write(&versions, script)?;
    let mut command = Command::new("gcc");
    command.args(["-shared", "-nostdlib", "-o"]).arg(folder.join(library)).arg(&assembly);
    command.arg(format!("-Wl,-soname,{library}")).arg(format!("-Wl,--version-script={}", versions.display()));
    commands::output(&mut command)?;
    let short = library.split_inclusive(".so").next().unwrap_or(library);
    crate::folders::link(library, &folder.join(short))
}

/// Checks that the programs and libraries below a folder start with the old library.
///
/// # Errors
/// One needs something newer; the error names it.
pub fn check(tree: &Path) -> Result<()> {
    for name in super::stripped::elf_files(tree)? {
        let bytes = std::fs::read(tree.join(&name))?;
        let file = ElfFile64::<Endianness>::parse(&*bytes)?;
        let (endian, strings) = (file.endian(), file.elf_dynamic_symbol_table().strings());
        let Some(versions) = file.elf_section_table().versions(endian, &*bytes)? else { continue };
        for (index, symbol) in file.elf_dynamic_symbol_table().enumerate().skip(1) {
            if symbol.is_undefined(endian) && symbol.st_bind() != elf::STB_WEAK {
                let version = versions.version(versions.version_index(endian, index))?;
                let version =
                    version.map_or("", |version| std::str::from_utf8(version.name()).unwrap_or("?"));
                let symbol = String::from_utf8_lossy(symbol.name(endian, strings)?);
                let name = name.display();
                ensure!(
                    age(version).is_some(),
                    "{name} asks for {symbol}@{version}, newer than glibc {OLDEST:?}"
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses functions that moved between libraries, functions that came later, constructors, and something
    /// that only new libraries have.
    const PROGRAM: &str = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <math.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <sys/stat.h>
        static int constructed;
        __attribute__((constructor)) static void construct(int count, char **words) { constructed += count; }
        static void *work(void *of) { return of; }
        extern int statx() __attribute__((weak));
        int (*volatile newer)() = statx;
        int main(int count, char **words) {
            struct stat status;
            pthread_t thread;
            void *back = 0;
            if (pthread_create(&thread, 0, work, &thread) || pthread_join(thread, &back) || back != &thread) return 1;
            if (stat("/", &status) || !S_ISDIR(status.st_mode)) return 2;
            if (!dlopen("libm.so.6", RTLD_NOW)) return 3;
            printf("%d %.0f %d\n", constructed, pow(count, 2), newer != 0);
            return 0;
        }"#;

    #[test]
    fn programs_want_the_old_library_and_run_with_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let (libraries, tree) = (folder.path().join("libraries"), folder.path().join("tree"));
        std::fs::create_dir(&tree).unwrap();
        stand_ins(&libraries).unwrap();
        let link = |program: &str, options: &[&str]| {
            let source = folder.path().join("program.c");
            std::fs::write(&source, program).unwrap();
            let mut command = Command::new("gcc");
            command.args(["-O1", "-o"]).arg(tree.join("program")).arg(&source).arg("-L").arg(&libraries);
            commands::output(command.args(options).args(OPTIONS).args(["-lm", "-ldl", "-lpthread"])).unwrap();
            check(&tree)
        };
        let refused = link(&PROGRAM.replace("__attribute__((weak))", ""), &[]).unwrap_err().to_string();
        assert!(refused.contains("program asks for statx"), "{refused}");
        link(PROGRAM, &["-fPIC", "-shared"]).unwrap();
        link(PROGRAM, &[]).unwrap();
        let text = commands::output(Command::new(tree.join("program")).args(["1", "2"])).unwrap();
        assert_eq!(text, "3 9 1\n", "one constructor, run once, and a function that only new libraries have");
    }

    #[test]
    fn versions_are_held_against_the_oldest_library() {
        assert_eq!(age("GLIBC_2.17"), Some(vec![2, 17]));
        assert_eq!(age("GLIBC_2.3.4"), Some(vec![2, 3, 4]));
        assert_eq!(age("GLIBC_2.18"), None);
        assert_eq!(age("GLIBC_PRIVATE"), None);
        assert_eq!(age("GCC_14.0.0"), Some(vec![14, 0, 0]));
    }
}
