//! `write-link DESCRIPTION FOLDER`: writes the files of the link that a fuzzer's input describes, and prints
//! its command line. So a finding can be examined, and other linkers can be tried.

use link_fuzz::{Link, library};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(description), Some(folder), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: write-link DESCRIPTION FOLDER");
        return ExitCode::FAILURE;
    };
    let result = std::fs::read(&description).and_then(|bytes| {
        let link = Link::described(&bytes).map_err(std::io::Error::other)?;
        std::fs::create_dir_all(&folder)?;
        link.files.iter().try_for_each(|file| std::fs::write(folder.join(&file.name), &file.bytes))?;
        // No command can damage a library.
        let damaged =
            library(&link, 1).filter(|_| !link.library_damage.is_empty()).and_then(|made| made.output);
        damaged.map_or(Ok(()), |bytes| std::fs::write(folder.join("library.so"), bytes))?;
        Ok(link.command_lines())
    });
    match result {
        Ok(lines) => {
            println!("{}", lines.join("\n"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("write-link: {}: {error}", description.display());
            ExitCode::FAILURE
        }
    }
}
