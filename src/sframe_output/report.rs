//! The report on SFrame inputs and the linker's own blob, for `--print-sframe` and `--stats`.
//!
//! [`collect`] reads every input once more, so the linker calls it only if an option asks for the report. The
//! report has two forms: lines for people ([`std::fmt::Display`]) and JSON with stable keys and words
//! ([`serde::Serialize`]).

use super::derived::{self, Derived};
use super::discard::{Fate, fate};
use crate::arch::Target;
use crate::cli::SFrameMode;
use crate::diag::words::{count as counted, shown};
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::Placed;
use crate::phase::SectionState;
use crate::sframe::collect::{Origin, Role, Share, Tally};
use crate::tables::section::Kind;
use parallel::ParallelSlice;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use sframe_format::{Blob, Piece, Section};
use std::fmt::{self, Write};

/// What SFrame inputs contain, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// SFrame sections.
    pub sections: u64,
    /// Blobs of known versions in them.
    pub blobs: u64,
    /// Functions (FDEs) of these blobs.
    pub functions: u64,
    /// Rows (FREs) of these blobs.
    pub rows: u64,
    /// Bytes of the sections.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, other: Amount) {
        self.sections += other.sections;
        self.blobs += other.blobs;
        self.functions += other.functions;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// Numbers of functions with dead rows, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dead {
    /// Their section group lost to another.
    pub lost_group: u64,
    /// `--gc-sections` collected them.
    pub collected: u64,
    /// `--icf` folded them into equal ones.
    pub folded: u64,
    /// A script discards them.
    pub script: u64,
    /// Their place is unknown: an earlier `-r` link removed the relocation.
    pub unrelocated: u64,
}

impl Dead {
    /// The sum of all reasons.
    pub fn total(&self) -> u64 {
        self.lost_group + self.collected + self.folded + self.script + self.unrelocated
    }

    fn add(&mut self, other: Dead) {
        self.lost_group += other.lost_group;
        self.collected += other.collected;
        self.folded += other.folded;
        self.script += other.script;
        self.unrelocated += other.unrelocated;
    }
}

/// The blob that the linker made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Name of its section, as scripts match it.
    pub section: String,
    /// Functions in it.
    pub functions: u64,
    /// Rows of these functions.
    pub rows: u64,
    /// Bytes of the blob.
    pub bytes: u64,
    /// Functions that no SFrame input describes: PLTs, thunks, and functions derived from `.eh_frame`.
    pub added: u64,
    /// Thunks among `added`.
    pub thunks: u64,
    /// Instructions among `added` that were moved away from a processor's erratum.
    pub veneers: u64,
    /// Numbers of functions of all sources, by fate.
    pub tally: Tally,
}

/// One SFrame input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Name of the file.
    pub file: String,
    /// Name of the section.
    pub section: String,
    /// Its section header index.
    pub index: u32,
    /// Name of the text section that its relocations point into, if all point into one.
    pub text: Option<String>,
    /// Its fate.
    pub fate: Fate,
    /// Versions of its blobs, ascending. Unknown versions are included.
    pub versions: Vec<u8>,
    /// Functions, rows and bytes in it.
    pub amount: Amount,
    /// Numbers of its functions with dead rows in the output. 0 unless the input is kept.
    pub dead: Dead,
    /// Numbers of its functions by fate, if the linker's own blob replaces it.
    pub taken: Option<Tally>,
    /// Its corrupt places.
    pub findings: Vec<Finding>,
}

/// A corrupt place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Byte offset in the section.
    pub offset: u64,
    /// The defect, in words.
    pub what: String,
}

/// The fates of all SFrame inputs, in link order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// `index` with `--sframe-index`, else the value of `--sframe`.
    pub mode: &'static str,
    /// The SFrame inputs.
    pub inputs: Vec<Input>,
    /// The blob that the linker made, if it made one.
    pub own: Option<Own>,
    /// Functions derived from `.eh_frame` inputs.
    pub derived: Vec<Derived>,
}

/// Reads all SFrame inputs. Liveness must be frozen.
pub fn collect<T: Target>(link: &Placed<'_, T>) -> Report {
    let tallies = tallies(link);
    let inputs = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let tallies = &tallies;
            object.sframes.iter().map(move |&index| {
                let mut input = inspect(link, object, index as usize);
                let id = object.section_id(index);
                if input.fate == Fate::Taken
                    && let Ok(row) = tallies.binary_search_by_key(&id, |tally| tally.0)
                {
                    input.taken = Some(tallies[row].1);
                }
                input
            })
        })
        .collect();
    let mode = match link.config.sframe.mode {
        _ if link.config.sframe.index.is_some() => "index",
        SFrameMode::Concat => "concat",
        SFrameMode::Merge => "merge",
        SFrameMode::Discard => "discard",
    };
    Report { mode, inputs, own: own(link), derived: derived::collect(link) }
}

/// For each recognised SFrame input, ascending: numbers of its functions by fate.
fn tallies<T: Target>(link: &Placed<'_, T>) -> Vec<(SectionId, Tally)> {
    let of = |(batch, share): (usize, Share<'_>)| match share.origin {
        Origin::Input(section) => Some((section, share.tally(&link.sections, &link.chosen, batch))),
        _ => None,
    };
    let batches = link.described.batches.par_iter().enumerate();
    batches.flat_map_iter(derived::numbered).filter_map(of).collect()
}

fn own<T: Target>(link: &Placed<'_, T>) -> Option<Own> {
    let table = link.chosen.table.as_ref().filter(|table| !table.functions.is_empty())?;
    let row = link.synthetics.find(Kind::SFrame)?;
    let mut tally = Tally::default();
    let mut added = 0;
    for (number, batch) in super::table::batches(link).enumerate() {
        for share in batch.shares() {
            let part = share.tally(&link.sections, &link.chosen, number);
            tally.add(&part);
            if batch.role == Role::Written && !matches!(share.origin, Origin::Input(_)) {
                added += part.taken;
            }
        }
    }
    Some(Own {
        section: String::from_utf8_lossy(link.synthetics.section(row).name).into_owned(),
        functions: table.functions.len() as u64,
        rows: table.functions.iter().map(|function| u64::from(function.rows)).sum(),
        bytes: link.synthetics.section(row).size,
        added,
        thunks: (table.functions.len() - table.settled - table.veneers) as u64,
        veneers: table.veneers as u64,
        tally,
    })
}

fn inspect<T: Target>(link: &Placed<'_, T>, object: &ObjectFile<'_, T::E>, index: usize) -> Input {
    let id = object.section_id(index as u32);
    let bytes = object.section_bytes(index).unwrap_or_default();
    let mut input = Input {
        file: object.name.to_string(),
        section: object.section_name_lossy(index),
        index: index as u32,
        text: text_of(object, index),
        fate: fate(link, id),
        versions: Vec::new(),
        amount: Amount { sections: 1, bytes: bytes.len() as u64, ..Amount::default() },
        dead: Dead::default(),
        taken: None,
        findings: Vec::new(),
    };
    for piece in Section::new(bytes, 0).pieces() {
        match piece {
            Piece::Blob(blob) => {
                input.versions.push(blob.header().version as u8);
                input.amount.blobs += 1;
                input.amount.functions += u64::from(blob.header().fde_count);
                input.amount.rows += u64::from(blob.header().fre_count);
                if input.fate == Fate::Kept {
                    input.dead.add(dead_functions(link, object, index, &blob));
                }
            }
            Piece::Gap(gap) => match gap.error.kind.unknown_version() {
                Some(found) => input.versions.push(found),
                None => {
                    let offset = gap.error.offset as u64;
                    input.findings.push(Finding { offset, what: gap.error.kind.to_string() });
                }
            },
        }
    }
    input.versions.sort_unstable();
    input.versions.dedup();
    input
}

/// Name of the section that all relocations of a section point into.
fn text_of<E: zerocopy::byteorder::ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> Option<String> {
    let mut places =
        object.relocations(index).iter().map(|relocation| object.symbol_place(relocation.symbol() as usize));
    let first = places.next()?;
    let SymbolPlace::Section(text) = first else { return None };
    places.all(|place| place == first).then(|| object.section_name_lossy(text as usize))
}

fn dead_functions<T: Target>(
    link: &Placed<'_, T>,
    object: &ObjectFile<'_, T::E>,
    index: usize,
    blob: &Blob<'_>,
) -> Dead {
    let mut dead = Dead::default();
    let mut relocated = 0;
    for relocation in object.relocations(index) {
        let offset = usize::try_from(relocation.r_offset.get()).ok();
        let row = offset
            .and_then(|offset| offset.checked_sub(blob.offset()))
            .and_then(|offset| blob.header().fde_at(offset));
        if row.is_none() || relocation.kind() == T::DYNAMIC.none {
            continue;
        }
        relocated += 1;
        if relocation.symbol() != 0
            && let Some((text, _)) = link.referenced_section(object, relocation.symbol())
        {
            count_dead(link, text, &mut dead);
        }
    }
    if relocated > 0 {
        dead.unrelocated = u64::from(blob.header().fde_count).saturating_sub(relocated);
    }
    dead
}

fn count_dead<T: Target>(link: &Placed<'_, T>, text: SectionId, dead: &mut Dead) {
    let has = |bits| link.sections.is(text, bits);
    if has(SectionState::FOLDED) {
        dead.folded += 1;
    } else if has(SectionState::DISCARDED_BY_GROUP) {
        dead.lost_group += 1;
    } else if has(SectionState::DISCARDED_BY_SCRIPT) {
        dead.script += 1;
    } else if has(SectionState::COLLECTED) {
        dead.collected += 1;
    }
}

impl Report {
    /// The sum of kept inputs. Their dead rows count, because their bytes are in the output.
    pub fn kept(&self) -> Amount {
        self.sum(|fate| fate == Fate::Kept)
    }

    /// The sum of dropped inputs.
    pub fn dropped(&self) -> Amount {
        self.sum(|fate| !matches!(fate, Fate::Kept | Fate::Taken))
    }

    /// The sum of inputs that the linker's own blob replaces.
    pub fn taken(&self) -> Amount {
        self.sum(|fate| fate == Fate::Taken)
    }

    /// Dead rows of all kept inputs.
    pub fn dead(&self) -> Dead {
        let mut dead = Dead::default();
        self.inputs.iter().for_each(|input| dead.add(input.dead));
        dead
    }

    fn sum(&self, wanted: impl Fn(Fate) -> bool) -> Amount {
        let mut amount = Amount::default();
        let chosen = self.inputs.iter().filter(|input| wanted(input.fate));
        chosen.for_each(|input| amount.add(input.amount));
        amount
    }

    /// The totals alone, for `--stats`.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write_summary(&mut out);
        out
    }

    fn write_summary(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "sframe: mode {}", self.mode)?;
        writeln!(out, "sframe: kept {}", self.kept())?;
        writeln!(out, "sframe: dropped {}", self.dropped())?;
        if let Some(own) = &self.own {
            writeln!(out, "sframe: taken {}", self.taken())?;
            writeln!(out, "sframe: {own}")?;
        }
        let dead = self.dead();
        if dead.total() > 0 {
            writeln!(out, "sframe: dead rows for {dead}")?;
        }
        derived::write_summary(&self.derived, out)
    }
}

/// Writes structs as objects with these fields, in this order. A derive macro would do it, but would have to
/// be built first, with a parser of Rust.
macro_rules! objects {
    ($($type:ident: $($key:literal = $field:ident),+;)+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut object = serializer.serialize_struct(stringify!($type), [$($key),+].len())?;
                $(object.serialize_field($key, &self.$field)?;)+
                object.end()
            }
        }
    )+};
}

objects! {
    Amount: "sections" = sections, "blobs" = blobs, "functions" = functions, "rows" = rows, "bytes" = bytes;
    Dead: "lost_group" = lost_group, "collected" = collected, "folded" = folded, "script" = script,
        "unrelocated" = unrelocated;
    Own: "section" = section, "functions" = functions, "rows" = rows, "bytes" = bytes, "added" = added,
        "thunks" = thunks, "veneers" = veneers, "sources" = tally;
    Input: "file" = file, "section" = section, "index" = index, "text" = text, "fate" = fate,
        "versions" = versions, "amount" = amount, "dead" = dead, "taken" = taken, "findings" = findings;
    Finding: "offset" = offset, "what" = what;
}

impl Serialize for Fate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Writes the whole report as one object, totals first.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Report", 8)?;
        object.serialize_field("mode", self.mode)?;
        object.serialize_field("kept", &self.kept())?;
        object.serialize_field("dropped", &self.dropped())?;
        object.serialize_field("taken", &self.taken())?;
        object.serialize_field("dead", &self.dead())?;
        object.serialize_field("own", &self.own)?;
        object.serialize_field("inputs", &self.inputs)?;
        object.serialize_field("derived", &self.derived)?;
        object.end()
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}, {}, {}, {}",
            counted(self.sections, "section"),
            counted(self.blobs, "blob"),
            counted(self.functions, "function"),
            counted(self.rows, "row"),
            counted(self.bytes, "byte")
        )
    }
}

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.lost_group, "of discarded groups"),
            (self.collected, "collected"),
            (self.folded, "folded into equal ones"),
            (self.script, "discarded by the script"),
            (self.unrelocated, "without a relocation"),
        ];
        write!(f, "{}", counted(self.total(), "function"))?;
        let named: Vec<String> =
            parts.iter().filter(|part| part.0 > 0).map(|(count, why)| format!("{count} {why}")).collect();
        if named.is_empty() { Ok(()) } else { write!(f, " ({})", named.join(", ")) }
    }
}

/// `3 functions, 7 rows; left out 2 functions (1 collected, 1 without bytes)`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", counted(self.taken, "function"), counted(self.rows, "row"))?;
        let named: Vec<String> = self.dropped().map(|(count, _, why)| format!("{count} {why}")).collect();
        if named.is_empty() {
            return Ok(());
        }
        let count: u64 = self.dropped().map(|part| part.0).sum();
        write!(f, "; left out {} ({})", counted(count, "function"), named.join(", "))
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "made {}: {}, {}, {}",
            self.section,
            counted(self.functions, "function"),
            counted(self.rows, "row"),
            counted(self.bytes, "byte")
        )?;
        if self.added > 0 {
            write!(f, "; {} of no input", counted(self.added, "function"))?;
            let made = [(self.thunks, "thunk"), (self.veneers, "erratum veneer")];
            let made: Vec<String> =
                made.iter().filter(|made| made.0 > 0).map(|&(count, what)| counted(count, what)).collect();
            if !made.is_empty() {
                write!(f, " ({} among them)", made.join(", "))?;
            }
        }
        let named: Vec<String> =
            self.tally.dropped().map(|(count, _, why)| format!("{count} {why}")).collect();
        if named.is_empty() { Ok(()) } else { write!(f, "; left out {}", named.join(", ")) }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<String> = self.versions.iter().map(|version| format!("V{version}")).collect();
        let versions = if versions.is_empty() { "no version".to_owned() } else { versions.join(", ") };
        let Amount { functions, rows, bytes, .. } = self.amount;
        write!(
            f,
            "{}:({}){}: {}; {versions}, {}, {}, {}",
            shown(&self.file),
            shown(&self.section),
            self.text.as_ref().map_or_else(String::new, |text| format!(" of {}", shown(text))),
            self.fate.text(),
            counted(functions, "function"),
            counted(rows, "row"),
            counted(bytes, "byte")
        )?;
        if let Some(tally) = &self.taken {
            write!(f, "; in the output {tally}")?;
        }
        if self.dead.total() > 0 {
            write!(f, "; dead rows for {}", self.dead)?;
        }
        for Finding { offset, what } in &self.findings {
            write!(f, "; corrupt at {offset:#x}: {what}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for input in &self.inputs {
            writeln!(f, "sframe: {input}")?;
        }
        for derived in &self.derived {
            writeln!(f, "sframe: {derived}")?;
        }
        self.write_summary(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn report() -> Report {
        let kept = Input {
            file: "a\"b.o".into(),
            section: ".sframe".into(),
            index: 4,
            text: None,
            fate: Fate::Kept,
            versions: vec![2, 9],
            amount: Amount { sections: 1, blobs: 1, functions: 3, rows: 7, bytes: 160 },
            dead: Dead { lost_group: 1, ..Dead::default() },
            taken: None,
            findings: vec![Finding { offset: 0x40, what: "junk".into() }],
        };
        let dropped = Input {
            file: "b.o".into(),
            fate: Fate::LostGroup,
            dead: Dead::default(),
            findings: Vec::new(),
            versions: vec![3],
            amount: Amount { sections: 1, blobs: 1, functions: 1, rows: 1, bytes: 52 },
            ..kept.clone()
        };
        Report { mode: "concat", inputs: vec![kept, dropped], own: None, derived: Vec::new() }
    }

    #[test]
    fn totals_tell_kept_from_dropped() {
        let report = report();
        assert_eq!(report.kept(), Amount { sections: 1, blobs: 1, functions: 3, rows: 7, bytes: 160 });
        assert_eq!(report.dropped().bytes, 52);
        assert_eq!(report.dead().total(), 1);
        assert_eq!(
            report.to_string(),
            "sframe: a\"b.o:(.sframe): kept; V2, V9, 3 functions, 7 rows, 160 bytes; dead rows for 1 function \
             (1 of discarded groups); corrupt at 0x40: junk\n\
             sframe: b.o:(.sframe): dropped: another group of the same signature prevails; V3, 1 function, 1 row, \
             52 bytes\n\
             sframe: mode concat\n\
             sframe: kept 1 section, 1 blob, 3 functions, 7 rows, 160 bytes\n\
             sframe: dropped 1 section, 1 blob, 1 function, 1 row, 52 bytes\n\
             sframe: dead rows for 1 function (1 of discarded groups)\n"
        );
    }

    #[test]
    fn json_is_one_object_with_stable_words() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["mode"], "concat");
        assert_eq!((&json["kept"]["sections"], &json["kept"]["blobs"]), (&json!(1), &json!(1)));
        let kept = &json["inputs"][0];
        assert_eq!((&kept["file"], &kept["fate"]), (&json!("a\"b.o"), &json!("kept")));
        assert_eq!(kept["findings"], json!([{ "offset": 64, "what": "junk" }]));
        assert_eq!(json["inputs"][1]["fate"], "discarded-with-group");
        assert_eq!((&json["own"], &kept["taken"]), (&Value::Null, &Value::Null));
    }
}
