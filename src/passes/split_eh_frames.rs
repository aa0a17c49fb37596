//! Splits `.eh_frame` sections into records.
//!
//! After this pass, the sections count as absorbed: their records go into the linker's own `.eh_frame`. Under
//! `-r`, the sections stay whole, and the records only tell which relocations belong to discarded functions.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::frames::Frames;
use crate::frames::eh_frame::{Split, split_object};
use crate::ids::FileId;
use crate::input::object::Malformed;
use crate::phase::{Inputs, Resolved, SectionStates};
use parallel::IntoParallel;

/// Splits the live `.eh_frame` sections. A section that cannot be split is reported and stays whole.
pub fn run<'a, T: Target>(link: &Resolved<'a, T>, sections: &mut SectionStates) -> Frames<'a, T::E> {
    let states = &*sections;
    let splits: Vec<Split<'_, T::E>> = (0..link.objects.len())
        .into_par_iter()
        .map(|file| split_object(link, states, FileId::from_index(file)))
        .collect();
    let mut frames = Frames::default();
    let mut absorbed = Vec::new();
    for (file, split) in splits.into_iter().enumerate() {
        frames.has_terminator |= split.has_terminator;
        for (section, finding) in &split.broken {
            frames.has_whole_sections = true;
            report(link, FileId::from_index(file), *section, finding);
        }
        if !link.config.is_relocatable() {
            let own = split.frames.sections.iter();
            absorbed.extend(own.map(|section| link.objects[file].section_id(section.index)));
        }
        frames.files.push(split.frames);
    }
    sections.absorb(absorbed);
    frames
}

fn report<T: Target>(link: &Inputs<'_, T>, file: FileId, section: u32, finding: &Malformed) {
    let object = &link.objects[file.index()];
    let mut diagnostic = Diagnostic::warning(Code::EhFrame, format!("broken .eh_frame: {}", finding.what))
        .at(Location::Section {
            file: object.name.to_string(),
            section: object.section_name_lossy(section as usize),
            offset: finding.offset,
        })
        .note("the section is taken as it is")
        .ordered(file.0, section, finding.offset);
    if link.config.dynamic.eh_frame_hdr && !link.config.is_relocatable() {
        diagnostic = diagnostic.note("no .eh_frame_hdr is made");
    }
    link.sink.report(diagnostic);
}
