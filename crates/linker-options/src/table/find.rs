//! Looks options up in the table, by exact name or by abbreviation.

use super::GROUPS;
use super::refused::REFUSED;
use crate::spec::{Effect, OptionSpec, Refused};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::OnceLock;

/// Every option of the table.
pub fn all() -> impl Iterator<Item = &'static OptionSpec> {
    GROUPS.iter().flat_map(|group| group.options)
}

/// Options by each of their names.
type ByName = HashMap<&'static [u8], &'static OptionSpec, FixedState>;

/// The option of exactly this name. Ignored families of options do not count.
pub fn find(name: &[u8]) -> Option<&'static OptionSpec> {
    static BY_NAME: OnceLock<ByName> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let exact = || all().filter(|option| !matches!(option.effect, Effect::IgnoredPrefix));
        let count = exact().map(|option| option.names.len()).sum();
        let mut by_name = ByName::with_capacity_and_hasher(count, FixedState::default());
        for option in exact() {
            by_name.extend(option.names.iter().map(|name| (name.as_bytes(), option)));
        }
        by_name
    });
    by_name.get(name).copied()
}

/// The ignored family that `text`, an argument without its two dashes, belongs to.
pub fn find_prefix(text: &[u8]) -> Option<&'static OptionSpec> {
    all().find(|option| {
        matches!(option.effect, Effect::IgnoredPrefix)
            && option.names.iter().any(|name| text.starts_with(name.as_bytes()))
    })
}

/// The refused option of exactly this name.
pub fn find_refused(name: &[u8]) -> Option<&'static Refused> {
    REFUSED.iter().find(|refused| refused.names.iter().any(|known| known.as_bytes() == name))
}

/// The long names that start with `text`: for each option, the first that does. Refused options count too.
/// Otherwise an abbreviation could mean one option here and another one in a peer.
pub fn completions(text: &[u8]) -> Vec<&'static str> {
    let starts = |name: &&&'static str| name.len() > 1 && name.as_bytes().starts_with(text);
    let exact = all().filter(|option| !matches!(option.effect, Effect::IgnoredPrefix));
    let known = exact.filter_map(|option| option.names.iter().find(starts));
    let refused = REFUSED.iter().flat_map(|refused| refused.names.iter().filter(starts));
    known.chain(refused).copied().collect()
}
