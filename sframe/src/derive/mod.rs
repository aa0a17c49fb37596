//! `sframe derive`: frames from `.eh_frame`.

mod object;

use super::args::Derive;
use super::edit::{Image, ORDER_LITTLE, byte_order, check_output, read_file, replace_file};
use super::functions::Functions;
use super::open::Problem;
use super::report::Outcome;
use zerocopy::byteorder::{BE, ByteOrder, LE};

/// Writes a new object, or the section of a linked file.
pub fn run(arguments: &Derive) -> Outcome {
    Outcome::of(derive(arguments))
}

fn derive(arguments: &Derive) -> Result<(), Problem> {
    check_output(arguments.output.as_deref().unwrap_or(&arguments.file), None)?;
    let bytes = read_file(&arguments.file)?;
    let name = arguments.file.display().to_string();
    match byte_order(&name, &bytes)? {
        ORDER_LITTLE => derive_image(&Image::<LE>::parse(&name, &bytes)?, arguments),
        _ => derive_image(&Image::<BE>::parse(&name, &bytes)?, arguments),
    }
}

fn derive_image<E: ByteOrder>(image: &Image<'_, E>, arguments: &Derive) -> Result<(), Problem> {
    let options = arguments.format.options(image.abi()?);
    let left_out = if image.is_relocatable() {
        let (bytes, left_out) = object::derive(image, options)?;
        let output = arguments.output.as_deref().unwrap_or(&arguments.file);
        replace_file(output, &bytes, Some(&arguments.file))?;
        left_out
    } else {
        let Some(output) = &arguments.output else {
            let message =
                "a linked file: name a file for the section with --output, or attach it with attach";
            return Err(image.problem(message));
        };
        check_output(output, Some(&arguments.file))?;
        let functions = Functions::derive(image, options.abi)?;
        let (bytes, left_out) = functions.write(image.name, options, arguments.address)?;
        replace_file(output, &bytes, None)?;
        left_out
    };
    super::attach::report(image.name, &left_out, arguments.verbose);
    Ok(())
}
