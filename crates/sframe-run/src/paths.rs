//! Paths of programs that are started through open files. Nothing here allocates.

use libc::c_int;
use std::ffi::CStr;
use std::io::Write;

/// Room for a path.
pub type Buffer = [u8; libc::PATH_MAX as usize];

/// A buffer without a path.
pub const EMPTY: Buffer = [0; libc::PATH_MAX as usize];

/// The path of the program that execveat(2) starts: `path` itself, a path in an open folder, or the path of
/// an open file if `path` is empty.
pub fn started<'a>(folder: c_int, path: &'a CStr, buffer: &'a mut Buffer) -> Option<&'a CStr> {
    match path.to_bytes() {
        [] => of_open(folder, buffer),
        [b'/', ..] => Some(path),
        _ if folder == libc::AT_FDCWD => Some(path),
        _ => in_open(folder, path, buffer),
    }
}

/// The path of an open file (proc(5), `/proc/pid/fd`).
pub fn of_open(file: c_int, buffer: &mut Buffer) -> Option<&CStr> {
    let mut link = [0u8; 32];
    write!(&mut link[..], "/proc/self/fd/{file}\0").ok()?;
    // The last byte stays zero, so that it ends the longest path.
    let room = buffer.len() - 1;
    // SAFETY: the name of the link ends with a zero, and the buffer has this much room.
    let length = unsafe { libc::readlink(link.as_ptr().cast(), buffer.as_mut_ptr().cast(), room) };
    *buffer.get_mut(usize::try_from(length).ok()?)? = 0;
    CStr::from_bytes_until_nul(&buffer[..]).ok()
}

/// The path of a file in an open folder.
fn in_open<'a>(folder: c_int, path: &CStr, buffer: &'a mut Buffer) -> Option<&'a CStr> {
    let mut rest = &mut buffer[..];
    write!(rest, "/proc/self/fd/{folder}/").ok()?;
    rest.write_all(path.to_bytes_with_nul()).ok()?;
    CStr::from_bytes_until_nul(&buffer[..]).ok()
}

#[cfg(test)]
mod tests {
    use super::{EMPTY, started};
    use std::ffi::{CStr, CString};
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    fn path(folder: i32, path: &CStr) -> Option<CString> {
        let mut buffer = EMPTY;
        started(folder, path, &mut buffer).map(CStr::to_owned)
    }

    #[test]
    fn open_files_and_files_in_open_folders_have_paths() {
        let own = std::env::current_exe().unwrap();
        let bytes = |path: &std::path::Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        let (file, folder) = (File::open(&own).unwrap(), File::open(own.parent().unwrap()).unwrap());
        assert_eq!(path(file.as_raw_fd(), c""), Some(bytes(&own)));
        let name = CString::new(own.file_name().unwrap().as_bytes()).unwrap();
        let inside = path(folder.as_raw_fd(), &name).unwrap();
        assert!(inside.as_bytes().ends_with(name.as_bytes()));
        let inside = std::path::Path::new(std::ffi::OsStr::from_bytes(inside.as_bytes())).canonicalize();
        assert_eq!(inside.unwrap(), own.canonicalize().unwrap());
    }

    #[test]
    fn other_paths_stay_and_what_is_not_open_has_none() {
        for (folder, text) in [(libc::AT_FDCWD, c"bin/ld"), (-1, c"/bin/ld")] {
            assert_eq!(path(folder, text).as_deref(), Some(text));
        }
        assert_eq!(path(-1, c""), None);
        let long = CString::new(vec![b'x'; 5000]).unwrap();
        assert_eq!(path(3, &long), None);
    }
}
