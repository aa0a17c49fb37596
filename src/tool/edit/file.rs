//! Reads whole files, and replaces files in one step.

use crate::tool::Problem;
use std::fs::{File, Permissions};
use std::io::Write;
use std::path::Path;

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
/// # Errors
/// The folder cannot be written to.
pub fn replace_file(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> Result<(), Problem> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let problem =
        |error: std::io::Error| Problem::new(path.display().to_string(), format!("cannot write: {error}"));
    if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        let mut file = File::options().write(true).open(&path).map_err(problem)?;
        return file.write_all(bytes).map_err(problem);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".sframe-").suffix(".new");
    let permissions = permissions.or_else(|| self::permissions(&path));
    // For a new file, the process's umask decides.
    #[cfg(unix)]
    if permissions.is_none() {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(problem)?;
    write_sparse(file.as_file_mut(), bytes).map_err(problem)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions).map_err(problem)?;
    }
    file.persist(&path).map_err(|error| problem(error.error))?;
    Ok(())
}

/// Runs of zeros of this many bytes are not written.
const HOLE: usize = 1 << 20;

fn write_sparse(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
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
