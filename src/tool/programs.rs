//! Finds the program that a wrapper stands for: on `PATH`, and not the wrapper itself.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The program at this path, or of this name on `PATH`. It is not this program itself, but may be in the same folder.
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

/// The first program of a name in the folders of `path` that is not `own` or a link to it. It may be in the folder of
/// `own`: a wrapper that is installed beside the system's programs stands for those.
pub fn search(name: &OsStr, path: &OsStr, own: Option<&Path>) -> Option<PathBuf> {
    let identity = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
    let own = own.and_then(identity);
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|candidate| {
        let executable =
            candidate.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0);
        executable && identity(candidate) != own
    })
}

#[cfg(test)]
mod tests {
    use super::search;
    use std::ffi::OsStr;
    use std::fs::{Permissions, create_dir, hard_link, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_stands_beside_the_wrapper_is_found_and_no_link_to_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["bin", "links", "hard"] {
            create_dir(path(name)).unwrap();
        }
        for name in ["bin/sframe", "bin/ld"] {
            write(path(name), "").unwrap();
            std::fs::set_permissions(path(name), Permissions::from_mode(0o755)).unwrap();
        }
        symlink("../bin/sframe", path("links/ld")).unwrap();
        hard_link(path("bin/sframe"), path("hard/ld")).unwrap();
        let folders = std::env::join_paths(["links", "hard", "bin"].map(path)).unwrap();
        let found = |name: &str| search(OsStr::new(name), &folders, Some(&path("bin/sframe")));
        assert_eq!(found("ld"), Some(path("bin/ld")));
        assert_eq!(found("sframe"), None);
    }
}
