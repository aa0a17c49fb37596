//! The passes of a link, one file each.

pub mod split_eh_frames;
