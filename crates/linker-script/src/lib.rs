//! The language of linker scripts and version scripts, as GNU ld's manual defines it.
//!
//! This crate reads texts and answers questions about them. It knows nothing of objects, symbols or layout.
//! [`parse_script`] makes an [`ast::Script`], which the layout engine carries out; [`eval`] computes
//! expressions, and [`matcher`] finds the pattern that takes an input section. [`version`] reads version
//! scripts and dynamic lists. [`builtin`] holds the default layouts, which are scripts too.

pub mod ast;
pub mod builtin;
pub mod data_segment;
pub mod eval;
pub mod exercise;
pub mod expr;
pub mod fixed;
pub mod glob;
pub mod inputs;
mod lex;
pub mod matcher;
mod mri;
mod parse;
pub mod source;
pub mod version;

pub use mri::parse_mri_script;
pub use parse::{Include, parse_defsym, parse_expression, parse_script, parse_section_order};
pub use source::{Sources, Span};
