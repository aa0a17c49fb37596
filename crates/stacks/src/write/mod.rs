//! Files for people and other tools.
//!
//! Each writer takes a [`Profile`](crate::profile::Profile) with the names of its frames, and writes all of
//! it. No writer reads the recording again.

mod firefox;
mod folded;
mod html;
mod json;
mod kept;
mod numbers;
mod otlp;
mod perf_data;
mod pprof;
mod protobuf;
mod speedscope;
mod svg;
mod text;
mod tree;

use crate::named::Named;
pub use html::write_difference;
pub use kept::Kept;
use std::io;

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// As perf script prints stacks
    Text,
    /// A line for each different stack, for flame graphs (.folded)
    Folded,
    /// An object for each sample (.json)
    Json,
    /// For pprof (.pb.gz)
    Pprof,
    /// For the Firefox Profiler
    Firefox,
    /// For speedscope (.speedscope.json)
    Speedscope,
    /// All of it, to be written again in any form (.sframe-profile)
    Profile,
    /// For tools of OpenTelemetry: ProfilesData (.otlp)
    Otlp,
    /// Call chains for perf report and hotspot, which look up the names (.data)
    PerfData,
    /// A picture of a flame graph (.svg)
    Svg,
    /// A page with a flame graph (.html)
    Html,
    /// Nothing
    None,
}

/// Writes a profile.
///
/// # Errors
/// Those of the writer.
pub fn write(format: Format, named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    match format {
        Format::Text => text::write(named, to),
        Format::Folded => folded::write(named, to),
        Format::Json => json::write(named, to),
        Format::Pprof => pprof::write(named, to),
        Format::Firefox => firefox::write(named, to),
        Format::Speedscope => speedscope::write(named, to),
        Format::Profile => kept::write(named, to),
        Format::Otlp => otlp::write(named, to),
        Format::PerfData => perf_data::write(named, to),
        Format::Svg => svg::write(named, to),
        Format::Html => html::write(named, to),
        Format::None => Ok(()),
    }
}
