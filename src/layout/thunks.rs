//! Makes thunks for branches that do not reach their targets.
//!
//! A `bl` of AArch64 has 26 bits for its distance and reaches 128 MiB. Programs with more code than that
//! exist. If a call does not reach, the linker lets it go to a *thunk*, a few instructions within reach that
//! load the target's whole address and jump there:
//!
//! ```text
//! 0x0000_1000   bl thunk ---------+           (f is 300 MiB away)
//!                                 |
//! 0x07d0_0000   thunk: adrp/add/br    ->  0x12c0_0000   f
//!                                 |
//! 0x0900_0000   bl thunk ---------+           (the same thunk serves calls behind it)
//! ```
//!
//! Thunks stand in *pools*, which may stand behind any section of code. A thunk behind each function that
//! needs one would be simple, and would repeat it for every caller. So a new pool goes as far ahead of the
//! branch as the branch reaches, and then serves branches from both sides. The linker does not use the last 2
//! MiB of the reach, because thunks that are added in between later move the branch and its pool apart.
//!
//! This is a part of the layout's rounds ([`super::rounds`]). It takes the geometry of one round and adds
//! missing thunks, and then another round begins. Thunks and pools are never removed, even if they are no
//! longer needed, so the rounds end.
//!
//! A large program has millions of branches. The first round looks at all of them. Later rounds look only at
//! the watched ones, whose targets are out of reach or almost so, until some section has moved far. Threads
//! only add to a set of pairs (pool, symbol), so their order does not matter. Thunks are then made in the
//! order of pools and symbols.
//!
//! Data may hold the distance to a function in four bytes (`.word f@plt - .`), which reaches 2 GiB. Such a
//! word may stand for a branch here: it gets the distance to a thunk if the function is out of reach.
//!
//! The pools have a second use: some processors have errata that hit an instruction only at certain
//! addresses. The linker moves such instructions into a pool and puts a branch in their place.

use super::state::LayoutState;
use super::values;
use crate::arch::Target;
use crate::arch::thunk::{Reach, ThunkForm, ThunkSpec, WORD_REACH};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{OutputId, RuleId, SectionId, SymbolId, ThunkId};
use crate::input::ObjectFile;
use crate::phase::{Geometry, SectionState};
use crate::relocs::branches::target_by;
use crate::symbols::{Definition, SymbolFlags};
use crate::tables::pools::{Destination, Pool, Purpose, Thunk, Thunks, reaches};
use crate::tables::section::{Kind, SyntheticSection, SyntheticSections, pure_code};
use parallel::{ParallelSlice, ParallelSort};
use std::sync::atomic::{AtomicU64, Ordering};

/// Later insertions may move a branch and its pool apart by so many bytes.
const SLACK: u64 = 2 << 20;
/// A branch is watched if it would not reach its target with so many bytes more.
const MARGIN: u64 = 16 << 20;
/// Pools with moved instructions have multiples of this size. So the code behind them keeps its offset in its
/// page, and no further instruction must be moved.
const PAGE: u64 = 0x1000;

/// Adds missing thunks and moves instructions. Returns whether there were any. New pools get their places in
/// the lists of `layout_state`. `watched` passes from one round to the next.
pub fn insert<T: Target>(
    link: &Geometry<'_, T>,
    thunks: &mut Thunks,
    watched: &mut Option<Watched>,
    layout_state: &mut LayoutState<'_>,
) -> bool {
    let Some(spec) = T::THUNKS.filter(|_| !link.config.is_relocatable()) else { return false };
    let moves = T::avoids_erratum(&link.config.relocations);
    let far = may_be_far(link, spec.reach);
    if !far && !moves {
        return false;
    }
    for pool in &mut thunks.pools {
        pool.address = link.section_address(pool.section);
    }
    let mut insertion = Insertion {
        link,
        layout_state,
        thunks,
        spec,
        changed: false,
        boundaries: None,
        inserted: Vec::new(),
    };
    if far {
        let branches = far_branches(link, insertion.thunks, watch(link, watched, spec), spec);
        insertion.add_pools(&branches);
        insertion.bridge(&branches);
        insertion.add_landing_pads();
    }
    if moves {
        for (section, offset) in errata(link) {
            insertion.replace_by_branch(section, offset);
        }
    }
    insertion.finish()
}

/// Gives the sections of all pools their sizes, and makes sections for new pools.
pub fn size_pools<T: Target>(synthetics: &mut SyntheticSections<'_>, first_internal: u32, thunks: &Thunks) {
    let align = T::THUNKS.map_or(1, |spec| spec.align);
    for (number, pool) in (0..).zip(&thunks.pools) {
        let row = (pool.section.0 - first_internal) as usize;
        if row == synthetics.rows.len() {
            let kind = Kind::Thunks(number);
            let flags = pure_code::<T>();
            let section = SyntheticSection::new(kind, b".text.thunks", elf::SHT_PROGBITS, flags, align);
            synthetics.rows.push(section);
        }
        synthetics.rows[row].size = pool.size;
    }
}

/// A branch of an object.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// The section that it is in.
    section: SectionId,
    /// Its offset in the section, in bytes.
    offset: u64,
    /// Its destination.
    target: SymbolId,
    addend: i64,
    /// The row of its symbol in [`Watched::symbols`].
    symbol: u32,
    reach: Reach,
}

/// Branches that need a thunk, or may need one if addresses move a little. Later rounds look only at these.
#[derive(Debug)]
pub struct Watched {
    /// The branches, by object.
    branches: Vec<Vec<Branch>>,
    /// The symbols to which they go, each once, ascending.
    symbols: Vec<SymbolId>,
    /// The addresses of all sections when the list was made.
    sections: Vec<(SectionId, u64)>,
}

/// A branch that does not reach its target.
#[derive(Clone, Copy)]
struct FarBranch {
    place: u64,
    /// What its thunk is for.
    purpose: Purpose,
    /// How far it reaches, less [`SLACK`].
    reach: u64,
}

/// The first and the last address of the program.
fn extent<T: Target>(link: &Geometry<'_, T>) -> Option<(u64, u64)> {
    let chunks = || link.layout.chunks.iter().filter(|chunk| chunk.takes_address_space() && chunk.size > 0);
    let start = chunks().map(|chunk| chunk.address).min()?;
    let end = chunks().map(|chunk| chunk.address.saturating_add(chunk.size)).max()?;
    Some((start, end))
}

/// Whether a branch anywhere in the program might not reach its target.
fn may_be_far<T: Target>(link: &Geometry<'_, T>, reach: u64) -> bool {
    let Some((start, end)) = extent(link) else { return false };
    let is_far = |value: u64| !reaches(start, value, reach) || !reaches(end, value, reach);
    let elsewhere = SymbolFlags::UNDEFINED | SymbolFlags::UNDEFINED_WEAK | SymbolFlags::TLS;
    end - start >= reach
        || link.globals.ids().any(|id| {
            let flags = link.symbol_flags(id);
            // Absolute symbols and symbols of expressions may lie outside of all sections.
            (flags.contains(SymbolFlags::ABSOLUTE) || matches!(link.definition(id), Definition::Linker(_)))
                && !flags.intersects(elsewhere)
                && absolute_value(link, id).is_some_and(is_far)
        })
}

fn absolute_value<T: Target>(link: &Geometry<'_, T>, id: SymbolId) -> Option<u64> {
    match link.definition(id) {
        Definition::Object { file, symbol } => {
            Some(link.objects[file.index()].symbols.get(symbol as usize)?.st_value.get())
        }
        Definition::Linker(row) => Some(link.linker_values.get(row as usize)?.value),
        _ => None,
    }
}

/// The sections of an object that have code of the program, or with `data` all that are loaded, each with its
/// header index.
fn sections<'l, T: Target>(
    link: &'l Geometry<'_, T>,
    object: &'l ObjectFile<'_, T::E>,
    data: bool,
) -> impl Iterator<Item = (usize, SectionId)> + 'l {
    (1..object.headers.len()).map(|index| (index, object.section_id(index as u32))).filter(
        move |&(index, id)| {
            let flags = object.headers[index].sh_flags.get();
            is_alloc(flags)
                && (data || flags & elf::SHF_EXECINSTR != 0)
                && link.sections.is_alive(id)
                && !link.sections.is(id, SectionState::ABSORBED)
                && !link.sections.is(id, SectionState::NOT_CONTENT)
                && link.layout.chunk_with(id).is_some()
        },
    )
}

/// Brings the list of watched branches up to date.
fn watch<'w, T: Target>(
    link: &Geometry<'_, T>,
    watched: &'w mut Option<Watched>,
    spec: ThunkSpec,
) -> &'w Watched {
    let moved_far = |&(id, address): &(SectionId, u64)| {
        (link.section_address(id).wrapping_sub(address) as i64).unsigned_abs() > MARGIN / 2
    };
    if watched.as_ref().is_some_and(|known| known.sections.par_iter().any(moved_far)) {
        *watched = None;
    }
    watched.get_or_insert_with(|| all_to_watch(link, spec))
}

/// Finds all branches of the program that might not reach if addresses moved by [`MARGIN`].
fn all_to_watch<T: Target>(link: &Geometry<'_, T>, spec: ThunkSpec) -> Watched {
    let values = values::all(link);
    // No word of data is out of reach in a smaller program.
    let data = extent(link).is_some_and(|(start, end)| end - start >= WORD_REACH - MARGIN);
    let of_object = |object| long_branches(link, &values, object, spec, data);
    let mut branches: Vec<Vec<Branch>> = link.objects.par_iter().map(of_object).collect();
    let mut symbols: Vec<SymbolId> = branches.iter().flatten().map(|branch| branch.target).collect();
    symbols.par_sort_unstable();
    symbols.dedup();
    branches.par_iter_mut().flat_map_iter(|branches| branches).for_each(|branch| {
        branch.symbol = symbols.partition_point(|&symbol| symbol < branch.target) as u32;
    });
    let placed = |id: &SectionId| link.sections.is_alive(*id) && link.layout.chunk_with(*id).is_some();
    let all = 0..link.section_count() as u32;
    let sections = all.map(SectionId).filter(placed).map(|id| (id, link.section_address(id))).collect();
    Watched { branches, symbols, sections }
}

/// The address to which a branch goes at present.
fn goal<T: Target>(link: &Geometry<'_, T>, destination: Destination) -> Option<u64> {
    target_by(link, destination, |symbol| values::of(link, symbol))
}

/// The branches of an object that are almost out of reach, or whose target is a symbol that the linker
/// defines: an expression of the script may move it far at once. With `data`, words of data are among them.
fn long_branches<T: Target>(
    link: &Geometry<'_, T>,
    values: &[u64],
    object: &ObjectFile<'_, T::E>,
    spec: ThunkSpec,
    data: bool,
) -> Vec<Branch> {
    let mut found = Vec::new();
    for (index, section) in sections(link, object, data) {
        let address = link.section_address(section);
        for relocation in object.relocations(index) {
            let symbol = relocation.symbol();
            let Some(reach) = T::reloc_info(relocation.kind()).and_then(T::call) else { continue };
            if symbol as usize >= object.symbols.len() {
                continue;
            }
            let offset = relocation.r_offset.get();
            let (target, addend) = (object.symbol_id(symbol), relocation.r_addend.get());
            let place = address.wrapping_add(offset);
            let goal = target_by(link, (target, addend), |symbol| values[symbol.index()]);
            let is_long = goal.is_some_and(|goal| !reaches(place, goal, spec.of(reach) - MARGIN));
            if is_long || matches!(link.definition(target), Definition::Linker(_)) {
                found.push(Branch { section, offset, target, addend, symbol: 0, reach });
            }
        }
    }
    found
}

/// The branches that reach neither their target nor a thunk, by object.
fn far_branches<T: Target>(
    link: &Geometry<'_, T>,
    thunks: &Thunks,
    watched: &Watched,
    spec: ThunkSpec,
) -> Vec<Vec<FarBranch>> {
    let target = |&symbol: &SymbolId| goal(link, (symbol, 0));
    let targets: Vec<Option<u64>> = watched.symbols.par_iter().with_min_len(1024).map(target).collect();
    let is_far = |branch: &Branch| {
        let (purpose, reach) =
            (Purpose::of(branch.reach, (branch.target, branch.addend)), spec.of(branch.reach));
        let place = link.section_address(branch.section).wrapping_add(branch.offset);
        let target = targets[branch.symbol as usize]?.wrapping_add_signed(branch.addend);
        let bridged = || thunks.find(purpose, place, reach).is_some();
        let far = FarBranch { place, purpose, reach: reach - SLACK };
        (!reaches(place, target, reach) && !bridged()).then_some(far)
    };
    watched.branches.par_iter().map(|branches| branches.iter().filter_map(is_far).collect()).collect()
}

/// The places of all instructions that an erratum concerns in this layout, in input order.
fn errata<T: Target>(link: &Geometry<'_, T>) -> Vec<(SectionId, u64)> {
    link.objects
        .par_iter()
        .flat_map_iter(|object| {
            let mut found = Vec::new();
            let mut offsets = Vec::new();
            for (index, id) in sections(link, object, false) {
                let bytes = object.section_bytes(index).unwrap_or_default();
                offsets.clear();
                T::find_erratum_sequences(bytes, link.section_address(id), &mut offsets);
                let code = offsets.iter().filter(|&&offset| !is_data::<T>(object, index as u32, offset));
                found.extend(code.map(|&offset| (id, offset)));
            }
            found
        })
        .collect()
}

/// Whether mapping symbols say that an offset of a section holds no instruction.
fn is_data<T: Target>(object: &ObjectFile<'_, T::E>, section: u32, offset: u64) -> bool {
    let mut last = (0, false);
    for index in 1..object.first_global as usize {
        if object.symbol_place(index) != crate::input::object::SymbolPlace::Section(section) {
            continue;
        }
        let value = object.symbols[index].st_value.get();
        if value <= offset
            && value >= last.0
            && let Some(data) = T::data_mark(object.symbol_name(index))
        {
            last = (value, data);
        }
    }
    last.1
}

/// The end of a section of code, behind which a pool may be put.
#[derive(Clone, Copy)]
struct Boundary {
    address: u64,
    output: OutputId,
    rule: RuleId,
    /// The number of sections of the rule that stand before it.
    position: u32,
}

struct Insertion<'i, 'a, 'p, T: Target> {
    link: &'i Geometry<'a, T>,
    layout_state: &'i mut LayoutState<'p>,
    thunks: &'i mut Thunks,
    spec: ThunkSpec,
    /// Whether any thunk was added.
    changed: bool,
    /// The places for pools, in order of address; `None` until the first new pool needs one.
    boundaries: Option<Vec<Boundary>>,
    /// The new pools, which are the last of all, with their places.
    inserted: Vec<(Boundary, SectionId)>,
}

impl<T: Target> Insertion<'_, '_, '_, T> {
    /// Adds pools until the first and the last far branch of each object reach one.
    fn add_pools(&mut self, branches: &[Vec<FarBranch>]) {
        let ends = |branches: &Vec<FarBranch>| {
            let ends = |word: bool| {
                let is_such = move |branch: &&FarBranch| matches!(branch.purpose, Purpose::Word(_)) == word;
                let places = || branches.iter().filter(is_such).map(|branch| (branch.place, branch.reach));
                [places().min(), places().max()]
            };
            [ends(false), ends(true)].concat()
        };
        let mut places: Vec<(u64, u64)> =
            branches.par_iter().flat_map_iter(|branches| ends(branches).into_iter().flatten()).collect();
        places.sort_unstable();
        for (place, reach) in places {
            self.pool(place, reach);
        }
    }

    /// Makes thunks for branches. Threads set a bit for each pool and symbol, because there may be too many
    /// branches to sort: millions. Destinations with an addend and words of data are rare, so these are
    /// sorted.
    fn bridge(&mut self, branches: &[Vec<FarBranch>]) {
        if branches.iter().all(Vec::is_empty) {
            return;
        }
        let words = self.link.symbols.len().div_ceil(64);
        let wanted: Vec<Vec<AtomicU64>> =
            self.thunks.pools.iter().map(|_| (0..words).map(|_| AtomicU64::new(0)).collect()).collect();
        let pools = (0..).zip(&self.thunks.pools).filter(|(_, pool)| !is_full(pool));
        let mut order: Vec<(u64, u32)> = pools.map(|(number, pool)| (pool.address, number)).collect();
        order.sort_unstable();
        let note = |branch: &FarBranch| {
            let first = order.partition_point(|pool| pool.0 < branch.place.saturating_sub(branch.reach));
            let &(address, pool) = order.get(first)?;
            if !reaches(branch.place, address, branch.reach) {
                return None;
            }
            let Purpose::Call((symbol, 0)) = branch.purpose else { return Some((pool, branch.purpose)) };
            let bit = 1 << (symbol.0 % 64);
            let word = &wanted[pool as usize][symbol.index() / 64];
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
            None
        };
        let mut others: Vec<(u32, Purpose)> =
            branches.par_iter().flat_map_iter(|branches| branches.iter().filter_map(note)).collect();
        others.par_sort_unstable();
        others.dedup();
        for (pool, words) in wanted.iter().enumerate() {
            for (index, word) in words.iter().enumerate() {
                let mut bits = word.load(Ordering::Relaxed);
                while bits != 0 {
                    let symbol = SymbolId(index as u32 * 64 + bits.trailing_zeros());
                    self.add_call(pool as u32, Purpose::Call((symbol, 0)));
                    bits &= bits - 1;
                }
            }
        }
        for (pool, purpose) in others {
            self.add_call(pool, purpose);
        }
    }

    fn add_call(&mut self, pool: u32, purpose: Purpose) {
        let Some(target) = purpose.destination().and_then(|destination| goal(self.link, destination)) else {
            return;
        };
        let reach = self.spec.near_reach - SLACK;
        let near = reaches(self.thunks.pools[pool as usize].address, target, reach);
        // Code that reads a distance jumps indirectly.
        let form = match (purpose, near) {
            (Purpose::Word(_), true) => ThunkForm::PaddedNear,
            (Purpose::Word(_), false) => ThunkForm::PaddedFar,
            (_, true) => ThunkForm::Near,
            (_, false) => ThunkForm::Far,
        };
        self.add(pool, purpose, form);
    }

    /// Adds landing pads near the targets of thunks that jump indirectly, if the output enforces landing pads
    /// (BTI) and the target has none.
    fn add_landing_pads(&mut self) {
        let link = self.link;
        // The PLT has landing pads if and only if the output enforces them.
        if !link.plt_shape.landing_pad {
            return;
        }
        for index in 0..self.thunks.all.len() {
            let (Purpose::Call(destination) | Purpose::Word(destination)) = self.thunks.all[index].purpose
            else {
                continue;
            };
            if let Some(target) = goal(link, destination)
                && needs_landing_pad(link, destination)
                && self.thunks.find(Purpose::Landing(destination), target, self.spec.reach).is_none()
                && let Some(pool) = self.pool(target, self.spec.reach - SLACK)
            {
                self.add(pool, Purpose::Landing(destination), ThunkForm::LandingPad);
            }
        }
    }

    /// Adds a thunk for an instruction that an erratum concerns, unless the instruction has one.
    fn replace_by_branch(&mut self, section: SectionId, offset: u64) {
        let known = self.thunks.moved.get(&section);
        if known.is_some_and(|known| known.binary_search_by_key(&offset, |entry| entry.0).is_ok()) {
            return;
        }
        let place = self.link.section_address(section).wrapping_add(offset);
        let Some(pool) = self.pool(place, self.spec.reach - SLACK) else { return };
        let thunk = self.add(pool, Purpose::Moved(section, offset), ThunkForm::Moved);
        let known = self.thunks.moved.entry(section).or_default();
        let at = known.partition_point(|entry| entry.0 < offset);
        known.insert(at, (offset, thunk));
    }

    fn add(&mut self, pool: u32, purpose: Purpose, form: ThunkForm) -> ThunkId {
        self.changed = true;
        let thunks = &mut *self.thunks;
        let id = ThunkId::from_index(thunks.all.len());
        let end = thunks.pools[pool as usize].thunks.last().map_or(0, |&last| {
            let last = &thunks.all[last.index()];
            last.offset + T::thunk_size(last.form)
        });
        let offset = end.next_multiple_of(self.spec.align);
        let mut earlier = None;
        if let Some((symbol, _)) = purpose.destination() {
            thunks.last_of.resize(self.link.symbols.len(), None);
            earlier = thunks.last_of[symbol.index()].replace(id);
        }
        thunks.all.push(Thunk { purpose, form, pool, offset, earlier });
        let pool = &mut thunks.pools[pool as usize];
        pool.thunks.push(id);
        let size = offset + T::thunk_size(form);
        let in_pages = form == ThunkForm::Moved || pool.size > 0 && pool.size.is_multiple_of(PAGE);
        pool.size = if in_pages { size.next_multiple_of(PAGE) } else { size.max(pool.size) };
        id
    }

    /// A pool within `reach` of a branch at address `place`. It may be a new one. `None` if there is no place
    /// for a pool within reach.
    fn pool(&mut self, place: u64, reach: u64) -> Option<u32> {
        let (link, layout_state) = (self.link, &*self.layout_state);
        let fits = |pool: &Pool| reaches(place, pool.address, reach) && !is_full(pool);
        if let Some(found) = self.thunks.pools.iter().position(fits) {
            return Some(found as u32);
        }
        let boundaries = self.boundaries.get_or_insert_with(|| boundaries(link, layout_state));
        let from = boundaries.partition_point(|boundary| boundary.address < place.saturating_sub(reach));
        // The pool itself begins at the next aligned address.
        let end = place.saturating_add(reach - self.spec.align);
        let to = boundaries.partition_point(|boundary| boundary.address < end);
        let candidates = boundaries.get(from..to)?;
        // The output section of the branch itself is preferred, because a script may put others anywhere.
        let own = link.layout.chunk_at(place).map(|chunk| link.layout.chunks[chunk.index()].address);
        let is_own =
            |boundary: &&Boundary| own == Some(layout_state.outputs[boundary.output.index()].address);
        let boundary = *candidates.iter().rfind(is_own).or(candidates.last())?;
        let number = self.thunks.pools.len() as u32;
        let section = SectionId::from_index(link.section_count() + self.inserted.len());
        let address = boundary.address.next_multiple_of(self.spec.align);
        self.thunks.pools.push(Pool { section, address, size: 0, thunks: Vec::new() });
        self.inserted.push((boundary, section));
        Some(number)
    }

    /// Puts the new pools into the lists of the layout. Returns whether any thunk was added. Without one, the
    /// new pools are given up.
    fn finish(mut self) -> bool {
        if !self.changed {
            self.thunks.pools.truncate(self.thunks.pools.len() - self.inserted.len());
            return false;
        }
        let (layout_state, count) = (self.layout_state, self.link.section_count() + self.inserted.len());
        layout_state.section_rules.resize(count, None);
        layout_state.offsets.resize(count, 0);
        // Pools are inserted from the end, so that the positions of the others stay right.
        self.inserted.par_sort_by_key(|(boundary, section)| (boundary.position, section.0));
        for (boundary, section) in self.inserted.iter().rev() {
            layout_state.section_rules[section.index()] = Some(boundary.rule);
            let list = &mut layout_state.lists[boundary.rule.index()];
            list.items.insert(boundary.position as usize, *section);
            list.has_internal = true;
        }
        true
    }
}

/// Whether a thunk at the end of a pool might be out of reach of branches that reach the pool's beginning.
fn is_full(pool: &Pool) -> bool {
    pool.size > SLACK / 2
}

/// Whether a destination does not begin with an instruction that indirect jumps may land on.
fn needs_landing_pad<T: Target>(link: &Geometry<'_, T>, (symbol, addend): Destination) -> bool {
    if link.symbol_flags(symbol).intersects(SymbolFlags::IMPORTED | SymbolFlags::IFUNC) {
        return false;
    }
    let code = link.symbol_section(symbol).and_then(|(section, value)| {
        let (object, index) = link.locate(section)?;
        let bytes = object.section_bytes(index as usize).ok()?;
        bytes.get(usize::try_from(value.checked_add_signed(addend)?).ok()?..)
    });
    code.is_some_and(|code| !T::is_landing_pad(code))
}

/// The places for pools: behind each section of code, except in `.init` and `.fini`, whose sections make up
/// one function.
fn boundaries<T: Target>(link: &Geometry<'_, T>, layout_state: &LayoutState<'_>) -> Vec<Boundary> {
    let mut found = Vec::new();
    for (number, output) in layout_state.plan.outputs.iter().enumerate() {
        let state = &layout_state.outputs[number];
        let code = state.attributes.flags & elf::SHF_EXECINSTR != 0;
        if !state.in_output || !code || matches!(&output.name[..], b".init" | b".fini") {
            continue;
        }
        for rule in output.rules() {
            let list = &layout_state.lists[rule.index()];
            for (position, (&id, &size)) in list.items.iter().zip(&list.sizes).enumerate() {
                let flags = link.section_info(id).flags;
                if flags & elf::SHF_EXECINSTR == 0 {
                    continue;
                }
                let address = link.section_address(id).wrapping_add(size);
                let position = position as u32 + 1;
                found.push(Boundary { address, output: OutputId::from_index(number), rule, position });
            }
        }
    }
    found.par_sort_by_key(|boundary| (boundary.address, boundary.output, boundary.rule, boundary.position));
    found
}
