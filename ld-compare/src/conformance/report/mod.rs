//! The results in words, for people and for programs.

mod machine;
mod markdown;
mod page;
mod text;

pub use text::{changes, list};

use super::matrix::Matrix;
use super::record::Record;
use crate::html;
use anyhow::Result;

/// A form of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// What does not hold, tool by tool
    #[default]
    Text,
    /// Everything, for programs
    Json,
    /// For programs that show tests
    Junit,
    /// A page with a matrix whose cells open
    Html,
    /// A matrix for a document, with the reasons of the baseline
    Markdown,
}

/// The results in a form.
///
/// # Errors
/// Never: every form can be written.
pub fn write(format: Format, matrix: &Matrix, record: &Record) -> Result<String> {
    Ok(match format {
        Format::Text => text::text(matrix),
        Format::Json => serde_json::to_string_pretty(&machine::json(matrix))? + "\n",
        Format::Junit => machine::junit(matrix),
        Format::Html => html::write(&page::page(matrix)),
        Format::Markdown => markdown::markdown(matrix, record),
    })
}
