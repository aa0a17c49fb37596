//! `sframe lookup`: the row that holds at an address.

use super::args::Lookup;
use super::open::{Input, Kind, Problem, for_each_input};
use super::registers;
use super::report::{Outcome, complain, hexadecimal, print, print_json};
use super::whole::{HandlerDump, WholeDump};
use super::{compact, derived};
use diagnostics::words::{count, shown};
use serde::Serialize;
use sframe_format::light;
use sframe_format::{Match, PauthKey, PcType, UnwindRules};
use std::fmt::Write;

/// The answer for one address.
#[derive(Serialize)]
struct Answer {
    file: String,
    address: String,
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<RowAnswer>,
}

#[derive(Serialize)]
struct RowAnswer {
    section: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<String>,
    /// Whether the row belongs to a unit of the light form.
    light: bool,
    version: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    fde: Option<String>,
    function: String,
    function_address: String,
    function_size: u32,
    row_start: u32,
    rules: String,
    signal: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_size: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pauth_key: Option<&'static str>,
    /// Who handles exceptions that pass the function, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    handler: Option<String>,
}

/// Looks up all addresses.
pub fn run(arguments: &Lookup) -> Outcome {
    let mut answers = Vec::new();
    let mut any = false;
    let result = for_each_input(&arguments.file, arguments.address, &mut |mut input| {
        if arguments.derivation.wanted(&input) {
            derived::replace(&mut input, arguments.derivation.version())?;
        }
        any |= input.has_rows();
        for wanted in &arguments.addresses {
            for address in addresses(&input, wanted)? {
                answers.push(answer(&input, address, arguments.demangle)?);
            }
        }
        Ok(())
    });
    let file = arguments.file.display().to_string();
    let result = result.and_then(|()| {
        if any {
            Ok(())
        } else {
            Err(Problem::new(file, "no SFrame section; --derived looks up what .eh_frame gives"))
        }
    });
    if let Err(problem) = result {
        complain(&problem);
        return Outcome::Unusable;
    }
    let printed = if arguments.json {
        print_json(&answers)
    } else {
        print(&answers.iter().map(text).collect::<String>())
    };
    let complete = !answers.is_empty() && answers.iter().all(|answer| answer.found.is_some());
    let outcome = if complete { Outcome::Fine } else { Outcome::Findings };
    outcome.max(Outcome::of(printed))
}

/// The addresses that a word on the command line stands for: the word itself, or those of a symbol or
/// section, with an offset.
fn addresses(input: &Input<'_>, word: &str) -> Result<Vec<u64>, Problem> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let literal = match (word.strip_prefix("0x"), input.kind) {
        (Some(digits), _) => number(digits),
        (None, Kind::Linked | Kind::Raw) => number(word),
        (None, Kind::Relocatable) => None,
    };
    let (name, offset) = match word.rsplit_once('+') {
        Some((name, offset)) => (name, number(offset.strip_prefix("0x").unwrap_or(offset))),
        None => (word, Some(0)),
    };
    let symbols = input.places.named(name).map(|symbol| symbol.address);
    let sections = input.places.sections().iter().filter(|s| s.name == name).map(|s| s.address);
    let mut found: Vec<u64> =
        symbols.chain(sections).filter_map(|base| Some(base.wrapping_add(offset?))).collect();
    found.sort_unstable();
    found.dedup();
    match (found.is_empty(), literal) {
        (false, _) => Ok(found),
        (true, Some(address)) => Ok(vec![address]),
        (true, None) => {
            let message = format!(
                "{word:?} is neither a hexadecimal address nor a symbol or section, which may be followed by +offset"
            );
            Err(Problem::new(&*input.name, message))
        }
    }
}

fn answer(input: &Input<'_>, address: u64, demangled: bool) -> Result<Answer, Problem> {
    let mut answer = Answer {
        file: input.name.clone(),
        address: hexadecimal(address),
        place: input.places.describe(address, demangled),
        found: None,
    };
    for section in &input.sframe {
        for blob in section.section().blobs() {
            let found = blob
                .lookup(address)
                .map_err(|error| Problem::new(&*input.name, format!("section {}: {error}", section.name)))?;
            if let Some(found) = found.filter(|_| answer.found.is_none()) {
                let blob_name = hexadecimal(blob.header_offset() as u64);
                let light = blob.header().is_light();
                let version = if light { light::VERSION } else { blob.header().version as u8 };
                answer.found = Some(describe(
                    input,
                    &found,
                    section.name.clone(),
                    (blob_name, light),
                    version,
                    demangled,
                ));
            }
        }
    }
    if answer.found.is_none() {
        let found = compact::look_up(input, address)?;
        answer.found = found.map(|found| describe_entry(input, &found, demangled));
    }
    Ok(answer)
}

/// Describes the row of a compact table. The table knows no functions, so the entry is shown as one.
fn describe_entry(input: &Input<'_>, found: &compact::CompactRow, demangled: bool) -> RowAnswer {
    let UnwindRules { abi, signal, rules } = found.rules;
    let more = found.more.as_ref().map(WholeDump::text).unwrap_or_default();
    RowAnswer {
        section: found.section.clone(),
        blob: None,
        light: false,
        version: found.version,
        fde: None,
        function: input.places.describe(found.function, demangled),
        function_address: hexadecimal(found.function),
        function_size: found.function_size,
        row_start: (found.start - found.function) as u32,
        rules: registers::rules(abi, &rules) + &more,
        signal,
        repeat_size: None,
        pauth_key: None,
        handler: found.handler.as_ref().map(HandlerDump::text),
    }
}

fn describe(
    input: &Input<'_>,
    found: &Match,
    section: String,
    (blob, light): (String, bool),
    version: u8,
    demangled: bool,
) -> RowAnswer {
    let masked = found.attributes.pc_type == PcType::Mask;
    let key = if found.pauth_key() == PauthKey::B { "b" } else { "a" };
    RowAnswer {
        section,
        blob: Some(blob),
        light,
        version,
        fde: Some(hexadecimal(found.fde.offset as u64)),
        function: input.places.describe(found.fde.address, demangled),
        function_address: hexadecimal(found.fde.address),
        function_size: found.fde.size,
        row_start: found.row.start,
        rules: registers::rules(found.abi, &found.row.rules),
        signal: found.is_signal(),
        repeat_size: masked.then_some(found.attributes.repeat_size),
        pauth_key: found.abi.is_aarch64().then_some(key),
        handler: None,
    }
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{}\n", shown(&format!("{}: {}", answer.file, answer.place)));
    let Some(found) = &answer.found else {
        text.push_str("  no row\n");
        return text;
    };
    let signal = if found.signal { ", signal frame" } else { "" };
    let repeated = found.repeat_size.map(|size| format!(", repeats every {}", count(size, "byte")));
    let (repeated, size) = (repeated.unwrap_or_default(), count(found.function_size, "byte"));
    let _ = writeln!(text, "  function: {}, {size}{signal}{repeated}", shown(&found.function));
    let _ = writeln!(text, "  row +{:x}: {}", found.row_start, found.rules);
    if let Some(handler) = &found.handler {
        let _ = writeln!(text, "  handler: {handler}");
    }
    let (whole, part) = if found.light { ("light unit", "function") } else { ("blob", "FDE") };
    let place = match (&found.blob, &found.fde) {
        (Some(blob), Some(fde)) => format!("{whole} at {blob} (V{}), {part} at {fde}", found.version),
        _ => format!("compact table (V{}), entry of {}", found.version, found.function_address),
    };
    let _ = writeln!(text, "  from: {}, {place}", shown(&found.section));
    text
}

#[cfg(test)]
mod tests {
    use super::{addresses, answer};
    use crate::fixtures;
    use crate::open::open_elf;

    #[test]
    fn symbols_sections_and_addresses_lead_to_rows() {
        let name = "linked/prog.x86_64.ld2.47";
        let bytes = std::fs::read(fixtures::path(name)).unwrap();
        let input = open_elf(name, &bytes).unwrap();
        let rules = |word: &str| {
            let address = addresses(&input, word).unwrap()[0];
            let found = answer(&input, address, false).unwrap().found;
            found.map(|found| (found.row_start, found.rules))
        };
        let row = |start, cfa: &str| Some((start, format!("cfa={cfa} fp=u ra=*(cfa-8)")));
        assert_eq!(rules("0x401040"), row(0, "rsp+8"));
        assert_eq!(rules("401045"), row(4, "rsp+16"));
        assert_eq!(rules("_start+5"), row(4, "rsp+16"));
        // The second entry of the procedure linkage table.
        assert_eq!(rules("0x40101b"), row(0xb, "rsp+16"));
        assert_eq!(rules("0x10"), None);
        assert!(addresses(&input, "no such symbol").is_err());
    }
}
