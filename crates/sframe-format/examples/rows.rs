//! Prints the functions and rows of a program's SFrame section, or the row of one address:
//! `cargo run --example rows -- PROGRAM [ADDRESS]`.

use object::{Object, ObjectSection};
use sframe_format::{Section, SectionIndex};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = std::fs::read(arguments.next().ok_or("usage: rows PROGRAM [ADDRESS]")?)?;
    let file = object::File::parse(&*program)?;
    let section = file.section_by_name(".sframe").ok_or("the program has no section .sframe")?;
    let (bytes, address) = (section.data()?, section.address());
    match arguments.next() {
        Some(wanted) => look_up(bytes, address, u64::from_str_radix(wanted.trim_start_matches("0x"), 16)?),
        None => print_all(bytes, address),
    }
}

/// All functions, blob by blob.
fn print_all(bytes: &[u8], address: u64) -> Result<(), Box<dyn Error>> {
    for blob in Section::new(bytes, address).blobs() {
        for fde in blob.fdes() {
            println!("{:#x}, {} bytes", fde.address, fde.size);
            let attributes = blob.attributes(&fde)?;
            for row in blob.rows(&attributes) {
                let row = row?;
                println!("  {:#x}: {}", fde.address + u64::from(row.start), row.rules);
            }
        }
    }
    Ok(())
}

/// Prints the row of an address. The index is made once and serves many look-ups.
fn look_up(bytes: &[u8], address: u64, wanted: u64) -> Result<(), Box<dyn Error>> {
    let index = SectionIndex::new(bytes.to_vec(), address);
    match index.lookup(wanted)? {
        Some(found) => println!("{wanted:#x}: {}", found.row.rules),
        None => println!("{wanted:#x}: no function"),
    }
    Ok(())
}
