//! `sframe split`: a relocatable object's `.sframe`, which covers all its text sections, becomes one `.sframe` for each.
//!
//! Each part is tied to its text section by `SHF_LINK_ORDER`, and is a member of the section group of its text section
//! if that has one: the shape that every linker takes, with or without `--gc-sections` and `-r`, and the one that
//! assemblers should write. The first part takes the place of the old section in the section table and all others come
//! behind, so no section number changes and nothing else in the object needs to be touched. Relocations are moved with
//! their functions, one for each.

mod blob;

use super::args::Split;
use super::edit::{
    Frames, Image, Members, ORDER_LITTLE, Object, Pair, Sections, byte_order, permissions, read_file,
    replace_file,
};
use super::open::Problem;
use super::report::{Outcome, complain};
use crate::elf::{Rela, consts, whole_table};
use sframe_format::{Blob, Piece, Section};
use std::collections::HashMap;
use std::path::Path;
use zerocopy::byteorder::{BE, ByteOrder, LE, U64};

/// What was done to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The new object; `None` if nothing had to be changed.
    pub bytes: Option<Vec<u8>>,
    /// Parts that were written.
    pub parts: usize,
    /// Functions in them.
    pub functions: usize,
    /// Functions that were left out, because an earlier link had removed what they describe.
    pub dead: usize,
}

/// Splits files in place, or one file into another.
pub fn run(arguments: &Split) -> Outcome {
    let mut outcome = Outcome::Fine;
    for path in &arguments.files {
        let output = arguments.output.as_deref().unwrap_or(path);
        match split_file(path, output) {
            Ok(done) => {
                if done.dead > 0 {
                    eprintln!("sframe: {}: {} functions without text left out", path.display(), done.dead);
                }
                if arguments.verbose {
                    println!("{}: {} functions in {} parts", path.display(), done.functions, done.parts);
                }
            }
            Err(problem) => {
                complain(&problem);
                outcome = Outcome::Unusable;
            }
        }
    }
    outcome
}

/// Splits a file. Where there is nothing to split, the input is left alone, and copied if the output is another file.
///
/// # Errors
/// The file cannot be read, written, or taken apart.
pub fn split_file(path: &Path, output: &Path) -> Result<Done, Problem> {
    let bytes = read_file(path)?;
    let done = split(&path.display().to_string(), &bytes)?;
    let result = done.bytes.as_deref().or_else(|| (path != output).then_some(&*bytes));
    if let Some(result) = result {
        replace_file(output, result, permissions(path))?;
    }
    Ok(done)
}

/// Splits an object. Every defect leaves it as it is.
///
/// # Errors
/// It is no relocatable object, or its SFrame sections cannot be taken apart.
pub fn split(name: &str, bytes: &[u8]) -> Result<Done, Problem> {
    match byte_order(name, bytes)? {
        ORDER_LITTLE => split_image(&Image::<LE>::parse(name, bytes)?),
        _ => split_image(&Image::<BE>::parse(name, bytes)?),
    }
}

fn split_image<E: ByteOrder>(image: &Image<'_, E>) -> Result<Done, Problem> {
    if !image.is_relocatable() {
        return Err(image.problem("a linked file; only relocatable objects have text sections to split by"));
    }
    let frames: Vec<usize> = (0..image.sections.len()).filter(|&index| is_monolithic(image, index)).collect();
    let mut done = Done::default();
    if frames.is_empty() {
        return Ok(done);
    }
    let object = Splitter { object: &Object::read(image)? };
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
        done.functions += plan.parts.iter().map(|part| part.functions.len()).sum::<usize>();
        object.write(frame, plan, &mut edit, &mut members)?;
        changed = true;
    }
    members.write(&mut edit, image)?;
    done.bytes = changed.then(|| edit.write());
    Ok(done)
}

/// Whether a section may cover several text sections. One with a link is an assembler's own per-text section.
fn is_monolithic<E: ByteOrder>(image: &Image<'_, E>, index: usize) -> bool {
    let Some(section) = image.sections.get(index) else { return false };
    image.is_sframe(index) && section.sh_size.get() > 0
}

/// A function and its relocation.
struct Function<E: ByteOrder> {
    index: u32,
    relocation: Rela<E>,
}

/// The functions of one text section in one blob.
struct Part<'data, E: ByteOrder> {
    blob: Blob<'data>,
    /// The text section; `None` for functions that are elsewhere (undefined or absolute symbols).
    text: Option<usize>,
    functions: Vec<Function<E>>,
}

/// What a section is to become.
struct Plan<'data, E: ByteOrder> {
    relocations: usize,
    parts: Vec<Part<'data, E>>,
    dead: usize,
}

/// Takes the sections of an object apart.
struct Splitter<'object, 'image, 'data, E: ByteOrder> {
    object: &'object Object<'image, 'data, E>,
}

impl<'image, 'data, E: ByteOrder> Splitter<'_, 'image, 'data, E> {
    /// Sorts the functions of a section by their text sections. `None` if nothing ties the section to any text.
    fn plan(&self, frame: usize) -> Result<Option<Plan<'data, E>>, Problem> {
        let image = self.object.image;
        let Some(&relocations) = self.object.relocations.get(&frame) else { return Ok(None) };
        let table: &[Rela<E>] = whole_table(image.data(relocations)?);
        let mut by_offset: HashMap<u64, Rela<E>> = HashMap::with_capacity(table.len());
        for relocation in table.iter().filter(|relocation| relocation.kind() != 0) {
            if by_offset.insert(relocation.r_offset.get(), *relocation).is_some() {
                return Err(self.bad_relocation(
                    frame,
                    relocation.r_offset.get(),
                    "is not the only one there",
                ));
            }
        }
        let mut plan = Plan { relocations, parts: Vec::new(), dead: 0 };
        for piece in Section::new(image.data(frame)?, 0).pieces() {
            match piece {
                Piece::Blob(blob) => self.sort_functions(&blob, &mut by_offset, &mut plan)?,
                Piece::Gap(gap) => {
                    let message =
                        format!("{}: no SFrame blob that can be split: {}", image.shown(frame), gap.error);
                    return Err(image.problem(message));
                }
            }
        }
        match by_offset.into_keys().min() {
            Some(offset) => {
                Err(self.bad_relocation(frame, offset, "is not at the start of a function's entry"))
            }
            None => Ok(Some(plan)),
        }
    }

    fn bad_relocation(&self, frame: usize, offset: u64, what: &str) -> Problem {
        self.object
            .image
            .problem(format!("{}: the relocation at {offset:#x} {what}", self.object.image.shown(frame)))
    }

    fn sort_functions(
        &self,
        blob: &Blob<'data>,
        relocations: &mut HashMap<u64, Rela<E>>,
        plan: &mut Plan<'data, E>,
    ) -> Result<(), Problem> {
        let mut of_text: HashMap<Option<usize>, usize> = HashMap::new();
        for fde in blob.fdes() {
            let Some(relocation) = relocations.remove(&(fde.offset as u64)) else {
                plan.dead += 1;
                continue;
            };
            let text = self.object.section_of(relocation.symbol())?;
            let part = *of_text.entry(text).or_insert_with(|| {
                plan.parts.push(Part { blob: *blob, text, functions: Vec::new() });
                plan.parts.len() - 1
            });
            plan.parts[part].functions.push(Function { index: fde.index, relocation });
        }
        Ok(())
    }

    /// Whether a section is what would be made of it.
    fn is_in_shape(&self, frame: usize, plan: &Plan<'_, E>) -> bool {
        let [part] = plan.parts.as_slice() else { return false };
        let header = &self.object.image.sections[frame];
        let linked = header.sh_flags.get() & u64::from(consts::SHF_LINK_ORDER) != 0;
        let link = if linked { Some(header.sh_link.get() as usize) } else { None };
        let group = |index: usize| self.object.groups.get(&index);
        plan.dead == 0 && link == part.text && part.text.is_none_or(|text| group(text) == group(frame))
    }

    /// Puts the parts of a section into the edit, the first that can take its place there.
    fn write(
        &self,
        frame: usize,
        mut plan: Plan<'data, E>,
        edit: &mut Sections<'image, 'data, E>,
        members: &mut Members,
    ) -> Result<(), Problem> {
        let image = self.object.image;
        let own = self.object.groups.get(&frame).copied();
        // The old section number stays in the groups it is in; without one, it best stays outside all of them.
        let fitting = plan.parts.iter().position(|part| self.object.group_of(part.text) == own);
        let first = fitting.or(own.is_none().then_some(0)).ok_or_else(|| {
            image.problem(format!("{} is in a group without any text that it describes", image.shown(frame)))
        })?;
        let first = plan.parts.remove(first);
        plan.parts.insert(0, first);
        let (section, relocations) = (image.sections[frame], image.sections[plan.relocations]);
        let mut numbers = Some((frame, plan.relocations));
        for part in &plan.parts {
            let indices: Vec<u32> = part.functions.iter().map(|function| function.index).collect();
            let contents = blob::extract(&part.blob, &indices)
                .map_err(|error| image.problem(format!("{}: {error}", image.shown(frame))))?;
            let relocated = moved_relocations(part, &contents);
            let frames = Frames { text: part.text, contents, relocations: relocated };
            let pair = Pair { section, relocations, numbers: numbers.take() };
            self.object.put_frames(edit, members, pair, frames);
        }
        Ok(())
    }
}

/// The relocations of a part, at the start fields of its functions.
fn moved_relocations<E: ByteOrder>(part: &Part<'_, E>, contents: &[u8]) -> Vec<Rela<E>> {
    let header = sframe_format::Header::parse(contents);
    let moved = |(index, function): (u32, &Function<E>)| {
        let position = header.as_ref().ok().and_then(|header| header.fde_position(index)).unwrap_or(0);
        Rela { r_offset: U64::new(position as u64), ..function.relocation }
    };
    (0..).zip(&part.functions).map(moved).collect()
}
