//! `--sframe-split`: gives an object the section table that it would have if the assembler had split its
//! `.sframe`.
//!
//! The linker copies only the section headers of the file. New sections and the groups that have grown lie in
//! bytes of the link's own ([`ObjectFile::made`]), and headers refer to these like to all others. So later
//! passes need not know of the split.

use crate::arch::Target;
use crate::cli::{Config, SFrameMode};
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::{Rela, Shdr, consts as elf, whole_table};
use crate::ids::SectionId;
use crate::input::object::{SymbolPlace, section_range};
use crate::input::sframe::is_input;
use crate::input::{InputStore, ObjectFile};
use crate::phase::Inputs;
use sframe_format::{HEADER_SIZE, Piece, Section};
use sframe_sections::split::{Defect, Form, Plan, Ties};
use zerocopy::IntoBytes;
use zerocopy::byteorder::{ByteOrder, U32, U64};

/// Size in bytes of the copy of a group that gets two members: the flag word, one old member and the two new
/// ones.
const GROWTH_OF_GROUP: usize = 16;

/// Whether the linker splits inputs. A split has no effect if the linker drops inputs, or reads them function
/// by function for its own table.
pub fn is_wanted(config: &Config) -> bool {
    config.sframe.split && config.sframe.mode == SFrameMode::Concat && !config.sframe.replaces_inputs()
}

/// Whether `--sframe-split`, which was not given, would keep a section from referring to discarded text. It
/// would if the section contains only SFrame of known versions.
pub fn would_help<T: Target>(link: &Inputs<'_, T>, section: SectionId) -> bool {
    let Some((object, index)) = link.locate(section) else { return false };
    let bytes = object.section_bytes(index as usize).unwrap_or_default();
    !link.config.sframe.split
        && is_input(object, index as usize)
        && Section::new(bytes, 0).pieces().all(|piece| matches!(piece, Piece::Blob(_)))
}

/// Splits the monolithic SFrame sections of an object. `order` is the object's place in the link. A section
/// that cannot be split stays whole, with a warning, unless `check_sframes` will report it as corrupt.
/// `index_objects` calls this before it reads the section headers.
pub fn split<'a, E: ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    store: &'a InputStore,
    order: u32,
) -> Vec<Diagnostic> {
    let frames: Vec<u32> = (1..object.headers.len())
        .filter(|&index| is_input(object, index) && object.headers[index].sh_size.get() > 0)
        .map(|index| index as u32)
        .collect();
    // `index_objects` rejects a file with sections outside of it. The bytes that this function adds must not
    // make such offsets valid.
    let is_inside = |header: &Shdr<E>| section_range(object.bytes, header).is_some();
    if frames.is_empty() || !object.headers.iter().all(is_inside) {
        return Vec::new();
    }
    let mut edit = Edit::new(object);
    let mut findings = Vec::new();
    for frame in frames {
        if let Err(defect) = edit.split(frame) {
            findings.extend(finding(object, frame, &defect, order));
        }
    }
    if !edit.made.is_empty() {
        edit.extend_groups();
        let Edit { headers, made, .. } = edit;
        object.headers = whole_table(store.keep(headers.as_bytes()));
        object.made = store.keep(made);
    }
    findings
}

fn finding<E: ByteOrder>(
    object: &ObjectFile<'_, E>,
    frame: u32,
    defect: &Defect,
    order: u32,
) -> Option<Diagnostic> {
    let diagnostic = match (defect.unknown_version(), defect) {
        (Some(found), _) => {
            Diagnostic::warning(Code::SFrameVersion, format!("SFrame data of unknown version {found}"))
        }
        (None, Defect::Format(_)) => return None,
        (None, _) => Diagnostic::warning(Code::SFrameCorrupt, format!("corrupt SFrame data: {defect}")),
    };
    let location = Location::Section {
        file: object.name.to_string(),
        section: object.section_name_lossy(frame as usize),
        offset: defect.offset(),
    };
    let note = "--sframe-split cannot split the section; it stays whole";
    Some(diagnostic.at(location).note(note).ordered(order, frame, defect.offset()))
}

/// Changes to the sections of an object.
struct Edit<'o, 'a, E: ByteOrder> {
    object: &'o ObjectFile<'a, E>,
    headers: Vec<Shdr<E>>,
    made: Vec<u8>,
    /// By section: the relocation section that applies to it, or 0.
    relocations: Vec<u32>,
    /// By section: the group that it is a member of, or 0.
    groups: Vec<u32>,
    /// Pairs of a group and its new member.
    members: Vec<(u32, u32)>,
}

impl<'o, 'a, E: ByteOrder> Edit<'o, 'a, E> {
    fn new(object: &'o ObjectFile<'a, E>) -> Self {
        let count = object.headers.len();
        let (mut relocations, mut groups) = (vec![0; count], vec![0; count]);
        let set = |table: &mut Vec<u32>, row: u32, value: usize| {
            if let Some(slot) = table.get_mut(row as usize) {
                *slot = value as u32;
            }
        };
        for (index, header) in object.headers.iter().enumerate() {
            match header.sh_type.get() {
                elf::SHT_RELA => set(&mut relocations, header.sh_info.get(), index),
                elf::SHT_GROUP => {
                    let words: &[U32<E>] = whole_table(object.section_bytes(index).unwrap_or_default());
                    words.iter().skip(1).for_each(|member| set(&mut groups, member.get(), index));
                }
                _ => {}
            }
        }
        Edit {
            object,
            headers: object.headers.to_vec(),
            made: Vec::new(),
            relocations,
            groups,
            members: Vec::new(),
        }
    }

    fn group_of(&self, section: u32) -> Option<u32> {
        self.groups.get(section as usize).copied().filter(|&group| group != 0)
    }

    fn split(&mut self, frame: u32) -> Result<(), Defect> {
        let object = self.object;
        let table = self.relocations[frame as usize];
        if table == 0 {
            return Ok(());
        }
        let bytes = |index: u32| object.section_bytes(index as usize).unwrap_or_default();
        let relocations: &[Rela<E>] = whole_table(bytes(table));
        let section_of = |symbol: u32| match object.symbol_place(symbol as usize) {
            _ if symbol as usize >= object.symbols.len() => Err("refers to a symbol that does not exist"),
            SymbolPlace::Section(section) => Ok(Some(section)),
            _ => Ok(None),
        };
        let mut plan = Plan::of(bytes(frame), relocations, Form::Same, section_of)?;
        let header = object.headers[frame as usize];
        let linked = header.sh_flags.get() & elf::SHF_LINK_ORDER != 0;
        let ties = Ties { link: linked.then(|| header.sh_link.get()), group: self.group_of(frame) };
        if plan.parts.is_empty() || plan.is_in_shape(ties, |text| self.group_of(text)) {
            return Ok(());
        }
        plan.put_first(ties.group, |text| self.group_of(text))?;
        let (length, count) = (self.made.len(), self.headers.len());
        let result = self.put_parts(&plan, frame, table);
        if result.is_err() {
            self.made.truncate(length);
            self.headers.truncate(count);
            self.headers[frame as usize] = header;
            self.headers[table as usize] = object.headers[table as usize];
            self.members.retain(|(_, member)| (*member as usize) < count);
        }
        result
    }

    fn put_parts(&mut self, plan: &Plan<'_, E>, frame: u32, table: u32) -> Result<(), Defect> {
        let (old, old_table) = (self.headers[frame as usize], self.headers[table as usize]);
        let mut numbers = Some((frame, table));
        // Close to the final size: a part adds a header, but its rows come out of the old section.
        let sizes = [old.sh_size.get(), old_table.sh_size.get()].map(|size| size as usize);
        self.made.reserve(sizes[0] + sizes[1] + plan.parts.len() * (HEADER_SIZE + GROWTH_OF_GROUP));
        self.headers.reserve_exact(2 * plan.parts.len());
        for part in &plan.parts {
            let group = part.text.and_then(|text| self.group_of(text));
            let (mut section, mut relocations) = (old, old_table);
            section.set_flags(elf::SHF_LINK_ORDER, part.text.is_some());
            section.sh_link.set(part.text.unwrap_or(0));
            section.sh_addralign.set(part.alignment());
            for header in [&mut section, &mut relocations] {
                header.set_flags(elf::SHF_GROUP, group.is_some());
            }
            let start = self.made.len();
            let moved = plan.write(part, &mut self.made)?;
            let end = self.made.len();
            self.made.extend_from_slice(moved.as_bytes());
            self.place(&mut section, start, end);
            self.place(&mut relocations, end, self.made.len());
            let Some((frame, table)) = numbers.take() else {
                relocations.sh_info.set(self.headers.len() as u32);
                self.headers.push(section);
                self.headers.push(relocations);
                self.join(group, self.headers.len() as u32 - 2);
                continue;
            };
            (self.headers[frame as usize], self.headers[table as usize]) = (section, relocations);
        }
        Ok(())
    }

    /// Makes a section and its relocation section, which has the next number, members of a group.
    fn join(&mut self, group: Option<u32>, section: u32) {
        if let Some(group) = group {
            self.members.extend([(group, section), (group, section + 1)]);
        }
    }

    /// Points a header at bytes of [`ObjectFile::made`].
    fn place(&self, header: &mut Shdr<E>, start: usize, end: usize) {
        header.sh_offset = U64::new((self.object.bytes.len() + start) as u64);
        header.sh_size = U64::new((end - start) as u64);
    }

    fn extend_groups(&mut self) {
        let mut members = std::mem::take(&mut self.members);
        members.sort_unstable();
        for added in members.chunk_by(|a, b| a.0 == b.0) {
            let group = added[0].0 as usize;
            let start = self.made.len();
            self.made.extend_from_slice(self.object.section_bytes(group).unwrap_or_default());
            added.iter().for_each(|(_, member)| self.made.extend(U32::<E>::new(*member).to_bytes()));
            let mut header = self.headers[group];
            self.place(&mut header, start, self.made.len());
            self.headers[group] = header;
        }
    }
}
