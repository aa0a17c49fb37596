//! How often an input may use its own bytes.
//!
//! A damaged file can be small and yet ask for a huge amount of work. Its names may be ends of one another,
//! many of its units may share one list of ranges, and many headers may name the same bytes. A file of `n`
//! bytes could then stand for `n * n`, which no compiler makes and no machine has the memory for.
//!
//! So code that follows such references takes what it uses from a [`Budget`]. The bytes of the input fill
//! the measure, and the code stops when it is empty.

/// What each byte of an input adds to the measure.
const FACTOR: u64 = 64;

/// What any input may use, however small it is.
const LEAST: u64 = 1 << 20;

/// What an input may still use.
#[derive(Debug)]
pub struct Budget {
    /// `None` as soon as more was taken than there was.
    left: Option<u64>,
}

/// More was taken from a measure than there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceeded;

impl Default for Budget {
    fn default() -> Self {
        Budget::of(0)
    }
}

impl Budget {
    /// The measure of an input of this many bytes.
    pub fn of(bytes: u64) -> Self {
        Budget { left: Some(bytes.saturating_mul(FACTOR).saturating_add(LEAST)) }
    }

    /// Adds the measure of further bytes of the input. If the measure was exceeded, it stays so.
    pub fn extend(&mut self, bytes: u64) {
        self.left = self.left.map(|left| left.saturating_add(bytes.saturating_mul(FACTOR)));
    }

    /// Takes this amount from the measure.
    ///
    /// # Errors
    /// Less than that is left, now or in an earlier call.
    #[inline]
    pub fn take(&mut self, amount: u64) -> Result<(), Exceeded> {
        self.left = self.left.and_then(|left| left.checked_sub(amount));
        self.left.map(|_| ()).ok_or(Exceeded)
    }

    /// Whether more was taken than there was.
    pub fn is_spent(&self) -> bool {
        self.left.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_exceeded_stays_exceeded() {
        let mut measure = Budget::of(2);
        assert_eq!(measure.take(LEAST + 2 * FACTOR), Ok(()));
        measure.extend(1);
        assert_eq!(measure.take(FACTOR), Ok(()));
        assert_eq!(measure.take(1), Err(Exceeded));
        measure.extend(1000);
        assert_eq!(measure.take(0), Err(Exceeded));
        assert!(measure.is_spent());
    }
}
