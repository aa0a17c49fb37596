//! The kinds of output that a program can be linked as.

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `-static`
    Static,
    /// `-static-pie`
    StaticPie,
    /// `-pie`
    Pie,
    /// `-no-pie`, with a dynamic linker
    NoPie,
}

impl Output {
    /// The runtime's file for this kind of output.
    pub fn runtime(self) -> &'static str {
        match self {
            Output::Static => "runtime-static.o",
            Output::StaticPie => "runtime-static-pie.o",
            Output::Pie | Output::NoPie => "runtime-dynamic.o",
        }
    }

    /// Whether a dynamic linker starts the program.
    pub fn is_dynamic(self) -> bool {
        matches!(self, Output::Pie | Output::NoPie)
    }
}
