//! The project's chores: each subcommand is a module.

use clap::{Parser, Subcommand};
use folders::workspace;

mod apt;
mod bench;
mod book;
mod bpf;
mod children;
mod commands;
mod demo;
mod exceptions;
mod folders;
mod fuzz;
mod install;
mod lit;
mod package;
mod peers;
mod prove;
mod records;
mod same_bytes;
mod test;
mod verify_system;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores of sframe-ld")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Link and run a C++ program with per-text frames, and show what the linker did
    Demo(demo::Arguments),
    /// Run all tests, and fetch the tools that they need
    Test(test::Arguments),
    /// Run the tests of lit-tests, with our linker or another
    Lit(lit::Arguments),
    /// Fetch assemblers, readelf and other linkers into a folder of their own
    Peers(peers::Arguments),
    /// Compile the program that unwinds in the kernel, or check that it is up to date
    Bpf(bpf::Arguments),
    /// Make a book of the pages in docs/
    Book(book::Arguments),
    /// Build the archives that programs with an unwind table are linked with
    Exceptions(exceptions::Arguments),
    /// Build and lay out bin/, libexec/ and share/ below a prefix
    Install(install::Arguments),
    /// Make a Debian package, another of debug information, a tarball and a wheel
    Package(package::Arguments),
    /// Link something large, check that it works and record the result
    Prove(prove::Arguments),
    /// Print circles of imports between files, and imports against DESIGN.md's order
    #[command(disable_help_flag = true)]
    Graph {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Show that two builds of the linker make the same bytes from the same inputs
    SameBytes(same_bytes::Arguments),
    /// Verify SFrame derived from every program and library of this Debian system
    VerifySystem(verify_system::Arguments),
    /// Fuzz every target, keep the corpus and record the result
    Fuzz(fuzz::Arguments),
    /// Time sframe-ld against every linker found on the machine
    Bench(bench::Arguments),
    /// Run one command and print what its process tree cost (used by `bench`)
    #[command(hide = true)]
    Measure(bench::measure::Arguments),
}

fn main() -> anyhow::Result<()> {
    match CommandLine::parse().command {
        Command::Demo(arguments) => demo::run(arguments),
        Command::Test(arguments) => test::run(arguments),
        Command::Lit(arguments) => lit::run(&arguments),
        Command::Peers(arguments) => peers::run(arguments),
        Command::Bpf(arguments) => bpf::run(&arguments),
        Command::Book(arguments) => book::run(arguments),
        Command::Exceptions(arguments) => exceptions::run(&arguments),
        Command::Install(arguments) => install::run(arguments),
        Command::Package(arguments) => package::run(&arguments),
        Command::Prove(arguments) => prove::run(&arguments),
        Command::Graph { arguments } => graph(&arguments),
        Command::SameBytes(arguments) => same_bytes::run(arguments),
        Command::VerifySystem(arguments) => verify_system::run(arguments),
        Command::Fuzz(arguments) => fuzz::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Measure(arguments) => bench::measure::run(arguments),
    }
}

/// Runs the program of `crates/imports`.
fn graph(arguments: &[String]) -> anyhow::Result<()> {
    let mut cargo = std::process::Command::new("cargo");
    cargo.current_dir(workspace()).args(["run", "--quiet", "--package", "imports", "--"]).args(arguments);
    anyhow::ensure!(cargo.status()?.success(), "the imports were not shown");
    Ok(())
}
