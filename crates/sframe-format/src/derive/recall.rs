//! Finds FDEs again that were read before, and what became of them.

use super::head::CfiHead;
use super::known_fdes::{Key, UnknownFde};
use super::reason::CfiReason;
use super::states::CfiStates;
use crate::cfi::NumberedFunction;

impl<'data> CfiStates<'data> {
    /// Makes room for so many different FDEs, for [`CfiStates::remember`].
    pub fn reserve(&mut self, fdes: usize) {
        self.points.fdes.reserve(fdes);
    }

    /// The number that was remembered for an FDE of the same rows and size, or what
    /// [`CfiStates::remember`] asks for. `has_lsda` is as for [`CfiStates::read_runs`].
    ///
    /// # Errors
    /// A table cannot say what the FDE says.
    pub fn recall(
        &mut self,
        head: &CfiHead<'_, 'data>,
        has_lsda: bool,
    ) -> Result<Result<u32, UnknownFde<'data>>, CfiReason> {
        let point = self.begin(head)?;
        let CfiHead { cie, fde, .. } = head;
        let kind = NumberedFunction::kind_of(cie.signal, cie.key_b) << 1 | usize::from(has_lsda);
        // It is not more than an FDE may cover.
        let size = fde.size as u32;
        let key = Key { instructions: fde.instructions.slice(), point, size, kind: kind as u8 };
        Ok(self.points.fdes.find(key))
    }

    /// Remembers a number for an FDE, which was read since it was found to be unknown.
    pub fn remember(&mut self, fde: UnknownFde<'data>, number: u32) {
        self.points.fdes.add(fde, number);
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::Abi;
    use crate::derive::{CfiReader, CfiStates};
    use alloc::vec::Vec;

    /// A CIE with these letters, and an FDE of so many bytes with these instructions.
    fn section(letters: &[u8], initial: u8, size: u8, instructions: &[u8]) -> Vec<u8> {
        let mut data = Vec::from([28, 0, 0, 0, 0, 0, 0, 0, 1]);
        data.extend(letters);
        data.extend([0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, initial, 0x90, 1]);
        data.resize(32, 0);
        data.extend([0x28, 0, 0, 0, 0x24, 0, 0, 0, 0, 0, 0, 0, size, 0, 0, 0, 0]);
        data.extend(instructions);
        data.resize(32 + 44, 0);
        data
    }

    #[test]
    fn an_fde_is_known_by_all_that_its_rows_depend_on() {
        let usual = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 40, 0x0c, 7, 8];
        let other = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 41, 0x0c, 7, 8];
        let all = [
            (section(b"zR", 8, 64, &usual), false),
            (section(b"zR", 8, 64, &usual), true),
            (section(b"zR", 8, 65, &usual), false),
            (section(b"zR", 16, 64, &usual), false),
            (section(b"zRS", 8, 64, &usual), false),
            (section(b"zR", 8, 64, &other), false),
            (section(b"zR", 8, 64, &usual[..10]), false),
        ];
        let again = all.clone();
        let mut states = CfiStates::new(Abi::Amd64);
        for (number, (data, has_lsda)) in (0..).zip(&all) {
            let mut reader = CfiReader::new(Abi::Amd64, data, 0);
            let head = reader.head(32).unwrap().unwrap();
            let unknown = states.recall(&head, *has_lsda).unwrap();
            states.remember(unknown.expect_err("no other is equal"), number);
        }
        for (number, (data, has_lsda)) in (0..).zip(&again) {
            let mut reader = CfiReader::new(Abi::Amd64, data, 0);
            let head = reader.head(32).unwrap().unwrap();
            assert_eq!(states.recall(&head, *has_lsda).unwrap().ok(), Some(number));
        }
    }
}
