//! Any bytes through the converter.

#![no_main]
#![allow(dead_code)]

#[path = "../exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::convert(bytes));
