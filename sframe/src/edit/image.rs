//! An ELF file, read in place.

use crate::Problem;
use elf::{Ehdr, Phdr, Shdr, consts, string_at, table};
use sframe_format::Abi;
use sframe_sections::is_sframe;
use zerocopy::FromBytes;
use zerocopy::byteorder::ByteOrder;

/// `EI_DATA` of little-endian files.
pub const ORDER_LITTLE: u8 = consts::ELFDATA2LSB;
/// `EI_DATA` of big-endian files.
pub const ORDER_BIG: u8 = consts::ELFDATA2MSB;

/// Kernels append this to a signed module (`kernel/module_signature.h`).
const MODULE_SIGNATURE: &[u8] = b"~Module signature appended~\n";

/// The byte order of a 64-bit ELF file, [`ORDER_LITTLE`] or [`ORDER_BIG`].
///
/// # Errors
/// It is not a 64-bit ELF file.
pub fn byte_order(name: &str, bytes: &[u8]) -> Result<u8, Problem> {
    let what = match bytes {
        [0x7f, b'E', b'L', b'F', 2, order @ (ORDER_LITTLE | ORDER_BIG), ..] => return Ok(*order),
        [0x7f, b'E', b'L', b'F', 1, ..] => {
            "a 32-bit ELF file; SFrame is defined for 64-bit x86-64, AArch64 and s390x"
        }
        [b'!', b'<', b'a' | b't', ..] => {
            "an archive; only single files can be changed, take its members out first"
        }
        _ => "no ELF file",
    };
    Err(Problem::new(name, what))
}

/// An ELF file.
pub struct Image<'data, E: ByteOrder> {
    /// Its name, for messages.
    pub name: &'data str,
    /// All bytes.
    pub bytes: &'data [u8],
    /// File header.
    pub header: Ehdr<E>,
    /// Program headers.
    pub segments: Vec<Phdr<E>>,
    /// Section headers by number; empty if the file has none.
    pub sections: Vec<Shdr<E>>,
    /// Number of the section name table.
    pub names: usize,
}

impl<'data, E: ByteOrder> Image<'data, E> {
    /// Reads the headers. [`byte_order`] has settled the byte order before.
    ///
    /// # Errors
    /// A header table lies outside the file, or the file is a signed kernel module: any change breaks its
    /// signature.
    pub fn parse(name: &'data str, bytes: &'data [u8]) -> Result<Self, Problem> {
        let problem = |message: &str| Problem::new(name, format!("malformed ELF file: {message}"));
        if bytes.ends_with(MODULE_SIGNATURE) {
            let message = "a kernel module with an appended signature, which any change makes invalid; strip the \
                signature first, and sign the result";
            return Err(Problem::new(name, message));
        }
        let (header, _) =
            Ehdr::<E>::read_from_prefix(bytes).map_err(|_| problem("no room for its header"))?;
        let entries = [
            (header.e_phnum.get() > 0, header.e_phentsize.get(), size_of::<Phdr<E>>()),
            (header.e_shoff.get() > 0, header.e_shentsize.get(), size_of::<Shdr<E>>()),
        ];
        if entries.iter().any(|&(some, size, expected)| some && usize::from(size) != expected) {
            return Err(problem("header table entries have a size of their own"));
        }
        let tail = |offset: u64| usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
        let first: Option<Shdr<E>> = match header.e_shoff.get() {
            0 => None,
            offset => {
                let rest = tail(offset).and_then(|rest| Shdr::read_from_prefix(rest).ok());
                Some(rest.ok_or_else(|| problem("section headers lie outside the file"))?.0)
            }
        };
        let segment_count = match (header.e_phnum.get(), &first) {
            (consts::PN_XNUM, Some(first)) => first.sh_info.get() as usize,
            (count, _) => count.into(),
        };
        let segments = tail(header.e_phoff.get()).and_then(|rest| table(rest, segment_count));
        let segments = segments.ok_or_else(|| problem("program headers lie outside the file"))?;
        let (mut sections, mut names) = (Vec::new(), 0);
        if let Some(first) = first {
            let count = match header.e_shnum.get() {
                0 => first.sh_size.get() as usize,
                count => count.into(),
            };
            names = match header.e_shstrndx.get() {
                consts::SHN_XINDEX => first.sh_link.get() as usize,
                index => index.into(),
            };
            let all = tail(header.e_shoff.get()).and_then(|rest| table::<Shdr<E>>(rest, count));
            sections = all.ok_or_else(|| problem("section headers lie outside the file"))?.to_vec();
        }
        Ok(Self { name, bytes, header, segments: segments.to_vec(), sections, names })
    }

    /// A problem with this file.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.name, message)
    }

    /// The name of a section; empty if it has none.
    pub fn section_name(&self, index: usize) -> &'data [u8] {
        let names = self.sections.get(self.names).and_then(|names| self.contents(names));
        let offset = self.sections.get(index).map_or(0, |section| section.sh_name.get() as usize);
        names.and_then(|names| string_at(names, offset)).unwrap_or_default()
    }

    /// The name of a section for messages.
    pub fn shown(&self, index: usize) -> String {
        format!("section {} [{index}]", String::from_utf8_lossy(self.section_name(index)))
    }

    /// The bytes of a section; `None` if they lie outside the file.
    pub fn contents(&self, section: &Shdr<E>) -> Option<&'data [u8]> {
        if section.sh_type.get() == consts::SHT_NOBITS {
            return Some(&[]);
        }
        self.range(section.sh_offset.get(), section.sh_size.get())
    }

    /// Bytes of the file.
    pub fn range(&self, offset: u64, size: u64) -> Option<&'data [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        self.bytes.get(start..end)
    }

    /// The bytes of a section by number.
    ///
    /// # Errors
    /// They lie outside the file.
    pub fn data(&self, index: usize) -> Result<&'data [u8], Problem> {
        let found = self.sections.get(index).and_then(|section| self.contents(section));
        found.ok_or_else(|| {
            self.problem(format!("malformed ELF file: {} lies outside the file", self.shown(index)))
        })
    }

    /// The sections with a name.
    pub fn named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        (0..self.sections.len()).filter(move |&index| self.section_name(index) == name)
    }

    /// The ABI, from machine and byte order.
    ///
    /// # Errors
    /// SFrame is not defined for it.
    pub fn abi(&self) -> Result<Abi, Problem> {
        let (machine, order) = (self.header.e_machine.get(), self.header.e_ident.get(5));
        Abi::from_elf(machine, order == Some(&ORDER_BIG)).ok_or_else(|| {
            self.problem(format!("ELF machine {machine}; SFrame is defined for x86-64, AArch64 and s390x"))
        })
    }

    /// The end of the last range that a header names.
    pub fn end(&self) -> usize {
        let section = |section: &Shdr<E>| match section.sh_type.get() {
            consts::SHT_NOBITS | consts::SHT_NULL => 0,
            _ => section.sh_offset.get().saturating_add(section.sh_size.get()),
        };
        let sections = self.sections.iter().map(section);
        let segments = self.segments.iter().map(|s| s.p_offset.get().saturating_add(s.p_filesz.get()));
        let tables = [
            (self.header.e_phoff.get(), self.segments.len() * size_of::<Phdr<E>>()),
            (self.header.e_shoff.get(), self.sections.len() * size_of::<Shdr<E>>()),
            (0, size_of::<Ehdr<E>>()),
        ];
        let tables = tables.map(|(offset, size)| offset.saturating_add(size as u64));
        sections.chain(segments).chain(tables).max().unwrap_or(0) as usize
    }

    /// Whether this is a relocatable object.
    pub fn is_relocatable(&self) -> bool {
        self.header.e_type.get() == consts::ET_REL
    }

    /// Whether a section is SFrame: by its type, or by its name if an old assembler chose another type.
    pub fn is_sframe(&self, index: usize) -> bool {
        let Some(section) = self.sections.get(index) else { return false };
        is_sframe(section.sh_type.get(), self.section_name(index))
    }
}
