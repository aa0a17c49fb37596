//! The wrapper's split copies, kept for later links: keyed by the contents that they were made of, shared by
//! any number of links at a time, and of bounded size.
//!
//! A file gets its name when it is complete, and is never changed, so readers need no lock. Each use
//! sets its time. When the cache is larger than its limit, the files that were not used for longest are
//! removed, but none that was used in the last hour: a linker may still be reading it.

use crate::tool::edit::replace_file;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Limit in MiB without an option.
pub const DEFAULT_LIMIT: u64 = 2048;
/// Files used since then may be in use.
const IN_USE: Duration = Duration::from_secs(3600);
/// Least time between two sums of all sizes.
const SWEEP: Duration = Duration::from_secs(60);

/// A folder of copies.
pub struct Cache {
    folder: PathBuf,
    /// In bytes.
    limit: u64,
}

/// The key of the copy that this version of the program makes of these bytes.
pub fn key(bytes: &[u8], light: bool) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(concat!(env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    hasher.update(&[u8::from(light)]);
    hasher.update(bytes);
    hasher.finalize().to_hex().to_string()
}

impl Cache {
    /// The cache in a folder: that of the option, of `SFRAME_WRAP_CACHE`, or the user's own. `limit` is in MiB.
    pub fn open(folder: Option<&Path>, limit: u64) -> Self {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = || {
            let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
            // SAFETY: a system call without arguments.
            let user = unsafe { libc::getuid() };
            let temporary = || std::env::temp_dir().join(format!("sframe-cache-{user}"));
            caches.map_or_else(temporary, |caches| caches.join("sframe")).join("wrap-ld")
        };
        let folder = folder.map(Path::to_owned).or_else(|| variable("SFRAME_WRAP_CACHE")).unwrap_or_else(own);
        Self { folder, limit: limit.saturating_mul(1 << 20) }
    }

    fn path(&self, key: &str, name: &OsStr) -> PathBuf {
        self.folder.join(key.get(..2).unwrap_or_default()).join(key).join(name)
    }

    /// The copy of this key and name, if there is one.
    pub fn get(&self, key: &str, name: &OsStr) -> Option<PathBuf> {
        let path = self.path(key, name);
        // A file whose time cannot be set might be removed while it is read.
        let file = File::options().append(true).open(&path).ok()?;
        file.set_modified(SystemTime::now()).ok()?;
        Some(path)
    }

    /// Adds a copy. `None`, with a complaint, if that fails.
    pub fn add(&self, key: &str, name: &OsStr, bytes: &[u8]) -> Option<PathBuf> {
        let path = self.path(key, name);
        let folder = path.parent()?;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
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

    /// Adds a file by its own contents.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Option<PathBuf> {
        let key = key(bytes, false);
        self.get(&key, OsStr::new(name)).or_else(|| self.add(&key, OsStr::new(name), bytes))
    }

    /// Removes the files that were not used for longest, if the cache is larger than its limit.
    pub fn shrink(&self) {
        let stamp = self.folder.join("swept");
        let age = |data: &Metadata| data.modified().ok().and_then(|time| time.elapsed().ok());
        let swept = std::fs::metadata(&stamp).ok().as_ref().and_then(age);
        if swept.is_some_and(|age| age < SWEEP) || File::create(&stamp).is_err() {
            return;
        }
        let list =
            |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path());
        let files = list(&self.folder).flat_map(|it| list(&it)).flat_map(|it| list(&it));
        let mut files: Vec<_> = files
            .filter_map(|path| {
                let data = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
                Some((data.modified().ok()?, data.blocks() * 512, path))
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
                // The folder goes with its last file.
                let _ = path.parent().map(std::fs::remove_dir);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, key};
    use std::ffi::OsStr;
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    #[test]
    fn what_was_used_longest_ago_goes_first_and_nothing_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path()), 1);
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
}
