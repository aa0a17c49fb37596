//! What a program says of code that it made: where the code is, its names, and how to leave its frames.
//!
//! For gdb, compilers keep an ELF file in memory: a relocatable one whose sections have the addresses of the
//! code (LLVM, LuaJIT, PHP, V8), or a linked one. `.symtab` has names; `.eh_frame` or `.debug_frame` has
//! frames, often with the relocations that a linker would have done.

use crate::bytes::Bytes;
use crate::hotspot_frame::Frame;
use object::elf::{self, FileHeader64, SHF_ALLOC, SHF_EXECINSTR};
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{Endianness, SectionIndex};
use sframe_format::derive::FdeIndex;
use sframe_format::unwind::step;
use sframe_format::{Abi, Endian, FileRows, FrameAddress, Registers, Source, UnwindError};
use std::ops::Range;

type Header = FileHeader64<Endianness>;
type Sections<'a> = SectionTable<'a, Header>;

/// The largest number of symbols and relocations of a file that are read.
const MOST: usize = 1 << 20;

/// Code that a program made.
pub struct JitObject {
    /// Where it is.
    pub code: Vec<Range<u64>>,
    /// Ascending.
    functions: Vec<Function>,
    rows: Rows,
}

/// A function: where it is, and where its name is.
struct Function {
    range: Range<u64>,
    name: Bytes,
}

enum Rows {
    None,
    Cfi(FdeIndex<Bytes>),
    Sframe(Box<FileRows<Bytes>>),
    HotSpot(Box<Frame>),
}

impl JitObject {
    /// Code with its SFrame section, which is at an address.
    pub fn of_sframe(bytes: Bytes, address: u64, code: Range<u64>) -> Self {
        Self {
            code: vec![code],
            functions: Vec::new(),
            rows: Rows::Sframe(FileRows::new(bytes, address).tabled().into()),
        }
    }

    /// Code of Java's virtual machine, with its name.
    pub fn of_hotspot(code: Range<u64>, name: Vec<u8>, frame: Frame) -> Self {
        let function = Function { range: code.clone(), name: name.into() };
        Self { code: vec![code], functions: vec![function], rows: Rows::HotSpot(frame.into()) }
    }

    /// A method that is interpreted. It is known by its address, though its code is elsewhere.
    pub fn of_method(address: u64, name: Vec<u8>) -> Self {
        let range = address..address.saturating_add(1);
        Self { code: vec![], functions: vec![Function { range, name: name.into() }], rows: Rows::None }
    }

    /// How frames of code of Java's virtual machine are left.
    pub fn hotspot(&self) -> Option<&Frame> {
        match &self.rows {
            Rows::HotSpot(frame) => Some(frame),
            _ => None,
        }
    }

    /// Code with an ELF file. `None`: the bytes are no such file, or it says of no code where that is.
    pub fn of_elf(abi: Abi, bytes: &Bytes) -> Option<Self> {
        let header = Header::parse(&**bytes).ok()?;
        let endian = header.endian().ok()?;
        let is_abi = header.is_little_endian() == (abi.endian() == Endian::Little);
        let sections = header.sections(endian, &**bytes).ok().filter(|_| is_abi)?;
        let flags = u64::from(SHF_ALLOC | SHF_EXECINSTR);
        let is_code = |section: &&<Header as FileHeader>::SectionHeader| {
            section.sh_flags(endian) & flags == flags && section.sh_addr(endian) != 0
        };
        let code = sections.iter().filter(is_code).map(|section| {
            section.sh_addr(endian)..section.sh_addr(endian).saturating_add(section.sh_size(endian))
        });
        let code: Vec<Range<u64>> = code.filter(|range| !range.is_empty()).collect();
        let text = code.first()?.start;
        let is_relocatable = header.e_type(endian) == elf::ET_REL;
        let file = Elf { abi, bytes, endian, sections: &sections, is_relocatable };
        let functions = file.functions().unwrap_or_default();
        let rows = file.rows(text).unwrap_or(Rows::None);
        Some(Self { code, functions, rows })
    }

    /// The name of the function at an address, and the offset in it.
    pub fn name_at(&self, address: u64) -> Option<(&[u8], u64)> {
        let behind = self.functions.partition_point(|function| function.range.start <= address);
        let found = self.functions.get(behind.checked_sub(1)?)?;
        found.range.contains(&address).then(|| (&*found.name, address - found.range.start))
    }

    /// Steps from the frame at `address` to its caller. `None`: nothing says how.
    pub fn step_at<F: FnMut(u64) -> Result<u64, ()>>(
        &self,
        address: u64,
        topmost: bool,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Option<(Result<Option<FrameAddress>, UnwindError>, Source)> {
        match &self.rows {
            Rows::None => None,
            Rows::Cfi(fdes) => {
                let found = fdes.step_at(address, topmost, registers, read_word)?;
                Some((found, Source::EhFrame))
            }
            Rows::HotSpot(frame) => {
                let found = frame.step_at(address, topmost, registers, read_word)?;
                Some((found, Source::Instructions))
            }
            Rows::Sframe(rows) => {
                let (rules, source) = rows.rules_at(address).ok()??;
                let found = step(rules.abi, &rules.rules, topmost, rules.signal, registers, read_word);
                Some((found, source))
            }
        }
    }
}

/// An ELF file in memory.
struct Elf<'a> {
    abi: Abi,
    bytes: &'a Bytes,
    endian: Endianness,
    sections: &'a Sections<'a>,
    is_relocatable: bool,
}

impl Elf<'_> {
    fn symbols(&self) -> Option<SymbolTable<'_, Header>> {
        self.sections.symbols(self.endian, &**self.bytes, elf::SHT_SYMTAB).ok()
    }

    /// The address of a symbol. Those of relocatable files count from their sections.
    fn address(&self, symbol: &elf::Sym64<Endianness>) -> Option<u64> {
        let (value, section) = (symbol.st_value(self.endian), symbol.st_shndx(self.endian));
        let is_absolute = !self.is_relocatable || section == elf::SHN_ABS;
        if section == elf::SHN_UNDEF || is_absolute {
            return Some(value).filter(|_| section != elf::SHN_UNDEF);
        }
        let section = self.sections.section(SectionIndex(section.into())).ok()?;
        Some(section.sh_addr(self.endian).wrapping_add(value))
    }

    fn functions(&self) -> Option<Vec<Function>> {
        let symbols = self.symbols()?;
        let function = |symbol: &elf::Sym64<Endianness>| {
            let start = self.address(symbol).filter(|_| symbol.st_type() == elf::STT_FUNC)?;
            let name = symbol.name(self.endian, symbols.strings()).ok()?;
            let range = start..start.saturating_add(symbol.st_size(self.endian));
            Some(Function { range, name: self.bytes.part(name)? })
        };
        let mut functions: Vec<Function> = symbols.iter().take(MOST).filter_map(function).collect();
        functions.sort_by_key(|function| function.range.start);
        Some(functions)
    }

    fn rows(&self, text: u64) -> Option<Rows> {
        let named = |name: &[u8]| self.sections.section_by_name(self.endian, name);
        let data = |section: &elf::SectionHeader64<Endianness>| {
            self.bytes.part(section.data(self.endian, &**self.bytes).ok()?).filter(|data| !data.is_empty())
        };
        if let Some((index, section)) = named(b".eh_frame")
            && let Some(frames) = data(section)
        {
            // Where no address is given, any place near the code does.
            let address = Some(section.sh_addr(self.endian)).filter(|&address| address != 0).unwrap_or(text);
            let frames = self.relocated(frames, index, address);
            return Some(Rows::Cfi(FdeIndex::of_made_code(self.abi, frames, address, text)));
        }
        let (index, section) = named(b".debug_frame")?;
        let frames = self.relocated(data(section)?, index, 0);
        Some(Rows::Cfi(FdeIndex::of_debug_frame(self.abi, frames)))
    }

    /// A section of a relocatable file, as a linker would leave it at an address.
    fn relocated(&self, section: Bytes, index: SectionIndex, address: u64) -> Bytes {
        let relocations = self
            .sections
            .iter()
            .filter(|other| self.is_relocatable && other.sh_info(self.endian) as usize == index.0);
        let relocations = relocations.filter_map(|other| other.rela(self.endian, &**self.bytes).ok()?);
        let mut bytes = None;
        for relocation in relocations.flat_map(|(relocations, _)| relocations).take(MOST) {
            let bytes = bytes.get_or_insert_with(|| section.to_vec());
            let _ = self.relocate(relocation, bytes, address);
        }
        bytes.map_or(section, Bytes::from)
    }

    /// Does a relocation of a section at an address. `None`: frames have no such relocations.
    fn relocate(&self, relocation: &elf::Rela64<Endianness>, bytes: &mut [u8], address: u64) -> Option<()> {
        let symbol = self.symbols()?;
        let symbol = symbol.symbol(relocation.symbol(self.endian, false)?).ok()?;
        let offset = relocation.r_offset(self.endian);
        let target = self.address(symbol)?.wrapping_add_signed(relocation.r_addend(self.endian));
        let distance = target.wrapping_sub(address.wrapping_add(offset));
        let (value, size) = match (self.abi, relocation.r_type(self.endian, false)) {
            (Abi::Amd64, elf::R_X86_64_64) | (Abi::S390x, elf::R_390_64) => (target, 8),
            (Abi::AArch64Little | Abi::AArch64Big, elf::R_AARCH64_ABS64) => (target, 8),
            (Abi::Amd64, elf::R_X86_64_PC64) | (Abi::S390x, elf::R_390_PC64) => (distance, 8),
            (Abi::AArch64Little | Abi::AArch64Big, elf::R_AARCH64_PREL64) => (distance, 8),
            (Abi::Amd64, elf::R_X86_64_PC32) | (Abi::S390x, elf::R_390_PC32) => (distance, 4),
            (Abi::AArch64Little | Abi::AArch64Big, elf::R_AARCH64_PREL32) => (distance, 4),
            _ => return None,
        };
        let offset = usize::try_from(offset).ok()?;
        let place = bytes.get_mut(offset..offset.checked_add(size)?)?;
        match self.endian {
            Endianness::Little => place.copy_from_slice(&value.to_le_bytes()[..size]),
            Endianness::Big => place.copy_from_slice(&value.to_be_bytes()[8 - size..]),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::JitObject;
    use crate::bytes::Bytes;
    use sframe_format::{Abi, Registers};

    /// Nothing in a damaged file makes this panic.
    #[test]
    fn files_in_memory_may_hold_anything() {
        let mut whole = include_bytes!("../tests/fixtures/jitted.o").to_vec();
        // The address of the first section, `.text`.
        let field = u64::from_le_bytes(*whole[0x28..].first_chunk().unwrap()) as usize + 64 + 0x10;
        whole[field..field + 8].copy_from_slice(&0x7100_0000u64.to_le_bytes());
        assert!(JitObject::of_elf(Abi::Amd64, &Bytes::from(whole.clone())).is_some());
        for at in 0..whole.len() {
            for change in [0xff, 0x80, 0x01] {
                let mut damaged = whole.clone();
                damaged[at] ^= change;
                let Some(object) = JitObject::of_elf(Abi::Amd64, &Bytes::from(damaged)) else { continue };
                let mut registers = Registers::new(0x1000, 0, None);
                for address in object.code.iter().flat_map(|range| [range.start, range.end - 1]) {
                    object.name_at(address);
                    object.step_at(address, true, &mut registers, &mut |_| Err(()));
                }
            }
        }
        for length in 0..whole.len() {
            JitObject::of_elf(Abi::Amd64, &Bytes::from(whole[..length].to_vec()));
        }
    }
}
