//! Changes ELF files and leaves all other bytes in place.
//!
//! Symbols, relocations and debug information refer to sections by number and to bytes by offset. An edit
//! that moved sections would have to find and change all of them. So an edit here moves nothing: it writes
//! new contents into the room that replaced contents leave, then at the end of the file, and the section
//! header table last.
//!
//! ```text
//! before:  │ .text │ .sframe │ .data │ section headers │
//! after:   │ .text │ new     │ .data │ larger new contents │ section headers │
//! ```
//!
//! An [`Image`] is a file that is read in place, with the headers of its sections by number. A [`Sections`]
//! edit gives some sections other contents and adds new ones; every other section keeps its number and its
//! place. [`replace_file`] replaces the old file by the result in one step.

mod file;
mod image;
mod object;
mod room;
mod sections;

pub use file::{check_output, read_file, replace_file};
pub use image::{Image, ORDER_LITTLE, byte_order};
pub use object::{Frames, Members, Object, Pair};
pub use sections::Sections;
