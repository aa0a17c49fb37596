//! What a relocation asks for.
//!
//! [`decide`] is a pure function of the relocation type, facts about the symbol, the bytes around
//! the field and the kind of output. The scan calls it to learn which GOT slots, PLT entries and
//! dynamic relocations must exist; the application calls it again to learn what to write. Both
//! get the same answer because nothing else is looked at.

use crate::arch::relocation::fact;
use crate::arch::{From, Mode, RelocInfo, Site, Target, What};
use crate::symbols::flag;

/// Needs that concern the link as a whole; they share a word with the `NEEDS_*` bits of [`flag`].
pub mod need {
    /// The base of the GOT must have an address.
    pub const GOT_BASE: u32 = 1 << 0;
    /// The GOT pair of this module.
    pub const TLS_MODULE: u32 = 1 << 1;
    /// The output cannot be loaded after program start (`DF_STATIC_TLS`).
    pub const STATIC_TLS: u32 = 1 << 2;
    /// All of the above.
    pub const OF_LINK: u32 = 0x7;
}

/// What the dynamic linker does at a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DynamicKind {
    /// Base address plus `S + A`.
    Relative,
    /// `S + A` of a symbol that it looks up.
    Symbolic,
    /// `S + A` of a local `STT_GNU_IFUNC`: the result of its resolver, or the address of its PLT
    /// entry if that is the function's address in this program.
    Resolved,
    /// Base address plus the address of the symbol's GOT slot for its offset from the thread pointer.
    TpSlot,
    /// Offset from the thread pointer.
    TpOffset,
    /// Offset in the block of the module that defines the symbol.
    DtpOffset,
}

/// Why a relocation cannot be carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The output's addresses are not settled now, and the field cannot hold a dynamic relocation.
    NeedsPic,
    /// The distance to an absolute number changes with the load address.
    AbsoluteDistance,
    /// The code computes a distance to a symbol that nothing defines, and would take the load address
    /// for the symbol's.
    DistanceToNothing,
    /// Local exec TLS code in a shared library, or for a library's variable.
    NeedsTlsModel,
    /// A copy relocation would be needed, and `-z nocopyreloc` forbids it.
    CopyForbidden,
    /// A TLS relocation on an instruction that its ABI does not name.
    UnexpectedInstruction,
}

/// What to do about one relocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Action<T: Target> {
    /// First operand of the value; [`What::Nothing`] if nothing is stored.
    pub what: What,
    /// What is subtracted.
    pub from: From,
    /// The rewriting to carry out instead of a plain store.
    pub edit: Option<T::Edit>,
    /// The next relocation is part of the rewritten sequence.
    pub takes_next: bool,
    /// Bits of [`flag`] (`NEEDS_*`) and [`need`].
    pub needs: u32,
    /// The dynamic relocation at this place.
    pub dynamic: Option<DynamicKind>,
    /// Why it cannot be done; everything else is then as good as it can be.
    pub problem: Option<Problem>,
}

impl<T: Target> Action<T> {
    #[inline]
    fn value(what: What, from: From, needs: u32) -> Self {
        let base = if matches!(from, From::Got | From::GotPage) || what == What::GotBase {
            need::GOT_BASE
        } else {
            0
        };
        Action {
            what,
            from,
            edit: None,
            takes_next: false,
            needs: needs | base,
            dynamic: None,
            problem: None,
        }
    }

    #[inline]
    fn dynamic(kind: DynamicKind, needs: u32) -> Self {
        Action { dynamic: Some(kind), ..Self::value(What::Symbol, From::Zero, needs) }
    }

    #[inline]
    fn problem(info: &RelocInfo<T>, problem: Problem) -> Self {
        Action { problem: Some(problem), ..Self::value(info.what, info.from, 0) }
    }
}

/// Decides what becomes of one relocation.
#[inline]
pub fn decide<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    if let Some(relaxed) = T::relax(info, site, mode) {
        return Action {
            edit: Some(relaxed.edit),
            takes_next: relaxed.takes_next,
            ..Action::value(relaxed.what, relaxed.from, slot_needs(relaxed.what, site, mode))
        };
    }
    match info.what {
        What::Nothing => Action::value(What::Nothing, From::Zero, 0),
        What::Symbol => symbol(info, site, mode),
        What::Plt if !site.is_bound() && (mode.shared || !T::takes_address(info, site)) => {
            Action::value(What::Plt, info.from, flag::NEEDS_PLT | import(site))
        }
        What::Plt => symbol(info, site, mode),
        // The slot's address itself, in a word of a literal pool.
        What::GotTp if info.from == From::Zero && mode.position_independent => {
            Action::dynamic(DynamicKind::TpSlot, slot_needs(info.what, site, mode))
        }
        What::GotSlot | What::GotTp | What::TlsGd => {
            Action::value(info.what, info.from, slot_needs(info.what, site, mode))
        }
        // In executables these sequences are rewritten as a whole; code that goes with them
        // (offsets, calls) counts on it.
        What::TlsLd | What::TlsDesc | What::TlsDescCall if !mode.shared && T::TLS_REWRITES_ALL => {
            Action::problem(info, Problem::UnexpectedInstruction)
        }
        What::TlsLd | What::TlsDesc => Action::value(info.what, info.from, slot_needs(info.what, site, mode)),
        What::TlsDescCall => Action::value(What::Nothing, From::Zero, 0),
        What::GotBase | What::TlsBlock | What::Size => Action::value(info.what, info.from, 0),
        What::TpOffset => thread_pointer_offset(info, site, mode),
        What::DtpOffset if site.has(flag::IMPORTED) => match info.size {
            8 => Action::dynamic(DynamicKind::DtpOffset, flag::NEEDS_DYNSYM),
            // Local-dynamic code says that the variable is this module's, and it is.
            _ if site.has(flag::EXPORTED) => Action::value(info.what, info.from, 0),
            _ => Action::problem(info, Problem::NeedsTlsModel),
        },
        What::DtpOffset => Action::value(info.what, info.from, 0),
    }
}

fn import(site: &Site<'_>) -> u32 {
    if site.has(flag::IMPORTED) { flag::NEEDS_DYNSYM } else { 0 }
}

/// The GOT slots behind an operand.
fn slot_needs(what: What, site: &Site<'_>, mode: &Mode) -> u32 {
    match what {
        What::GotSlot => flag::NEEDS_GOT | import(site),
        What::GotTp if mode.shared => flag::NEEDS_GOT_TP | import(site) | need::STATIC_TLS,
        What::GotTp => flag::NEEDS_GOT_TP | import(site),
        What::TlsGd => flag::NEEDS_TLS_GD | import(site),
        What::TlsDesc => flag::NEEDS_TLS_DESC | import(site),
        What::TlsLd => need::TLS_MODULE,
        _ => 0,
    }
}

/// A relocation that wants the symbol's address itself.
#[inline]
fn symbol<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    let absolute = info.from == From::Zero;
    let word = absolute && info.size == 8;
    if site.has(flag::IMPORTED) {
        return imported(info, site, mode);
    }
    if site.has(flag::IFUNC) {
        if absolute && mode.position_independent {
            return if word {
                Action::dynamic(DynamicKind::Resolved, 0)
            } else {
                Action::problem(info, Problem::NeedsPic)
            };
        }
        // The only address that is settled now is that of the PLT entry.
        let needs = flag::NEEDS_PLT | flag::NEEDS_CANONICAL_PLT;
        return Action::value(What::Plt, info.from, needs);
    }
    if site.has(flag::ABSOLUTE) {
        if site.has(flag::UNDEFINED_WEAK) {
            return undefined_weak(info, site, mode);
        }
        if !absolute && mode.position_independent {
            return Action::problem(info, Problem::AbsoluteDistance);
        }
        return Action::value(What::Symbol, info.from, 0);
    }
    if absolute && mode.position_independent {
        return if word {
            Action::dynamic(DynamicKind::Relative, 0)
        } else {
            Action::problem(info, Problem::NeedsPic)
        };
    }
    Action::value(What::Symbol, info.from, 0)
}

/// The address of a symbol that the dynamic linker finds: it fills the word in, or the program
/// gets an address of its own for the symbol, which the libraries then use too.
fn imported<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    let word = info.from == From::Zero && info.size == 8;
    if word && (mode.position_independent || site.writable || mode.text_relocations) {
        return Action::dynamic(DynamicKind::Symbolic, flag::NEEDS_DYNSYM);
    }
    if mode.shared || (mode.position_independent && info.from == From::Zero) {
        return Action::problem(info, Problem::NeedsPic);
    }
    if site.has(fact::NO_DEFINITION) {
        return undefined_weak(info, site, mode);
    }
    if site.has(flag::FUNCTION) || info.what == What::Plt {
        let needs = flag::NEEDS_PLT | flag::NEEDS_CANONICAL_PLT | flag::NEEDS_DYNSYM;
        return Action::value(What::Plt, info.from, needs);
    }
    if !mode.copy {
        return Action::problem(info, Problem::CopyForbidden);
    }
    Action::value(What::Symbol, info.from, flag::NEEDS_COPY | flag::NEEDS_DYNSYM)
}

/// 0, wherever the program is. Code that is loaded anywhere must ask the GOT for that; only calls
/// may be there, as they are not reached.
fn undefined_weak<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    if mode.position_independent && site.code && info.from == From::Place && info.what == What::Symbol {
        return Action::problem(info, Problem::DistanceToNothing);
    }
    Action::value(What::Symbol, info.from, 0)
}

fn thread_pointer_offset<T: Target>(info: &RelocInfo<T>, site: &Site<'_>, mode: &Mode) -> Action<T> {
    let dynamic = mode.shared || site.has(flag::IMPORTED);
    if !dynamic {
        return Action::value(What::TpOffset, info.from, 0);
    }
    if info.size != 8 {
        return Action::problem(info, Problem::NeedsTlsModel);
    }
    let static_tls = if mode.shared { need::STATIC_TLS } else { 0 };
    Action::dynamic(DynamicKind::TpOffset, import(site) | static_tls)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
