//! Different values, numbered in the order in which they are met.

use hashbrown::HashMap;
use std::hash::Hash;

/// Different values by number.
pub struct Numbers<T> {
    /// The values.
    pub all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    /// The number of a value.
    pub fn number(&mut self, value: T) -> u32 {
        if let Some(&number) = self.numbers.get(&value) {
            return number;
        }
        let number = self.all.len() as u32;
        self.all.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}
