//! Numbers functions by their shapes. Equal functions have the same number.
//!
//! Nearly all functions are one piece. The number of such a function is found by the number of its shape, and
//! nothing else is stored.

use alloc::vec::Vec;

use super::intern::Lists;

/// The number of a function in a [`Builder`](super::Builder). Equal functions have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

/// Equal pieces of a function, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Bytes from the start of the function to the first piece.
    pub offset: u32,
    /// The number of their shape.
    pub shape: u32,
    /// How many there are.
    pub count: u32,
    /// Bytes from one to the next.
    pub stride: u32,
}

impl Stretch {
    /// A function of one piece.
    pub const fn whole(shape: u32) -> Self {
        Self { offset: 0, shape, count: 1, stride: 0 }
    }

    fn words(self) -> [u32; 4] {
        [self.offset, self.shape, self.count, self.stride]
    }
}

/// What a function consists of.
#[derive(Clone, Copy, Debug)]
enum Function {
    /// One piece, of this shape.
    Piece(u32),
    /// The stretches of a list in [`Functions::long`].
    Long(u32),
}

/// Functions, each different one once.
#[derive(Clone, Debug, Default)]
pub(super) struct Functions {
    /// By [`ShapeId`].
    list: Vec<Function>,
    /// The number of the function that is one piece, plus 1, by the number of its shape; 0: there is none.
    of_shape: Vec<u32>,
    /// The others, four words for each stretch, and their numbers by those of the lists.
    long: Lists,
    of_long: Vec<u32>,
    /// Memory for a list.
    words: Vec<u32>,
}

impl Functions {
    /// Makes room for so many more.
    pub fn reserve(&mut self, count: usize) {
        self.list.reserve(count);
        self.of_shape.reserve(count);
    }

    /// The number of a function.
    pub fn number(&mut self, stretches: &[Stretch]) -> ShapeId {
        if let &[only] = stretches
            && only == Stretch::whole(only.shape)
        {
            return self.number_of_piece(only.shape);
        }
        self.words.clear();
        self.words.extend(stretches.iter().flat_map(|stretch| stretch.words()));
        let (place, is_new) = self.long.intern(&self.words);
        if is_new {
            self.of_long.push(self.list.len() as u32);
            self.list.push(Function::Long(place));
        }
        ShapeId(self.of_long[place as usize])
    }

    fn number_of_piece(&mut self, shape: u32) -> ShapeId {
        if self.of_shape.len() <= shape as usize {
            self.of_shape.resize(shape as usize + 1, 0);
        }
        let number = &mut self.of_shape[shape as usize];
        if *number == 0 {
            self.list.push(Function::Piece(shape));
            *number = self.list.len() as u32;
        }
        ShapeId(*number - 1)
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The shape of a function that is one piece.
    #[inline]
    pub fn piece(&self, number: u32) -> Option<u32> {
        match self.list[number as usize] {
            Function::Piece(shape) => Some(shape),
            Function::Long(_) => None,
        }
    }

    /// The stretches of a function.
    pub fn get(&self, number: u32) -> impl Iterator<Item = Stretch> {
        let (piece, words) = match self.list[number as usize] {
            Function::Piece(shape) => (Some(Stretch::whole(shape)), &[][..]),
            Function::Long(list) => (None, self.long.words().get(list)),
        };
        let (words, _) = words.as_chunks();
        let stretch = |&[offset, shape, count, stride]: &[u32; 4]| Stretch { offset, shape, count, stride };
        piece.into_iter().chain(words.iter().map(stretch))
    }
}

#[cfg(test)]
mod tests {
    use super::{Functions, Stretch};
    use alloc::vec::Vec;

    /// A function of 10 equal pieces, and another piece behind them.
    fn long(shape: u32) -> [Stretch; 2] {
        let first = Stretch { offset: 0, shape, count: 10, stride: 64 };
        [first, Stretch { offset: 640, shape: shape + 1, count: 1, stride: 0 }]
    }

    #[test]
    fn equal_functions_have_one_number() {
        let mut functions = Functions::default();
        let lists: [&[Stretch]; 6] =
            [&[Stretch::whole(7)], &long(2), &[Stretch::whole(1)], &long(7), &[Stretch::whole(7)], &long(2)];
        let numbers = lists.map(|list| functions.number(list).0);
        assert_eq!(numbers, [0, 1, 2, 3, 0, 1]);
        for (list, number) in lists.into_iter().zip(numbers) {
            assert_eq!(functions.get(number).collect::<Vec<_>>(), list);
        }
        assert_eq!(functions.len(), 4);
        // One piece that does not start where the function does, or two equal ones, are something else.
        for other in [Stretch { offset: 8, ..Stretch::whole(7) }, Stretch { count: 2, ..Stretch::whole(7) }] {
            let number = functions.number(&[other]);
            assert!(number.0 >= 4);
            assert_eq!(functions.get(number.0).collect::<Vec<_>>(), [other]);
        }
    }
}
