//! The archives of a link: with one member or several, with an index or without one, or thin.

use crate::file::File;
use crate::more;
use crate::object::{self, Described};
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;
use ld_compare::reduce::archive::{self, Member};
use std::path::Path;

/// The most members that an archive gets.
const MEMBERS: usize = 4;

/// An archive, followed by the file that only it names if it is thin.
pub fn described(from: &mut Unstructured<'_>, machine: Machine, files: &[File]) -> Result<Vec<File>> {
    let style = from.int_in_range(0..=3)?;
    let count = if style == 0 { 1 } else { from.int_in_range(1..=MEMBERS)? };
    let mut members = Vec::new();
    for number in 0..count {
        let bytes = match object::described(from, machine)? {
            Described::Made(mut object) => {
                let changed = more::changed(from, machine, &mut object)?;
                changed.unwrap_or_else(|| object.write())
            }
            Described::Fixture(bytes) => bytes.to_vec(),
        };
        // The name of one member is too long for a header, if the form has a table for such names.
        let long = if number == 2 && style > 1 { "-with-a-long-name" } else { "" };
        members.push((format!("member-{number}{long}.o"), bytes));
    }
    let bytes = match style {
        0 => {
            let others = files.iter().filter(|file| file.name.ends_with(".o"));
            let mut named: Vec<(&str, usize)> = others.map(|file| (&*file.name, file.bytes.len())).collect();
            let at = from.int_in_range(0..=named.len())?;
            named.insert(at, (&members[0].0, members[0].1.len()));
            thin(&named)
        }
        1 => plain(&members),
        _ => archive::write(&members),
    };
    let of_thin = members.into_iter().filter(|_| style == 0).map(|(name, bytes)| File { name, bytes });
    Ok([File { name: "several.a".into(), bytes }].into_iter().chain(of_thin).collect())
}

/// The members of an archive. A thin archive has none, because its members are files of their own.
pub fn members(bytes: &[u8]) -> Vec<Vec<u8>> {
    let nowhere = Path::new("/none/such");
    archive::read(bytes, nowhere).into_iter().flatten().map(|(_, member)| member).collect()
}

/// An archive without an index; the names are short.
pub fn plain(members: &[Member]) -> Vec<u8> {
    let mut bytes = ::object::archive::MAGIC.to_vec();
    for (name, member) in members {
        bytes.extend(header(&format!("{name}/"), member.len()));
        bytes.extend(member);
        fill_up(&mut bytes);
    }
    bytes
}

/// A thin archive of files with these names and lengths.
fn thin(files: &[(&str, usize)]) -> Vec<u8> {
    let mut names = Vec::new();
    let mut headers = Vec::new();
    for (name, length) in files {
        headers.extend(header(&format!("/{}", names.len()), *length));
        names.extend(format!("{name}/\n").bytes());
    }
    let mut bytes = ::object::archive::THIN_MAGIC.to_vec();
    bytes.extend(header("//", names.len()));
    bytes.extend(names);
    fill_up(&mut bytes);
    bytes.extend(headers);
    bytes
}

fn header(name: &str, length: usize) -> Vec<u8> {
    format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{length:<10}`\n", 0, 0, 0, 644).into_bytes()
}

/// Members start at even offsets.
fn fill_up(bytes: &mut Vec<u8>) {
    if bytes.len() % 2 == 1 {
        bytes.push(b'\n');
    }
}
