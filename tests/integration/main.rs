//! Links real programs, runs them, and asserts on what the files hold. One binary, so that the
//! product links into one test program; a module per topic.

mod support;

mod aarch64;
mod archives;
mod attributes;
mod drivers;
mod dynamic;
mod effects;
mod exceptions;
mod frames_and_merge;
mod gc;
mod got_plt;
mod groups;
mod ifunc;
mod init_order;
mod inputs;
mod kept_inputs;
mod kernel;
mod layout;
mod link_order;
mod notes;
mod options;
mod programs;
mod relocatable;
mod reports;
mod robust;
mod s390x_relocations;
mod sframe_attach;
mod sframe_concat;
mod sframe_derive;
mod sframe_from_eh_frame;
mod sframe_index;
mod sframe_machines;
mod sframe_readers;
mod sframe_relocatable;
mod sframe_split;
mod sframe_split_link;
mod sframe_violation;
mod symbol_errors;
mod symbols;
mod tls;
mod versions;
mod walk;
mod warnings;
