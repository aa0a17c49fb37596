//! Archives (System V, GNU form): reads all members, and writes those that the reduction keeps.

use crate::model::{Object, Place};
use anyhow::{Result, anyhow};
use files::{InputSource, SystemSource};
use object::elf;
use object::read::archive::ArchiveFile;

/// A member: its name and bytes.
pub type Member = (String, Vec<u8>);

/// All members of an archive. The members of a thin archive are read from the files beside it.
///
/// # Errors
/// It is no archive, or a member cannot be read.
pub fn read(bytes: &[u8], folder: &std::path::Path) -> Result<Vec<Member>> {
    let archive = ArchiveFile::parse(bytes).map_err(|error| anyhow!("{error}"))?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.map_err(|error| anyhow!("{error}"))?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let data = if archive.is_thin() {
            SystemSource.read(&folder.join(&name))?.to_vec()
        } else {
            member.data(bytes).map_err(|error| anyhow!("{error}"))?.to_vec()
        };
        let short = name.rsplit('/').next().unwrap_or(&name).to_owned();
        members.push((short, data));
    }
    Ok(members)
}

/// An archive with an index of the global symbols that its objects define.
pub fn write(members: &[Member]) -> Vec<u8> {
    let mut long_names = Vec::new();
    let mut headers = Vec::new();
    for (name, _) in members {
        if name.len() < 16 {
            headers.push(format!("{name}/"));
        } else {
            headers.push(format!("/{}", long_names.len()));
            long_names.extend(format!("{name}/\n").bytes());
        }
    }
    let defined: Vec<Vec<String>> = members.iter().map(|(_, data)| defined_names(data)).collect();
    let count: usize = defined.iter().map(Vec::len).sum();
    let names: Vec<u8> = defined.iter().flatten().flat_map(|name| name.bytes().chain([0])).collect();
    let index_size = 4 + 4 * count + names.len();
    let even = |size: usize| size.next_multiple_of(2);
    let mut at = object::archive::MAGIC.len() + HEADER + even(index_size);
    if !long_names.is_empty() {
        at += HEADER + even(long_names.len());
    }
    let mut index = (count as u32).to_be_bytes().to_vec();
    for ((_, data), names) in members.iter().zip(&defined) {
        names.iter().for_each(|_| index.extend((at as u32).to_be_bytes()));
        at += HEADER + even(data.len());
    }
    index.extend(names);
    let mut bytes = object::archive::MAGIC.to_vec();
    put(&mut bytes, "/", &index);
    if !long_names.is_empty() {
        put(&mut bytes, "//", &long_names);
    }
    headers.iter().zip(members).for_each(|(name, (_, data))| put(&mut bytes, name, data));
    bytes
}

/// Size of a member's header in bytes.
const HEADER: usize = 60;

fn put(bytes: &mut Vec<u8>, name: &str, data: &[u8]) {
    bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).bytes());
    bytes.extend(data);
    if data.len() % 2 == 1 {
        bytes.push(b'\n');
    }
}

fn defined_names(data: &[u8]) -> Vec<String> {
    let Ok(object) = Object::parse(data) else { return Vec::new() };
    let global = |symbol: &&crate::model::Symbol| {
        symbol.binding != elf::STB_LOCAL
            && !matches!(symbol.place, Place::Undefined)
            && !symbol.name.is_empty()
    };
    object.symbols.iter().filter(global).map(|symbol| symbol.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn written_archives_can_be_read() {
        let members = vec![
            ("a.o".to_owned(), b"odd".to_vec()),
            ("a_name_that_is_too_long_for_a_header.o".to_owned(), b"even".to_vec()),
        ];
        assert_eq!(read(&write(&members), std::path::Path::new(".")).unwrap(), members);
        assert!(read(b"!<arch>\nbroken", std::path::Path::new(".")).is_err());
    }
}
