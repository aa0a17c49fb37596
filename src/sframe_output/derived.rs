//! The report on functions derived by `--sframe-from-eh-frame`, for `--print-sframe` and `--stats`, and one
//! line for links without either option.

use crate::arch::Target;
use crate::diag::words::{count as counted, shown};
use crate::elf::consts as elf;
use crate::input::object::SymbolPlace;
use crate::phase::Placed;
use crate::sframe::collect::{Batch, Origin, Place, Share, Tally};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::json;
use std::fmt::{self, Write};

/// The functions of one object's `.eh_frame`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Derived {
    /// Name of the object.
    pub file: String,
    /// Numbers of functions by fate.
    pub tally: Tally,
    /// The live functions that SFrame cannot express: place and reason.
    pub left_out: Vec<(String, String)>,
}

/// Counts derived functions. Liveness must be frozen.
pub fn collect<T: Target>(link: &Placed<'_, T>) -> Vec<Derived> {
    let of = |(batch, share): (usize, Share<'_>)| {
        let Origin::EhFrame(file) = share.origin else { return None };
        let alive = share.left_out.iter().filter(|left| link.sections.is_in_output(left.place.section));
        let text = |place: Place| link.describe_place(place.section, place.offset);
        Some(Derived {
            file: link.objects[file.index()].name.to_string(),
            tally: share.tally(&link.sections, &link.chosen, batch),
            left_out: alive.map(|left| (text(left.place), left.reason.to_string())).collect(),
        })
    };
    let batches = link.described.batches.iter().enumerate();
    batches.flat_map(numbered).filter_map(of).collect()
}

/// The largest number of functions that [`line()`] names.
const MAX_NAMED: usize = 5;

/// One line about all functions that the linker cannot derive, wholly or in part, for links without a report.
/// Empty if there are none. It is no warning, because every C library has some.
pub fn line<T: Target>(link: &Placed<'_, T>) -> String {
    let shares = link.described.batches.iter().flat_map(Batch::shares);
    let derived = shares.filter(|share| matches!(share.origin, Origin::EhFrame(_)));
    let left_out = derived.flat_map(|share| share.left_out);
    let alive = left_out.filter(|left_out| link.sections.is_in_output(left_out.place.section));
    let mut functions: Vec<Place> = alive.map(|left_out| left_out.function).collect();
    // Parts of one function follow each other.
    functions.dedup();
    if functions.is_empty() {
        return String::new();
    }
    let mut names: Vec<String> =
        functions.iter().take(MAX_NAMED).map(|place| name_of(link, *place)).collect();
    if functions.len() > MAX_NAMED {
        names.push(format!("and {} more", functions.len() - MAX_NAMED));
    }
    let count = counted(functions.len() as u64, "function");
    let names = names.join(", ");
    format!("sframe: {count} without derived rows, wholly or in part: {names} (--print-sframe says why)\n")
}

/// The name of the function at a place. If no symbol is there, the place itself.
fn name_of<T: Target>(link: &Placed<'_, T>, place: Place) -> String {
    let symbol = link.locate(place.section).and_then(|(object, section)| {
        let is_here = |index: &usize| {
            let symbol = &object.symbols[*index];
            symbol.kind() != elf::STT_SECTION
                && symbol.st_value.get() == place.offset
                && object.symbol_place(*index) == SymbolPlace::Section(section)
        };
        let here: Vec<usize> = (1..object.symbols.len()).filter(is_here).collect();
        let function = here.iter().find(|&&index| object.symbols[index].kind() == elf::STT_FUNC);
        let name = object.symbol_name(*function.or(here.first())?);
        (!name.is_empty()).then(|| link.name_text(name))
    });
    symbol.unwrap_or_else(|| link.describe_place(place.section, place.offset))
}

/// The shares of a batch, each with the number of the batch.
pub fn numbered((number, batch): (usize, &Batch)) -> impl Iterator<Item = (usize, Share<'_>)> {
    batch.shares().map(move |share| (number, share))
}

/// Writes the sum of all objects as one line, or nothing if nothing was derived.
pub fn write_summary(all: &[Derived], out: &mut impl Write) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let mut sum = Tally::default();
    all.iter().for_each(|derived| sum.add(&derived.tally));
    writeln!(
        out,
        "sframe: derived from .eh_frame of {}: {}",
        counted(all.len() as u64, "file"),
        TallyText(&sum)
    )
}

impl Serialize for Derived {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Derived { file, tally, left_out } = self;
        let left_out = left_out.iter().map(|(place, reason)| json!({ "function": place, "reason": reason }));
        let mut object = serializer.serialize_struct("Derived", 6)?;
        object.serialize_field("file", file)?;
        object.serialize_field("functions", &tally.taken)?;
        object.serialize_field("rows", &tally.rows)?;
        object.serialize_field("present", &tally.duplicate)?;
        object.serialize_field("inexpressible", &self.left_out.len())?;
        object.serialize_field("left_out", &left_out.collect::<Vec<_>>())?;
        object.end()
    }
}

/// The numbers of a tally that can concern derived functions, in words.
struct TallyText<'t>(&'t Tally);

impl fmt::Display for TallyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { taken, rows, duplicate, inexpressible, lost_group, collected, folded, script, .. } =
            self.0;
        write!(f, "{}, {}", counted(*taken, "function"), counted(*rows, "row"))?;
        let others = [
            (*duplicate, "described already"),
            (*inexpressible, "not expressible"),
            (lost_group + collected + folded + script, "not in the output"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {what}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:(.eh_frame): derived {}", shown(&self.file), TallyText(&self.tally))?;
        self.left_out.iter().try_for_each(|(place, reason)| write!(f, "\nsframe:   {place}: {reason}"))
    }
}
