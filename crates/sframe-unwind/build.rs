//! Gives the shared library its name for the dynamic linker, which Rust's compiler does not.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsframe_unwind.so");
}
