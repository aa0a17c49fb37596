//! Compiles the one function that Rust cannot define, because it takes a variable number of arguments.

fn main() {
    println!("cargo::rerun-if-changed=src/message.c");
    cc::Build::new().file("src/message.c").compile("linker_plugin_message");
}
