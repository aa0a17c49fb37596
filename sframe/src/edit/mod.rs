//! Changes to ELF files that leave all other bytes in place.
//!
//! An [`Image`] is a file read in place, with the headers of its sections by number. A [`Sections`]
//! edit gives some sections other contents and adds new ones: every other section keeps its number
//! and its bytes their place in the file, so that symbols, relocations and debug information need
//! not be touched. New contents go into the room that replaced contents leave, then to the end; the
//! section header table comes last. [`replace_file`] puts the result in the place of a file in one
//! step.

mod file;
mod image;
mod object;
mod room;
mod sections;

pub use file::{check_output, read_file, replace_file};
pub use image::{Image, ORDER_LITTLE, byte_order};
pub use object::{Frames, Members, Object, Pair};
pub use sections::Sections;
