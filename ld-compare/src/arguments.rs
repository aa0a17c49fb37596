//! The command line of a case: replaces response files by their words, and leaves some options out.
//!
//! The linker's own table of options says which of them write files, run programs or read files. Every case
//! leaves out those that write or run. A command line may also come from a stranger, with a bug report. Such
//! a command line may name no file outside its folder, and no option that the table does not know: another
//! linker might take that option for anything. folder either, and no option that the table does not know: it
//! may mean anything to another linker.

use anyhow::{Context, Result, bail, ensure};
use linker_options::{Reach, WrittenOption, written_option};
use std::path::{Component, Path};

/// Who wrote a command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Author {
    /// The user of the command, who may name anything.
    User,
    /// A stranger.
    Stranger,
}

/// The arguments of a case and the name of its output. `arguments` is what a linker got when it ran in
/// `folder`.
///
/// # Errors
/// A response file cannot be read, or a stranger's arguments name something outside.
pub fn of_case(author: Author, folder: &Path, arguments: Vec<String>) -> Result<(Vec<String>, String)> {
    let (arguments, output) = left_over(expand(author, folder, arguments, 0)?);
    if author == Author::Stranger {
        check(&arguments)?;
    }
    Ok((arguments, output))
}

/// Replaces `@FILE` by the words in it, as linkers do.
fn expand(author: Author, folder: &Path, arguments: Vec<String>, depth: usize) -> Result<Vec<String>> {
    ensure!(depth < 16, "response files name each other");
    let mut expanded = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let named = argument.strip_prefix('@').map(Path::new);
        if author == Author::Stranger && named.is_some_and(|file| !stays_inside(file)) {
            bail!("{argument} leads out of the case's folder");
        }
        match named.map(|file| folder.join(file)).filter(|file| file.is_file()) {
            Some(file) => {
                let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
                expanded.extend(expand(author, folder, words_of(&text), depth + 1)?);
            }
            None => expanded.push(argument),
        }
    }
    Ok(expanded)
}

/// The words of a response file.
pub fn words_of(text: &str) -> Vec<String> {
    let words = linker_options::response::split(text.as_bytes()).into_iter();
    words.map(|word| String::from_utf8_lossy(&word).into_owned()).collect()
}

/// The option that a word is.
fn option_of(word: &str) -> Option<WrittenOption<'_>> {
    word.starts_with('-').then(|| written_option(word.as_bytes())).flatten()
}

/// The words without the options that write or run; also returns the name of the output.
fn left_over(arguments: Vec<String>) -> (Vec<String>, String) {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut output = String::from("a.out");
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(option) = option_of(word) else {
            kept.push(word.clone());
            continue;
        };
        let next = option.takes_next.then(|| words.next()).flatten();
        if !matches!(option.reach, Reach::Writes | Reach::Runs) {
            kept.extend([word].into_iter().chain(next).cloned());
        } else if option.name == "o" {
            let joined = || option.value.map(|value| String::from_utf8_lossy(value).into_owned());
            output = next.cloned().or_else(joined).unwrap_or_default();
        }
    }
    (kept, output)
}

/// Checks that a stranger's words are known options and lead to files inside the case's folder.
fn check(arguments: &[String]) -> Result<()> {
    let is_sysroot = |word: &String| option_of(word).is_some_and(|option| option.name == "sysroot");
    let has_sysroot = arguments.iter().any(is_sysroot);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            ensure!(!word.starts_with('@'), "{word}: there is no such response file");
            check_path(word)?;
            continue;
        }
        let option = option_of(word).with_context(|| format!("{word}: sframe-ld knows no such option"))?;
        let next = option.takes_next.then(|| words.next()).flatten();
        // Another linker may know this option as one without a value.
        ensure!(
            next.is_none_or(|next| !next.starts_with(['-', '@'])),
            "the value of {word} starts like an option"
        );
        if option.reach != Reach::Reads {
            continue;
        }
        let joined = String::from_utf8_lossy(option.value.unwrap_or_default());
        let value = next.map_or(&*joined, String::as_str);
        match value.strip_prefix('=').or_else(|| value.strip_prefix("$SYSROOT")) {
            Some(below) if has_sysroot => check_path(below.trim_start_matches('/'))?,
            // The value may be a list of folders, `PATTERN=FILE` or `:NAME`.
            _ => value.split([':', '=']).try_for_each(check_path)?,
        }
    }
    Ok(())
}

fn check_path(path: &str) -> Result<()> {
    ensure!(stays_inside(Path::new(path)), "{path} leads out of the case's folder");
    Ok(())
}

/// Whether a relative path leads to the inside of its folder. The folder must not contain links.
pub fn stays_inside(path: &Path) -> bool {
    let mut depth = 0_i64;
    path.components().all(|component| {
        depth += match component {
            Component::Normal(_) => 1,
            Component::CurDir => 0,
            Component::ParentDir => -1,
            Component::RootDir | Component::Prefix(_) => i64::MIN / 2,
        };
        depth >= 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn options_that_write_or_run_are_left_out_in_every_spelling() {
        let text = "-plugin p.so -plugin-opt=x --plugin-o=x -o out/prog a.o -Map=m --Map n --dependency-file d -lc \
                    --error-handling-script=./e --time-trace --why-extract=w --explain-disc=x -z now --reproduce r \
                    --print-symbol-order=s --print-archive-stats=a --thinlto-cache-dir=o --mllvm -x -soname -Map";
        let (kept, output) = left_over(words(text));
        assert_eq!(kept, ["a.o", "-lc", "-z", "now", "-soname", "-Map"]);
        assert_eq!(output, "out/prog");
        assert_eq!(left_over(words("a.o -oprog")).1, "prog");
        assert_eq!(left_over(words("a.o --output=x/prog")).1, "x/prog");
    }

    #[test]
    fn words_of_strangers_stay_inside() {
        for text in [
            "a.o ./usr/lib/x.o x/../y.o -L./lib -L lib --sysroot=. -L=/lib -rpath /opt/x -lc -l:libx.a -T s.ld -( a.o -)",
            "-dynamic-linker /lib64/ld.so -z relro --version-script=v -m elf_x86_64 --build-id --rpath-link=a:b",
        ] {
            check(&words(text)).unwrap();
        }
        for text in [
            "/etc/passwd",
            "../a.o",
            "x/../../a.o",
            "-L/home",
            "-L .. a.o",
            "-T/x.ld",
            "--scrip=/x",
            "-L=/lib",
            "-l:../../../etc/x",
            "--version-script /v",
            "--sysroot=/",
            "--rpath-link=a:/b",
            "--remap-inputs=a=/b",
            "--no-such-option",
            "--plugi=p.so",
            "--lto-obj-path=o",
            "--load-pass-plugin=p",
            "-- a.o",
            "-",
            "-soname -x",
            "-soname @x",
            "@gone",
            "-R /x",
            "--just-symbols=/x",
            "-Y /x",
            "--symbol-ordering-file=/x",
            "-c /x",
            "-dT /x",
        ] {
            assert!(check(&words(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn response_files_are_divided_as_linkers_do() {
        assert_eq!(words_of("a.o \"b c.o\"\n 'd'\\ e ''"), ["a.o", "b c.o", "d e", ""]);
    }

    #[test]
    fn response_files_of_strangers_lie_inside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("more"), "b.o @/etc/hostname").unwrap();
        let of = |author| of_case(author, folder.path(), words("a.o @more"));
        assert_eq!(of(Author::User).unwrap().0[..2], ["a.o", "b.o"]);
        let found = of(Author::Stranger).unwrap_err().to_string();
        assert_eq!(found, "@/etc/hostname leads out of the case's folder");
    }
}
