//! The macro by which a phase gives access to the fields of all phases before it.

/// Implements `Deref` for a phase, with the phase that it owns as the target.
macro_rules! builds_on {
    ([$($generics:tt)*] $phase:ty, $field:ident: $before:ty) => {
        impl<$($generics)*> std::ops::Deref for $phase {
            type Target = $before;

            #[inline]
            fn deref(&self) -> &$before {
                &self.$field
            }
        }
    };
}
pub(crate) use builds_on;
