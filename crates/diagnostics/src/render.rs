//! Diagnostics in the form that the command prints. The form is the one that users know from other linkers:
//!
//! ```text
//! sframe-ld: error: undefined symbol: area(shape const&)
//! >>> referenced by main.o:(.text.main+0x1c)
//! >>> help: add the library that defines it
//! ```

use super::visual_studio;
use super::words::{plain, shown};
use super::{Diagnostic, Location, Severity};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt::Write;

/// The program's name, and whether printed diagnostics are coloured.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    /// Name of the program; it comes first.
    pub program: String,
    /// Whether to use terminal colours.
    pub color: bool,
    /// `--vs-diagnostics`: whether a message begins with the source line that it points to.
    pub visual_studio: bool,
}

/// The text of a diagnostic, as one or more lines that end with a newline. Names in it come from input files.
/// They cannot begin a line of their own, and contain nothing that a terminal would obey.
pub fn render(diagnostic: &Diagnostic, options: &RenderOptions) -> String {
    if !options.visual_studio {
        return render_one(diagnostic, options, &options.program);
    }
    let parts = visual_studio::parts(diagnostic).into_iter();
    let shown = parts.map(|part| {
        let origin = visual_studio::origin(&part);
        render_one(&part, options, origin.as_ref().unwrap_or(&options.program))
    });
    shown.collect()
}

/// The same for one that begins with `origin`.
fn render_one(diagnostic: &Diagnostic, options: &RenderOptions, origin: &str) -> String {
    if let Location::Script { .. } = diagnostic.location {
        return render_script(diagnostic, options, origin);
    }
    let mut out = String::new();
    let (word, paint) = match diagnostic.severity {
        Severity::Error => ("error: ", "\x1b[1;31m"),
        Severity::Warning => ("warning: ", "\x1b[1;35m"),
        Severity::Note => ("", ""),
    };
    if diagnostic.severity == Severity::Note {
        out.push_str(&plain(&diagnostic.message));
    } else {
        let reset = if options.color { "\x1b[0m" } else { "" };
        let paint = if options.color { paint } else { "" };
        let place = place(&diagnostic.location);
        let said = format!("{place}{}", diagnostic.message);
        let _ = write!(out, "{}: {paint}{word}{reset}{}", shown(origin), plain(&said));
    }
    out.push('\n');
    append_details(&mut out, diagnostic);
    out
}

fn append_details(out: &mut String, diagnostic: &Diagnostic) {
    for note in &diagnostic.notes {
        let _ = writeln!(out, ">>> {}", plain(note));
    }
    for help in &diagnostic.help {
        let _ = writeln!(out, ">>> help: {}", plain(help));
    }
}

fn place(location: &Location) -> String {
    match location {
        Location::Link | Location::Script { .. } => String::new(),
        Location::Argument(text) | Location::File(text) => format!("{text}: "),
        Location::Section { file, section, offset } => format!("{file}:({section}+{offset:#x}): "),
    }
}

fn render_script(diagnostic: &Diagnostic, options: &RenderOptions, origin: &str) -> String {
    let Location::Script { file, line, column, length, text } = &diagnostic.location else {
        return String::new();
    };
    // The renderer panics if a place is inside a character.
    let start = text.floor_char_boundary((*column as usize).saturating_sub(1));
    let end = text.ceil_char_boundary(start + (*length).max(1) as usize);
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let snippet = Snippet::source(text.as_str())
        .line_start(*line as usize)
        .path(shown(file))
        .annotation(AnnotationKind::Primary.span(start..end));
    let group = level.primary_title(plain(&diagnostic.message)).element(snippet);
    let renderer = if options.color { Renderer::styled() } else { Renderer::plain() };
    let mut out = format!("{}: {}\n", shown(origin), renderer.render(&[group]));
    append_details(&mut out, diagnostic);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    fn plain() -> RenderOptions {
        RenderOptions { program: "sframe-ld".into(), color: false, visual_studio: false }
    }

    #[test]
    fn place_notes_and_help() {
        let diagnostic = Diagnostic::error(Code::RelocationOverflow, "value 7 does not fit")
            .at(Location::Section { file: "a.o".into(), section: ".text".into(), offset: 16 })
            .note("references foo")
            .help("move it nearer");
        assert_eq!(
            render(&diagnostic, &plain()),
            "sframe-ld: error: a.o:(.text+0x10): value 7 does not fit\n>>> references foo\n>>> help: move it nearer\n"
        );
    }

    /// A name from an input must not be able to look like a message of the linker.
    #[test]
    fn names_cannot_forge_messages() {
        let name = "a\n\x1b[2Ksframe-ld: all is well";
        let place =
            Location::Section { file: format!("{name}.o"), section: format!(".text{name}"), offset: 0 };
        let script = Location::Script {
            file: name.into(),
            line: 1,
            column: 1,
            length: 1,
            text: "x\x1b[2J = }".into(),
        };
        for location in [place, script, Location::File(name.into()), Location::Argument(name.into())] {
            let diagnostic = Diagnostic::error(Code::Internal, format!("symbol {name}"))
                .at(location)
                .note(name)
                .help(format!("rename {name}"));
            let text = render(&diagnostic, &plain());
            assert!(!text.contains('\x1b'), "{text:?}");
            assert_eq!(text.matches("\nsframe-ld:").count(), 0, "{text:?}");
        }
        let error = std::io::Error::from_raw_os_error(2);
        let diagnostic = Diagnostic::error(Code::CannotWrite, format!("cannot write out: {error}"));
        assert_eq!(
            render(&diagnostic, &plain()),
            "sframe-ld: error: cannot write out: No such file or directory\n"
        );
    }

    #[test]
    fn script_errors_show_the_line() {
        let diagnostic = Diagnostic::error(Code::ScriptSyntax, "expected `;`").at(Location::Script {
            file: "x.ld".into(),
            line: 3,
            column: 5,
            length: 1,
            text: "a = }".into(),
        });
        let text = render(&diagnostic, &plain());
        assert!(text.contains("x.ld:3:5") && text.contains("a = }") && text.contains('^'), "{text}");
    }
}
