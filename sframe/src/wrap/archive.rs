//! Splits the members of archives. The copy has the same members, names and order, and an index with the new
//! offsets. A thin archive becomes an ordinary one, which contains its members.

use super::candidate::is_candidate;
use crate::Problem;
use crate::split;
use files::archive::ThinArchiveBytes;
use files::{InputSource, InputStore, SystemSource};
use sframe_sections::split::Form;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"!<arch>\n";
const THIN: &[u8] = b"!<thin>\n";
/// Size of a member's header: the name and four fields, the size in 10 decimal digits, and two bytes.
const HEADER: usize = 60;

/// Whether a file is an archive.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || is_thin(bytes)
}

/// Whether a file is a thin archive, which contains only the names of its members.
pub fn is_thin(bytes: &[u8]) -> bool {
    bytes.starts_with(THIN)
}

struct Member<'data> {
    /// Offset of its header in the original.
    old: usize,
    header: &'data [u8; HEADER],
    contents: Cow<'data, [u8]>,
}

impl Member<'_> {
    fn name(&self) -> &[u8] {
        self.header[..16].trim_ascii_end()
    }

    /// Width in bytes of the offsets in an index; `None` for other members.
    fn index_width(&self) -> Option<usize> {
        match self.name() {
            b"/" => Some(4),
            b"/SYM64/" => Some(8),
            _ => None,
        }
    }
}

/// Why an input is not split, and what happens to the link.
pub enum Unsplit {
    /// The linker gets the input as it is.
    AsItIs(Problem),
    /// The link is refused, because the input leads to a pipe or a device. Some linkers would wait for it for
    /// ever.
    Refused(Problem),
}

impl From<Problem> for Unsplit {
    fn from(problem: Problem) -> Self {
        Unsplit::AsItIs(problem)
    }
}

/// Whether a path leads to something that is not a regular file; an input must not do that.
pub fn is_irregular(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// A copy with split members of the archive at `path`, which has these bytes; `None` if there is nothing to
/// split.
///
/// # Errors
/// The archive is malformed, a file that it names cannot be read, or a member cannot be split.
pub fn split(path: &Path, bytes: &[u8], form: Form) -> Result<Option<Vec<u8>>, Unsplit> {
    let store = InputStore::default();
    let mut members = read(path, bytes, &store)?;
    let mut changed = false;
    for member in members.iter_mut().filter(|member| is_candidate(&member.contents)) {
        let shown = format!("{}({})", path.display(), String::from_utf8_lossy(member.name()));
        if let Some(new) = split::split(&shown, &member.contents, form)?.bytes {
            member.contents = Cow::Owned(new);
            changed = true;
        }
    }
    if !changed {
        return Ok(None);
    }
    let too_far = || Problem::new(path.display().to_string(), "its index does not lead to members");
    Ok(Some(write(members).ok_or_else(too_far)?))
}

/// Lists the members. It maps each file that a thin archive names once, and keeps it in the store.
fn read<'data>(
    path: &Path,
    bytes: &'data [u8],
    store: &'data InputStore,
) -> Result<Vec<Member<'data>>, Unsplit> {
    let malformed =
        |at: usize| Problem::new(path.display().to_string(), format!("malformed archive at byte {at:#x}"));
    let (mut members, mut at, mut names): (Vec<Member<'_>>, _, &[u8]) = (Vec::new(), MAGIC.len(), &[]);
    let (mut outside, mut known) = (ThinArchiveBytes::new(bytes.len()), HashMap::<PathBuf, &[u8]>::new());
    while at < bytes.len() {
        let header: &[u8; HEADER] =
            bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(|| malformed(at))?;
        let size =
            std::str::from_utf8(&header[48..58]).ok().and_then(|size| size.trim().parse::<usize>().ok());
        let size = size.filter(|_| header[58..] == *b"`\n").ok_or_else(|| malformed(at))?;
        let mut member = Member { old: at, header, contents: Cow::Borrowed(&[]) };
        let own = !is_thin(bytes) || matches!(member.name(), b"/" | b"//" | b"/SYM64/");
        let start = at + HEADER;
        if own {
            let end = start.checked_add(size).ok_or_else(|| malformed(at))?;
            let contents = bytes.get(start..end).ok_or_else(|| malformed(at))?;
            if member.name() == b"//" {
                names = contents;
            }
            member.contents = Cow::Borrowed(contents);
            at = end + size % 2;
        } else {
            let name = outside_name(member.name(), names).ok_or_else(|| malformed(at))?;
            let file = path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(name));
            let contents = match known.get(&file) {
                Some(known) => {
                    let too_much = |message| Problem::new(path.display().to_string(), message);
                    outside.count_again(known.len()).map_err(too_much)?;
                    *known
                }
                None => {
                    let missing = |error| {
                        let text = format!("cannot read: {error}");
                        let problem = Problem::new(file.display().to_string(), text);
                        if is_irregular(&file) { Unsplit::Refused(problem) } else { problem.into() }
                    };
                    let contents = store.keep_file(SystemSource.read(&file).map_err(missing)?);
                    outside.count(contents.len());
                    known.insert(file, contents);
                    contents
                }
            };
            member.contents = Cow::Borrowed(contents);
            at = start;
        }
        members.push(member);
    }
    Ok(members)
}

/// The path of a member of a thin archive, from its name: `name/`, or a slash and an offset in the table of
/// long names.
fn outside_name<'n>(name: &'n [u8], names: &'n [u8]) -> Option<&'n [u8]> {
    match name.strip_prefix(b"/") {
        Some(offset) => {
            let offset: usize = std::str::from_utf8(offset).ok()?.parse().ok()?;
            let rest = names.get(offset..)?;
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            rest[..end].strip_suffix(b"/")
        }
        None => name.strip_suffix(b"/"),
    }
}

/// Writes an archive with these members. `None` if its index contains an offset where no member starts, or if
/// a new offset does not fit the index.
fn write(mut members: Vec<Member<'_>>) -> Option<Vec<u8>> {
    let (mut places, mut at) = (HashMap::new(), MAGIC.len());
    for member in &members {
        places.insert(member.old as u64, at as u64);
        at += HEADER + member.contents.len().next_multiple_of(2);
    }
    for member in &mut members {
        let Some(width) = member.index_width() else { continue };
        let contents = member.contents.to_mut();
        let (count, rest) = contents.split_at_mut_checked(width)?;
        let count = usize::try_from(number(count)).ok()?;
        for offset in rest.get_mut(..count.checked_mul(width)?)?.chunks_exact_mut(width) {
            let new = *places.get(&number(offset))?;
            if width == 4 && new > u64::from(u32::MAX) {
                return None;
            }
            offset.copy_from_slice(&new.to_be_bytes()[8 - width..]);
        }
    }
    let mut out = Vec::with_capacity(at);
    out.extend_from_slice(MAGIC);
    for member in &members {
        let size = format!("{:<10}", member.contents.len());
        out.extend_from_slice(&member.header[..48]);
        out.extend_from_slice(size.as_bytes());
        out.extend_from_slice(b"`\n");
        out.extend_from_slice(&member.contents);
        if member.contents.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    Some(out)
}

/// Reads a big-endian number. Indexes use big-endian numbers on every machine.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
