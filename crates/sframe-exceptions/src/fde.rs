//! The row of an FDE in memory (LSB, "Exception Frames"), by gimli, for code that no table describes.

use core::ptr::read_unaligned;
use core::slice;

use gimli::{
    AArch64, BaseAddresses, CfaRule, CommonInformationEntry, EhFrame, EhFrameOffset, EndianSlice,
    NativeEndian, Pointer, Reader, Register, RegisterRule, UnwindContext, UnwindContextStorage,
    UnwindExpression, UnwindSection, UnwindTableRow, Vendor,
};
use sframe_format::cfi::Saved;

use crate::registers::{ABI, place};
use crate::row::{Cfa, How, Row, flags};

/// Registers with rules, and rows that instructions remember. A signal handler may have little stack.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 34];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

type Section<'data> = EhFrame<EndianSlice<'data, NativeEndian>>;

/// Fills in the row for an address. `None`: the FDE does not have it, or has instructions that are not known.
///
/// # Safety
/// `fde` is an FDE in memory, with its CIE; `text` and `data` are the bases of relative pointers in it.
#[inline(never)]
pub unsafe fn read(fde: *const u8, text: u64, data: u64, address: u64, row: &mut Row) -> Option<()> {
    // SAFETY: as the caller says.
    let (bytes, cie) = unsafe { records(fde)? };
    let (start, cie, section) = (bytes.as_ptr(), Cie::new(cie), section(bytes));
    let bases = BaseAddresses::default().set_eh_frame(start as u64).set_text(text).set_got(data);
    let offset = (fde as usize).wrapping_sub(start as usize);
    let whole: Section<'_> = section;
    let get_cie = |_: &_, bases: &_, offset| cie.read(&whole, bases, offset);
    let fde = whole.fde_from_offset(&bases, offset.into(), get_cie).ok()?;
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let found = fde.unwind_info_for_address(&whole, &bases, &mut context, address).ok()?;
    row.clear(u8::try_from(place(fde.cie().return_address_register().0.into())?).ok()?);
    row.function = fde.initial_address();
    row.origin = start as u64;
    let pointer = |pointer| match pointer {
        Pointer::Direct(address) => address,
        // SAFETY: the pointer is in the data of a loaded module.
        Pointer::Indirect(at) => unsafe { read_unaligned(at as *const u64) },
    };
    row.personality = fde.personality().map_or(0, pointer);
    row.data = fde.lsda().map_or(0, pointer);
    row.set(flags::SIGNAL, cie.has(b'S'));
    row.set(flags::KEY_B, cie.has(b'B'));
    row.args_size = found.saved_args_size().try_into().ok()?;
    row.set_cfa(match *found.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            Cfa::Register { place: place(register.0.into())?.try_into().ok()?, offset }
        }
        CfaRule::Expression(expression) => Cfa::Expression(block(&section, expression)?),
    });
    found.registers().try_for_each(|(register, rule)| restore(row, &section, *register, rule))
}

/// Adds the rule of a register to a row. `None`: the row has no room for it.
#[inline]
fn restore(
    row: &mut Row,
    section: &Section<'static>,
    register: Register,
    rule: &RegisterRule<usize>,
) -> Option<()> {
    if register == AArch64::RA_SIGN_STATE && ABI.is_aarch64() {
        row.set(flags::SIGNED, matches!(rule, RegisterRule::Constant(state) if state & 1 != 0));
        return Some(());
    }
    let number = u32::from(register.0);
    match *rule {
        RegisterRule::Offset(offset) => row.restore(number, Saved::AtCfa(offset)),
        RegisterRule::ValOffset(offset) => row.restore(number, Saved::CfaPlus(offset)),
        RegisterRule::Register(other) => row.restore(number, Saved::In(other.0.into())),
        RegisterRule::Undefined if place(number).is_some() => row.restore(number, Saved::Undefined),
        RegisterRule::Expression(expression) => {
            row.compute(number, How::AtExpression, block(section, expression)?)
        }
        RegisterRule::ValExpression(expression) => {
            row.compute(number, How::IsExpression, block(section, expression)?)
        }
        _ => Some(()),
    }
}

/// The bytes from the first to the last of an FDE and its CIE, and those of the CIE. `None`: one has the long
/// form.
///
/// # Safety
/// `fde` is an FDE in memory, with its CIE.
#[inline]
unsafe fn records(fde: *const u8) -> Option<(&'static [u8], &'static [u8])> {
    // SAFETY: as the caller says; a record's first word is its length.
    unsafe {
        let end = |record: *const u8| Some(record.add(4 + length(record)?));
        let cie_at = fde.add(4).sub(read_unaligned(fde.add(4).cast::<u32>()) as usize);
        let (start, cie_end) = (cie_at.min(fde), end(cie_at)?);
        let end = cie_end.max(end(fde)?);
        let cie = slice::from_raw_parts(cie_at, cie_end.offset_from(cie_at) as usize);
        Some((slice::from_raw_parts(start, end.offset_from(start) as usize), cie))
    }
}

fn section(bytes: &[u8]) -> Section<'_> {
    let mut section = EhFrame::from(EndianSlice::new(bytes, NativeEndian));
    section.set_address_size(8);
    section.set_vendor(if ABI.is_aarch64() { Vendor::AArch64 } else { Vendor::Default });
    section
}

/// Room for a CIE with letters that gimli does not know. They are some 30 bytes long.
const MOST_CIE: usize = 128;
/// Where the letters of a CIE begin, behind its length, its zero and its version.
const LETTERS: usize = 9;

/// A CIE whose letters may include AArch64's `B` (key B signs return addresses) and `G` (the stack has
/// tags). gimli knows neither. In a copy, an `S` stands in the place of each, since it has no data either.
struct Cie<'data> {
    letters: &'data [u8],
    copy: Option<[u8; MOST_CIE]>,
    bytes: &'data [u8],
}

impl<'data> Cie<'data> {
    fn new(bytes: &'data [u8]) -> Self {
        let rest = bytes.get(LETTERS..).unwrap_or_default();
        let letters = rest.split(|&byte| byte == 0).next().unwrap_or_default();
        let mut cie = Self { letters, copy: None, bytes };
        if cie.has(b'B') || cie.has(b'G') {
            cie.copy = cie.known();
        }
        cie
    }

    fn has(&self, letter: u8) -> bool {
        self.letters.contains(&letter)
    }

    /// The copy. `None`: it does not fit, and gimli will refuse the CIE.
    fn known(&self) -> Option<[u8; MOST_CIE]> {
        let mut copy = [0; MOST_CIE];
        copy.get_mut(..self.bytes.len())?.copy_from_slice(self.bytes);
        for letter in copy.iter_mut().skip(LETTERS).take(self.letters.len()) {
            if matches!(letter, b'B' | b'G') {
                *letter = b'S';
            }
        }
        Some(copy)
    }

    /// Reads it, from where it is in the section or from its copy.
    fn read<'own>(
        &'own self,
        whole: &Section<'own>,
        bases: &BaseAddresses,
        offset: EhFrameOffset,
    ) -> Result<CommonInformationEntry<EndianSlice<'own, NativeEndian>>, gimli::Error> {
        let copy = self.copy.as_ref().and_then(|copy| copy.get(..self.bytes.len()));
        let Some(copy) = copy else { return whole.cie_from_offset(bases, offset) };
        let bases = bases.clone().set_eh_frame(self.bytes.as_ptr() as u64);
        section(copy).cie_from_offset(&bases, EhFrameOffset(0))
    }
}

fn block(section: &Section<'static>, expression: UnwindExpression<usize>) -> Option<&'static [u8]> {
    let bytes = expression.get(section).ok()?.0;
    (!bytes.is_empty()).then(|| bytes.slice())
}

/// Bytes of a record behind its first word. `None`: it has the long form, which no compiler writes.
///
/// # Safety
/// `record` is a CIE or an FDE.
unsafe fn length(record: *const u8) -> Option<usize> {
    // SAFETY: as the caller says.
    let length = unsafe { read_unaligned(record.cast::<u32>()) };
    (length < 0xffff_fff0).then_some(length as usize)
}
