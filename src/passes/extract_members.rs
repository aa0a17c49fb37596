//! Decides which files take part in the link.
//!
//! An object on the command line always takes part. An archive such as `libc.a` has thousands of members, and
//! a program needs few of them: those that define a symbol which the program refers to, those that define
//! what these refer to, and so on. So the linker searches the archive for members that define wanted symbols
//! until it finds none.
//!
//! The order counts, and scripts and build systems rely on GNU ld's. An archive is searched where it stands
//! on the command line, for what is wanted at that point:
//!
//! ```text
//! ld main.o liba.a libb.a     main wants f; liba defines f and wants g; libb defines g
//! ld main.o libb.a liba.a     libb is searched before anyone wants g: g stays undefined
//! ```
//!
//! The archives of a group (`--start-group`) are searched in turn until a round takes no member. A library
//! with `--as-needed` that no file before it needs is deferred: it does not end the search of archives for
//! its symbols, but later references may still bind to it. A library cannot satisfy a reference that is not
//! of default visibility, so archives are searched for such a symbol even if a library defines it.
//!
//! What libraries themselves leave undefined is wanted wherever the archives stand ([`left_undefined`]).
//!
//! The search is serial, because each step depends on the one before. It is cheap even for thousands of
//! objects: names are numbers by now, and each global has one byte of state. Only objects in front of all
//! libraries and archives depend on nothing, and all threads take them at once ([`run_of_objects`]).

pub mod again;
mod by_name;
mod definers;
pub mod left_out;
mod left_undefined;
mod link_order;
mod run_of_objects;

use super::define_linker_symbols::OutsideNames;
use super::open_inputs::Step;
use super::parse_inputs::Parsed;
use crate::arch::Target;
use crate::elf::{Sym, consts as elf};
use crate::ids::SymbolId;
use crate::input::object::SymbolPlace;
use crate::input::{ObjectFile, SharedFile, SymbolUse};
use definers::OpenMembers;
use hashbrown::HashMap;
use link_order::link_order;

/// What the search knows of a global. Without libraries, a later one replaces an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// No file has named it yet, or only by weak references.
    Nothing,
    /// Referenced, not defined.
    Wanted,
    /// Only defined weakly, so a common block would prevail.
    DefinedWeakly,
    /// Defined as a common block: a member with a strong definition of what is no function replaces it.
    Common,
    /// Defined.
    Defined,
    /// A shared library defines it, and every reference can see that.
    InLibrary,
}

/// The files that take part, as rows of the candidates, in link order.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// Objects, as rows of the candidates.
    pub objects: Vec<u32>,
    /// Shared libraries, as rows of the candidates.
    pub shared: Vec<u32>,
    /// Archive members among `objects`, each with the global that asked for it (`--why-extract`).
    pub reasons: Vec<(u32, SymbolId)>,
    /// `--as-needed` libraries among `shared`, each with the globals that were wanted when the search came to
    /// it.
    pub needed_for: Vec<(u32, SymbolId)>,
}

/// Rounds over all members of an archive. Further rounds would cost more than a list of definitions.
const ROUNDS: u32 = 3;

/// What a search remembers of an archive.
#[derive(Default)]
struct Archive {
    /// Rounds so far.
    rounds: u32,
    /// Where the symbols that became wanted since the last round began start in [`Search::asked`].
    seen: usize,
}

/// Runs the search. `named` has the references and definitions of options and scripts, `calls` has further
/// references.
pub fn run<T: Target>(
    files: &[Parsed<'_, T>],
    steps: &[Step],
    global_count: usize,
    named: &OutsideNames,
    calls: &[SymbolId],
) -> Extracted {
    let mut search = Search::new(files, global_count, named);
    calls.iter().for_each(|&id| search.want(id));
    search.steps(steps);
    let early = search.found.objects.len();
    search.serve_libraries(steps);
    let mut found = search.finish();
    if found.objects.len() > early {
        found.objects = link_order(found.objects.split_at(early), early, u32::MAX);
    }
    found
}

struct Search<'s, 'a, T: Target> {
    files: &'s [Parsed<'a, T>],
    /// [`OutsideNames::wrappers`].
    wrappers: &'s HashMap<SymbolId, SymbolId>,
    /// [`OutsideNames::no_members_for_commons`].
    no_members_for_commons: bool,
    known: Vec<Known>,
    /// By global: an object refers to it with another visibility than the default one.
    constrained: Vec<bool>,
    taken: Vec<bool>,
    /// Symbols in the order in which they became wanted or became common blocks.
    asked: Vec<SymbolId>,
    /// What the search found out about archives, by their rows.
    archives: HashMap<(u32, u32), Archive>,
    /// Once the search by names has begun.
    open_members: Option<OpenMembers>,
    /// `--as-needed` libraries that no file before them needed.
    deferred: Vec<u32>,
    /// What libraries refer to and no file before them defines.
    left_undefined: Vec<SymbolId>,
    found: Extracted,
}

impl<'s, 'a, T: Target> Search<'s, 'a, T> {
    fn new(files: &'s [Parsed<'a, T>], global_count: usize, named: &'s OutsideNames) -> Self {
        let mut search = Search {
            files,
            wrappers: &named.wrappers,
            no_members_for_commons: named.no_members_for_commons,
            known: vec![Known::Nothing; global_count],
            constrained: vec![false; global_count],
            taken: vec![false; files.len()],
            asked: Vec::new(),
            archives: HashMap::new(),
            open_members: None,
            deferred: Vec::new(),
            left_undefined: Vec::new(),
            found: Extracted::default(),
        };
        for &id in &named.wanted {
            search.want(id);
        }
        for &id in &named.defined {
            search.known[id.index()] = Known::Defined;
        }
        search
    }

    fn finish(mut self) -> Extracted {
        self.found.shared.append(&mut self.deferred);
        self.found.shared.sort_unstable();
        self.found
    }

    fn steps(&mut self, steps: &[Step]) {
        let mut position = self.take_run(steps);
        while let Some(step) = steps.get(position) {
            position += 1;
            match step {
                Step::File(file) => self.take(*file),
                Step::Members(range) => while self.members(range.clone()) {},
                Step::Group(length) => {
                    let end = (position + *length as usize).min(steps.len());
                    self.group(&steps[position..end]);
                    position = end;
                }
            }
        }
    }

    /// Repeats the steps of a group until a round takes no file. A group inside a group (a script's `GROUP`
    /// between `--start-group`) is part of it.
    fn group(&mut self, steps: &[Step]) {
        loop {
            let before = self.found.objects.len() + self.found.shared.len();
            self.steps(steps);
            if self.found.objects.len() + self.found.shared.len() == before {
                return;
            }
        }
    }

    /// Makes one round over all members of an archive. Returns whether it took one.
    fn round(&mut self, range: std::ops::Range<u32>) -> bool {
        let mut any = false;
        for file in range {
            any |= self.look_at(file);
        }
        any
    }

    /// Takes a member if it defines a symbol that the link wants. The first such symbol is the reason.
    fn look_at(&mut self, file: u32) -> bool {
        let files = self.files;
        let Parsed::Object(object) = &files[file as usize] else { return false };
        if self.taken[file as usize] {
            return false;
        }
        let reason = (0..object.globals.len()).find(|&position| self.is_reason(object, position));
        if let Some(position) = reason {
            self.found.reasons.push((file, object.globals[position]));
            self.take(file);
        }
        reason.is_some()
    }

    /// Whether the link wants the global at a position of a member, and the member defines it.
    fn is_reason(&self, object: &ObjectFile<'_, T::E>, position: usize) -> bool {
        // This comes first, because usages lie side by side, and what is known of symbols does not.
        if object.usages[position].is_reference() {
            return false;
        }
        match self.known[object.globals[position].index()] {
            Known::Nothing | Known::DefinedWeakly | Known::InLibrary | Known::Defined => false,
            Known::Common if self.no_members_for_commons => false,
            Known::Wanted => true,
            Known::Common => {
                let index = object.first_global as usize + position;
                let symbol = &object.symbols[index];
                let is_function = matches!(symbol.kind(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
                object.symbol_place(index) != SymbolPlace::Common && !symbol.is_weak() && !is_function
            }
        }
    }

    fn take(&mut self, file: u32) {
        if std::mem::replace(&mut self.taken[file as usize], true) {
            return;
        }
        let files = self.files;
        match &files[file as usize] {
            Parsed::Object(object) => {
                self.found.objects.push(file);
                self.take_object(object);
            }
            Parsed::Shared(shared) => {
                if shared.as_needed {
                    let before = self.found.needed_for.len();
                    self.note_needs(file, shared);
                    if self.found.needed_for.len() == before {
                        self.deferred.push(file);
                        return;
                    }
                }
                self.found.shared.push(file);
                self.take_shared(shared);
            }
            Parsed::Broken | Parsed::Nothing => {}
        }
    }

    fn want(&mut self, id: SymbolId) {
        if self.known[id.index()] == Known::Nothing {
            self.set(id, Known::Wanted);
        }
    }

    fn take_object(&mut self, object: &ObjectFile<'_, T::E>) {
        for (&id, usage) in object.globals.iter().zip(&object.usages) {
            let known = self.known[id.index()];
            match usage {
                SymbolUse::Definition => self.known[id.index()] = Known::Defined,
                // A common block prevails, whichever of the two comes first.
                SymbolUse::WeakDefinition if matches!(known, Known::Defined | Known::Common) => {}
                SymbolUse::WeakDefinition => self.known[id.index()] = Known::DefinedWeakly,
                SymbolUse::Common if matches!(known, Known::Defined | Known::InLibrary) => {}
                SymbolUse::Common => self.set(id, Known::Common),
                SymbolUse::Reference => self.want(id),
                SymbolUse::WeakReference => {}
                SymbolUse::ConstrainedReference => {
                    self.constrained[id.index()] = true;
                    if matches!(known, Known::Nothing | Known::InLibrary) {
                        self.set(id, Known::Wanted);
                    }
                }
                SymbolUse::WeakConstrainedReference => self.constrained[id.index()] = true,
            }
        }
    }

    fn take_shared(&mut self, shared: &SharedFile<'_, T::E>) {
        for (index, (symbol, &id)) in shared.symbols.iter().zip(&shared.globals).enumerate() {
            if !id.is_some() {
                continue;
            }
            if !symbol.is_undefined() {
                let known = &mut self.known[id.index()];
                if !matches!(known, Known::Defined | Known::DefinedWeakly) && !self.constrained[id.index()] {
                    *known = Known::InLibrary;
                }
            } else if !symbol.is_weak() && shared.wanted_version(index).is_none() {
                // A library may want the version of another library. An archive's plain definition is not
                // that version.
                self.leave_undefined(id);
                if let Some(&wrapper) = self.wrappers.get(&id) {
                    self.leave_undefined(wrapper);
                }
            }
        }
    }

    fn leave_undefined(&mut self, id: SymbolId) {
        self.want(id);
        if self.known[id.index()] == Known::Wanted {
            self.left_undefined.push(id);
        }
    }

    /// Notes the globals that a library defines and that the link wants here.
    fn note_needs(&mut self, file: u32, shared: &SharedFile<'_, T::E>) {
        for (symbol, &id) in shared.symbols.iter().zip(&shared.globals) {
            if self.is_served(symbol, id) {
                self.found.needed_for.push((file, id));
            }
        }
    }

    /// Whether a library's symbol defines a global that the link wants.
    fn is_served(&self, symbol: &Sym<T::E>, id: SymbolId) -> bool {
        id.is_some()
            && !symbol.is_undefined()
            && self.known[id.index()] == Known::Wanted
            && !self.constrained[id.index()]
    }
}
