//! Records that perf compressed (`perf record -z`): one Zstandard stream over all records of its kind.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Limit of the expanded size, as a multiple of the recording's. Stacks are compressed to about a fifth.
const MOST: usize = 200;
/// Bytes that are expanded at a time.
const STEP: usize = 1 << 20;

/// Expands records, up to a limit.
pub struct Expander {
    /// Made for the first record.
    decoder: Option<Decoder<'static>>,
    bytes: Vec<u8>,
    limit: usize,
}

impl Expander {
    /// An expander for a recording of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self { decoder: None, bytes: Vec::new(), limit: size.saturating_mul(MOST) }
    }

    /// Expands one record's bytes.
    pub fn add(&mut self, data: &[u8]) -> Result<(), String> {
        let broken = |error: std::io::Error| format!("a compressed record cannot be expanded: {error}");
        if self.decoder.is_none() {
            self.decoder = Some(Decoder::new().map_err(broken)?);
        }
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let mut input = InBuffer::around(data);
        let mut step = vec![0; STEP.min(self.limit.max(1))];
        loop {
            let mut output = OutBuffer::around(&mut *step);
            decoder.run(&mut input, &mut output).map_err(broken)?;
            let made = output.pos();
            let filled = made == step.len();
            self.bytes.extend_from_slice(&step[..made]);
            if self.bytes.len() > self.limit {
                return Err(format!("compressed records expand to more than {MOST} times the recording"));
            }
            if input.pos() == data.len() && !filled {
                return Ok(());
            }
            if made == 0 && input.pos() < data.len() && step.is_empty() {
                return Err("a compressed record makes no progress".into());
            }
        }
    }

    /// All that was expanded.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
