//! Any bytes and any program counter through the look-up.

#![no_main]
#![allow(dead_code)]

#[path = "../exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::look_up(bytes));
