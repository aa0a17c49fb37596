//! Files whose code BOLT has rewritten since the link, as the names of their sections say.

use sframe_format::compact::WHOLE_SECTION_NAME;
use sframe_sections::CODE_MARK;

/// Whether only BOLT makes a section of this name. It says in a note how it was called, and renames what it
/// replaces.
pub fn is_mark(name: &str) -> bool {
    name == ".note.bolt_info" || name.starts_with(".bolt.") && name != CODE_MARK
}

/// What is wrong with a table that stands for `.eh_frame` in such a file.
pub fn complaint() -> String {
    format!(
        "BOLT has rewritten code that {WHOLE_SECTION_NAME} describes as it was before; only the linker makes such a \
         table, so rearrange the code at the link, or link with --unwind-table=none for BOLT"
    )
}

#[cfg(test)]
mod tests {
    use super::is_mark;

    #[test]
    fn only_sections_of_bolt_are_marks() {
        for name in [".note.bolt_info", ".bolt.org.eh_frame", ".bolt.text"] {
            assert!(is_mark(name), "{name}");
        }
        for name in [".bolt.org.sframe_unwind", ".text", ".note.gnu.build-id", ".boltzmann", ""] {
            assert!(!is_mark(name), "{name}");
        }
    }
}
