//! `.note.gnu.property`: what all objects promise and need, merged into one note (Linux Extensions to gABI,
//! "Program Property"; psABIs, "Program Property").
//!
//! If one object of a hundred lacks landing pads, the program must not switch on the check for them. So each
//! property's number says how it is merged: bits that hold only if every object has them (control-flow
//! protection), bits that any object may ask for (ISA levels), or both. An object without the note promises
//! nothing.

use super::build_attributes::{self, BuildAttributes};
use super::synthesis::{Created, MergedProperties, Synthesis};
use crate::arch::{Target, machine};
use crate::cli::{Machine, Report};
use crate::diag::{Code, Diagnostic, Location, Severity};
use crate::elf::consts as elf;
use crate::elf::notes::{Note, notes};
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::phase::{Inputs, SectionStates};
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use parallel::ParallelSlice;
use std::collections::BTreeMap;
use zerocopy::byteorder::{ByteOrder, U32, U64};

const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
const STACK_SIZE: u32 = 1;
const NO_COPY_ON_PROTECTED: u32 = 2;
const MEMORY_SEAL: u32 = 3;
/// `GNU_PROPERTY_1_NEEDED`.
const NEEDED_BY_ALL: u32 = 0xb000_8000;
/// `GNU_PROPERTY_1_NEEDED_INDIRECT_EXTERN_ACCESS`.
const INDIRECT_EXTERN_ACCESS: u128 = 1;
const NAME: &[u8] = b".note.gnu.property";

/// How the values that several objects have for a property become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    /// The largest value.
    Maximum,
    /// The property has no value. It holds if any object has it.
    Any,
    /// Bits that all objects have.
    And,
    /// Bits that any object has.
    Or,
    /// Bits that any object has, if all objects have the property.
    OrIfAll,
    /// Two numbers, which must be the same in all objects that have the property.
    Same,
}

fn rule(machine: Machine, property: u32) -> Option<Rule> {
    Some(match property {
        _ if machine::signed_pointer_property(machine) == Some(property) => Rule::Same,
        STACK_SIZE => Rule::Maximum,
        NO_COPY_ON_PROTECTED => Rule::Any,
        // This is the older number for the instruction sets that x86 code needs. It lies in the range of
        // other properties.
        0xc000_0001 => Rule::Or,
        0xb000_0000..=0xb000_7fff | 0xc000_0000..=0xc000_7fff => Rule::And,
        0xb000_8000..=0xb000_ffff | 0xc000_8000..=0xc000_ffff => Rule::Or,
        0xc001_0000..=0xc001_7fff => Rule::OrIfAll,
        _ => return None,
    })
}

/// The properties of one object, by number. If a value is two numbers, the second is the upper half. `None`
/// if the object has no properties.
type Properties = Option<BTreeMap<u32, u128>>;

/// `.note.gnu.property`, if a property holds.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let (name, note) = (b".note.gnu.property", &link.properties.note);
        let section = || {
            let bytes = link.store.keep(note.clone());
            SyntheticSection::of_bytes(Kind::PropertyNote, name, elf::SHT_NOTE, READ_ONLY, WORD, bytes)
        };
        Created {
            sections: (!note.is_empty()).then(section).into_iter().collect(),
            absorbed: link.properties.absorbed.clone(),
            ..Created::default()
        }
    })
}

/// Merges the notes and build attributes of all objects.
pub fn merge<T: Target>(link: &Inputs<'_, T>, states: &SectionStates) -> MergedProperties {
    let mut absorbed = Vec::new();
    let found: Vec<_> = link
        .objects
        .par_iter()
        .map(|object| {
            let (properties, own) = read(link, states, object);
            let (attributes, further) = build_attributes::read(link, states, object);
            (with_attributes::<T>(properties, attributes), attributes, [own, further])
        })
        .collect();
    let mut said = BuildAttributes::default();
    let found: Vec<Properties> = found
        .into_iter()
        .map(|(properties, attributes, read)| {
            absorbed.extend(read.into_iter().flatten());
            said.features = said.features.or(attributes.features);
            said.signed_pointers = said.signed_pointers.or(attributes.signed_pointers);
            properties
        })
        .collect();
    report_missing(link, &found);
    print_instruction_sets(link, &found);
    report_different(link, &found);
    report_unsigned(link, &found);
    let taking_part = link.objects.iter().zip(&found).filter(|(object, _)| !object.just_symbols);
    let mut merged = merge_all(T::MACHINE, taking_part.map(|(_, properties)| properties));
    let options = &link.config.properties;
    for (property, bits) in machine::forced_properties(T::MACHINE, options) {
        *merged.entry(property).or_default() |= u128::from(bits);
    }
    for (property, bits) in machine::forbidden_properties(T::MACHINE, options) {
        merged.entry(property).and_modify(|value| *value &= !u128::from(bits));
    }
    match link.config.relocations.indirect_extern_access {
        Some(true) => *merged.entry(NEEDED_BY_ALL).or_default() |= INDIRECT_EXTERN_ACCESS,
        Some(false) => drop(merged.entry(NEEDED_BY_ALL).and_modify(|bits| *bits &= !INDIRECT_EXTERN_ACCESS)),
        None => {}
    }
    if options.memory_seal {
        merged.insert(MEMORY_SEAL, 0);
    }
    // An `OrIfAll` property whose value is 0 stays: it tells that all objects state what they use.
    merged.retain(|&property, value| {
        *value != 0
            || matches!(property, NO_COPY_ON_PROTECTED | MEMORY_SEAL)
            || matches!(rule(T::MACHINE, property), Some(Rule::OrIfAll | Rule::Same))
    });
    let features = machine::feature_property(T::MACHINE).and_then(|property| merged.get(&property));
    let features = features.map_or(0, |&bits| bits as u32);
    report_libraries(link, features);
    said.features = said.features.map(|_| features);
    let attributes = build_attributes::encode::<T::E>(said);
    MergedProperties { note: encode::<T>(&merged), features, attributes, absorbed }
}

/// Adds to the properties of an object what its attributes say.
fn with_attributes<T: Target>(mut properties: Properties, attributes: BuildAttributes) -> Properties {
    if let (Some(property), Some(features)) = (machine::feature_property(T::MACHINE), attributes.features) {
        *properties.get_or_insert_default().entry(property).or_default() |= u128::from(features);
    }
    if let (Some(property), Some((platform, version))) =
        (machine::signed_pointer_property(T::MACHINE), attributes.signed_pointers)
    {
        properties.get_or_insert_default().entry(property).or_insert(both(platform, version));
    }
    properties
}

/// Two numbers, packed into one value.
fn both(first: u64, second: u64) -> u128 {
    u128::from(first) | u128::from(second) << 64
}

/// The properties of an object, and the sections that hold them.
fn read<T: Target>(
    link: &Inputs<'_, T>,
    states: &SectionStates,
    object: &ObjectFile<'_, T::E>,
) -> (Properties, Vec<SectionId>) {
    let (mut properties, mut sections): (Properties, _) = (None, Vec::new());
    for index in object.special.iter().map(|&index| index as usize) {
        if object.headers[index].sh_type.get() != elf::SHT_NOTE || object.section_name(index) != NAME {
            continue;
        }
        let id = object.section_id(index as u32);
        if !states.is_alive(id) {
            continue;
        }
        sections.push(id);
        let bytes = object.section_bytes(index).unwrap_or(&[]);
        let mut end = 0;
        for note in notes::<T::E>(bytes, 8) {
            let descriptor = note.descriptor.as_ptr().addr() - bytes.as_ptr().addr();
            end = (descriptor + note.descriptor.len()).next_multiple_of(8);
            if note.name == b"GNU" && note.kind == NT_GNU_PROPERTY_TYPE_0 {
                let properties = properties.get_or_insert_default();
                if !read_descriptor::<T>(note.descriptor, properties) {
                    report_malformed(link, object, index);
                }
            }
        }
        if end < bytes.len() {
            report_malformed(link, object, index);
        }
    }
    (properties, sections)
}

/// Reads the array of properties. Returns false if it is cut short or a size is wrong.
fn read_descriptor<T: Target>(mut bytes: &[u8], properties: &mut BTreeMap<u32, u128>) -> bool {
    while !bytes.is_empty() {
        let Some((head, rest)) = bytes.split_first_chunk::<8>() else { return false };
        let property = U32::<T::E>::from_bytes([head[0], head[1], head[2], head[3]]).get();
        let size = U32::<T::E>::from_bytes([head[4], head[5], head[6], head[7]]).get() as usize;
        let Some(data) = rest.get(..size) else { return false };
        bytes = rest.get(size.next_multiple_of(8)..).unwrap_or(&[]);
        let value = match (rule(T::MACHINE, property), data) {
            (None, _) => continue,
            (Some(Rule::Any), []) => 1,
            (Some(Rule::Maximum), data) if let Some(value) = double::<T::E>(data) => value.into(),
            (Some(Rule::Same), data)
                if let Some((first, second)) = data.split_at_checked(8)
                    && let (Some(first), Some(second)) = (double::<T::E>(first), double::<T::E>(second)) =>
            {
                both(first, second)
            }
            (Some(Rule::And | Rule::Or | Rule::OrIfAll), &[a, b, c, d]) => {
                U32::<T::E>::from_bytes([a, b, c, d]).get().into()
            }
            _ => return false,
        };
        let known = properties.entry(property).or_default();
        let is_size = rule(T::MACHINE, property) == Some(Rule::Maximum);
        *known = if is_size { value.max(*known) } else { value | *known };
    }
    true
}

/// Reads a number of 8 bytes.
fn double<E: ByteOrder>(bytes: &[u8]) -> Option<u64> {
    Some(U64::<E>::from_bytes(bytes.try_into().ok()?).get())
}

fn report_malformed<T: Target>(link: &Inputs<'_, T>, object: &ObjectFile<'_, T::E>, index: usize) {
    link.sink.report(
        Diagnostic::warning(
            Code::MalformedInput,
            "a note or a program property is cut short or has a wrong size; the section is read up to there",
        )
        .at(Location::Section {
            file: object.name.to_string(),
            section: object.section_name_lossy(index),
            offset: 0,
        })
        .ordered(object.id.0, index as u32, 0),
    );
}

fn merge_all<'p>(
    machine: Machine,
    objects: impl Iterator<Item = &'p Properties> + Clone,
) -> BTreeMap<u32, u128> {
    let mut merged: BTreeMap<u32, u128> = BTreeMap::new();
    let known = objects.clone().flatten().flat_map(|properties| properties.keys().copied());
    for property in known {
        merged.insert(property, 0);
    }
    merged.retain(|property, value| {
        let values = objects.clone().map(|one| one.as_ref().and_then(|own| own.get(property)).copied());
        let combined = match rule(machine, *property) {
            None => None,
            Some(Rule::Maximum) => values.flatten().max(),
            Some(Rule::Any) => Some(1),
            Some(Rule::Same) => values.flatten().next(),
            Some(Rule::And) => values.reduce(|a, b| Some(a? & b?)).flatten(),
            Some(Rule::Or) => values.flatten().reduce(|a, b| a | b),
            Some(Rule::OrIfAll) => values.reduce(|a, b| Some(a? | b?)).flatten(),
        };
        *value = combined.unwrap_or(0);
        combined.is_some()
    });
    merged
}

fn encode<T: Target>(merged: &BTreeMap<u32, u128>) -> Vec<u8> {
    if merged.is_empty() {
        return Vec::new();
    }
    let word = |value: u32| U32::<T::E>::new(value).to_bytes();
    let mut descriptor = Vec::new();
    for (&property, &value) in merged {
        descriptor.extend(word(property));
        match rule(T::MACHINE, property) {
            Some(Rule::Any) | None => descriptor.extend(word(0)),
            Some(Rule::Maximum) => {
                descriptor.extend(word(8));
                descriptor.extend(U64::<T::E>::new(value as u64).to_bytes());
            }
            Some(Rule::Same) => {
                descriptor.extend(word(16));
                for number in [value as u64, (value >> 64) as u64] {
                    descriptor.extend(U64::<T::E>::new(number).to_bytes());
                }
            }
            Some(Rule::And | Rule::Or | Rule::OrIfAll) => {
                descriptor.extend(word(4));
                descriptor.extend(word(value as u32));
            }
        }
        descriptor.resize(descriptor.len().next_multiple_of(8), 0);
    }
    let mut out = Vec::with_capacity(16 + descriptor.len());
    out.extend(word(4));
    out.extend(word(descriptor.len() as u32));
    out.extend(word(NT_GNU_PROPERTY_TYPE_0));
    out.extend(b"GNU\0");
    out.extend(descriptor);
    out
}

/// Reports objects whose pointers are signed in different ways, because they cannot call each other.
fn report_different<T: Target>(link: &Inputs<'_, T>, found: &[Properties]) {
    let Some(property) = machine::signed_pointer_property(T::MACHINE) else { return };
    let value = |properties: &Properties| properties.as_ref().and_then(|own| own.get(&property)).copied();
    let mut having = link.objects.iter().zip(found).filter_map(|(object, own)| Some((object, value(own)?)));
    let text = |value: u128| format!("platform {:#x}, version {:#x}", value as u64, (value >> 64) as u64);
    let Some((first, expected)) = having.next() else { return };
    for (object, value) in having.filter(|(_, value)| *value != expected) {
        let message =
            format!("pointers are signed for {}, and in {} for {}", text(value), first.name, text(expected));
        link.sink.report_recoverable(
            Diagnostic::error(Code::AbiMismatch, message)
                .at(Location::File(object.name.to_string()))
                .help("compile all objects for one ABI of signed pointers")
                .ordered(object.id.0, 0, 0),
        );
    }
}

/// `-z pauth-report=`: reports objects that do not say how their pointers are signed, if any object does.
fn report_unsigned<T: Target>(link: &Inputs<'_, T>, found: &[Properties]) {
    let Some(property) = machine::signed_pointer_property(T::MACHINE) else { return };
    let Some(severity) = severity(link.config.properties.pauth_report) else { return };
    let says = |own: &Properties| own.as_ref().is_some_and(|own| own.contains_key(&property));
    let with_own = || link.objects.iter().zip(found);
    let Some((first, _)) = with_own().find(|(_, own)| says(own)) else { return };
    for (object, _) in with_own().filter(|(object, own)| !says(own) && !object.just_symbols) {
        link.sink.report(
            Diagnostic::new(severity, Code::MissingProperty, "no property says how pointers are signed")
                .at(Location::File(object.name.to_string()))
                .note(format!("in {}, one does", first.name))
                .ordered(object.id.0, 0, 0),
        );
    }
}

fn severity(report: Report) -> Option<Severity> {
    match report {
        Report::Ignore => None,
        Report::Warning => Some(Severity::Warning),
        Report::Error => Some(Severity::Error),
    }
}

/// `-z cet-report=`, `-z bti-report=`, `-z gcs-report=`: reports objects that lack the feature asked for.
fn report_missing<T: Target>(link: &Inputs<'_, T>, found: &[Properties]) {
    let Some(property) = machine::feature_property(T::MACHINE) else { return };
    let checks = machine::reported_features(T::MACHINE, &link.config.properties);
    for (object, properties) in link.objects.iter().zip(found).filter(|(object, _)| !object.just_symbols) {
        let value = properties.as_ref().and_then(|own| own.get(&property)).copied().unwrap_or(0);
        for &(report, features) in &checks {
            let Some(severity) = severity(report) else { continue };
            if let Some(message) = missing(features, value as u32) {
                link.sink.report(
                    Diagnostic::new(severity, Code::MissingProperty, message)
                        .at(Location::File(object.name.to_string()))
                        .ordered(object.id.0, 0, 0),
                );
            }
        }
    }
}

/// `-z isa-level-report=`: prints which instruction sets each object needs or uses, if it says so.
fn print_instruction_sets<T: Target>(link: &Inputs<'_, T>, found: &[Properties]) {
    let printed = machine::printed_properties(T::MACHINE, &link.config.properties);
    if printed.is_empty() {
        return;
    }
    for (object, properties) in link.objects.iter().zip(found) {
        for (line, (property, what)) in (0..).zip(&printed) {
            let Some(&value) = properties.as_ref().and_then(|own| own.get(property)) else { continue };
            let bits = (0..u32::BITS).map(|bit| 1 << bit).filter(|bit| value as u32 & bit != 0);
            let sets: Vec<String> = bits.map(machine::instruction_set).collect();
            let sets = if sets.is_empty() { "none".into() } else { sets.join(", ") };
            let message = format!("{}: {what}: {sets}", object.name);
            link.sink.report(Diagnostic::new(Severity::Note, Code::InstructionSet, message).ordered(
                object.id.0,
                0,
                line,
            ));
        }
    }
}

/// `-z gcs-report-dynamic=`: reports shared libraries that lack a feature of the output.
fn report_libraries<T: Target>(link: &Inputs<'_, T>, features: u32) {
    let (report, checked) = machine::reported_in_libraries(T::MACHINE, &link.config.properties);
    let (Some(property), Some(severity)) = (machine::feature_property(T::MACHINE), severity(report)) else {
        return;
    };
    if checked.iter().any(|(bit, _)| features & bit == 0) {
        return;
    }
    for library in &link.shared {
        let mut properties = BTreeMap::new();
        for (index, header) in library.headers.iter().enumerate() {
            if header.sh_type.get() != elf::SHT_NOTE || library.section_name(index) != NAME {
                continue;
            }
            let bytes = library.section_bytes(index).unwrap_or_default();
            let own = |note: &Note<'_>| note.name == b"GNU" && note.kind == NT_GNU_PROPERTY_TYPE_0;
            notes::<T::E>(bytes, 8).filter(own).for_each(|note| {
                read_descriptor::<T>(note.descriptor, &mut properties);
            });
        }
        let value = properties.get(&property).copied().unwrap_or(0);
        if let Some(message) = missing(checked, value as u32) {
            link.sink.report(
                Diagnostic::new(severity, Code::MissingProperty, format!("{message}, which the output has"))
                    .at(Location::File(library.name.to_string()))
                    .help("the dynamic linker may switch it off or refuse the program")
                    .ordered(library.id.0, 0, 0),
            );
        }
    }
}

/// The words for the features that `value` lacks.
fn missing(features: machine::ReportedFeatures, value: u32) -> Option<String> {
    let lacking = features.iter().filter(|(bit, _)| value & bit == 0);
    let missing: Vec<&str> = lacking.map(|(_, name)| *name).collect();
    let noun = if missing.len() == 1 { "property" } else { "properties" };
    (!missing.is_empty()).then(|| format!("missing {} {noun}", missing.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::X86_64;
    use zerocopy::byteorder::LittleEndian;

    const FEATURE_1_AND: u32 = 0xc000_0002;
    const ISA_1_NEEDED: u32 = 0xc000_8002;
    const ISA_1_USED: u32 = 0xc001_0002;

    fn object(properties: &[(u32, u128)]) -> Properties {
        Some(properties.iter().copied().collect())
    }

    #[test]
    fn values_join_by_the_rule_of_their_property() {
        let all = [
            object(&[(FEATURE_1_AND, 3), (ISA_1_NEEDED, 1), (ISA_1_USED, 1), (STACK_SIZE, 0x1000)]),
            object(&[(FEATURE_1_AND, 1), (ISA_1_USED, 2), (STACK_SIZE, 0x4000)]),
        ];
        let merged = merge_all(Machine::X86_64, all.iter());
        assert_eq!(merged[&FEATURE_1_AND], 1);
        assert_eq!(merged[&ISA_1_NEEDED], 1);
        assert_eq!(merged[&ISA_1_USED], 3);
        assert_eq!(merged[&STACK_SIZE], 0x4000);
        let older = [object(&[(0xc000_0001, 5)]), None, object(&[(0xc000_0001, 3)])];
        assert_eq!(merge_all(Machine::X86_64, older.iter())[&0xc000_0001], 7);
        let with_silent = [all[0].clone(), None];
        let merged = merge_all(Machine::X86_64, with_silent.iter());
        assert_eq!(merged.keys().copied().collect::<Vec<_>>(), [STACK_SIZE, ISA_1_NEEDED]);
    }

    #[test]
    fn encoded_properties_read_back_the_same() {
        let merged = BTreeMap::from([(FEATURE_1_AND, 3), (STACK_SIZE, 0x2000), (NO_COPY_ON_PROTECTED, 1)]);
        let bytes = encode::<X86_64>(&merged);
        assert_eq!(bytes.len() % 8, 0);
        let note = notes::<LittleEndian>(&bytes, 8).next().unwrap();
        let mut read = BTreeMap::new();
        assert!(read_descriptor::<X86_64>(note.descriptor, &mut read));
        assert_eq!(read, merged);
    }

    #[test]
    fn truncated_lists_are_malformed() {
        let mut read = BTreeMap::new();
        assert!(!read_descriptor::<X86_64>(&[2, 0, 0, 0xc0, 4, 0, 0, 0, 1], &mut read));
        assert!(!read_descriptor::<X86_64>(&[2, 0, 0, 0xc0, 2, 0, 0, 0, 1, 1], &mut read));
    }
}
