//! Archives: which members are taken, in which order, and the options that change it.

use crate::support::{Work, built};

const MAIN: &str = "int first(void); int main(void) { return first() - 3; }";

fn members(work: &Work) -> (String, String, String) {
    (
        work.c("first", "int second(void); int first(void) { return second() + 1; }", &[]),
        work.c("second", "int third(void); int second(void) { return third() + 1; }", &[]),
        work.c("third", "int third(void) { return 1; } int unused(void) { return 0; }", &[]),
    )
}

#[test]
fn members_are_taken_when_they_define_something_needed() {
    let work = Work::new();
    let main = work.c("main", MAIN, &[]);
    let (first, second, third) = members(&work);
    let spare = work.c("spare", "int spare(void) { return 0; }", &[]);
    let archive = work.ar("liball.a", "", &[&third, &spare, &first, &second]);
    work.gcc(&["-o", "program", &main, &archive]).quiet();
    work.run("program");
    let elf = work.elf("program");
    assert!(elf.find_symbol("third").is_some() && elf.find_symbol("spare").is_none());
}

#[test]
fn an_archive_is_searched_where_it_stands() {
    let work = Work::new();
    let main = work.c("main", MAIN, &[]);
    let (first, second, third) = members(&work);
    let (a, b) = (work.ar("liba.a", "", &[&first, &third]), work.ar("libb.a", "", &[&second]));
    work.gcc(&["-o", "program", &main, "-Wl,--start-group", &a, &b, "-Wl,--end-group"]).quiet();
    work.run("program");
    work.gcc(&["-o", "program", &main, "-Wl,-(", &b, &a, "-Wl,-)"]).quiet();
    work.gcc(&["-o", "program", &main, &a, &b, &a]).quiet();
    work.run("program");
    work.gcc(&["-o", "never", &main, &a, &b]).fails().says(&["third"]);
    work.gcc(&["-o", "never", &a, &b, &a, &main]).fails().says(&["first"]);
}

#[test]
fn the_first_archive_that_defines_a_symbol_provides_it() {
    let work = Work::new();
    let main =
        work.c("main", "#include <stdio.h>\nint f(void);\nint main(void) { printf(\"%d\\n\", f()); }", &[]);
    let one = work.c("one", "int f(void) { return 1; }", &[]);
    let two = work.c("two", "int f(void) { return 2; }", &[]);
    let (a, b) = (work.ar("liba.a", "", &[&one]), work.ar("libb.a", "", &[&two]));
    work.gcc(&["-o", "program", &main, &a, &b]).quiet();
    assert_eq!(work.run("program"), "1\n");
    work.gcc(&["-o", "program", &main, &b, &a]).quiet();
    assert_eq!(work.run("program"), "2\n");
    work.gcc(&["-o", "program", &main, &two, &a]).quiet();
    assert_eq!(work.run("program"), "2\n", "an object's definition needs no member");
}

#[test]
fn weak_references_and_definitions_take_no_member() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\n__attribute__((weak)) int f(void);\n__attribute__((weak)) int g(void) { return 1; }\nint main(void) { printf(\"%d %d\\n\", f != 0, g()); }", &["-fno-PIE"]);
    let lib = work.c("lib", "int f(void) { return 1; }", &[]);
    let strong = work.c("strong", "int g(void) { return 2; }", &[]);
    let archive = work.ar("liball.a", "", &[&lib, &strong]);
    work.gcc(&["-no-pie", "-o", "program", &main, &archive]).quiet();
    assert_eq!(work.run("program"), "0 1\n");
}

#[test]
fn a_common_symbol_takes_a_member_that_defines_it() {
    let work = Work::new();
    let main = work.c(
        "main",
        "#include <stdio.h>\nint value;\nint main(void) { printf(\"%d\\n\", value); }",
        &["-fcommon"],
    );
    let data = work.c("data", "int value = 9;", &[]);
    let code = work.c("code", "int value(void) { return 1; }", &[]);
    let archive = work.ar("libdata.a", "", &[&data]);
    work.gcc(&["-o", "program", &main, &archive]).quiet();
    assert_eq!(work.run("program"), "9\n");
    let archive = work.ar("libcode.a", "", &[&code]);
    work.gcc(&["-o", "program", &main, &archive]).ok();
    assert_eq!(work.run("program"), "0\n", "a function does not replace a common variable");
}

#[test]
fn whole_archive_takes_everything_once() {
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    let spare = work.c("spare", "int spare(void) { return 0; }", &[]);
    let other = work.c("other", "int other(void) { return 0; }", &[]);
    let archive = work.ar("libspare.a", "", &[&spare]);
    let later = work.ar("libother.a", "", &[&other]);
    work.gcc(&["-o", "program", &main, "-Wl,--whole-archive", &archive, "-Wl,--no-whole-archive", &later])
        .quiet();
    let elf = work.elf("program");
    assert!(elf.find_symbol("spare").is_some() && elf.find_symbol("other").is_none());
}

/// A thin archive of a few bytes may name a file any number of times, even itself.
#[test]
fn a_thin_archive_that_names_a_file_again_and_again() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let header = |name: &str, size: usize| format!("{name:<16}0           0     0     644     {size:<10}`\n");
    let name = "thin.a/\n";
    let thin = |count: usize| {
        let names = format!("!<thin>\n{}{name}", header("//", name.len()));
        work.write("thin.a", names + &header("/0", 100).repeat(count));
    };
    thin(16);
    work.ld(&["-o", "out", &start, "thin.a"]).ok();
    thin(10_000);
    let says = ["a thin archive that names its files again and again", "at most"];
    crate::proportion::within(&work, &[&start, "--whole-archive", "thin.a"]).fails().says(&says);
    for words in ["stat thin.a", "wrap-ld --cache cache /bin/true start.o thin.a"] {
        let tool = built::sframe();
        let limits = format!("ulimit -c 0; ulimit -v 400000; exec {tool} {words}");
        let outcome = work.command("sh", &["-c", &limits]).says(&says);
        assert!(matches!(outcome.code, Some(0..=2)), "{outcome}");
    }
}

#[test]
fn thin_archives_name_their_members() {
    let work = Work::new();
    let main = work.c("main", MAIN, &[]);
    let (first, second, third) = members(&work);
    std::fs::create_dir(work.path("sub")).unwrap();
    let archive = work.ar("sub/libthin.a", "T", &[&first, &second, &third]);
    assert!(work.read(&archive).starts_with(b"!<thin>\n"));
    work.gcc(&["-o", "program", &main, &archive]).quiet();
    work.run("program");
    std::fs::remove_file(work.path("third.o")).unwrap();
    work.gcc(&["-o", "program", &main, &archive]).fails().says(&["third.o", "libthin.a"]);
}

#[test]
fn start_lib_makes_objects_lazy() {
    let work = Work::new();
    let main = work.c("main", MAIN, &[]);
    let (first, second, third) = members(&work);
    let spare = work.c("spare", "int spare(void) { return 0; }", &[]);
    work.gcc(&["-o", "program", &main, "-Wl,--start-lib", &third, &spare, &first, &second, "-Wl,--end-lib"])
        .quiet();
    work.run("program");
    assert!(work.elf("program").find_symbol("spare").is_none());
}

#[test]
fn members_of_long_or_equal_names_are_kept_apart() {
    let work = Work::new();
    let long = "a_member_with_a_name_that_is_longer_than_sixteen_bytes";
    let main = work.c("main", "int f(void); int g(void); int main(void) { return f() + g() - 3; }", &[]);
    let mut args = vec!["qc".to_owned(), "liblong.a".to_owned()];
    for (dir, source) in [("one", "int f(void) { return 1; }"), ("two", "int g(void) { return 2; }")] {
        std::fs::create_dir(work.path(dir)).unwrap();
        args.push(work.c(&format!("{dir}/{long}"), source, &[]));
    }
    work.command(work.tool("ar"), &args.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    let archive = "liblong.a";
    work.gcc(&["-o", "program", &main, archive]).quiet();
    work.run("program");
    let outcome = work.gcc(&["-o", "program", &main, archive, "-Wl,-t,-t"]).ok();
    assert!(outcome.output().contains(&format!("{long}.o")), "{outcome}");
}

#[test]
fn an_empty_archive_is_accepted_and_a_broken_one_refused() {
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.command(work.tool("ar"), &["rcS", "libempty.a"]).ok();
    work.gcc(&["-o", "program", &main, "libempty.a"]).quiet();
    work.run("program");
    work.write("libtext.a", "!<arch>\nnonsense that is no header");
    work.gcc(&["-o", "program", &main, "libtext.a"]).fails().says(&["libtext.a"]);
}

#[test]
fn libraries_are_searched_in_directory_order_shared_first() {
    let work = Work::new();
    for (dir, value) in [("one", 1), ("two", 2)] {
        std::fs::create_dir(work.path(dir)).unwrap();
        let object = work.c(dir, &format!("int f(void) {{ return {value}; }}"), &["-fPIC"]);
        work.ar(&format!("{dir}/libf.a"), "", &[&object]);
    }
    let shared = work.c("shared", "int f(void) { return 3; }", &["-fPIC"]);
    work.gcc(&["-shared", "-o", "two/libf.so", &shared]).quiet();
    let main =
        work.c("main", "#include <stdio.h>\nint f(void);\nint main(void) { printf(\"%d\\n\", f()); }", &[]);
    let result = |args: &[&str]| {
        let mut all = vec!["-o", "program", main.as_str(), "-Wl,-rpath,$ORIGIN/two"];
        all.extend(args);
        work.gcc(&all).quiet();
        work.run("program")
    };
    assert_eq!(result(&["-Lone", "-Ltwo", "-lf"]), "1\n");
    assert_eq!(result(&["-Ltwo", "-Lone", "-lf"]), "3\n");
    assert_eq!(result(&["-Ltwo", "-Wl,-Bstatic", "-lf", "-Wl,-Bdynamic"]), "2\n");
    assert_eq!(result(&["-Ltwo", "-l:libf.a"]), "2\n");
}

/// Many objects in front of all archives are taken by all threads at once. What they want must not depend on
/// that.
#[test]
fn many_objects_take_the_same_members_as_few() {
    let work = Work::new();
    let main = work.c(
        "main",
        "int wanted(void); __attribute__((weak)) int weak(void);\n\
         __attribute__((visibility(\"hidden\"))) int hidden(void); int own(void) { return 0; }\n\
         int main(void) { return wanted() + hidden() + (weak != 0) + own() - 3; }",
        &[],
    );
    let block = work.c("block", "int block;", &["-fcommon"]);
    let user =
        work.c("user", "extern int block; int own(void); int use(void) { return block + own(); }", &[]);
    let member = |name: &str, text: &str| work.c(name, text, &[]);
    let library = work.c("library", "int hidden(void) { return 9; }", &["-fPIC"]);
    work.gcc(&["-shared", "-o", "library.so", &library]).quiet();
    let archive = work.ar(
        "liball.a",
        "",
        &[
            &member("a", "int wanted(void) { return 1; }"),
            &member("b", "int weak(void) { return 1; }"),
            &member("c", "int hidden(void) { return 2; }"),
            &member("d", "int block = 5;"),
            &member("e", "int own(void) { return 7; }"),
            &member("f", "int unused(void) { return 7; }"),
        ],
    );
    let empty = work.c("empty", "", &[]);
    let symbols = |name: &str, objects: &[&str]| {
        let all = [&["-o", name], objects, &["library.so", &archive, "-Wl,-rpath,."]].concat();
        work.gcc(&all).quiet();
        work.run(name);
        let elf = work.elf(name);
        ["wanted", "weak", "hidden", "block", "own", "unused", "use"]
            .map(|name| elf.find_symbol(name).map(|symbol| (symbol.size, symbol.section == 0)))
    };
    let few = symbols("few", &[&main, &block, &user]);
    let mut many = vec![main.as_str(), &block, &user];
    many.extend(std::iter::repeat_n(empty.as_str(), 200));
    assert_eq!(symbols("many", &many), few);
    many.reverse();
    assert_eq!(symbols("reversed", &many), few);
}

/// With thousands of files, archives are searched by name from the start. That must take the same members,
/// for the same reasons.
#[test]
fn archives_beside_thousands_of_files_give_the_same_members() {
    let work = Work::new();
    let object = |name: &str, text: &str| work.s(name, text);
    let empty = object("empty", "");
    let main =
        object("main", ".globl _start\n_start: call chain0\n.weak unused\n.quad unused\n.comm block, 8");
    // Each member needs one that stands before it and one behind it, and some define a name again.
    let chain: Vec<String> = (0..12)
        .map(|n| {
            let again = if n % 3 == 0 { ".globl again\nagain: nop" } else { ".quad again" };
            let next = n + 1;
            object(
                &format!("c{n}"),
                &format!(".globl chain{n}\nchain{n}: call chain{next}\n call side{n}\n{again}"),
            )
        })
        .collect();
    let sides: Vec<String> =
        (0..12).map(|n| object(&format!("s{n}"), &format!(".globl side{n}\nside{n}: nop"))).collect();
    let part = |name: &str, range: std::ops::Range<usize>| {
        let members: Vec<&str> =
            chain[range.clone()].iter().rev().chain(&sides[range]).map(String::as_str).collect();
        work.ar(name, "", &members)
    };
    let (first, second) = (part("libfirst.a", 0..6), part("libsecond.a", 6..12));
    let third = work.ar(
        "libthird.a",
        "",
        &[
            &object("code", ".globl block\n.type block, @function\nblock: nop"),
            &object("data", ".data\n.globl block, chain12\nblock: .quad 5\nchain12: .quad unused"),
            &object("weak", ".weak unused\nunused: nop"),
        ],
    );
    let groups: [&[&str]; 3] = [
        &[&main, &second, &first, &second, &third],
        &[&main, "--start-group", &first, &third, &second, "--end-group"],
        &[
            &main,
            "--start-lib",
            &chain[0],
            "--end-lib",
            "--start-group",
            &first,
            &second,
            "--end-group",
            &third,
        ],
    ];
    for (number, words) in groups.into_iter().enumerate() {
        let link = |name: &str, more: &[&str]| {
            let options = ["--allow-multiple-definition", "--why-extract=why", "-o", name];
            work.ld(&[&options, words, more].concat()).quiet();
            (work.read(name), work.read("why"))
        };
        let few = link("few", &[]);
        assert!(few.1.split(|byte| *byte == b'\n').count() > 25, "group {number} takes the whole chain");
        let mut more = vec!["--start-lib"];
        more.extend(std::iter::repeat_n(empty.as_str(), 2600));
        more.push("--end-lib");
        assert!(link("many", &more) == few, "group {number}");
    }
}
