//! Reads FDEs by stretches of instructions, most of which were met before.

use gimli::Reader;

use super::head::CfiHead;
use super::instructions::Instructions;
use super::reason::CfiReason;
use super::segments::{Segment, Stretch};
use super::states::{CfiStates, MOST_INSTRUCTIONS};
use crate::cfi::{RunFunction, most_within_run};

impl<'data> CfiStates<'data> {
    /// Reads the rows of an FDE as runs. `has_lsda` says whether it has language-specific data: if not,
    /// nobody asks for arguments on the stack, and rows are without them.
    ///
    /// # Errors
    /// A table cannot say the same. `function` is a part of it then.
    pub fn read_runs(
        &mut self,
        head: &CfiHead<'_, 'data>,
        has_lsda: bool,
        function: &mut RunFunction,
    ) -> Result<(), CfiReason> {
        if self.follow_stretches(head, function)? {
            return Ok(());
        }
        let mut numbered = core::mem::take(&mut self.numbered);
        let read = self.read(head, &mut numbered);
        if read.is_ok() {
            if !has_lsda {
                self.rows.drop_arguments(&mut numbered);
            }
            // An FDE without code has none.
            let _ = self.runs.read(self.abi, &numbered, function);
        }
        self.numbered = numbered;
        read
    }

    /// Reads the rows of an FDE stretch by stretch. Returns whether it has them: all its instructions are of
    /// the usual kinds, neighbouring rows differ, and all start before its end.
    fn follow_stretches(
        &mut self,
        head: &CfiHead<'_, 'data>,
        function: &mut RunFunction,
    ) -> Result<bool, CfiReason> {
        let mut point = self.begin(head)?;
        let CfiHead { cie, fde, .. } = head;
        let size = fde.size as u32;
        (function.size, function.signal, function.key_b) = (size, cie.signal, cie.key_b);
        function.runs.clear();
        let most = u64::from(most_within_run(self.abi)).checked_div(cie.code_alignment);
        let Some(most) = most else { return Ok(false) };
        let (all, endian) = (fde.instructions.slice(), self.abi.endian());
        let (mut rest, mut start, mut changes, mut before) = (all, 0u32, 0usize, None);
        while let Some(stretch) = Stretch::first_of(rest, most as u32, endian) {
            let bytes = &rest[..stretch.length];
            let segment = match self.points.segments.find(point, bytes) {
                Ok(segment) => segment,
                Err(hash) => {
                    let read = self.read_stretch(head, all.len() - rest.len(), (point, bytes), hash);
                    let Some(segment) = read else { return Ok(false) };
                    segment
                }
            };
            let last = start.saturating_add(segment.bytes);
            let end = match stretch.moves {
                Some((delta, _)) => {
                    u64::from(delta).saturating_mul(cie.code_alignment).saturating_add(last.into())
                }
                None => size.into(),
            };
            changes += segment.changes as usize;
            let is_within = last < size && (end < size.into() || stretch.moves.is_none());
            if !is_within || before == Some(segment.ends.0) || changes > MOST_INSTRUCTIONS {
                return Ok(false);
            }
            function.runs.push((segment.run, end as u32 - last));
            let Some((_, next)) = stretch.moves else { return Ok(true) };
            rest = &rest[next..];
            (start, point, before) = (end as u32, segment.point, Some(segment.ends.1));
        }
        Ok(false)
    }

    /// Reads a stretch of an FDE's instructions for the first time. They start behind so many bytes. `None`:
    /// they say what no table can say, or neighbouring rows are equal, or have arguments.
    #[cold]
    fn read_stretch(
        &mut self,
        head: &CfiHead<'_, 'data>,
        behind: usize,
        (from, bytes): (u32, &'data [u8]),
        hash: u32,
    ) -> Option<Segment> {
        let CfiHead { frames, cie, fde, .. } = head;
        let mut input = fde.instructions;
        input.skip(behind).ok()?;
        input.truncate(bytes.len()).ok()?;
        let mut instructions = Instructions::new(frames, cie, input);
        let (mut point, mut left, mut covered) = (from, MOST_INSTRUCTIONS, 0);
        self.words.clear();
        let (mut first, mut last) = (None, None);
        loop {
            let delta = self.points.follow(&mut point, &mut instructions, &mut left).ok()?;
            if delta == Some(0) {
                continue;
            }
            let row = self.row_of(point).ok()?;
            if last == Some(row) || self.rows.row(row).args_size != 0 {
                return None;
            }
            (first, last) = (first.or(Some(row)), Some(row));
            self.words.push(row);
            let Some(delta) = delta else { break };
            let delta = u64::from(delta).checked_mul(cie.code_alignment)? as u32;
            self.words.push(delta);
            covered += delta;
        }
        let run = self.runs.number(&self.words);
        let changes = (MOST_INSTRUCTIONS - left) as u32;
        let segment = Segment { run, ends: (first?, last?), bytes: covered, point, changes };
        self.points.segments.learn(hash, (from, bytes), segment);
        Some(segment)
    }
}
