//! How often an input may use its own bytes.
//!
//! Names may be ends of one another, many units may share one list of ranges, and headers may name the same
//! bytes again and again. So few bytes could stand for their square, which no compiler makes and no machine
//! has the memory for. Whoever follows such references takes from a measure, which bytes of the input fill,
//! and stops when it is empty.

/// So much each byte of an input may stand for.
const FACTOR: u64 = 64;

/// So much any input may stand for, however small.
const LEAST: u64 = 1 << 20;

/// What is left of the measure of an input.
#[derive(Debug)]
pub struct Measure {
    /// `None` once more was taken than there was.
    left: Option<u64>,
}

/// More was taken from a measure than there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond;

impl Default for Measure {
    fn default() -> Self {
        Measure::of(0)
    }
}

impl Measure {
    /// The measure of so many bytes.
    pub fn of(bytes: u64) -> Self {
        Measure { left: Some(bytes.saturating_mul(FACTOR).saturating_add(LEAST)) }
    }

    /// Adds to the measure for further bytes of the input, unless it was exceeded before.
    pub fn extend(&mut self, bytes: u64) {
        self.left = self.left.map(|left| left.saturating_add(bytes.saturating_mul(FACTOR)));
    }

    /// Takes so much.
    ///
    /// # Errors
    /// There is less left, now or at an earlier call.
    #[inline]
    pub fn take(&mut self, amount: u64) -> Result<(), Beyond> {
        self.left = self.left.and_then(|left| left.checked_sub(amount));
        self.left.map(|_| ()).ok_or(Beyond)
    }

    /// Whether more was taken than there was.
    pub fn is_exceeded(&self) -> bool {
        self.left.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_exceeded_stays_exceeded() {
        let mut measure = Measure::of(2);
        assert_eq!(measure.take(LEAST + 2 * FACTOR), Ok(()));
        measure.extend(1);
        assert_eq!(measure.take(FACTOR), Ok(()));
        assert_eq!(measure.take(1), Err(Beyond));
        measure.extend(1000);
        assert_eq!(measure.take(0), Err(Beyond));
        assert!(measure.is_exceeded());
    }
}
