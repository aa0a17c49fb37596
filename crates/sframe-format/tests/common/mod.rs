//! Fixtures: objects from real assemblers and linkers, each with the output of `readelf --sframe`.
#![allow(dead_code)]

#[path = "../../fuzz/exercise.rs"]
pub mod exercise;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol};
use sframe_format::{Abi, Base, Blob, BlobMut, Fde, Frame, Location, RegisterRule, Row, Rules, Section};

/// An SFrame section of a fixture.
pub struct Fixture {
    pub path: PathBuf,
    pub data: Vec<u8>,
    pub address: u64,
    pub relocatable: bool,
    /// Relocations of the section: offset and addend.
    pub relocations: Vec<(u64, i64)>,
    pub relocation_types: Vec<u32>,
    /// The targets of the relocations, in the same order: symbol (or section) and addend.
    pub targets: Vec<Target>,
    pub eh_frame: Vec<u8>,
    pub eh_frame_address: u64,
    /// Targets of the relocations of `.eh_frame` by offset.
    pub eh_frame_targets: BTreeMap<u64, Target>,
    pub text: Option<String>,
}

/// Section number and offset of a relocation's target.
pub type Target = (usize, u64);

fn target(file: &object::File<'_>, relocation: &object::Relocation) -> Target {
    let object::RelocationTarget::Symbol(index) = relocation.target() else { return (0, 0) };
    let symbol = file.symbol_by_index(index).unwrap();
    let section = symbol.section_index().map_or(0, |section| section.0);
    (section, symbol.address().wrapping_add_signed(relocation.addend()))
}

impl Fixture {
    pub fn name(&self) -> String {
        let folder = self.path.parent().unwrap().file_name().unwrap().to_string_lossy();
        format!("{folder}/{}", self.path.file_name().unwrap().to_string_lossy())
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sframe")
}

/// Every section whose name starts with `.sframe` of every ELF fixture, by path.
pub fn all() -> Vec<Fixture> {
    chosen(|_| true)
}

/// The sections of files with these names. All files would take an interpreter minutes.
pub fn named(names: &[&str]) -> Vec<Fixture> {
    chosen(|name| names.iter().any(|wanted| name == *wanted))
}

fn chosen(is_wanted: impl Fn(&OsStr) -> bool) -> Vec<Fixture> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root())
        .unwrap()
        .map(|folder| folder.unwrap().path())
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(Result::unwrap))
        .filter(|file| is_wanted(&file.file_name()))
        .map(|file| file.path())
        .collect();
    paths.sort();
    paths.iter().flat_map(|path| load(path)).collect()
}

/// The SFrame sections of a file, each with its part of readelf's text.
fn load(path: &Path) -> Vec<Fixture> {
    // `object` reads structures in place, and an interpreter's memory is rarely aligned.
    let read = std::fs::read(path).unwrap();
    let mut bytes = vec![0; read.len() + align_of::<u64>()];
    let start = bytes.as_ptr().align_offset(align_of::<u64>());
    let bytes = &mut bytes[start..][..read.len()];
    bytes.copy_from_slice(&read);
    let Ok(file) = object::File::parse(&*bytes) else { return Vec::new() };
    let name = path.file_name().unwrap().to_str().unwrap();
    let stems = [name.strip_suffix(".o").unwrap_or(name), name];
    let text = stems
        .iter()
        .find_map(|stem| std::fs::read_to_string(path.with_file_name(format!("{stem}.sframe.txt"))).ok())
        .unwrap_or_default();
    let mut texts = text.split("Contents of the SFrame section").skip(1);
    let eh_frame = file.section_by_name(".eh_frame");
    let sections = file.sections().filter(|section| section.name().unwrap().starts_with(".sframe"));
    sections
        .map(|section| Fixture {
            path: path.into(),
            data: section.data().unwrap().into(),
            address: section.address(),
            relocatable: file.kind() == object::ObjectKind::Relocatable,
            relocations: section.relocations().map(|(at, found)| (at, found.addend())).collect(),
            relocation_types: section
                .relocations()
                .map(|(_, found)| match found.flags() {
                    object::RelocationFlags::Elf { r_type } => r_type,
                    _ => 0,
                })
                .collect(),
            targets: section.relocations().map(|(_, found)| target(&file, &found)).collect(),
            eh_frame: eh_frame.as_ref().map_or(Vec::new(), |section| section.data().unwrap().into()),
            eh_frame_address: eh_frame.as_ref().map_or(0, object::ObjectSection::address),
            eh_frame_targets: eh_frame
                .iter()
                .flat_map(object::ObjectSection::relocations)
                .map(|(offset, found)| (offset, target(&file, &found)))
                .collect(),
            text: texts.next().map(str::to_owned),
        })
        .collect()
}

/// The section with function starts resolved, as a final link at address 0 would resolve them, with the text
/// at 0.
pub fn relocated(fixture: &Fixture) -> Vec<u8> {
    let mut data = fixture.data.clone();
    let offsets: Vec<usize> = Section::new(&data, 0).blobs().map(|blob| blob.offset()).collect();
    for offset in offsets {
        let mut blob = BlobMut::parse(&mut data[offset..], offset as u64).unwrap();
        blob.make_field_relative();
        for &(at, addend) in &fixture.relocations {
            if let Some(index) = (at as usize).checked_sub(offset).and_then(|at| blob.header().fde_at(at)) {
                blob.set_function_start(index, addend as u64).unwrap();
            }
        }
    }
    data
}

/// One function as readelf prints it, in a normal form that is the same for all releases.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Printed {
    pub pc: u64,
    pub size: u32,
    pub mask: bool,
    pub flexible: bool,
    pub signal: bool,
    pub key_b: bool,
    /// Start (from the function's start), CFA, FP, RA; or start and "outermost".
    pub rows: Vec<(u32, String)>,
}

/// Version, number of FDEs, number of FREs, functions.
pub fn parse_readelf(text: &str) -> Option<(u8, u32, u32, Vec<Printed>)> {
    let after = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key).map(str::trim));
    let version = after("Version: SFRAME_VERSION_")?.parse().unwrap();
    let fdes = after("Num FDEs:")?.parse().unwrap();
    let fres = after("Num FREs:")?.parse().unwrap();
    let mut functions: Vec<Printed> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("func idx [") {
            let field = |key: &str| {
                let rest = &rest[rest.find(key).unwrap() + key.len()..];
                rest[..rest.find([',', ' ']).unwrap_or(rest.len())].to_owned()
            };
            let attributes = rest.split("attr = ").nth(1).map_or("", |rest| rest.split('"').nth(1).unwrap());
            functions.push(Printed {
                pc: u64::from_str_radix(&field("pc = 0x"), 16).unwrap(),
                size: field("size = ").parse().unwrap(),
                mask: false,
                flexible: attributes.contains('F'),
                signal: attributes.contains('S'),
                key_b: rest.contains("B key"),
                rows: Vec::new(),
            });
        } else if line.starts_with("STARTPC[m]") {
            functions.last_mut().unwrap().mask = true;
        } else if let Some(function) = functions.last_mut()
            && let Some((start, rules)) = line.split_once(' ')
            && let Ok(start) = u64::from_str_radix(start, 16)
        {
            let base = if function.mask { 0 } else { function.pc };
            function.rows.push((start.wrapping_sub(base) as u32, normal_rules(rules.trim())));
        }
    }
    Some((version, fdes, fres, functions))
}

fn normal_rules(text: &str) -> String {
    if text == "RA undefined" {
        return "outermost".into();
    }
    let columns: Vec<&str> = text.split_whitespace().collect();
    let [cfa, fp, ra] = columns[..] else { panic!("unknown row {text:?}") };
    let (ra, signed) = ra.strip_suffix("[s]").map_or((ra, ""), |ra| (ra, "[s]"));
    let ra = if matches!(ra, "f" | "u" | "U") { "u" } else { ra };
    let with_offset = |register: &str| {
        if register.starts_with('r') && !register.contains(['+', '-']) {
            format!("{register}+0")
        } else {
            register.to_owned()
        }
    };
    format!("{cfa} {} {}{signed}", with_offset(fp), with_offset(ra))
}

/// The rules of a row in the same form.
pub fn print_rules(abi: Abi, fixed_ra: i8, rules: &Rules) -> String {
    let Rules::Frame(Frame { cfa, ra, fp, mangled }) = rules else { return rules.to_string() };
    let register = |number: u32| match number {
        n if n == abi.stack_pointer() => "sp".to_owned(),
        n if n == abi.frame_pointer() => "fp".to_owned(),
        n => format!("r{n}"),
    };
    let rule = |rule: &RegisterRule| match rule {
        RegisterRule::Unchanged => "u".to_owned(),
        RegisterRule::Saved(Location { base, offset, dereference }) => match base {
            // readelf does not show whether a value at the CFA is dereferenced.
            Base::Cfa => format!("c{offset:+}"),
            Base::Register(number) if *dereference => format!("({}{offset:+})", register(*number)),
            Base::Register(number) => format!("{}{offset:+}", register(*number)),
        },
    };
    let fixed = RegisterRule::Saved(Location::at_cfa(fixed_ra.into()));
    let ra = if fixed_ra != 0 && *ra == fixed { "u".to_owned() } else { rule(ra) };
    let base = format!("{}{:+}", register(cfa.register), cfa.offset);
    let cfa = if cfa.dereference { format!("({base})") } else { base };
    format!("{cfa} {} {ra}{}", rule(fp), if *mangled { "[s]" } else { "" })
}

/// A function as this crate reads it, with the rows in readelf's form.
pub fn print_function(blob: &Blob<'_>, fde: &Fde) -> Printed {
    let attributes = blob.attributes(fde).unwrap();
    let header = blob.header();
    let rows: Result<Vec<Row>, _> = blob.rows(&attributes).collect();
    let print = |row: Row| (row.start, print_rules(header.abi, header.fixed_ra_offset, &row.rules));
    Printed {
        pc: fde.address,
        size: fde.size,
        mask: attributes.pc_type == sframe_format::PcType::Mask,
        flexible: attributes.fde_type == sframe_format::FdeType::Flexible,
        signal: attributes.signal,
        key_b: attributes.pauth_key == sframe_format::PauthKey::B,
        rows: rows.unwrap().into_iter().map(print).collect(),
    }
}
