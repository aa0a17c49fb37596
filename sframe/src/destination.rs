//! Checks where the results of a command go before its work begins. If the folder does not exist, the user
//! learns it at once, and loses neither a recording nor an hour of work.

use rustix::fs::{Access, access};
use std::fs::{File, Metadata};
use std::io::IsTerminal;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How to write a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A new file replaces an existing one.
    Replaced,
    /// The new contents overwrite those of an existing file.
    Written,
}

/// Checks that a file can be written, and changes nothing.
///
/// # Errors
/// The reason why it cannot be written, and what helps.
pub fn check(path: &Path, way: Way) -> Result<(), String> {
    let there = std::fs::metadata(path).ok();
    match &there {
        Some(metadata) if metadata.is_dir() => return Err("a folder; name a file".into()),
        Some(metadata) if !metadata.is_file() => return check_special(path, metadata, way),
        Some(metadata) if way == Way::Replaced && metadata.nlink() > 1 => {
            return Err(format!(
                "the file has {} names (hard links), of which only this one would get the new contents; write to another \
                 file, or give it one name with: cp -p FILE NEW && mv NEW FILE",
                metadata.nlink()
            ));
        }
        Some(_) if way == Way::Written => return reason(path, access(path, Access::WRITE_OK)),
        _ => {}
    }
    // For a link to a file, the new file goes beside that file.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    check_folder(&folder_of(&real))
}

/// Checks that a folder exists and that files can be made in it.
///
/// # Errors
/// The reason why they cannot.
pub fn check_folder(folder: &Path) -> Result<(), String> {
    match std::fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {
            reason(folder, access(folder, Access::WRITE_OK | Access::EXEC_OK))
        }
        Ok(_) => Err(format!("cannot write: {} is no folder", folder.display())),
        Err(error) => Err(format!("cannot write: {}: {error}", folder.display())),
    }
}

/// Checks that a folder exists, or that it and the missing folders above it can be made.
///
/// # Errors
/// The reason why it cannot.
pub fn check_new_folder(folder: &Path) -> Result<(), String> {
    let above = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let there = above.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    check_folder(there)
}

/// Checks that two results do not go into the same file.
///
/// # Errors
/// They go into the same file.
pub fn check_apart(one: &Path, other: &Path) -> Result<(), String> {
    let place = |path: &Path| {
        let folder = folder_of(path);
        let folder = folder.canonicalize().unwrap_or(folder);
        path.canonicalize().unwrap_or_else(|_| folder.join(path.file_name().unwrap_or_default()))
    };
    let devices = std::fs::metadata(one).is_ok_and(|metadata| !metadata.is_file());
    if place(one) == place(other) && !devices {
        return Err(format!("{} is named twice: the second result would replace the first", one.display()));
    }
    Ok(())
}

/// Writing to a pipe or a device does not replace it. A terminal would take the bytes of a file for commands.
fn check_special(path: &Path, metadata: &Metadata, way: Way) -> Result<(), String> {
    let is_terminal = metadata.file_type().is_char_device()
        && File::options().write(true).open(path).is_ok_and(|file| file.is_terminal());
    if is_terminal && way == Way::Replaced {
        return Err("a terminal, and the result is binary; name a file".into());
    }
    reason(path, access(path, Access::WRITE_OK))
}

fn reason(path: &Path, result: rustix::io::Result<()>) -> Result<(), String> {
    result.map_err(|error| format!("cannot write: {}: {}", path.display(), std::io::Error::from(error)))
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Way, check, check_apart, check_new_folder};

    #[test]
    fn places_are_checked_and_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "old").unwrap();
        for way in [Way::Replaced, Way::Written] {
            assert_eq!(check(&at("file"), way), Ok(()));
            assert_eq!(check(&at("new"), way), Ok(()));
            assert!(check(&at("none/new"), way).unwrap_err().contains("No such file"));
            assert!(check(&at("file/new"), way).is_err());
            assert!(check(folder.path(), way).unwrap_err().contains("folder"));
        }
        assert_eq!(check_new_folder(&at("a/b/c")), Ok(()));
        assert!(check_new_folder(&at("file/b")).is_err());
        std::fs::hard_link(at("file"), at("second")).unwrap();
        assert!(check(&at("file"), Way::Replaced).unwrap_err().contains("hard links"));
        assert_eq!(check(&at("file"), Way::Written), Ok(()));
        assert!(check_apart(&at("new"), &folder.path().join("./new")).is_err());
        assert!(check_apart(&at("file"), &at("new")).is_ok());
        assert!(!at("new").exists() && !at("a").exists());
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "old");
    }
}
