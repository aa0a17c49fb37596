//! The ways to link a program: the kind of output, options that must not change what the program does, and steps.

use super::program::{Home, Program};
use super::rng::Rng;
use crate::cases::Step;
use crate::machine::Machine;
use crate::peers::Family;

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `-static`
    Static,
    /// `-static-pie`
    StaticPie,
    /// `-pie`
    Pie,
    /// `-no-pie`, with a dynamic linker
    NoPie,
}

impl Output {
    /// The file of the runtime that fits.
    pub fn runtime(self) -> &'static str {
        match self {
            Output::Static => "runtime-static.o",
            Output::StaticPie => "runtime-static-pie.o",
            Output::Pie | Output::NoPie => "runtime-dynamic.o",
        }
    }

    /// Whether a dynamic linker starts the program.
    pub fn is_dynamic(self) -> bool {
        matches!(self, Output::Pie | Output::NoPie)
    }
}

/// A way to link.
#[derive(Clone, Debug)]
pub struct Way {
    /// The kind of output.
    pub output: Output,
    /// Options of the program's link.
    pub options: Vec<String>,
    /// Options of the libraries' links.
    pub library_options: Vec<String>,
    /// `--icf`, for linkers that have it.
    pub fold: Option<&'static str>,
    /// Options of this project's linker alone.
    pub own: Vec<String>,
    /// Whether the program's objects are first linked with `-r`.
    pub relocatable_first: bool,
}

/// Options of any link; of a line, one at most is chosen.
const OPTIONS: &[&[&str]] = &[
    &["-z now", "-z lazy"],
    &["--hash-style=gnu", "--hash-style=sysv", "--hash-style=both"],
    &["-z norelro", "-z relro"],
    &["--build-id", "--build-id=none"],
    &["-O0", "-O1", "-O2"],
    &["-z separate-code", "-z noseparate-code"],
    &["-z pack-relative-relocs"],
    &["-s", "-S", "-x", "-X"],
    &["--eh-frame-hdr", "--no-eh-frame-hdr"],
    &["-z nocombreloc", "-z combreloc"],
    &["-z text"],
    &["--sort-section=name", "--sort-section=alignment"],
    &["-z max-page-size=65536", "-z max-page-size=4096"],
    &["--no-relax"],
    &["--gc-sections"],
    &["-z start-stop-visibility=hidden", "-z start-stop-visibility=protected"],
    &["-z execstack", "-z noexecstack"],
    &["--as-needed", "--no-as-needed"],
    &["-z start-stop-gc", "-z nostart-stop-gc"],
];
/// Those of programs alone.
const PROGRAM_OPTIONS: &[&[&str]] = &[&["--export-dynamic", "-E"], &["--emit-relocs"], &["--no-undefined"]];
/// Those of libraries alone.
const LIBRARY_OPTIONS: &[&[&str]] = &[&["-Bsymbolic", "-Bsymbolic-functions"]];
/// What this project's linker does with `.sframe`.
const FRAMES: &[&str] =
    &["--sframe=concat", "--sframe=merge", "--sframe-index", "--sframe-split", "--sframe-index=compact"];

/// Several ways to link a program, all different.
pub fn ways(program: &Program, count: usize) -> Vec<Way> {
    let mut rng = Rng::new(program.seed ^ 0x77);
    let mut outputs = Vec::new();
    if program.joinable {
        outputs.push(Output::Static);
        // There is no rcrt1.o for s390x: static programs have fixed addresses there.
        if !program.fixed && program.machine != Machine::S390x {
            outputs.push(Output::StaticPie);
        }
    }
    outputs.push(Output::NoPie);
    if !program.fixed {
        outputs.push(Output::Pie);
    }
    let mut ways: Vec<Way> = Vec::new();
    for number in 0..count {
        let output = outputs[number % outputs.len()];
        ways.push(Way {
            output,
            options: options(&mut rng, &[OPTIONS, PROGRAM_OPTIONS].concat()),
            library_options: options(&mut rng, &[OPTIONS, LIBRARY_OPTIONS].concat()),
            fold: *rng.pick(&[None, None, None, Some("--icf=all"), Some("--icf=safe")]),
            own: if program.framed { vec![(*rng.pick(FRAMES)).to_owned()] } else { Vec::new() },
            relocatable_first: rng.one_in(6),
        });
    }
    ways
}

fn options(rng: &mut Rng, all: &[&[&str]]) -> Vec<String> {
    let mut chosen = Vec::new();
    for line in all {
        if rng.one_in(5) {
            chosen.extend(rng.pick(line).split(' ').map(String::from));
        }
    }
    chosen
}

/// What steps need to know of the place in which they run.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the dynamic linker in programs.
    pub interpreter: &'static str,
    /// Its file and the C library's, as inputs: the dynamic linker takes `calloc` from there.
    pub libraries: [String; 2],
}

/// The links of a way, one after the other.
pub fn steps(program: &Program, way: &Way, family: Family, place: &Place) -> Vec<Step> {
    let emulation = || vec!["-m".to_owned(), program.machine.emulation().to_owned()];
    let objects = |wanted: &dyn Fn(Home) -> bool| -> Vec<String> {
        let units = program.units.iter().enumerate().filter(|(_, unit)| wanted(unit.home));
        units.map(|(number, _)| format!("unit{number}.o")).collect()
    };
    let mut extra: Vec<String> = Vec::new();
    if let (Some(fold), true) = (way.fold, matches!(family, Family::SframeLd | Family::Lld | Family::Mold)) {
        extra.push(fold.to_owned());
    }
    if family == Family::SframeLd {
        extra.extend(way.own.iter().cloned());
    }
    // Programs are small: threads of the others would cost more than they bring.
    extra.extend(match family {
        Family::Lld => vec!["--threads=1".to_owned()],
        Family::Mold => vec!["--thread-count=1".to_owned(), "--no-fork".to_owned()],
        _ => Vec::new(),
    });
    let mut steps = Vec::new();
    let mut libraries = Vec::new();
    if way.output.is_dynamic() {
        for library in 0..program.libraries {
            let name = format!("lib{library}.so");
            let mut words = emulation();
            words.extend(["-shared", "-soname", &name, "-rpath", "$ORIGIN"].map(String::from));
            words.extend(way.library_options.iter().chain(&extra).cloned());
            if library == 0 && program.versioned {
                words.push("--version-script=versions.map".into());
            }
            words.extend(objects(&|home| home == Home::Library(library)));
            words.push("runtime-library.o".into());
            words.extend(libraries.iter().cloned());
            words.push("--no-as-needed".into());
            words.extend(place.libraries.iter().cloned());
            steps.push(Step { arguments: words, output: name.clone() });
            libraries.push(name);
        }
    }
    let own = objects(&|home| {
        home == Home::Program || !way.output.is_dynamic() && matches!(home, Home::Library(_))
    });
    let mut inputs = vec![way.output.runtime().to_owned(), "main.o".to_owned()];
    if way.relocatable_first {
        let mut words = emulation();
        words.push("-r".into());
        words.extend(own);
        steps.push(Step { arguments: words, output: "joined.o".into() });
        inputs.push("joined.o".into());
    } else {
        inputs.extend(own);
    }
    if program.units.iter().any(|unit| unit.home == Home::Archive) {
        inputs.push("archive.a".into());
    }
    let mut words = emulation();
    match way.output {
        Output::Static => words.push("-static".into()),
        Output::StaticPie => {
            words.extend(["-static", "-pie", "--no-dynamic-linker", "-z", "text"].map(String::from))
        }
        Output::Pie => words.extend(["-pie", "-dynamic-linker", place.interpreter].map(String::from)),
        Output::NoPie => words.extend(["-no-pie", "-dynamic-linker", place.interpreter].map(String::from)),
    }
    if way.output.is_dynamic() {
        words.extend(["-rpath", "$ORIGIN"].map(String::from));
        inputs.extend(libraries);
        inputs.push("--no-as-needed".into());
        inputs.extend(place.libraries.iter().cloned());
    }
    words.extend(way.options.iter().chain(&extra).chain(&program.options).cloned());
    words.extend(inputs);
    steps.push(Step { arguments: words, output: "program".into() });
    steps
}
