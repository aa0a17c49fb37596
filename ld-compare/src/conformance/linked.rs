//! What a linker's output says of functions, as facts of cases.
//!
//! The facts hold of any way to link: a linker may merge blobs, put them one after the other, or make a table
//! of its own. They ask for what a walker of stacks gets: the right rules at every address of a function, and
//! none elsewhere.

use super::case::{Fact, Outcome, Source};
use crate::facts::{Section as FileSection, Segment, Symbol, View};
use object::elf;
use sframe_format::verify::{Context, Relocation, Severity, verify};
use sframe_format::write::Function;
use sframe_format::{Abi, Blob, PT_GNU_SFRAME, Rules, SHT_GNU_SFRAME, Section};

/// The output of a link, with its SFrame sections.
pub struct Linked<'data> {
    /// The file.
    pub view: View<'data>,
    /// Number and header of each section that holds SFrame data.
    pub sframe: Vec<usize>,
}

impl<'data> Linked<'data> {
    /// Reads an output.
    ///
    /// # Errors
    /// It is no ELF file.
    pub fn parse(bytes: &'data [u8]) -> Result<Self, String> {
        let view = View::parse(bytes).map_err(|error| format!("the output is not readable: {error}"))?;
        let is_sframe = |section: &FileSection<'_>| {
            let named = section.name == ".sframe" || section.name.starts_with(".sframe_idx");
            section.size > 0 && (section.kind == SHT_GNU_SFRAME || named)
        };
        let rows = view.sections.iter().enumerate();
        let sframe = rows.filter(|(_, section)| is_sframe(section)).map(|(row, _)| row).collect();
        Ok(Linked { view, sframe })
    }

    /// The SFrame sections.
    pub fn sections(&self) -> impl Iterator<Item = &FileSection<'data>> {
        self.sframe.iter().map(|&row| &self.view.sections[row])
    }

    /// Every blob of every section.
    pub fn blobs(&self) -> Vec<Blob<'data>> {
        self.sections().flat_map(|section| Section::new(section.data, section.address).blobs()).collect()
    }

    /// Address of a symbol that is defined.
    pub fn address(&self, name: &str) -> Option<u64> {
        let is = |symbol: &&Symbol| symbol.name == name && symbol.is_defined();
        self.view.symbols.iter().find(is).map(|symbol| symbol.value)
    }

    /// The rules at an address: those of all blobs, so that a contradiction shows.
    ///
    /// # Errors
    /// A blob that claims the address cannot be read there.
    pub fn rules(&self, address: u64) -> Result<Vec<(Rules, bool)>, String> {
        let mut found = Vec::new();
        for blob in self.blobs() {
            match blob.lookup(address) {
                Ok(Some(hit)) => found.push((hit.row.rules, hit.is_signal())),
                Ok(None) => {}
                Err(error) => return Err(format!("rows at {address:#x} are not readable: {error}")),
            }
        }
        Ok(found)
    }
}

/// The rules that a function has at an offset.
pub fn rules_at(function: &Function, offset: u32) -> Option<Rules> {
    let offset = match function.repeat_size {
        Some(block) if block > 0 => offset % u32::from(block),
        _ => offset,
    };
    function.rows.iter().rev().find(|row| row.start <= offset).map(|row| row.rules)
}

/// A function that a case expects in an output.
pub type Expected = (String, Function);

/// Functions with the rows that [`super::blob::function`] gives them.
pub fn expected(abi: Abi, names: &[&str]) -> Vec<Expected> {
    names.iter().map(|name| ((*name).to_owned(), super::blob::function(abi, name))).collect()
}

/// Checks that an output describes a function as its input did.
///
/// # Errors
/// It does not; the error says where.
pub fn describes(linked: &Linked<'_>, name: &str, function: &Function) -> Result<(), String> {
    let address = linked.address(name).ok_or_else(|| format!("{name} is not in the output"))?;
    for offset in 0..function.size {
        let found = linked.rules(address + u64::from(offset))?;
        let wanted = rules_at(function, offset);
        let said = found.first().map(|(rules, _)| *rules);
        if said != wanted {
            let text = |rules: Option<Rules>| rules.map_or("no rules".into(), |rules| rules.to_string());
            return Err(format!("{name}+{offset}: {}, not {}", text(said), text(wanted)));
        }
        if found.iter().any(|(rules, signal)| Some(*rules) != wanted || *signal != function.signal) {
            return Err(format!("{name}+{offset}: two answers, or another kind of frame"));
        }
    }
    Ok(())
}

fn sframe(place: &'static str) -> Source {
    Source::Sframe(place)
}

/// Looks at the last output as a linked file.
pub fn look(
    id: &'static str,
    says: &'static str,
    source: Source,
    check: impl Fn(&Linked<'_>, &Outcome) -> Result<(), String> + Send + Sync + 'static,
) -> Fact {
    Fact::new(id, says, source, move |outcome| check(&Linked::parse(outcome.last()?)?, outcome))
}

/// The link succeeds.
pub fn links() -> Fact {
    let source = Source::Gabi("ch. 4, Sections: unknown types are combined by the rules for their flags");
    Fact::new("links", "objects in order link", source, |outcome| outcome.last().map(|_| ()))
}

/// Functions of the inputs that are in the output have their rows there.
pub fn described(functions: Vec<Expected>) -> Fact {
    let says = "every function that an input describes and the output holds has the same rules there";
    look(
        "described",
        says,
        sframe("Frame Row Entries: a row covers its range of its function"),
        move |linked, _| functions.iter().try_for_each(|(name, function)| describes(linked, name, function)),
    )
}

/// No blob describes anything but these functions and the linker's own code.
pub fn nothing_else(names: &[&str]) -> Fact {
    let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
    let says = "no row stands for an address that is not in a function of the output";
    let source = sframe("Function Descriptor Entries: the start is the function's address in the output");
    look("nothing-else", says, source, move |linked, _| {
        let live: Vec<u64> = names.iter().filter_map(|name| linked.address(name)).collect();
        for blob in linked.blobs() {
            for fde in blob.fdes().filter(|fde| fde.size > 0 && !live.contains(&fde.address)) {
                let place =
                    linked.view.section_at(fde.address).map_or("no section", |(_, section)| &section.name);
                if !is_for_calls(place) && !is_veneer(linked, &live, fde.address) {
                    return Err(format!(
                        "{:#x} (in {place}), {} bytes, is no function",
                        fde.address, fde.size
                    ));
                }
            }
        }
        Ok(())
    })
}

/// Whether a section holds code that the linker makes for calls into libraries.
fn is_for_calls(name: &str) -> bool {
    name.starts_with(".plt") || name.starts_with(".iplt")
}

/// Whether an address is that of a veneer between functions: code outside all of them, with a symbol.
fn is_veneer(linked: &Linked<'_>, live: &[u64], address: u64) -> bool {
    let code = linked
        .view
        .section_at(address)
        .is_some_and(|(_, section)| section.flags & u64::from(elf::SHF_EXECINSTR) != 0);
    let inside = linked.view.symbols.iter().any(|symbol| {
        symbol.kind == elf::STT_FUNC
            && symbol.is_defined()
            && live.contains(&symbol.value)
            && (symbol.value..symbol.value + symbol.size).contains(&address)
    });
    let named = linked.view.symbols.iter().any(|symbol| symbol.value == address && symbol.is_defined());
    code && !inside && named
}

/// The bytes keep the format's own rules.
pub fn sound() -> Fact {
    let says =
        "every blob keeps the format: counts, lengths, order of rows, reserved bits, addresses in code";
    look("sound", says, sframe("SFrame Header and Function Descriptor Entries"), |linked, _| {
        let text: Vec<_> = linked
            .view
            .sections
            .iter()
            .filter(|section| section.is_alloc() && section.flags & u64::from(elf::SHF_EXECINSTR) != 0)
            .map(|section| section.address..section.address + section.size)
            .collect();
        let abi = Abi::from_elf(linked.view.machine, linked.view.big);
        for (&row, section) in linked.sframe.iter().zip(linked.sections()) {
            let relocations = relocations(&linked.view, row);
            let context = if linked.view.is_relocatable() {
                Context { abi, relocations: Some(&relocations), ..Context::default() }
            } else {
                Context { abi, text: &text, ..Context::default() }
            };
            let findings = verify(&Section::new(section.data, section.address), &context);
            if let Some(finding) = findings.iter().find(|finding| finding.kind.severity() == Severity::Error)
            {
                return Err(format!("{}: {finding}", section.name));
            }
        }
        Ok(())
    })
}

/// The relocations of a section, for the verifier.
fn relocations(view: &View<'_>, section: usize) -> Vec<Relocation> {
    let of = view.relocations.iter().filter(|(row, _)| view.sections[*row].info as usize == section);
    of.flat_map(|(_, records)| records)
        .filter(|record| record.kind != 0)
        .map(|record| Relocation { offset: record.offset, kind: record.kind })
        .collect()
}

/// Described, nothing else, sound: what almost every final link must keep.
pub fn right(abi: Abi, names: &[&str]) -> Vec<Fact> {
    vec![links(), described(expected(abi, names)), nothing_else(names), sound()]
}

/// A function is not in the output.
pub fn gone(name: &'static str, source: Source) -> Fact {
    look("gone", "text that nothing needs is not in the output", source, move |linked, _| {
        match linked.address(name) {
            Some(_) => Err(format!("{name} is in the output")),
            None => Ok(()),
        }
    })
}

/// The output has no SFrame section, or only empty ones.
pub fn no_section(source: Source) -> Fact {
    look("no-section", "the output has no SFrame section", source, |linked, _| {
        linked.sections().next().map_or(Ok(()), |section| Err(format!("{} is there", section.name)))
    })
}

/// The type of the section.
pub fn has_type() -> Fact {
    let source = sframe("SFrame Section: the type is SHT_GNU_SFRAME");
    look("type", "the output section has the type SHT_GNU_SFRAME", source, |linked, _| {
        if linked.sframe.is_empty() {
            return Err("no SFrame section".into());
        }
        match linked.sections().find(|section| section.kind != SHT_GNU_SFRAME) {
            Some(section) => Err(format!("{} has the type {:#x}", section.name, section.kind)),
            None => Ok(()),
        }
    })
}

/// The section is loaded.
pub fn is_loaded() -> Fact {
    let source = sframe("Overview: the section is a loaded one");
    look("loaded", "the output section is part of memory", source, |linked, _| {
        match linked.sections().find(|section| !section.is_alloc() || section.address == 0) {
            Some(section) => Err(format!("{} is not loaded", section.name)),
            None if linked.sframe.is_empty() => Err("no SFrame section".into()),
            None => Ok(()),
        }
    })
}

/// Blobs stand at multiples of 8.
pub fn aligned() -> Fact {
    let source = Source::Gabi("ch. 4, Section Header: sh_addralign");
    look("aligned", "the section and every input in it stand at a multiple of 8", source, |linked, _| {
        for section in linked.sections() {
            let blobs = Section::new(section.data, section.address);
            if let Some(blob) = blobs.blobs().find(|blob| !blob.address().is_multiple_of(8)) {
                return Err(format!("a blob of {} is at {:#x}", section.name, blob.address()));
            }
        }
        if linked.sframe.is_empty() { Err("no SFrame section".into()) } else { Ok(()) }
    })
}

/// The program header.
pub fn segment() -> Fact {
    let source = sframe("Overview: the section is in a segment of its own, PT_GNU_SFRAME");
    let says = "one PT_GNU_SFRAME covers exactly the section that readers shall use";
    look("segment", says, source, |linked, _| {
        let mut segments = linked.view.segments.iter().filter(|segment| segment.kind == PT_GNU_SFRAME);
        let Some(segment) = segments.next() else { return Err("no PT_GNU_SFRAME".into()) };
        if segments.next().is_some() {
            return Err("two of them".into());
        }
        let covers =
            |section: &&FileSection<'_>| (section.address, section.size) == (segment.address, segment.size);
        let found = linked.sections().find(covers);
        found.map(|_| ()).ok_or_else(|| {
            let sections: Vec<String> = linked
                .sections()
                .map(|section| {
                    format!("{} at {:#x}, {:#x} bytes", section.name, section.address, section.size)
                })
                .collect();
            format!("it covers {:#x} bytes at {:#x}; {}", segment.size, segment.address, sections.join("; "))
        })
    })
}

/// The segment is readable and inside one that is loaded.
pub fn segment_is_loaded() -> Fact {
    let source = sframe("Overview: a loaded section, in a segment of its own");
    look("segment-loaded", "PT_GNU_SFRAME is readable, and inside a PT_LOAD", source, |linked, _| {
        let find = |kind| move |segment: &&Segment| segment.kind == kind;
        let Some(segment) = linked.view.segments.iter().find(find(PT_GNU_SFRAME)) else {
            return Err("no PT_GNU_SFRAME".into());
        };
        let mut loads = linked.view.segments.iter().filter(find(elf::PT_LOAD));
        let inside = loads.any(|load| {
            load.address <= segment.address && segment.address + segment.size <= load.address + load.size
        });
        match (inside, segment.flags & elf::PF_R != 0) {
            (true, true) => Ok(()),
            (false, _) => Err("it is in no PT_LOAD".into()),
            (true, false) => Err(format!("its flags are {:#x}", segment.flags)),
        }
    })
}

/// The flag SORTED says the truth, and says it only where a reader of one blob sees everything.
pub fn sorted_is_true() -> Fact {
    let source = sframe("SFrame Flags: SFRAME_F_FDE_SORTED, sorted on PC");
    look("sorted-is-true", "a blob that is marked sorted ascends by address", source, |linked, _| {
        for blob in linked.blobs().iter().filter(|blob| blob.header().is_sorted()) {
            let live: Vec<u64> = blob.fdes().filter(|fde| fde.size > 0).map(|fde| fde.address).collect();
            if !live.is_sorted() {
                return Err(format!("the blob at {:#x} is marked and does not ascend", blob.address()));
            }
        }
        Ok(())
    })
}

/// Readers of one blob are not misled.
pub fn one_blob_or_unsorted() -> Fact {
    let source = Source::Proposal("SFrame rule 4: SORTED stays only where the section holds one blob");
    let says = "a reader that bisects the first blob sees every function, or is told not to";
    look("one-blob-or-unsorted", says, source, |linked, _| {
        for section in linked.sections() {
            let blobs: Vec<_> = Section::new(section.data, section.address).blobs().collect();
            if blobs.len() > 1 && blobs.iter().any(|blob| blob.header().is_sorted()) {
                return Err(format!("{} has {} blobs, and one is marked sorted", section.name, blobs.len()));
            }
        }
        Ok(())
    })
}

/// Either the link is refused, or what `then` wants holds.
pub fn refused_or(source: Source, then: Vec<Fact>) -> Fact {
    let says = "the link is refused with a message, or its output is right";
    Fact::new("refused-or-right", says, source, move |outcome| {
        if outcome.refused() && outcome.complained() {
            return Ok(());
        }
        then.iter()
            .try_for_each(|fact| (fact.check)(outcome).map_err(|found| format!("{}: {found}", fact.id)))
    })
}

/// The tool says something, whatever words it has.
pub fn complains(source: Source) -> Fact {
    Fact::new("complains", "nothing is dropped or passed over in silence", source, |outcome| {
        if outcome.complained() || outcome.refused() { Ok(()) } else { Err("not a word".into()) }
    })
}

/// The tool says nothing.
pub fn silent(source: Source) -> Fact {
    Fact::new("silent", "what is in order causes no message", source, |outcome| {
        if outcome.status.is_success() && !outcome.complained() {
            return Ok(());
        }
        Err(outcome.messages.lines().next().unwrap_or("it failed").to_owned())
    })
}

/// It ends by itself.
pub fn survives(source: Source) -> Fact {
    Fact::new("survives", "the tool ends by itself, not by a signal or a time limit", source, |outcome| {
        match outcome.status {
            crate::run::Status::Exit(code) if code < 128 => Ok(()),
            other => Err(other.to_string()),
        }
    })
}
