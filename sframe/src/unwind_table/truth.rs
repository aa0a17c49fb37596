//! Holds a table against gimli's evaluation of frames, at every address.
//!
//! Between two addresses at which either side may change its mind, the first address answers for all. The
//! table says how far an answer holds, and so do gimli's rows.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EndianSlice, FrameDescriptionEntry, Pointer, RegisterRule,
    RunTimeEndian, UnwindContext, UnwindSection, UnwindTableRow,
};
use sframe_format::cfi::Saved;
use sframe_format::compact::{Handler, Personality, WholeMatch};
use sframe_format::{Abi, CompactTable, Endian};
use std::collections::BTreeSet;
use std::ops::Bound;

type Slice<'data> = EndianSlice<'data, RunTimeEndian>;

/// The largest number of differences that are kept.
const MOST: usize = 1000;

/// The frames of a section.
pub enum Frames<'data> {
    EhFrame(&'data [u8], u64),
    DebugFrame(&'data [u8]),
}

/// What was compared.
#[derive(Default)]
pub struct Counts {
    pub functions: u64,
    /// Frames that the table says nothing about.
    pub kept: u64,
    pub rows: u64,
    pub addresses: u64,
    pub differences: Vec<String>,
}

/// gimli's storage, with room for as many remembered states as there are.
struct Storage;

impl gimli::UnwindContextStorage<usize> for Storage {
    type Rules = [(gimli::Register, RegisterRule<usize>); 192];
    type Stack = Vec<UnwindTableRow<usize, Self>>;
}

type Fde<'data> = FrameDescriptionEntry<Slice<'data>>;

/// Compares a table with all frames of a section that it says something about.
pub fn compare(table: &CompactTable<&[u8]>, frames: Frames<'_>, counts: &mut Counts) {
    let abi = table.header().abi;
    let endian = match abi.endian() {
        Endian::Little => RunTimeEndian::Little,
        Endian::Big => RunTimeEndian::Big,
    };
    match frames {
        Frames::EhFrame(data, address) => {
            let mut section = gimli::EhFrame::new(data, endian);
            section.set_address_size(8);
            if abi.is_aarch64() {
                section.set_vendor(gimli::Vendor::AArch64);
            }
            let bases = BaseAddresses::default().set_eh_frame(address);
            compare_section(table, &section, &bases, true, counts);
        }
        Frames::DebugFrame(data) => {
            let mut section = gimli::DebugFrame::new(data, endian);
            section.set_address_size(8);
            if abi.is_aarch64() {
                section.set_vendor(gimli::Vendor::AArch64);
            }
            compare_section(table, &section, &BaseAddresses::default(), false, counts);
        }
    }
}

fn compare_section<'data, S: UnwindSection<Slice<'data>>>(
    table: &CompactTable<&[u8]>,
    section: &S,
    bases: &BaseAddresses,
    has_handlers: bool,
    counts: &mut Counts,
) where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let mut fdes: Vec<Fde<'data>> = Vec::new();
    let mut entries = section.entries(bases);
    loop {
        let partial = match entries.next() {
            Ok(Some(CieOrFde::Fde(partial))) => partial,
            Ok(Some(CieOrFde::Cie(_))) => continue,
            Ok(None) => break,
            Err(error) => {
                counts.differences.push(format!("gimli reads no further than this: {error}"));
                break;
            }
        };
        if let Ok(fde) = partial.parse(S::cie_from_offset)
            && fde.len() > 0
        {
            fdes.push(fde);
        }
    }
    // A function ends where another starts, and of two at one address the first counts.
    fdes.sort_by_key(|fde| fde.initial_address());
    let starts: BTreeSet<u64> = fdes.iter().map(Fde::initial_address).collect();
    let mut last = None;
    let mut context: UnwindContext<usize, Storage> = UnwindContext::new_in();
    for fde in &fdes {
        let start = fde.initial_address();
        if last.replace(start) == Some(start) {
            continue;
        }
        let behind = (Bound::Excluded(start), Bound::Unbounded);
        let next = starts.range(behind).next().copied().unwrap_or(u64::MAX);
        let end = next.min(start.saturating_add(fde.len()));
        // An error is a difference, too: the function is compared then.
        if matches!(table.look_up_whole(start), Ok(None)) && matches!(table.look_up_whole(end - 1), Ok(None))
        {
            counts.kept += 1;
            continue;
        }
        counts.functions += 1;
        if let Err(difference) =
            compare_function(table, section, bases, fde, end, has_handlers, &mut context, counts)
            && counts.differences.len() < MOST
        {
            counts.differences.push(difference);
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "they are what the caller knows of the section")]
fn compare_function<'data, S: UnwindSection<Slice<'data>>>(
    table: &CompactTable<&[u8]>,
    section: &S,
    bases: &BaseAddresses,
    fde: &Fde<'data>,
    end: u64,
    has_handlers: bool,
    context: &mut UnwindContext<usize, Storage>,
    counts: &mut Counts,
) -> Result<(), String> {
    let abi = table.header().abi;
    let start = fde.initial_address();
    let failed = |error: gimli::Error| format!("{start:#x}: gimli cannot evaluate the frame: {error}");
    let mut rows = fde.rows(section, bases, context).map_err(failed)?;
    while let Some(row) = rows.next_row().map_err(failed)? {
        let mut pc = row.start_address().max(start);
        let row_end = row.end_address().min(end);
        counts.rows += u64::from(pc < row_end);
        while pc < row_end {
            let found = table.look_up_whole(pc).map_err(|error| format!("{pc:#x}: {error}"))?;
            let found =
                found.ok_or_else(|| format!("{pc:#x}: the table has nothing, the frame has a row"))?;
            let differs =
                |what: &str| Err(format!("{pc:#x}: {what}: the table has {found:?}, gimli {row:?}"));
            if !says_registers(abi, &found, row) {
                return differs("registers");
            }
            if found.function != start {
                return differs("start of the function");
            }
            // gimli stops at the letter for key B.
            if found.rules.key_b || found.rules.signal != fde.is_signal_trampoline() {
                return differs("augmentation");
            }
            if has_handlers {
                if found.handler != handler_of(fde) {
                    return Err(format!(
                        "{pc:#x}: the table has {:?}, gimli {:?}",
                        found.handler,
                        handler_of(fde)
                    ));
                }
                let has_lsda = found.handler.is_some_and(|handler| handler.lsda.is_some());
                let args_size = if has_lsda { row.saved_args_size() } else { 0 };
                if u64::from(found.rules.args_size) != args_size {
                    return differs("size of arguments");
                }
            }
            let next = found.start.saturating_add(found.size.into()).min(row_end);
            if next <= pc {
                return differs("an answer that holds for no address");
            }
            counts.addresses += next - pc;
            pc = next;
        }
    }
    Ok(())
}

/// Whether a table says of every register what a row says. gimli has no rule for a register that is
/// unchanged.
fn says_registers(abi: Abi, found: &WholeMatch<'_>, row: &UnwindTableRow<usize, Storage>) -> bool {
    let rules = &found.rules;
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => (u32::from(register.0), *offset),
        CfaRule::Expression(_) => return false,
    };
    if cfa != (rules.cfa_register, rules.cfa_offset) {
        return false;
    }
    let mut said: Vec<(u32, Saved)> = rules.registers(abi).collect();
    said.sort_unstable();
    let mut expected = Vec::new();
    let mut signed = false;
    for (register, rule) in row.registers() {
        let saved = match rule {
            RegisterRule::SameValue => continue,
            RegisterRule::Constant(state)
                if abi.is_aarch64() && *register == gimli::AArch64::RA_SIGN_STATE =>
            {
                signed = *state & 1 != 0;
                continue;
            }
            RegisterRule::Offset(offset) => Saved::AtCfa(*offset),
            RegisterRule::ValOffset(offset) => Saved::CfaPlus(*offset),
            RegisterRule::Register(other) => Saved::In(other.0.into()),
            RegisterRule::Undefined => Saved::Undefined,
            _ => return false,
        };
        expected.push((u32::from(register.0), saved));
    }
    expected.sort_unstable();
    said == expected && signed == rules.signed
}

fn handler_of(fde: &Fde<'_>) -> Option<Handler> {
    let (address, indirect) = match fde.personality()? {
        Pointer::Direct(address) => (address, false),
        Pointer::Indirect(address) => (address, true),
    };
    let lsda = fde.lsda().map(|pointer| match pointer {
        Pointer::Direct(address) | Pointer::Indirect(address) => address,
    });
    Some(Handler {
        personality: Personality { address, indirect },
        lsda: lsda.filter(|&address| address != 0),
    })
}
