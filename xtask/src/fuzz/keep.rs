//! Chooses the inputs of a corpus that the repository keeps.
//!
//! Fuzzing leaves thousands of inputs, and most of them reach nothing that others do not reach. A merge by
//! libFuzzer says which features each input reaches: edges, and how often they are taken. This module always
//! takes next the input that adds the most features for its price. The price is its share of the bytes and of
//! the number of inputs that may be kept. Of 6,729 inputs of whole links, two hundred chosen in this way
//! reach 83 % of the features.

use crate::folders::files;
use anyhow::{Context, Result, bail};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The most bytes of corpus that are kept for a target, and the most inputs.
const BYTES: u64 = 128_000;
const INPUTS: u64 = 200;

/// An input, its size in bytes, and the numbers of the features that it reaches.
struct Input {
    path: PathBuf,
    size: u64,
    features: Vec<u32>,
}

impl Input {
    /// How much this number of additional features is worth for the price of the input.
    fn value(&self, gain: usize) -> u64 {
        const SCALE: u64 = 1 << 20;
        gain as u64 * SCALE / (self.size + BYTES / INPUTS)
    }
}

/// Writes the start of a merge's control file: the number of inputs, how many of them are in the first
/// folder, and their paths.
///
/// # Errors
/// It cannot be written.
pub fn begin(control: &Path, inputs: &[PathBuf]) -> Result<()> {
    let paths: String = inputs.iter().map(|path| format!("{}\n", path.display())).collect();
    Ok(std::fs::write(control, format!("{}\n0\n{paths}", inputs.len()))?)
}

/// Replaces the inputs in the folder `kept` by the best of those that a merge with the control file `control`
/// has read. Inputs that someone wrote and named stay. Returns how many were chosen.
///
/// # Errors
/// The control file is not libFuzzer's, or it lacks an input, because that input failed or the file is not
/// complete. A file cannot be read or written.
pub fn keep(control: &Path, kept: &Path) -> Result<usize> {
    let inputs = File::open(control).map_err(Into::into).and_then(|file| read(BufReader::new(file)));
    let inputs = inputs.with_context(|| format!("{}, the control file of a merge", control.display()))?;
    let mut left = BYTES;
    let mut fits = |input: &&Input| {
        let rest = left.checked_sub(input.size);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let best = by_value(&inputs).into_iter().map(|number| &inputs[number]);
    let chosen = best.filter(|input| fits(input)).take(INPUTS as usize);
    let chosen: Vec<Vec<u8>> = chosen.map(|input| std::fs::read(&input.path)).collect::<Result<_, _>>()?;
    for path in files(kept)? {
        if is_nameless(&path) {
            std::fs::remove_file(path)?;
        }
    }
    for bytes in &chosen {
        let name = blake3::hash(bytes).to_hex();
        std::fs::write(kept.join(&name[..40]), bytes)?;
    }
    Ok(chosen.len())
}

/// Whether the name of a file is a hash of its bytes.
fn is_nameless(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit))
}

/// Reads a control file: what [`begin`] wrote, then for each input its size and what a run with it reached.
fn read(control: impl BufRead) -> Result<Vec<Input>> {
    let mut lines = control.lines();
    let mut number =
        || -> Result<usize> { Ok(lines.next().context("a control file ends early")??.trim().parse()?) };
    let (count, _) = (number()?, number()?);
    let mut inputs = Vec::new();
    for line in lines.by_ref().take(count) {
        inputs.push(Input { path: line?.into(), size: 0, features: Vec::new() });
    }
    for line in lines {
        let line = line?;
        let Some((word @ ("STARTED" | "FT"), rest)) = line.split_once(' ') else { continue };
        let mut numbers = rest.split_whitespace().map(str::parse::<u32>);
        let number = numbers.next().context("a line of no input")??;
        let input = inputs.get_mut(number as usize).context("a line of an unknown input")?;
        match word {
            "STARTED" => input.size = numbers.next().context("an input without a size")??.into(),
            _ => input.features = numbers.collect::<Result<_, _>>()?,
        }
    }
    if inputs.len() < count {
        bail!("it names {} inputs of {count}", inputs.len());
    }
    match inputs.iter().find(|input| input.features.is_empty()) {
        Some(input) => bail!("the merge has not run {}, which it was given", input.path.display()),
        None => Ok(inputs),
    }
}

/// The numbers of inputs that together reach all features. Each one adds most for its price to those before
/// it.
fn by_value(inputs: &[Input]) -> Vec<usize> {
    let mut reached: HashSet<u32> = HashSet::new();
    let at_first = |(number, input): (usize, &Input)| (input.value(input.features.len()), Reverse(number));
    let mut waiting: BinaryHeap<(u64, Reverse<usize>)> = inputs.iter().enumerate().map(at_first).collect();
    let mut order = Vec::new();
    while let Some((_, Reverse(number))) = waiting.pop() {
        let features = &inputs[number].features;
        let gain = features.iter().filter(|feature| !reached.contains(feature)).count();
        let now = (inputs[number].value(gain), Reverse(number));
        // Values only become smaller. If an up-to-date value is still the greatest, no other can be greater.
        if waiting.peek().is_some_and(|&next| next > now) {
            waiting.push(now);
        } else if gain > 0 {
            reached.extend(features);
            order.push(number);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: &str = "4\n0\n/c/a\n/c/b\n/c/c\n/c/d\nSTARTED 0 1\nFT 0 1 2\nCOV 0 7\nSTARTED 1 1\nFT 1 3\nCOV 1\n\
                           STARTED 2 5\nFT 2 1 2 4 5\nCOV 2 8\nSTARTED 3 9\nFT 3 4\n";

    #[test]
    fn inputs_come_by_the_features_that_they_add() {
        let inputs = read(CONTROL.as_bytes()).unwrap();
        // Neither the first nor the fourth input adds anything to the third.
        assert_eq!(by_value(&inputs), [2, 1]);
        assert_eq!((inputs[2].path.as_path(), inputs[2].size), (Path::new("/c/c"), 5));
        // Ten kilobytes for one more feature are a bad bargain.
        let dear = read(CONTROL.replace("STARTED 2 5", "STARTED 2 10000").as_bytes()).unwrap();
        assert_eq!(by_value(&dear), [0, 1, 3, 2]);
    }

    #[test]
    fn what_is_no_control_file_is_refused() {
        for text in ["", "2\n", "1\n0\n/c/a\nFT 1 3\n", "1\n0\n/c/a\nFT 0 x\n"] {
            assert!(read(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    /// Once, a limit on the size of files cut control files short, and the corpus with them.
    #[test]
    fn a_control_file_that_lacks_an_input_is_refused() {
        let cut = &CONTROL[..CONTROL.find("FT 2").unwrap()];
        let error = read(cut.as_bytes()).err().unwrap();
        assert_eq!(error.to_string(), "the merge has not run /c/c, which it was given");
    }

    #[test]
    fn kept_inputs_are_replaced_and_named_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, corpus) = (folder.path().join("kept"), folder.path().join("corpus"));
        for path in [&kept, &corpus] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(kept.join("0a1b"), "old").unwrap();
        std::fs::write(kept.join("groups-of-all"), "named").unwrap();
        std::fs::write(corpus.join("a"), "one").unwrap();
        std::fs::write(corpus.join("b"), vec![7; BYTES as usize + 1]).unwrap();
        let control = folder.path().join("control");
        let append = |reached: &str| {
            begin(&control, &["a", "b"].map(|name| corpus.join(name))).unwrap();
            let begun = std::fs::read_to_string(&control).unwrap();
            std::fs::write(&control, begun + reached).unwrap();
        };
        append(&format!("STARTED 0 3\nFT 0 1\nSTARTED 1 {}\nFT 1 1 2 3\n", BYTES + 1));
        // The second input adds more than the first, but is too large.
        assert_eq!(keep(&control, &kept).unwrap(), 1);
        std::fs::write(&control, "1\n0\n").unwrap();
        let error = format!("{:#}", keep(&control, &kept).unwrap_err());
        assert!(error.starts_with(&control.display().to_string()), "{error}");
        let mut names: Vec<_> =
            std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names.len(), 2);
        assert_eq!(names[1], "groups-of-all");
    }
}
