//! The source of a frame.

/// How a frame was found: the source of the rules that led to it from the frame that it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// No rule led to it: it is the topmost frame.
    Topmost,
    /// Rows of the file's own SFrame section or compact table.
    Sframe,
    /// Rows that were derived from the file's `.eh_frame`.
    EhFrame,
    /// The registers that the kernel saved for a signal handler. No rows say where they are.
    SignalContext,
    /// The frame pointer. No rows cover the code
    /// ([`Unwinder::follow_frame_pointers`](crate::Unwinder::follow_frame_pointers)).
    FramePointer,
    /// Rows that were read from the file's instructions. Neither SFrame nor `.eh_frame` describes them
    /// ([`FileRows::with_instructions`](crate::FileRows::with_instructions)).
    Instructions,
}

impl Source {
    /// Its name in outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Topmost => "topmost",
            Self::Sframe => "sframe",
            Self::EhFrame => "eh-frame",
            Self::SignalContext => "signal-context",
            Self::FramePointer => "frame-pointer",
            Self::Instructions => "instructions",
        }
    }
}
