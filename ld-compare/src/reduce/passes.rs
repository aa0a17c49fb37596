//! The passes of a reduction: each of them leaves out units of one kind.

use super::ddmin::minimise;
use super::state::{Input, State, Word};
use super::tester::Tester;
use crate::model::{Object, Place};
use anyhow::Result;
use object::elf;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Runs all passes. Those on the insides of objects run again until nothing gets smaller.
pub fn run(state: State, tester: &mut Tester<'_>) -> Result<State> {
    let mut state = words(state, tester);
    state = pairs(state, tester);
    state = members(state, tester);
    state = unpack(state, tester);
    state = words(state, tester);
    loop {
        let before = measure(&state);
        state = sections(state, tester);
        state = groups(state, tester);
        state = relocations(state, tester);
        state = symbols(state, tester);
        state = contents(state, tester);
        state = words(state, tester);
        if measure(&state) >= before || tester.is_over() {
            return Ok(state);
        }
    }
}

fn measure(state: &State) -> (usize, usize) {
    (state.words.len(), state.size())
}

/// Leaves out options and inputs.
fn words(state: State, tester: &mut Tester<'_>) -> State {
    tester.phase("command line");
    let with = |words: &[Word]| State { words: words.to_vec(), ..state.clone() };
    let left = minimise(state.words.clone(), &mut |words| tester.holds(&with(words)));
    with(&left)
}

/// Leaves out options that can only go in pairs.
fn pairs(mut state: State, tester: &mut Tester<'_>) -> State {
    let pairs = [
        ("--start-group", "--end-group"),
        ("-(", "-)"),
        ("--whole-archive", "--no-whole-archive"),
        ("--push-state", "--pop-state"),
        ("--start-lib", "--end-lib"),
        ("--as-needed", "--no-as-needed"),
    ];
    for (open, close) in pairs {
        let is = |word: &Word, name: &str| matches!(word, Word::Plain(words) if words.len() == 1 && words[0] == name);
        let mut without = state.clone();
        without.words.retain(|word| !is(word, open) && !is(word, close));
        if without.words.len() < state.words.len() && tester.holds(&without) {
            state = without;
        }
    }
    state
}

/// Leaves out members of archives.
fn members(state: State, tester: &mut Tester<'_>) -> State {
    tester.phase("archive members");
    let mut state = state;
    for row in 0..state.words.len() {
        let Word::Archive(name, members) = state.words[row].clone() else { continue };
        let with = |members: &[Input]| {
            let mut with = state.clone();
            with.words[row] = Word::Archive(name.clone(), Rc::new(members.to_vec()));
            with
        };
        let left = minimise(members.to_vec(), &mut |members| tester.holds(&with(members)));
        state = with(&left);
    }
    state
}

/// Replaces an archive by its members as plain objects, if the goal then still holds.
fn unpack(state: State, tester: &mut Tester<'_>) -> State {
    let mut words = Vec::new();
    for word in &state.words {
        match word {
            Word::Archive(_, members) => words.extend(members.iter().cloned().map(Word::Object)),
            word => words.push(word.clone()),
        }
    }
    // A member's name is unique only within its archive.
    let mut names = BTreeSet::new();
    for (row, word) in words.iter_mut().enumerate() {
        if let Word::Object(input) = word
            && !names.insert(input.name.clone())
        {
            input.name = format!("{row}-{}", input.name);
        }
    }
    let unpacked = State { words, ..state.clone() };
    if tester.holds(&unpacked) { unpacked } else { state }
}

/// A part of an object: the number of the object, and the row in it.
type Unit = (usize, usize);

/// Keeps the units of each object that the goal needs. `count` returns the number of an object's units, and
/// `keep` makes an object from a flag for each.
fn minimise_units(
    state: State,
    tester: &mut Tester<'_>,
    count: &dyn Fn(&Object) -> usize,
    keep: &dyn Fn(&Object, &[bool]) -> Object,
) -> State {
    let mut units: Vec<Unit> = Vec::new();
    for (number, input) in state.inputs().enumerate() {
        let rows = input.object.as_deref().map_or(0, count);
        units.extend((0..rows).map(|row| (number, row)));
    }
    let with = |units: &[Unit]| {
        state.map(&mut |number, input| {
            let object = input.object.as_deref()?;
            let mut flags = vec![false; count(object)];
            for (_, row) in units.iter().filter(|(of, _)| *of == number) {
                flags[*row] = true;
            }
            (flags.contains(&false)).then(|| keep(object, &flags))
        })
    };
    let left = minimise(units, &mut |units| tester.holds(&with(units)));
    with(&left)
}

fn all(count: usize) -> Vec<bool> {
    vec![true; count]
}

fn sections(state: State, tester: &mut Tester<'_>) -> State {
    tester.phase("sections");
    minimise_units(state, tester, &|object| object.sections.len(), &|object, flags| {
        let mut object = object.clone();
        object.retain(flags, &all(object.symbols.len()), &all(object.groups.len()));
        object
    })
}

fn groups(state: State, tester: &mut Tester<'_>) -> State {
    tester.phase("groups");
    minimise_units(state, tester, &|object| object.groups.len(), &|object, flags| {
        let mut object = object.clone();
        object.retain(&all(object.sections.len()), &all(object.symbols.len()), flags);
        object
    })
}

fn symbols(state: State, tester: &mut Tester<'_>) -> State {
    tester.phase("symbols");
    minimise_units(state, tester, &|object| object.symbols.len(), &|object, flags| {
        let mut object = object.clone();
        object.retain(&all(object.sections.len()), flags, &all(object.groups.len()));
        object
    })
}

fn relocations(state: State, tester: &mut Tester<'_>) -> State {
    tester.phase("relocations");
    let count = |object: &Object| object.sections.iter().map(|section| section.relocations.len()).sum();
    minimise_units(state, tester, &count, &|object, flags| {
        let mut object = object.clone();
        let mut flags = flags.iter();
        for section in &mut object.sections {
            section.relocations.retain(|_| flags.next().copied().unwrap_or(true));
        }
        object
    })
}

/// Removes bytes that nothing refers to, and values of symbols.
fn contents(mut state: State, tester: &mut Tester<'_>) -> State {
    tester.phase("contents");
    let changes: [fn(&mut Object); 5] = [no_sizes, packed, cut, zeroed, plain_names];
    let count = state.inputs().count();
    for change in changes {
        for chosen in 0..count {
            let changed = state.map(&mut |number, input| {
                let mut object = (number == chosen).then(|| input.object.as_deref().cloned()).flatten()?;
                change(&mut object);
                (Some(&object) != input.object.as_deref()).then_some(object)
            });
            let same = changed.inputs().zip(state.inputs()).all(|(new, old)| new.object == old.object);
            if !same && tester.holds(&changed) {
                state = changed;
            }
        }
    }
    state
}

/// Moves symbols to the start of their sections and removes their sizes.
fn no_sizes(object: &mut Object) {
    for symbol in object.symbols.iter_mut().filter(|symbol| symbol.place != Place::Common) {
        (symbol.value, symbol.size) = (0, 0);
    }
    for relocation in object.sections.iter_mut().flat_map(|section| &mut section.relocations) {
        relocation.addend = 0;
    }
}

/// Moves relocations together, at the start of their sections.
fn packed(object: &mut Object) {
    for section in &mut object.sections {
        for (row, relocation) in section.relocations.iter_mut().enumerate() {
            relocation.offset = 8 * row as u64;
        }
        let needed = 8 * section.relocations.len() as u64;
        if needed > section.size && section.kind != elf::SHT_NOBITS {
            section.size = needed;
            section.data.resize(needed as usize, 0);
        }
    }
}

/// Removes the bytes after the last relocation and the last symbol.
fn cut(object: &mut Object) {
    for row in 0..object.sections.len() {
        let symbols = object.symbols.iter().filter(|symbol| symbol.place == Place::Section(row));
        let symbols = symbols.map(|symbol| symbol.value.saturating_add(symbol.size)).max().unwrap_or(0);
        let section = &mut object.sections[row];
        let last = section.relocations.iter().map(|relocation| relocation.offset.saturating_add(8)).max();
        let needed = symbols.max(last.unwrap_or(0)).min(section.size);
        section.size = needed;
        section.data.truncate(needed as usize);
        section.align = section.align.min(8);
    }
}

fn zeroed(object: &mut Object) {
    object.sections.iter_mut().for_each(|section| section.data.fill(0));
}

/// Removes types and visibilities that the goal does not need.
fn plain_names(object: &mut Object) {
    for symbol in &mut object.symbols {
        symbol.other = 0;
        if symbol.kind == elf::STT_FUNC || symbol.kind == elf::STT_OBJECT || symbol.kind == elf::STT_FILE {
            symbol.kind = elf::STT_NOTYPE;
        }
    }
    object.flags = 0;
}
