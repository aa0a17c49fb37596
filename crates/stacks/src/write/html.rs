//! A page with a flame graph, in one file that fetches nothing.
//!
//! The samples become one tree by the names of their functions. The page (`page.html`) draws it, finds names
//! in it, and zooms. The page contains the tree as JSON: each node's depth, name, file, samples, and kind,
//! with parents first.

use super::named::Named;
use crate::process::Place;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

const PAGE: &str = include_str!("page.html");
/// Placeholders in the page for its title and data.
const TITLE: &str = "@TITLE@";
const DATA: &str = "@DATA@";

/// A function in the tree.
#[derive(Default)]
struct Node {
    samples: u64,
    /// Callees by name, file and kind.
    callees: BTreeMap<(u32, u32, u8), Node>,
}

#[derive(Serialize)]
struct Data<'a> {
    title: &'a str,
    samples: u64,
    rooted: u64,
    notes: &'a [String],
    names: Vec<&'a str>,
    files: Vec<&'a str>,
    /// Depth, name, file, samples, kind. The kind is 0 for user code, 1 for the kernel, 2 for inlined
    /// functions, 3 for threads, and 4 for the missing part of a stack that does not reach its root.
    nodes: Vec<(u32, u32, u32, u64, u8)>,
}

const KERNEL: u8 = 1;
const INLINED: u8 = 2;
const THREAD: u8 = 3;
const CUT: u8 = 4;

/// Writes the page.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut names = Texts::default();
    let mut files = Texts::default();
    let mut root = Node::default();
    for row in &named.profile.rows {
        let Some(thread) = named.profile.threads.get(row.thread as usize) else { continue };
        root.samples += 1;
        let mut at = root.enter((names.number(&thread.name), files.number(""), THREAD));
        if !row.end.is_rooted() {
            at = at.enter((names.number("[stack cut off]"), files.number(""), CUT));
        }
        let frames: Vec<u32> = named.profile.frames_of(row.stack).collect();
        for &frame in frames.iter().rev() {
            let key = named.profile.frames.get(frame as usize);
            let kernel = key.is_some_and(|key| matches!(key.place, Place::Kernel(_)));
            for name in named.names.of(frame).iter().rev() {
                let kind = if name.inlined { INLINED } else { u8::from(kernel) * KERNEL };
                at = at.enter((names.number(&name.function), files.number(&name.file), kind));
            }
        }
    }
    let mut nodes = vec![(0, names.number("all"), files.number(""), root.samples, THREAD)];
    flatten(&root, 1, &mut nodes);
    let rooted = named.profile.rows.iter().filter(|row| row.end.is_rooted()).count() as u64;
    let (names, files) = (names.all, files.all);
    let data = Data {
        title: named.title,
        samples: root.samples,
        rooted,
        notes: &named.profile.notes,
        names,
        files,
        nodes,
    };
    // Without this, a name could end the element that contains the data.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let title = named.title.replace('&', "&amp;").replace('<', "&lt;");
    let (before, rest) = PAGE.split_once(DATA).unwrap_or((PAGE, ""));
    write!(to, "{}{data}{}", before.replace(TITLE, &title), rest.replace(TITLE, &title))
}

impl Node {
    fn enter(&mut self, key: (u32, u32, u8)) -> &mut Self {
        let node = self.callees.entry(key).or_default();
        node.samples += 1;
        node
    }
}

/// Adds the callees of `root`, callers before callees. It does not recurse, because stacks are thousands
/// deep.
fn flatten(root: &Node, depth: u32, nodes: &mut Vec<(u32, u32, u32, u64, u8)>) {
    let mut left: Vec<_> = root.callees.iter().rev().map(|(key, node)| (depth, key, node)).collect();
    while let Some((depth, &(name, file, kind), node)) = left.pop() {
        nodes.push((depth, name, file, node.samples, kind));
        left.extend(node.callees.iter().rev().map(|(key, node)| (depth + 1, key, node)));
    }
}

#[derive(Default)]
struct Texts<'a> {
    all: Vec<&'a str>,
    numbers: BTreeMap<&'a str, u32>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.all.push(text);
        }
        number
    }
}

impl Drop for Node {
    /// Does not recurse, because stacks are thousands deep.
    fn drop(&mut self) {
        let mut left: Vec<Node> = std::mem::take(&mut self.callees).into_values().collect();
        while let Some(mut node) = left.pop() {
            left.extend(std::mem::take(&mut node.callees).into_values());
        }
    }
}
