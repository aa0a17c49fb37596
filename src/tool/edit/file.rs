//! Reads whole files, and replaces files in one step.

use crate::output::interrupt::Temporaries;
use crate::tool::Problem;
use std::fs::{File, Metadata, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Bits of a mode by which a program runs as the owner or the group of its file.
const RUNS_AS_OWNER: u32 = 0o6000;

/// Reads a whole file.
///
/// # Errors
/// It is no regular file, or cannot be read.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Problem> {
    let problem =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot read: {error}"));
    if !std::fs::metadata(path).map_err(problem)?.is_file() {
        return Err(Problem::new(path.display().to_string(), "not a regular file"));
    }
    std::fs::read(path).map_err(problem)
}

/// Permissions of a file, for another one made from it.
pub fn permissions(path: &Path) -> Option<Permissions> {
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions())
}

/// Writes a file under a temporary name beside `path` and moves it there, so that nobody ever sees
/// an incomplete file, and a running program keeps its old bytes. Long runs of zeros become holes. A
/// symbolic link is followed. A path that is no regular file, a device or a pipe, stays and is written to.
///
/// The file keeps its owner if it may, and then its set-user-id and set-group-id bits, too. A file of another owner never
/// gets them: the program would run as somebody else.
///
/// # Errors
/// The folder cannot be written to.
pub fn replace_file(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> Result<(), Problem> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let problem =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot write: {error}"));
    let old = std::fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        let mut file = File::options().write(true).open(&path).map_err(problem)?;
        return file.write_all(bytes).map_err(problem);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".sframe-").suffix(".new");
    let permissions = permissions.or_else(|| old.as_ref().map(Metadata::permissions));
    // For a new file, the process's umask decides.
    if permissions.is_none() {
        builder.permissions(Permissions::from_mode(0o666));
    }
    // Signals wait while the list of temporary files is locked: none finds the file without its entry.
    let mut temporaries = Temporaries::lock();
    let file = builder.tempfile_in(folder).map_err(problem)?;
    temporaries.add(file.path());
    drop(temporaries);
    let filled = fill(file.as_file(), bytes, permissions, old.as_ref());
    let mut temporaries = Temporaries::lock();
    temporaries.forget(file.path());
    filled.and_then(|()| file.persist(&path).map(drop).map_err(|error| error.error)).map_err(problem)
}

/// Writes the contents of a new file and sets its permissions, with what it may keep of the old file's.
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
    // After the change of the owner, which clears these bits.
    file.set_permissions(Permissions::from_mode(mode))
}

/// Gives a file the owner and the group of another. Whether it has them.
fn give_owner(file: &File, old: &Metadata) -> bool {
    let of = |metadata: &Metadata| (metadata.uid(), metadata.gid());
    file.metadata().is_ok_and(|new| of(&new) == of(old))
        || fchown(file, Some(old.uid()), Some(old.gid())).is_ok()
}

/// Runs of zeros of this many bytes are not written.
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
        // Only a test that root runs can give files away.
        let given = chown(&file, Some(65534), Some(65534)).is_ok();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        replace_file(&new, b"new", super::permissions(&file)).unwrap();
        assert_eq!(mode(&new), 0o755, "the copy is the caller's");
        replace_file(&new, b"newer", super::permissions(&file)).unwrap();
        assert_eq!(mode(&new), 0o755);
        replace_file(&file, b"new", super::permissions(&file)).unwrap();
        assert_eq!(mode(&file), 0o4755);
        assert!(!given || std::fs::metadata(&file).unwrap().uid() == 65534, "it stays the owner's");
    }

    /// `-o /dev/stdout`, or a device: a file in its place would be seen by all.
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
