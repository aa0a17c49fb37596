//! `sframe split`: an assembler writes one `.sframe` for all text sections of an object; this command gives
//! each text section one of its own, or with `--light` one `.sframe_light`.
//!
//! A linker discards sections, not parts of them. While one `.sframe` covers all functions, the rows of
//! discarded functions stay in the output. A part that is linked to its text section goes with it.
//!
//! [`sframe_sections::split`] decides which function goes into which part. This module writes the parts into
//! the file. No section number changes, so nothing else in the object has to change.

use super::args::Split;
use super::edit::{
    Frames, Image, Members, ORDER_LITTLE, Object, Pair, Sections, byte_order, check_output, read_file,
    replace_file,
};
use super::open::Problem;
use super::report::{Outcome, print, tell};
use diagnostics::words::{count, shown};
use elf::consts;
use sframe_format::light::{SECTION_NAME, SHT_SFRAME_LIGHT};
use sframe_sections::split::{Defect, Form, Plan, Ties};
use std::path::Path;
use zerocopy::byteorder::{BE, ByteOrder, LE, U32};

/// What came of splitting an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The new object; `None` if nothing had to change.
    pub bytes: Option<Vec<u8>>,
    /// Number of parts that were written.
    pub parts: usize,
    /// Number of functions in them.
    pub functions: usize,
    /// Number of functions that were left out, because an earlier link had removed their text.
    pub dead: usize,
}

/// Splits files in place, or one file into another.
pub fn run(arguments: &Split) -> Outcome {
    let count = arguments.files.len();
    if arguments.output.is_some() && count > 1 {
        let message =
            format!("for one input, but {count} are named: each would replace what the last one gave");
        return Outcome::of(Err(Problem::new("--output", message)));
    }
    // Checks all destinations before the first change.
    let mut outputs = arguments.files.iter().map(|path| arguments.output.as_deref().unwrap_or(path));
    if let Err(problem) = outputs.try_for_each(|path| check_output(path, None)) {
        return Outcome::of(Err(problem));
    }
    let outcomes = arguments.files.iter().map(|path| Outcome::of(split_one(path, arguments)));
    outcomes.max().unwrap_or(Outcome::Fine)
}

/// Splits a file that the command line names, and reports it.
fn split_one(path: &Path, arguments: &Split) -> Result<(), Problem> {
    let form = if arguments.light { Form::Light } else { Form::Same };
    let done = split_file(path, arguments.output.as_deref().unwrap_or(path), form)?;
    if done.dead > 0 {
        let dead = count(done.dead as u64, "function");
        tell(&format!("{}: {dead} without text left out", path.display()));
    }
    if arguments.verbose {
        let (functions, parts) = (count(done.functions as u64, "function"), count(done.parts as u64, "part"));
        let line = format!("{}: {functions} in {parts}", path.display());
        print(&format!("{}\n", shown(&line)))?;
    }
    Ok(())
}

/// Splits a file. If there is nothing to split, the input stays as it is, or is copied if the output is
/// another file.
///
/// # Errors
/// The file cannot be read, written or taken apart.
pub fn split_file(path: &Path, output: &Path, form: Form) -> Result<Done, Problem> {
    let bytes = read_file(path)?;
    let done = split(&path.display().to_string(), &bytes, form)?;
    let result = done.bytes.as_deref().or_else(|| (path != output).then_some(&*bytes));
    if let Some(result) = result {
        replace_file(output, result, Some(path))?;
    }
    Ok(done)
}

/// Splits an object. If there is any error, the object stays as it is.
///
/// # Errors
/// It is not a relocatable object, or its SFrame sections cannot be taken apart.
pub fn split(name: &str, bytes: &[u8], form: Form) -> Result<Done, Problem> {
    match byte_order(name, bytes)? {
        ORDER_LITTLE => split_image(&Image::<LE>::parse(name, bytes)?, form),
        _ => split_image(&Image::<BE>::parse(name, bytes)?, form),
    }
}

fn split_image<E: ByteOrder>(image: &Image<'_, E>, form: Form) -> Result<Done, Problem> {
    if !image.is_relocatable() {
        return Err(image.problem("a linked file; only relocatable objects have text sections to split by"));
    }
    let frames: Vec<usize> = (0..image.sections.len()).filter(|&index| has_frames(image, index)).collect();
    let mut done = Done::default();
    if frames.is_empty() {
        return Ok(done);
    }
    let object = Splitter { object: &Object::read(image)?, form };
    let mut edit = Sections::new(image);
    let mut members = Members::default();
    let mut changed = false;
    for frame in frames {
        let Some(plan) = object.plan(frame)? else { continue };
        done.dead += plan.dead;
        if plan.parts.is_empty() || object.is_in_shape(frame, &plan) {
            continue;
        }
        done.parts += plan.parts.len();
        done.functions += plan.functions.len();
        object.write(frame, plan, &mut edit, &mut members)?;
        changed = true;
    }
    members.write(&mut edit, image)?;
    done.bytes = changed.then(|| edit.write());
    Ok(done)
}

/// Whether a section contains SFrame. [`Splitter::is_in_shape`] then says whether it is split already.
fn has_frames<E: ByteOrder>(image: &Image<'_, E>, index: usize) -> bool {
    let Some(section) = image.sections.get(index) else { return false };
    image.is_sframe(index) && section.sh_size.get() > 0
}

/// Takes the sections of an object apart.
struct Splitter<'object, 'image, 'data, E: ByteOrder> {
    object: &'object Object<'image, 'data, E>,
    form: Form,
}

impl<'image, 'data, E: ByteOrder> Splitter<'_, 'image, 'data, E> {
    /// The plan for a section; `None` if it has no relocations, because only these tell which text a function
    /// belongs to.
    fn plan(&self, frame: usize) -> Result<Option<Plan<'data, E>>, Problem> {
        let image = self.object.image;
        let Some(table) = self.object.relocations_of(frame)? else { return Ok(None) };
        let mut problem = None;
        let section_of = |symbol| match self.object.section_of(symbol) {
            Ok(section) => Ok(section.map(|section| section as u32)),
            Err(error) => {
                problem = Some(error);
                Err("refers to no symbol")
            }
        };
        let plan = Plan::of(image.data(frame)?, table, self.form, section_of);
        plan.map(Some).map_err(|defect| problem.unwrap_or_else(|| self.problem(frame, &defect)))
    }

    fn problem(&self, frame: usize, defect: &Defect) -> Problem {
        let image = self.object.image;
        image.problem(format!("{}: {defect}", image.shown(frame)))
    }

    fn group_of(&self, section: u32) -> Option<u32> {
        self.object.groups.get(&(section as usize)).map(|&group| group as u32)
    }

    /// Whether a section already has the form that the plan would give it.
    fn is_in_shape(&self, frame: usize, plan: &Plan<'_, E>) -> bool {
        let header = &self.object.image.sections[frame];
        let linked = header.sh_flags.get() & consts::SHF_LINK_ORDER != 0;
        let ties = Ties { link: linked.then(|| header.sh_link.get()), group: self.group_of(frame as u32) };
        plan.is_in_shape(ties, |text| self.group_of(text))
    }

    /// Puts the parts of a section into the edit.
    fn write(
        &self,
        frame: usize,
        mut plan: Plan<'data, E>,
        edit: &mut Sections<'image, 'data, E>,
        members: &mut Members,
    ) -> Result<(), Problem> {
        let image = self.object.image;
        plan.put_first(self.group_of(frame as u32), |text| self.group_of(text))
            .map_err(|defect| self.problem(frame, &defect))?;
        let Some(&table) = self.object.relocations.get(&frame) else { return Ok(()) };
        let (mut section, mut relocations) = (image.sections[frame], image.sections[table]);
        if self.form == Form::Light {
            section.sh_name = edit.name(SECTION_NAME.as_bytes())?;
            section.sh_type = U32::new(SHT_SFRAME_LIGHT);
            relocations.sh_name = edit.name(format!(".rela{SECTION_NAME}").as_bytes())?;
        }
        let mut numbers = Some((frame, table));
        for part in &plan.parts {
            let mut contents = Vec::new();
            let relocations_of_part = plan.write(part, &mut contents);
            let relocated = relocations_of_part.map_err(|defect| self.problem(frame, &defect))?;
            let text = part.text.map(|text| text as usize);
            let frames = Frames { text, contents, relocations: relocated, alignment: part.alignment() };
            let pair = Pair { section, relocations, numbers: numbers.take() };
            self.object.put_frames(edit, members, pair, frames);
        }
        Ok(())
    }
}
