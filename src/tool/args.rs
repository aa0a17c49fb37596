//! The command line of `sframe`.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Look at, check and look up SFrame stack-trace sections
///
/// Reads executables, shared libraries, relocatable objects and archives for x86-64, AArch64 and s390x, and `-` for
/// the bytes of a section on standard input. Exit status: 0 if all is well, 1 if there are findings, 2 if an input
/// cannot be used.
#[derive(Parser)]
#[command(name = "sframe", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Print every blob, function and row
    Dump(Dump),
}

/// Print every blob, function and row
#[derive(Args)]
pub struct Dump {
    /// Files to read; `-` is a section on standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print as readelf --sframe does
    #[arg(long, conflicts_with = "json")]
    pub readelf: bool,
    /// Print headers only
    #[arg(long, conflicts_with = "readelf")]
    pub headers: bool,
    /// Print C++ and Rust names as people write them
    #[arg(short = 'C', long)]
    pub demangle: bool,
    /// Print JSON, an array of files
    #[arg(long)]
    pub json: bool,
    /// Address of a section on standard input
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address)]
    pub address: u64,
}

/// Reads an address: hexadecimal with or without `0x`.
pub fn parse_address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|error| format!("expected a hexadecimal address: {error}"))
}
