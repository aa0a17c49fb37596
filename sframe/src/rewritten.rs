//! What is said of a file whose code BOLT has rewritten since the link.

use sframe_format::compact::WHOLE_SECTION_NAME;

/// What is wrong with a table that stands for `.eh_frame` in such a file.
pub fn complaint() -> String {
    format!(
        "BOLT has rewritten code that {WHOLE_SECTION_NAME} describes as it was before; only the linker makes such a \
         table, so rearrange the code at the link, or link with --unwind-table=none for BOLT"
    )
}
