//! The source of a frame.

/// How a frame was found: the source of the rules that led to it from the frame it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// By no rule: it is the topmost frame.
    Topmost,
    /// Rows of the file's own SFrame section or compact table.
    Sframe,
    /// Rows that were derived from the file's `.eh_frame`.
    EhFrame,
    /// The registers that the kernel saved for a signal handler, where rows do not say how to find them.
    SignalContext,
    /// The frame pointer, where no rows cover the code
    /// ([`Unwinder::follow_frame_pointers`](crate::Unwinder::follow_frame_pointers)).
    FramePointer,
    /// Rows that were read off the file's instructions, where neither SFrame nor `.eh_frame` describes them
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
