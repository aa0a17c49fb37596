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
    /// The file of the runtime for this kind of output.
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

/// Options of any link; at most one of each line is chosen.
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
/// Options of programs' links only.
const PROGRAM_OPTIONS: &[&[&str]] = &[&["--export-dynamic", "-E"], &["--emit-relocs"], &["--no-undefined"]];
/// Options of libraries' links only.
const LIBRARY_OPTIONS: &[&[&str]] = &[&["-Bsymbolic", "-Bsymbolic-functions"]];
/// Options of this project's linker for `.sframe`.
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

/// Facts about the machine that steps need.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the dynamic linker in programs.
    pub interpreter: &'static str,
    /// Its file and the C library's, as inputs: the dynamic linker takes `calloc` from there.
    pub libraries: [String; 2],
}

/// The links of a way, one after the other.
pub fn steps(program: &Program, way: &Way, family: Family, place: &Place) -> Vec<Step> {
    let link = Link { program, way, place, extra: extra(way, family) };
    let mut steps = Vec::new();
    if way.output.is_dynamic() {
        steps.extend((0..program.libraries).map(|library| link.library(library)));
    }
    if way.relocatable_first {
        let mut words = link.emulation();
        words.push("-r".into());
        words.extend(link.own_objects());
        steps.push(Step { arguments: words, output: JOINED.into() });
    }
    steps.push(link.program());
    steps
}

/// The output of `-r`.
const JOINED: &str = "joined.o";

/// Options of one family's links only.
fn extra(way: &Way, family: Family) -> Vec<String> {
    let folds = matches!(family, Family::SframeLd | Family::Lld | Family::Mold);
    let mut extra: Vec<String> = way.fold.filter(|_| folds).into_iter().map(String::from).collect();
    // For small programs, threads of the other linkers cost more than they gain.
    let own: &[&str] = match family {
        Family::Lld => &["--threads=1"],
        Family::Mold => &["--thread-count=1", "--no-fork"],
        _ => &[],
    };
    extra.extend(own.iter().copied().map(String::from));
    if family == Family::SframeLd {
        extra.extend(way.own.iter().cloned());
    }
    extra
}

/// A way to link a program, by one family.
struct Link<'a> {
    program: &'a Program,
    way: &'a Way,
    place: &'a Place,
    /// Options that this family alone has.
    extra: Vec<String>,
}

impl Link<'_> {
    fn emulation(&self) -> Vec<String> {
        vec!["-m".to_owned(), self.program.machine.emulation().to_owned()]
    }

    /// The objects of units at these homes.
    fn objects(&self, wanted: impl Fn(Home) -> bool) -> Vec<String> {
        let units = self.program.units.iter().enumerate().filter(|(_, unit)| wanted(unit.home));
        units.map(|(number, _)| format!("unit{number}.o")).collect()
    }

    /// The objects of the program itself: without a dynamic linker, those of the libraries too.
    fn own_objects(&self) -> Vec<String> {
        let is_static = !self.way.output.is_dynamic();
        self.objects(|home| home == Home::Program || is_static && matches!(home, Home::Library(_)))
    }

    fn library(&self, library: usize) -> Step {
        let name = format!("lib{library}.so");
        let mut words = self.emulation();
        words.extend(["-shared", "-soname", &name, "-rpath", "$ORIGIN"].map(String::from));
        words.extend(self.way.library_options.iter().chain(&self.extra).cloned());
        if library == 0 && self.program.versioned {
            words.push("--version-script=versions.map".into());
        }
        words.extend(self.objects(|home| home == Home::Library(library)));
        words.push("runtime-library.o".into());
        words.extend((0..library).map(|earlier| format!("lib{earlier}.so")));
        words.push("--no-as-needed".into());
        words.extend(self.place.libraries.iter().cloned());
        Step { arguments: words, output: name }
    }

    fn program(&self) -> Step {
        let output = self.way.output;
        let mut words = self.emulation();
        let mode: &[&str] = match output {
            Output::Static => &["-static"],
            Output::StaticPie => &["-static", "-pie", "--no-dynamic-linker", "-z", "text"],
            Output::Pie => &["-pie", "-dynamic-linker", self.place.interpreter],
            Output::NoPie => &["-no-pie", "-dynamic-linker", self.place.interpreter],
        };
        words.extend(mode.iter().copied().map(String::from));
        if output.is_dynamic() {
            words.extend(["-rpath", "$ORIGIN"].map(String::from));
        }
        words.extend(self.way.options.iter().chain(&self.extra).chain(&self.program.options).cloned());
        words.extend([output.runtime(), "main.o"].map(String::from));
        if self.way.relocatable_first {
            words.push(JOINED.into());
        } else {
            words.extend(self.own_objects());
        }
        if self.program.units.iter().any(|unit| unit.home == Home::Archive) {
            words.push("archive.a".into());
        }
        if output.is_dynamic() {
            words.extend((0..self.program.libraries).map(|library| format!("lib{library}.so")));
            words.push("--no-as-needed".into());
            words.extend(self.place.libraries.iter().cloned());
        }
        Step { arguments: words, output: "program".into() }
    }
}
