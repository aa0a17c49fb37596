//! How a relocation is described, for every machine.
//!
//! A relocation type computes `expr + addend - base` and stores the result in a field. The psABIs name dozens
//! of types, but nearly all of them are a pair of an `expr` and a `base`. So the passes work with pairs and
//! need to know no machine. The rest belongs to the target: [`super::Target::Field`] says how the bits of a
//! field lie, and [`super::Target::Family`] and [`super::Target::Edit`] say which instructions the linker may
//! rewrite, and how.

use crate::cli::{CallNop, Config, OutputMode, TextRelocations};
use crate::elf::Rela;
use crate::symbols::flags::SymbolFlags;
use bitflags::bitflags;
use zerocopy::byteorder::ByteOrder;

/// A distance in an instruction counts from the instruction's end, at most so many bytes behind the operand.
/// Addends make up for them.
pub const LONGEST_TAIL: u64 = 8;

/// The first operand of a relocation's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelocExpr {
    /// No value: the relocation only marks a place.
    Nothing,
    /// The symbol's address.
    Symbol,
    /// The symbol's entry in the PLT, or its address if it needs no entry.
    Plt,
    /// The GOT slot that holds the symbol's address.
    GotSlot,
    /// The base of the GOT, whatever the symbol is.
    GotBase,
    /// The GOT pair for `__tls_get_addr` (general dynamic).
    TlsGd,
    /// The GOT pair of this module (local dynamic).
    TlsLd,
    /// The GOT pair of the TLS descriptor.
    TlsDesc,
    /// Marks the call through a TLS descriptor.
    TlsDescCall,
    /// The GOT slot that holds the offset from the thread pointer (initial exec).
    GotTp,
    /// Offset in the module's TLS block.
    DtpOffset,
    /// Offset from the thread pointer (local exec).
    TpOffset,
    /// Offset of the program's TLS block from the thread pointer, whatever the symbol is.
    TlsBlock,
    /// The symbol's size.
    Size,
    /// The symbol's address as a pointer that the dynamic linker signs.
    SignedPointer,
    /// The GOT slot that holds the symbol's address as such a pointer.
    SignedGotSlot,
    /// The GOT pair of the TLS descriptor, both words of which are such pointers.
    SignedTlsDesc,
    /// What the function returns that the symbol names. It is called before the program starts.
    Initializer,
    /// A number that replaces the instruction if the symbol is defined.
    Patch,
}

impl RelocExpr {
    /// Whether the addend counts from the symbol, and not from a slot.
    #[inline]
    pub fn is_sum(self) -> bool {
        matches!(self, RelocExpr::Symbol | RelocExpr::Plt | RelocExpr::SignedPointer | RelocExpr::Initializer)
    }

    /// Whether the symbol must be thread-local.
    #[inline]
    pub fn is_tls(self) -> bool {
        matches!(
            self,
            RelocExpr::TlsGd
                | RelocExpr::TlsDesc
                | RelocExpr::SignedTlsDesc
                | RelocExpr::TlsDescCall
                | RelocExpr::GotTp
                | RelocExpr::DtpOffset
                | RelocExpr::TpOffset
        )
    }
}

/// The operand that is subtracted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelocBase {
    /// Zero: nothing is subtracted.
    Zero,
    /// The address of the field.
    Place,
    /// The 4 KiB page of the field. The value is the distance between pages, so the first operand counts as
    /// its page.
    PlacePage,
    /// The 4 KiB page of the first operand itself, which leaves its low 12 bits.
    Page,
    /// The base of the GOT.
    Got,
    /// The 4 KiB page of the base of the GOT.
    GotPage,
}

bitflags! {
    /// What decisions about relocations need to know of a symbol. It does not change between the scan and the
    /// application of relocations.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SymbolFacts: u16 {
        /// [`SymbolFlags::IMPORTED`].
        const IMPORTED = SymbolFlags::IMPORTED.bits();
        /// [`SymbolFlags::EXPORTED`].
        const EXPORTED = SymbolFlags::EXPORTED.bits();
        /// [`SymbolFlags::ABSOLUTE`].
        const ABSOLUTE = SymbolFlags::ABSOLUTE.bits();
        /// [`SymbolFlags::UNDEFINED_WEAK`].
        const UNDEFINED_WEAK = SymbolFlags::UNDEFINED_WEAK.bits();
        /// [`SymbolFlags::FUNCTION`].
        const FUNCTION = SymbolFlags::FUNCTION.bits();
        /// [`SymbolFlags::IFUNC`].
        const IFUNC = SymbolFlags::IFUNC.bits();
        /// [`SymbolFlags::TLS`].
        const TLS = SymbolFlags::TLS.bits();
        /// [`SymbolFlags::DISCARDED`].
        const DISCARDED = SymbolFlags::DISCARDED.bits();
        /// [`SymbolFlags::UNDEFINED`].
        const UNDEFINED = SymbolFlags::UNDEFINED.bits();
        /// [`SymbolFlags::GOT_BASE`].
        const GOT_BASE = SymbolFlags::GOT_BASE.bits();
        /// All that is copied from the symbol's flags.
        const OF_FLAGS = Self::IMPORTED.bits()
            | Self::EXPORTED.bits()
            | Self::ABSOLUTE.bits()
            | Self::UNDEFINED_WEAK.bits()
            | Self::FUNCTION.bits()
            | Self::IFUNC.bits()
            | Self::TLS.bits()
            | Self::DISCARDED.bits()
            | Self::UNDEFINED.bits()
            | Self::GOT_BASE.bits();
        /// A script or an option defines the symbol. Only set for [`Self::ABSOLUTE`] ones.
        const ASSIGNED = 1 << 9;
        /// An object defines the symbol as an absolute number that 31 bits hold. Only set for GOT
        /// relocations.
        const SMALL = 1 << 12;
        /// Nothing defines the symbol. It is 0, or imported nevertheless.
        const NO_DEFINITION = 1 << 13;
        /// The linker must not relax loads of the symbol's address from the GOT. Either relative addressing
        /// might not reach the symbol (its section belongs to the large code model, or
        /// [`crate::passes::find_far_loads`] lists it), or the section with the relocation splits loads, or
        /// only the dynamic linker knows the tag of the address.
        const FAR = 1 << 14;
        /// The symbol's address may be odd. Only set where [`crate::arch::Target::EVEN_TARGETS`] asks for it.
        const ODD = 1 << 15;
    }
}

impl From<SymbolFlags> for SymbolFacts {
    /// Copies the flags that are facts. Other flags have bits that are other facts here.
    #[inline]
    fn from(flags: SymbolFlags) -> Self {
        SymbolFacts::from_bits_retain(flags.bits()) & SymbolFacts::OF_FLAGS
    }
}

/// No fact of its own shares a bit with one that is copied.
const _: () = {
    let own = SymbolFacts::ASSIGNED.bits()
        | SymbolFacts::SMALL.bits()
        | SymbolFacts::NO_DEFINITION.bits()
        | SymbolFacts::FAR.bits()
        | SymbolFacts::ODD.bits();
    assert!(own & SymbolFacts::OF_FLAGS.bits() == 0);
};

/// How `--emit-relocs` describes an instruction that the linker has rewritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewritten {
    /// The type of the relocation.
    pub kind: u32,
    /// The number to add to its offset.
    pub offset: i64,
    /// The number to add to its addend.
    pub addend: i64,
}

impl Rewritten {
    /// A relocation of another type at the same place.
    pub fn of(kind: u32) -> Self {
        Rewritten { kind, offset: 0, addend: 0 }
    }
}

/// The relocation that follows another one in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextRelocation {
    /// Its type.
    pub kind: u32,
    /// Its offset in the section, in bytes.
    pub offset: u64,
    /// Index of its symbol in the object.
    pub symbol: u32,
    /// Addend, signed. With `SHT_REL`, the one in the field.
    pub addend: i64,
}

impl NextRelocation {
    /// Copies the parts of a relocation that the decision about its predecessor may look at.
    #[inline]
    pub fn of<E: ByteOrder>(relocation: &Rela<E>) -> Self {
        NextRelocation {
            kind: relocation.kind(),
            offset: relocation.r_offset.get(),
            symbol: relocation.symbol(),
            addend: relocation.r_addend.get(),
        }
    }
}

/// The place of one relocation, with everything else that a decision may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Site<'b> {
    /// Facts about the symbol.
    pub facts: SymbolFacts,
    /// Bytes of the whole input section.
    pub bytes: &'b [u8],
    /// Offset of the field in them.
    pub offset: usize,
    /// Index of the symbol in the object.
    pub symbol: u32,
    /// Addend, signed. With `SHT_REL`, the one in the field.
    pub addend: i64,
    /// The section is writable at run time.
    pub writable: bool,
    /// The section holds instructions.
    pub code: bool,
    /// The next relocation of the section.
    pub next: Option<NextRelocation>,
}

impl Site<'_> {
    /// The `length` bytes that begin `before` bytes ahead of the field; `None` if the section has
    /// no such bytes.
    #[inline]
    pub fn around(&self, before: usize, length: usize) -> Option<&[u8]> {
        let start = self.offset.checked_sub(before)?;
        self.bytes.get(start..start.checked_add(length)?)
    }

    /// Whether all of these facts hold.
    #[inline]
    pub fn has(&self, facts: SymbolFacts) -> bool {
        self.facts.contains(facts)
    }

    /// Whether this link settles the symbol's address. Otherwise the dynamic linker or a resolver function
    /// does.
    #[inline]
    pub fn is_bound(&self) -> bool {
        !self.facts.intersects(SymbolFacts::IMPORTED | SymbolFacts::IFUNC)
    }
}

/// Options that decisions about relocations depend on. Made once for each link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mode {
    /// The output is a shared library.
    pub shared: bool,
    /// The output runs at any address.
    pub position_independent: bool,
    /// `--relax`.
    pub relax: bool,
    /// The output is position-independent and no interpreter relocates it, so its own first code does. Until
    /// then the GOT holds no addresses.
    pub relocates_itself: bool,
    /// Every address of the output fits 31 bits.
    pub low_addresses: bool,
    /// `-z copyreloc`.
    pub copy: bool,
    /// `-z notext`: dynamic relocations may stand in read-only sections.
    pub text_relocations: bool,
    /// `-z call-nop=`.
    pub call_nop: CallNop,
}

impl Mode {
    /// Reads the command line. `image_base` is the machine's default.
    pub fn new(config: &Config, image_base: u64) -> Self {
        let position_independent = config.is_position_independent();
        let layout = &config.layout;
        let base = layout.image_base.unwrap_or(image_base);
        // Addresses below 2 GiB fit 31 bits. A base below 1.5 GiB leaves half a GiB for the program.
        let low = base < 0x6000_0000 && config.scripts.scripts.is_empty() && layout.section_starts.is_empty();
        Mode {
            shared: config.mode == OutputMode::Shared,
            position_independent,
            relax: config.relocations.relax,
            relocates_itself: config.mode == (OutputMode::Executable { pie: true })
                && config.dynamic.no_dynamic_linker,
            low_addresses: low && !position_independent,
            copy: config.relocations.copy && config.relocations.indirect_extern_access != Some(true),
            text_relocations: config.relocations.text == TextRelocations::Allow,
            call_nop: config.relocations.call_nop,
        }
    }
}

/// A rewritten instruction, and the value that its field now holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relaxed<Edit> {
    /// First operand.
    pub expr: RelocExpr,
    /// The operand that is subtracted.
    pub base: RelocBase,
    /// The change of the bytes.
    pub edit: Edit,
    /// The next relocation belongs to the same sequence. This edit also does its work.
    pub takes_next: bool,
}
