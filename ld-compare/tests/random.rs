//! Links a few random programs with this project's linker and with all others on this machine. They must do
//! what the majority says. `cargo xtask prove random` runs thousands.

use ld_compare::machine::Machine;
use ld_compare::peers::Wanted;
use ld_compare::random::program::{Lto, Program};
use ld_compare::random::{self, Choice, assembly, c, generate, link};
use std::collections::BTreeSet;
use std::path::Path;

/// The number of programs for the machine that runs the tests, and for each machine that needs an emulator.
const COUNTS: (u64, u64) = (30, 10);

fn choice(machine: Machine, count: u64) -> Choice {
    Choice {
        machine,
        seed: 1,
        count,
        ways: 5,
        jobs: 2,
        keep: None,
        keep_all: false,
        sframe: None,
        json: None,
    }
}

#[test]
fn random_programs_do_what_the_majority_of_linkers_says() {
    let wanted = Wanted { linkers: Vec::new(), peers: peers::tree::folder() };
    let skip = |machine: Machine, why: &str| {
        let test = format!("random programs for {}", machine.name());
        peers::tree::skip(Path::new(env!("CARGO_TARGET_TMPDIR")), &test, why);
    };
    for machine in Machine::ALL {
        let count = if Machine::native() == Some(machine) { COUNTS.0 } else { COUNTS.1 };
        let bench = random::bench::Bench::new(machine, &wanted);
        if let Some(why) = bench.as_ref().err().map(ToString::to_string) {
            skip(machine, &why);
            continue;
        }
        if bench.is_ok_and(|bench| bench.linkers.len() < 3) {
            skip(machine, "no majority of others here");
            continue;
        }
        let tally = random::run(&choice(machine, count), &wanted, &|text| eprintln!("{text}")).unwrap();
        assert_eq!(tally.programs, count, "{}", tally.summary());
        let open: Vec<String> = tally.open().map(random::tally::Finding::text).collect();
        assert!(open.is_empty(), "{}\n{}", open.join("\n"), tally.summary());
        assert!((tally.agreed + tally.others) * 2 > count, "{}", tally.summary());
    }
}

/// The sources of all units, in assembly or C.
fn texts(program: &Program) -> Vec<String> {
    let text = |(number, unit): (usize, &random::program::Unit)| match unit.compiled {
        Some(_) => c::unit(program, number),
        None => assembly::unit(program, number),
    };
    program.units.iter().enumerate().map(text).collect()
}

#[test]
fn every_part_occurs_on_every_machine() {
    for machine in Machine::ALL {
        let mut parts = BTreeSet::new();
        let mut versions = BTreeSet::new();
        for program in (1..200).map(|seed| generate::generate(machine, seed)) {
            link::ways(&program, 5).iter().for_each(|way| parts.extend(way.parts(&program)));
            let version_kind: String = program.versions.chars().filter(|c| "{}*[\"".contains(*c)).collect();
            versions.insert(version_kind);
            let is_optimized =
                program.units.iter().any(|unit| unit.compiled.as_ref().is_some_and(|it| it.lto));
            assert_eq!(program.is_optimized(), is_optimized);
            assert!(!is_optimized || matches!(program.lto, Some(Lto::Slim | Lto::Fat)));
        }
        assert_eq!(parts.contains("LTO"), machine == Machine::X86_64, "{parts:?}");
        for part in [
            "`.sframe`",
            "`.sframe` and groups",
            "`.sframe` in groups",
            "C",
            "a script of sections",
            "a script of inputs",
            "a version script",
        ] {
            assert!(parts.contains(part), "{}: no {part}", machine.name());
        }
        assert!(versions.len() > 5, "{versions:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_program() {
    for machine in Machine::ALL {
        for seed in 1..40 {
            let [one, other] = [(); 2].map(|()| generate::generate(machine, seed));
            assert_eq!(texts(&one), texts(&other));
            assert_ne!(texts(&one), texts(&generate::generate(machine, seed + 1)));
            let acts: usize = one.units.iter().map(|unit| unit.acts.len()).sum();
            assert!(acts > 0, "{} {seed} notes nothing", machine.name());
        }
    }
}
