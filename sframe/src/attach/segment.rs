//! Finds a place for a blob in a finished file and writes it there.
//!
//! If the file has an SFrame section, and the blob fits into it and the unused bytes after it, the blob goes
//! there. Otherwise the blob needs a new segment after all others, in memory and in the file. The program
//! headers have to name that segment, but the bytes after them are nearly always in use, so the table cannot
//! grow in place. It moves to the front of the new segment, and `PT_PHDR` and the file header follow it:
//!
//! ```text
//! before:  │ headers, table │ code │ data │ section headers │
//! after:   │ headers        │ code │ data │ unused          │ hole │ table, blob │ section headers │
//! ```
//!
//! Why the hole: Linux before 5.18 tells a program where its program headers are (`AT_PHDR`) by adding their
//! file offset to the distance between address and offset of the first segment. The dynamic loader, for
//! itself, and static programs compute the address in the same way. So the new segment has to keep that
//! distance. But `.bss` takes memory and no bytes of the file, so the new segment's place in the file lies
//! after the file's end by about the size of `.bss`.

use crate::Problem;
use crate::edit::{Image, Sections};
use elf::{Phdr, Shdr, consts};
use sframe_format::{PT_GNU_SFRAME, SHT_GNU_SFRAME};
use zerocopy::byteorder::{ByteOrder, U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// Makes the blob for an address. Also returns a line for each function that is missing from it.
pub type Blob<'a> = &'a dyn Fn(u64) -> Result<(Vec<u8>, Vec<String>), Problem>;

/// Largest hole in the file for the sake of old kernels. Programs with a larger `.bss` need Linux 5.18.
const MAX_HOLE: u64 = 64 << 20;
/// Alignment of the blob and the program headers.
const ALIGNMENT: u64 = 8;

/// The changed file, and a line for each function that is missing from the blob. The blob may be a compact
/// table.
///
/// # Errors
/// The blob cannot be written for its address, or the file has no address space left after its segments.
pub fn put<E: ByteOrder>(
    image: &Image<'_, E>,
    name: &[u8],
    compact: bool,
    blob: Blob<'_>,
) -> Result<(Vec<u8>, Vec<String>), Problem> {
    let own = image.named(name).find(|&index| compact || image.is_sframe(index));
    if let Some(slot) = slot(image, own, compact) {
        let (bytes, left_out) = blob(slot.address)?;
        if bytes.len() as u64 <= slot.room {
            return Ok((put_into(image, &slot, &bytes), left_out));
        }
    }
    put_behind(image, name, own, blob, compact)
}

/// The place of the file's present SFrame section.
struct Slot {
    section: Option<usize>,
    /// The number of `PT_GNU_SFRAME`; `None` for a compact table.
    segment: Option<usize>,
    address: u64,
    offset: u64,
    room: u64,
}

/// The place of a section and its program header. In a file without section headers, the program header alone
/// gives the place.
fn slot<E: ByteOrder>(image: &Image<'_, E>, section: Option<usize>, compact: bool) -> Option<Slot> {
    let is_wanted = |s: &Phdr<E>| s.p_type.get() == PT_GNU_SFRAME && !compact;
    let segment = image.segments.iter().position(is_wanted);
    if segment.is_none() && !compact {
        return None;
    }
    let (address, offset, size) = match section {
        Some(index) => {
            let header = &image.sections[index];
            let loaded = header.sh_flags.get() & consts::SHF_ALLOC != 0;
            loaded.then(|| (header.sh_addr.get(), header.sh_offset.get(), header.sh_size.get()))?
        }
        None if image.sections.is_empty() => {
            let header = &image.segments[segment?];
            (header.p_vaddr.get(), header.p_offset.get(), header.p_filesz.get())
        }
        None => return None,
    };
    let load = load_of(image, address)?;
    let load_end = load.p_offset.get().checked_add(load.p_filesz.get())?;
    let distance = address.wrapping_sub(offset) == load.p_vaddr.get().wrapping_sub(load.p_offset.get());
    let room = size + padding(image, offset.checked_add(size)?, load_end);
    let fits = distance && address.is_multiple_of(ALIGNMENT) && image.range(offset, room).is_some();
    fits.then_some(Slot { section, segment, address, offset, room })
}

/// The load segment that contains an address.
fn load_of<'image, E: ByteOrder>(image: &'image Image<'_, E>, address: u64) -> Option<&'image Phdr<E>> {
    let loads = image.segments.iter().filter(|s| s.p_type.get() == consts::PT_LOAD);
    loads.into_iter().find(|s| address.wrapping_sub(s.p_vaddr.get()) < s.p_filesz.get())
}

/// Number of unused bytes from `start` on: zeros up to the next range that a header names, and at most up to
/// `limit`. 0 without section headers, because only these show which bytes are used.
fn padding<E: ByteOrder>(image: &Image<'_, E>, start: u64, limit: u64) -> u64 {
    if image.sections.is_empty() || start >= limit {
        return 0;
    }
    let used = |offset: u64, size: u64| {
        (size > 0 && offset.saturating_add(size) > start).then_some(offset.max(start))
    };
    let sections =
        image.sections.iter().filter(|s| !matches!(s.sh_type.get(), consts::SHT_NULL | consts::SHT_NOBITS));
    let sections = sections.filter_map(|s| used(s.sh_offset.get(), s.sh_size.get()));
    let segments = image.segments.iter().filter(|s| s.p_offset.get() >= start);
    let segments = segments.filter_map(|s| used(s.p_offset.get(), s.p_filesz.get()));
    let headers = used(image.header.e_shoff.get(), (image.sections.len() * size_of::<Shdr<E>>()) as u64);
    let end = sections.chain(segments).chain(headers).min().unwrap_or(limit).min(limit);
    let bytes = image.range(start, end - start).unwrap_or_default();
    bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len()) as u64
}

/// Writes the blob to the place of the present section.
fn put_into<E: ByteOrder>(image: &Image<'_, E>, slot: &Slot, blob: &[u8]) -> Vec<u8> {
    let mut out = image.bytes.to_vec();
    let start = slot.offset as usize;
    out[start..start + slot.room as usize].fill(0);
    store(&mut out, slot.offset, blob);
    let mut segments = image.segments.clone();
    if let Some(segment) = slot.segment {
        segments[segment] = sframe_segment(slot.address, slot.offset, blob.len() as u64);
        store(&mut out, image.header.e_phoff.get(), segments.as_bytes());
    }
    if let Some(index) = slot.section {
        let place = (slot.address, slot.offset, blob.len() as u64);
        let header = section_header(image.sections[index].sh_name, place, slot.segment.is_none());
        let table = image.header.e_shoff.get() + (index * size_of::<Shdr<E>>()) as u64;
        store(&mut out, table, header.as_bytes());
    }
    out
}

/// Where a new segment starts.
struct Place {
    address: u64,
    offset: u64,
}

/// Writes the blob into a new segment at the end.
fn put_behind<E: ByteOrder>(
    image: &Image<'_, E>,
    name: &[u8],
    own: Option<usize>,
    blob: Blob<'_>,
    compact: bool,
) -> Result<(Vec<u8>, Vec<String>), Problem> {
    let mut segments: Vec<Phdr<E>> = image.segments.clone();
    let goes = |kind: u32| kind == consts::PT_NULL || kind == PT_GNU_SFRAME && !compact;
    segments.retain(|s| !goes(s.p_type.get()));
    let count = segments.len() + if compact { 1 } else { 2 };
    let table_size = (count * size_of::<Phdr<E>>()) as u64;
    let moves = !has_room_for(image, table_size);
    let place = place(image)?;
    let head = if moves { table_size.next_multiple_of(ALIGNMENT) } else { 0 };
    let address = place.address.checked_add(head).ok_or_else(|| no_space(image))?;
    let (bytes, left_out) = blob(address)?;
    let size = bytes.len() as u64;
    address.checked_add(size).ok_or_else(|| no_space(image))?;

    let load = load_segment(image, &place, head + size);
    let last =
        segments.iter().rposition(|s| s.p_type.get() == consts::PT_LOAD).map_or(segments.len(), |at| at + 1);
    segments.insert(last, load);
    if !compact {
        segments.push(sframe_segment(address, place.offset + head, size));
    }
    let table_offset = if moves { place.offset } else { image.header.e_phoff.get() };
    for header in segments.iter_mut().filter(|s| s.p_type.get() == consts::PT_PHDR) {
        (header.p_filesz, header.p_memsz) = (U64::new(table_size), U64::new(table_size));
        if moves {
            header.p_offset = U64::new(place.offset);
            (header.p_vaddr, header.p_paddr) = (U64::new(place.address), U64::new(place.address));
        }
    }
    let too_many = |_| image.problem("more program headers than the file header can count");
    let mut header = image.header;
    header.e_phoff = U64::new(table_offset);
    header.e_phnum = U16::new(u16::try_from(count).map_err(too_many)?);
    let mut out = image.bytes.to_vec();
    if let Some(old) = own.map(|index| &image.sections[index]) {
        // No header refers to the old bytes any more.
        let old =
            old.sh_offset.get() as usize..old.sh_offset.get().saturating_add(old.sh_size.get()) as usize;
        if let Some(old) = out.get_mut(old) {
            old.fill(0);
        }
    }
    out.resize((place.offset + head + size) as usize, 0);
    store(&mut out, 0, header.as_bytes());
    store(&mut out, table_offset, segments.as_bytes());
    store(&mut out, place.offset + head, &bytes);
    if image.sections.is_empty() {
        return Ok((out, left_out));
    }
    let place = (address, place.offset + head, size);
    Ok((name_section::<E>(image.name, &out, name, own, place, compact)?, left_out))
}

/// Adds or changes the section header of the blob, which is in the file already.
fn name_section<E: ByteOrder>(
    file: &str,
    bytes: &[u8],
    name: &[u8],
    own: Option<usize>,
    place: (u64, u64, u64),
    compact: bool,
) -> Result<Vec<u8>, Problem> {
    let image = Image::<E>::parse(file, bytes)?;
    let mut edit = Sections::new(&image);
    let header = section_header(edit.name(name)?, place, compact);
    match own {
        Some(index) => edit.headers[index] = header,
        None => edit.headers.push(header),
    }
    Ok(edit.write())
}

/// Whether the table of program headers can grow where it is.
fn has_room_for<E: ByteOrder>(image: &Image<'_, E>, size: u64) -> bool {
    let start = image.header.e_phoff.get();
    let end = start + (image.segments.len() * size_of::<Phdr<E>>()) as u64;
    let limit = image.segments.iter().filter(|s| s.p_type.get() == consts::PT_LOAD).find_map(|s| {
        let load_end = s.p_offset.get().checked_add(s.p_filesz.get())?;
        (s.p_offset.get() <= start && end <= load_end).then_some(load_end)
    });
    limit.is_some_and(|limit| start + size <= end + padding(image, end, limit))
}

/// The largest page size that the ABI allows; linkers assume it, too (psABI of the machine).
fn page<E: ByteOrder>(image: &Image<'_, E>) -> u64 {
    if image.header.e_machine.get() == consts::EM_AARCH64 { 0x1_0000 } else { 0x1000 }
}

fn no_space<E: ByteOrder>(image: &Image<'_, E>) -> Problem {
    image.problem("no address space behind the last segment")
}

/// Finds the place of a new segment.
fn place<E: ByteOrder>(image: &Image<'_, E>) -> Result<Place, Problem> {
    let page = page(image);
    let loads = || image.segments.iter().filter(|s| s.p_type.get() == consts::PT_LOAD);
    let ends = loads().map(|s| s.p_vaddr.get().checked_add(s.p_memsz.get()));
    let memory_end = ends.collect::<Option<Vec<u64>>>().and_then(|ends| ends.into_iter().max());
    let (first, memory_end) = loads().next().zip(memory_end).ok_or_else(|| no_space(image))?;
    let up = |address: u64| address.checked_next_multiple_of(page);
    let file_end = image.bytes.len() as u64;
    let distance = first.p_vaddr.get().wrapping_sub(first.p_offset.get());
    let same_distance = || {
        let address = up(memory_end.max(file_end.checked_add(distance)?))?;
        let offset = address.checked_sub(distance)?;
        (distance.is_multiple_of(page) && offset - file_end <= MAX_HOLE).then_some(Place { address, offset })
    };
    let near = || Some(Place { address: up(memory_end)?, offset: up(file_end)? });
    same_distance().or_else(near).ok_or_else(|| no_space(image))
}

fn load_segment<E: ByteOrder>(image: &Image<'_, E>, place: &Place, size: u64) -> Phdr<E> {
    segment(consts::PT_LOAD, place.address, place.offset, size, page(image))
}

fn sframe_segment<E: ByteOrder>(address: u64, offset: u64, size: u64) -> Phdr<E> {
    segment(PT_GNU_SFRAME, address, offset, size, ALIGNMENT)
}

fn segment<E: ByteOrder>(kind: u32, address: u64, offset: u64, size: u64, alignment: u64) -> Phdr<E> {
    Phdr {
        p_type: U32::new(kind),
        p_flags: U32::new(consts::PF_R),
        p_offset: U64::new(offset),
        p_vaddr: U64::new(address),
        p_paddr: U64::new(address),
        p_filesz: U64::new(size),
        p_memsz: U64::new(size),
        p_align: U64::new(alignment),
    }
}

fn section_header<E: ByteOrder>(
    name: U32<E>,
    (address, offset, size): (u64, u64, u64),
    compact: bool,
) -> Shdr<E> {
    Shdr {
        sh_name: name,
        sh_type: U32::new(if compact { consts::SHT_PROGBITS } else { SHT_GNU_SFRAME }),
        sh_flags: U64::new(consts::SHF_ALLOC),
        sh_addr: U64::new(address),
        sh_offset: U64::new(offset),
        sh_size: U64::new(size),
        sh_addralign: U64::new(ALIGNMENT),
        ..Shdr::new_zeroed()
    }
}

/// Stores bytes inside the file.
fn store(out: &mut [u8], offset: u64, bytes: &[u8]) {
    let start = offset as usize;
    if let Some(place) = out.get_mut(start..start + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
