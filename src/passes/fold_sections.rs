//! Identical code folding (`--icf`): keeps one of several equal sections, the leader.
//!
//! C++ templates make the same machine code again and again: `vector<int*>::push_back` and
//! `vector<char*>::push_back` differ only in their names. The output needs the code once, and both symbols
//! may have its address.
//!
//! Two sections are equal if they have the same bytes, the same frames in `.eh_frame` and in `.sframe`, the
//! same sections that describe them, and relocations of the same types to the same places. Equal sections
//! count as the same place, so the definition refers to itself:
//!
//! ```text
//! even: ... call odd          even2: ... call odd2
//! odd:  ... call even         odd2:  ... call even2
//! ```
//!
//! Here `even` equals `even2` if `odd` equals `odd2`, and the reverse. A linker that folds only what is
//! already known to be equal would never fold these pairs. So this pass goes the other way: it puts all
//! sections that look alike into one class, and splits a class whenever the relocations of two members lead
//! to different classes. What is never split is equal (`classes`).
//!
//! A program can tell folded sections from each other only by their addresses. `--icf=safe` therefore does
//! not fold sections whose addresses something may compare (`significance`); `--icf=all` folds such code, but
//! not such data, unless `--ignore-data-address-equality` is given.
//!
//! A folded section counts as absorbed, and its bytes are those of its leader ([`Folds`]): symbols and
//! relocations find them as they find merged strings. The linker drops the frames and `.sframe` rows of a
//! folded section, and folds the `SHF_LINK_ORDER` sections that depend on it with it.

mod classes;
mod described;
mod significance;
mod units;

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::elf::whole_table;
use crate::ids::SectionId;
use crate::input::{ObjectFile, SectionClass};
use crate::layout::link_order::dependents_of;
use crate::passes::collect_garbage::link_order_dependents;
use crate::phase::{Bound, Folds, Inputs, Resolved, SectionState, SectionStates};
use crate::sframe_output;
use crate::symbols::is_identifier;
use described::FunctionsByPlace;
use parallel::{ParallelSlice, ParallelSort};
use significance::Pinned;
use units::{Shapes, Units};
use zerocopy::IntoBytes;

/// Folds the sections that the options allow to fold. The leader of a class is its first section in link
/// order, and gets the largest alignment.
pub fn run<'a, T: Target>(link: Bound<'a, T>, sections: &mut SectionStates) -> (Bound<'a, T>, Folds) {
    if !link.config.icf.is_on() {
        return (link, Folds::default());
    }
    let classes = classes(&link, sections);
    let pairs: Vec<(SectionId, SectionId)> =
        classes.iter().flat_map(|class| class.pairs.iter().copied()).collect();
    let folds = Folds::new(link.first_internal() as usize, &pairs);
    if pairs.is_empty() {
        return (link, folds);
    }
    sections.fold(pairs.into_iter().map(|(folded, _)| folded));
    sframe_output::discard::discard(&link, sections);
    let change =
        |resolved: Resolved<'a, T>| Resolved { inputs: align_leaders(resolved.inputs, &classes), ..resolved };
    let link = link.refine(|matched| matched.refine(|synthesized| synthesized.refine(change)));
    (link, folds)
}

/// Equal sections.
struct Class {
    /// The one that stays.
    leader: SectionId,
    /// The largest alignment of all, in bytes.
    align: u64,
    /// The others and what depends on them, each with its leader.
    pairs: Vec<(SectionId, SectionId)>,
}

/// Gives each leader the largest alignment of its class, as if its file said so.
fn align_leaders<'a, T: Target>(mut inputs: Inputs<'a, T>, classes: &[Class]) -> Inputs<'a, T> {
    let mut rows: Vec<(usize, usize, u64)> = Vec::new();
    for &Class { leader, align, .. } in classes {
        let Some((object, index)) = inputs.locate(leader) else { continue };
        if object.headers[index as usize].sh_addralign.get() < align {
            rows.push((object.id.index(), index as usize, align));
        }
    }
    rows.sort_unstable();
    let store = inputs.store;
    for of_object in rows.chunk_by(|a, b| a.0 == b.0) {
        let object = &mut inputs.objects[of_object[0].0];
        let mut headers = object.headers.to_vec();
        of_object.iter().for_each(|&(_, index, align)| headers[index].sh_addralign.set(align));
        object.headers = whole_table(store.keep(headers.as_bytes()));
    }
    inputs
}

/// The classes of equal sections.
fn classes<T: Target>(link: &Bound<'_, T>, sections: &SectionStates) -> Vec<Class> {
    let dependents = link_order_dependents(link);
    let pinned = significance::pin(link, sections);
    let read = described::read(link, sections);
    let described = FunctionsByPlace::new(link, &read);
    let shapes = Shapes { link, sections, dependents: &dependents, described: &described };
    divide(&shapes, &alike(&shapes, &pinned))
}

/// The candidates whose hash another candidate has too, in link order, with their hashes. Most sections have
/// a hash that no other section has, and are done here.
fn alike<T: Target>(shapes: &Shapes<'_, '_, T>, pinned: &Pinned) -> Vec<(SectionId, u64)> {
    let link = shapes.link;
    let mut found: Vec<(u64, SectionId)> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let ids = (1..object.headers.len()).filter(|&index| is_candidate(shapes, pinned, object, index));
            ids.map(|index| object.section_id(index as u32)).map(|id| (shapes.hash(id), id))
        })
        .collect();
    found.par_sort_unstable();
    let groups = found.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1);
    let mut alike: Vec<(SectionId, u64)> =
        groups.flat_map(|group| group.iter().map(|&(hash, id)| (id, hash))).collect();
    alike.par_sort_unstable();
    alike
}

/// Whether a section may be folded at all, if an equal one is found.
fn is_candidate<T: Target>(
    shapes: &Shapes<'_, '_, T>,
    pinned: &Pinned,
    object: &ObjectFile<'_, T::E>,
    index: usize,
) -> bool {
    let id = object.section_id(index as u32);
    let apart = SectionClass::SFRAME
        | SectionClass::EH_FRAME
        | SectionClass::ORDERED
        | SectionClass::MERGE
        | SectionClass::NOBITS;
    let class = shapes.link.class_of(id);
    let state = shapes.sections.get(id);
    if class & (SectionClass::ALLOC | apart) != SectionClass::ALLOC
        || !state.contains(SectionState::ALIVE)
        || state.intersects(SectionState::ABSORBED | SectionState::NOT_CONTENT | SectionState::KEEP)
        || pinned.contains(id)
    {
        return false;
    }
    let header = &object.headers[index];
    let refused = elf::SHF_TLS | elf::SHF_GNU_RETAIN | elf::SHF_COMPRESSED;
    header.sh_type.get() == elf::SHT_PROGBITS
        && header.sh_size.get() > 0
        && header.sh_flags.get() & refused == 0
        && (header.sh_flags.get() & elf::SHF_WRITE == 0 || is_relro(object, index))
        && !is_counted_by_place(object.section_name(index))
        && has_simple_dependents(shapes, pinned, id)
}

/// Whether a section is writable only until the program has been relocated, by its name.
fn is_relro<E: zerocopy::byteorder::ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    let rest = object.section_name(index).strip_prefix(b".data.rel.ro");
    rest.is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'.'))
}

/// Whether a program runs through all sections of a name, so that each one counts: the parts of `.init` and
/// `.fini` make up one function, and the sections between `__start_NAME` and `__stop_NAME` make up an array.
fn is_counted_by_place(name: &[u8]) -> bool {
    matches!(name, b".init" | b".fini") || is_identifier(name)
}

/// Whether the `SHF_LINK_ORDER` sections that depend on a section can be folded with it.
fn has_simple_dependents<T: Target>(shapes: &Shapes<'_, '_, T>, pinned: &Pinned, id: SectionId) -> bool {
    shapes.dependents(id).all(|dependent| {
        dependents_of(shapes.dependents, dependent).next().is_none()
            && !pinned.contains(dependent)
            && !shapes.sections.is(dependent, SectionState::KEEP)
    })
}

/// Divides sections that look alike into classes.
fn divide<T: Target>(shapes: &Shapes<'_, '_, T>, alike: &[(SectionId, u64)]) -> Vec<Class> {
    let units = Units::new(shapes, alike);
    let classes = classes::find(&units.hashes(), &|a, b| units.are_alike(a, b), &|row, targets| {
        units.targets(row, targets)
    });
    let class = |class: &[u32]| {
        let members = || class.iter().map(|&row| alike[row as usize].0);
        let (leader, align) = (members().min()?, members().map(|id| shapes.align(id)).max()?);
        let mut pairs = Vec::new();
        for folded in members().filter(|&id| id != leader) {
            pairs.push((folded, leader));
            let dependents = shapes.dependents(folded).zip(shapes.dependents(leader));
            // `sframe_output::discard` drops the `.sframe` of folded text, with `SHF_LINK_ORDER` or without.
            pairs.extend(dependents.filter(|pair| !shapes.link.is_sframe_section(pair.0)));
        }
        Some(Class { leader, align, pairs })
    };
    classes.iter().filter_map(class).collect()
}
