//! Folded stacks, for flame graph tools. Each different stack is one line: the thread and the functions from
//! the outermost to the innermost, separated by `;`, then a space and the number of samples.

use super::named::Named;
use std::collections::BTreeMap;
use std::io;

/// Writes all stacks, in the order of their text.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for row in &named.profile.rows {
        *counts.entry((row.thread, row.stack)).or_default() += 1;
    }
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for row in &named.profile.rows {
        let Some(count) = counts.remove(&(row.thread, row.stack)) else { continue };
        let thread = named.profile.threads.get(row.thread as usize);
        let mut line = clean(thread.map_or("?", |thread| &thread.name));
        for function in named.functions(row) {
            line.push(';');
            line.push_str(&clean(function));
        }
        *lines.entry(line).or_default() += count;
    }
    for (line, count) in lines {
        writeln!(to, "{line} {count}")?;
    }
    Ok(())
}

/// A name without the characters that separate names and lines, or that a terminal would obey.
fn clean(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter == ';' {
                ':'
            } else if letter.is_control() {
                ' '
            } else {
                letter
            }
        })
        .collect()
}
