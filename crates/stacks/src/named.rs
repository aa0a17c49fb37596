//! Samples with the names of their frames: what writers and comparisons take.

use crate::modules::Modules;
use crate::profile::{Names, Profile, Row};
use crate::statistics::Report;

/// Samples with names.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// The samples.
    pub profile: &'a Profile,
    /// Names of their frames.
    pub names: &'a Names,
    /// The files of their frames.
    pub modules: &'a Modules,
    /// How complete the stacks are.
    pub report: &'a Report,
    /// The subject of the recording: a file name or a command.
    pub title: &'a str,
}

impl Named<'_> {
    /// Why a stack ended.
    pub(crate) fn end(&self, row: &Row) -> String {
        row.end.describe(self.modules)
    }

    /// The functions of a sample, outermost first.
    pub(crate) fn functions(&self, row: &Row) -> Vec<&str> {
        let mut functions: Vec<&str> = self
            .profile
            .frames_of(row.stack)
            .flat_map(|frame| self.names.of(frame))
            .map(|name| &*name.function)
            .collect();
        functions.reverse();
        functions
    }
}
