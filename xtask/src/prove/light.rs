//! Proves the light linking form. A C++ project whose frames are units must link with every linker, run, and
//! have the same rows as with V3. Also counts how many bytes each form of frames takes.

use super::proof::Proof;
use super::tools::{compile, objects, peer, write_project};
use crate::peers;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection};
use serde_json::Value;
use std::path::{Path, PathBuf};

const OBJECTS: usize = 120;
/// The other linkers. All but the last one are fetched for the tests.
const FAMILIES: [&str; 5] = ["bfd", "gold", "lld", "mold", "wild"];
/// The frames in three forms, by the folder of their objects.
const FORMS: [(&str, &str); 3] = [("whole", ".sframe"), ("split", ".sframe"), ("light", ".sframe_light")];

pub fn light(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let assembler = build(proof, sframe)?;
    let version = proof.tool(&assembler, &["--version"])?;
    proof.note(format!("{OBJECTS} objects, frames by {}\n", version.lines().next().unwrap_or("")))?;
    link_all(proof, sframe)?;
    sizes(proof, sframe)
}

/// Compiles the project. For each object, makes one with V3 for each text section and one with units.
fn build(proof: &Proof, sframe: &Path) -> Result<PathBuf> {
    let assembler = peers::program("as")?;
    let (plain, _) = proof.assembler_folder("plain-as", &assembler)?;
    write_project(&proof.folder, OBJECTS)?;
    compile(proof, ("g++", "*.cc"), "whole", &plain, &assembler)?;
    for folder in ["split", "light"] {
        std::fs::create_dir_all(proof.folder.join(folder))?;
    }
    for name in objects(OBJECTS) {
        let [whole, split, light] = FORMS.map(|(folder, _)| format!("{folder}/{name}"));
        proof.tool(sframe, &["split", "-o", &split, &whole])?;
        proof.tool(sframe, &["split", "--light", "-o", &light, &whole])?;
    }
    Ok(assembler)
}

/// Links with every linker.
fn link_all(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let ours = proof.prefix.join("ld");
    link(proof, &ours, "split", &[], "expected")?;
    let expected = rows(proof, sframe, "expected")?;
    let says = proof.tool(proof.folder.join("expected"), &[])?;
    let count = expected.len();
    proof.note(format!("{count} named functions; by sframe-ld from V3 for each text section, which the others are held against.\n"))?;
    proof.note(
        "| linker | mode | named functions | rows | `sframe verify` | program |\n|---|---|---:|---|---|---|",
    )?;
    let mut linkers = vec![("sframe-ld".to_owned(), ours)];
    for family in FAMILIES {
        match peer(family) {
            Ok(linker) => linkers.push((folder_name(&linker), linker)),
            Err(error) => proof.note(format!("| {family} | {error:#} | | | | |"))?,
        }
    }
    for (name, linker) in linkers {
        for (collected, option) in [(false, "-Wl,--no-gc-sections"), (true, "-Wl,--gc-sections")] {
            let options = &[option][..];
            let out = format!("by-{name}");
            link(proof, &linker, "light", options, &out)?;
            ensure!(
                proof.tool(proof.folder.join(&out), &[])? == says,
                "{name}: the program says another thing"
            );
            let mode = &option[4..];
            // Some linkers keep frames only if they know the section by name, and otherwise only sections
            // that code refers to. This linker must do better.
            if collected && name != "sframe-ld" && !has_frames(proof, &out)? {
                link(proof, &linker, "split", options, "of-v3")?;
                let other = if has_frames(proof, "of-v3")? { "V3 is kept" } else { "V3 is dropped, too" };
                proof.note(format!("| {name} | {mode} | 0 | none; {other} | | runs |"))?;
                continue;
            }
            let found = rows(proof, sframe, &out)?;
            let same =
                if collected { found.iter().all(|row| expected.contains(row)) } else { found == expected };
            ensure!(same && !found.is_empty(), "{name} {mode}: the rows differ");
            let verified = proof.tool(sframe, &["verify", &out])?;
            ensure!(verified.contains(" 0 errors") && verified.contains(" 0 wrong"), "{name}: {verified}");
            let rows = if collected { "all of V3's" } else { "V3's" };
            let functions = found.len();
            proof.note(format!("| {name} | {mode} | {functions} | {rows} | nothing wrong | runs |"))?;
        }
    }
    Ok(())
}

/// Whether a program has frames in any form.
fn has_frames(proof: &Proof, file: &str) -> Result<bool> {
    let data = std::fs::read(proof.folder.join(file))?;
    let file = object::File::parse(&*data)?;
    Ok(FORMS.iter().any(|(_, section)| file.section_by_name(section).is_some_and(|found| found.size() > 0)))
}

fn folder_name(linker: &Path) -> String {
    let folder = linker.parent().and_then(Path::file_name);
    folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn link(proof: &Proof, linker: &Path, folder: &str, options: &[&str], out: &str) -> Result<()> {
    let prefix = format!("-B{}", linker.parent().context("no folder")?.display());
    let inputs: Vec<String> = objects(OBJECTS).map(|name| format!("{folder}/{name}")).collect();
    let mut words = vec![&*prefix, "-pie", "-o", out];
    words.extend(options);
    words.extend(inputs.iter().map(String::as_str));
    proof.tool("g++", &words).map(|_| ())
}

/// The functions that have names, with their sizes and rows, without anything that the form and the layout
/// change.
fn rows(proof: &Proof, sframe: &Path, file: &str) -> Result<Vec<String>> {
    let dump: Value = serde_json::from_str(&proof.tool(sframe, &["dump", "--json", file])?)?;
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let files = dump.as_array().cloned().unwrap_or_default();
    let sections = files.iter().flat_map(|file| list(file, "sections"));
    let blobs = sections.flat_map(|section| list(&section, "blobs"));
    let mut found = Vec::new();
    for mut function in blobs.flat_map(|blob| list(&blob, "functions")) {
        // GNU ld's own table also has its PLTs.
        if function["symbol"].as_str().is_none_or(|name| name.contains("plt")) {
            continue;
        }
        let fields = function.as_object_mut().context("a function is an object")?;
        for name in ["index", "offset", "address"] {
            fields.remove(name);
        }
        if let Some(attributes) = fields.get_mut("attributes").and_then(Value::as_object_mut) {
            attributes.remove("start_width");
        }
        found.push(function.to_string());
    }
    found.sort();
    Ok(found)
}

/// The bytes of frames in the objects and in the program, for every form.
fn sizes(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let ours = proof.prefix.join("ld");
    proof.note("\n## Sizes\n\n| form | objects: sections | their relocations | section headers | program |\n|---|---:|---:|---:|---:|")?;
    for ((folder, section), name) in FORMS.into_iter().zip([
        "V3, one for each object",
        "V3 for each text section",
        "light units for each text section",
    ]) {
        let (bytes, relocations, headers) = in_objects(&proof.folder.join(folder), section)?;
        let program = if folder == "whole" {
            "does not link".to_owned()
        } else {
            link(proof, &ours, folder, &[], "sized")?;
            in_file(&proof.folder.join("sized"), &[section])?.to_string()
        };
        proof.note(format!("| {name} | {bytes} | {relocations} | {headers} | {program} |"))?;
    }
    let made: [(&str, &[&str], &[&str]); 3] = [
        ("index of V3", &["-Wl,--sframe-index"], &[".sframe_idx"]),
        ("merged V3", &["-Wl,--sframe=merge"], &[".sframe"]),
        ("compact table", &["-Wl,--sframe-index=compact,--sframe=discard"], &[".sframe_compact"]),
    ];
    for (name, options, sections) in made {
        link(proof, &ours, "light", options, "sized")?;
        let program = in_file(&proof.folder.join("sized"), sections)?;
        proof.note(format!("| {name}, of light units | | | | {program} |"))?;
    }
    let frames = in_file(&proof.folder.join("sized"), &[".eh_frame", ".eh_frame_hdr"])?;
    let (bytes, relocations, headers) = in_objects(&proof.folder.join("whole"), ".eh_frame")?;
    proof.note(format!("| `.eh_frame` (with header) | {bytes} | {relocations} | {headers} | {frames} |"))?;
    let found = proof.tool(sframe, &["verify", "sized"])?;
    ensure!(found.contains(" 0 wrong"), "{found}");
    proof.note("\nBytes. One table for each object refers to members of groups, which makes the plain link an error. Relocations are those of these sections, 24 bytes each; a section header has 64, and its relocation section another.")
}

/// The bytes of a form's sections in all objects, of their relocations, and of the headers of both.
fn in_objects(folder: &Path, section: &str) -> Result<(u64, u64, u64)> {
    let (mut bytes, mut relocations, mut headers) = (0, 0, 0);
    for name in objects(OBJECTS) {
        let data = std::fs::read(folder.join(name))?;
        let file = object::File::parse(&*data)?;
        for found in file.sections().filter(|found| found.name() == Ok(section)) {
            bytes += found.size();
            let count = found.relocations().count() as u64;
            relocations += 24 * count;
            headers += if count > 0 { 128 } else { 64 };
        }
    }
    Ok((bytes, relocations, headers))
}

fn in_file(path: &Path, sections: &[&str]) -> Result<u64> {
    let data = std::fs::read(path)?;
    let file = object::File::parse(&*data)?;
    let named = |name: &&str| file.section_by_name(name).with_context(|| format!("no {name}"));
    let found: Result<Vec<_>> = sections.iter().map(named).collect();
    Ok(found?.iter().map(ObjectSection::size).sum())
}
