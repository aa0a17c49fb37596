//! Random programs: a few of them, linked by this project's linker and every other that is here, do what the majority
//! says. `cargo xtask prove random` runs thousands.

use ld_compare::machine::Machine;
use ld_compare::peers::Wanted;
use ld_compare::random::{self, Choice, assembly, generate};
use std::path::Path;

/// Programs of the machine that the tests run on, and of each that needs an emulator.
const COUNTS: (u64, u64) = (30, 5);

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

#[test]
fn the_same_seed_gives_the_same_program() {
    for machine in Machine::ALL {
        for seed in 1..40 {
            let [one, other] = [(); 2].map(|()| generate::generate(machine, seed));
            assert_eq!(assembly::units(&one), assembly::units(&other));
            assert_ne!(assembly::units(&one), assembly::units(&generate::generate(machine, seed + 1)));
            let acts: usize = one.units.iter().map(|unit| unit.acts.len()).sum();
            assert!(acts > 0, "{} {seed} notes nothing", machine.name());
        }
    }
}
