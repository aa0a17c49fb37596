//! A file of a link: an object, an archive, a script, or a member of a thin archive.

/// The name by which the link finds the file, and its contents.
pub struct File {
    pub name: String,
    pub bytes: Vec<u8>,
}
