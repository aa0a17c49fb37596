//! The ways to link a shape.

use crate::cases::Step;
use crate::machine::Machine;
use serde::Serialize;

/// A way to link a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In one step.
    Final,
    /// With `--gc-sections`.
    Gc,
    /// `-r`.
    Relocatable,
    /// Both files with `-r`, then a final link of the result.
    Twice,
}

impl Mode {
    /// Every way.
    pub const ALL: [Mode; 4] = [Mode::Final, Mode::Gc, Mode::Relocatable, Mode::Twice];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Final => "final",
            Mode::Gc => "--gc-sections",
            Mode::Relocatable => "-r",
            Mode::Twice => "-r, then final",
        }
    }

    /// The steps of the link.
    pub fn steps(self, machine: Machine) -> Vec<Step> {
        // Not every linker takes the machine from the first input.
        let emulation = ["-m", machine.emulation()];
        let step = |words: &[&str], output: &str| Step {
            arguments: emulation.iter().chain(words).map(|word| (*word).to_owned()).collect(),
            output: output.into(),
        };
        match self {
            Mode::Final => vec![step(&["a.o", "b.o"], "out")],
            Mode::Gc => vec![step(&["--gc-sections", "a.o", "b.o"], "out")],
            Mode::Relocatable => vec![step(&["-r", "a.o", "b.o"], "out.o")],
            Mode::Twice => vec![step(&["-r", "a.o", "b.o"], "both.o"), step(&["both.o"], "out")],
        }
    }
}
