//! Shows equal advice of several diagnostics only once.

use super::{Code, Diagnostic};
use std::collections::{HashMap, HashSet};

/// Moves lines of help that several diagnostics of one [`Code`] share to the last diagnostic of that code.
/// Each line stands there once; if not all of these diagnostics gave it, it says how many did. A refused link
/// may have dozens of violations with the same advice, and users see the end of the output first.
pub fn share_help(diagnostics: &mut [Diagnostic]) {
    let mut of_code: HashMap<Code, (usize, usize)> = HashMap::new();
    let mut of_line: HashMap<(Code, &str), usize> = HashMap::new();
    for (number, diagnostic) in diagnostics.iter().enumerate() {
        let (count, last) = of_code.entry(diagnostic.code).or_default();
        (*count, *last) = (*count + 1, number);
        for line in &diagnostic.help {
            *of_line.entry((diagnostic.code, line)).or_default() += 1;
        }
    }
    of_line.retain(|_, times| *times > 1);
    if of_line.is_empty() {
        return;
    }
    let mut seen = HashSet::new();
    let mut moved: Vec<(usize, String)> = Vec::new();
    for diagnostic in diagnostics.iter() {
        for line in &diagnostic.help {
            let key = (diagnostic.code, line.as_str());
            let Some(times) = of_line.get(&key).filter(|_| seen.insert(key)) else { continue };
            let (count, last) = of_code[&diagnostic.code];
            let some = if *times < count { format!(" ({times} of {count})") } else { String::new() };
            moved.push((last, format!("{line}{some}")));
        }
    }
    let shared: HashSet<(Code, String)> =
        of_line.into_keys().map(|(code, line)| (code, line.to_owned())).collect();
    for diagnostic in diagnostics.iter_mut().filter(|diagnostic| !diagnostic.help.is_empty()) {
        let code = diagnostic.code;
        diagnostic.help.retain(|line| !shared.contains(&(code, line.clone())));
    }
    for (last, line) in moved {
        diagnostics[last].help.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_of_several_stands_once_behind_the_last() {
        let error = |code: Code, lines: &[&str]| {
            lines.iter().fold(Diagnostic::error(code, "m"), |diagnostic, line| diagnostic.help(*line))
        };
        let mut all = [
            error(Code::DiscardedReference, &["a", "b"]),
            error(Code::RelocationOverflow, &["a"]),
            error(Code::DiscardedReference, &["b", "own"]),
            error(Code::DiscardedReference, &["a", "b"]),
            error(Code::Internal, &[]),
        ];
        share_help(&mut all);
        let help: Vec<&[String]> = all.iter().map(|diagnostic| &diagnostic.help[..]).collect();
        assert_eq!(
            help,
            [&[][..], &["a".to_owned()], &["own".into()], &["a (2 of 3)".into(), "b".into()], &[]]
        );
    }
}
