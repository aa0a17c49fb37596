//! Expands records that perf compressed (`perf record -z`). All of them form one Zstandard stream.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// The largest expanded size, as a multiple of the recording's size. Stacks shrink to about a fifth.
const MAX_EXPANSION: usize = 200;
/// Number of bytes to expand at a time.
const STEP: usize = 1 << 20;

/// Expands records, up to a limit.
pub struct Expander {
    /// The decoder, made for the first record.
    decoder: Option<Decoder<'static>>,
    bytes: Vec<u8>,
    limit: usize,
}

impl Expander {
    /// An expander for a recording of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self { decoder: None, bytes: Vec::new(), limit: size.saturating_mul(MAX_EXPANSION) }
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
                return Err(format!(
                    "compressed records expand to more than {MAX_EXPANSION} times the recording"
                ));
            }
            if input.pos() == data.len() && !filled {
                return Ok(());
            }
            if made == 0 && input.pos() < data.len() && step.is_empty() {
                return Err("a compressed record makes no progress".into());
            }
        }
    }

    /// Everything that was expanded.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
