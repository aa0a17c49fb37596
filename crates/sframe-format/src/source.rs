//! What a frame was found by.

/// What a frame was found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// By nothing: it is the topmost frame.
    Topmost,
    /// Rows of the file's own SFrame section or compact table.
    Sframe,
    /// Rows that were derived from the file's `.eh_frame`.
    EhFrame,
    /// The registers that the kernel saved for a signal handler, where no rows told how to find them.
    SignalContext,
    /// The frame pointer, where no rows cover the code ([`Unwinder::follow_frame_pointers`](crate::Unwinder::follow_frame_pointers)).
    FramePointer,
    /// Rows that were read off the file's instructions, where it describes them nowhere
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
