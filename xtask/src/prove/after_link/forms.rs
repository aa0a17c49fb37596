//! The forms of output in which frames are linked.

use sframe_format::PT_GNU_SFRAME;
use sframe_format::compact::{PT_SFRAME_UNWIND, SECTION_NAME};

/// A form of output.
pub struct Form {
    /// Its name in the record.
    pub name: &'static str,
    /// The object whose frames it is made of.
    pub object: &'static str,
    /// The linker's options.
    pub options: &'static str,
    /// The name of its section.
    pub section: &'static str,
    /// The type of the program header that leads to the section.
    pub segment: Option<u32>,
    /// The subcommands of `sframe` that say whether its rows are true.
    pub checks: &'static [&'static str],
}

const VERIFY: &[&str] = &["verify"];
const INDEX: Form = Form {
    name: "index",
    object: "split.o",
    options: "--sframe-index",
    section: ".sframe_idx",
    segment: Some(PT_GNU_SFRAME),
    checks: VERIFY,
};

/// Every form.
pub const FORMS: [Form; 7] = [
    INDEX,
    Form {
        name: "compact",
        options: "--sframe-index=compact,--sframe=discard",
        section: SECTION_NAME,
        segment: None,
        ..INDEX
    },
    Form { name: "overlay", options: "--sframe-index=overlay", section: ".sframe", ..INDEX },
    Form { name: "concat", options: "--sframe=concat", section: ".sframe", ..INDEX },
    Form { name: "merged V2", options: "--sframe=merge,--sframe-version=2", section: ".sframe", ..INDEX },
    Form {
        name: "light",
        object: "light.o",
        options: "--sframe=concat",
        section: ".sframe_light",
        segment: None,
        ..INDEX
    },
    Form {
        name: "one table",
        options: "--sframe=discard,--unwind-table=replace",
        section: ".sframe_unwind",
        segment: Some(PT_SFRAME_UNWIND),
        checks: &["verify", "unwind-table"],
        ..INDEX
    },
];
