//! `COMMON`: room for common blocks.
//!
//! The blocks of all objects are known together, and one section would hold them all. But scripts name the
//! common blocks of single files (`file.o(COMMON)`), so each object has one section for each kind of block.

use super::synthesis::{Create, Created, Grow, Ingredients, Size, Synthesis, Write};
use crate::arch::Target;
use crate::arch::machine::SHN_LARGE_COMMON;
use crate::cli::SortCommon;
use crate::elf::consts as elf;
use crate::ids::{FileId, SectionId};
use crate::phase::{CommonPlace, Inputs};
use crate::symbols::{CommonBlock, Definition};
use crate::tables::section::{Kind, SyntheticSection, WRITABLE};

/// The sections, unless blocks stay common.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            if link.plan.allocates_commons(link.config) { sections(link) } else { Created::default() }
        }),
        size: Size::AtCreation,
        grow: Grow::Never,
        write: Write::Nothing,
    }
}

/// The kind of an object's common section that a block goes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CommonKind {
    Plain,
    Tls,
    Large,
}

fn sections<'a, T: Target>(link: &Ingredients<'_, 'a, T>) -> Created<'a> {
    let blocks = &link.definitions.commons;
    let mut order: Vec<Place> = Vec::with_capacity(blocks.len());
    for (row, block) in blocks.iter().enumerate() {
        if let Definition::Object { file, symbol } = link.definition(block.symbol) {
            order.push((file, kind(link, file, symbol), symbol, row));
        }
    }
    sections_of(blocks, order, link.config.layout.sort_common, link.first, T::SHF_LARGE)
}

/// The file of a common block, its kind, the symbol's index there, and the block's row.
type Place = (FileId, CommonKind, u32, usize);

/// One section for each kind of block of each file. `first` is the id of the first one.
fn sections_of<'a>(
    blocks: &[CommonBlock],
    mut order: Vec<Place>,
    sort: SortCommon,
    first: SectionId,
    large: u64,
) -> Created<'a> {
    order.sort_unstable();
    let mut created = Created { common_places: vec![None; blocks.len()], ..Created::default() };
    for group in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let mut rows: Vec<usize> = group.iter().map(|entry| entry.3).collect();
        match sort {
            SortCommon::None => {}
            SortCommon::Ascending => rows.sort_by_key(|&row| blocks[row].align),
            SortCommon::Descending => rows.sort_by_key(|&row| std::cmp::Reverse(blocks[row].align)),
        }
        let id = SectionId::from_index(first.index() + created.sections.len());
        let mut section = SyntheticSection { file: Some(group[0].0), ..empty(group[0].1, large) };
        for row in rows {
            let offset = section.append_block(&blocks[row]);
            created.common_places[row] = Some(CommonPlace { section: id, offset });
        }
        created.sections.push(section);
    }
    created
}

fn kind<T: Target>(link: &Inputs<'_, T>, file: FileId, symbol: u32) -> CommonKind {
    let symbol = &link.objects[file.index()].symbols[symbol as usize];
    if symbol.kind() == elf::STT_TLS {
        CommonKind::Tls
    } else if T::SHF_LARGE != 0 && symbol.st_shndx.get() == SHN_LARGE_COMMON {
        CommonKind::Large
    } else {
        CommonKind::Plain
    }
}

/// A section of a kind, without blocks. `large` is the machine's flag of sections far away.
fn empty(kind: CommonKind, large: u64) -> SyntheticSection<'static> {
    let (name, flags) = match kind {
        CommonKind::Plain => (&b"COMMON"[..], WRITABLE),
        CommonKind::Tls => (&b".tcommon"[..], WRITABLE | elf::SHF_TLS),
        CommonKind::Large => (&b"LARGE_COMMON"[..], WRITABLE | large),
    };
    SyntheticSection::new(Kind::Common, name, elf::SHT_NOBITS, flags, 1)
}
