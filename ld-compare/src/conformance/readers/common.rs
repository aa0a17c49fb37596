//! Inputs and facts that cases of several topics share.

use super::super::blob::Blob;
use super::super::case::{Case, Fact, Kind, Source};
use super::dump::{Dump, ShownRules, agrees, parse};
use super::files::{CODE, FRAMES, Place, file};
use sframe_format::Abi;
use sframe_format::write::Function;

/// A case with one file.
pub(super) fn read(place: Place, family: &str, about: &str, bytes: &[u8]) -> Case {
    let mut case = Case::new(Kind::Reader, place.machine, family, about);
    case.variant = (place.abi == Abi::AArch64Big).then_some("be");
    case.file("in", file(place, bytes)).step("in", "")
}

/// Functions, and where they lie.
pub(super) type Placed = Vec<(u64, Function)>;

/// Functions one after the other, each at a multiple of 16.
pub(super) fn in_order(functions: &[Function]) -> Placed {
    let mut next = CODE;
    let place = |function: &Function| {
        let at = next;
        next = (next + u64::from(function.size)).next_multiple_of(16);
        (at, function.clone())
    };
    functions.iter().map(place).collect()
}

/// The blob with its start fields filled.
pub(super) fn at_places(blob: Blob, functions: &Placed) -> Vec<u8> {
    let addresses: Vec<u64> = functions.iter().map(|(address, _)| *address).collect();
    blob.placed(FRAMES, &addresses).bytes
}

pub(super) const OLD: Source = Source::Proposal("readers know every version");

/// The reader shows these functions with all their rows, and no others.
pub(super) fn shows(abi: Abi, functions: Placed, source: Source) -> Fact {
    let says = "every function is shown with its address, its size and its rows, and no other";
    looks("shows", says, source, move |dump| {
        for (address, function) in &functions {
            shows_one(abi, dump, *address, function)?;
        }
        match dump
            .functions
            .iter()
            .find(|shown| !functions.iter().any(|(address, _)| *address == shown.start))
        {
            Some(other) => Err(format!("a function at {:#x}", other.start)),
            None => Ok(()),
        }
    })
    .on(abi)
}

pub(super) fn shows_one(abi: Abi, dump: &Dump, address: u64, function: &Function) -> Result<(), String> {
    let found = dump.functions.iter().find(|shown| shown.start == address);
    let shown = found.ok_or_else(|| format!("nothing at {address:#x}"))?;
    if shown.size != u64::from(function.size) {
        return Err(format!("{address:#x} has {} bytes, not {}", shown.size, function.size));
    }
    if shown.rows.len() != function.rows.len() {
        return Err(format!("{address:#x} has {} rows, not {}", shown.rows.len(), function.rows.len()));
    }
    if shown.signal.is_some_and(|signal| signal != function.signal) {
        return Err(format!("{address:#x}: whether it is a signal frame"));
    }
    for (row, (start, rules)) in function.rows.iter().zip(&shown.rows) {
        if u64::from(row.start) != *start || !agrees(abi, &row.rules, rules) {
            return Err(format!("{address:#x}: {rules:?} at {start}, not {row}"));
        }
    }
    Ok(())
}

/// Looks at what is shown.
type Look = Box<dyn Fn(&Dump) -> Result<(), String> + Send + Sync>;

/// A fact about what is shown, before it is known for which machine.
pub(super) struct Looks {
    id: &'static str,
    says: &'static str,
    source: Source,
    check: Look,
}

pub(super) fn looks(
    id: &'static str,
    says: &'static str,
    source: Source,
    check: impl Fn(&Dump) -> Result<(), String> + Send + Sync + 'static,
) -> Looks {
    Looks { id, says, source, check: Box::new(check) }
}

impl Looks {
    /// The fact for readers of a machine's files. How the reader ends is another fact: some end with an error
    /// after they have shown everything.
    pub(super) fn on(self, abi: Abi) -> Fact {
        Fact::new(self.id, self.says, self.source, move |outcome| {
            (self.check)(&parse(abi, &outcome.printed)?)
        })
    }
}

/// The reader says that something is not in order: it ends with an error, writes to standard error, or shows
/// the place.
pub(super) fn tells(abi: Abi, source: Source) -> Fact {
    Fact::new("tells", "bytes that cannot be read are reported", source, move |outcome| {
        let gaps = parse(abi, &outcome.printed).is_ok_and(|dump| dump.speaks_of_gaps);
        if gaps || outcome.complained() || outcome.refused() { Ok(()) } else { Err("not a word".into()) }
    })
}

/// The reader shows no function.
pub(super) fn shows_nothing(abi: Abi, source: Source) -> Fact {
    looks("shows-nothing", "no function is shown where none can be read", source, |dump| {
        match dump
            .functions
            .iter()
            .find(|shown| shown.rows.iter().any(|row| !matches!(row.1, ShownRules::Unknown(_))))
        {
            Some(shown) => Err(format!("a function at {:#x}", shown.start)),
            None => Ok(()),
        }
    })
    .on(abi)
}
