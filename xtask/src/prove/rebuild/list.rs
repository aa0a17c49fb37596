//! The source packages to build, smallest first, chosen for variety.

/// A source package.
pub struct Source {
    pub name: &'static str,
    /// What is special about how it is built or linked, if something is.
    pub about: &'static str,
    /// Why the builds of the two linkers differ, if they differ and neither linker is wrong.
    pub explained: Option<&'static str>,
    /// Whether it throws exceptions, ends threads or shows its own stacks. Then it is also built with a table
    /// in place of `.eh_frame`.
    pub unwinds: bool,
}

const fn of(name: &'static str, about: &'static str) -> Source {
    Source { name, about, explained: None, unwinds: false }
}

impl Source {
    const fn unwinds(self) -> Self {
        Source { unwinds: true, ..self }
    }
}

/// Why programs that use `environ` have an additional dynamic symbol.
const ENVIRON: &str = "libc's environ is copied under all its names, as gold, lld and mold do; GNU ld keeps those alone that are mentioned or strong";

/// All packages, in the order in which they are built.
pub static SOURCES: [Source; 83] = [
    of("bzip2", "plain make, a library by hand"),
    of("zlib", "a configure of its own, a version script"),
    of("lua5.4", "libtool without automake"),
    of("libyaml", "automake"),
    of("popt", "automake, a version script"),
    of("expat", "automake, C++ in its tests"),
    of("json-c", "CMake, a version script"),
    of("cjson", "CMake"),
    of("brotli", "CMake"),
    of("snappy", "CMake, C++").unwinds(),
    of("fmtlib", "CMake, C++ templates"),
    of("libjson-xs-perl", "a Perl extension"),
    of("jansson", "automake"),
    of("libogg", "automake"),
    of("libvorbis", "automake, version scripts"),
    of("lzo2", "automake, assembly"),
    of("tinyxml2", "CMake, C++").unwinds(),
    of("unittest++", "automake, C++, a library of tests").unwinds(),
    of("cppunit", "automake, C++, a library of tests").unwinds(),
    of("libjsoncpp", "CMake, C++").unwinds(),
    of("google-glog", "CMake, C++, shows its stacks by the other libunwind; its rules run no tests")
        .unwinds(),
    of("yaml-cpp", "CMake, C++").unwinds(),
    of("double-conversion", "CMake, C++"),
    of("catch2", "CMake, C++, a library of tests").unwinds(),
    of("leveldb", "CMake, C++, a database"),
    of("pugixml", "CMake, C++").unwinds(),
    of("msgpack-c", "CMake, C and C++").unwinds(),
    of("attr", "automake, symbol versions"),
    of("libseccomp", "automake, gperf"),
    of("libpcap", "a configure of its own, flex and bison"),
    of("nettle", "configure, assembly, symbol versions by a script that is made"),
    of("libsodium", "automake, assembly for several processors"),
    of("patch", "automake, gnulib"),
    Source { explained: Some(ENVIRON), ..of("diffutils", "automake, gnulib") },
    Source { explained: Some(ENVIRON), ..of("m4", "automake, gnulib") },
    of("less", "configure, a pager"),
    of("htop", "automake, ncurses"),
    of("nano", "automake, ncurses"),
    of("bc", "automake, a calculator"),
    of("dav1d", "Meson, nasm"),
    Source {
        explained: Some(
            "as dash; tcp_close_while_connecting and tcp_connect_timeout want a network that is not there and fail now and then in GNU ld's programs, too",
        ),
        ..of("libuv1", "automake, threads").unwinds()
    },
    of("libevent", "automake, several libraries").unwinds(),
    Source { explained: Some(ENVIRON), ..of("dash", "automake, a shell") },
    Source { explained: Some(ENVIRON), ..of("sed", "automake, gnulib") },
    of("gzip", "automake, gnulib"),
    Source { explained: Some(ENVIRON), ..of("grep", "automake, gnulib") },
    of("file", "automake"),
    Source { explained: Some(ENVIRON), ..of("tmux", "automake") },
    of("xz-utils", "automake, symbol versions in C").unwinds(),
    Source {
        explained: Some(
            "libvorbis, which libsndfile needs, defines these names; GNU ld alone exports a program's for libraries that are not named",
        ),
        ..of("lame", "automake, nasm")
    },
    of("flac", "automake, C++ and assembly"),
    of("opus", "automake"),
    of("libpng1.6", "automake, versions by a script that is made"),
    of("libwebp", "automake"),
    Source { explained: Some(ENVIRON), ..of("nghttp2", "automake, C++").unwinds() },
    of("pcre2", "automake, a compiler of machine code"),
    of("re2", "plain make, C++, a version script"),
    of("libxml2", "automake, a version script, Python"),
    of("lxml", "Python extensions by Cython"),
    of("readline", "configure, a shared library by hand"),
    of("ncurses", "configure, version scripts"),
    Source { explained: Some(ENVIRON), ..of("bash", "configure, loadable objects") },
    of("minpack", "automake, Fortran"),
    of("lapack", "CMake, Fortran"),
    of("sqlite3", "automake, Tcl"),
    of("libffi", "automake, assembly, a version script; its tests call the compiler thousands of times"),
    of("jq", "automake, a static and a shared library; its tests run under valgrind"),
    Source {
        explained: Some(
            "as dash; tests of replication are random in number, and that of clients' eviction, which GNU ld's programs failed once, depends on timing",
        ),
        ..of("redis", "plain make, link-time optimization")
    },
    Source {
        explained: Some(
            "libX11, which libgd needs by libXpm, defines these names; GNU ld alone exports a module's for libraries that are not named",
        ),
        ..of("nginx", "a configure of its own, modules")
    },
    of("curl", "automake, symbol versions"),
    of("libjpeg-turbo", "CMake, nasm"),
    of("zstd", "plain make, assembly; its tests take gigabytes"),
    of("lz4", "plain make; its tests take gigabytes"),
    of("glib2.0", "Meson"),
    Source {
        explained: Some(
            "as dash; what is counted as failed are messages of git that begin with `ERROR:`, the same in both builds; no test failed",
        ),
        ..of("git", "plain make, C and Perl")
    },
    Source { explained: Some(ENVIRON), ..of("coreutils", "automake, a hundred programs") },
    of("openssl", "a configure in Perl, assembly, engines"),
    of("golang-github-mattn-go-sqlite3", "Go, linked by gcc for its C parts"),
    of("rust-fd-find", "Rust by cargo").unwinds(),
    of("python3.11", "link-time optimization, extensions"),
    of("elfutils", "automake, version scripts, a reader of ELF files"),
    of("libvpx", "a configure of its own, assembly"),
    Source { explained: Some(ENVIRON), ..of("boost1.74", "a builder of its own, C++") },
];
