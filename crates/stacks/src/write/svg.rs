//! A flame graph as a picture that needs no script (SVG 1.1): a box for each function, with its name, its
//! samples and its share as its tooltip. Callees hang below their callers, the one with the most samples
//! first.

use super::tree::{CUT, INLINED, KERNEL, THREAD, Tree};
use crate::named::Named;
use std::io;

/// Sizes in pixels.
const WIDTH: f64 = 1200.0;
const ROW: usize = 18;
const HEAD: usize = 30;
/// The width of a letter, which no writer of pictures can know, and the narrowest box.
const LETTER: f64 = 7.0;
const NARROWEST: f64 = 0.3;

/// A box to draw.
struct Shape {
    node: usize,
    depth: usize,
    x: f64,
}

/// Writes the picture.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut tree = Tree::default();
    tree.add(0, named);
    let parents = &tree.nodes.parent;
    let mut samples = vec![0u64; parents.len()];
    for (&node, &count) in tree.rows.node.iter().zip(&tree.rows.samples) {
        samples[node as usize] += count;
    }
    let mut callees = vec![Vec::new(); parents.len()];
    // Callers have smaller numbers than their callees.
    for node in (1..parents.len()).rev() {
        let parent = parents[node] as usize;
        samples[parent] += samples[node];
        callees[parent].push(node);
    }
    let all = samples.first().copied().unwrap_or(0);
    let scale = WIDTH / all.max(1) as f64;
    let (mut left, mut shapes) = (vec![Shape { node: 0, depth: 0, x: 0.0 }], Vec::new());
    while let Some(shape) = left.pop() {
        let mut x = shape.x;
        callees[shape.node].sort_by_key(|&callee| std::cmp::Reverse(samples[callee]));
        for &callee in &callees[shape.node] {
            let wide = samples[callee] as f64 * scale;
            if wide >= NARROWEST {
                left.push(Shape { node: callee, depth: shape.depth + 1, x });
            }
            x += wide;
        }
        shapes.push(shape);
    }
    let rows = 1 + shapes.iter().map(|shape| shape.depth).max().unwrap_or(0);
    let height = HEAD + rows * ROW + 6;
    writeln!(
        to,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"6\" y=\"20\" font-size=\"15\">{}</text>",
        escaped(&fit(&format!("{}: {}", named.title, count(all)), WIDTH / 1.25))
    )?;
    for Shape { node, depth, x } in shapes {
        let (wide, y) = (samples[node] as f64 * scale, HEAD + depth * ROW);
        let number = |numbers: &[u32]| numbers[node] as usize;
        let (name, file) =
            (tree.names.all[number(&tree.nodes.name)], tree.files.all[number(&tree.nodes.file)]);
        let file = if file.is_empty() { String::new() } else { format!(" ({})", escaped(file)) };
        let share = 100.0 * samples[node] as f64 / all.max(1) as f64;
        writeln!(
            to,
            "<g><title>{}{file}: {}, {share:.2} %</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" \
             fill=\"{}\"/>{}</g>",
            escaped(name),
            count(samples[node]),
            (wide - 0.5).max(0.3),
            ROW - 1,
            colour(name, tree.nodes.kind[node]),
            label(name, x, y, wide)
        )?;
    }
    writeln!(to, "</svg>")
}

fn count(samples: u64) -> String {
    format!("{samples} sample{}", if samples == 1 { "" } else { "s" })
}

fn label(name: &str, x: f64, y: usize, wide: f64) -> String {
    let text = fit(name, wide - 6.0);
    if text.is_empty() {
        return text;
    }
    format!("<text x=\"{:.2}\" y=\"{}\">{}</text>", x + 3.0, y + 13, escaped(&text))
}

/// As much of a name as has room, with an ellipsis for the rest.
fn fit(name: &str, room: f64) -> String {
    let letters = (room / LETTER).max(0.0) as usize;
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    if letters < 3 {
        return String::new();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

/// Colours as on the page: hue by kind, with shades by name.
fn colour(name: &str, kind: u8) -> String {
    let hash = name.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    let shade = hash % 24;
    let (hue, strength) = match kind {
        KERNEL => (20 + shade / 2, 75),
        INLINED => (170 + shade / 2, 40),
        THREAD => (220, 8),
        CUT => (0, 60),
        _ => (38 + shade, 75),
    };
    format!("hsl({hue},{strength}%,{}%)", 66 + shade / 3)
}

/// A text without the characters that mean something in XML, or that it forbids.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}
