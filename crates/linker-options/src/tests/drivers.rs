//! Command lines as compilers and build systems write them.

use super::*;

/// The words of a line.
fn line(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

const GCC_START: &str = "-plugin /usr/lib/gcc/x86_64-linux-gnu/12/liblto_plugin.so
    -plugin-opt=/usr/lib/gcc/x86_64-linux-gnu/12/lto-wrapper -plugin-opt=-fresolution=/tmp/cc3vqQzf.res
    -plugin-opt=-pass-through=-lgcc -plugin-opt=-pass-through=-lgcc_s -plugin-opt=-pass-through=-lc ";

#[test]
fn gcc_dynamic_pie() {
    let text = format!(
        "{GCC_START} --sysroot=/ -flto --build-id --eh-frame-hdr -m elf_x86_64 --hash-style=gnu --as-needed
        -export-dynamic -dynamic-linker /lib64/ld-linux-x86-64.so.2 -pie -o hello Scrt1.o crti.o crtbeginS.o
        -L/usr/lib/gcc/x86_64-linux-gnu/12 -L/lib/../lib hello.o -lgcc --push-state --as-needed -lgcc_s
        --pop-state -lc -lgcc --push-state --as-needed -lgcc_s --pop-state crtendS.o crtn.o"
    );
    let (config, inputs) = link(&line(&text));
    assert_eq!(config.mode, OutputMode::Executable { pie: true });
    assert_eq!(config.machine, Some(Machine::X86_64));
    assert_eq!(config.output, Path::new("hello"));
    assert_eq!(config.dynamic.dynamic_linker.as_deref(), Some(Path::new("/lib64/ld-linux-x86-64.so.2")));
    assert_eq!(config.dynamic.hash_style, HashStyle { sysv: false, gnu: true });
    assert!(config.dynamic.eh_frame_hdr && config.symbols.export_dynamic);
    assert_eq!(config.notes.build_id, BuildId::Sha1);
    let [plugin] = &config.lto.plugins[..] else { panic!("{:?}", config.lto) };
    assert_eq!(plugin.path, Path::new("/usr/lib/gcc/x86_64-linux-gnu/12/liblto_plugin.so"));
    assert_eq!(plugin.options.len(), 5);
    assert_eq!(plugin.options[4], b"-pass-through=-lc");
    let arguments: Vec<_> = inputs.iter().map(|input| input.argument.as_str()).collect();
    assert_eq!(
        arguments.join(" "),
        "Scrt1.o crti.o crtbeginS.o hello.o -lgcc -lgcc_s -lc -lgcc -lgcc_s crtendS.o crtn.o"
    );
    assert!(inputs.iter().all(|input| input.state.as_needed));
}

#[test]
fn gcc_static_pie() {
    let text = format!(
        "{GCC_START} --build-id --eh-frame-hdr -m elf_x86_64 --hash-style=gnu --as-needed -static -pie
        --no-dynamic-linker -z text -pie rcrt1.o crti.o crtbeginS.o -L/usr/lib hello.o --start-group -lgcc
        -lgcc_eh -lc --end-group crtendS.o crtn.o"
    );
    let (config, inputs) = link(&line(&text));
    assert!(config.static_link && config.dynamic.no_dynamic_linker);
    assert_eq!(config.mode, OutputMode::Executable { pie: true });
    assert_eq!(config.relocations.text, TextRelocations::Error);
    assert!(inputs.iter().all(|input| input.state.static_only));
    let grouped = inputs.iter().filter(|input| input.state.group == Some(0)).count();
    assert_eq!((inputs.len(), grouped), (9, 3));
}

#[test]
fn gcc_aarch64_shared_and_sanitizers() {
    let text = format!(
        "{GCC_START} --build-id --eh-frame-hdr --hash-style=gnu --as-needed -shared -X -EL -maarch64linux
        --fix-cortex-a53-843419 -soname libx.so --compress-debug-sections=zlib -o libx.so a.o
        --whole-archive libasan.a --no-whole-archive --wrap=open -lc"
    );
    let (config, inputs) = link(&line(&text));
    assert_eq!((config.mode, config.machine), (OutputMode::Shared, Some(Machine::AArch64)));
    assert_eq!(config.strip.discard, Discard::Locals);
    assert_eq!(config.strip.compress_debug.format, CompressDebug::Zlib);
    assert!(config.relocations.fix_cortex_a53_843419);
    assert_eq!(config.dynamic.soname.as_deref(), Some(&b"libx.so"[..]));
    assert!(
        !inputs[0].state.whole_archive && inputs[1].state.whole_archive && !inputs[2].state.whole_archive
    );
}

#[test]
fn clang() {
    let text = "--hash-style=gnu --build-id --eh-frame-hdr -m elf_x86_64 -pie -dynamic-linker
        /lib64/ld-linux-x86-64.so.2 -o a.out Scrt1.o -L/usr/lib/llvm-22/lib -plugin-opt=mcpu=x86-64
        -plugin-opt=O2 hello.o -lstdc++ -lm -lgcc --as-needed -lgcc_s --no-as-needed -lc
        --use-android-relr-tags --pack-dyn-relocs=relr -z now -z relro -z max-page-size=16384 crtn.o";
    let (config, inputs) = link(&line(text));
    assert!(config.relocations.pack_relative && config.relocations.android_relr_tags);
    assert!(config.dynamic.bind_now && config.layout.relro);
    assert_eq!(config.layout.max_page_size, Some(16384));
    let needed: Vec<_> = inputs.iter().filter(|input| input.state.as_needed).map(|i| &i.argument).collect();
    assert_eq!(needed, ["-lgcc_s"]);
}

#[test]
fn rustc() {
    let text = format!(
        "{GCC_START} --eh-frame-hdr -m elf_x86_64 --hash-style=gnu --as-needed -dynamic-linker
        /lib64/ld-linux-x86-64.so.2 -pie -o out Scrt1.o main.o --as-needed -Bstatic libstd.rlib
        libcompiler_builtins.rlib -Bdynamic -lgcc_s -lc --eh-frame-hdr -z noexecstack --gc-sections -z relro
        -z now -O1 --strip-debug --version-script=list --no-undefined-version --export-dynamic-symbol=f
        --dynamic-list=dynlist -lgcc crtn.o"
    );
    let (config, inputs) = link(&line(&text));
    assert!(config.gc.enabled && config.dynamic.bind_now && !config.static_link);
    assert_eq!(config.layout.executable_stack, Some(false));
    assert_eq!(config.strip.strip, Strip::Debug);
    assert!(!config.symbols.allow_undefined_version);
    assert_eq!(config.scripts.version_scripts, [Path::new("list")]);
    assert_eq!(config.scripts.dynamic_lists, [Path::new("dynlist")]);
    let fixed: Vec<_> = inputs.iter().filter(|i| i.state.static_only).map(|i| i.argument.as_str()).collect();
    assert_eq!(fixed, ["libstd.rlib", "libcompiler_builtins.rlib"]);
}

#[test]
fn build_systems() {
    for text in [
        "-z relro -z now -z nodelete -z noexecstack --compress-debug-sections=zlib --build-id=0x0123
            --export-dynamic-symbol=_cgo_panic a.o",
        "--as-needed --no-undefined -O1 --start-group a.o --end-group -rpath,$ORIGIN -rpath-link,DIR
            --allow-shlib-undefined",
        "-export-dynamic -soname libx.so.1 -rpath /usr/lib --dependency-file=link.d --push-state
            --whole-archive x.a --pop-state --exclude-libs ALL --version-script x.map",
        "-shared -soname libx.so -retain-symbols-file x.syms --whole-archive x.a --no-whole-archive",
        "--fatal-warnings --gc-sections -T efi.lds --package-metadata={} --build-id=sha1 a.o",
        "-m elf_x86_64 -z max-page-size=0x200000 -z noexecstack --no-warn-rwx-segments --emit-relocs
            --discard-none --orphan-handling=error --script=vmlinux.lds -X -Map=vmlinux.map -o vmlinux
            --whole-archive vmlinux.a --no-whole-archive --start-group lib.a --end-group",
        "-r -m elf_x86_64 -z noexecstack --build-id=sha1 --force-group-allocation -T module.lds -o x.ko x.o",
        "-shared --hash-style=both --build-id=sha1 --no-undefined --eh-frame-hdr -Bsymbolic -z noexecstack
            -soname linux-vdso.so.1 -z max-page-size=4096 -T vdso.lds v.o",
        "-EL -maarch64elf --no-undefined -X --pic-veneer -shared -Bsymbolic -z notext
            --no-apply-dynamic-relocs --fix-cortex-a53-843419 -o vmlinux a.o",
        "-m elf64_s390 --oformat elf64-s390 -e startup --build-id=sha1 -T b.lds a.o",
        "-mllvm -x=1 --mllvm=-y --lto-O2 --lto-partitions=4 --thinlto-cache-dir=x --plugin-opt=-z -fno-lto
            --save-temps=prelink --thinlto-jobs=2 a.o",
    ] {
        link(&line(&text.replace("-rpath,$ORIGIN -rpath-link,DIR", "-rpath $ORIGIN -rpath-link DIR")));
    }
}

#[test]
fn kernel_probes() {
    for option in ["--force-group-allocation", "--no-warn-rwx-segments", "-Bsymbolic", "--emit-relocs"] {
        assert!(printed(&["-m", "elf_x86_64", option, "-v"]).starts_with("GNU ld (sframe-ld) "), "{option}");
    }
    assert_eq!(run(&["-m", "elf_x86_64", "--no-such-thing", "-v"]).0, Err(Aborted));
}
