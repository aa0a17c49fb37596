//! Gives the shared library its name for the dynamic linker, which rustc does not do. The name ends with the
//! version of the interface. The version changes when programs that were linked with an older library would
//! break.
//!
//! Programs look for the library by this name, so a link with this name lies beside the library that is
//! built.

use std::path::{Path, PathBuf};

const SONAME: &str = "libsframe_stacks.so.1";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder"));
    // Only programs that run in the build folder need the link. The build itself does not, so it ignores a
    // failure here.
    if let Some(profile) = out.ancestors().nth(3) {
        let link = profile.join(SONAME);
        if !is_link_to_library(&link) {
            let _ = std::fs::remove_file(&link);
            let _ = std::os::unix::fs::symlink("libsframe_stacks.so", &link);
        }
    }
}

fn is_link_to_library(link: &Path) -> bool {
    std::fs::read_link(link).is_ok_and(|to| to == Path::new("libsframe_stacks.so"))
}
