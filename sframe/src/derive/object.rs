//! Makes frames for a relocatable object: an `.sframe` with relocations for each text section.
//!
//! The relocation of a function's start is a copy of the one in its `.eh_frame` entry: the same symbol, the
//! same addend. So a linker that moves, folds or discards the function treats both alike.

use crate::Problem;
use crate::edit::{Frames, Image, Members, Object, Pair, Sections};
use elf::{Rela, Shdr, consts};
use sframe_format::blob::BLOB_ALIGNMENT;
use sframe_format::write::{Encoder, Function, FunctionId, Options};
use sframe_format::{Abi, Header, SHT_GNU_SFRAME, Version, derive as from_eh_frame};
use std::collections::{BTreeMap, HashMap};
use zerocopy::FromZeros;
use zerocopy::byteorder::{ByteOrder, I64, U32, U64};

/// The functions of one text section.
struct Part<E: ByteOrder> {
    encoder: Encoder,
    functions: Vec<(FunctionId, Rela<E>)>,
}

/// The object with frames for each function that the version can express, and a line for each function that
/// it cannot express. The object's own SFrame is gone.
///
/// # Errors
/// It has no `.eh_frame`, or one that cannot be read.
pub fn derive<E: ByteOrder>(
    image: &Image<'_, E>,
    options: Options,
) -> Result<(Vec<u8>, Vec<String>), Problem> {
    let object = Object::read(image)?;
    let (mut parts, mut left_out) = (BTreeMap::new(), Vec::new());
    let is_eh_frame = |&index: &usize| {
        let name = image.section_name(index);
        name == b".eh_frame" || name.starts_with(b".eh_frame.")
    };
    let sections: Vec<usize> = (0..image.sections.len()).filter(is_eh_frame).collect();
    if sections.is_empty() {
        return Err(image.problem("no .eh_frame to derive frames from"));
    }
    for section in sections {
        collect(&object, section, options, &mut parts, &mut left_out)?;
    }
    let mut edit = Sections::new(image);
    let mut members = Members::default();
    let mut free = empty_frames(&object, &mut edit)?;
    let symbols = image.sections.iter().position(|section| section.sh_type.get() == consts::SHT_SYMTAB);
    let section = Shdr {
        sh_name: edit.name(b".sframe")?,
        sh_type: U32::new(SHT_GNU_SFRAME),
        sh_flags: U64::new(consts::SHF_ALLOC),
        ..Shdr::new_zeroed()
    };
    let relocations = Shdr {
        sh_name: edit.name(b".rela.sframe")?,
        sh_type: U32::new(consts::SHT_RELA),
        sh_flags: U64::new(consts::SHF_INFO_LINK),
        sh_link: U32::new(symbols.unwrap_or(0) as u32),
        sh_addralign: U64::new(8),
        sh_entsize: U64::new(size_of::<Rela<E>>() as u64),
        ..Shdr::new_zeroed()
    };
    for (text, part) in parts {
        let frames = frames(text, &part, options).map_err(|message| image.problem(message))?;
        let numbers = if object.group_of(Some(text)).is_none() { free.pop() } else { None };
        let mut relocations = relocations;
        if let Some((number, _)) = numbers {
            relocations.sh_info = U32::new(number as u32);
        }
        object.put_frames(&mut edit, &mut members, Pair { section, relocations, numbers }, frames);
    }
    members.write(&mut edit, image)?;
    Ok((edit.write(), left_out))
}

/// Empties the SFrame sections of the object, so that linkers ignore them. Returns the numbers of those
/// outside groups, each with that of its relocation section, the last first: new sections can use these
/// numbers.
fn empty_frames<E: ByteOrder>(
    object: &Object<'_, '_, E>,
    edit: &mut Sections<'_, '_, E>,
) -> Result<Vec<(usize, usize)>, Problem> {
    let image = object.image;
    let mut free = Vec::new();
    for index in (0..image.sections.len()).rev().filter(|&index| image.is_sframe(index)) {
        object.relocations_of(index)?;
        edit.replace(index, Vec::new());
        if let Some(&relocations) = object.relocations.get(&index) {
            edit.replace(relocations, Vec::new());
            if !object.groups.contains_key(&index) {
                free.push((index, relocations));
            }
        }
    }
    Ok(free)
}

/// Sorts the functions of an `.eh_frame` by text section.
fn collect<E: ByteOrder>(
    object: &Object<'_, '_, E>,
    section: usize,
    options: Options,
    parts: &mut BTreeMap<usize, Part<E>>,
    left_out: &mut Vec<String>,
) -> Result<(), Problem> {
    let image = object.image;
    let data = image.data(section)?;
    let table = object.relocations_of(section)?.unwrap_or_default();
    let live = table.iter().filter(|relocation| relocation.kind() != 0);
    let by_offset: HashMap<u64, &Rela<E>> = live.map(|r| (r.r_offset.get(), r)).collect();
    let mut problem = None;
    let take = |source: from_eh_frame::Source, result: Result<&Function, from_eh_frame::Reason>| {
        // If an FDE has no relocation, an earlier link removed its function.
        let Some(relocation) = start_field(data, source.offset).and_then(|at| by_offset.get(&at)) else {
            return;
        };
        let text = match object.section_of(relocation.symbol()) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(error) => return problem = problem.take().or(Some(error)),
        };
        let addend = relocation.r_addend.get().wrapping_add_unsigned(source.before);
        let mut leave = |reason: &dyn std::fmt::Display| {
            let name = String::from_utf8_lossy(image.section_name(text));
            left_out.push(format!("{name}+{addend:#x}: {reason}"));
        };
        match result {
            Ok(function) if function.size == 0 => {}
            Ok(function) => {
                let part = parts
                    .entry(text)
                    .or_insert_with(|| Part { encoder: Encoder::new(options), functions: Vec::new() });
                match part.encoder.add(function) {
                    Ok(id) => part.functions.push((id, Rela { r_addend: I64::new(addend), ..**relocation })),
                    Err(reason) => leave(&reason),
                }
            }
            Err(reason) => leave(&reason),
        }
    };
    from_eh_frame::for_each(options.abi, data, 0, take)
        .map_err(|error| image.problem(format!("{} cannot be read: {error}", image.shown(section))))?;
    problem.map_or(Ok(()), Err)
}

/// Offset of the field in an FDE that contains the start of the function. The length comes before it (4 or 12
/// bytes), and the pointer to the CIE (4 or 8 bytes); see LSB, "Exception Frames". GNU as writes the short
/// form.
fn start_field(data: &[u8], entry: usize) -> Option<u64> {
    let length = data.get(entry..)?.get(..4)?;
    let head = if length == [0xff; 4] { 12 + 8 } else { 4 + 4 };
    Some(entry as u64 + head)
}

/// The SFrame section of a text section, with its relocations.
fn frames<E: ByteOrder>(text: usize, part: &Part<E>, options: Options) -> Result<Frames<E>, String> {
    let ids: Vec<FunctionId> = part.functions.iter().map(|(id, _)| *id).collect();
    let mut contents = vec![0; part.encoder.size()];
    part.encoder.write_relocatable(&ids, false, &mut contents).map_err(|error| error.to_string())?;
    let header = Header::parse(&contents).map_err(|error| error.to_string())?;
    let kind = start_relocation(options);
    let relocation = |(index, (_, source)): (u32, &(FunctionId, Rela<E>))| Rela {
        r_offset: U64::new(header.fde_position(index).unwrap_or(0) as u64),
        r_info: U64::new(u64::from(source.symbol()) << 32 | u64::from(kind)),
        r_addend: source.r_addend,
    };
    let relocations = (0..).zip(&part.functions).map(relocation).collect();
    Ok(Frames { text: Some(text), contents, relocations, alignment: BLOB_ALIGNMENT as u64 })
}

/// The relocation type of function starts: PC-relative, 4 bytes in V2 and 8 in V3.
fn start_relocation(options: Options) -> u32 {
    let wide = options.version == Version::V3;
    match (options.abi, wide) {
        (Abi::Amd64, false) => consts::R_X86_64_PC32,
        (Abi::Amd64, true) => consts::R_X86_64_PC64,
        (Abi::AArch64Little | Abi::AArch64Big, false) => consts::R_AARCH64_PREL32,
        (Abi::AArch64Little | Abi::AArch64Big, true) => consts::R_AARCH64_PREL64,
        (Abi::S390x, false) => consts::R_390_PC32,
        (Abi::S390x, true) => consts::R_390_PC64,
    }
}
