//! Which files lack the names of functions that samples are in.

use crate::files::{FileId, Files, hexadecimal};
use crate::process::Place;
use crate::profile::{Names, Profile};
use std::collections::BTreeMap;

/// A file fits the list if so many of a hundred samples are in its functions without names.
const LEAST_SHARE: f64 = 5.0;

/// For each file, of how many samples the innermost function has no name: sentences about those where it is
/// many, the worst first. A file that could not be read at all is not among them.
pub fn nameless(profile: &Profile, names: &Names, files: &Files) -> Vec<String> {
    let mut counts: BTreeMap<FileId, usize> = BTreeMap::new();
    for row in &profile.rows {
        let Some(frame) = profile.frames_of(row.stack).next() else { continue };
        let is_known = names.of(frame).first().is_none_or(|name| name.known);
        if let Place::File(file, _) = profile.frames[frame as usize].place
            && !is_known
        {
            *counts.entry(file).or_default() += 1;
        }
    }
    let share = |count: usize| 100.0 * count as f64 / profile.rows.len().max(1) as f64;
    let mut many: Vec<_> = counts.into_iter().filter(|(_, count)| share(*count) >= LEAST_SHARE).collect();
    many.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let sentence = |(file, count): (FileId, usize)| {
        let file = files.get(file).filter(|file| file.image().is_ok())?;
        let remedy = match file.build_id() {
            Some(id) => format!(
                "no debug file has its build-id, {}; a package of the distribution may have it, or debuginfod (DEBUGINFOD_URLS)",
                hexadecimal(id)
            ),
            None => "it has no build-id to find a debug file by".to_owned(),
        };
        let share = share(count);
        Some(format!("{}: {share:.0} % of the samples are in functions without names: {remedy}", file.path))
    };
    many.into_iter().filter_map(sentence).collect()
}
