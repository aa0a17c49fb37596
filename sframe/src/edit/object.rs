//! A relocatable object: which section defines each symbol, and which group and relocations each section has.

use super::image::Image;
use super::sections::Sections;
use crate::{Problem, addends};
use elf::{Rela, Shdr, Sym, consts, whole_table};
use std::collections::{BTreeMap, HashMap};
use zerocopy::IntoBytes;
use zerocopy::byteorder::{ByteOrder, U32, U64};

/// Symbols, groups and relocation sections of an object.
pub struct Object<'image, 'data, E: ByteOrder> {
    /// The file.
    pub image: &'image Image<'data, E>,
    symbols: &'data [Sym<E>],
    /// Section numbers that do not fit `st_shndx` (`SHT_SYMTAB_SHNDX`).
    wide: &'data [U32<E>],
    /// The group of each section that belongs to one.
    pub groups: HashMap<usize, usize>,
    /// The relocation section of each section that has one.
    pub relocations: HashMap<usize, usize>,
    /// The relocation sections without addends, in the same form.
    without_addends: HashMap<usize, usize>,
}

impl<'image, 'data, E: ByteOrder> Object<'image, 'data, E> {
    /// Reads symbols, groups and relocation sections.
    ///
    /// # Errors
    /// One of them lies outside the file, or an SFrame section has two relocation sections.
    pub fn read(image: &'image Image<'data, E>) -> Result<Self, Problem> {
        let (mut symbols, mut wide): (&[Sym<E>], &[U32<E>]) = (&[], &[]);
        let (mut groups, mut relocations) = (HashMap::new(), HashMap::new());
        let mut without_addends = HashMap::new();
        for (index, section) in image.sections.iter().enumerate() {
            match section.sh_type.get() {
                consts::SHT_SYMTAB => symbols = whole_table(image.data(index)?),
                consts::SHT_SYMTAB_SHNDX => wide = whole_table(image.data(index)?),
                consts::SHT_RELA => {
                    let target = section.sh_info.get() as usize;
                    if relocations.insert(target, index).is_some() && image.is_sframe(target) {
                        let message = format!("{} has two relocation sections", image.shown(target));
                        return Err(image.problem(message));
                    }
                }
                consts::SHT_REL => drop(without_addends.insert(section.sh_info.get() as usize, index)),
                consts::SHT_GROUP => {
                    let words: &[U32<E>] = whole_table(image.data(index)?);
                    groups.extend(words.iter().skip(1).map(|member| (member.get() as usize, index)));
                }
                _ => {}
            }
        }
        Ok(Self { image, symbols, wide, groups, relocations, without_addends })
    }

    /// The relocations of a section with frames; `None` if it has none.
    ///
    /// # Errors
    /// They lie outside the file, or have no addends.
    pub fn relocations_of(&self, section: usize) -> Result<Option<&'data [Rela<E>]>, Problem> {
        let image = self.image;
        if let Some(&found) = self.without_addends.get(&section) {
            let message = addends::missing(&image.shown(section));
            return Err(image.problem(format!("{}: {message}", image.shown(found))));
        }
        let table = self.relocations.get(&section).map(|&table| image.data(table)).transpose()?;
        Ok(table.map(whole_table))
    }

    /// The section that defines a symbol; `None` for undefined, absolute and common symbols.
    ///
    /// # Errors
    /// The symbol or its section does not exist.
    pub fn section_of(&self, symbol: u32) -> Result<Option<usize>, Problem> {
        let problem = |what: &str| self.image.problem(format!("malformed ELF file: symbol {symbol} {what}"));
        let entry = self.symbols.get(symbol as usize).ok_or_else(|| problem("does not exist"))?;
        let section = match entry.st_shndx.get() {
            consts::SHN_XINDEX => {
                let wide = self.wide.get(symbol as usize);
                wide.ok_or_else(|| problem("has no section number"))?.get() as usize
            }
            consts::SHN_UNDEF | consts::SHN_LORESERVE.. => return Ok(None),
            index => index.into(),
        };
        if section >= self.image.sections.len() {
            return Err(problem("is in a section that does not exist"));
        }
        Ok(Some(section))
    }
}

/// The frames of one text section: an SFrame section and its relocations.
pub struct Frames<E: ByteOrder> {
    /// The text section; `None` if the frames belong to no section.
    pub text: Option<usize>,
    /// Bytes of the SFrame section.
    pub contents: Vec<u8>,
    /// Its relocations.
    pub relocations: Vec<Rela<E>>,
    /// Its alignment in bytes.
    pub alignment: u64,
}

/// The headers of an SFrame section and of its relocation section, and their numbers.
#[derive(Clone, Copy)]
pub struct Pair<E: ByteOrder> {
    /// Header of the SFrame section.
    pub section: Shdr<E>,
    /// Header of the relocation section.
    pub relocations: Shdr<E>,
    /// The numbers that the two sections get; `None` adds them after all other sections.
    pub numbers: Option<(usize, usize)>,
}

/// New members of section groups, by group.
#[derive(Default)]
pub struct Members(BTreeMap<usize, Vec<u32>>);

impl Members {
    /// Adds the members to the contents of their groups.
    ///
    /// # Errors
    /// A group lies outside the file.
    pub fn write<E: ByteOrder>(
        self,
        edit: &mut Sections<'_, '_, E>,
        image: &Image<'_, E>,
    ) -> Result<(), Problem> {
        for (group, members) in self.0 {
            let mut contents = image.data(group)?.to_vec();
            let members: Vec<U32<E>> = members.into_iter().map(U32::new).collect();
            contents.extend_from_slice(members.as_bytes());
            edit.replace(group, contents);
        }
        Ok(())
    }
}

impl<'image, 'data, E: ByteOrder> Object<'image, 'data, E> {
    /// The group that the frames of a text section must join.
    pub fn group_of(&self, text: Option<usize>) -> Option<usize> {
        text.and_then(|text| self.groups.get(&text).copied())
    }

    /// Puts frames into the object. They are linked to their text section (`SHF_LINK_ORDER`) and join its
    /// group.
    pub fn put_frames(
        &self,
        edit: &mut Sections<'image, 'data, E>,
        members: &mut Members,
        pair: Pair<E>,
        frames: Frames<E>,
    ) {
        let group = self.group_of(frames.text);
        let Pair { mut section, mut relocations, numbers } = pair;
        section.set_flags(consts::SHF_LINK_ORDER, frames.text.is_some());
        section.sh_link = U32::new(frames.text.unwrap_or(0) as u32);
        section.sh_addralign = U64::new(frames.alignment);
        for header in [&mut section, &mut relocations] {
            header.set_flags(consts::SHF_GROUP, group.is_some());
        }
        let table = frames.relocations.as_bytes().to_vec();
        let numbers = match numbers {
            Some((number, table_number)) => {
                (edit.headers[number], edit.headers[table_number]) = (section, relocations);
                edit.replace(number, frames.contents);
                edit.replace(table_number, table);
                (number, table_number)
            }
            None => {
                let number = edit.add(section, frames.contents);
                relocations.sh_info = U32::new(number as u32);
                (number, edit.add(relocations, table))
            }
        };
        let new = group.filter(|group| self.groups.get(&numbers.0) != Some(group));
        if let Some(group) = new {
            members.0.entry(group).or_default().extend([numbers.0 as u32, numbers.1 as u32]);
        }
    }
}
