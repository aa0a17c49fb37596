//! What happens to each item of a chain.

/// The steps that an item takes, the last one outermost.
pub trait Steps<I>: Sync {
    /// What comes out.
    type Out;
    /// Whether exactly one item comes out for each that goes in.
    const ONE_FOR_ONE: bool;
    /// Takes an item through all steps, and calls `out` with each that comes out.
    fn feed(&self, item: I, out: &mut impl FnMut(Self::Out));
}

/// No step yet.
pub struct Same;

impl<I> Steps<I> for Same {
    type Out = I;
    const ONE_FOR_ONE: bool = true;

    #[inline]
    fn feed(&self, item: I, out: &mut impl FnMut(I)) {
        out(item);
    }
}

/// A function's result.
pub struct Map<T, F>(pub T, pub F);

impl<I, T: Steps<I>, R, F: Fn(T::Out) -> R + Sync> Steps<I> for Map<T, F> {
    type Out = R;
    const ONE_FOR_ONE: bool = T::ONE_FOR_ONE;

    #[inline]
    fn feed(&self, item: I, out: &mut impl FnMut(R)) {
        self.0.feed(item, &mut |item| out((self.1)(item)));
    }
}

/// The items of which a function says so.
pub struct Filter<T, F>(pub T, pub F);

impl<I, T: Steps<I>, F: Fn(&T::Out) -> bool + Sync> Steps<I> for Filter<T, F> {
    type Out = T::Out;
    const ONE_FOR_ONE: bool = false;

    #[inline]
    fn feed(&self, item: I, out: &mut impl FnMut(T::Out)) {
        self.0.feed(item, &mut |item| {
            if (self.1)(&item) {
                out(item);
            }
        });
    }
}

/// A function's result, if it has one.
pub struct FilterMap<T, F>(pub T, pub F);

impl<I, T: Steps<I>, R, F: Fn(T::Out) -> Option<R> + Sync> Steps<I> for FilterMap<T, F> {
    type Out = R;
    const ONE_FOR_ONE: bool = false;

    #[inline]
    fn feed(&self, item: I, out: &mut impl FnMut(R)) {
        self.0.feed(item, &mut |item| {
            if let Some(item) = (self.1)(item) {
                out(item);
            }
        });
    }
}

/// All that a function's result has.
pub struct FlatMap<T, F>(pub T, pub F);

impl<I, T: Steps<I>, R: IntoIterator, F: Fn(T::Out) -> R + Sync> Steps<I> for FlatMap<T, F> {
    type Out = R::Item;
    const ONE_FOR_ONE: bool = false;

    #[inline]
    fn feed(&self, item: I, out: &mut impl FnMut(R::Item)) {
        self.0.feed(item, &mut |item| (self.1)(item).into_iter().for_each(&mut *out));
    }
}
