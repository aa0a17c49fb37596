//! Part of a link that a profile is made from: Rust with debug information and the whole standard library.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::mpsc::channel;

/// Uses threads, formatting, maps and errors, so that much of the standard library is linked.
#[unsafe(no_mangle)]
pub extern "C" fn count_words() -> usize {
    let (sender, receiver) = channel::<String>();
    let thread = std::thread::spawn(move || {
        let mut counts = BTreeMap::new();
        for word in receiver {
            *counts.entry(word).or_insert(0_usize) += 1;
        }
        counts
    });
    for word in "one table of all tables".split(' ') {
        drop(sender.send(word.to_owned()));
    }
    drop(sender);
    let counts = thread.join().unwrap_or_default();
    let mut text = String::new();
    for (word, count) in &counts {
        let _ = writeln!(text, "{word}: {count}");
    }
    println!("{text}");
    counts.len()
}
