//! Indexes of debug information, by which debuggers find a name or an address without reading it all.
//!
//! Objects are read one by one ([`object`]): the units, the addresses that they cover, and their names, which
//! compilers list (`-ggnu-pubnames`, [`public_names`]) or which are read from the entries ([`entries`],
//! [`split`]). Places are sections and offsets in them, not addresses, so that objects can be read before the
//! layout. [`joined`] puts the objects together. [`gdb_index`] is the format of `.gdb_index` and knows
//! nothing of linking.
//!
//! Indexes that compilers made (`.debug_names`) are read object by object, too ([`name_tables`]), and joined
//! ([`debug_names`]).

pub mod debug_names;
pub mod dwarf;
pub mod entries;
pub mod gdb_index;
pub mod joined;
pub mod name_tables;
pub mod object;
pub mod public_names;
pub mod split;
pub mod units;
