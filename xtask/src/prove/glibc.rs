//! Proves that glibc walks by what the linker writes. The files of glibc's SFrame reader, which `backtrace()`
//! calls where glibc is configured with `--enable-sframe`, are compiled as they are into a program for x86-64
//! and one for AArch64. The program is linked in every mode, and the C library that it runs with gets a table
//! by `sframe attach`.
//!
//! The reader must find every frame that libgcc finds by `.eh_frame`, or give up, after which `backtrace()`
//! walks by `.eh_frame`. It knows V2 only: in files with V3, it must give up.

use super::proof::Proof;
use crate::commands::output;
use crate::peers;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A way to give a program its table.
pub(super) struct Mode {
    pub name: &'static str,
    /// Options of the link.
    pub options: &'static str,
    /// Whether `sframe attach` makes the table afterwards.
    pub attach: bool,
    /// Whether the reader must find all frames; else it must give up.
    pub is_read: bool,
}

pub(super) const MODES: [Mode; 6] = [
    Mode { name: "merged, V2", options: "--sframe=merge --sframe-version=2", attach: false, is_read: true },
    Mode { name: "attached, V2", options: "--sframe=discard", attach: true, is_read: true },
    Mode { name: "none", options: "--sframe=discard", attach: false, is_read: false },
    Mode { name: "index", options: "--sframe-index", attach: false, is_read: false },
    Mode { name: "concatenated, V3", options: "--sframe=concat", attach: false, is_read: false },
    Mode { name: "merged, V3", options: "--sframe=merge", attach: false, is_read: false },
];

/// The places from which the program walks, in the order of its output.
const PLACES: [&str; 7] = ["recursion", "library", "qsort", "raise", "fault", "noreturn", "plt"];
/// Where glibc's reader is known to lose its way on a machine (`docs/defects`).
const KNOWN: [(&str, &str); 3] = [("aarch64", "fault"), ("aarch64", "noreturn"), ("x86_64", "noreturn")];

pub fn glibc(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let source = peers::folder().join("glibc");
    let version =
        std::fs::read_to_string(source.join("version.h")).context("no glibc (cargo xtask peers)")?;
    let version = version.split('"').nth(3).context("no version of glibc")?.to_owned();
    proof.note(format!(
        "The SFrame reader of glibc {version}, compiled from its source, in a program that walks from seven places. A number is how many\n\
         frames it found, which are all that libgcc found by `.eh_frame`; *gives up*: `backtrace()` then walks by `.eh_frame`; *stops*: a signal ended\n\
         the program in the reader.\n\
         The C library is this machine's (AArch64: Debian's, under qemu), with a table in V2 by `sframe attach`.\n"
    ))?;
    let mut wrong = Vec::new();
    for (machine, corrected) in [("x86_64", false), ("aarch64", false), ("aarch64", true)] {
        let place = Place::make(proof, &source, sframe, machine, corrected)?;
        let title = if corrected { ", with x29 in the place of x30 in the reader" } else { "" };
        proof.note(format!(
            "\n## {machine}{title}\n\n| table | {} |\n|---|{}",
            PLACES.join(" | "),
            "---|".repeat(PLACES.len())
        ))?;
        for mode in &MODES {
            let cells = place.walked(mode)?;
            proof.note(format!("| {} | {} |", mode.name, cells.join(" | ")))?;
            let known = |name: &str| KNOWN.contains(&(machine, name)) && mode.is_read;
            let places = PLACES.iter().zip(&cells);
            let unlike = places.filter(|(name, cell)| !known(name) && !mode.expects(cell));
            wrong.extend(unlike.map(|(name, cell)| format!("{machine}, {}, {name}: {cell}", mode.name)));
        }
    }
    ensure!(wrong.is_empty(), "not as libgcc walks:\n{}", wrong.join("\n"));
    Ok(())
}

impl Mode {
    /// The options of the link, for a compiler.
    pub fn words(&self) -> Vec<String> {
        self.options.split(' ').map(|option| format!("-Wl,{option}")).collect()
    }

    pub fn expects(&self, cell: &str) -> bool {
        cell == "–" || if self.is_read { cell.parse::<u32>().is_ok() } else { cell == "gives up" }
    }
}

/// A folder with the program's objects for a machine.
struct Place<'a> {
    folder: PathBuf,
    prefix: PathBuf,
    assembler: PathBuf,
    sframe: &'a Path,
    compiler: PathBuf,
    emulator: Vec<String>,
}

impl<'a> Place<'a> {
    /// Compiles reader, program and library. A corrected reader takes the frame pointer of a signal's frame
    /// from x29.
    fn make(
        proof: &Proof,
        source: &Path,
        sframe: &'a Path,
        machine: &str,
        corrected: bool,
    ) -> Result<Place<'a>> {
        let folder =
            proof.folder.join(if corrected { format!("{machine}-corrected") } else { machine.into() });
        std::fs::create_dir_all(&folder)?;
        let triple = format!("{machine}-linux-gnu");
        let is_own = machine == "x86_64";
        let tool =
            |name: &str| peers::program(&if is_own { name.into() } else { format!("{triple}-{name}") });
        let compiler = if is_own { "gcc".into() } else { tool("gcc")? };
        let libraries = folder.join("libraries");
        std::fs::create_dir_all(&libraries)?;
        let emulator = if is_own {
            Vec::new()
        } else {
            let variable = format!("LD_LIBRARY_PATH={}", libraries.display());
            let program = peers::program(&format!("qemu-{machine}"))?.display().to_string();
            vec![program, "-L".into(), peers::sysroot(&triple).display().to_string(), "-E".into(), variable]
        };
        let (assembler, _) = proof.assembler_folder(&format!("as-{machine}"), &tool("as")?)?;
        let place = Place { folder, prefix: proof.prefix.clone(), assembler, sframe, compiler, emulator };
        place.take_reader(source, machine, corrected)?;
        place.compile(is_own)?;
        place.give_c_library_a_table(&libraries)?;
        Ok(place)
    }

    /// Copies the files of the reader out of glibc's source.
    fn take_reader(&self, source: &Path, machine: &str, corrected: bool) -> Result<()> {
        let generic = ["sframe.h", "sframe-read.h", "sframe.c", "sframe-read.c"];
        let generic = generic.map(|name| format!("sysdeps/generic/{name}"));
        let linux = "sysdeps/unix/sysv/linux";
        let own =
            [format!("{linux}/{machine}/uw-sigframe.h"), format!("{linux}/aarch64/kernel_rt_sigframe.h")];
        for path in generic.iter().chain(&own) {
            let text =
                std::fs::read_to_string(source.join(path)).with_context(|| format!("glibc's {path}"))?;
            let text = if corrected { text.replace("FP_REGNUM 30", "FP_REGNUM 29") } else { text };
            let name = Path::new(path).file_name().context("a path of a file")?;
            std::fs::write(self.folder.join(name), text)?;
        }
        // The shim says what the reader takes from there.
        std::fs::write(self.folder.join("ldsodefs.h"), "")?;
        let own = [
            ("shim.h", include_str!("glibc/shim.h")),
            ("walk.c", include_str!("glibc/walk.c")),
            ("program.c", include_str!("glibc/program.c")),
            ("library.c", include_str!("glibc/library.c")),
        ];
        own.iter().try_for_each(|(name, text)| Ok(std::fs::write(self.folder.join(name), text)?))
    }

    fn compile(&self, has_plt_rows: bool) -> Result<()> {
        let reader = ["-fno-pie", "-D_GNU_SOURCE", "-include", "shim.h", "-I."];
        // A row of AArch64 cannot say that the return address is still in its register.
        let program: &[&str] = if has_plt_rows { &["-fno-pie", "-DPLT"] } else { &["-fno-pie"] };
        let files: [(&str, &[&str]); 5] = [
            ("sframe", &reader),
            ("sframe-read", &reader),
            ("walk", &reader),
            ("program", program),
            ("library", &["-fPIC"]),
        ];
        for (name, options) in files {
            let (source, object) = (format!("{name}.c"), format!("{name}.o"));
            let words = ["-O2", "-Wa,--gsframe", "-c", "-o", &object, &source];
            self.gcc(&[&words[..], options].concat())?;
        }
        Ok(())
    }

    fn gcc(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.compiler);
        command.current_dir(&self.folder).args(words);
        for folder in [&self.assembler, &self.prefix] {
            command.arg(format!("-B{}", folder.display()));
        }
        output(&mut command)
    }

    fn give_c_library_a_table(&self, libraries: &Path) -> Result<()> {
        let library = self.gcc(&["-print-file-name=libc.so.6"])?;
        let library = Path::new(library.trim()).canonicalize().context("no C library")?;
        attach(self.sframe, &library, &libraries.join("libc.so.6"))
    }

    /// Links the program and its library, and runs it: a cell for each place.
    fn walked(&self, mode: &Mode) -> Result<Vec<String>> {
        let options = mode.words();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.gcc(&[&["-shared", "-o", "library.so", "library.o"], &options[..]].concat())?;
        let objects = ["program.o", "walk.o", "sframe.o", "sframe-read.o", "./library.so"];
        self.gcc(&[&["-no-pie", "-o", "program"], &objects[..], &options].concat())?;
        if mode.attach {
            for name in ["library.so", "program"] {
                let file = self.folder.join(name);
                attach(self.sframe, &file, &file)?;
            }
        }
        let mut words = self.emulator.clone();
        words.push("./program".into());
        let mut command = Command::new(&words[0]);
        command.current_dir(&self.folder).args(&words[1..]);
        if self.emulator.is_empty() {
            command.env("LD_LIBRARY_PATH", self.folder.join("libraries"));
        }
        let said = command.output().with_context(|| words.join(" "))?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut has_stopped = false;
        let cells = PLACES.map(|place| {
            let line = text.lines().find_map(|line| line.strip_prefix(place)?.strip_prefix(' '));
            let Some(line) = line else {
                // The other lines without a walk are of places that the machine does not have, or that come
                // after the end.
                let stops = !said.status.success() && !std::mem::replace(&mut has_stopped, true);
                return Ok(if stops { "stops" } else { "–" }.into());
            };
            cell(line)
        });
        cells.into_iter().collect()
    }
}

/// Gives a file a table in V2.
pub(super) fn attach(sframe: &Path, from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new(sframe);
    command.args(["attach", "--sframe-version", "2", "-o"]).arg(to).arg(from);
    output(&mut command).map(drop)
}

/// What a line says: the frames that the reader found, those that libgcc found, and those that are the same.
/// The first is in another function, and libgcc's last one is the program's first function.
pub(super) fn cell(line: &str) -> Result<String> {
    let numbers: Vec<i32> =
        line.split(' ').map(str::parse).collect::<Result<_, _>>().context("no numbers")?;
    let &[found, all, same] = numbers.as_slice() else { bail!("{line:?} from the program") };
    Ok(match found {
        0 => "gives up".into(),
        _ if found + 1 == all && same + 1 == found => found.to_string(),
        _ => format!("{same} of {all} the same"),
    })
}
