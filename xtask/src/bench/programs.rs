//! The cases that are made from real programs: a tiny C++ program, a Rust program with debug information, and
//! clang.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::case::{Case, link_line, must_run};

pub fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.into()).collect()
}

/// Two C++ objects with the shared C++ library.
pub fn prepare_tiny(folder: &Path) -> Result<Case> {
    std::fs::write(folder.join("main.cpp"), include_str!("programs/tiny_main.cpp"))?;
    std::fs::write(folder.join("parts.cpp"), include_str!("programs/tiny_parts.cpp"))?;
    must_run(folder, "g++", &strings(&["-O2", "-c", "main.cpp", "parts.cpp"]))?;
    let link = link_line(folder, "g++", &strings(&["main.o", "parts.o"]))?;
    Ok(Case::new(link, &[], &["skipped three\nsum 7\n"]))
}

/// A C program with the static C library.
pub fn prepare_static(folder: &Path) -> Result<Case> {
    std::fs::write(folder.join("main.c"), include_str!("programs/static_main.c"))?;
    must_run(folder, "gcc", &strings(&["-O2", "-c", "main.c"]))?;
    let link = link_line(folder, "gcc", &strings(&["-static", "main.o"]))?;
    Ok(Case::new(link, &[], &["static\n"]))
}

const RIPGREP_VERSION: &str = "14.1.1";

/// ripgrep as `cargo install --debug` builds it: full debug information, section garbage collection.
///
/// rustc deletes some of the files that it hands to the link. So a script in the place of the compiler driver
/// keeps copies of them.
pub fn prepare_rust(folder: &Path) -> Result<Case> {
    let folder = &folder.canonicalize()?;
    std::fs::create_dir_all(folder.join("inputs"))?;
    let driver = folder.join("driver");
    std::fs::write(&driver, capturing_driver(folder))?;
    must_run(folder, "chmod", &strings(&["+x", "driver"]))?;
    let arguments = [
        "install",
        "--quiet",
        "--debug",
        "--locked",
        "--force",
        "--root=install",
        "--target-dir=target",
        "--version",
        RIPGREP_VERSION,
        "--config",
        &format!("target.{}.linker={:?}", host_target(folder)?, driver.display().to_string()),
        "ripgrep",
    ];
    must_run(folder, std::env::var_os("CARGO").unwrap_or("cargo".into()), &strings(&arguments))?;
    let captured = std::fs::read_to_string(folder.join("driver-arguments"))
        .context("cargo linked ripgrep without the driver that captures its link line")?;
    let arguments = without_output(captured.lines());
    let link = link_line(folder, "gcc", &arguments)?;
    for made in ["target", "install"] {
        std::fs::remove_dir_all(folder.join(made))?;
    }
    std::fs::write(folder.join("text"), "sframe\nlinker\n")?;
    Ok(Case::new(link, &["--line-number", "link+er", "text"], &["2:linker\n"]))
}

fn capturing_driver(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "#!/bin/sh\n\
         # Links with gcc; keeps the arguments and inputs of the program's own link.\n\
         case \" $* \" in *\" -o \"*/deps/rg-*)\n\
         \tcount=0\n\
         \tfor argument; do\n\
         \t\tif [ -f \"$argument\" ]; then\n\
         \t\t\tcount=$((count + 1))\n\
         \t\t\tcopy=\"inputs/$count-${{argument##*/}}\"\n\
         \t\t\tcp \"$argument\" \"{folder}/$copy\"\n\
         \t\t\targument=$copy\n\
         \t\tfi\n\
         \t\tprintf '%s\\n' \"$argument\"\n\
         \tdone > '{folder}/driver-arguments'\n\
         esac\n\
         exec gcc \"$@\"\n"
    )
}

fn without_output<'a>(arguments: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut result = vec![];
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument {
            "-o" => drop(arguments.next()),
            _ => result.push(argument.into()),
        }
    }
    result
}

/// The target for which rustc builds when it is not told another one.
pub fn host_target(folder: &Path) -> Result<String> {
    let text = must_run(folder, "rustc", &strings(&["-vV"]))?;
    let target = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(target.context("rustc -vV names no host")?.into())
}

/// The packages that LLVM's archives depend on, and the libraries that the program loads when it runs.
const LLVM_DEPENDENCIES: [&str; 13] = [
    "libedit-dev",
    "libedit2",
    "libffi-dev",
    "libffi8",
    "libncurses-dev",
    "libtinfo6",
    "libxml2-dev",
    "libxml2",
    "libz3-dev",
    "libz3-4",
    "libzstd-dev",
    "zlib1g-dev",
    "zlib1g",
];

/// A whole C++ compiler from Debian's static archives: the link names every archive of libclang, LLVM and
/// Polly.
///
/// The packages are unpacked into the case's folder, and nothing is installed. The program needs LLVM 19 or
/// newer.
pub fn prepare_llvm(folder: &Path) -> Result<Case> {
    let folder = &folder.canonicalize()?;
    let version = newest_libclang(folder)?;
    unpack_packages(folder, &version)?;
    std::fs::write(folder.join("main.cpp"), include_str!("programs/llvm_main.cpp"))?;
    std::fs::write(folder.join("input.cpp"), include_str!("programs/llvm_input.cpp"))?;
    let include = format!("-Iroot/usr/lib/llvm-{version}/include");
    let compile =
        ["-O1", "-std=c++17", "-fno-rtti", "-Wno-deprecated", &include, "-isystem", "root/usr/include"];
    must_run(folder, "g++", &strings(&[&compile[..], &["-c", "main.cpp"]].concat()))?;
    let link = link_line(folder, "g++", &llvm_driver_arguments(folder, &version)?)?;
    let run = ["-triple", "s390x-linux-gnu", "-O2", "-fcxx-exceptions", "-fexceptions", "-S", "-x", "c++"];
    let run = [&run[..], &["input.cpp", "-o", "-"]].concat();
    Ok(Case::new(link, &run, &["_Z7measureP5Shape:", "_ZN5Shape4areaEv:", "br\t%r14"]))
}

/// The greatest N for which the package client knows `libclang-N-dev`. If its lists contain none, they are
/// fetched.
fn newest_libclang(folder: &Path) -> Result<String> {
    let known = || -> Result<Option<u32>> {
        let text = must_run(folder, "apt-cache", &strings(&["pkgnames", "libclang-"]))?;
        let number = |line: &str| line.strip_prefix("libclang-")?.strip_suffix("-dev")?.parse().ok();
        Ok(text.lines().filter_map(number).max())
    };
    if known()?.is_none() {
        must_run(folder, "apt-get", &strings(&["update"]))?;
    }
    Ok(known()?.context("the package client knows no libclang-N-dev")?.to_string())
}

fn unpack_packages(folder: &Path, version: &str) -> Result<()> {
    let packages = folder.join("packages");
    std::fs::create_dir_all(&packages)?;
    let own = ["libclang-VERSION-dev", "llvm-VERSION-dev", "libpolly-VERSION-dev"];
    let own = own.map(|name| name.replace("VERSION", version));
    let dependencies = LLVM_DEPENDENCIES.map(String::from);
    let names = own.into_iter().chain(dependencies);
    let arguments: Vec<String> = ["download".to_string()].into_iter().chain(names).collect();
    must_run(&packages, "apt-get", &arguments)?;
    for entry in std::fs::read_dir(&packages)? {
        must_run(folder, "dpkg-deb", &strings(&["-x", &entry?.path().display().to_string(), "root"]))?;
    }
    Ok(())
}

fn llvm_driver_arguments(folder: &Path, version: &str) -> Result<Vec<String>> {
    let mut archives = vec![];
    for entry in std::fs::read_dir(folder.join(format!("root/usr/lib/llvm-{version}/lib")))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let ours = ["libclang", "libLLVM", "libPolly"].iter().any(|start| name.starts_with(start));
        if ours && name.ends_with(".a") {
            archives.push(format!("root/usr/lib/llvm-{version}/lib/{name}"));
        }
    }
    if archives.is_empty() {
        bail!("the packages of LLVM {version} hold no archives");
    }
    archives.sort();
    let libraries = library_folder(folder)?;
    let mut arguments = strings(&["main.o", "-Wl,--start-group"]);
    arguments.append(&mut archives);
    arguments.push("-Wl,--end-group".into());
    for name in ["libz3.so.4", "libxml2.so", "libedit.a", "libffi.a", "libtinfo.a", "libzstd.a", "libz.a"] {
        arguments.push(libraries.join(name).display().to_string());
    }
    arguments.push(format!("-Wl,-rpath,{}", folder.join(&libraries).display()));
    arguments.extend(strings(&["-lpthread", "-ldl", "-lm"]));
    Ok(arguments)
}

/// `root/usr/lib/TRIPLET`, relative to the case's folder.
pub fn library_folder(folder: &Path) -> Result<PathBuf> {
    let triplet = must_run(folder, "gcc", &strings(&["-print-multiarch"]))?;
    Ok(Path::new("root/usr/lib").join(triplet.trim()))
}
