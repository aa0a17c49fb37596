//! Samples a command and prints its stacks, one line for each different stack, with the number of samples:
//!
//! ```text
//! cargo run --example record -- python3 script.py
//! ```

use stacks::kernel::Kernel;
use stacks::live::{self, Request, Target};
use stacks::profile::{Names, Profile};
use stacks::session::Settings;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), String> {
    let command: Vec<_> = std::env::args_os().skip(1).collect();
    if command.is_empty() {
        return Err("which command? record COMMAND ARGUMENTS...".into());
    }
    let request = Request::new(Target::Command(command));
    let (mut profile, stop) = (Profile::new(false), AtomicBool::new(false));
    let mut take = |stack: &stacks::session::Stack<'_>| profile.add(stack);
    let recorded = live::record(&request, Settings::default(), None, &stop, &mut |_| {}, &mut take)?;
    let names = Names::new(&profile, &recorded.files, &Kernel::running(), false);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for row in &profile.rows {
        let mut functions: Vec<&str> = profile
            .frames_of(row.stack)
            .flat_map(|frame| names.of(frame).iter().map(|name| &*name.function))
            .collect();
        functions.reverse();
        *counts.entry(functions.join(";")).or_default() += 1;
    }
    for (stack, count) in counts {
        println!("{stack} {count}");
    }
    let statistics = recorded.statistics;
    let rooted: u64 = statistics.ends.iter().filter(|(end, _)| end.is_rooted()).map(|(_, count)| count).sum();
    eprintln!("{} samples, {rooted} of them from the root on", statistics.samples);
    Ok(())
}
