//! Makes completions for shells from the `--help` of programs whose command lines no generator knows.

use super::help::Help;
use anyhow::Result;
use std::fmt::Write;
use std::path::Path;

/// Writes the completions of a program below `share`. The program may have several names.
pub fn write(help: &Help, names: &[&str], share: &Path) -> Result<()> {
    let name = names[0];
    let files = [
        ("bash-completion/completions", name.to_owned(), bash(help, names)),
        ("zsh/site-functions", format!("_{name}"), zsh(help, names)),
        ("fish/vendor_completions.d", format!("{name}.fish"), fish(help, names)),
    ];
    for (folder, file, text) in files {
        let folder = share.join(folder);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(file), text)?;
    }
    Ok(())
}

/// The spellings of options in a help text: ` -o, --output FILE words`.
fn options(help: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in help.lines().filter(|line| line.trim_start().starts_with('-')) {
        let spellings = line.trim_start().split("  ").next().unwrap_or_default();
        for spelling in spellings.split(", ") {
            let end = spelling.find([' ', '=', '[']).unwrap_or(spelling.len());
            let option = &spelling[..end];
            if option.len() > 1 && option.starts_with('-') && !found.contains(&option) {
                found.push(option);
            }
        }
    }
    found
}

/// A word that every shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', ""))
}

/// The lines of a `case`: one for each command of the program, then one for no command.
fn cases(help: &Help, line: &dyn Fn(&[&str]) -> String) -> String {
    let mut text = String::new();
    for (command, of_command) in &help.commands {
        let _ = writeln!(text, "    {command}) {} ;;", line(&options(of_command)));
    }
    let commands = help.commands.iter().map(|(command, _)| command.as_str());
    let words: Vec<&str> = commands.chain(options(&help.text)).collect();
    let _ = writeln!(text, "    *) {} ;;", line(&words));
    text
}

fn bash(help: &Help, names: &[&str]) -> String {
    let function = format!("_{}", names[0].replace('-', "_"));
    let line = |words: &[&str]| format!("words=\"{}\"", words.join(" "));
    format!(
        "{function}() {{\n    local word=${{COMP_WORDS[COMP_CWORD]}} words\n    case ${{COMP_WORDS[1]}} in\n{}    esac\n    \
         [[ $word == -* || $COMP_CWORD == 1 ]] && mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}}\n\
         complete -o default -F {function} {}\n",
        cases(help, &line),
        names.join(" ")
    )
}

fn zsh(help: &Help, names: &[&str]) -> String {
    let line = |words: &[&str]| {
        let words: Vec<String> = words.iter().copied().map(quoted).collect();
        format!("options=({})", words.join(" "))
    };
    format!(
        "#compdef {}\nlocal -a options\ncase $words[2] in\n{}esac\n\
         [[ $PREFIX == -* || $CURRENT == 2 ]] && compadd -- $options\n_files\n",
        names.join(" "),
        cases(help, &line)
    )
}

fn fish(help: &Help, names: &[&str]) -> String {
    let mut text = String::new();
    let mut add = |condition: &str, option: &str| {
        let kind = match option.strip_prefix("--") {
            Some(long) => format!("-l {}", quoted(long)),
            None if option.len() == 2 => format!("-s {}", quoted(&option[1..])),
            None => format!("-o {}", quoted(&option[1..])),
        };
        for name in names {
            let _ = writeln!(text, "complete -c {name} {condition}{kind}");
        }
    };
    options(&help.text).into_iter().for_each(|option| add("", option));
    for (command, of_command) in &help.commands {
        let condition = format!("-n '__fish_seen_subcommand_from {command}' ");
        options(of_command).into_iter().for_each(|option| add(&condition, option));
    }
    for (command, _) in &help.commands {
        for name in names {
            let _ = writeln!(text, "complete -c {name} -n __fish_use_subcommand -a {command}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{bash, fish, options, zsh};
    use crate::package::help::Help;

    #[test]
    fn every_spelling_of_help_is_completed() {
        let text = "Usage: x [options]\n\n  -o, --output FILE   Write - there\n  -(, --start-group   Group\n      --all[=HOW]  All\n";
        assert_eq!(options(text), ["-o", "--output", "-(", "--start-group", "--all"]);
        let commands = vec![("run".to_owned(), "  -k, --keep  Keep\n".to_owned())];
        let help = Help { text: text.to_owned(), commands };
        let bash = bash(&help, &["x-y", "z"]);
        assert!(bash.contains("run) words=\"-k --keep\" ;;") && bash.ends_with("-F _x_y x-y z\n"), "{bash}");
        assert!(bash.contains("*) words=\"run -o --output"), "{bash}");
        assert!(
            zsh(&help, &["x-y"]).contains("options=('run' '-o' '--output' '-(' '--start-group' '--all')")
        );
        let fish = fish(&help, &["x-y"]);
        assert!(fish.contains("complete -c x-y -l 'output'\n") && fish.contains("-s 'o'\n"), "{fish}");
        assert!(fish.contains("-n '__fish_seen_subcommand_from run' -l 'keep'"), "{fish}");
    }
}
