//! The passes of a link, one file each, named by what they do. `pipeline.rs` calls them in order.

pub mod assign_versions;
pub mod bind_versions;
pub mod build_synthetics;
pub mod collect_garbage;
pub mod compress_debug;
pub mod compute_values;
pub mod create_relocatable;
pub mod create_synthetics;
pub mod define_linker_symbols;
pub mod extract_members;
pub mod index_objects;
pub mod keep_eh_frames;
pub mod lay_out;
pub mod match_script;
pub mod merge_strings;
pub mod open_inputs;
pub mod parse_inputs;
pub mod read_scripts;
pub mod read_versions;
pub mod scan_relocations;
pub mod select_comdats;
pub mod select_definitions;
pub mod settle_symbols;
pub mod split_eh_frames;
pub mod unpack_sections;
pub mod write_output;
