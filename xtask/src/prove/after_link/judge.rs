//! What still holds in a file after a tool has changed it: the program does what it did, its walks find as
//! many frames by the table as before, every row is true, and the program header leads to the section.

use super::forms::Form;
use anyhow::{Context, Result};
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

/// What a program that ends before it says so would hang in.
const LIMIT: &str = "20";

/// What a file showed: that of the linker's output is what others are held against.
pub struct Shown {
    /// What the program printed, if it ended well.
    program: Result<String, String>,
    /// What `sframe` says of the rows, or what is wrong with them.
    rows: Result<String, String>,
    places: Places,
}

/// Where the table of a file is.
#[derive(PartialEq, Eq)]
struct Places {
    has_sections: bool,
    section: Option<(u64, u64, u64)>,
    segment: Option<(u64, u64, u64)>,
    /// Whether a loaded segment has the bytes at that address.
    loaded: bool,
}

/// What no longer holds, each as a word of the record's legend.
pub type Broken = Vec<&'static str>;

impl Shown {
    /// Looks at a file.
    pub fn of(file: &Path, form: &Form, sframe: &Path, emulator: &[String]) -> Result<Self> {
        let places = places(file, form)?;
        let rows = rows(file, form, sframe, places.has_sections)?;
        Ok(Shown { program: run(file, emulator), rows, places })
    }

    /// Whether a file of the linker itself is as it should be.
    pub fn first_problem(&self, form: &Form) -> Option<String> {
        let own = |what: &Result<String, String>| what.as_ref().err().cloned();
        let missing = (self.places.section.is_none()).then(|| "no section".to_owned());
        let apart = (!self.leads(form)).then(|| "the program header does not lead to the section".to_owned());
        own(&self.program).or_else(|| own(&self.rows)).or(missing).or(apart)
    }

    /// What does not hold that held in the file before.
    pub fn broken(&self, before: &Shown, form: &Form) -> Broken {
        let mut broken = Vec::new();
        match &self.program {
            Err(_) => broken.push("fails"),
            Ok(printed) if Ok(printed) != before.program.as_ref() => broken.push("other walks"),
            Ok(_) => {}
        }
        let Places { has_sections, section, segment, .. } = self.places;
        if section.is_none() && segment.is_none() {
            broken.push("no table");
            return broken;
        }
        if self.rows.is_err() {
            broken.push("wrong rows");
        } else if self.rows.as_ref().ok() != before.rows.as_ref().ok() {
            broken.push("other rows");
        }
        if form.segment.is_some() && segment.is_none() {
            broken.push("no segment");
        } else if !self.leads(form) {
            broken.push("segment elsewhere");
        }
        if has_sections && section.is_none() {
            broken.push("no section");
        }
        broken
    }

    /// Whether a new table is true, whatever the old one was.
    pub fn is_healed(&self, form: &Form) -> bool {
        let ends_well = self.program.as_ref().is_ok_and(|printed| printed.ends_with("\nall true\n"));
        ends_well
            && self.rows.is_ok()
            && self.leads(form)
            && self.places.segment.is_some() == form.segment.is_some()
    }

    /// Whether the program header, if the form has one, is loaded and leads to the section, if there is one.
    fn leads(&self, form: &Form) -> bool {
        let Places { section, segment, loaded, .. } = self.places;
        let same = section.is_none() || section == segment;
        form.segment.is_none() || segment.is_none() || (same && loaded)
    }

    /// All of it, for those who look for a reason.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in [&self.program, &self.rows] {
            let (Ok(said) | Err(said)) = part;
            let _ = writeln!(text, "    {}", said.trim_end().replace('\n', "\n    "));
        }
        let Places { section, segment, loaded, .. } = self.places;
        let _ = writeln!(text, "    section {section:x?}, segment {segment:x?}, loaded: {loaded}");
        text
    }
}

/// Runs a program; what it printed, or how it ended.
fn run(file: &Path, emulator: &[String]) -> Result<String, String> {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).args(emulator).arg(file);
    let Output { status, stdout, stderr } = command.output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        return Ok(printed);
    }
    Err(format!("{status}\n{printed}{}", String::from_utf8_lossy(&stderr)))
}

/// What `sframe verify` says about the rows of a file and about the frames beside them, without the file's
/// name, or what any check found.
fn rows(file: &Path, form: &Form, sframe: &Path, has_sections: bool) -> Result<Result<String, String>> {
    let mut told = String::new();
    let mut wrong = String::new();
    // `unwind-table` compares with `.debug_frame`, which only a section header leads to.
    for command in form.checks.iter().filter(|command| has_sections || **command != "unwind-table") {
        let output = Command::new(sframe).arg(command).arg(file).output().context("cannot start sframe")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            wrong += &said;
            wrong += &String::from_utf8_lossy(&output.stderr);
        }
        // The other lines say what has no rows, which depends on what a tool adds.
        let telling = |line: &&str| line.contains("SFrame V") || line.starts_with("  .eh_frame:");
        if *command == "verify" {
            told = said.lines().filter(telling).collect::<Vec<_>>().join("\n");
        }
    }
    let plain = |text: &str| text.replace(&file.display().to_string(), "FILE");
    Ok(if wrong.is_empty() { Ok(plain(&told)) } else { Err(plain(&wrong)) })
}

/// Where the table is, by the section headers and by the program headers.
fn places(file: &Path, form: &Form) -> Result<Places> {
    let bytes = std::fs::read(file)?;
    let none = Places { has_sections: false, section: None, segment: None, loaded: false };
    let Ok(header) = FileHeader64::<Endianness>::parse(&*bytes) else { return Ok(none) };
    let (Ok(endian), data) = (header.endian(), &*bytes) else { return Ok(none) };
    let segments = header.program_headers(endian, data).unwrap_or_default();
    let wanted = |kind| segments.iter().find(move |segment| Some(segment.p_type(endian)) == kind);
    let segment = wanted(form.segment)
        .map(|found| (found.p_vaddr(endian), found.p_offset(endian), found.p_filesz(endian)));
    let loaded = segment.is_some_and(|(address, offset, size)| {
        segments.iter().filter(|load| load.p_type(endian) == PT_LOAD).any(|load| {
            let inside = address.wrapping_sub(load.p_vaddr(endian));
            inside.saturating_add(size) <= load.p_filesz(endian)
                && offset == load.p_offset(endian).wrapping_add(inside)
                && offset.saturating_add(size) <= bytes.len() as u64
        })
    });
    let Ok(sections) = header.sections(endian, data) else { return Ok(Places { segment, loaded, ..none }) };
    let section = sections
        .section_by_name(endian, form.section.as_bytes())
        .map(|(_, found)| (found.sh_addr(endian), found.sh_offset(endian), found.sh_size(endian)));
    Ok(Places { has_sections: !sections.is_empty(), section, segment, loaded })
}
