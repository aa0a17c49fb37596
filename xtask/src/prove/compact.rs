//! Proves compact tables: well-known system files, and links of this project for three machines, each get a
//! compact table and a V3 section. At every address, both must give the same rules, and the rules of
//! `.eh_frame`. The sizes are compared with the stack deltas that OpenTelemetry's profiler keeps for a file.
//!
//! To look up every address would take too long. But rules are constant between two boundaries, which are the
//! starts and ends of rows in either table. So look-ups at the first and the last address between two
//! boundaries answer for all addresses between them. Rows that repeat are looked up address by address.

use super::proof::Proof;
use super::system_files::{self, FILES};
use super::tools::write_project;
use crate::commands::output;
use crate::peers;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection};
use sframe_format::compact::SECTION_NAME;
use sframe_format::{CompactTable, PcType, Section, SectionIndex, UnwindRules};
use std::path::Path;
use std::process::Command;

pub mod stack_deltas;

/// The most that all compact tables may take, as a share of `.eh_frame` with its header, and as a share of
/// the stack deltas.
const OF_FRAMES: f64 = 0.30;
const OF_DELTAS: f64 = 0.75;
/// The same share of the stack deltas, for a single file.
const OF_DELTAS_EACH: f64 = 0.85;
/// The machines of this project's own links, by the names of the peers' tools.
const TRIPLES: [&str; 3] = ["x86_64-linux-gnu", "aarch64-linux-gnu", "s390x-linux-gnu"];
const KINDS: [&str; 4] = ["-static", "-pie", "-no-pie", "-shared"];
/// The number of objects in the project that is linked.
const OBJECTS: usize = 60;

pub fn compact(proof: &mut Proof, sframe: &Path) -> Result<()> {
    proof.note("## System files\n")?;
    heading(proof)?;
    let mut total = Sizes::default();
    let mut missing = Vec::new();
    let mut above = Vec::new();
    for (name, parts) in FILES {
        let Some(path) = system_files::find(parts)? else {
            missing.push(name);
            continue;
        };
        let sizes = prove_file(proof, sframe, &path)?;
        row(proof, name, &sizes)?;
        if sizes.of_deltas() > OF_DELTAS_EACH {
            above.push(name);
        }
        total.add(&sizes);
    }
    row(proof, "all", &total)?;
    explain(proof, &missing)?;
    proof.note("\n## Own links\n")?;
    heading(proof)?;
    write_project(&proof.folder, OBJECTS)?;
    for triple in TRIPLES {
        own_links(proof, sframe, triple)?;
    }
    ensure!(total.of_frames() <= OF_FRAMES, "{:.3} of .eh_frame", total.of_frames());
    ensure!(total.of_deltas() <= OF_DELTAS, "{:.3} of stack deltas", total.of_deltas());
    ensure!(above.is_empty(), "more than {OF_DELTAS_EACH} of stack deltas: {above:?}");
    Ok(())
}

/// The sizes of the tables of a file, in bytes.
#[derive(Default)]
struct Sizes {
    functions: u64,
    frames: u64,
    v3: u64,
    compact: u64,
    /// `None` for machines that the profiler does not support.
    deltas: Option<stack_deltas::Sizes>,
    looked_up: u64,
}

impl Sizes {
    fn add(&mut self, other: &Self) {
        self.functions += other.functions;
        self.frames += other.frames;
        self.v3 += other.v3;
        self.compact += other.compact;
        self.looked_up += other.looked_up;
        if let Some(deltas) = other.deltas {
            let sum = self.deltas.get_or_insert_default();
            sum.used += deltas.used;
            sum.slack += deltas.slack;
        }
    }

    fn of_frames(&self) -> f64 {
        self.compact as f64 / self.frames as f64
    }

    fn of_deltas(&self) -> f64 {
        self.deltas.map_or(0.0, |deltas| self.compact as f64 / deltas.used as f64)
    }
}

fn heading(proof: &mut Proof) -> Result<()> {
    proof.note(
        "| file | functions | `.eh_frame` + header | V3 | stack deltas | slack of their maps | compact | of `.eh_frame` | \
         of stack deltas | addresses looked up |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    )
}

fn row(proof: &mut Proof, name: &str, sizes: &Sizes) -> Result<()> {
    let Sizes { functions, frames, v3, compact, looked_up, .. } = sizes;
    let (used, slack, share) = sizes.deltas.map_or_else(
        || ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        |it| (it.used.to_string(), it.slack.to_string(), format!("{:.3}", sizes.of_deltas())),
    );
    proof.note(format!(
        "| {name} | {functions} | {frames} | {v3} | {used} | {slack} | {compact} | {:.3} | {share} | {looked_up} |",
        sizes.of_frames()
    ))
}

fn explain(proof: &mut Proof, missing: &[&str]) -> Result<()> {
    if !missing.is_empty() {
        proof.note(format!("\nNot on this machine: {}.", missing.join("; ")))?;
    }
    proof.note(
        "\nOf each file, `sframe verify` finds no difference between the compact table and `.eh_frame`, and at every address \
         the compact table and the V3 section give the same rules. Stack deltas are computed from the same rows as \
         OpenTelemetry's profiler loads them: 4 bytes for a delta, where pairs that its merge opcodes join count once and gaps of \
         15 bytes or less none; 24 bytes for each page of 64 KiB; 12 bytes for each different rule of the file. The slack is that of \
         its maps' sizes, powers of two, and of the kernel's rounding of 4 bytes to 8.",
    )
}

/// Gives a file a compact table and a copy of it a V3 section. Compares both with call frame information and
/// with each other.
fn prove_file(proof: &Proof, sframe: &Path, path: &Path) -> Result<Sizes> {
    let original = path.display().to_string();
    let mut made = Vec::new();
    for name in [SECTION_NAME, ".sframe"] {
        let file = proof.folder.join(format!("with{name}"));
        let text = file.display().to_string();
        proof.tool(sframe, &["attach", "--name", name, "-o", &text, &original])?;
        verify(proof, sframe, &text)?;
        made.push(file);
    }
    compare(&made[0], &made[1]).with_context(|| original)
}

fn verify(proof: &Proof, sframe: &Path, file: &str) -> Result<()> {
    let said = proof.tool(sframe, &["verify", file])?;
    ensure!(said.contains(" 0 errors") && said.contains(" 0 wrong"), "{said}");
    Ok(())
}

/// A section of a file, with its address before it; empty if there is none.
fn section(file: &object::File<'_>, name: &str) -> Result<(u64, Vec<u8>)> {
    let Some(section) = file.section_by_name(name) else { return Ok((0, Vec::new())) };
    Ok((section.address(), section.data()?.to_vec()))
}

/// Compares the compact table of a file with the V3 section of a file that has the same code.
fn compare(with_table: &Path, with_v3: &Path) -> Result<Sizes> {
    let malformed = |error: sframe_format::Error| anyhow::anyhow!("{error}");
    let (first, second) = (std::fs::read(with_table)?, std::fs::read(with_v3)?);
    let (file, second) = (object::File::parse(&*first)?, object::File::parse(&*second)?);
    let (address, bytes) = section(&file, SECTION_NAME)?;
    let name = if second.section_by_name(".sframe_idx").is_some() { ".sframe_idx" } else { ".sframe" };
    let (v3_address, v3) = section(&second, name)?;
    let table = CompactTable::parse(&bytes[..], address).map_err(malformed)?;
    table.check().map_err(malformed)?;
    let index = SectionIndex::new(&v3[..], v3_address);
    let (functions, boundaries) = boundaries(&table, &Section::new(&v3, v3_address))?;
    ensure!(functions > 0, "no functions");
    let mut looked_up = 0;
    for pair in boundaries.windows(2) {
        for pc in [pair[0], pair[1] - 1] {
            let found = table.lookup(pc).map_err(malformed)?.map(|found| found.rules);
            let expected = index.lookup(pc).map_err(malformed)?.map(|found| UnwindRules {
                abi: found.abi,
                signal: found.is_signal(),
                rules: found.row.rules,
            });
            ensure!(found == expected, "at {pc:#x} the compact table has {found:?}, V3 {expected:?}");
            looked_up += 1;
        }
    }
    let size = |name: &str| section(&file, name).map(|(_, data)| data.len() as u64);
    let deltas = (file.architecture() != object::Architecture::S390x)
        .then(|| stack_deltas::sizes(&table))
        .transpose()?;
    let frames = size(".eh_frame")? + size(".eh_frame_hdr")?;
    let (v3, compact) = (v3.len() as u64, u64::from(table.header().length));
    Ok(Sizes { functions, frames, v3, compact, deltas, looked_up })
}

/// The number of functions in V3, and in order every address at which the rules of either table may change.
fn boundaries(table: &CompactTable<&[u8]>, v3: &Section<'_>) -> Result<(u64, Vec<u64>)> {
    let malformed = |error: sframe_format::Error| anyhow::anyhow!("{error}");
    let mut all = Vec::new();
    let mut functions = 0;
    for piece in table.pieces() {
        let end = piece.address + u64::from(piece.size().map_err(malformed)?);
        all.extend([piece.address, end, end + 1]);
        if piece.repeat_size().is_some() {
            all.extend(piece.address..end);
        }
        for row in piece.rows() {
            all.push(piece.address + u64::from(row.map_err(malformed)?.start));
        }
    }
    for blob in v3.blobs() {
        for fde in blob.fdes() {
            functions += 1;
            let end = fde.address + u64::from(fde.size);
            all.extend([fde.address, end]);
            let attributes = blob.attributes(&fde).map_err(malformed)?;
            if attributes.pc_type == PcType::Mask {
                all.extend(fde.address..end);
            }
            for row in blob.rows(&attributes) {
                all.push(fde.address + u64::from(row.map_err(malformed)?.start));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok((functions, all))
}

/// Links the project as every kind of output for a machine: with a compact table, and with an index of the
/// same rows.
fn own_links(proof: &mut Proof, sframe: &Path, triple: &str) -> Result<()> {
    let own = triple.starts_with("x86_64");
    let driver = if own { "g++".into() } else { peers::program(&format!("{triple}-g++"))? };
    let folder = format!("objects-{triple}");
    let makefile = "objects:=$(patsubst %.cc,$(OUT)/%.o,$(wildcard *.cc))\nall: $(objects)\n\
        $(OUT)/%.o: %.cc project.h\n\t$(CXX) -O2 -fPIC -ffunction-sections -c -o $@ $<\n";
    std::fs::write(proof.folder.join("compact.mk"), makefile)?;
    std::fs::create_dir_all(proof.folder.join(&folder))?;
    let mut command = Command::new(peers::program("make")?);
    command.current_dir(&proof.folder).args(["-j2", "-s", "-f", "compact.mk"]);
    command.arg(format!("OUT={folder}")).arg(format!("CXX={}", driver.display()));
    output(&mut command)?;
    let objects: Vec<String> =
        super::tools::objects(OBJECTS).map(|name| format!("{folder}/{name}")).collect();
    for kind in KINDS {
        let mut made = Vec::new();
        for (index, out) in [("compact", "with-table"), ("v3", "with-v3")] {
            let mut command = Command::new(&driver);
            command.current_dir(&proof.folder).arg(kind).arg(format!("-B{}", proof.prefix.display()));
            // Code lies on its own pages, so that the program header that only V3 has does not move it.
            let options = format!("-Wl,--sframe-index={index},--sframe-from-eh-frame=all,-z,separate-code");
            output(command.args(["-o", out, &options]).args(&objects))?;
            verify(proof, sframe, out)?;
            made.push(proof.folder.join(out));
        }
        // Tables come after the code, so the code has the same addresses in both files.
        let sizes = compare(&made[0], &made[1]).with_context(|| format!("{triple} {kind}"))?;
        row(proof, &format!("{triple} {kind}"), &sizes)?;
    }
    Ok(())
}
