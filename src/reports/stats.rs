//! `--stats`: numbers of a link, as lines or as JSON with stable keys.

use crate::arch::Target;
use crate::cli::StatsFormat;
use crate::ids::SectionId;
use crate::phase::Image;
use crate::phase::SectionState;
use crate::sframe_output;
use crate::symbols::Definition;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt::Write;

/// The numbers in the given form.
pub fn stats<T: Target>(link: &Image<'_, T>, format: StatsFormat) -> String {
    let mut numbers = numbers(link);
    numbers.extend(super::unwind_table::numbers(link));
    let frames = sframe_output::report::collect(link);
    let mut text = String::new();
    match format {
        StatsFormat::Text => {
            let width = numbers.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
            let _ = writeln!(text, "{:<width$} sframe-ld {}", "linker", env!("CARGO_PKG_VERSION"));
            for (key, value) in numbers {
                let _ = writeln!(text, "{key:<width$} {value}");
            }
            let _ = write!(text, "{frames}{}", super::unwind_table::lines(link));
        }
        StatsFormat::Json => {
            let json = serde_json::to_string(&Stats { numbers, frames });
            let _ = writeln!(text, "{}", json.expect("numbers and names have a JSON form"));
        }
    }
    text
}

/// All numbers as one object, in their order.
struct Stats {
    numbers: Vec<(&'static str, u64)>,
    frames: sframe_output::report::Report,
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("linker", "sframe-ld")?;
        map.serialize_entry("version", env!("CARGO_PKG_VERSION"))?;
        for (key, value) in &self.numbers {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry("sframe", &self.frames)?;
        map.end()
    }
}

fn numbers<T: Target>(link: &Image<'_, T>) -> Vec<(&'static str, u64)> {
    let count = |bits: SectionState| {
        let inputs = (0..link.first_internal()).map(SectionId);
        inputs.filter(|&id| link.sections.is(id, bits)).count() as u64
    };
    let members = link.objects.iter().filter(|object| object.name.member.is_some()).count();
    let definitions = link.definitions.of.iter();
    let defined = definitions.filter(|definition| **definition != Definition::Undefined).count();
    vec![
        ("objects", link.objects.len() as u64),
        ("archive_members", members as u64),
        ("shared_libraries", link.shared.len() as u64),
        ("input_bytes", link.objects.iter().map(|object| object.bytes.len() as u64).sum()),
        ("input_sections", u64::from(link.first_internal())),
        ("sections_discarded_by_group", count(SectionState::DISCARDED_BY_GROUP)),
        ("sections_discarded_by_script", count(SectionState::DISCARDED_BY_SCRIPT)),
        ("sections_collected", count(SectionState::COLLECTED)),
        ("global_symbols", link.globals.len() as u64),
        ("global_symbols_defined", defined as u64),
        ("dynamic_symbols", link.dynamic.symbols.len() as u64),
        ("relative_relocations", link.relative_count),
        ("got_words", link.slots.got_words.into()),
        ("plt_entries", link.slots.plt.into()),
        ("copy_relocations", link.copies.all.len() as u64),
        ("output_sections", link.layout.chunks.len() as u64),
        ("output_bytes", link.file.size),
    ]
}
