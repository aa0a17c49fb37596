//! `sframe index`: all blobs of a finished file become one sorted blob.

use super::args::Index;
use super::attach::{Change, Form, change_file, report};
use super::edit::{Image, ORDER_LITTLE, byte_order, check_output, read_file, replace_file};
use super::functions::Functions;
use super::open::{Problem, open_elf};
use super::report::Outcome;
use zerocopy::byteorder::{BE, ByteOrder, LE};

/// Writes the changed file, or the section alone.
pub fn run(arguments: &Index) -> Outcome {
    Outcome::of(index(arguments))
}

fn index(arguments: &Index) -> Result<(), Problem> {
    let input = arguments.raw.map(|_| arguments.change.file.as_path());
    check_output(arguments.change.output(), input)?;
    let bytes = read_file(&arguments.change.file)?;
    let name = arguments.change.file.display().to_string();
    match byte_order(&name, &bytes)? {
        ORDER_LITTLE => index_image(&Image::<LE>::parse(&name, &bytes)?, arguments),
        _ => index_image(&Image::<BE>::parse(&name, &bytes)?, arguments),
    }
}

fn index_image<E: ByteOrder>(image: &Image<'_, E>, arguments: &Index) -> Result<(), Problem> {
    let input = open_elf(image.name, image.bytes)?;
    if image.is_relocatable() {
        return Err(image
            .problem("a relocatable object, whose functions have no addresses to sort by; link it first"));
    }
    if input.sframe.is_empty() {
        return Err(image.problem("no SFrame section"));
    }
    let mut functions = Functions::default();
    let abi = image.abi()?;
    input.sframe.iter().for_each(|section| functions.read(&section.section(), abi));
    functions.keep_code(image);
    let change = &arguments.change;
    let (Some(address), Some(output)) = (arguments.raw, &change.output) else {
        return change_file(image, &functions, &Change::new(image, change, abi));
    };
    let (bytes, left_out) = match Form::of(change, abi) {
        Form::Blob(options) => functions.write(image.name, options, address)?,
        Form::Compact => functions.write_compact(image.name, abi, address)?,
    };
    replace_file(output, &bytes, None)?;
    report(image.name, &left_out, change.verbose);
    Ok(())
}
