//! The tables in the kernel.
//!
//! A BPF map has a fixed size, and memory for all the tables that there might be would be wasted. So tables
//! lie in blocks of one size. Each block is a BPF map in a map of maps and is only made when it is needed.
//! Tables follow one another and may extend over the ends of blocks. They stay until the program goes,
//! because files are mapped again and again.

use crate::layout::Table;
use aya::Pod;
use aya::maps::{Array, ArrayOfMaps, MapData};
use sframe_format::{Abi, CompactTable};
use std::collections::HashMap;

/// Bytes of a block.
const BLOCK: usize = 1 << 18;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Block([u8; BLOCK]);

// SAFETY: a block consists of bytes.
unsafe impl Pod for Block {}

/// All tables.
pub struct Tables {
    blocks: ArrayOfMaps<MapData, Array<MapData, Block>>,
    files: Array<MapData, Table>,
    /// The places of tables by files. `None`: the file has none.
    known: HashMap<u32, Option<Table>>,
    /// Bytes up to the end of the last table.
    used: usize,
    /// The last block, which new tables fill: its map, and a copy of its bytes.
    last: Option<(Array<MapData, Block>, Box<Block>)>,
}

impl Tables {
    /// No tables.
    pub fn new(blocks: ArrayOfMaps<MapData, Array<MapData, Block>>, files: Array<MapData, Table>) -> Self {
        Self { blocks, files, known: HashMap::new(), used: 0, last: None }
    }

    /// Whether a file was added.
    pub fn knows(&self, file: u32) -> bool {
        self.known.contains_key(&file)
    }

    /// Records that a file has no table.
    pub fn add_none(&mut self, file: u32) {
        self.known.entry(file).or_default();
    }

    /// Records that a file has the same table as another one, which was added before.
    pub fn add_same(&mut self, file: u32, other: u32) -> Result<(), String> {
        let description = self.known.get(&other).copied().flatten();
        self.known.insert(file, description);
        match description {
            Some(description) => self.files.set(file, description, 0).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Adds the table of a file.
    pub fn add(&mut self, file: u32, table: &CompactTable<&[u8]>) -> Result<(), String> {
        self.add_none(file);
        if table.header().abi != Abi::Amd64 {
            return Err(format!("a table for {}", table.header().abi));
        }
        table.check().map_err(|error| error.to_string())?;
        let start = self.used.next_multiple_of(8);
        let full = || "there is no room for more tables".to_owned();
        let place = u32::try_from(start).map_err(|_| full())?;
        let description = Table::new(table, place).ok_or_else(full)?;
        self.used = start;
        self.push(table.data())?;
        self.known.insert(file, Some(description));
        // This comes after the bytes, so that no look-up uses a table that is not complete yet.
        self.files.set(file, description, 0).map_err(|error| error.to_string())
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let (number, from) = (self.used / BLOCK, self.used % BLOCK);
            if from == 0 || self.last.is_none() {
                self.last = Some((Array::create(1, 0).map_err(|error| error.to_string())?, empty()));
            }
            let Some((map, block)) = &mut self.last else { return Ok(()) };
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK - from));
            block.0[from..from + part.len()].copy_from_slice(part);
            map.set(0, block.as_ref(), 0).map_err(|error| error.to_string())?;
            if from == 0 {
                self.blocks.set(number as u32, map, 0).map_err(|error| error.to_string())?;
            }
            self.used += part.len();
            bytes = rest;
        }
        Ok(())
    }

    /// The size of all blocks, and how much of it is used, in bytes.
    pub fn bytes(&self) -> (u64, u64) {
        (self.used.next_multiple_of(BLOCK) as u64, self.used as u64)
    }
}

fn empty() -> Box<Block> {
    let bytes = vec![0; BLOCK].into_boxed_slice();
    // SAFETY: a block is an array of the same number of bytes, with the same alignment.
    unsafe { Box::from_raw(Box::into_raw(bytes).cast()) }
}
