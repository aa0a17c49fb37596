//! `sframe attach`: SFrame for a finished file.
//!
//! The functions of a given section, or those that `.eh_frame` describes, become one sorted blob. The blob
//! replaces the file's SFrame section, whatever its name, or the section of the name that the user gave. It
//! goes to the place of that section if it fits there. Otherwise the file gets one more load segment at its
//! end ([`segment`]). No byte of code or data moves, so the file runs as before.
//!
//! `PT_GNU_SFRAME` covers the blob, and the section header table names it if the file has one. A compact
//! table is no SFrame, so it gets no program header of its own. Other tables of the file do not stay as they
//! were ([`others`]).

mod build_id;
mod others;
mod segment;

use super::args::{self, Attach, BuildId};
use super::edit::{Image, ORDER_LITTLE, byte_order, check_output, read_file, replace_file};
use super::functions::Functions;
use super::open::Problem;
use super::report::{Outcome, tell};
use diagnostics::words::{count, shown};
use elf::consts;
use sframe_format::write::Options;
use sframe_format::{Abi, PT_GNU_SFRAME, SHT_GNU_SFRAME, Section, compact};
use std::path::PathBuf;
use zerocopy::byteorder::{BE, ByteOrder, LE};

/// What to write.
#[derive(Clone, Copy)]
pub enum Form {
    /// One sorted blob.
    Blob(Options),
    /// A compact table.
    Compact,
}

impl Form {
    /// The form that belongs to the name of the section: `.sframe_compact` is a compact table.
    pub fn of(arguments: &args::Change, abi: Abi) -> Self {
        match arguments.name.as_deref() {
            Some(compact::SECTION_NAME) => Self::Compact,
            _ => Self::Blob(arguments.format.options(abi)),
        }
    }
}

/// One change to a file.
pub struct Change {
    /// The file to change.
    pub input: PathBuf,
    /// The file that receives the result.
    pub output: PathBuf,
    /// What to write, and how.
    pub form: Form,
    /// The file's architecture.
    pub abi: Abi,
    /// Name of the section.
    pub section: Vec<u8>,
    /// What to do with the build-id.
    pub build_id: BuildId,
    /// Whether to list the functions that were left out.
    pub verbose: bool,
}

impl Change {
    /// The change that the command line asks for.
    pub fn new<E: ByteOrder>(image: &Image<'_, E>, arguments: &args::Change, abi: Abi) -> Self {
        let asked = arguments.name.as_ref().map(String::as_bytes);
        Self {
            input: arguments.file.clone(),
            output: arguments.output().to_owned(),
            form: Form::of(arguments, abi),
            abi,
            section: asked.unwrap_or_else(|| present_name(image)).to_vec(),
            build_id: arguments.build_id,
            verbose: arguments.verbose,
        }
    }
}

/// The name of a file's SFrame section, which need not be `.sframe`. If there are several, the name of the
/// one that `PT_GNU_SFRAME` covers.
fn present_name<'data, E: ByteOrder>(image: &Image<'data, E>) -> &'data [u8] {
    let is_frames = |&index: &usize| image.sections[index].sh_type.get() == SHT_GNU_SFRAME;
    let frames: Vec<usize> = (0..image.sections.len()).filter(is_frames).collect();
    let covered = frames.iter().find(|&&index| is_covered(image, index));
    covered.or(frames.first()).map_or(&b".sframe"[..], |&index| image.section_name(index))
}

/// Whether `PT_GNU_SFRAME` covers the start of a section.
fn is_covered<E: ByteOrder>(image: &Image<'_, E>, index: usize) -> bool {
    let offset = image.sections[index].sh_offset.get();
    let mut frames = image.segments.iter().filter(|s| s.p_type.get() == PT_GNU_SFRAME);
    frames.any(|s| offset.wrapping_sub(s.p_offset.get()) < s.p_filesz.get())
}

/// Changes a file.
pub fn run(arguments: &Attach) -> Outcome {
    Outcome::of(attach(arguments))
}

fn attach(arguments: &Attach) -> Result<(), Problem> {
    check_output(arguments.change.output(), None)?;
    let bytes = read_file(&arguments.change.file)?;
    let name = arguments.change.file.display().to_string();
    match byte_order(&name, &bytes)? {
        ORDER_LITTLE => attach_image(&Image::<LE>::parse(&name, &bytes)?, arguments),
        _ => attach_image(&Image::<BE>::parse(&name, &bytes)?, arguments),
    }
}

fn attach_image<E: ByteOrder>(image: &Image<'_, E>, arguments: &Attach) -> Result<(), Problem> {
    let abi = image.abi()?;
    check(image)?;
    let mut functions = match &arguments.section {
        None => Functions::derive(image, abi)?,
        Some(path) => {
            let mut functions = Functions::default();
            functions.read(&Section::new(&read_file(path)?, arguments.address), abi);
            functions
        }
    };
    functions.keep_code(image);
    let change = Change::new(image, &arguments.change, abi);
    let mut made = changed(image, &functions, &change)?;
    if matches!(change.form, Form::Blob(_)) {
        made = renew_others::<E>(image.name, made, &functions, &change)?;
    }
    if others::has_whole_table(image) {
        tell(&format!(
            "{}: the table of --unwind-table stays as it was linked; if code has moved since, link again",
            image.name
        ));
    }
    finish::<E>(image.name, made, &change)
}

/// Empties the other SFrame sections of a file that has got a new one, and makes its compact table anew.
fn renew_others<E: ByteOrder>(
    name: &str,
    (bytes, mut left_out): (Vec<u8>, Vec<String>),
    functions: &Functions,
    change: &Change,
) -> Result<(Vec<u8>, Vec<String>), Problem> {
    let (bytes, emptied) = others::empty(&Image::<E>::parse(name, &bytes)?, &change.section);
    for section in emptied {
        let kept = String::from_utf8_lossy(&change.section);
        tell(&format!("{name}: {section} is empty now: {kept} has the rows of all functions"));
    }
    let image = Image::<E>::parse(name, &bytes)?;
    if !others::has_compact(&image) {
        return Ok((bytes, left_out));
    }
    let section = compact::SECTION_NAME.as_bytes();
    let (bytes, more) = put(&image, functions, Form::Compact, section, change.abi)?;
    left_out.extend(more);
    left_out.sort_unstable();
    left_out.dedup();
    Ok((bytes, left_out))
}

/// Checks that this command can change the file, and that the file still works afterwards.
fn check<E: ByteOrder>(image: &Image<'_, E>) -> Result<(), Problem> {
    match image.header.e_type.get() {
        consts::ET_EXEC | consts::ET_DYN => {}
        consts::ET_REL => {
            return Err(image.problem("a relocatable object; derive gives it frames with relocations"));
        }
        kind => {
            return Err(image.problem(format!("ELF type {kind}; expected an executable or a shared library")));
        }
    }
    if !image.segments.iter().any(|segment| segment.p_type.get() == consts::PT_LOAD) {
        return Err(
            image.problem("no load segment; debug information in a file of its own has nothing to run")
        );
    }
    let end = image.end();
    let behind = image.bytes.get(end..).unwrap_or_default();
    // Without section headers, these bytes may be sections that are not loaded.
    if !image.sections.is_empty() && behind.iter().any(|&byte| byte != 0) {
        let message = format!(
            "{} bytes behind the end of the ELF file at {end:#x}: a signature or a payload that is found from there \
             would be lost; remove it first",
            behind.len()
        );
        return Err(image.problem(message));
    }
    Ok(())
}

/// Makes these functions the SFrame section of a file.
///
/// # Errors
/// The file cannot be changed, no function is left, or the result cannot be written.
pub fn change_file<E: ByteOrder>(
    image: &Image<'_, E>,
    functions: &Functions,
    change: &Change,
) -> Result<(), Problem> {
    finish::<E>(image.name, changed(image, functions, change)?, change)
}

/// The bytes of the changed file, and a line for each function that was left out.
fn changed<E: ByteOrder>(
    image: &Image<'_, E>,
    functions: &Functions,
    change: &Change,
) -> Result<(Vec<u8>, Vec<String>), Problem> {
    check(image)?;
    if functions.list.iter().all(|(_, function)| function.size == 0) {
        report(image.name, &functions.left_out, change.verbose);
        return Err(image.problem("no function to describe"));
    }
    put(image, functions, change.form, &change.section, change.abi)
}

/// Puts one table into a file.
fn put<E: ByteOrder>(
    image: &Image<'_, E>,
    functions: &Functions,
    form: Form,
    section: &[u8],
    abi: Abi,
) -> Result<(Vec<u8>, Vec<String>), Problem> {
    let table = |address| match form {
        Form::Blob(options) => functions.write(image.name, options, address),
        Form::Compact => functions.write_compact(image.name, abi, address),
    };
    segment::put(image, section, matches!(form, Form::Compact), &table)
}

/// Writes the changed file.
fn finish<E: ByteOrder>(
    name: &str,
    (mut bytes, left_out): (Vec<u8>, Vec<String>),
    change: &Change,
) -> Result<(), Problem> {
    if change.build_id == BuildId::Recompute {
        build_id::recompute::<E>(name, &mut bytes)?;
    }
    replace_file(&change.output, &bytes, Some(&change.input))?;
    report(name, &left_out, change.verbose);
    Ok(())
}

/// Reports the functions that were left out: in one line, or one line for each.
pub fn report(name: &str, left_out: &[String], verbose: bool) {
    if left_out.is_empty() {
        return;
    }
    let hint = if verbose { "" } else { " (--verbose lists them)" };
    tell(&format!("{name}: {} left out{hint}", count(left_out.len() as u64, "function")));
    if verbose {
        left_out.iter().for_each(|line| eprintln!("  {}", shown(line)));
    }
}
