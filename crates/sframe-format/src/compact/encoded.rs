//! Adds functions of a blob to a [`Builder`].

use super::build::Builder;
use super::functions::ShapeId;
use super::row_rules::{NO_ROW, RowRules};
use crate::blob::Blob;
use crate::error::Error;
use crate::fde::Fde;
use crate::fre::PcType;
use crate::rules::UnwindRules;
use crate::write::Inexpressible;

impl Builder {
    /// Adds a function of a blob, as [`Function::read`](crate::write::Function::read) and [`Builder::add`]
    /// do, but without decoding rows that were decoded before.
    ///
    /// # Errors
    /// Outer error: the function is malformed. Inner error: those of [`Builder::add`]. Nothing is added then.
    pub fn add_encoded(
        &mut self,
        blob: &Blob<'_>,
        fde: &Fde,
    ) -> Result<Result<ShapeId, Inexpressible>, Error> {
        if self.read_encoded(blob, fde).is_some() {
            self.stretches.clear();
            self.add_pieces(fde.size);
            return Ok(Ok(self.take()));
        }
        let mut function = core::mem::take(&mut self.function);
        let read = function.read_from(blob, fde);
        let added = read.map(|()| self.add(&function));
        self.function = function;
        added
    }

    /// Numbers the rules of an ordinary function's rows. `None`: the function repeats its rows, has none, or
    /// is malformed.
    fn read_encoded(&mut self, blob: &Blob<'_>, fde: &Fde) -> Option<()> {
        let attributes = blob.attributes(fde).ok()?;
        if attributes.pc_type == PcType::Mask || attributes.fre_count == 0 || fde.size == 0 {
            return None;
        }
        let Self { decoded, rows, rules, numbers, .. } = self;
        decoded.enter(blob);
        rows.clear();
        let mut least = 0;
        for fre in blob.fres(&attributes) {
            let fre = fre.ok()?;
            if fre.start < least || fre.start >= fde.size {
                return None;
            }
            if least == 0 && fre.start > 0 {
                rows.push((0, NO_ROW));
            }
            least = fre.start + 1;
            let number =
                |found: UnwindRules| Some(super::row_rules::number(rules, numbers, RowRules::plain(found)));
            let number = decoded.number(blob, &attributes, &fre, number)?;
            if rows.last().is_none_or(|&(_, last)| last != number) {
                rows.push((fre.start, number));
            }
        }
        Some(())
    }
}
