//! The output file.
//!
//! Output is made under a temporary name beside the real one and moved there when it is complete,
//! so that a failed or interrupted link leaves what was there before. An output that exists and is
//! not a regular file (a device, a pipe, a socket) is written to, never replaced or removed: a
//! linker that is run as root with `-o /dev/null` must leave the device alone.

use memmap2::MmapMut;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// An output file that is being made.
pub struct OutputFile {
    path: PathBuf,
    bytes: Bytes,
}

enum Bytes {
    /// A new file, mapped.
    New { file: NamedTempFile, map: MmapMut },
    /// In memory, for something that exists and must stay what it is.
    InPlace(Vec<u8>),
}

impl OutputFile {
    /// Makes a file of `size` zero bytes. It is executable by whom the umask lets, if `executable`
    /// says so.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, size: u64, executable: bool) -> io::Result<OutputFile> {
        let too_large = |_| io::Error::new(io::ErrorKind::FileTooLarge, format!("{size} bytes"));
        let length = usize::try_from(size).map_err(too_large)?;
        let bytes = if is_special(path) || size == 0 {
            Bytes::InPlace(vec![0; length])
        } else {
            let file = create_beside(path, executable)?;
            file.as_file().set_len(size)?;
            // SAFETY: the file was created a moment ago under a name that nobody knows, is opened
            // exclusively, and has the size that is mapped. Another process that truncates it
            // nevertheless breaks any program that maps it.
            let map = unsafe { MmapMut::map_mut(file.as_file())? };
            Bytes::New { file, map }
        };
        Ok(OutputFile { path: path.to_path_buf(), bytes })
    }

    /// The whole file.
    pub fn bytes(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Bytes::New { map, .. } => map,
            Bytes::InPlace(bytes) => bytes,
        }
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// What the system says; the old file is then still there.
    pub fn commit(self) -> io::Result<()> {
        match self.bytes {
            Bytes::New { file, map } => {
                drop(map);
                file.persist(&self.path).map_err(|error| error.error)?;
                Ok(())
            }
            Bytes::InPlace(bytes) => {
                let mut file = File::options()
                    .write(true)
                    .create(true)
                    .truncate(!is_special(&self.path))
                    .open(&self.path)?;
                file.write_all(&bytes)
            }
        }
    }
}

/// Whether the path leads to something that is there and is no regular file.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

fn create_beside(path: &Path, executable: bool) -> io::Result<NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    // The umask is applied to these as to any file that is created.
    let mode = if executable { 0o777 } else { 0o666 };
    tempfile::Builder::new().prefix(&prefix).permissions(Permissions::from_mode(mode)).tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_output_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, b"old").unwrap();
        let mut output = OutputFile::create(&path, 3, true).unwrap();
        output.bytes().copy_from_slice(b"new");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let mut output = OutputFile::create(&path, 3, true).unwrap();
        output.bytes().copy_from_slice(b"new");
        output.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_ne!(fs::metadata(&path).unwrap().permissions().mode() & 0o100, 0);
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a valid C string and plain mode bits.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        let mut output = OutputFile::create(&path, 4, true).unwrap();
        output.bytes().copy_from_slice(b"text");
        output.commit().unwrap();
        assert_eq!(reader.join().unwrap(), b"text");
        assert!(!fs::metadata(&path).unwrap().is_file());
    }
}
