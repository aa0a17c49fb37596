//! The 64-bit ELF structures (gABI, "Object Files"). They can be read at any address.

use zerocopy::byteorder::{ByteOrder, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

macro_rules! elf_struct {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $name<E: ByteOrder> { $($(#[$field_doc])* pub $field: $ty,)* }
    };
}

elf_struct! {
    /// File header, 64 bytes.
    Ehdr {
        /// Magic, class, data encoding, version, OS ABI.
        e_ident: [u8; 16],
        /// `ET_*`.
        e_type: U16<E>,
        /// `EM_*`.
        e_machine: U16<E>,
        /// `EV_CURRENT`, 1.
        e_version: U32<E>,
        /// Entry address.
        e_entry: U64<E>,
        /// File offset of the program headers.
        e_phoff: U64<E>,
        /// File offset of the section headers.
        e_shoff: U64<E>,
        /// Processor flags.
        e_flags: U32<E>,
        /// Size of this header.
        e_ehsize: U16<E>,
        /// Size of a program header.
        e_phentsize: U16<E>,
        /// Number of program headers.
        e_phnum: U16<E>,
        /// Size of a section header.
        e_shentsize: U16<E>,
        /// Number of section headers; 0 if the `sh_size` of section 0 has it.
        e_shnum: U16<E>,
        /// Section name table; `SHN_XINDEX` if the `sh_link` of section 0 has its number.
        e_shstrndx: U16<E>,
    }
}

elf_struct! {
    /// Section header, 64 bytes.
    Shdr {
        /// Offset of the name in the section name table.
        sh_name: U32<E>,
        /// `SHT_*`.
        sh_type: U32<E>,
        /// `SHF_*`.
        sh_flags: U64<E>,
        /// Address, 0 in objects.
        sh_addr: U64<E>,
        /// File offset.
        sh_offset: U64<E>,
        /// Size in bytes.
        sh_size: U64<E>,
        /// Related section.
        sh_link: U32<E>,
        /// Related section or number.
        sh_info: U32<E>,
        /// Alignment; 0 and 1 mean none.
        sh_addralign: U64<E>,
        /// Size of an entry.
        sh_entsize: U64<E>,
    }
}

impl<E: ByteOrder> Shdr<E> {
    /// Sets or clears flags (`SHF_*`).
    pub fn set_flags(&mut self, flags: u64, on: bool) {
        let others = self.sh_flags.get() & !flags;
        self.sh_flags.set(if on { others | flags } else { others });
    }
}

elf_struct! {
    /// Program header, 56 bytes.
    Phdr {
        /// `PT_*`.
        p_type: U32<E>,
        /// `PF_*`.
        p_flags: U32<E>,
        /// File offset.
        p_offset: U64<E>,
        /// Virtual address.
        p_vaddr: U64<E>,
        /// Load address.
        p_paddr: U64<E>,
        /// Bytes in the file.
        p_filesz: U64<E>,
        /// Bytes in memory.
        p_memsz: U64<E>,
        /// Alignment.
        p_align: U64<E>,
    }
}

elf_struct! {
    /// Symbol, 24 bytes.
    Sym {
        /// Offset of the name in the string table.
        st_name: U32<E>,
        /// Binding and type.
        st_info: u8,
        /// Visibility (low two bits) and processor bits.
        st_other: u8,
        /// Section index or `SHN_*`.
        st_shndx: U16<E>,
        /// Value: the offset in its section in objects, the alignment of a common symbol, otherwise the
        /// address.
        st_value: U64<E>,
        /// Size in bytes.
        st_size: U64<E>,
    }
}

elf_struct! {
    /// Relocation with addend, 24 bytes.
    Rela {
        /// Offset in the section (objects) or address.
        r_offset: U64<E>,
        /// Symbol index (high half) and type (low half).
        r_info: U64<E>,
        /// Signed constant that the relocation adds.
        r_addend: I64<E>,
    }
}

elf_struct! {
    /// Relocation whose addend lies at the place that it relocates, 16 bytes.
    Rel {
        /// Offset in the section (objects) or address.
        r_offset: U64<E>,
        /// Symbol index (high half) and type (low half).
        r_info: U64<E>,
    }
}

elf_struct! {
    /// Entry of `.dynamic`, 16 bytes.
    Dyn {
        /// `DT_*`.
        d_tag: U64<E>,
        /// Value or address.
        d_val: U64<E>,
    }
}

elf_struct! {
    /// Compressed section header, 24 bytes.
    Chdr {
        /// `ELFCOMPRESS_*`.
        ch_type: U32<E>,
        /// Reserved, 0.
        ch_reserved: U32<E>,
        /// Size when unpacked.
        ch_size: U64<E>,
        /// Alignment when unpacked.
        ch_addralign: U64<E>,
    }
}

elf_struct! {
    /// Version definition (`.gnu.version_d`), 20 bytes.
    Verdef {
        /// Version of this structure, 1.
        vd_version: U16<E>,
        /// `VER_FLG_*`.
        vd_flags: U16<E>,
        /// Version index.
        vd_ndx: U16<E>,
        /// Number of names.
        vd_cnt: U16<E>,
        /// SysV hash of the name.
        vd_hash: U32<E>,
        /// Offset of the names from here.
        vd_aux: U32<E>,
        /// Offset of the next definition from here, 0 at the end.
        vd_next: U32<E>,
    }
}

elf_struct! {
    /// Name of a version definition, 8 bytes.
    Verdaux {
        /// Offset of the name in the string table.
        vda_name: U32<E>,
        /// Offset of the next name from here, 0 at the end.
        vda_next: U32<E>,
    }
}

elf_struct! {
    /// Needed versions of one library (`.gnu.version_r`), 16 bytes.
    Verneed {
        /// Version of this structure, 1.
        vn_version: U16<E>,
        /// Number of versions.
        vn_cnt: U16<E>,
        /// Offset of the library's name in the string table.
        vn_file: U32<E>,
        /// Offset of the versions from here.
        vn_aux: U32<E>,
        /// Offset of the next library from here, 0 at the end.
        vn_next: U32<E>,
    }
}

elf_struct! {
    /// One needed version, 16 bytes.
    Vernaux {
        /// SysV hash of the name.
        vna_hash: U32<E>,
        /// `VER_FLG_*`.
        vna_flags: U16<E>,
        /// Version index used in `.gnu.version`.
        vna_other: U16<E>,
        /// Offset of the name in the string table.
        vna_name: U32<E>,
        /// Offset of the next version from here, 0 at the end.
        vna_next: U32<E>,
    }
}

impl<E: ByteOrder> Sym<E> {
    /// `STB_*`.
    #[inline]
    pub fn binding(&self) -> u8 {
        self.st_info >> 4
    }

    /// `STT_*`.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.st_info & 0xf
    }

    /// `STV_*`.
    #[inline]
    pub fn visibility(&self) -> u8 {
        self.st_other & 3
    }

    /// Whether the symbol is not defined here.
    #[inline]
    pub fn is_undefined(&self) -> bool {
        self.st_shndx.get() == object::elf::SHN_UNDEF
    }

    /// Whether the symbol is a common block.
    #[inline]
    pub fn is_common(&self) -> bool {
        self.st_shndx.get() == object::elf::SHN_COMMON || self.kind() == object::elf::STT_COMMON
    }

    /// Whether the binding is weak.
    #[inline]
    pub fn is_weak(&self) -> bool {
        self.binding() == object::elf::STB_WEAK
    }

    /// Whether the binding is one of those that other files see: global, weak or unique. Other values than
    /// these and local have no meaning.
    #[inline]
    pub fn is_global(&self) -> bool {
        use object::elf::{STB_GLOBAL, STB_GNU_UNIQUE, STB_WEAK};
        const GLOBAL: u16 = 1 << STB_GLOBAL | 1 << STB_WEAK | 1 << STB_GNU_UNIQUE;
        GLOBAL >> self.binding() & 1 != 0
    }

    /// Whether the binding is local.
    #[inline]
    pub fn is_local(&self) -> bool {
        self.binding() == object::elf::STB_LOCAL
    }
}

impl<E: ByteOrder> Rela<E> {
    /// Relocation type.
    #[inline]
    pub fn kind(&self) -> u32 {
        self.r_info.get() as u32
    }

    /// Index in the symbol table of the file.
    #[inline]
    pub fn symbol(&self) -> u32 {
        (self.r_info.get() >> 32) as u32
    }
}

/// The entries of a table; `None` if `bytes` is too short for `count` of them.
pub fn table<S: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8], count: usize) -> Option<&[S]> {
    let length = count.checked_mul(size_of::<S>())?;
    <[S]>::ref_from_bytes(bytes.get(..length)?).ok()
}

/// All complete entries of a table; bytes after the last complete entry are left out.
pub fn whole_table<S: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> &[S] {
    table(bytes, bytes.len() / size_of::<S>()).unwrap_or(&[])
}

/// The string that starts at `offset`, without its NUL; `None` if it does not end within the table.
#[inline]
pub fn string_at(table: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = table.get(offset..)?;
    let end = first_zero(rest).or_else(|| memchr::memchr(0, rest))?;
    Some(&rest[..end])
}

/// The place of the first zero among the first 16 bytes. Most names of sections and of local symbols are that
/// short, and to find their ends so takes a third of what a search in a text of any length does.
#[inline]
fn first_zero(bytes: &[u8]) -> Option<usize> {
    const LOWEST: u128 = u128::MAX / 0xff;
    let word = u128::from_le_bytes(*bytes.first_chunk()?);
    // The topmost bit of each zero byte, and perhaps of bytes behind the first of these.
    let zeros = word.wrapping_sub(LOWEST) & !word & LOWEST << 7;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::string_at;

    #[test]
    fn strings_end_at_the_first_zero() {
        for length in 0..40 {
            for behind in [0, 1, 0x80, 0xff] {
                let mut table = vec![0xff; length];
                table.extend_from_slice(&[0, behind, 1, 0, behind]);
                table.resize(64, behind);
                assert_eq!(string_at(&table, 0), Some(&table[..length]), "{length} {behind}");
                assert_eq!(string_at(&table[..length], 0), None);
                assert_eq!(string_at(&table[..=length], 0), Some(&table[..length]));
            }
        }
        assert_eq!(string_at(b"a\0b", 2), None);
        assert_eq!(string_at(b"a\0b", 9), None);
    }
}
