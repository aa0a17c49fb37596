//! The cache of the wrapper's split copies. Their keys are the contents that they were made from. Any number
//! of links can use the cache at the same time, and its size is bounded.
//!
//! A file gets its final name only when it is complete, and never changes afterwards, so readers need no
//! lock. Each use sets the file's time. If the cache is larger than its limit, it removes the files that were
//! not used for the longest time, but none that was used in the last hour: a linker may still be reading it.
//!
//! The contents of the cache become part of programs, so another user must not be able to change them. If
//! others can write to the folder, the wrapper says so and links its inputs as they are.

use crate::Problem;
use crate::edit::replace_file;
use std::ffi::OsStr;
use std::fs::{DirBuilder, DirEntry, File, FileType, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The limit in MiB if no option sets one.
pub const DEFAULT_LIMIT: u64 = 2048;
/// Files that were used within this time may still be in use.
const IN_USE: Duration = Duration::from_secs(3600);
/// Shortest time between two sums over all sizes.
const SWEEP: Duration = Duration::from_secs(60);

/// A folder of copies.
pub struct Cache {
    folder: PathBuf,
    /// In bytes.
    limit: u64,
}

/// The key for the copy that this version of the program makes of these bytes.
pub fn key(bytes: &[u8], light: bool) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(concat!(env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    hasher.update(&[u8::from(light)]);
    hasher.update(bytes);
    hasher.finalize().to_hex().to_string()
}

/// Which folder contains the cache.
enum Place {
    /// The one that the option or `SFRAME_WRAP_CACHE` names.
    Named(PathBuf),
    /// In a folder of the user or of temporary files: two nested folders with these names.
    Own(PathBuf, [String; 2]),
}

impl Place {
    fn choose(named: Option<&Path>) -> Self {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(folder) = named.map(Path::to_owned).or_else(|| variable("SFRAME_WRAP_CACHE")) {
            return Self::Named(folder);
        }
        let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        // XDG's specification says to ignore relative folders. They would lie among the sources, so this
        // program ignores them too.
        let caches = caches.filter(|folder| folder.is_absolute());
        let (folder, name) = match caches {
            Some(caches) => (caches, "sframe".to_owned()),
            None => (std::env::temp_dir(), format!("sframe-cache-{}", user())),
        };
        Self::Own(folder, [name, "wrap-ld".to_owned()])
    }

    /// Makes the folder if it is missing.
    ///
    /// # Errors
    /// It cannot be made, or others than this user can write to it.
    fn make(self) -> Result<PathBuf, Problem> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let make = |folder: &Path| {
            builder.create(folder).map_err(|error| problem(folder, &format!("cannot be made: {error}")))
        };
        match self {
            Self::Named(folder) => {
                make(&folder)?;
                // The user names it, so it may be a link.
                let folder = folder.canonicalize().unwrap_or(folder);
                check(&folder)?;
                Ok(folder)
            }
            Self::Own(mut folder, names) => {
                make(&folder)?;
                for name in names {
                    folder.push(name);
                    // Anybody may have put a link there.
                    if folder.symlink_metadata().is_err() {
                        make(&folder)?;
                    }
                    check(&folder)?;
                }
                Ok(folder)
            }
        }
    }
}

/// Checks that a folder belongs to this user, and that nobody else may write to it, except for members of the
/// user's own group.
fn check(folder: &Path) -> Result<(), Problem> {
    let data = folder.symlink_metadata().map_err(|error| problem(folder, &error.to_string()))?;
    // SAFETY: a system call without arguments.
    let group = unsafe { libc::getegid() };
    let finding = if !data.is_dir() {
        "it is no folder".to_owned()
    } else if data.uid() != user() {
        format!("it belongs to the user {}", data.uid())
    } else if data.mode() & 0o002 != 0 || data.mode() & 0o020 != 0 && data.gid() != group {
        format!("its mode is {:o}, so that others may write there", data.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(problem(folder, &format!("not used as the cache of split copies: {finding}")))
}

fn problem(folder: &Path, finding: &str) -> Problem {
    Problem::new(folder.display().to_string(), finding)
}

fn user() -> u32 {
    // SAFETY: a system call without arguments.
    unsafe { libc::geteuid() }
}

impl Cache {
    /// The cache in a folder: the one of the option, the one of `SFRAME_WRAP_CACHE`, or the user's own.
    /// `limit` is in MiB.
    ///
    /// # Errors
    /// The folder cannot be made, or others may write to it.
    pub fn open(folder: Option<&Path>, limit: u64) -> Result<Self, Problem> {
        Ok(Self { folder: Place::choose(folder).make()?, limit: limit.saturating_mul(1 << 20) })
    }

    fn path(&self, key: &str, name: &OsStr) -> PathBuf {
        self.folder.join(key.get(..2).unwrap_or_default()).join(key).join(name)
    }

    /// The copy with this key and name, if there is one.
    pub fn get(&self, key: &str, name: &OsStr) -> Option<PathBuf> {
        let path = self.path(key, name);
        // If its time cannot be set, the file might be removed while the linker reads it.
        let file = unlinked().append(true).open(&path).ok()?;
        file.set_modified(SystemTime::now()).ok()?;
        Some(path)
    }

    /// Adds a copy. Returns `None`, with a complaint, if that fails.
    pub fn add(&self, key: &str, name: &OsStr, bytes: &[u8]) -> Option<PathBuf> {
        let path = self.path(key, name);
        let folder = path.parent()?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let added = made.map_err(|error| format!("{}: cannot be made: {error}", folder.display()));
        let added =
            added.and_then(|()| replace_file(&path, bytes, None).map_err(|problem| problem.to_string()));
        match added {
            Ok(()) => Some(path.canonicalize().unwrap_or(path)),
            Err(message) => {
                eprintln!("sframe wrap-ld: warning: no split copy of {}: {message}", name.display());
                None
            }
        }
    }

    /// Adds a file; its own contents are its key.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Option<PathBuf> {
        let key = key(bytes, false);
        self.get(&key, OsStr::new(name)).or_else(|| self.add(&key, OsStr::new(name), bytes))
    }

    /// If the cache is larger than its limit, removes the files that were not used for the longest time.
    pub fn shrink(&self) {
        let stamp = self.folder.join("swept");
        let age = |data: &Metadata| data.modified().ok().and_then(|time| time.elapsed().ok());
        let swept = std::fs::metadata(&stamp).ok().as_ref().and_then(age);
        if swept.is_some_and(|age| age < SWEEP) {
            return;
        }
        let stamped = unlinked().append(true).create(true).open(&stamp);
        if stamped.and_then(|file| file.set_modified(SystemTime::now())).is_err() {
            return;
        }
        let files = entries(&self.folder, FileType::is_dir)
            .flat_map(|it| entries(&it.path(), FileType::is_dir))
            .flat_map(|it| entries(&it.path(), FileType::is_file));
        let mut files: Vec<_> = files
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.blocks() * 512, entry.path()))
            })
            .collect();
        let mut size: u64 = files.iter().map(|file| file.1).sum();
        files.sort();
        for (used, bytes, path) in files {
            if size <= self.limit || used.elapsed().is_ok_and(|age| age < IN_USE) {
                break;
            }
            if std::fs::remove_file(&path).is_ok() {
                size -= bytes;
                // When its last file is gone, the folder goes too.
                let _ = path.parent().map(std::fs::remove_dir);
            }
        }
    }
}

/// How to open files of the cache: links are not followed.
fn unlinked() -> std::fs::OpenOptions {
    let mut options = File::options();
    options.custom_flags(libc::O_NOFOLLOW);
    options
}

/// The entries of a folder that have one type. A link has neither of the types.
fn entries(folder: &Path, of_type: fn(&FileType) -> bool) -> impl Iterator<Item = DirEntry> + use<> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    all.filter(move |entry| entry.file_type().is_ok_and(|it| of_type(&it)))
}

#[cfg(test)]
mod tests {
    use super::{Cache, Place, key};
    use std::ffi::OsStr;
    use std::fs::{File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    #[test]
    fn what_was_used_longest_ago_goes_first_and_nothing_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path()), 1).unwrap();
        let name = OsStr::new("x.o");
        let put = |number: u8, hours: u64| {
            let key = key(&[number], false);
            let path = cache.add(&key, name, &vec![1; 600 << 10]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(3600 * hours);
            File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
            key
        };
        let keys = [put(1, 4), put(2, 9), put(3, 0), put(4, 0)];
        cache.shrink();
        let left = |cache: &Cache| keys.each_ref().map(|key| cache.get(key, name).is_some());
        assert_eq!(left(&cache), [false, false, true, true]);
        assert_ne!(key(b"a", false), key(b"a", true));
        let path = cache.put("arguments", b"x").unwrap();
        assert_eq!(cache.put("arguments", b"x"), Some(path));
    }
    #[test]
    fn folders_that_others_may_write_to_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let own = || Place::Own(folder.path().to_owned(), ["cache".to_owned(), "wrap-ld".to_owned()]).make();
        assert_eq!(own().unwrap(), at("cache/wrap-ld"));
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("cache"), mode("cache/wrap-ld")), (0o700, 0o700));
        for name in ["cache", "cache/wrap-ld"] {
            std::fs::set_permissions(at(name), Permissions::from_mode(0o777)).unwrap();
            assert!(own().unwrap_err().to_string().contains("mode is 777"), "{name}");
            assert!(Cache::open(Some(&at(name)), 1).is_err(), "{name}");
            std::fs::set_permissions(at(name), Permissions::from_mode(0o755)).unwrap();
        }
        // A link is followed only if the user names it.
        std::fs::rename(at("cache"), at("elsewhere")).unwrap();
        symlink("elsewhere", at("cache")).unwrap();
        assert!(own().unwrap_err().to_string().contains("no folder"));
        assert!(Cache::open(Some(&at("cache")), 1).is_ok());
    }

    #[test]
    fn links_in_the_cache_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let cache = Cache::open(Some(&at("cache")), 0).unwrap();
        let key = key(b"x", false);
        let copy = cache.add(&key, OsStr::new("x.o"), b"copy").unwrap();
        let old = SystemTime::now() - Duration::from_secs(36_000);
        for name in ["precious", "folder/precious"] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "precious").unwrap();
            File::options().append(true).open(at(name)).unwrap().set_modified(old).unwrap();
        }
        symlink(at("precious"), at("cache/swept")).unwrap();
        symlink(at("folder"), copy.parent().unwrap().with_file_name("folder")).unwrap();
        std::fs::remove_file(&copy).unwrap();
        symlink(at("precious"), &copy).unwrap();
        cache.shrink();
        assert_eq!(cache.get(&key, OsStr::new("x.o")), None);
        std::fs::remove_file(at("cache/swept")).unwrap();
        cache.shrink();
        for name in ["precious", "folder/precious"] {
            assert_eq!(std::fs::read(at(name)).unwrap(), b"precious", "{name}");
        }
        assert!(at("precious").metadata().unwrap().modified().unwrap() == old);
    }
}
