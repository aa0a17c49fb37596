//! Reads whole files, and replaces files in one step.

use crate::Problem;
use crate::destination::{self, Way};
use crate::report::warn;
use files::temporary::Temporary;
use rustix::fs::{XattrFlags, fsetxattr, getxattr, listxattr};
use std::ffi::CStr;
use std::fs::{File, Metadata, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// The bits of a mode that let a program run as the owner or the group of its file.
const RUNS_AS_OWNER: u32 = 0o6000;

/// Reads a whole file.
///
/// # Errors
/// It is not a regular file, or cannot be read.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Problem> {
    let problem =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot read: {error}"));
    if !std::fs::metadata(path).map_err(problem)?.is_file() {
        return Err(Problem::new(path.display().to_string(), "not a regular file"));
    }
    std::fs::read(path).map_err(problem)
}

/// Checks that a file can replace the one at `path`, before the work for it begins. `made_from` is the input
/// of a command that writes something other than a changed input; the result must not replace it.
///
/// # Errors
/// The file cannot be replaced, or is the input.
pub fn check_output(path: &Path, made_from: Option<&Path>) -> Result<(), Problem> {
    let apart = made_from.map_or(Ok(()), |input| {
        destination::check_apart(path, input).map_err(|_| "the input, which the result would replace".into())
    });
    apart
        .and_then(|()| destination::check(path, Way::Replaced))
        .map_err(|message| Problem::new(path.display().to_string(), message))
}

/// Writes a file under a temporary name beside `path` and moves it there. So nobody ever sees an incomplete
/// file, and a running program keeps its old bytes. Long runs of zeros become holes. The function follows a
/// symbolic link. If the path is a device or a pipe, it writes to that and replaces nothing.
///
/// The new file gets the permissions and the extended attributes (such as file capabilities) of `model`, the
/// file that it was made from. Without `model`, it gets those of the file that it replaces.
///
/// The file keeps its owner if the system allows that, and then also its set-user-id and set-group-id bits.
/// If the owner changes, these bits go: the program would run as somebody else.
///
/// # Errors
/// The folder cannot be written to, or an attribute of a file that is changed in place cannot be kept. If the
/// file is a copy, a lost attribute is only a warning.
pub fn replace_file(path: &Path, bytes: &[u8], model: Option<&Path>) -> Result<(), Problem> {
    let permissions =
        model.and_then(|model| std::fs::metadata(model).ok()).map(|metadata| metadata.permissions());
    let attributes = attributes(model.unwrap_or(path));
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let problem =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot write: {error}"));
    let old = std::fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        let mut file = File::options().write(true).open(&path).map_err(problem)?;
        return file.write_all(bytes).map_err(problem);
    }
    let permissions = permissions.or_else(|| old.as_ref().map(Metadata::permissions));
    // The process's umask decides about a new file. Another one stays private until it has its permissions.
    let mode = if permissions.is_none() { 0o666 } else { 0o600 };
    let file = Temporary::create(&path, mode).map_err(problem)?;
    fill(file.file(), bytes, permissions, old.as_ref()).map_err(problem)?;
    // This comes after the last change of contents and owner, because both clear capabilities.
    let in_place = model.is_none_or(|model| destination::check_apart(&path, model).is_err());
    match give_attributes(file.file(), &attributes) {
        Err(message) if in_place => return Err(Problem::new(path.display().to_string(), message)),
        Err(message) => warn(&format!("{}: {message}", path.display())),
        Ok(()) => {}
    }
    file.persist(&path).map_err(problem)
}

/// An extended attribute: its name and its value.
type Attribute = (Vec<u8>, Vec<u8>);

/// The most bytes that Linux allows for all names together, and for a value (`XATTR_LIST_MAX`,
/// `XATTR_SIZE_MAX`).
const ATTRIBUTE_BYTES: usize = 1 << 16;

/// The extended attributes of a file; none if the file system does not support them.
fn attributes(path: &Path) -> Vec<Attribute> {
    let mut buffer = vec![0; ATTRIBUTE_BYTES];
    let Ok(length) = listxattr(path, &mut buffer[..]) else { return Vec::new() };
    let names: Vec<Vec<u8>> =
        buffer[..length].split_inclusive(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let value = |name: Vec<u8>| {
        let length = getxattr(path, CStr::from_bytes_with_nul(&name).ok()?, &mut buffer[..]).ok()?;
        Some((name, buffer[..length].to_vec()))
    };
    names.into_iter().filter_map(value).collect()
}

/// Gives a file the attributes of another. Labels of a security policy may differ, because the system sets
/// them by its own rules.
///
/// # Errors
/// Another attribute cannot be set, such as file capabilities without the right to give them.
fn give_attributes(file: &File, attributes: &[Attribute]) -> Result<(), String> {
    for (name, value) in attributes {
        let Ok(named) = CStr::from_bytes_with_nul(name) else { continue };
        let by_policy = named.to_bytes().starts_with(b"security.") && named != c"security.capability";
        if let Err(error) = fsetxattr(file, named, value, XattrFlags::empty())
            && !by_policy
        {
            let what = match named {
                _ if named == c"security.capability" => "its file capabilities (security.capability)".into(),
                _ => format!("its attribute {}", named.to_string_lossy()),
            };
            return Err(format!(
                "{what} cannot be kept: {}; run as root, or work on a copy without them",
                std::io::Error::from(error)
            ));
        }
    }
    Ok(())
}

/// Writes the contents of a new file and sets its permissions, and keeps what it may of the old file's.
fn fill(
    mut file: &File,
    bytes: &[u8],
    permissions: Option<Permissions>,
    old: Option<&Metadata>,
) -> std::io::Result<()> {
    write_sparse(&mut file, bytes)?;
    let Some(permissions) = permissions else { return Ok(()) };
    let kept = old.filter(|old| give_owner(file, old)).map_or(0, MetadataExt::mode);
    let mode = permissions.mode() & (!RUNS_AS_OWNER | kept);
    // This comes after the change of the owner, which clears these bits.
    file.set_permissions(Permissions::from_mode(mode))
}

/// Gives a file the owner and the group of another. Returns whether the file has them now.
fn give_owner(file: &File, old: &Metadata) -> bool {
    let of = |metadata: &Metadata| (metadata.uid(), metadata.gid());
    file.metadata().is_ok_and(|new| of(&new) == of(old))
        || fchown(file, Some(old.uid()), Some(old.gid())).is_ok()
}

/// Runs of at least this many zeros are not written.
const HOLE: usize = 1 << 20;

fn write_sparse(file: &mut &File, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom};
    for chunk in bytes.chunks(HOLE) {
        if chunk.len() == HOLE && chunk.iter().all(|&byte| byte == 0) {
            file.seek(SeekFrom::Current(HOLE as i64))?;
        } else {
            file.write_all(chunk)?;
        }
    }
    file.set_len(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::{HOLE, read_file, replace_file};

    #[test]
    fn files_are_replaced_with_their_permissions_through_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o751)).unwrap();
        symlink(&file, &link).unwrap();
        let bytes = [&[1u8; 10][..], &vec![0; 3 * HOLE], &[2; 10]].concat();
        replace_file(&link, &bytes, None).unwrap();
        assert_eq!(read_file(&file).unwrap(), bytes);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o751);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(read_file(folder.path()).unwrap_err().message.contains("not a regular file"));
    }

    #[test]
    fn no_file_runs_as_somebody_else() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let (file, new) = (folder.path().join("file"), folder.path().join("new"));
        std::fs::write(&file, "old").unwrap();
        // Only root can give files away.
        let given = chown(&file, Some(65534), Some(65534)).is_ok();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        replace_file(&new, b"new", Some(&file)).unwrap();
        assert_eq!(mode(&new), 0o755, "the copy is the caller's");
        replace_file(&new, b"newer", Some(&file)).unwrap();
        assert_eq!(mode(&new), 0o755);
        replace_file(&file, b"new", Some(&file)).unwrap();
        assert_eq!(mode(&file), 0o4755);
        assert!(!given || std::fs::metadata(&file).unwrap().uid() == 65534, "it stays the owner's");
    }

    /// Extended attributes of users stay, and file capabilities where the test may set them.
    #[test]
    fn extended_attributes_stay() {
        use rustix::fs::{XattrFlags, getxattr, setxattr};
        let folder = tempfile::tempdir().unwrap();
        let (file, copy) = (folder.path().join("file"), folder.path().join("copy"));
        std::fs::write(&file, "old").unwrap();
        // Version 2 with CAP_NET_RAW, permitted and effective (`struct vfs_cap_data`).
        let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let wanted = [("user.note", &b"kept"[..]), ("security.capability", &capability)];
        let set = |(name, value): &(&str, &[u8])| setxattr(&file, *name, value, XattrFlags::empty()).is_ok();
        let given: Vec<_> = wanted.into_iter().filter(set).collect();
        replace_file(&file, b"new", None).unwrap();
        replace_file(&copy, b"new", Some(&file)).unwrap();
        for (name, value) in given {
            for path in [&file, &copy] {
                let mut found = [0; 64];
                let length = getxattr(path, name, &mut found[..]).unwrap();
                assert_eq!(&found[..length], value, "{name} of {path:?}");
            }
        }
    }

    /// The output may be `-o /dev/stdout` or another device. A file in its place would harm every other
    /// program.
    #[test]
    fn what_is_no_regular_file_is_written_to_and_stays() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        replace_file(&pipe, b"bytes", None).unwrap();
        assert_eq!(reader.join().unwrap(), b"bytes");
        assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert!(replace_file(folder.path(), b"bytes", None).unwrap_err().message.contains("cannot write"));
    }
}
