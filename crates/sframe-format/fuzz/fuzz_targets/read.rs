//! Any bytes through the reader.

#![no_main]
#![allow(dead_code)]

#[path = "../exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::read(bytes));
