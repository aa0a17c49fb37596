//! The macro by which a phase gives access to the fields of all phases before it.

/// Makes a phase deref to the one that it owns.
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
