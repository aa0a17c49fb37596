//! `--sframe-from-eh-frame`: derives functions from the inputs' `.eh_frame`.
//!
//! [`crate::frames`] has split the sections into records, so the section of each FDE's code is known, and the
//! relocation of the code's start gives the offset. [`sframe_format::derive`] executes the call frame
//! instructions of an FDE and makes FREs of them. It needs no addresses, so the linker derives functions
//! before the layout, in parallel over objects. They join all others in [`super::collect`]. Functions that
//! SFrame cannot express are listed with the reason.

use super::collect::{Batch, Cause, LeftOut, Origin, Place, Role, Share};
use super::{abi, encoding, is_code, read};
use crate::arch::Target;
use crate::cli::SFrameFromEhFrame;
use crate::diag::{Code, Diagnostic, Location};
use crate::frames::{Fde, FileFrames, FrameSection, Frames, eh_frame};
use crate::ids::FileId;
use crate::input::ObjectFile;
use crate::phase::{Resolved, SectionState, SectionStates};
use parallel::IntoParallel;
use sframe_format::derive;

/// The functions of all `.eh_frame` inputs, in one batch for each object that has any. `described` are the
/// batches of SFrame inputs. With `=missing`, the linker does not read an object if `described` contains all
/// its functions. If it contains only some, [`super::collect::unite`] drops duplicates.
pub fn batches<'a, T: Target>(
    link: &Resolved<'a, T>,
    sections: &SectionStates,
    frames: &Frames<'a, T::E>,
    which: SFrameFromEhFrame,
    described: &[Batch],
) -> Vec<Batch> {
    let by_file = InputFunctions::new(link, which, described);
    let derive = |file: usize| {
        let frames = &frames.files[file];
        let described = by_file.places(FileId::from_index(file));
        let deriver = Deriver { link, sections, object: &link.objects[file], frames, described };
        let missing = !frames.fdes.is_empty() && !deriver.all_are_described();
        missing.then(|| deriver.batch())
    };
    (0..frames.files.len()).into_par_iter().filter_map(derive).collect()
}

/// Functions of SFrame inputs, by the file whose section describes them.
struct InputFunctions<'b> {
    /// Files and their functions, by ascending file.
    shares: Vec<(FileId, Share<'b>)>,
}

impl<'b> InputFunctions<'b> {
    fn new<T: Target>(link: &Resolved<'_, T>, which: SFrameFromEhFrame, batches: &'b [Batch]) -> Self {
        if which == SFrameFromEhFrame::All {
            return InputFunctions { shares: Vec::new() };
        }
        // Batches and their shares are in link order, so the list is sorted.
        let with_file = |share: Share<'b>| Some((read::file_of(link, share.origin)?, share));
        InputFunctions { shares: batches.iter().flat_map(Batch::shares).filter_map(with_file).collect() }
    }

    /// The places of the functions that a file's SFrame inputs describe, ascending.
    fn places(&self, file: FileId) -> Vec<Place> {
        let start = self.shares.partition_point(|(other, _)| *other < file);
        let own = self.shares[start..].iter().take_while(|(other, _)| *other == file);
        let mut places: Vec<Place> =
            own.flat_map(|(_, share)| share.functions.iter().map(|function| function.place)).collect();
        if !places.is_sorted() {
            places.sort_unstable();
        }
        places
    }
}

/// Derives the functions of one object.
struct Deriver<'l, 'a, T: Target> {
    link: &'l Resolved<'a, T>,
    sections: &'l SectionStates,
    object: &'l ObjectFile<'a, T::E>,
    frames: &'l FileFrames<'a, T::E>,
    /// Places that need no derived function, ascending.
    described: Vec<Place>,
}

impl<'a, T: Target> Deriver<'_, 'a, T> {
    /// Whether SFrame inputs describe all of the object's functions that are in the link so far.
    fn all_are_described(&self) -> bool {
        !self.described.is_empty()
            && self.frames.sections.iter().all(|section| {
                let fdes = &self.frames.fdes[section.fdes.start as usize..section.fdes.end as usize];
                let mut live =
                    fdes.iter().filter(|fde| !fde.is_empty && eh_frame::is_live(self.sections, fde));
                live.all(|fde| self.place(section, fde).is_none_or(|place| self.is_described(place)))
            })
    }

    fn is_described(&self, place: Place) -> bool {
        self.described.binary_search(&place).is_ok()
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::new(Role::Written, encoding::<T>(self.link.config));
        batch.begin(Origin::EhFrame(self.object.id));
        for section in &self.frames.sections {
            self.section(section, &mut batch);
        }
        batch
    }

    fn section(&self, section: &FrameSection<'a, T::E>, batch: &mut Batch) {
        let fdes = &self.frames.fdes[section.fdes.start as usize..section.fdes.end as usize];
        let mut next = 0;
        let result = derive::for_each(abi::<T>(), section.bytes, 0, |source, result| {
            next += fdes[next..].iter().take_while(|fde| (fde.offset as usize) < source.offset).count();
            // An FDE whose start has no relocation describes no function, so `frames` does not list it.
            let Some(fde) = fdes.get(next).filter(|fde| fde.offset as usize == source.offset) else { return };
            if self.is_gone(fde) {
                return batch.pass_over(|tally| tally.lost_group += 1);
            }
            let Some(mut place) = self.place(section, fde) else {
                return batch.pass_over(|tally| tally.elsewhere += 1);
            };
            if !is_code(self.link, place.section) {
                return batch.pass_over(|tally| tally.no_code += 1);
            }
            // One FDE can give several consecutive functions. If the first one is a duplicate, drop the
            // others, too: they start where no function of an SFrame input starts, and would overlap one.
            if (source.before > 0 || result.is_err()) && self.is_described(place) {
                return batch.pass_over(|tally| tally.duplicate += 1);
            }
            let function = place;
            place.offset = place.offset.wrapping_add(source.before);
            let wrong = match result {
                Ok(rows) => match batch.add(place, rows) {
                    Ok(()) => return,
                    Err(wrong) => Cause::Version(wrong),
                },
                Err(reason) => Cause::CallFrame(reason),
            };
            batch.leave_out(LeftOut { place, function, reason: wrong });
        });
        if let Err(error) = result {
            self.report(section, &error.to_string());
        }
    }

    /// Whether the FDE's code was discarded with its group. This is known before garbage collection.
    fn is_gone(&self, fde: &Fde) -> bool {
        fde.function.is_some() && self.sections.is(fde.function, SectionState::DISCARDED_BY_GROUP)
    }

    /// Where the code of an FDE starts, from its relocation.
    fn place(&self, section: &FrameSection<'a, T::E>, fde: &Fde) -> Option<Place> {
        let relocation = section.relocations.get(fde.first_relocation as usize)?;
        let symbol = relocation.symbol();
        // As for `Fde::function`, the FDE means the code of its own file, even if another definition of the
        // symbol prevails.
        let here = self.object.symbol_section(symbol);
        let (place, value) = here.or_else(|| self.link.referenced_section(self.object, symbol))?;
        let offset = value.wrapping_add_signed(relocation.r_addend.get());
        Some(Place { section: place, offset })
    }

    fn report(&self, section: &FrameSection<'a, T::E>, what: &str) {
        self.link.sink.report(
            Diagnostic::warning(Code::EhFrame, format!("no SFrame rows can be derived: {what}"))
                .at(Location::Section {
                    file: self.object.name.to_string(),
                    section: self.object.section_name_lossy(section.index as usize),
                    offset: 0,
                })
                .note("functions after that place have no rows")
                .ordered(self.object.id.0, section.index, 0),
        );
    }
}
