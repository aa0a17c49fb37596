//! The ways in which a package is built.

/// A way to build a package.
pub struct Way {
    /// Its name in logs and on the page.
    pub name: &'static str,
    /// What the script does after each link.
    pub mode: &'static str,
    /// What the script adds to each link that makes a program or a library.
    pub options: &'static str,
}

pub const GNU: Way = Way { name: "gnu", mode: "gnu", options: "" };
pub const OURS: Way = Way { name: "ours", mode: "ours", options: "" };
/// The ways with a table in place of `.eh_frame`.
pub const TABLES: [Way; 2] = [
    Way { name: "look-ups", mode: "table", options: "--unwind-table=replace" },
    Way { name: "unwinder", mode: "table", options: "--unwind-table=replace --unwind-runtime=full" },
];
