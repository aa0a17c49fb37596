//! Finds the program that a wrapper replaces: the first of its name on `PATH` that is neither this wrapper
//! nor another one that started it.
//!
//! Two copies of a wrapper on `PATH` would start each other for ever, and so would a wrapper and a script
//! that starts it. So each wrapper adds itself to a list in the environment ([`PASSED`]), which the programs
//! that it starts inherit. The search skips the programs of this list, and a list that becomes too long is an
//! error.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The environment variable with the wrappers that led to a program. They are separated as in `PATH`.
const PASSED: &str = "SFRAME_WRAPPERS";
/// The list may have this many entries. More than one is legitimate: compilers that linkers start, for
/// link-time optimization, may start the wrapper again.
const MAX_PASSED: usize = 16;
/// Where programs are searched for if there is no `PATH`, as the C library does. The current folder is not
/// among these.
const STANDARD_PATH: &str = "/bin:/usr/bin";

/// A wrapper's view of the programs on a machine.
pub struct Programs {
    own: Option<PathBuf>,
    passed: Vec<PathBuf>,
    path: OsString,
}

impl Programs {
    /// The view that the environment gives.
    pub fn of_environment() -> Self {
        let passed = std::env::var_os(PASSED).filter(|value| !value.is_empty()).unwrap_or_default();
        let passed = std::env::split_paths(&passed).filter(|path| !path.as_os_str().is_empty()).collect();
        let path = std::env::var_os("PATH").unwrap_or_else(|| STANDARD_PATH.into());
        Self { own: own(), passed, path }
    }

    /// The program that `wanted` names, by its name or its path. `variable` is the environment variable by
    /// which users can name it.
    ///
    /// # Errors
    /// There is no such program besides wrappers, or wrappers start each other.
    pub fn real(&self, wanted: &OsStr, variable: &str) -> Result<PathBuf, String> {
        if self.passed.len() >= MAX_PASSED {
            let last = self.passed.last().map(|path| path.display().to_string()).unwrap_or_default();
            return Err(format!(
                "wrappers start each other: {MAX_PASSED} of them led here, the last is {last}; set {variable} to the \
                 real program"
            ));
        }
        if !is_name(wanted) {
            let path = PathBuf::from(wanted);
            if self.is_wrapper(&path) {
                return Err(format!("{} is this wrapper; name the real program", path.display()));
            }
            return Ok(path);
        }
        self.search(wanted).ok_or_else(|| {
            format!(
                "no program {} on PATH besides this wrapper; set {variable} to the real program",
                wanted.display()
            )
        })
    }

    /// Whether another wrapper led here.
    pub fn is_led_to(&self) -> bool {
        !self.passed.is_empty()
    }

    /// The environment variable to pass to the program: the list, with this wrapper in it.
    pub fn passed_on(&self) -> (&'static str, OsString) {
        self.passed_on_beside(None)
    }

    /// As [`Programs::passed_on`], with the program itself in the list too. The program may be a script that
    /// starts this wrapper again, and the wrapper must not find it a second time.
    pub fn passed_on_to(&self, program: &Path) -> (&'static str, OsString) {
        self.passed_on_beside(Some(program))
    }

    fn passed_on_beside(&self, program: Option<&Path>) -> (&'static str, OsString) {
        let own = self.own.clone().or_else(|| std::env::args_os().next().map(PathBuf::from));
        // A path with a colon cannot be in the list. It is counted nevertheless.
        let listed = |path: Option<PathBuf>| {
            path.filter(|path| std::env::join_paths([path]).is_ok()).unwrap_or_else(|| "wrapper".into())
        };
        let more =
            std::iter::once(listed(own)).chain(program.map(|program| listed(program.canonicalize().ok())));
        let all = self.passed.iter().cloned().chain(more);
        (PASSED, std::env::join_paths(all).unwrap_or_default())
    }

    /// The first program of a name in the folders of `PATH` that is not a wrapper. It may be in this
    /// wrapper's own folder: a wrapper may be installed beside the system's programs.
    pub fn search(&self, name: &OsStr) -> Option<PathBuf> {
        if self.passed.len() >= MAX_PASSED {
            return None;
        }
        std::env::split_paths(&self.path).map(|folder| in_folder(&folder, name)).find(|candidate| {
            let is_program =
                candidate.metadata().is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0);
            is_program && !self.is_wrapper(candidate)
        })
    }

    /// Whether a path leads to this wrapper or to one that led here.
    fn is_wrapper(&self, path: &Path) -> bool {
        let identity = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
        let at = identity(path);
        at.is_some() && self.own.iter().chain(&self.passed).any(|wrapper| identity(wrapper) == at)
    }
}

/// The path of this program.
pub fn own() -> Option<PathBuf> {
    std::env::current_exe().and_then(|path| path.canonicalize()).ok()
}

/// Whether this is only a name, to be searched for in the folders of `PATH`.
fn is_name(wanted: &OsStr) -> bool {
    !wanted.as_encoded_bytes().contains(&b'/')
}

/// The path of a program in a folder of `PATH`. An empty folder is the current one. The path always has a
/// folder, so that it is not searched for on `PATH` again.
fn in_folder(folder: &Path, name: &OsStr) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    folder.join(name)
}

#[cfg(test)]
mod tests {
    use super::{MAX_PASSED, Programs};
    use std::ffi::OsStr;
    use std::fs::{Permissions, create_dir, hard_link, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    /// A folder with two wrappers, links to the first, a real program and one that cannot be run.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["bin", "links", "hard", "data", "other"] {
            create_dir(path(name)).unwrap();
        }
        symlink(path("bin"), path("again")).unwrap();
        for (name, mode) in
            [("bin/sframe", 0o755), ("bin/ld", 0o755), ("data/ld", 0o644), ("other/ld", 0o755)]
        {
            write(path(name), "").unwrap();
            set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        symlink("../bin/sframe", path("links/ld")).unwrap();
        hard_link(path("bin/sframe"), path("hard/ld")).unwrap();
        folder
    }

    fn programs(folder: &Path, on_path: &[&str], passed: &[&str]) -> Programs {
        let all = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect::<Vec<PathBuf>>();
        let path = std::env::join_paths(all(on_path)).unwrap();
        Programs { own: Some(folder.join("bin/sframe")), passed: all(passed), path }
    }

    #[test]
    fn what_stands_beside_the_wrapper_is_found_and_no_link_to_it_is() {
        let folder = folder();
        let all = ["missing", "links", "hard", "data", "again", "bin"];
        let programs = programs(folder.path(), &all, &[]);
        let found = |name: &str| programs.real(OsStr::new(name), "REAL").ok();
        assert_eq!(found("ld"), Some(folder.path().join("again/ld")));
        assert_eq!(found("sframe"), None);
        let own = folder.path().join("links/ld");
        assert!(programs.real(own.as_os_str(), "REAL").unwrap_err().contains("is this wrapper"));
        assert_eq!(found("./ld"), Some("./ld".into()));
    }

    #[test]
    fn wrappers_that_led_here_are_not_found_again() {
        let folder = folder();
        let path = ["other", "bin"];
        let real = |passed: &[&str]| programs(folder.path(), &path, passed).real(OsStr::new("ld"), "REAL");
        assert_eq!(real(&[]), Ok(folder.path().join("other/ld")));
        assert_eq!(real(&["other/ld"]), Ok(folder.path().join("bin/ld")));
        assert!(real(&["other/ld", "bin/ld"]).unwrap_err().contains("set REAL"));
        // A script between two wrappers is not known as a wrapper, but the wrapper behind it adds itself
        // again and again.
        assert!(real(&["bin/sframe"; MAX_PASSED]).unwrap_err().contains("wrappers start each other"));
        let (_, passed) = programs(folder.path(), &path, &["other/ld"]).passed_on();
        let passed: Vec<_> = std::env::split_paths(&passed).collect();
        assert_eq!(passed, ["other/ld", "bin/sframe"].map(|name| folder.path().join(name)));
    }

    #[test]
    fn an_empty_folder_of_the_path_is_the_current_one() {
        assert_eq!(super::in_folder(Path::new(""), OsStr::new("ld")), Path::new("./ld"));
        assert_eq!(super::in_folder(Path::new("/bin"), OsStr::new("ld")), Path::new("/bin/ld"));
    }
}
