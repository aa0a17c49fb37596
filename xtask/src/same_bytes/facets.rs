//! What is compared of a link: a hash for each property that a user can see, by number of threads.

use std::collections::BTreeMap;

/// The results of one link: a hash for each visible property.
pub type Facets = BTreeMap<String, String>;

/// The results of a link, by number of threads.
pub type Runs = Vec<(usize, Facets)>;

/// Stands in a record for a property in which all runs of the recorded linker differ, such as a time.
const VARIES: &str = "varies";

/// The properties in which all runs agree.
pub fn agreed(runs: &[(usize, Facets)]) -> Facets {
    let mut names: Vec<&String> = runs.iter().flat_map(|(_, facets)| facets.keys()).collect();
    names.sort();
    names.dedup();
    let first = |name: &String| runs.first().and_then(|(_, facets)| facets.get(name));
    let one = |name: &String| match first(name) {
        Some(hash) if runs.iter().all(|(_, facets)| facets.get(name) == Some(hash)) => hash.clone(),
        _ => VARIES.to_owned(),
    };
    names.into_iter().map(|name| (name.clone(), one(name))).collect()
}

/// The names of properties in which runs disagree.
pub fn unlike(agreed: &Facets) -> Vec<&String> {
    agreed.iter().filter(|(_, hash)| *hash == VARIES).map(|(name, _)| name).collect()
}

/// The differences between the runs and the record, one line for each facet.
pub fn differences(expected: &Facets, runs: &[(usize, Facets)]) -> Vec<String> {
    let mut at: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (threads, facets) in runs {
        for name in expected.keys().chain(facets.keys()) {
            let (before, now) = (expected.get(name), facets.get(name));
            let varies = before.is_some_and(|hash| hash == VARIES);
            let places = at.entry(name).or_default();
            if before != now && !varies && places.last() != Some(threads) {
                places.push(*threads);
            }
        }
    }
    at.retain(|_, threads| !threads.is_empty());
    at.iter().map(|(name, threads)| format!("{name} (threads: {threads:?})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facets(list: &[(&str, &str)]) -> Facets {
        list.iter().map(|(name, hash)| (name.to_string(), hash.to_string())).collect()
    }

    #[test]
    fn only_agreed_facets_are_held() {
        let runs = [
            (1, facets(&[("status", "0"), ("stdout", "a")])),
            (2, facets(&[("status", "0"), ("stdout", "b")])),
        ];
        let expected = agreed(&runs);
        assert_eq!(expected, facets(&[("status", "0"), ("stdout", VARIES)]));
        assert!(differences(&expected, &runs).is_empty());
    }

    #[test]
    fn another_file_and_a_missing_one_are_differences() {
        let expected = facets(&[("file a", "1"), ("file b", "2")]);
        let runs = [(1, facets(&[("file a", "1"), ("file b", "2")])), (8, facets(&[("file a", "3")]))];
        assert_eq!(differences(&expected, &runs), ["file a (threads: [8])", "file b (threads: [8])"]);
    }
}
