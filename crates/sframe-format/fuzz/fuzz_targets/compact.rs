//! Any bytes as a compact table, and any SFrame made into one.

#![no_main]
#![allow(dead_code)]

#[path = "../exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::compact(bytes));
