//! The ways to link a program: the kind of output, options that must not change what the program does, and
//! the steps.

use super::output::Output;
use super::program::{Home, Lto, Program};
use super::rng::Rng;
use super::script::{self, Kind, Script};
use crate::cases::Step;
use crate::machine::Machine;
use crate::peers::Family;
use std::path::Path;

/// A way to link.
#[derive(Clone, Debug)]
pub struct Way {
    /// The kind of output.
    pub output: Output,
    /// Options of the program's link.
    pub options: Vec<String>,
    /// Options for the links of the libraries.
    pub library_options: Vec<String>,
    /// `--icf`, for linkers that have it.
    pub fold: Option<&'static str>,
    /// Options that only this project's linker has.
    pub own: Vec<String>,
    /// Whether a link with `-r` first joins the program's objects.
    pub relocatable_first: bool,
    /// A linker script for the program's link.
    pub script: Option<Script>,
}

impl Way {
    /// Whether the script replaces the linker's own script, or adds to it.
    fn has_sections(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.kind != Kind::Inputs)
    }

    /// Whether a family of linkers can link in this way at all: lld has no plugins, and mold has no scripts
    /// with sections.
    pub fn suits(&self, program: &Program, family: Family) -> bool {
        match family {
            Family::Lld => program.lto != Some(Lto::Slim) || !program.is_optimized(),
            Family::Mold => !self.has_sections(),
            _ => true,
        }
    }

    /// Writes its script into a folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        self.script.as_ref().map_or(Ok(()), |script| std::fs::write(folder.join(&script.file), &script.text))
    }

    /// The parts of the program that are counted.
    pub fn parts(&self, program: &Program) -> Vec<&'static str> {
        let groups = program.has_groups();
        let all = [
            (program.framed, "`.sframe`"),
            (program.framed && groups, "`.sframe` and groups"),
            (program.framed && groups && program.split_frames, "`.sframe` in groups"),
            (program.units.iter().any(|unit| unit.compiled.is_some()), "C"),
            (program.is_optimized(), "LTO"),
            (self.has_sections(), "a script of sections"),
            (self.script.is_some() && !self.has_sections(), "a script of inputs"),
            (program.versioned && self.output.is_dynamic(), "a version script"),
        ];
        all.into_iter().filter(|part| part.0).map(|part| part.1).collect()
    }
}

/// Options for any link; at most one of each line is chosen.
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
/// Options only for links of programs.
const PROGRAM_OPTIONS: &[&[&str]] = &[&["--emit-relocs"], &["--export-dynamic", "-E"], &["--no-undefined"]];
/// Options only for links of libraries.
const LIBRARY_OPTIONS: &[&[&str]] = &[&["-Bsymbolic", "-Bsymbolic-functions"]];
/// Options of this project's linker for `.sframe`; the first ones keep the rows of every input.
const FRAMES: &[&str] =
    &["--sframe=concat", "--sframe-index=compact", "--sframe=merge", "--sframe-index", "--sframe-split"];

/// Several different ways to link a program.
pub fn ways(program: &Program, count: usize) -> Vec<Way> {
    let mut rng = Rng::new(program.seed ^ 0x77);
    let mut outputs = Vec::new();
    if program.joinable {
        outputs.push(Output::Static);
        // s390x has no rcrt1.o, so static programs have fixed addresses there.
        if !program.fixed && program.machine != Machine::S390x {
            outputs.push(Output::StaticPie);
        }
    }
    outputs.push(Output::NoPie);
    if !program.fixed {
        outputs.push(Output::Pie);
    }
    // If a link must keep all rows, rows of dropped functions make it fail, and that is correct.
    let drops = program.framed && program.has_groups() && !program.split_frames;
    let frames = if drops { &FRAMES[2..] } else { FRAMES };
    let mut ways: Vec<Way> = Vec::new();
    for number in 0..count {
        let output = outputs[number % outputs.len()];
        let mut script = script::script(&mut rng, program, output, number);
        // With `--emit-relocs`, the relocations would match the patterns of a layout, too.
        let is_layout = script.as_ref().is_some_and(|script| script.kind == Kind::Layout);
        let program_options = if is_layout { &PROGRAM_OPTIONS[1..] } else { PROGRAM_OPTIONS };
        let has_inputs = script.as_ref().is_some_and(|script| script.kind == Kind::Inputs);
        if let Some(script) = script.as_mut().filter(|_| has_inputs) {
            script.text = script::inputs(&own_objects(program, output), archive(program).as_slice());
        }
        ways.push(Way {
            output,
            options: options(&mut rng, &[OPTIONS, program_options].concat()),
            library_options: options(&mut rng, &[OPTIONS, LIBRARY_OPTIONS].concat()),
            fold: *rng.pick(&[None, None, None, Some("--icf=all"), Some("--icf=safe")]),
            own: if program.framed { vec![(*rng.pick(frames)).to_owned()] } else { Vec::new() },
            relocatable_first: rng.one_in(6) && !drops && !has_inputs && program.lto.is_none(),
            script,
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

/// What the steps need to know about the machine.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the dynamic linker in programs.
    pub interpreter: &'static str,
    /// The files of the dynamic linker and of the C library, as inputs: the dynamic linker takes `calloc`
    /// from there.
    pub libraries: [String; 2],
    /// Arguments for linkers that compile intermediate code with a plugin.
    pub plugin: Vec<String>,
}

/// The steps of a way to link.
pub fn steps(program: &Program, way: &Way, family: Family, place: &Place) -> Vec<Step> {
    let link = Link { program, way, place, extra: extra(program, way, family, place) };
    let mut steps = Vec::new();
    if way.output.is_dynamic() {
        steps.extend((0..program.libraries).map(|library| link.library(library)));
    }
    if way.relocatable_first {
        let mut words = link.emulation();
        words.push("-r".into());
        words.extend(own_objects(program, way.output));
        steps.push(Step { arguments: words, output: JOINED.into() });
    }
    steps.push(link.program());
    steps
}

/// The output of `-r`.
const JOINED: &str = "joined.o";

/// Options for the links of one family only.
fn extra(program: &Program, way: &Way, family: Family, place: &Place) -> Vec<String> {
    let folds = matches!(family, Family::SFrameLd | Family::Lld | Family::Mold);
    let mut extra: Vec<String> = way.fold.filter(|_| folds).into_iter().map(String::from).collect();
    // The other linkers' threads cost more than they gain on small programs.
    let own: &[&str] = match family {
        Family::Lld => &["--threads=1"],
        Family::Mold => &["--thread-count=1", "--no-fork"],
        _ => &[],
    };
    extra.extend(own.iter().copied().map(String::from));
    if family == Family::SFrameLd {
        extra.extend(way.own.iter().cloned());
    }
    if program.is_optimized() && family != Family::Lld {
        extra.extend(place.plugin.iter().cloned());
    }
    extra
}

/// The objects of the units with these homes.
fn objects(program: &Program, wanted: impl Fn(Home) -> bool) -> Vec<String> {
    let units = program.units.iter().enumerate().filter(|(_, unit)| wanted(unit.home));
    units.map(|(number, _)| format!("unit{number}.o")).collect()
}

/// The objects of the program itself. Without a dynamic linker, those of the libraries belong to it.
fn own_objects(program: &Program, output: Output) -> Vec<String> {
    let is_static = !output.is_dynamic();
    objects(program, |home| home == Home::Program || is_static && matches!(home, Home::Library(_)))
}

/// The archive, if there is one.
fn archive(program: &Program) -> Option<String> {
    program.units.iter().any(|unit| unit.home == Home::Archive).then(|| "archive.a".to_owned())
}

/// One way to link a program, with one family.
struct Link<'a> {
    program: &'a Program,
    way: &'a Way,
    place: &'a Place,
    /// Options that only this family has.
    extra: Vec<String>,
}

impl Link<'_> {
    fn emulation(&self) -> Vec<String> {
        vec!["-m".to_owned(), self.program.machine.emulation().to_owned()]
    }

    fn library(&self, library: usize) -> Step {
        let name = format!("lib{library}.so");
        let mut words = self.emulation();
        words.extend(["-shared", "-soname", &name, "-rpath", "$ORIGIN"].map(String::from));
        words.extend(self.way.library_options.iter().chain(&self.extra).cloned());
        if library == 0 && self.program.versioned {
            words.push("--version-script=versions.map".into());
        }
        words.extend(objects(self.program, |home| home == Home::Library(library)));
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
        if let Some(script) = self.way.script.as_ref().filter(|script| script.kind != Kind::Inputs) {
            // The linker's own layout marks the end of the part that becomes read-only; a script here does
            // not.
            words.extend(["-z", "norelro", "-T", &script.file].map(String::from));
        }
        words.extend([output.runtime(), "main.o"].map(String::from));
        match &self.way.script {
            Some(script) if script.kind == Kind::Inputs => words.push(script.file.clone()),
            _ if self.way.relocatable_first => {
                words.extend([JOINED.to_owned()].into_iter().chain(archive(self.program)));
            }
            _ => words.extend(own_objects(self.program, output).into_iter().chain(archive(self.program))),
        }
        if output.is_dynamic() {
            words.extend((0..self.program.libraries).map(|library| format!("lib{library}.so")));
            words.push("--no-as-needed".into());
            words.extend(self.place.libraries.iter().cloned());
        }
        Step { arguments: words, output: "program".into() }
    }
}
