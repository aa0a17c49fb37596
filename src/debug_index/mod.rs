//! Indexes of debug information. A debugger with an index finds a name or an address without reading all
//! debug information first.
//!
//! [`object`] reads the objects one by one: the units, the addresses that they cover, and their names. A
//! compiler may list the names (`-ggnu-pubnames`, [`public_names`]); otherwise the linker reads them from the
//! entries ([`entries`], [`split`]). Places are sections with offsets, not addresses, so the linker can read
//! objects before the layout. [`joined`] puts the objects together. [`gdb_index`] is the format of
//! `.gdb_index` and knows nothing of linking.
//!
//! Some compilers write an index themselves (`.debug_names`). The linker reads these object by object
//! ([`name_tables`]) and joins them ([`debug_names`]).
//!
//! They see an object through [`view`], which is the same for all machines.
//!
//! [`ends`] is of another kind: it changes what debug information says of code whose end is gone.

pub mod debug_names;
pub mod dwarf;
pub mod ends;
pub mod entries;
pub mod gdb_index;
pub mod joined;
pub mod name_tables;
pub mod object;
pub mod public_names;
pub mod split;
pub mod units;
pub mod view;
