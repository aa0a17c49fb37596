//! The command line of `sframe`.

#![allow(missing_docs, reason = "a group of options has no help of its own")]

use super::open::Input;
use super::rotate::Rotate;
use clap::{ArgGroup, Args, Parser, Subcommand};
use diagnostics::Color;
use sframe_format::Version;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Look at, check and look up SFrame stack-trace sections
///
/// Reads executables, shared libraries, relocatable objects and archives for x86-64, AArch64 and s390x, and
/// `-` for the bytes of a section on standard input. Exit status: 0 if all is well, 1 if there are findings,
/// 2 if an input cannot be used or an output cannot be written.
#[derive(Parser)]
#[command(name = "sframe", version, max_term_width = 100)]
pub struct Arguments {
    /// Colours of messages
    #[arg(long, value_enum, global = true, default_value_t, value_name = "WHEN")]
    pub color: Color,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Print every blob, function and row
    Dump(Dump),
    /// Check the format, and every row against .eh_frame
    Verify(Verify),
    /// Give each text section of an object its own .sframe
    Split(Split),
    /// Run another linker on split inputs
    WrapLd(WrapLd),
    /// Make frames from .eh_frame
    Derive(Derive),
    /// Make one sorted table of all SFrame in a finished file
    Index(Index),
    /// Make a compact table for a finished file
    Table(Table),
    /// Add or replace SFrame in a finished file
    Attach(Attach),
    /// Count sizes, functions and rows, and what sharing saves
    Stat(Stat),
    /// Print the row that holds at an address
    Lookup(Lookup),
    /// Unwind stacks offline, from a core file or from saved registers and memory
    Unwind(Unwind),
    /// Check the table that stands for .eh_frame, or say what one would take
    UnwindTable(UnwindTable),
    /// Unwind the samples of a recording of perf
    Stacks(Stacks),
    /// Sample the stacks of a program that runs
    Record(Record),
    /// Show which functions run now
    Top(Top),
    /// Compare two profiles, function by function
    Diff(Diff),
    /// Write man pages, shell completions, and the script for gdb
    #[command(hide = true)]
    Generate(Generate),
}

/// Write man pages, shell completions, and the script for gdb
#[derive(Args)]
pub struct Generate {
    /// Folder that gets them: the `share` of an installation
    pub folder: PathBuf,
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
    #[command(flatten)]
    pub derivation: Derivation,
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

/// SFrame that is derived from `.eh_frame` in memory
#[derive(Args, Clone, Copy)]
pub struct Derivation {
    /// Derive SFrame from .eh_frame in memory where a file has no SFrame section
    #[arg(long)]
    pub derived: bool,
    /// Derive even where a file has an SFrame section
    #[arg(long = "derived-always", requires = "derived")]
    pub always: bool,
    /// SFrame version to derive
    #[arg(long = "sframe-version", value_name = "VERSION", default_value = "3", value_parser = clap::value_parser!(u8).range(2..=3))]
    version: u8,
}

impl Derivation {
    /// The SFrame version to derive.
    pub fn version(&self) -> Version {
        if self.version == 2 { Version::V2 } else { Version::V3 }
    }
}

impl Derivation {
    /// Whether to derive SFrame for a file.
    pub fn wanted(&self, input: &Input<'_>) -> bool {
        self.derived && (self.always || !input.has_rows())
    }
}

/// Check the table that stands for .eh_frame, or say what one would take
///
/// Every register at every address is compared with what .debug_frame and .eh_frame say. A file without the
/// table gets one in memory.
#[derive(Args)]
pub struct UnwindTable {
    /// Finished files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print JSON, an array of files
    #[arg(long)]
    pub json: bool,
}

/// Count sizes, functions and rows, and what sharing saves
///
/// For many files, also show how large a share of the file size .eh_frame and .sframe take, as a
/// distribution.
#[derive(Args)]
pub struct Stat {
    /// Files to count, or folders whose ELF files are counted; `-` is a section on standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub derivation: Derivation,
    /// Draw the distribution of the shares of file size
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Address of a section on standard input
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address)]
    pub address: u64,
}

/// Unwind stacks offline, from a core file or from saved registers and memory
///
/// With --core, the threads, the stack and the list of mapped files come from a Linux core file; each further
/// FILE replaces the mapped file of the same name. Without --core, registers come from a text file (`rip
/// 0x401000`, a line each) and memory from binary files, and each module is given with the bias that it was
/// loaded at.
#[derive(Args)]
#[command(group = ArgGroup::new("source").required(true).args(["core", "registers"]))]
pub struct Unwind {
    /// Core file
    #[arg(long, value_name = "FILE", conflicts_with = "memory")]
    pub core: Option<PathBuf>,
    /// Folder that contains the mapped files of the core file
    #[arg(long, value_name = "FOLDER", requires = "core")]
    pub sysroot: Option<PathBuf>,
    /// Text file with registers, one per line
    #[arg(long, value_name = "FILE")]
    pub registers: Option<PathBuf>,
    /// Binary file with memory, and the address of its first byte
    #[arg(long, value_name = "FILE@ADDRESS", value_parser = parse_placed)]
    pub memory: Vec<PlacedFile>,
    /// Programs and libraries, each with the number to add to its addresses
    #[arg(value_name = "FILE[@BIAS]", value_parser = parse_placed)]
    pub modules: Vec<PlacedFile>,
    #[command(flatten)]
    pub rows: StackRows,
    #[command(flatten)]
    pub output: StackOutput,
}

/// Unwind the samples of a recording of perf
///
/// perf record --call-graph dwarf takes the registers and a copy of the stack for each sample; perf record -g
/// takes call chains, which are kept. The rows of a file come from its SFrame, and from its .eh_frame where
/// SFrame has none. A sample that does not reach the root of its stack says why. A profile that -o
/// FILE.sframe-profile has written, and the text of perf script, are written again in any form; they have the
/// names that they were made with.
#[derive(Args)]
pub struct Stacks {
    /// Recording, profile or text of perf script; `-` is standard input
    #[arg(value_name = "FILE", default_value = "perf.data")]
    pub recording: PathBuf,
    /// Folder that contains the files of the recording
    #[arg(long, value_name = "FOLDER")]
    pub sysroot: Option<PathBuf>,
    #[command(flatten)]
    pub rows: StackRows,
    #[command(flatten)]
    pub output: StackOutput,
}

/// Sample the stacks of running programs
///
/// The kernel takes the samples; this command unwinds them as they arrive and stores no stacks. Without -o
/// and
/// --html, it writes the page stacks.html, and renames an existing one to stacks.html.old. Ctrl-C ends the
/// recording. If a command is started, its exit status becomes the exit status. Beside -p, -a or --cgroup,
/// the command is not sampled by itself, but the recording ends with it.
#[derive(Args)]
pub struct Record {
    #[command(flatten)]
    pub target: Sampled,
    /// Unwind in the kernel, by a BPF program and compact tables; needs CAP_BPF and Linux 5.17 on x86-64
    ///
    /// It is the default for a command and for -p, if the kernel allows it and no option asks for other
    /// events, waits or copies of a size. Samples that the program cannot unwind are copied and unwound here.
    /// If the kernel does not allow bpf(), a warning says so, and all samples are unwound here.
    #[arg(long, overrides_with = "no_bpf")]
    pub bpf: bool,
    /// Copy the stack of each sample, and unwind it here
    #[arg(long, overrides_with = "bpf")]
    pub no_bpf: bool,
    #[command(flatten)]
    pub rotation: Rotate,
    /// Programs and libraries that are open at a time; 0: any number [default: 4096 with -a and --cgroup]
    #[arg(long, value_name = "NUMBER")]
    pub most_files: Option<u64>,
    #[command(flatten)]
    pub rows: StackRows,
    #[command(flatten)]
    pub output: StackOutput,
}

/// Show which functions run now
///
/// A table in the terminal has the functions with the most samples of each interval: those in which they run
/// themselves, and those in which they or their callees run. q and Ctrl-C end it. If the output is no
/// terminal, a table follows the other.
#[derive(Args)]
pub struct Top {
    #[command(flatten)]
    pub target: Sampled,
    /// Time between tables
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: std::time::Duration,
    #[command(flatten)]
    pub rows: StackRows,
}

/// What to sample, and how
#[derive(Args)]
#[command(group = ArgGroup::new("target").required(true).multiple(true).args(["pid", "all", "cgroup", "command"]))]
pub struct Sampled {
    /// Processes to sample, with their threads and those that they start
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Sample everything that runs on this machine
    #[arg(short, long, conflicts_with_all = ["pid", "cgroup"])]
    pub all: bool,
    /// Sample the programs of a control group, which a folder below /sys/fs/cgroup is
    #[arg(long, value_name = "FOLDER", conflicts_with = "pid")]
    pub cgroup: Option<PathBuf>,
    /// Command to start and sample, with its arguments; all that follows it belongs to it
    #[arg(trailing_var_arg = true)]
    pub command: Vec<OsString>,
    /// Events to sample, by their names in perf list; EVENT/N takes a sample of every Nth [default: processor
    /// time]
    #[arg(short, long, value_name = "EVENT", value_delimiter = ',', value_parser = stacks::live::Choice::parse)]
    pub event: Vec<stacks::live::Choice>,
    /// Sample threads that wait, too: where they wait, and for how many nanoseconds
    #[arg(long)]
    pub off_cpu: bool,
    /// Samples for each second of a processor's time
    #[arg(short = 'F', long, value_name = "HERTZ", default_value = "997", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub frequency: u64,
    /// Let the clock of each processor ask for samples, and drop those of other programs
    ///
    /// So threads and processes are seen that end before a clock of their own would ask for a sample. It is
    /// the default for commands if the kernel allows it (root, CAP_PERFMON).
    #[arg(long, conflicts_with = "per_thread")]
    pub per_processor: bool,
    /// Give each thread a clock of its own, which runs while the thread does; costs other programs nothing
    #[arg(long, conflicts_with_all = ["all", "cgroup"])]
    pub per_thread: bool,
    /// Bytes of the stack to copy for each sample [default: 32768, or less where the kernel gives little
    /// memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_stack_size)]
    pub stack_size: Option<u32>,
    /// End after this time; a command that still runs is asked to end
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<std::time::Duration>,
}

/// Compare two profiles, function by function
///
/// Prints the functions whose share of the samples has changed by more than samples do by chance (two
/// standard errors), the largest change of the function's own share first. -o FILE.html writes a page with a
/// flame graph: what takes more time than before is red, what takes less is blue. Each FILE is a profile that
/// -o FILE.sframe-profile has written, a recording of perf, or the text of perf script.
#[derive(Args)]
pub struct Diff {
    /// The profile before
    pub before: PathBuf,
    /// The profile after
    pub after: PathBuf,
    /// Folder that contains the files of the recordings
    #[arg(long, value_name = "FOLDER")]
    pub sysroot: Option<PathBuf>,
    /// Name inlined functions of recordings, too
    #[arg(long)]
    pub inline: bool,
    /// Show so many functions as text
    #[arg(long, value_name = "NUMBER", default_value = "30")]
    pub top: usize,
    /// Show all functions, also those whose change is no more than chance
    #[arg(long)]
    pub all: bool,
    /// Form of the output [default: what the ending of its name says]
    #[arg(long, value_enum)]
    pub format: Option<DiffForm>,
    /// Write here instead of to standard output: .html, .json, or text
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A form of comparison
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DiffForm {
    /// A table for people
    Text,
    /// All functions with their counts
    Json,
    /// A page with a flame graph in red and blue
    Html,
}

/// How to find the caller of a frame
#[derive(Args)]
pub struct StackRows {
    /// Sources of the rows
    #[arg(long = "rows", value_enum, default_value_t)]
    pub sources: RowSources,
    /// Where a file has no rows, follow frame pointers; wrong in code that keeps none
    #[arg(long)]
    pub frame_pointers: bool,
}

/// Sources of the rows
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RowSources {
    /// SFrame; where it has no row, .eh_frame; where that has none either, the instructions
    #[default]
    All,
    /// SFrame only
    Sframe,
    /// .eh_frame only
    EhFrame,
}

/// What to write
#[derive(Args, Clone)]
pub struct StackOutput {
    /// Form of the output [default: what the ending of its name says]
    #[arg(long, value_enum)]
    pub format: Option<stacks::write::Format>,
    /// Write here instead of to standard output: .html, .sframe-profile to write it again later, .folded,
    /// .json, .speedscope.json, .pb.gz for pprof, .otlp for OpenTelemetry, .data for perf report, .svg, .txt
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a page with a flame graph
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Name inlined functions too, and source lines
    #[arg(long)]
    pub inline: bool,
    /// Print on standard error how many stacks are complete, and why the others are not
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub stats: Option<StatsFormat>,
}

/// A form of statistics
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StatsFormat {
    /// For people
    Text,
    /// JSON
    Json,
}

/// A file and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFile {
    /// The file.
    pub path: PathBuf,
    /// The address, or the number to add to addresses.
    pub bias: Option<u64>,
}

/// Reads `FILE@ADDRESS`. A file name may contain `@` if no address follows it.
fn parse_placed(text: &str) -> Result<PlacedFile, String> {
    if let Some((file, address)) = text.rsplit_once('@')
        && let Ok(address) = parse_address(address)
    {
        return Ok(PlacedFile { path: file.into(), bias: Some(address) });
    }
    Ok(PlacedFile { path: text.into(), bias: None })
}

/// Print the row that holds at an address
#[derive(Args)]
pub struct Lookup {
    /// File to look in; `-` is a section on standard input
    pub file: PathBuf,
    /// Hexadecimal addresses, or symbols or sections with an offset: `main+0x12`
    #[arg(required = true, value_name = "ADDR")]
    pub addresses: Vec<String>,
    #[command(flatten)]
    pub derivation: Derivation,
    /// Print C++ and Rust names as people write them
    #[arg(short = 'C', long)]
    pub demangle: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Address of a section on standard input
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address)]
    pub address: u64,
}

/// Check the format, and every row against .eh_frame
///
/// If the file has .eh_frame, every range of program counters of every function is compared: do both sides
/// give the same CFA, return address and frame pointer? Wrong and malformed frames make the exit status 1.
#[derive(Args)]
pub struct Verify {
    /// Files to verify, or folders whose ELF files are verified; `-` is a section on standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Report code that SFrame does not cover as a finding, too
    #[arg(long)]
    pub complete: bool,
    #[command(flatten)]
    pub derivation: Derivation,
    /// Print all differences, not only the first of each kind
    #[arg(long)]
    pub all: bool,
    /// Print notes: dead and empty functions, functions without a symbol
    #[arg(long)]
    pub notes: bool,
    /// Print a summary for every file, not only where there are findings
    #[arg(short, long)]
    pub verbose: bool,
    /// Print C++ and Rust names as people write them
    #[arg(short = 'C', long)]
    pub demangle: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Address of a section on standard input
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address)]
    pub address: u64,
}

/// Give each text section of an object its own .sframe
///
/// Each part joins the section group of its text section and is linked to it (SHF_LINK_ORDER), which every
/// linker understands. Objects without SFrame, and objects that are split already, stay as they are.
#[derive(Args)]
pub struct Split {
    /// Relocatable objects, rewritten in place
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write here instead; for one input only
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the light linking form: one unit for each text section, in sections .sframe_light
    #[arg(long)]
    pub light: bool,
    /// Say what was done
    #[arg(short, long)]
    pub verbose: bool,
}

/// Run another linker on split inputs
///
/// Splits each object and each archive member whose .sframe covers several text sections, stores the copies
/// in a cache, and gives the linker the same command line with the names of the copies. If the command is
/// called by the name of a linker (ld, ld.bfd, ld.gold, ld.lld, ld.mold), it does this for the program of
/// that name on PATH, or for the one that SFRAME_REAL_LD names. Objects for link-time optimization are left
/// alone.
#[derive(Args)]
pub struct WrapLd {
    /// Folder for the copies [default: $SFRAME_WRAP_CACHE, else the user's cache]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Size of the cache in MiB; above it, copies that nobody used for an hour are removed
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    pub cache_limit: u64,
    /// Write the light linking form (or SFRAME_AS_LIGHT=1)
    #[arg(long)]
    pub light: bool,
    /// Say what is split (or SFRAME_WRAP_VERBOSE=1)
    #[arg(short, long)]
    pub verbose: bool,
    /// The linker, by its path or by a name on PATH
    pub linker: OsString,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// What SFrame to write
#[derive(Args, Clone, Copy)]
pub struct Format {
    /// SFrame version to write
    #[arg(long = "sframe-version", value_name = "VERSION", default_value = "3", value_parser = clap::value_parser!(u8).range(2..=3))]
    version: u8,
    /// Do not let functions share identical rows (they never do in big-endian files)
    #[arg(long)]
    no_share: bool,
}

impl Format {
    /// The options of the writer for an ABI.
    pub fn options(&self, abi: sframe_format::Abi) -> sframe_format::write::Options {
        let options = sframe_format::write::Options::new(abi);
        let version = if self.version == 2 { Version::V2 } else { Version::V3 };
        options.version(version).share(options.share && !self.no_share)
    }
}

/// Make frames from .eh_frame
///
/// A relocatable object gets an .sframe with relocations for each text section, in place or as a new file;
/// SFrame that it had is replaced. For a linked file, only the bytes of the section are written: attach puts
/// them in.
#[derive(Args)]
pub struct Derive {
    /// File with .eh_frame
    pub file: PathBuf,
    /// Write here; needed for linked files
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub format: Format,
    /// Address of the section in the linked file
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address)]
    pub address: u64,
    /// List the functions that have no SFrame form
    #[arg(short, long)]
    pub verbose: bool,
}

/// How to change a finished file
#[derive(Args)]
pub struct Change {
    /// Executable or shared library, rewritten in place
    pub file: PathBuf,
    /// Write here instead
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub format: Format,
    /// Name of the section [default: that of the file's SFrame section, else .sframe]; .sframe_compact is a
    /// compact table, without a program header of its own
    #[arg(long, value_name = "NAME", value_parser = [".sframe", ".sframe_idx", ".sframe_compact"])]
    pub name: Option<String>,
    /// What to do with the build-id
    #[arg(long, value_enum, default_value_t)]
    pub build_id: BuildId,
    /// List the functions that were left out
    #[arg(short, long)]
    pub verbose: bool,
}

impl Change {
    /// The file that receives the result.
    pub fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(&self.file)
    }
}

/// What to do with the build-id
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum BuildId {
    /// Keep it: debug information and caches still find the file
    #[default]
    Keep,
    /// Compute it anew from the changed file
    Recompute,
}

/// Make one sorted table of all SFrame in a finished file
///
/// All blobs of all SFrame sections, whatever their versions, become one sorted blob, which replaces the
/// section.
#[derive(Args)]
pub struct Index {
    #[command(flatten)]
    pub change: Change,
    /// Write the bytes of the section only, for this address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, requires = "output")]
    pub raw: Option<u64>,
}

/// Make a compact table for a finished file
///
/// The table says the same as the file's SFrame, or as its .eh_frame if it has no SFrame, in less room than
/// .eh_frame: a sixth for large C++ files, a half for a typical small file. crates/sframe-format/COMPACT.md
/// specifies it. The table is a file of its own; attach --name .sframe_compact puts one into the program.
#[derive(Args)]
pub struct Table {
    /// Executable or shared library
    pub file: PathBuf,
    /// Write here [default: FILE's name with .sframe_compact appended, in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Take .eh_frame even where the file has SFrame
    #[arg(long)]
    pub eh_frame: bool,
    /// Address of the table, in the address space of the file
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address)]
    pub address: u64,
    /// List the functions that were left out
    #[arg(short, long)]
    pub verbose: bool,
}

/// Add or replace SFrame in a finished file
///
/// The section is derived from .eh_frame unless one is given. It goes where the section was that it replaces,
/// or into a load segment of its own at the end. The program header PT_GNU_SFRAME covers it. Strip before,
/// not afterwards: GNU strip breaks files whose program headers have moved.
#[derive(Args)]
pub struct Attach {
    #[command(flatten)]
    pub change: Change,
    /// Take the functions from this file: the bytes of a section, as derive writes them
    #[arg(long, value_name = "FILE")]
    pub section: Option<PathBuf>,
    /// Address that those bytes were made for
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address, requires = "section")]
    pub address: u64,
}

/// Reads the number of bytes of the stack to copy. The kernel copies a multiple of 8 that fits a record.
fn parse_stack_size(text: &str) -> Result<u32, String> {
    let size: u32 = text.parse().map_err(|error| format!("expected a number of bytes: {error}"))?;
    if (8..=65_528).contains(&size) && size.is_multiple_of(8) {
        Ok(size)
    } else {
        Err("expected a multiple of 8 from 8 to 65528".into())
    }
}

fn parse_seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("expected a number of seconds: {error}"))?;
    std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Reads the time between tables.
fn parse_interval(text: &str) -> Result<std::time::Duration, String> {
    let interval = parse_seconds(text)?;
    if (0.05..=3600.0).contains(&interval.as_secs_f64()) {
        Ok(interval)
    } else {
        Err("expected 0.05 to 3600 seconds".into())
    }
}

/// Reads an address: hexadecimal, with or without `0x`.
pub fn parse_address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|error| format!("expected a hexadecimal address: {error}"))
}
