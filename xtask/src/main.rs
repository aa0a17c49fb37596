//! Project chores: one subcommand per module.

use clap::{Parser, Subcommand};

mod bench;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores of sframe-ld")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Time sframe-ld against every linker found on the machine
    Bench(bench::Arguments),
    /// Run one command and print what its process tree cost (used by `bench`)
    #[command(hide = true)]
    Measure(bench::measure::Arguments),
}

fn main() -> anyhow::Result<()> {
    match CommandLine::parse().command {
        Command::Bench(arguments) => bench::run(arguments),
        Command::Measure(arguments) => bench::measure::run(arguments),
    }
}
