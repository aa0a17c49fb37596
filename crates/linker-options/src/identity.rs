//! The names under which `--version` presents this linker.
//!
//! Build systems read the first line of `--version` to learn which linker they have and what it can do. If
//! they do not know the linker, they do without features, and say nothing: libtool exports every symbol,
//! gcc's macros drop symbol versions, CMake writes no dependency files.
//!
//! They look for `GNU` (libtool), for `GNU ld` at the start (CMake, the kernel, autoconf-archive), for a
//! version as the last word (gcc, libffi, the kernel), or for the first text that looks like a version
//! (Meson). The line satisfies all of them, unless an option asks for another identity. The linker's own
//! version is in the second line. `tests/integration/build_systems.rs` runs all these build systems.

use super::values::word;

/// The linker that the version line names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Identity {
    /// This linker itself.
    Own,
    /// GNU ld.
    #[default]
    Gnu,
    /// LLVM's lld.
    Lld,
}

/// The version of this linker.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The GNU ld release whose command line this linker follows.
const GNU_VERSION: &str = "2.44";
/// That release as a number, for plugins: the major version times 100, plus the minor version.
pub const GNU_VERSION_NUMBER: i32 = 244;
/// The lld release whose command line this linker follows.
const LLD_VERSION: &str = "22.0.0";

impl Identity {
    /// The identity that a word of `--identity` or `SFRAME_LD_IDENTITY` names.
    ///
    /// # Errors
    /// The word is unknown. The text lists the known ones.
    pub fn from_word(value: &[u8]) -> Result<Self, String> {
        word(value, &[("sframe", Identity::Own), ("gnu", Identity::Gnu), ("lld", Identity::Lld)])
    }

    /// The first line of `--version`, without its newline.
    pub fn version_line(self) -> String {
        match self {
            Identity::Own => format!("sframe-ld {VERSION} (compatible with GNU ld)"),
            Identity::Gnu => format!("GNU ld (sframe-ld) {GNU_VERSION}"),
            Identity::Lld => {
                format!("LLD {LLD_VERSION} (sframe-ld {VERSION}, compatible with GNU linkers)")
            }
        }
    }
}

/// The output of `--version`.
pub fn version_text(identity: Identity) -> String {
    let line = identity.version_line();
    format!(
        "{line}\nsframe-ld {VERSION}\nThis program is free software, licensed under MIT or Apache-2.0 at your option.\n\
         There is no warranty.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and version as the kernel's scripts/ld-version.sh reads them from a version line.
    fn as_the_kernel_reads(line: &str) -> Option<(&'static str, String)> {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, version) = if words.starts_with(&["GNU", "ld"]) {
            ("BFD", *words.last()?)
        } else {
            ("LLD", *words.get(words.iter().position(|&word| word == "LLD")? + 1)?)
        };
        let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
        Some((name, version[..end].to_string()))
    }

    #[test]
    fn plugins_get_the_version_that_the_line_names() {
        let (major, minor) = GNU_VERSION.split_once('.').unwrap();
        let number = major.parse::<i32>().unwrap() * 100 + minor.parse::<i32>().unwrap();
        assert_eq!(number, GNU_VERSION_NUMBER);
    }

    #[test]
    fn the_kernel_knows_two() {
        assert_eq!(as_the_kernel_reads(&Identity::Own.version_line()), None);
        let gnu = as_the_kernel_reads(&Identity::Gnu.version_line());
        assert_eq!(gnu, Some(("BFD", GNU_VERSION.to_string())));
        let lld = as_the_kernel_reads(&Identity::Lld.version_line());
        assert_eq!(lld, Some(("LLD", LLD_VERSION.to_string())));
    }

    /// The version as the macros of gcc and libffi read it: the last word, without a date, as one number.
    fn as_gcc_reads(line: &str) -> Option<u32> {
        let mut parts = line.rsplit(' ').next()?.split('.').map(|part| part.parse::<u32>().ok());
        let mut next = || parts.next().unwrap_or(Some(0));
        Some((next()? * 100 + next()?) * 100 + next()?)
    }

    /// The version as Meson reads it: the first number of at most two digits with a dot and digits behind it.
    fn as_meson_reads(line: &str) -> Option<&str> {
        let numbers = line.split(|c: char| !c.is_ascii_digit() && c != '.');
        numbers
            .into_iter()
            .find(|word| word.split_once('.').is_some_and(|(major, _)| (1..3).contains(&major.len())))
    }

    #[test]
    fn the_default_line_is_known_everywhere() {
        let line = Identity::default().version_line();
        assert!(line.starts_with("GNU ld "), "{line}");
        assert_eq!(as_the_kernel_reads(&line), Some(("BFD", GNU_VERSION.to_string())));
        // Symbol versions need at least 2.14 (21400).
        assert!(as_gcc_reads(&line).is_some_and(|version| version > 21400), "{line}");
        assert_eq!(as_meson_reads(&line), Some(GNU_VERSION));
        assert!(version_text(Identity::default()).lines().nth(1).is_some_and(|line| line.ends_with(VERSION)));
    }

    #[test]
    fn others_read_it_too() {
        let own = Identity::Own.version_line();
        assert!(own.contains("GNU") && own.contains("(compatible with GNU ld)"), "{own}");
        // Meson looks for the name at the start of the line.
        assert!(Identity::Lld.version_line().starts_with("LLD"));
        assert_eq!(Identity::from_word(b"gnu"), Ok(Identity::Gnu));
        assert!(Identity::from_word(b"mold").unwrap_err().contains("sframe, gnu or lld"));
    }
}
