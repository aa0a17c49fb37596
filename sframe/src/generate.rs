//! Writes the `share` of an installation: man pages and shell completions, from the description of the
//! command line, and the script by which gdb unwinds.

use super::args::{Arguments, Generate};
use super::open::Problem;
use super::report::{Outcome, complain};
use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use std::io;
use std::path::Path;

/// The folder of the man pages, below `share`.
const MAN_PAGES: &str = "man/man1";
/// The files where shells look for completions, below `share`.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "sframe"),
    (Shell::Zsh, "zsh/site-functions", "_sframe"),
    (Shell::Fish, "fish/vendor_completions.d", "sframe.fish"),
];

/// The script for gdb, and where it lies below `share`. It looks for the command in `../../bin` from there.
const FOR_GDB: (&str, &str) = ("sframe/gdb-unwind.py", include_str!("../share/gdb-unwind.py"));

/// Writes everything below a folder: the `share` of an installation.
pub fn run(arguments: &Generate) -> Outcome {
    match generate(&arguments.folder) {
        Ok(()) => Outcome::Fine,
        Err(error) => {
            complain(&Problem::new(arguments.folder.display().to_string(), error.to_string()));
            Outcome::Unusable
        }
    }
}

fn generate(share: &Path) -> io::Result<()> {
    let pages = share.join(MAN_PAGES);
    std::fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(Arguments::command(), pages)?;
    for (shell, folder, name) in COMPLETIONS {
        let folder = share.join(folder);
        std::fs::create_dir_all(&folder)?;
        let made = generate_to(shell, &mut Arguments::command(), "sframe", &folder)?;
        std::fs::rename(made, folder.join(name))?;
    }
    let (place, script) = FOR_GDB;
    let place = share.join(place);
    std::fs::create_dir_all(place.parent().unwrap_or(share))?;
    std::fs::write(place, script)
}

#[cfg(test)]
mod tests {
    use super::super::args::Arguments;
    use super::generate;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_a_page_and_every_shell_a_file() {
        let folder = tempfile::tempdir().unwrap();
        generate(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("man/man1/sframe.1").contains("SFrame"));
        for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = read(&format!("man/man1/sframe-{}.1", command.get_name()));
            assert!(page.contains(".SH OPTIONS") || page.contains(".SH SYNOPSIS"));
        }
        for name in [
            "bash-completion/completions/sframe",
            "zsh/site-functions/_sframe",
            "fish/vendor_completions.d/sframe.fish",
        ] {
            assert!(read(name).contains("verify"), "{name}");
        }
        assert!(read("sframe/gdb-unwind.py").contains("register_unwinder"));
    }
}
