//! Garbage collection (`--gc-sections`): finds the sections that the program can reach, and drops the others.
//!
//! A compiler with `-ffunction-sections` puts each function into a section of its own, and a program uses a
//! small part of the libraries that it links. Relocations show who uses what, so the linker marks what the
//! roots reach, and sweeps the rest:
//!
//! ```text
//! _start -> main -> parse -> table        marked
//!           help <-> usage                not marked: they name each other, but no root leads here
//! ```
//!
//! The roots are what something outside the relocations can find: the entry, exported symbols, `KEEP`,
//! retained sections, init arrays, notes. From a live section, marking follows its relocations, the members
//! of its group, the `SHF_LINK_ORDER` sections that describe it, what its functions' FDEs refer to
//! (language-specific data, personality routines), and `__start_NAME`. Sections that are not loaded are roots
//! too, unless a group or link order ties them to loaded sections; of these, only notes keep what they refer
//! to. Otherwise debug information, which names every function, would keep everything.
//!
//! In a section of strings or constants that will be merged, each piece lives for itself: references mark
//! the offsets that they lead to, and `merge_strings` leaves out the pieces without a mark.
//!
//! Many threads mark at once. A mark is only ever set, and whoever sets it first follows the edges, so the
//! result does not depend on the order of threads.
//!
//! `.sframe` is neither a root nor an edge (SFrame rule 2): a table that describes all functions would keep
//! them all. Its liveness follows last from that of all other sections, in links without `--gc-sections` too.

mod visits;

use crate::arch::{RelocExpr, Target};
use crate::diag::{Code, Diagnostic};
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{FileId, SectionId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::input::{ObjectFile, SectionClass};
use crate::layout::link_order::{self, Dependents, dependents_of};
use crate::merge::UsedOffsets;
use crate::passes::bind_symbols::{DefiningSections, global_flags};
use crate::passes::define_linker_symbols::{matches_any, undefined_globs};
use crate::passes::drop_commons;
use crate::phase::{Bound, Inputs, Resolved, SectionState, SectionStates, split_locals};
use crate::relocs::undefined;
use crate::sframe_output;
use crate::symbols::MentionedBy;
use crate::symbols::{Definition, LinkerSymbol, LinkerSymbolOrigin, SymbolFlags, start_stop};
use parallel::ParallelSlice;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use visits::Marks;
pub(super) use visits::{Aim, Reach, Root, Visits};
use zerocopy::byteorder::ByteOrder;

/// Clears `ALIVE` of all sections that are not needed. Also returns which pieces of mergeable sections are in
/// use.
pub fn run<'a, T: Target>(
    mut bound: Bound<'a, T>,
    sections: &mut SectionStates,
    defining_sections: &DefiningSections,
) -> (Bound<'a, T>, UsedOffsets) {
    let dependents = link_order_dependents(&bound);
    let mut used = UsedOffsets::default();
    let collects = bound.config.gc.enabled;
    if collects {
        let marks = mark(&bound, sections, &dependents, defining_sections);
        sweep(&bound, sections, &marks);
        let names;
        (names, used) = marks.finish();
        let names = bound.symbols.par_iter_mut().zip(&names).with_min_len(4096);
        names.for_each(|(flags, mark)| flags.set(SymbolFlags::LIVE, mark.load(Ordering::Relaxed) != 0));
    }
    drop_orphaned_dependents(&bound, sections, &dependents);
    sframe_output::discard::discard(&bound, sections);
    let Bound { matched, symbols } = &mut bound;
    mark_dead_symbols(matched, sections, symbols);
    let sheds_edges = collects && bound.config.gc.start_stop;
    (if sheds_edges { without_collected_edges(bound, sections) } else { bound }, used)
}

/// `-z start-stop-gc`: if all sections `NAME` are collected, `__start_NAME` and `__stop_NAME` become
/// undefined, as in GNU ld and lld.
fn without_collected_edges<'a, T: Target>(bound: Bound<'a, T>, sections: &SectionStates) -> Bound<'a, T> {
    let is_lost = |&(row, symbol): &(u32, &LinkerSymbol)| {
        bound.definition(symbol.symbol) == Definition::Linker(row)
            && matches!(symbol.origin, LinkerSymbolOrigin::Start | LinkerSymbolOrigin::Stop)
            && bound.start_stop_is_collected(sections, bound.globals.names[symbol.symbol.index()])
    };
    let lost = (0..).zip(&bound.linker_symbols).filter(is_lost);
    let lost: Vec<LinkerSymbol> = lost.map(|(_, symbol)| *symbol).collect();
    let withdraw = |resolved: Resolved<'a, T>| resolved.without(&lost);
    let Bound { matched, mut symbols } = bound.refine(|matched| matched.refine(|made| made.refine(withdraw)));
    let unreported = undefined::unreported(&matched);
    for lost in &lost {
        let flags = &mut symbols[lost.symbol.index()];
        *flags = global_flags(&matched, sections, &unreported, lost.symbol) | (*flags & SymbolFlags::LIVE);
    }
    drop(unreported);
    Bound { matched, symbols }
}

/// Marks the symbols of collected sections as [`SymbolFlags::DISCARDED`], like the symbols of discarded
/// sections.
fn mark_dead_symbols<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    symbols: &mut [SymbolFlags],
) {
    let (globals, locals) = symbols.split_at_mut(link.globals.len());
    let own = split_locals(locals, &link.objects);
    let objects = link.objects.par_iter().zip(own);
    let dead: Vec<Vec<SymbolId>> =
        objects.map(|(object, own)| mark_dead_locals(link, sections, object, own)).collect();
    for id in dead.into_iter().flatten() {
        globals[id.index()].insert(SymbolFlags::DISCARDED);
    }
}

/// Marks the local symbols in an object's collected sections. Returns the globals that it defines there.
fn mark_dead_locals<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    object: &ObjectFile<'_, T::E>,
    own: &mut [SymbolFlags],
) -> Vec<SymbolId> {
    let mut globals = Vec::new();
    let is_dead = |index: u32| sections.is(object.section_id(index), SectionState::COLLECTED);
    if !(0..object.headers.len() as u32).any(is_dead) {
        return globals;
    }
    for index in 1..object.symbols.len() as u32 {
        let SymbolPlace::Section(section) = object.symbol_place(index as usize) else { continue };
        if !is_dead(section) {
            continue;
        }
        if index < object.first_global {
            own[index as usize].insert(SymbolFlags::DISCARDED);
            continue;
        }
        let id = object.symbol_id(index);
        if link.definition(id) == (Definition::Object { file: object.id, symbol: index }) {
            globals.push(id);
        }
    }
    globals
}

/// Pairs (target, dependent) of all `SHF_LINK_ORDER` sections, sorted.
pub(super) fn link_order_dependents<T: Target>(link: &Inputs<'_, T>) -> Dependents {
    let mut pairs: Dependents = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let ordered =
                object.section_ids().filter(|&id| link.class_of(id).contains(SectionClass::ORDERED));
            ordered.filter_map(|id| {
                let index = (id.0 - object.first_section) as usize;
                Some((link_order::target_in(object, index)?, id))
            })
        })
        .collect();
    pairs.sort_unstable();
    pairs
}

/// Collects `SHF_LINK_ORDER` sections whose target is dead, and those that describe them in turn. SFrame
/// sections have rules of their own. One with `SHF_GNU_RETAIN` stays, as it asks, and the layout reports that
/// it describes nothing.
fn drop_orphaned_dependents<T: Target>(
    link: &Inputs<'_, T>,
    sections: &mut SectionStates,
    dependents: &Dependents,
) {
    let is_dead =
        |target: &SectionId| !sections.is_alive(*target) && !sections.is(*target, SectionState::NOT_CONTENT);
    let flags = |id| link.locate(id).map(|(object, index)| object.headers[index as usize].sh_flags.get());
    let is_retained = |id| flags(id).is_some_and(|flags| flags & elf::SHF_GNU_RETAIN != 0);
    let mut dead: Vec<SectionId> = dependents.iter().map(|&(target, _)| target).filter(is_dead).collect();
    dead.dedup();
    while let Some(target) = dead.pop() {
        for dependent in dependents_of(dependents, target) {
            if sections.is_alive(dependent) && !link.is_sframe_section(dependent) && !is_retained(dependent) {
                sections.discard(dependent, SectionState::COLLECTED);
                dead.push(dependent);
            }
        }
    }
}

/// A thread whose stack has twice this many sections hands half of them on, even if no thread is idle.
const SHARE: usize = 512;

/// A thread hands on at least this many sections to an idle one. Fewer are not worth the cost of a job.
const LEAST_SHARE: usize = 16;

/// Sections whose edges a thread follows together.
const WINDOW: usize = 16;

/// The walk along edges that keep sections alive.
pub(super) struct Marker<'m, 'a, T: Target, V> {
    link: &'m Bound<'a, T>,
    sections: &'m SectionStates,
    dependents: &'m Dependents,
    defining_sections: &'m DefiningSections,
    visits: V,
    /// Number of stacks that threads work on or that wait for a thread.
    stacks: AtomicUsize,
}

/// Marks the roots and what they lead to.
fn mark<T: Target>(
    link: &Bound<'_, T>,
    sections: &SectionStates,
    dependents: &Dependents,
    defining_sections: &DefiningSections,
) -> Marks {
    let marks = Marks::new(link, sections);
    let marker = Marker::new(link, sections, dependents, defining_sections, marks);
    let mut frontier: Vec<SectionId> =
        link.objects.par_iter().flat_map_iter(|object| marker.root_sections(object)).collect();
    marker.root_symbols(&mut frontier);
    marker.check_roots();
    rayon_core::scope(|scope| {
        for chunk in frontier.chunks(SHARE) {
            marker.hand_on(chunk.to_vec(), scope);
        }
    });
    marker.visits
}

/// Collects the sections that are not marked.
fn sweep<T: Target>(link: &Inputs<'_, T>, sections: &mut SectionStates, marks: &Marks) {
    let own = sections.by_object(&link.objects);
    link.objects.par_iter().zip(own).for_each(|(object, states)| {
        let first = object.first_section as usize;
        let facts = marks.reached(first..).zip(&link.section_classes[first..]);
        for (state, (reached, class)) in states.iter_mut().zip(facts) {
            let alive = state.contains(SectionState::ALIVE);
            if alive && !reached && !class.contains(SectionClass::SFRAME) {
                state.discard(SectionState::COLLECTED);
            }
        }
    });
}

/// Walks the edges of a finished collection again, serially and breadth first, so that `visits` sees the
/// shortest path to each section.
pub(super) fn retrace<T: Target, V: Visits>(link: &Bound<'_, T>, sections: &SectionStates, visits: V) -> V {
    let dependents = link_order_dependents(link);
    let defining_sections = DefiningSections::of(link);
    let marker = Marker::new(link, sections, &dependents, &defining_sections, visits);
    let mut queue = Vec::new();
    marker.root_symbols(&mut queue);
    for object in &link.objects {
        queue.extend(marker.root_sections(object));
    }
    let mut next = 0;
    while let Some(&id) = queue.get(next) {
        next += 1;
        marker.edges(id, &mut queue);
    }
    marker.visits
}

impl<'m, 'a, T: Target, V: Visits> Marker<'m, 'a, T, V> {
    fn new(
        link: &'m Bound<'a, T>,
        sections: &'m SectionStates,
        dependents: &'m Dependents,
        defining_sections: &'m DefiningSections,
        visits: V,
    ) -> Self {
        Marker { link, sections, dependents, defining_sections, visits, stacks: AtomicUsize::new(0) }
    }

    /// Marks a section. Returns whether the caller must follow its edges, because it was not marked before.
    /// Never marks `.sframe`, which keeps no section alive.
    #[inline]
    fn mark(&self, id: SectionId, how: Reach, by: impl FnOnce() -> Option<Aim>) -> bool {
        !self.visits.has_seen(id)
            && self.sections.is_alive(id)
            && !self.link.is_sframe_section(id)
            && self.visits.section(id, by(), how)
    }

    /// Marks the sections of an object that are roots by themselves. Only of those that passes look for, the
    /// headers and names are read.
    fn root_sections<'s>(&'s self, object: &'s ObjectFile<'_, T::E>) -> impl Iterator<Item = SectionId> + 's {
        let special =
            object.special.iter().filter_map(|&index| Some((index, self.special_root(object, index)?)));
        let others = 0..object.headers.len() as u32;
        let others = others.filter_map(|index| Some((index, self.plain_root(object, index)?)));
        special.chain(others).filter_map(|(index, root)| {
            let id = object.section_id(index);
            self.mark(id, Reach::Root(root), || None).then_some(id)
        })
    }

    /// Marks the roots that are symbols: entry, exports, options, scripts.
    fn root_symbols(&self, roots: &mut Vec<SectionId>) {
        let link = self.link;
        let globs = undefined_globs(link.config);
        for id in link.globals.ids() {
            if self.is_root_symbol(id) {
                self.symbol(id, Reach::Root(Root::Exported), roots);
            } else if matches_any(&globs, link.globals.names[id.index()]) {
                self.symbol(id, Reach::Root(Root::Option), roots);
            }
        }
        for (name, root) in self.root_names() {
            if let Some(id) = link.globals.lookup(name) {
                self.symbol(id, Reach::Root(root), roots);
            }
        }
    }

    /// Under `-r`, the command line has to say what the output is for. Without any root nothing would be
    /// left, so this is an error, as in GNU ld. A section that its object or a script keeps is a root, too.
    fn check_roots(&self) {
        let link = self.link;
        if !link.config.is_relocatable() || link.config.gc.keep_exported {
            return;
        }
        let is_defined = |name: &[u8]| {
            let id = link.globals.lookup(name);
            id.is_some_and(|id| matches!(link.definition(id), Definition::Object { .. }))
        };
        let globs = undefined_globs(link.config);
        let fits = |id: SymbolId| matches_any(&globs, link.globals.names[id.index()]);
        let is_kept = |object: &ObjectFile<'_, T::E>| {
            let root = |index| self.special_root(object, index).or_else(|| self.plain_root(object, index));
            let mut all = 0..object.headers.len() as u32;
            all.any(|index| matches!(root(index), Some(Root::Keep | Root::Retained)))
        };
        let rooted = self.root_names().any(|(name, _)| is_defined(name))
            || link.globals.ids().any(fits)
            || link.objects.iter().any(is_kept);
        if !rooted {
            let message = "--gc-sections requires a defined symbol root specified by -e or -u";
            let help = "with -r nothing else says which sections the next link needs; --gc-keep-exported keeps all globals";
            link.sink.report(Diagnostic::error(Code::BadOption, message).help(help));
        }
    }

    fn root_names(&self) -> impl Iterator<Item = (&[u8], Root)> {
        let link = self.link;
        let symbols = &link.config.symbols;
        let listed = symbols.undefined.iter().chain(&symbols.require_defined);
        let own = [
            (&link.entry[..], Root::Entry),
            (&symbols.init[..], Root::Initializer),
            (&symbols.fini[..], Root::Finalizer),
        ];
        own.into_iter()
            .chain(listed.map(|name| (&name[..], Root::Option)))
            .chain(link.script_references.iter().map(|&name| (name, Root::Script)))
            .chain(self.names_in_provides().map(|name| (name, Root::Script)))
    }

    /// The symbols that the values of used `PROVIDE`s refer to. Only now it is known which provided symbols
    /// are used.
    fn names_in_provides(&self) -> impl Iterator<Item = &[u8]> {
        let link = self.link;
        let is_made = |name: &[u8]| {
            let id = link.globals.lookup(name);
            id.is_some_and(|id| matches!(link.definition(id), Definition::Linker(_)))
        };
        link.plan.referenced_symbols(&is_made).into_iter().map(|name| &name.bytes[..])
    }

    fn is_root_symbol(&self, id: SymbolId) -> bool {
        let visible =
            matches!(self.link.definitions.visibility[id.index()], elf::STV_DEFAULT | elf::STV_PROTECTED);
        if self.link.config.gc.keep_exported && visible {
            return true;
        }
        let exported = self.link.symbol_flags(id).contains(SymbolFlags::EXPORTED);
        if self.link.config.is_shared() || self.link.config.is_relocatable() {
            return exported;
        }
        exported
            && (self.link.mentions(id).contains(MentionedBy::IN_SHARED)
                || self.link.config.symbols.export_dynamic
                || self.link.lists.dynamic.is_some())
    }

    /// Whether a section may be a root: it is in the link, and no `.sframe`.
    fn may_be_root(&self, id: SectionId) -> bool {
        let sections = self.sections;
        sections.is_alive(id)
            && !sections.is(id, SectionState::NOT_CONTENT)
            && !self.link.is_sframe_section(id)
    }

    /// Why a section is a root by its type, its name or what its object says; `None` if it is not. All such
    /// sections are among those that passes look for ([`ObjectFile::special`]).
    fn special_root(&self, object: &ObjectFile<'_, T::E>, index: u32) -> Option<Root> {
        if !self.may_be_root(object.section_id(index)) {
            return None;
        }
        let header = &object.headers[index as usize];
        let flags = header.sh_flags.get();
        if flags & elf::SHF_GNU_RETAIN != 0 {
            return Some(Root::Retained);
        }
        let grouped = flags & elf::SHF_GROUP != 0;
        let reserved = is_alloc(flags) && is_reserved(object, index as usize, header.sh_type.get(), grouped);
        reserved.then_some(Root::Reserved)
    }

    /// Why another section is a root.
    #[inline]
    fn plain_root(&self, object: &ObjectFile<'_, T::E>, index: u32) -> Option<Root> {
        let (sections, id) = (self.sections, object.section_id(index));
        if !self.may_be_root(id) {
            return None;
        }
        let class = self.link.class_of(id);
        if sections.is(id, SectionState::KEEP) {
            return Some(Root::Keep);
        }
        if sections.is(id, SectionState::ABSORBED) || class.contains(SectionClass::EH_FRAME) {
            return Some(Root::Frames);
        }
        let is_bound = class.intersects(SectionClass::ALLOC | SectionClass::ORDERED)
            || class.contains(SectionClass::GROUPED) && self.is_of_loaded_group(object, index);
        (!is_bound).then_some(Root::NotLoaded)
    }

    /// Whether the group of a section has loaded members. Then the section lives and dies with them. Groups
    /// without loaded members hold types and macros of debug information, which only debug information needs.
    fn is_of_loaded_group(&self, object: &ObjectFile<'_, T::E>, section: u32) -> bool {
        let Some(entry) = self.link.groups.of_section(object.id, section) else { return true };
        entry.group.members.iter().any(|&member| {
            object.headers.get(member as usize).is_some_and(|header| is_alloc(header.sh_flags.get()))
        })
    }

    /// Spawns a job that follows the edges of a stack of sections.
    fn hand_on<'s>(&'s self, stack: Vec<SectionId>, scope: &rayon_core::Scope<'s>)
    where
        V: Sync,
    {
        self.stacks.fetch_add(1, Ordering::Relaxed);
        scope.spawn(|scope| {
            self.trace(stack, scope);
            self.stacks.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Follows edges depth first. If another thread is idle or the stack is long, the older half of the stack
    /// becomes a job of its own: it leads to more sections than the newer half.
    fn trace<'s>(&'s self, mut stack: Vec<SectionId>, scope: &rayon_core::Scope<'s>)
    where
        V: Sync,
    {
        let threads = rayon_core::current_num_threads();
        let mut window = Vec::with_capacity(WINDOW);
        while !stack.is_empty() {
            window.extend(stack.drain(stack.len().saturating_sub(WINDOW)..));
            self.touch(&window);
            window.drain(..).for_each(|id| self.edges(id, &mut stack));
            let is_anyone_idle = || self.stacks.load(Ordering::Relaxed) < threads;
            if stack.len() >= 2 * SHARE || stack.len() >= 2 * LEAST_SHARE && is_anyone_idle() {
                let share = stack.drain(..stack.len() / 2).collect();
                self.hand_on(share, scope);
            }
        }
    }

    /// Reads the first relocation of each section. They lie far apart in the inputs, and no read depends on
    /// another, so the processor waits for all these cache misses at once instead of one after the other.
    #[inline]
    fn touch(&self, window: &[SectionId]) {
        let link = self.link;
        let loaded = window.iter().filter(|&&id| link.class_of(id).contains(SectionClass::ALLOC));
        let firsts = loaded.filter_map(|&id| {
            let (object, index) = link.locate(id)?;
            object.relocations(index as usize).first()
        });
        black_box(firsts.fold(0, |all, relocation| all ^ relocation.symbol()));
    }

    fn edges(&self, id: SectionId, stack: &mut Vec<SectionId>) {
        let link = self.link;
        let Some((object, index)) = link.locate(id) else { return };
        let class = link.class_of(id);
        for dependent in dependents_of(self.dependents, id) {
            if self.mark(dependent, Reach::Dependent(id), || None) {
                stack.push(dependent);
            }
        }
        if class.contains(SectionClass::GROUPED) {
            self.group_members(object.id, index, id, stack);
        }
        let header = &object.headers[index as usize];
        if !class.contains(SectionClass::ALLOC) && !is_plain_note(header.sh_type.get(), header.sh_flags.get())
        {
            return;
        }
        if self.sections.is(id, SectionState::ABSORBED) || class.contains(SectionClass::EH_FRAME) {
            // `Synthesized::frame_edges` follows the records of a live function with the function.
            return;
        }
        for relocation in object.relocations(index as usize) {
            let how = Reach::Reference(id, relocation.r_offset.get());
            let symbol = relocation.symbol();
            // Most references are to local symbols, which need no search.
            if symbol < object.first_global {
                if let Some((section, start)) = object.symbol_section(symbol)
                    && self.mark(section, how, || Some(local_aim::<T>(object, relocation, start)))
                {
                    stack.push(section);
                }
            } else {
                self.symbol(object.symbol_id(symbol), how, stack);
            }
        }
        for symbol in link.frame_edges(id) {
            self.symbol(symbol, Reach::Frame(id), stack);
        }
    }

    fn group_members(&self, file: FileId, section: u32, of: SectionId, stack: &mut Vec<SectionId>) {
        let Some(entry) = self.link.groups.of_section(file, section) else { return };
        for &member in &entry.group.members {
            let id = self.link.objects[file.index()].section_id(member);
            if self.mark(id, Reach::Group(of), || None) {
                stack.push(id);
            }
        }
    }

    /// Marks the section that a reference to a symbol leads to. For `__start_NAME` and `__stop_NAME` it marks
    /// all sections `NAME`.
    fn symbol(&self, id: SymbolId, how: Reach, stack: &mut Vec<SectionId>) {
        let link = self.link;
        let section = if link.globals.contains(id) {
            self.defining_sections.of_global(id)
        } else {
            link.symbol_section(id).map(|(section, _)| section)
        };
        if let Some(section) = section {
            let by = || {
                let (_, offset) = link.symbol_section(id)?;
                Some(Aim { symbol: id, offset, start: offset })
            };
            if self.mark(section, how, by) {
                stack.push(section);
            }
            return;
        }
        if !link.globals.contains(id) || !self.visits.name(id, how) {
            return;
        }
        if !matches!(link.definition(id), Definition::Linker(_) | Definition::Undefined) {
            return;
        }
        let name = link.globals.names[id.index()];
        let Some(section) = start_stop(name) else { return };
        if link.config.gc.start_stop && !section.starts_with(b"__libc_") {
            return;
        }
        for &id in link.identifier_sections.get(section).into_iter().flatten() {
            if self.mark(id, how, || None) {
                stack.push(id);
            }
        }
    }
}

/// What a relocation with a local symbol leads to, whose own offset is `start`. See
/// [`crate::relocs::address::target`].
fn local_aim<T: Target>(object: &ObjectFile<'_, T::E>, relocation: &Rela<T::E>, start: u64) -> Aim {
    let index = relocation.symbol();
    let symbol = object.symbol_id(index);
    if object.symbols[index as usize].kind() != elf::STT_SECTION {
        return Aim { symbol, offset: start, start };
    }
    let offset = start.wrapping_add_signed(relocation.r_addend.get());
    let direct = [RelocExpr::Symbol, RelocExpr::SignedPointer];
    let is_direct = T::reloc_info(relocation.kind()).is_some_and(|info| direct.contains(&info.expr));
    Aim { symbol, offset, start: if is_direct { offset } else { start } }
}

/// Whether a section is a note that belongs to no group and to no other section. What it refers to stays
/// alive even if the note is not loaded, as in GNU ld: a reader of the file looks for the note.
fn is_plain_note(sh_type: u32, flags: u64) -> bool {
    sh_type == elf::SHT_NOTE && flags & (elf::SHF_GROUP | elf::SHF_LINK_ORDER) == 0
}

/// Whether start-up code or a reader of the program looks for a section by its type or name.
fn is_reserved<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize, sh_type: u32, grouped: bool) -> bool {
    match sh_type {
        elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY => true,
        elf::SHT_NOTE => !grouped,
        _ => has_root_name(object, index),
    }
}

/// Whether start-up code relies on a section of this name without a reference to it. Such names are special
/// ([`crate::input::section_class::is_special`]).
fn has_root_name<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    const EXACT: &[&[u8]] = &[b".init", b".fini", b".jcr"];
    const PREFIXES: &[&[u8]] = &[b".ctors", b".dtors", b".init_array", b".fini_array", b".preinit_array"];
    let name = object.section_name(index);
    let is_of = |prefix: &[u8]| name.strip_prefix(prefix).is_some_and(|rest| matches!(rest, [] | [b'.', ..]));
    EXACT.contains(&name) || PREFIXES.iter().any(|prefix| is_of(prefix))
}

/// The lines of `--print-gc-sections`, in file order. Common blocks follow the sections of their object.
pub fn removed_sections<T: Target>(link: &Bound<'_, T>, sections: &SectionStates) -> Vec<String> {
    let mut blocks = vec![0_usize; link.objects.len()];
    for block in drop_commons::dropped(link) {
        blocks[block.file.index()] += 1;
    }
    let removed = |object: &ObjectFile<'_, T::E>| {
        let ids = object.section_ids().enumerate();
        let collected = ids.filter(|&(_, id)| sections.is(id, SectionState::COLLECTED));
        let names: Vec<_> = collected.map(|(index, _)| object.section_name_lossy(index)).collect();
        let commons = std::iter::repeat_n("COMMON".into(), blocks[object.id.index()]);
        let text = |name: String| format!("removing unused section {}", object.described(&name));
        names.into_iter().chain(commons).map(text).collect::<Vec<_>>()
    };
    link.objects.iter().flat_map(removed).collect()
}
