//! Folded stacks, for flame graph tools. Each different stack is one line: the thread and the functions from
//! the outermost to the innermost, separated by `;`, then a space and the number of samples.
//!
//! Samples of several events cannot be added: each line then begins with the event, and its number is the sum
//! of the samples' periods.

use crate::named::Named;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Writes all stacks, in the order of their text.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let rows = &named.profile.rows;
    let has_several = rows.iter().map(|row| row.event).collect::<BTreeSet<_>>().len() > 1;
    let mut counts: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
    for row in rows {
        let count = counts.entry((row.event, row.thread, row.stack)).or_default();
        *count = count.saturating_add(if has_several { row.period } else { 1 });
    }
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows {
        let Some(count) = counts.remove(&(row.event, row.thread, row.stack)) else { continue };
        let thread = named.profile.threads.get(row.thread as usize);
        let mut line = String::new();
        if has_several {
            push(&mut line, named.profile.event(row.event));
            line.push(';');
        }
        push(&mut line, thread.map_or("?", |thread| &thread.name));
        for function in named.functions(row) {
            line.push(';');
            push(&mut line, function);
        }
        let sum = lines.entry(line).or_default();
        *sum = sum.saturating_add(count);
    }
    for (line, count) in lines {
        writeln!(to, "{line} {count}")?;
    }
    Ok(())
}

/// Adds a name without the characters that separate names and lines, or that a terminal would obey.
fn push(line: &mut String, name: &str) {
    // Nearly all names are such, and stacks have very many.
    if name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b';') {
        return line.push_str(name);
    }
    line.extend(name.chars().map(|letter| match letter {
        ';' => ':',
        letter if letter.is_control() => ' ',
        letter => letter,
    }));
}
