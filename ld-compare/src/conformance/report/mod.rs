//! The results in words.

mod text;

pub use text::{list, text};
