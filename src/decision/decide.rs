//! Decides about one relocation: its value, the instructions to rewrite, the slots and dynamic relocations
//! that it needs.
//!
//! The linker meets each relocation twice. `scan_relocations` asks which GOT slots, PLT entries and dynamic
//! relocations must exist; later, [`crate::relocs::apply`] asks which value to write. If the answers
//! differed, the output would use a slot that does not exist. So both call [`decide`], a pure function of the
//! relocation type, facts about the symbol, the bytes around the field and the kind of output.

use crate::arch::relocation::SymbolFacts;
use crate::arch::{Mode, RelocBase, RelocExpr, RelocInfo, Site, Target};
use crate::symbols::Needs;

/// The value that a dynamic relocation computes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DynamicKind {
    /// Base address plus `S + A`.
    Relative,
    /// `S + A` of a symbol that the dynamic linker looks up.
    Symbolic,
    /// `S + A` of a local `STT_GNU_IFUNC`: the result of its resolver, or the address of its PLT entry if the
    /// program uses that as the function's address. Also what any other local function returns.
    Resolved,
    /// Base address plus the address of the GOT slot that holds the symbol's offset from the thread pointer.
    TpSlot,
    /// Offset from the thread pointer.
    TpOffset,
    /// Offset in the TLS block of the module that defines the symbol.
    DtpOffset,
    /// Base address plus `S + A`, signed.
    SignedRelative,
    /// `S + A`, signed, of a symbol that the dynamic linker looks up, or of a number.
    SignedSymbolic,
    /// Size of the definition that prevails at run time.
    Size {
        /// The field has 8 bytes, not 4.
        wide: bool,
    },
}

/// Why the linker cannot carry out a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The field needs an address that is unknown until the output is loaded, and it cannot hold a dynamic
    /// relocation.
    NeedsPic,
    /// The distance to an absolute symbol changes with the load address.
    AbsoluteDistance,
    /// The code computes a distance to an undefined symbol. It would take the load address for the symbol's.
    DistanceToNothing,
    /// Local-exec TLS code in a shared library or for a library's variable, or local-dynamic code for another
    /// module's variable.
    NeedsTlsModel,
    /// The relocation needs a copy relocation, but `-z nocopyreloc` forbids it.
    CopyForbidden,
    /// A TLS relocation stands in an instruction sequence that the psABI does not allow for it.
    UnexpectedInstruction,
    /// Another module may define the function that computes a word, or the function has a resolver.
    NotOwnFunction,
    /// The symbol that stands for an instruction is no number.
    NotNumber,
}

/// The decision about one relocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Action<T: Target> {
    /// First operand of the value to store.
    pub expr: RelocExpr,
    /// The base that is subtracted.
    pub base: RelocBase,
    /// The rewriting to carry out instead of a plain store.
    pub edit: Option<T::Edit>,
    /// The next relocation is part of the rewritten sequence.
    pub takes_next: bool,
    /// The tables and slots that it needs, for its symbol and for the link.
    pub needs: Needs,
    /// The dynamic relocation at this place.
    pub dynamic: Option<DynamicKind>,
    /// Why the linker cannot carry it out. The other fields then hold the best approximation, for links that
    /// go on after errors.
    pub problem: Option<Problem>,
}

impl<T: Target> Action<T> {
    #[inline]
    fn value(expr: RelocExpr, base: RelocBase, needs: Needs) -> Self {
        let got_base = if matches!(base, RelocBase::Got | RelocBase::GotPage) || expr == RelocExpr::GotBase {
            Needs::GOT_BASE
        } else {
            Needs::empty()
        };
        Action {
            expr,
            base,
            edit: None,
            takes_next: false,
            needs: needs | got_base,
            dynamic: None,
            problem: None,
        }
    }

    #[inline]
    fn dynamic(kind: DynamicKind, needs: Needs) -> Self {
        Action { dynamic: Some(kind), ..Self::value(RelocExpr::Symbol, RelocBase::Zero, needs) }
    }

    #[inline]
    fn problem(info: &RelocInfo<T>, problem: Problem) -> Self {
        Action { problem: Some(problem), ..Self::value(info.expr, info.base, Needs::empty()) }
    }
}

/// The fast path of [`decide`]. Most relocations of code are a distance to a symbol of this output, which
/// needs no table. `None`: the relocation is of another kind, or [`Target::relax`] must look at it. An action
/// from here always equals that of [`decide`].
#[inline]
pub fn plain<T: Target>(info: &RelocInfo<T>, facts: SymbolFacts) -> Option<Action<T>> {
    let elsewhere = SymbolFacts::IMPORTED | SymbolFacts::IFUNC | SymbolFacts::ABSOLUTE;
    let is_distance =
        matches!(info.expr, RelocExpr::Symbol | RelocExpr::Plt) && info.base == RelocBase::Place;
    (is_distance && T::is_fixed(info) && !facts.intersects(elsewhere))
        .then(|| Action::value(RelocExpr::Symbol, RelocBase::Place, Needs::empty()))
}

/// Decides about one relocation.
#[inline]
pub fn decide<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    if let Some(relaxed) = T::relax(info, site, mode) {
        return Action {
            edit: Some(relaxed.edit),
            takes_next: relaxed.takes_next,
            ..Action::value(relaxed.expr, relaxed.base, slot_needs(relaxed.expr, site, mode))
        };
    }
    match info.expr {
        RelocExpr::Nothing => Action::value(RelocExpr::Nothing, RelocBase::Zero, Needs::empty()),
        RelocExpr::Symbol => symbol(info, site, mode),
        RelocExpr::Plt if !site.is_bound() && (mode.shared || !T::takes_address(info, site)) => {
            Action::value(RelocExpr::Plt, info.base, Needs::PLT | import(site))
        }
        RelocExpr::Plt => symbol(info, site, mode),
        // The slot's absolute address, as a word of a literal pool (s390x).
        RelocExpr::GotTp if info.base == RelocBase::Zero && mode.position_independent => {
            Action::dynamic(DynamicKind::TpSlot, slot_needs(info.expr, site, mode))
        }
        RelocExpr::GotSlot | RelocExpr::GotTp | RelocExpr::TlsGd => {
            Action::value(info.expr, info.base, slot_needs(info.expr, site, mode))
        }
        // In an executable, the linker rewrites these sequences as a whole. It cannot keep an instruction
        // that `relax` does not know, because it rewrites the offsets and calls of the same sequence in any
        // case.
        RelocExpr::TlsLd | RelocExpr::TlsDesc | RelocExpr::TlsDescCall
            if !mode.shared && T::TLS_REWRITES_ALL =>
        {
            Action::problem(info, Problem::UnexpectedInstruction)
        }
        RelocExpr::TlsLd | RelocExpr::TlsDesc => {
            Action::value(info.expr, info.base, slot_needs(info.expr, site, mode))
        }
        RelocExpr::TlsDescCall => Action::value(RelocExpr::Nothing, RelocBase::Zero, Needs::empty()),
        // The definition that prevails at run time may have another size. A program takes the size that it
        // was linked with where the dynamic linker cannot write.
        RelocExpr::Size
            if site.has(SymbolFacts::IMPORTED)
                && (mode.shared || site.writable && !site.has(SymbolFacts::NO_DEFINITION)) =>
        {
            Action::dynamic(DynamicKind::Size { wide: info.size == 8 }, Needs::DYNSYM)
        }
        RelocExpr::GotBase | RelocExpr::TlsBlock | RelocExpr::Size => {
            Action::value(info.expr, info.base, Needs::empty())
        }
        RelocExpr::TpOffset => thread_pointer_offset(info, site, mode),
        RelocExpr::DtpOffset if site.has(SymbolFacts::IMPORTED) => match info.size {
            // The offset goes with this module's number, so it is right if this module defines the variable.
            // If no module does, the code never runs.
            _ if site.facts.intersects(SymbolFacts::EXPORTED | SymbolFacts::NO_DEFINITION) => {
                Action::value(info.expr, info.base, Needs::empty())
            }
            // This word of data may be half of a `tls_index` for the library that defines the variable.
            8 if !site.code => Action::dynamic(DynamicKind::DtpOffset, Needs::DYNSYM),
            _ => Action::problem(info, Problem::NeedsTlsModel),
        },
        RelocExpr::DtpOffset => Action::value(info.expr, info.base, Needs::empty()),
        RelocExpr::SignedPointer => signed_pointer(site),
        RelocExpr::SignedGotSlot | RelocExpr::SignedTlsDesc => {
            Action::value(info.expr, info.base, slot_needs(info.expr, site, mode))
        }
        RelocExpr::Initializer if !site.is_bound() => Action::problem(info, Problem::NotOwnFunction),
        RelocExpr::Initializer => Action::dynamic(DynamicKind::Resolved, Needs::empty()),
        // `relax` replaces the instruction if it can.
        RelocExpr::Patch => Action::problem(info, Problem::NotNumber),
    }
}

/// A pointer that the dynamic linker signs. Only a process knows its keys, so programs at fixed addresses
/// have a dynamic relocation, too.
fn signed_pointer<T: Target>(site: &Site<'_>) -> Action<T> {
    if site.has(SymbolFacts::IMPORTED) {
        Action::dynamic(DynamicKind::SignedSymbolic, Needs::DYNSYM)
    } else if site.has(SymbolFacts::IFUNC) {
        // The only address that the linker knows is that of the PLT entry.
        Action::dynamic(DynamicKind::SignedRelative, Needs::PLT | Needs::CANONICAL_PLT)
    } else if site.has(SymbolFacts::ABSOLUTE) {
        Action::dynamic(DynamicKind::SignedSymbolic, Needs::empty())
    } else {
        Action::dynamic(DynamicKind::SignedRelative, Needs::empty())
    }
}

fn import(site: &Site<'_>) -> Needs {
    if site.has(SymbolFacts::IMPORTED) { Needs::DYNSYM } else { Needs::empty() }
}

/// What other modules need of a function with a resolver whose address this program loads. The dynamic linker
/// does not run a program's resolvers for libraries, because it relocates these first, and refuses to start.
/// In a program with fixed addresses, the PLT entry is the function's address for all modules.
fn address_for_others(site: &Site<'_>, mode: &Mode) -> Needs {
    let own = SymbolFacts::IFUNC | SymbolFacts::EXPORTED | SymbolFacts::IMPORTED;
    let is_own_export = site.facts & own == SymbolFacts::IFUNC | SymbolFacts::EXPORTED;
    if is_own_export && !mode.position_independent {
        Needs::PLT | Needs::CANONICAL_PLT
    } else {
        Needs::empty()
    }
}

/// The GOT slots that an operand needs.
fn slot_needs(expr: RelocExpr, site: &Site<'_>, mode: &Mode) -> Needs {
    match expr {
        RelocExpr::GotSlot => Needs::GOT | import(site) | address_for_others(site, mode),
        RelocExpr::GotTp if mode.shared => Needs::GOT_TP | import(site) | Needs::STATIC_TLS,
        RelocExpr::GotTp => Needs::GOT_TP | import(site),
        RelocExpr::TlsGd => Needs::TLS_GD | import(site),
        RelocExpr::TlsDesc => Needs::TLS_DESC | import(site),
        RelocExpr::SignedGotSlot
            if site.facts & (SymbolFacts::IFUNC | SymbolFacts::IMPORTED) == SymbolFacts::IFUNC =>
        {
            Needs::SIGNED_GOT | Needs::PLT | Needs::CANONICAL_PLT
        }
        RelocExpr::SignedGotSlot => Needs::SIGNED_GOT | import(site),
        RelocExpr::SignedTlsDesc => Needs::SIGNED_TLS_DESC | import(site),
        RelocExpr::TlsLd => Needs::TLS_MODULE,
        _ => Needs::empty(),
    }
}

/// A relocation whose value is the symbol's address, or a distance to it.
#[inline]
fn symbol<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    let absolute = info.base == RelocBase::Zero;
    let word = absolute && info.size == 8;
    if site.has(SymbolFacts::IMPORTED) {
        return imported(info, site, mode);
    }
    if site.has(SymbolFacts::IFUNC) {
        if absolute && mode.position_independent {
            // A resolver takes no addend: with one, the dynamic linker would call some other function.
            let entry = if site.addend == 0 { Needs::empty() } else { Needs::PLT | Needs::CANONICAL_PLT };
            return if word {
                Action::dynamic(DynamicKind::Resolved, entry)
            } else {
                Action::problem(info, Problem::NeedsPic)
            };
        }
        // The only address that the linker knows is that of the PLT entry.
        let needs = Needs::PLT | Needs::CANONICAL_PLT;
        return Action::value(RelocExpr::Plt, info.base, needs);
    }
    if site.has(SymbolFacts::ABSOLUTE) {
        if site.has(SymbolFacts::UNDEFINED_WEAK) {
            return undefined_weak(info, site, mode);
        }
        // A relocation without a symbol holds a distance that the compiler has computed, and other linkers
        // accept it. An offset in a page does not change with the load address.
        let moves = !absolute && info.base != RelocBase::Page;
        let defined = site.symbol != 0 && !site.has(SymbolFacts::NO_DEFINITION);
        if moves && mode.position_independent && defined {
            // A call goes through a PLT entry that loads the number from a word of the GOT. That word needs
            // no relocation.
            if info.expr == RelocExpr::Plt && !T::takes_address(info, site) {
                return Action::value(RelocExpr::Plt, info.base, Needs::PLT | Needs::GOT);
            }
            // What a script or an option assigns may be meant as an address of the output, as in other
            // linkers.
            if !site.has(SymbolFacts::ASSIGNED) {
                return Action::problem(info, Problem::AbsoluteDistance);
            }
        }
        return Action::value(RelocExpr::Symbol, info.base, Needs::empty());
    }
    if absolute && mode.position_independent {
        return if word {
            Action::dynamic(DynamicKind::Relative, Needs::empty())
        } else {
            Action::problem(info, Problem::NeedsPic)
        };
    }
    Action::value(RelocExpr::Symbol, info.base, Needs::empty())
}

/// The address of a symbol that the dynamic linker binds. It can fill in a writable word. For other code, an
/// executable makes a copy or a canonical PLT entry, and all modules use the address of that.
fn imported<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    let word = info.base == RelocBase::Zero && info.size == 8;
    if word && (mode.position_independent || site.writable || mode.text_relocations) {
        return Action::dynamic(DynamicKind::Symbolic, Needs::DYNSYM);
    }
    if mode.shared || (mode.position_independent && info.base == RelocBase::Zero) {
        return Action::problem(info, Problem::NeedsPic);
    }
    if site.has(SymbolFacts::NO_DEFINITION) {
        return undefined_weak(info, site, mode);
    }
    if site.has(SymbolFacts::FUNCTION) || info.expr == RelocExpr::Plt {
        let needs = Needs::PLT | Needs::CANONICAL_PLT | Needs::DYNSYM;
        return Action::value(RelocExpr::Plt, info.base, needs);
    }
    if !mode.copy {
        return Action::problem(info, Problem::CopyForbidden);
    }
    Action::value(RelocExpr::Symbol, info.base, Needs::COPY | Needs::DYNSYM)
}

/// The address of an undefined weak symbol: 0 wherever the program is loaded. Position-independent code must
/// load it from the GOT, but calls may stay: programs test the symbol before they call it. Where the psABI
/// says so, the symbol counts as lying at the place of the relocation, so the distance is the addend.
fn undefined_weak<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    if mode.position_independent
        && site.code
        && info.base == RelocBase::Place
        && info.expr == RelocExpr::Symbol
    {
        return Action::problem(info, Problem::DistanceToNothing);
    }
    let is_here = T::UNDEFINED_WEAK_IS_PLACE && !site.code && info.base == RelocBase::Place;
    let base = if is_here { RelocBase::Zero } else { info.base };
    Action::value(RelocExpr::Symbol, base, Needs::empty())
}

fn thread_pointer_offset<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    // A program tests a weak variable before it uses it. If no module defines the variable, its code never
    // runs.
    let known = !site.has(SymbolFacts::IMPORTED) || site.has(SymbolFacts::NO_DEFINITION);
    if known && !mode.shared {
        return Action::value(RelocExpr::TpOffset, info.base, Needs::empty());
    }
    if info.size != 8 {
        return Action::problem(info, Problem::NeedsTlsModel);
    }
    let static_tls = if mode.shared { Needs::STATIC_TLS } else { Needs::empty() };
    Action::dynamic(DynamicKind::TpOffset, import(site) | static_tls)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
