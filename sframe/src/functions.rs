//! Functions with their addresses, on the way from an SFrame section or `.eh_frame` to another section.

use super::edit::Image;
use super::open::Problem;
use diagnostics::words::count;
use elf::consts;
use sframe_format::compact::write_table;
use sframe_format::write::{Function, Options, Written, write_sorted};
use sframe_format::{Abi, Piece, Section, derive};
use zerocopy::FromBytes;
use zerocopy::byteorder::{ByteOrder, I32};

/// The functions of a linked file, and why others are missing.
#[derive(Default)]
pub struct Functions {
    /// The address and the rows of each.
    pub list: Vec<(u64, Function)>,
    /// One line for each function that was left out.
    pub left_out: Vec<String>,
}

impl Functions {
    /// Derives the functions of a linked file from its `.eh_frame`.
    ///
    /// # Errors
    /// There is no `.eh_frame`, or the length of an entry is malformed.
    pub fn derive<E: ByteOrder>(image: &Image<'_, E>, abi: Abi) -> Result<Self, Problem> {
        let mut functions = Self::default();
        let sections = eh_frames(image)?;
        if sections.is_empty() {
            return Err(image.problem("no .eh_frame to derive frames from"));
        }
        let header = eh_frame_header(image);
        for (data, address) in sections {
            let take = |source: derive::Source, result: Result<&Function, derive::Reason>| match result {
                Ok(function) => functions.list.push((source.address, function.clone())),
                Err(reason) => functions.left_out.push(format!("{:#x}: {reason}", source.address)),
            };
            derive::for_each_linked(abi, data, address, header, take)
                .map_err(|error| image.problem(format!(".eh_frame cannot be read: {error}")))?;
        }
        Ok(functions)
    }

    /// Adds the functions of all blobs of a section.
    pub fn read(&mut self, section: &Section<'_>, abi: Abi) {
        for piece in section.pieces() {
            let blob = match piece {
                Piece::Blob(blob) if blob.header().abi == abi => blob,
                Piece::Blob(blob) => {
                    let (offset, found) = (blob.offset(), blob.header().abi);
                    self.left_out.push(format!("blob at {offset:#x}: it is for {found}, the file for {abi}"));
                    continue;
                }
                Piece::Gap(gap) => {
                    let (length, kind) = (gap.length, gap.error.kind);
                    let place = format!("{} at {:#x}", count(length as u64, "byte"), gap.offset);
                    self.left_out.push(format!("{place}: no blob: {kind}"));
                    continue;
                }
            };
            for (fde, attributes) in blob.functions() {
                match attributes.and_then(|_| Function::read(&blob, &fde)) {
                    Ok(function) => self.list.push((fde.address, function)),
                    Err(error) => self.left_out.push(format!("{:#x}: {error}", fde.address)),
                }
            }
        }
    }

    /// Removes functions outside executable memory. Empty functions stay here; the writers leave them out.
    pub fn keep_code<E: ByteOrder>(&mut self, image: &Image<'_, E>) {
        let code: Vec<(u64, u64)> = image
            .segments
            .iter()
            .filter(|s| s.p_type.get() == consts::PT_LOAD && s.p_flags.get() & consts::PF_X != 0)
            .map(|s| (s.p_vaddr.get(), s.p_memsz.get()))
            .collect();
        let inside = |address: u64, size: u32| {
            code.iter().any(|&(start, length)| {
                let offset = address.wrapping_sub(start);
                offset <= length && u64::from(size) <= length - offset
            })
        };
        let left_out = &mut self.left_out;
        self.list.retain(|(address, function)| {
            let keep = function.size == 0 || inside(*address, function.size);
            if !keep {
                left_out.push(format!("{address:#x}: not in executable memory"));
            }
            keep
        });
    }

    /// A compact table for a section at an address, and a line for each function that was left out.
    ///
    /// # Errors
    /// The functions are more than a table can hold.
    pub fn write_compact(
        &self,
        name: &str,
        abi: Abi,
        address: u64,
    ) -> Result<(Vec<u8>, Vec<String>), Problem> {
        let written = write_table(abi, address, &self.list)
            .map_err(|error| Problem::new(name, format!("compact table: {}", error.kind)))?;
        Ok(self.with_lines(written))
    }

    /// One sorted blob for a section at an address. Also returns a line for each function that was left out,
    /// which includes those that the version cannot express.
    ///
    /// # Errors
    /// Version 2 does not reach all functions from the address.
    pub fn write(
        &self,
        name: &str,
        options: Options,
        address: u64,
    ) -> Result<(Vec<u8>, Vec<String>), Problem> {
        let written = write_sorted(options, address, &self.list).map_err(|error| {
            Problem::new(name, format!("section at {address:#x}: {error}; version 3 reaches"))
        })?;
        Ok(self.with_lines(written))
    }

    /// The bytes, and a line for each function that is not in them.
    fn with_lines(&self, Written { bytes, left_out }: Written) -> (Vec<u8>, Vec<String>) {
        let mut lines = self.left_out.clone();
        lines.extend(left_out.iter().filter_map(|(place, reason)| {
            let (address, function) = self.list.get(*place)?;
            (function.size > 0).then(|| format!("{address:#x}: {reason}"))
        }));
        (bytes, lines)
    }
}

/// Every `.eh_frame` with its address. If the file has no section headers, the program header of
/// `.eh_frame_hdr` leads to it (LSB, "Exception Frames").
fn eh_frames<'data, E: ByteOrder>(image: &Image<'data, E>) -> Result<Vec<(&'data [u8], u64)>, Problem> {
    let mut found = Vec::new();
    for index in image.named(b".eh_frame") {
        let section = &image.sections[index];
        if section.sh_type.get() != consts::SHT_NOBITS && section.sh_flags.get() & consts::SHF_ALLOC != 0 {
            found.push((image.data(index)?, section.sh_addr.get()));
        }
    }
    if found.is_empty() {
        found.extend(eh_frame_by_header(image));
    }
    Ok(found)
}

/// `.eh_frame_hdr` with its address.
fn eh_frame_header<'data, E: ByteOrder>(image: &Image<'data, E>) -> Option<(&'data [u8], u64)> {
    let header = image.segments.iter().find(|s| s.p_type.get() == consts::PT_GNU_EH_FRAME)?;
    Some((image.range(header.p_offset.get(), header.p_filesz.get())?, header.p_vaddr.get()))
}

/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`: all linkers encode the pointer to `.eh_frame` in this way.
const RELATIVE_4: u8 = 0x1b;

fn eh_frame_by_header<'data, E: ByteOrder>(image: &Image<'data, E>) -> Option<(&'data [u8], u64)> {
    let (bytes, at) = eh_frame_header(image)?;
    let [1, RELATIVE_4, _, _, pointer @ ..] = bytes else { return None };
    let distance = I32::<E>::read_from_prefix(pointer).ok()?.0.get();
    let address = at.wrapping_add(4).wrapping_add_signed(distance.into());
    let load = image.segments.iter().find(|s| {
        s.p_type.get() == consts::PT_LOAD && address.wrapping_sub(s.p_vaddr.get()) < s.p_filesz.get()
    })?;
    let inside = address - load.p_vaddr.get();
    let data = image.range(load.p_offset.get().checked_add(inside)?, load.p_filesz.get() - inside)?;
    Some((data, address))
}
