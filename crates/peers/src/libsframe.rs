//! GNU libsframe as a judge of blobs: a program in C asks it for rows, and the answers are held against what
//! `sframe-format` reads.
//!
//! A row is asked for in two ways: by its place in the blob, and by an address that it covers. libsframe
//! looks addresses up in sorted blobs only, and in its newest release only where starts count from their own
//! fields.

use crate::tree;
use sframe_format::{
    Abi, Attributes, Base, Blob, Endian, FdeType, Frame, Location, RegisterRule, Row, Rules, Version,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The byte order that libsframe need not change.
const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

/// The bytes before the rows of a function that hold what these have in common (V3).
const ATTRIBUTE_SIZE: usize = 5;

/// Whether functions share no rows and no byte lies between rows, as libsframe counts when it changes the
/// byte order of a blob.
fn rows_fill(blob: &Blob<'_>) -> bool {
    let header = blob.header();
    let attribute = if header.version == Version::V3 { ATTRIBUTE_SIZE } else { 0 };
    let (mut bytes, mut count) = (0, 0);
    for (_, attributes) in blob.functions() {
        let Ok(attributes) = attributes else { return false };
        let mut rows = blob.fres(&attributes);
        count += rows.by_ref().flatten().count();
        bytes += attribute + rows.position() - attributes.rows_offset as usize;
    }
    (bytes, count) == (header.fre_length as usize, header.fre_count as usize)
}

/// An interface of libsframe, by its soname, and the releases of binutils that have it.
struct Interface {
    soname: &'static str,
    binutils: &'static str,
    version: Version,
    is_newest: bool,
}

/// The interfaces in the suites that the tree of tools is made from, but for 2.40, whose accessors know no
/// fixed place of the return address. Each reads the version that its assembler writes; the newest also
/// reads V2.
const INTERFACES: [Interface; 2] = [
    Interface { soname: "libsframe.so.1", binutils: "2.44", version: Version::V2, is_newest: false },
    Interface { soname: "libsframe.so.3", binutils: "2.47", version: Version::V3, is_newest: true },
];

/// libsframe of one release, behind a program that answers questions.
pub struct Libsframe {
    loader: PathBuf,
    libraries: PathBuf,
    program: PathBuf,
    interface: &'static Interface,
}

/// A question about a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The row with this number of the FDE with this number.
    Row(u32, u32),
    /// The row that covers an address.
    Address(u64),
}

impl Libsframe {
    /// libsframe of every release in the tree of tools, the oldest first. The programs are written to the
    /// folder.
    ///
    /// # Errors
    /// A program cannot be compiled.
    pub fn all(folder: &Path) -> Result<Vec<Self>, String> {
        INTERFACES.iter().filter_map(|interface| Self::of(interface, folder).transpose()).collect()
    }

    /// libsframe that reads V3.
    ///
    /// # Errors
    /// The tree of tools has none, or the program cannot be compiled.
    pub fn newest(folder: &Path) -> Result<Self, String> {
        let found = Self::all(folder)?.into_iter().rfind(|it| it.interface.is_newest);
        found.ok_or_else(|| "no libsframe that reads V3 (cargo xtask peers)".into())
    }

    fn of(interface: &'static Interface, folder: &Path) -> Result<Option<Self>, String> {
        let entries = std::fs::read_dir(tree::folder()).into_iter().flatten().flatten();
        let libraries = entries.map(|root| root.path().join("usr/lib/x86_64-linux-gnu"));
        let Some(libraries) = libraries.filter(|path| path.join(interface.soname).is_file()).max() else {
            return Ok(None);
        };
        let program = folder.join(format!("asks-{}", interface.soname));
        let source = program.with_extension("c");
        std::fs::write(&source, include_str!("libsframe.c")).map_err(|error| error.to_string())?;
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-o"]).arg(&program).arg(&source).arg(libraries.join(interface.soname));
        // The library may need a newer C library than the machine's. The tree that it comes from has one.
        gcc.arg("-Wl,--unresolved-symbols=ignore-in-shared-libs");
        gcc.args((!interface.is_newest).then_some("-DBEFORE_ERRATA"));
        let said = gcc.output().map_err(|error| format!("gcc: {error}"))?;
        if !said.status.success() {
            return Err(format!("{gcc:?}: {}", String::from_utf8_lossy(&said.stderr)));
        }
        let places = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
        let root = libraries.ancestors().nth(3).expect("three folders below its root");
        let loader = places.iter().map(|place| root.join(place).join("ld-linux-x86-64.so.2"));
        let loader = loader.into_iter().find(|path| path.exists()).ok_or("no loader beside libsframe")?;
        Ok(Some(Libsframe { loader, libraries, program, interface }))
    }

    /// The release of binutils that it comes with.
    pub fn binutils(&self) -> &'static str {
        self.interface.binutils
    }

    /// Whether this release reads such blobs. Before errata 1, nothing said that starts count from their own
    /// fields, and there was no s390x. A blob of the other byte order must have all bytes in rows of just one
    /// function.
    pub fn reads(&self, blob: &Blob<'_>) -> bool {
        let header = blob.header();
        if header.endian != NATIVE && !rows_fill(blob) {
            return false;
        }
        if self.interface.is_newest {
            return header.version != Version::V1;
        }
        header.version == self.interface.version && !header.is_field_relative() && header.abi != Abi::S390x
    }

    /// Whether this release finds rows of a blob by address.
    pub fn looks_up(&self, blob: &Blob<'_>) -> bool {
        let header = blob.header();
        header.is_sorted() && self.interface.is_newest == header.is_field_relative()
    }

    /// Asks questions about a blob, and returns what differs from our own answers. The folder is for
    /// temporary files.
    ///
    /// # Errors
    /// The program does not end well, with its status and its message: libsframe does not take the blob, or
    /// stops the program.
    pub fn differences(
        &self,
        folder: &Path,
        blob: &Blob<'_>,
        questions: &[Question],
    ) -> Result<Vec<String>, String> {
        let ours: Vec<(FdeType, String)> = questions.iter().map(|question| answer(blob, *question)).collect();
        let asked = questions.iter().zip(&ours);
        let asked = asked.flat_map(|(question, (fde_type, _))| encoded(blob, *question, *fde_type));
        let files = [folder.join("blob"), folder.join("questions")];
        let bytes = blob.data();
        let written = std::fs::write(&files[0], bytes)
            .and_then(|()| std::fs::write(&files[1], asked.collect::<Vec<u8>>()));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = Command::new(&self.loader);
        command.arg("--library-path").arg(&self.libraries).arg(&self.program).args(files);
        let said = command.output().map_err(|error| format!("{}: {error}", self.loader.display()))?;
        if !said.status.success() {
            return Err(format!("{}: {}", said.status, String::from_utf8_lossy(&said.stderr).trim()));
        }
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let theirs: Vec<&str> = text.lines().collect();
        if theirs.len() != questions.len() {
            return Err(format!("{} answers to {} questions", theirs.len(), questions.len()));
        }
        let unlike =
            questions.iter().zip(&ours).zip(theirs).filter(|((_, (_, ours)), theirs)| ours != theirs);
        Ok(unlike.map(|((question, (_, ours)), theirs)| format!("{question:x?}: {ours}, {theirs}")).collect())
    }
}

/// Questions about every row of a blob, by place, and by the addresses of its start, and of the first byte,
/// the last byte and the end of each function.
pub fn every_row(blob: &Blob<'_>, by_address: bool) -> Vec<Question> {
    let mut questions = Vec::new();
    for (fde, attributes) in blob.functions() {
        let Ok(attributes) = attributes else { continue };
        let rows: Vec<Row> = blob.rows(&attributes).map_while(Result::ok).collect();
        questions.extend((0..rows.len()).map(|row| Question::Row(fde.index, row as u32)));
        if by_address && fde.size > 0 {
            let end = fde.address + u64::from(fde.size);
            let starts = rows.iter().map(|row| fde.address + u64::from(row.start));
            questions.extend(starts.map(Question::Address));
            questions.extend([fde.address, end - 1, end].map(Question::Address));
        }
    }
    questions
}

/// A question in the form that the program reads.
fn encoded(blob: &Blob<'_>, question: Question, fde_type: FdeType) -> [u8; 24] {
    let (is_row, place) = match question {
        Question::Row(fde, row) => (1u64, u64::from(fde) << 32 | u64::from(row)),
        Question::Address(address) => (0, address.wrapping_sub(blob.address())),
    };
    let is_flexible = u64::from(fde_type == FdeType::Flexible);
    let mut bytes = [0; 24];
    for (to, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([is_row, is_flexible, place]) {
        *to = number.to_le_bytes();
    }
    bytes
}

/// The line that the program should print, and the type of the FDE.
fn answer(blob: &Blob<'_>, question: Question) -> (FdeType, String) {
    let none = (FdeType::Default, "none".to_owned());
    let (attributes, row) = match question {
        Question::Row(fde, number) => {
            let Some(fde) = blob.fde(fde) else { return none };
            let Ok(attributes) = blob.attributes(&fde) else { return none };
            let Some(Ok(row)) = blob.rows(&attributes).nth(number as usize) else { return none };
            (attributes, row)
        }
        Question::Address(address) => match blob.lookup(address) {
            Ok(Some(found)) => (found.attributes, found.row),
            _ => return none,
        },
    };
    // In V3 this means "outermost", but libsframe leaves that conclusion to its caller.
    if attributes.fre_count == 0 { none } else { (attributes.fde_type, line(blob, &attributes, &row)) }
}

fn line(blob: &Blob<'_>, attributes: &Attributes, row: &Row) -> String {
    let abi = blob.header().abi;
    let Rules::Frame(Frame { cfa, ra, fp, mangled }) = row.rules else {
        return format!("{} undefined", row.start);
    };
    if attributes.fde_type == FdeType::Flexible {
        let fre = blob.fres(attributes).map_while(Result::ok).find(|fre| fre.start == row.start);
        let fre = fre.expect("the row was made from it");
        let words = fre.words.chunks(fre.word_size().into()).map(|word| unsigned(word, blob.header().endian));
        return words.fold(row.start.to_string(), |line, word| format!("{line} {word}"));
    }
    let base = i32::from(cfa.register == abi.stack_pointer());
    let offset = |rule: RegisterRule| match rule {
        RegisterRule::Unchanged => "-".to_owned(),
        // On s390x, V2 encodes a register as an odd offset.
        RegisterRule::Saved(Location { base: Base::Register(register), .. }) => {
            (register << 1 | 1).to_string()
        }
        RegisterRule::Saved(location) => location.offset.to_string(),
    };
    // On s390x, a word of 0 replaces an RA that is not saved, if an FP comes after it.
    let padded = abi == Abi::S390x && ra == RegisterRule::Unchanged && fp != RegisterRule::Unchanged;
    let ra = if padded { "0".to_owned() } else { offset(ra) };
    format!("{} {base} {} {ra} {} {}", row.start, cfa.offset, offset(fp), u8::from(mangled))
}

fn unsigned(word: &[u8], endian: Endian) -> u32 {
    let shift = |value: u32, &byte: &u8| value << 8 | u32::from(byte);
    match endian {
        Endian::Little => word.iter().rev().fold(0, shift),
        Endian::Big => word.iter().fold(0, shift),
    }
}
