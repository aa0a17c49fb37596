//! The parts of a loaded module that look-ups need, by its program headers in memory (gABI, "Program
//! Header").

use core::slice;

use sframe_format::CompactTable;
use sframe_format::compact::PT_SFRAME_UNWIND;

/// `PT_LOAD`.
pub const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
/// `PT_GNU_EH_FRAME`.
pub const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
/// The program headers that are looked at. A module with more of them is not ours.
pub const MOST_HEADERS: usize = 64;

#[repr(C)]
struct FileHeader {
    ident: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    program_headers: u64,
    section_headers: u64,
    flags: u32,
    size: u16,
    program_header_size: u16,
    program_header_count: u16,
}

/// `Elf64_Phdr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ProgramHeader {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// `p_offset`.
    pub offset: u64,
    /// `p_vaddr`.
    pub address: u64,
    /// `p_paddr`.
    pub physical: u64,
    /// `p_filesz`.
    pub file_size: u64,
    /// `p_memsz`.
    pub memory_size: u64,
    /// `p_align`.
    pub align: u64,
}

/// A loaded module.
#[derive(Clone, Copy)]
pub struct Module {
    /// Its unwind table of version 2.
    pub table: Option<&'static [u8]>,
    /// The address of its `.eh_frame_hdr`.
    pub search_table: Option<*const u8>,
    /// Whether it asks for a dynamic linker.
    pub is_dynamic: bool,
    /// What its addresses are moved by.
    pub bias: u64,
}

impl Module {
    /// The module whose file header is loaded at `start`. `None`: no file header is there, or it names
    /// program headers that the first segment does not hold.
    ///
    /// # Safety
    /// If `start` is not null, a segment of a module is mapped there, and stays so.
    pub unsafe fn at(start: *const u8) -> Option<Self> {
        // SAFETY: as the caller says.
        let headers = unsafe { Self::headers(start) }?;
        let first = headers.iter().find(|header| header.kind == PT_LOAD && header.offset == 0)?;
        // SAFETY: as the caller says.
        Some(unsafe { Self::of(headers, (start as u64).wrapping_sub(first.address)) })
    }

    /// The program headers of the module whose file header is loaded at `start`.
    ///
    /// # Safety
    /// As [`Module::at`] says.
    pub unsafe fn headers(start: *const u8) -> Option<&'static [ProgramHeader]> {
        // SAFETY: a segment has at least a page; as the caller says, it is mapped.
        let header = unsafe { start.cast::<FileHeader>().as_ref() }?;
        let is_ours = header.ident.starts_with(b"\x7fELF\x02")
            && usize::from(header.program_header_size) == size_of::<ProgramHeader>();
        let count = usize::from(header.program_header_count);
        // The program headers follow the file header, so that they are loaded, too.
        if !is_ours || header.program_headers != 64 || count > MOST_HEADERS {
            return None;
        }
        // SAFETY: at most 3648 bytes of the segment's first page.
        Some(unsafe { slice::from_raw_parts(start.add(64).cast::<ProgramHeader>(), count) })
    }

    /// The module with these program headers, whose addresses are moved by `bias`.
    ///
    /// # Safety
    /// It is loaded, and stays so.
    pub unsafe fn of(headers: &[ProgramHeader], bias: u64) -> Self {
        let address = |address: u64| bias.wrapping_add(address) as *const u8;
        let mut module = Self { table: None, search_table: None, is_dynamic: false, bias };
        for header in headers {
            match header.kind {
                PT_INTERP => module.is_dynamic = true,
                PT_GNU_EH_FRAME => module.search_table = Some(address(header.address)),
                PT_SFRAME_UNWIND => {
                    // SAFETY: the program header says that these bytes are loaded.
                    module.table = Some(unsafe {
                        slice::from_raw_parts(address(header.address), header.memory_size as usize)
                    });
                }
                _ => {}
            }
        }
        module
    }

    /// Its unwind table, ready for look-ups.
    pub fn unwind_table(&self) -> Option<CompactTable<&'static [u8]>> {
        let table = self.table?;
        CompactTable::parse(table, table.as_ptr() as u64).ok()
    }
}
