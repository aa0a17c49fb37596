//! Makes manual pages and completions from the `--help` of programs whose command lines no generator knows.

use super::completions;
use super::help::Help;
use anyhow::Result;
use std::path::Path;

/// The programs, with a line about each.
const PROGRAMS: [(&str, &str); 3] = [
    ("sframe-ld", "an ELF linker that keeps SFrame stack-trace sections right"),
    ("ld-compare", "runs the same link through several linkers and shows where they disagree"),
    ("sframe-as", "runs an assembler and gives each text section its own .sframe"),
];

/// Writes the pages and completions of programs below `share`.
pub fn write(linker: &Path, comparer: &Path, share: &Path) -> Result<()> {
    let folder = &share.join("man/man1");
    std::fs::create_dir_all(folder)?;
    let of = [(linker, &["sframe-ld", "ld.sframe"][..]), (comparer, &["ld-compare"])];
    for ((program, names), (name, about)) in of.into_iter().zip(PROGRAMS) {
        let help = Help::of(program)?;
        std::fs::write(folder.join(format!("{name}.1")), page(name, about, &help.whole()))?;
        completions::write(&help, names, share)?;
    }
    // Its options are those of the assembler.
    let (name, about) = PROGRAMS[2];
    let text = "Called in the place of as, by gcc -B/usr/libexec/sframe-as, it runs the assembler that SFRAME_REAL_AS names, else\n\
                the first as on PATH, with the same words, and splits what comes out. See sframe-split(1).\n";
    std::fs::write(folder.join(format!("{name}.1")), page(name, about, text))?;
    Ok(std::fs::write(folder.join("ld.sframe.1"), ".so man1/sframe-ld.1\n")?)
}

/// A manual page with this text, as it is, for its description.
fn page(name: &str, about: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escaped).collect();
    format!(
        ".TH {} 1 \"\" \"sframe-ld {}\"\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n.nf\n{}\n.fi\n",
        name.to_uppercase().replace('-', "\\-"),
        env!("CARGO_PKG_VERSION"),
        escaped(name),
        escaped(about),
        lines.join("\n")
    )
}

/// A line that contains no command for the formatter.
fn escaped(line: &str) -> String {
    let line = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::{escaped, page};

    #[test]
    fn text_means_nothing_to_the_formatter() {
        assert_eq!(escaped(".a 'b' \\c --d"), "\\&.a \\(aqb\\(aq \\ec \\-\\-d");
        assert!(page("x-y", "about", "one\ntwo").contains(".SH DESCRIPTION\n.nf\none\ntwo\n.fi\n"));
    }
}
