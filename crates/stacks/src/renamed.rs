//! Which files and threads of one profile are which of another, though their names differ: a program that was
//! built again under another name, a library of the next version.

use crate::functions::same_file;
use crate::named::Named;
use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A function that more files have than this does not tell which is which: `main`, `_init`.
const MOST_FILES: usize = 16;

/// For names of the first profile that the second one does not have, those of the second one that the first
/// one does not have.
#[derive(Debug, Default)]
pub struct Renamed<'a> {
    files: HashMap<&'a str, &'a str>,
    thread: Option<(&'a str, &'a str)>,
}

/// For each file, its functions.
type Functions<'a> = BTreeMap<&'a str, HashSet<&'a str>>;

impl<'a> Renamed<'a> {
    /// Files are those that have the most functions of the same names; threads, if only one has another name.
    pub fn between(before: Named<'a>, after: Named<'a>) -> Self {
        let [mut functions, mut others] = [before, after].map(functions);
        let both: Vec<&str> = functions.keys().filter(|file| others.contains_key(*file)).copied().collect();
        for file in both {
            functions.remove(file);
            others.remove(file);
        }
        let [threads, other_threads] = [before, after].map(threads);
        let only = |of: &HashSet<&'a str>, not: &HashSet<&'a str>| {
            let mut only = of.difference(not).copied();
            only.next().filter(|_| only.next().is_none())
        };
        let thread = only(&threads, &other_threads).zip(only(&other_threads, &threads));
        Self { files: pairs(&functions, &others), thread }
    }

    /// What a file is called in the second profile: the last part of its path.
    pub fn file(&self, name: &'a str) -> &'a str {
        self.files.get(name).copied().unwrap_or(name)
    }

    /// The name of a thread in the second profile.
    pub fn thread(&self, name: &'a str) -> &'a str {
        self.thread.filter(|(before, _)| *before == name).map_or(name, |(_, after)| after)
    }
}

fn functions(named: Named<'_>) -> Functions<'_> {
    let mut all = Functions::new();
    for frame in 0..named.profile.frames.len() as u32 {
        for name in named.names.of(frame).iter().filter(|name| name.known) {
            all.entry(same_file(&name.file)).or_default().insert(&name.function);
        }
    }
    all
}

fn threads(named: Named<'_>) -> HashSet<&str> {
    named.profile.threads.iter().map(|thread| &*thread.name).collect()
}

/// Files with common functions, those with the most first. No file is in two pairs.
fn pairs<'a>(before: &Functions<'a>, after: &Functions<'a>) -> HashMap<&'a str, &'a str> {
    let mut having: HashMap<&str, Vec<&'a str>> = HashMap::new();
    for (&file, functions) in after {
        functions.iter().for_each(|function| having.entry(*function).or_default().push(file));
    }
    let mut common: BTreeMap<(&'a str, &'a str), usize> = BTreeMap::new();
    for (&file, functions) in before {
        let others = functions.iter().filter_map(|function| having.get(*function));
        for other in others.filter(|files| files.len() <= MOST_FILES).flatten() {
            *common.entry((file, *other)).or_default() += 1;
        }
    }
    let mut all: Vec<_> = common.into_iter().collect();
    all.sort_by_key(|(_, count)| Reverse(*count));
    let (mut pairs, mut taken) = (HashMap::new(), HashSet::new());
    for ((file, other), _) in all {
        if !pairs.contains_key(file) && taken.insert(other) {
            pairs.insert(file, other);
        }
    }
    pairs
}
