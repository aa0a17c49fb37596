//! Section groups (gABI, "Section Groups").
//!
//! A group has a signature and members. Of the COMDAT groups with one signature, the first prevails, and all
//! members of the others are discarded. The members of a group that is kept live and die together.

use super::object::ObjectFile;
use crate::elf::consts as elf;
use crate::elf::whole_table;
use crate::ids::FileId;
use parallel::ParallelSlice;
use zerocopy::byteorder::{ByteOrder, U32};

/// `GRP_COMDAT`.
pub const GRP_COMDAT: u32 = 1;
const GRP_MASKOS: u32 = 0x0ff0_0000;
const GRP_MASKPROC: u32 = 0xf000_0000;

/// The group that one `SHT_GROUP` section of an object describes.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Section header index of the group itself.
    pub section: u32,
    /// Index of the signature symbol.
    pub signature_symbol: u32,
    /// Name of the signature.
    pub signature: &'a [u8],
    /// Flag word.
    pub flags: u32,
    /// Section header indices of the members. All of them exist, and none occurs twice.
    pub members: Vec<u32>,
}

impl Group<'_> {
    /// Whether only one group of this signature is kept.
    pub fn is_comdat(&self) -> bool {
        self.flags & GRP_COMDAT != 0
    }
}

/// The groups of all objects, with the prevailing one of each signature.
#[derive(Default)]
pub struct GroupTable<'a> {
    /// By [`FileId`]: the groups of that object.
    pub by_file: Vec<Vec<GroupEntry<'a>>>,
    /// By [`FileId`], then by section header index: one more than the row of the section's group in
    /// `by_file`, or 0 if it is in no group. Empty for objects without groups.
    group_of: Vec<Vec<u32>>,
}

/// A group, prevailing or discarded.
#[derive(Clone, Debug)]
pub struct GroupEntry<'a> {
    /// The group as its file declares it.
    pub group: Group<'a>,
    /// The file of the prevailing group. It is the group's own file if this group prevails.
    pub prevailing: FileId,
    /// The header index of the prevailing group's own section; 0 if what prevails is no group.
    pub prevailing_section: u32,
    /// Whether this group is discarded.
    pub discarded: bool,
}

impl<'a> GroupTable<'a> {
    /// A table of the groups of all objects, by file.
    pub fn new<E: ByteOrder + Sync>(
        by_file: Vec<Vec<GroupEntry<'a>>>,
        objects: &[ObjectFile<'a, E>],
    ) -> Self {
        let rows = by_file.par_iter().zip(objects);
        let group_of = rows.map(|(groups, object)| rows_by_section(groups, object.headers.len())).collect();
        GroupTable { by_file, group_of }
    }

    /// The group that prevails over a discarded one; `None` if what prevails is no group.
    pub fn prevailing(&self, lost: &GroupEntry<'_>) -> Option<&GroupEntry<'a>> {
        // The groups of a file are in the order of their sections.
        let entries = self.by_file.get(lost.prevailing.index())?;
        let row = entries.binary_search_by_key(&lost.prevailing_section, |entry| entry.group.section).ok()?;
        Some(&entries[row])
    }

    /// The group that a section (by header index) is a member of.
    pub fn of_section(&self, file: FileId, section: u32) -> Option<&GroupEntry<'a>> {
        let row = *self.group_of.get(file.index())?.get(section as usize)?;
        self.by_file[file.index()].get(row.checked_sub(1)? as usize)
    }
}

fn rows_by_section(entries: &[GroupEntry<'_>], sections: usize) -> Vec<u32> {
    if entries.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![0; sections];
    for (row, entry) in entries.iter().enumerate() {
        for &member in &entry.group.members {
            rows[member as usize] = row as u32 + 1;
        }
    }
    rows
}

/// Reads all groups of an object. Returns the sound groups, and an error text for each broken one.
pub fn groups<'a, E: ByteOrder>(object: &ObjectFile<'a, E>) -> (Vec<Group<'a>>, Vec<String>) {
    let mut found = Vec::new();
    let mut findings = Vec::new();
    let mut owner: Vec<u32> = Vec::new();
    for (index, header) in object.headers.iter().enumerate() {
        if header.sh_type.get() != elf::SHT_GROUP {
            continue;
        }
        if owner.is_empty() {
            owner = vec![0; object.headers.len()];
        }
        match group(object, index as u32, &mut owner) {
            Ok(group) => found.push(group),
            Err(what) => findings.push(format!("section group [{index}]: {what}")),
        }
    }
    (found, findings)
}

fn group<'a, E: ByteOrder>(
    object: &ObjectFile<'a, E>,
    section: u32,
    owner: &mut [u32],
) -> Result<Group<'a>, String> {
    let header = &object.headers[section as usize];
    let bytes = object.section_bytes(section as usize).map_err(|malformed| malformed.what)?;
    if bytes.len() % 4 != 0 || bytes.is_empty() {
        return Err(format!("it has {} bytes, expected a flag word and a word for each member", bytes.len()));
    }
    let words: &[U32<E>] = whole_table(bytes);
    let flags = words[0].get();
    let unknown = flags & !(GRP_COMDAT | GRP_MASKOS | GRP_MASKPROC);
    if unknown != 0 {
        return Err(format!(
            "flag word {flags:#x} has unknown bits {unknown:#x}, expected GRP_COMDAT (1) or 0"
        ));
    }
    let signature_symbol = header.sh_info.get();
    if header.sh_link.get() != object.symtab_index || signature_symbol as usize >= object.symbols.len() {
        return Err(format!("its signature symbol {signature_symbol} does not exist"));
    }
    let mut members = Vec::with_capacity(words.len() - 1);
    for word in &words[1..] {
        let member = word.get();
        let Some(owner) = owner.get_mut(member as usize).filter(|_| member != 0) else {
            return Err(format!(
                "member {member} does not exist, the file has {} sections",
                object.headers.len()
            ));
        };
        if object.headers[member as usize].sh_type.get() == elf::SHT_GROUP {
            return Err(format!("member {member} is itself a section group"));
        }
        if *owner != 0 {
            return Err(format!(
                "member {member} ({}) is already a member of group [{owner}]",
                object.section_name_lossy(member as usize)
            ));
        }
        *owner = section;
        members.push(member);
    }
    let signature = signature_name(object, signature_symbol);
    Ok(Group { section, signature_symbol, signature, flags, members })
}

/// The name of the signature: the symbol's name. Old assemblers used the unnamed symbol of a section; then it
/// is the section's name.
fn signature_name<'a, E: ByteOrder>(object: &ObjectFile<'a, E>, symbol: u32) -> &'a [u8] {
    let name = object.symbol_name(symbol as usize);
    let sym = &object.symbols[symbol as usize];
    if name.is_empty() && sym.kind() == elf::STT_SECTION {
        return object.section_name(sym.st_shndx.get().into());
    }
    name
}
