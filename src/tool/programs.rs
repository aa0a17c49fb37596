//! Finds the program that a wrapper stands for: on `PATH`, and not the wrapper itself.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The program of this name, or at this path: not this program, and not in its folder.
pub fn real(name: &OsStr) -> Option<PathBuf> {
    let own = own();
    if Path::new(name).components().count() > 1 {
        let path = PathBuf::from(name);
        return (path.canonicalize().ok()? != own.unwrap_or_default()).then_some(path);
    }
    search(name, &std::env::var_os("PATH").unwrap_or_default(), own.as_deref())
}

/// This program.
pub fn own() -> Option<PathBuf> {
    std::env::current_exe().and_then(|path| path.canonicalize()).ok()
}

/// The first program of a name in the folders of `path` that is not `own`, in no case in its folder.
pub fn search(name: &OsStr, path: &OsStr, own: Option<&Path>) -> Option<PathBuf> {
    let own_folder = own.and_then(Path::parent);
    let folders = std::env::split_paths(path).filter(|folder| {
        let real = folder.canonicalize().ok();
        real.is_some() && real.as_deref() != own_folder
    });
    folders.map(|folder| folder.join(name)).find(|candidate| {
        let real = candidate.canonicalize().ok();
        let executable =
            candidate.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0);
        executable && real.as_deref() != own
    })
}
