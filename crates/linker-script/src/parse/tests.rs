//! Texts and the trees or errors that the parser makes of them.

use super::*;
use crate::ast::*;
use crate::expr::{BinaryOp, ExprKind};
use diagnostics::Location;

fn parse(text: &str) -> Result<Script, Vec<Diagnostic>> {
    let mut include = |_: &str, _: &str| Err("no such file".to_owned());
    parse_script(&mut Sources::new(), "t.ld", text.as_bytes(), &mut include)
}

fn commands(text: &str) -> Vec<Command> {
    match parse(text) {
        Ok(script) => script.commands,
        Err(diagnostics) => panic!("{text}: {diagnostics:#?}"),
    }
}

fn items(text: &str) -> Vec<SectionsItem> {
    match commands(&format!("SECTIONS {{ {text} }}")).pop() {
        Some(Command::Sections(items)) => items,
        other => panic!("{other:?}"),
    }
}

fn section(text: &str) -> OutputSection {
    match items(text).pop() {
        Some(SectionsItem::Output(section)) => *section,
        other => panic!("{other:?}"),
    }
}

fn body(text: &str) -> Vec<BodyItem> {
    section(&format!(".x : {{ {text} }}")).body
}

fn input(text: &str) -> InputStatement {
    match body(text).pop() {
        Some(BodyItem::Input(statement)) => statement,
        other => panic!("{other:?}"),
    }
}

fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(|name| name.text().into_owned()).collect()
}

/// An expression with all its parentheses.
fn show(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Number(number) => number.value.to_string(),
        ExprKind::Dot => ".".into(),
        ExprKind::Symbol(name) => name.text().into_owned(),
        ExprKind::Unary(op, a) => format!("({op:?} {})", show(a)),
        ExprKind::Binary(op, a, b) => format!("({} {} {})", show(a), op.as_str(), show(b)),
        ExprKind::Conditional { condition, then, otherwise } => {
            format!("({} ? {} : {})", show(condition), show(then), show(otherwise))
        }
        other => format!("{other:?}").split(['(', ' ']).next().unwrap_or_default().to_owned(),
    }
}

fn value(text: &str) -> String {
    match commands(&format!("v = {text};")).pop() {
        Some(Command::Assignment(assignment)) => show(&assignment.value),
        other => panic!("{other:?}"),
    }
}

/// Message, line and column of every error.
fn errors(text: &str) -> Vec<(String, u32, u32)> {
    let place = |diagnostic: Diagnostic| match diagnostic.location {
        Location::Script { line, column, .. } => (diagnostic.message, line, column),
        other => panic!("{other:?}"),
    };
    parse(text).expect_err(text).into_iter().map(place).collect()
}

#[test]
fn scripts_of_gnu_ld() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/gnu-ld-scripts");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ld") {
            continue;
        }
        count += 1;
        let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
        let commands = commands(&text);
        let Some(Command::Sections(items)) = commands.last() else { panic!("{path:?}") };
        let names: Vec<_> = items
            .iter()
            .filter_map(|item| match item {
                SectionsItem::Output(section) => Some(section.name.text()),
                _ => None,
            })
            .collect();
        for name in [".text", ".data", ".bss", ".debug_info"] {
            assert!(names.iter().any(|have| have == name), "{path:?} has no {name}");
        }
        assert!(names.len() > 50, "{path:?}: {names:?}");
    }
    assert_eq!(count, 18);
}

#[test]
fn operators_bind_as_in_c() {
    assert_eq!(value("2 + 3 * 4 << 1 | 1 & 3 ^ 7"), "(((2 + (3 * 4)) << 1) | ((1 & 3) ^ 7))");
    assert_eq!(value("1 ? 2 : 0 ? 4 : 5"), "(1 ? 2 : (0 ? 4 : 5))");
    assert_eq!(value("a-b-c"), "((a - b) - c)");
    assert_eq!(value("-a + ~b * !c"), "((Negate a) + ((Complement b) * (Not c)))");
    assert_eq!(value("a || b && c == d < e"), "(a || (b && (c == (d < e))))");
    assert_eq!(value("0x10+ -4"), "(16 + (Negate 4))");
    assert_eq!(value("(. + 4K) & ~(4096-1)"), "((. + 4096) & (Complement (4096 - 1)))");
    assert_eq!(value("8/2"), "(8 / 2)");
}

#[test]
fn assignments_with_and_without_blanks() {
    for text in ["x=1;", "x = 1;", "SECTIONS{x=1;}", "SECTIONS { .a : { x=1; } }"] {
        assert!(parse(text).is_ok(), "{text}");
    }
    for text in [". += 4;", ".+=4;"] {
        let body = body(text);
        let [BodyItem::Assignment(assignment)] = &body[..] else { panic!("{body:?}") };
        assert!(assignment.is_to_dot());
        assert_eq!(show(&assignment.value), "(. + 4)");
    }
    for (operator, op) in [
        ("-=", "-"),
        ("*=", "*"),
        ("/=", "/"),
        ("<<=", "<<"),
        (">>=", ">>"),
        ("&=", "&"),
        ("|=", "|"),
        ("^=", "^"),
    ] {
        let commands = commands(&format!("x {operator} 2"));
        let [Command::Assignment(assignment)] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!(show(&assignment.value), format!("(x {op} 2)"));
    }
    let commands = commands("PROVIDE(a = 1); HIDDEN(b = 1); PROVIDE_HIDDEN(c = 1) \"d e\" = 4;");
    let kinds: Vec<_> = commands
        .iter()
        .map(|command| match command {
            Command::Assignment(assignment) => (assignment.kind, assignment.target.text()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds[0], (AssignmentKind::Provide, "a".into()));
    assert_eq!(kinds[1], (AssignmentKind::Hidden, "b".into()));
    assert_eq!(kinds[2], (AssignmentKind::ProvideHidden, "c".into()));
    assert_eq!(kinds[3], (AssignmentKind::Plain, "d e".into()));
}

#[test]
fn commands_of_every_kind() {
    let text = r#"
        ENTRY(_start) OUTPUT(a.out) STARTUP(crt0.o) EXTERN(a b, c) SEARCH_DIR("=/usr/lib");
        OUTPUT_FORMAT(elf64-x86-64) OUTPUT_FORMAT("a", "b", "c") OUTPUT_ARCH(i386:x86-64) TARGET(elf64-s390)
        NOCROSSREFS(.text .data) NOCROSSREFS_TO(.a, .b .c) FORCE_COMMON_ALLOCATION INHIBIT_COMMON_ALLOCATION
        FORCE_GROUP_ALLOCATION LD_FEATURE("SANE_EXPR") REGION_ALIAS("z", ram) ASSERT(1 == 1, "fine")
        VERSION { V1 { global: "}"; /* } */ local: *; }; } INSERT AFTER .data; INSERT BEFORE .bss HLL() MAP(x)
    "#;
    let commands = commands(text);
    assert_eq!(commands.len(), 22);
    assert!(matches!(&commands[0], Command::Entry(name) if name.text() == "_start"));
    assert!(matches!(&commands[3], Command::Extern(names) if texts(names) == ["a", "b", "c"]));
    assert!(matches!(&commands[4], Command::SearchDir(name) if name.text() == "=/usr/lib"));
    assert!(matches!(&commands[5], Command::OutputFormat { by_byte_order: None, .. }));
    assert!(matches!(&commands[6], Command::OutputFormat { by_byte_order: Some(_), .. }));
    assert!(matches!(&commands[7], Command::OutputArch(name) if name.text() == "i386:x86-64"));
    let Command::NoCrossRefsTo { to, from } = &commands[10] else { panic!() };
    assert_eq!((to.text().as_ref(), texts(from)), (".a", vec![".b".into(), ".c".into()]));
    let Command::Version(span) = &commands[17] else { panic!("{:?}", commands[17]) };
    let inner = &text[span.start as usize..(span.start + span.length) as usize];
    assert_eq!(inner.trim(), "V1 { global: \"}\"; /* } */ local: *; };");
    assert!(
        matches!(&commands[18], Command::Insert(insert) if insert.after && insert.section.text() == ".data")
    );
}

#[test]
fn files_of_text_libraries() {
    let libc = "/* GNU ld script */ OUTPUT_FORMAT(elf64-x86-64)\n\
                GROUP ( /lib/libc.so.6 /usr/lib/libc_nonshared.a  AS_NEEDED ( /lib64/ld-linux-x86-64.so.2 ) )";
    let commands = commands(libc);
    let Command::Group(files) = &commands[1] else { panic!() };
    let files: Vec<_> = files.iter().map(|file| (file.name.text(), file.library, file.as_needed)).collect();
    assert_eq!(files[0], ("/lib/libc.so.6".into(), false, false));
    assert_eq!(files[2], ("/lib64/ld-linux-x86-64.so.2".into(), false, true));

    let commands = super::tests::commands("INPUT(a.o,-lb \"x y.o\" AS_NEEDED(-l:c.so), =/d.o -l)");
    let Command::Input(files) = &commands[0] else { panic!() };
    let files: Vec<_> = files.iter().map(|file| (file.name.text(), file.library, file.as_needed)).collect();
    let expected = [
        ("a.o", false, false),
        ("b", true, false),
        ("x y.o", false, false),
        (":c.so", true, true),
        ("=/d.o", false, false),
        ("-l", false, false),
    ];
    assert_eq!(files, expected.map(|(name, library, needed)| (name.into(), library, needed)));
}

#[test]
fn memory_and_phdrs() {
    let commands = commands(
        "MEMORY { rom (rx!w) : ORIGIN = 0x100, LENGTH = 4K  ram : org = 8, len = 1M+4 \n x (!r):o=0 l=LENGTH(ram)}
         PHDRS { headers PT_PHDR PHDRS; text PT_LOAD FILEHDR PHDRS AT(0x8) FLAGS(4 | 1); s PT_GNU_SFRAME; q 0x60000000; }",
    );
    let Command::Memory(regions) = &commands[0] else { panic!() };
    let names: Vec<_> = regions.iter().map(|region| region.name.text()).collect();
    assert_eq!(names, ["rom", "ram", "x"]);
    let rom = regions[0].attributes;
    assert!(rom.with.read_only && rom.with.executable && !rom.with.writable && rom.without.writable);
    assert!(regions[2].attributes.without.read_only && !regions[2].attributes.with.read_only);
    assert_eq!(show(&regions[1].length), "(1048576 + 4)");
    let Command::Phdrs(phdrs) = &commands[1] else { panic!() };
    let kinds: Vec<_> = phdrs.iter().map(|phdr| show(&phdr.kind)).collect();
    assert_eq!(kinds, ["6", "1", "1685382484", "1610612736"]);
    assert!(phdrs[1].file_header && phdrs[1].program_headers && !phdrs[0].file_header);
    assert_eq!(show(phdrs[1].flags.as_ref().unwrap()), "(4 | 1)");
}

#[test]
fn output_section_headers() {
    let plain = section(".text:{}");
    assert_eq!((plain.name.text().as_ref(), plain.address), (".text", None));
    let full = section(
        ".text ALIGN(16) (NOLOAD) : AT(0x1000) ALIGN(8) SUBALIGN(4) ONLY_IF_RW { *(.text) } >ram AT> rom :a :NONE =0x90909090,",
    );
    assert!(matches!(full.address.unwrap().kind, ExprKind::Align { value: None, .. }));
    assert_eq!(full.kind, Some(OutputSectionType::NoLoad));
    assert!(full.load_address.is_some() && full.align.is_some() && full.subalign.is_some());
    assert_eq!(full.constraint, Some(Constraint::OnlyIfReadWrite));
    assert_eq!(full.placement.region.unwrap().text(), "ram");
    assert_eq!(full.placement.load_region.unwrap().text(), "rom");
    assert_eq!(texts(&full.placement.phdrs), ["a", "NONE"]);
    let ExprKind::Number(fill) = full.placement.fill.unwrap().kind else { panic!() };
    assert_eq!(fill.hex_digits.as_deref(), Some(&b"90909090"[..]));

    assert_eq!(section(".x (READONLY) : {}").kind, Some(OutputSectionType::ReadOnly));
    assert_eq!(section(".x 0 (INFO) : {}").kind, Some(OutputSectionType::NoAlloc));
    assert_eq!(section(".x () : {}").kind, None);
    let typed = section(".x 4 (READONLY (TYPE=SHT_NOTE)) : {}");
    let Some(OutputSectionType::Type { value, read_only: true }) = typed.kind else { panic!() };
    assert_eq!(show(&value), "7");
    assert_eq!(show(&section(".x (0x1000 + 4) : {}").address.unwrap()), "(4096 + 4)");
    assert_eq!(show(&section(".x BIND(4) BLOCK(8) : {}").address.unwrap()), "4");
    assert!(section("/DISCARD/ : { *(.comment) }").is_discard());
    let two = items(".text : {*(.text)} =0x90 /DISCARD/ : { *(.x) } .a : {} :text .b : {}");
    assert_eq!(two.len(), 4);
}

#[test]
fn overlays_and_groups() {
    let all =
        items("OVERLAY 0x1000 : NOCROSSREFS AT (0x4000) { .a { *(.a) } :p =1, .b { *(.b) } } >ram =2 x = 1;");
    let SectionsItem::Overlay(overlay) = &all[0] else { panic!() };
    assert!(overlay.no_cross_refs && overlay.load_address.is_some());
    let names: Vec<_> = overlay.sections.iter().map(|section| section.name.text()).collect();
    assert_eq!(names, [".a", ".b"]);
    assert_eq!(texts(&overlay.sections[0].placement.phdrs), ["p"]);
    assert!(overlay.placement.region.is_some() && overlay.placement.fill.is_some());
    assert_eq!(all.len(), 2);

    let all = items("GROUP BIND(0x1000) : { .text : { *(.text) } }");
    assert!(matches!(&all[0], SectionsItem::Assignment(assignment) if assignment.is_to_dot()));
    assert!(matches!(&all[1], SectionsItem::Output(_)));
}

#[test]
fn input_statements() {
    let statement = input("KEEP (*(.init_array EXCLUDE_FILE (*crtbegin.o *crtend.o ) .ctors SORT(.x.*)))");
    assert!(statement.keep);
    let sections = statement.sections.unwrap();
    let globs: Vec<_> = sections.iter().map(|section| section.glob.text()).collect();
    assert_eq!(globs, [".init_array", ".ctors", ".x.*"]);
    assert_eq!(texts(&sections[1].exclude), ["*crtbegin.o", "*crtend.o"]);
    assert!(sections[0].exclude.is_empty() && sections[2].exclude.is_empty());
    assert_eq!(sections[2].sort.first, SortKey::Name);

    let statement = input("EXCLUDE_FILE(a.o, b.o) lib.a:x*.o(.a,.b , COMMON)");
    assert_eq!(texts(&statement.file.exclude), ["a.o", "b.o"]);
    assert_eq!(statement.file.glob.text(), "lib.a:x*.o");
    assert_eq!(statement.sections.unwrap().len(), 3);

    let sort = |text: &str| input(text).sections.unwrap()[0].sort;
    let by = |first, second| Sort { first, second, reverse: false };
    assert_eq!(sort("*(SORT_BY_INIT_PRIORITY(.x))"), by(SortKey::InitPriority, SortKey::Default));
    assert_eq!(sort("*(SORT(SORT_BY_ALIGNMENT(.x)))"), by(SortKey::Name, SortKey::Alignment));
    assert_eq!(
        sort("*(SORT_BY_ALIGNMENT(SORT(EXCLUDE_FILE(a.o) .x)))"),
        by(SortKey::Alignment, SortKey::Name)
    );
    assert_eq!(sort("*(SORT(SORT(.x)))"), by(SortKey::Name, SortKey::Default));
    assert_eq!(sort("*(SORT_NONE(.x))"), by(SortKey::None, SortKey::Default));
    let reversed = Sort { reverse: true, ..by(SortKey::Name, SortKey::Default) };
    assert_eq!(sort("*(REVERSE(SORT(.x)))"), reversed);
    assert_eq!(sort("*(SORT(REVERSE(.x)))"), reversed);
    assert_eq!(sort("*(REVERSE(.x))"), reversed);
    let both = input("*(.a SORT_BY_ALIGNMENT(EXCLUDE_FILE(a.o) .b .c) .d)").sections.unwrap();
    let keys: Vec<_> = both.iter().map(|it| (it.glob.text(), it.sort.first, it.exclude.len())).collect();
    let (plain, aligned) = (SortKey::Default, SortKey::Alignment);
    let expected = [(".a", plain, 0), (".b", aligned, 1), (".c", aligned, 0), (".d", plain, 0)];
    assert_eq!(keys, expected.map(|(glob, key, excluded)| (glob.into(), key, excluded)));
    assert_eq!(errors("SECTIONS { .o : { SORT(a b)(.x) } }").len(), 1);
    assert_eq!(input("SORT(*.o)(.x)").file.sort.first, SortKey::Name);
    assert_eq!(input("SORT(.x)").file.sort.first, SortKey::Name);

    let bare = input("crt0.o");
    assert_eq!((bare.file.glob.text().as_ref(), bare.sections), ("crt0.o", None));
    let flags = input("KEEP(INPUT_SECTION_FLAGS(SHF_ALLOC & !SHF_WRITE & 0x10) *(.x))").flags.unwrap();
    assert_eq!(flags, SectionFlags { with: 0x12, without: 1 });
    assert!(flags.accepts(0x16) && !flags.accepts(0x13) && !flags.accepts(2));
}

#[test]
fn body_items_of_every_kind() {
    let items = body(
        "BYTE(1) SHORT(2); LONG(a - b) QUAD(3), SQUAD(4) ASCIZ \"a\\n\\101\" FILL(0x90) LINKER_VERSION; \
         CONSTRUCTORS SORT(CONSTRUCTORS) CREATE_OBJECT_SYMBOLS ASSERT(1, \"m\") . = ASSERT(1, \"m\"); \
         PROVIDE(x = .); *(.text) ;; y = .",
    );
    let sizes: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            BodyItem::Data { size, .. } => Some(size.bytes()),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [1, 2, 4, 8, 8]);
    assert!(items.iter().any(|item| matches!(item, BodyItem::Text { bytes, .. } if **bytes == *b"a\nA\0")));
    assert_eq!(items.iter().filter(|item| matches!(item, BodyItem::Constructors(_))).count(), 2);
    assert_eq!(items.len(), 16);
}

#[test]
fn kernel_style() {
    let text = include_str!("kernel_style.ld");
    let commands = commands(text);
    let Some(Command::Sections(items)) =
        commands.iter().find(|command| matches!(command, Command::Sections(_)))
    else {
        panic!()
    };
    assert!(items.len() > 12);
}

#[test]
fn included_files_take_their_place() {
    let mut sources = Sources::new();
    let mut asked = Vec::new();
    let mut include = |name: &str, from: &str| {
        asked.push((name.to_owned(), from.to_owned()));
        match name {
            "body.ld" => Ok(("dir/body.ld".to_owned(), b"*(.a) INCLUDE inner.ld x = 1;".to_vec())),
            "inner.ld" => Ok(("dir/inner.ld".to_owned(), b"*(.b".to_vec())),
            _ => Ok((name.to_owned(), b"y = 2;".to_vec())),
        }
    };
    let text = b"INCLUDE top.ld\nSECTIONS { .x : { INCLUDE body.ld *(.c) } }";
    let diagnostics = parse_script(&mut sources, "main.ld", text, &mut include).unwrap_err();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[2], ("inner.ld".into(), "dir/body.ld".into()));
    let Location::Script { file, line: 1, column: 5, .. } = &diagnostics[0].location else { panic!() };
    assert_eq!(file, "dir/inner.ld");
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");

    let mut include = |name: &str, _: &str| Ok((name.to_owned(), b"INCLUDE again.ld".to_vec()));
    let diagnostics = parse_script(&mut sources, "main.ld", b"INCLUDE a.ld", &mut include).unwrap_err();
    assert!(diagnostics[0].message.contains("`again.ld` includes itself"), "{diagnostics:?}");

    let mut include = |name: &str, _: &str| Ok((name.to_owned(), format!("INCLUDE {name}x").into_bytes()));
    let diagnostics = parse_script(&mut sources, "main.ld", b"INCLUDE x", &mut include).unwrap_err();
    assert!(diagnostics[0].message.contains("deep"), "{diagnostics:?}");
}

#[test]
fn files_that_include_many_do_not_multiply_without_end() {
    let text = |name: &str| format!("INCLUDE {name}x INCLUDE {name}y INCLUDE {name}z").into_bytes();
    // No file includes itself, and the nesting is not too deep, but three inclusions at each of 14 levels
    // make 3¹⁴ files.
    let mut include = |name: &str, _: &str| {
        Ok((name.to_owned(), if name.len() < 14 { text(name) } else { b"x = 1;".to_vec() }))
    };
    let diagnostics = parse_script(&mut Sources::new(), "main.ld", b"INCLUDE x", &mut include).unwrap_err();
    assert!(
        diagnostics[0].message.contains("file 4097 that scripts include, but at most 4096 are allowed"),
        "{diagnostics:?}"
    );
}

#[test]
fn classes_are_told_from_names_of_sections_and_files() {
    let all = items("CLASS(a) { KEEP(*(.x)) *(.y .z) } CLASS : { *(.w) CLASS ( a ) CLASS }");
    let [SectionsItem::Class(class), SectionsItem::Output(section)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&*class.name.text(), class.statements.len(), class.statements[0].keep), ("a", 2, true));
    assert_eq!(*section.name.bytes, *b"CLASS");
    let [BodyItem::Input(_), BodyItem::Class(name), BodyItem::Input(file)] = &section.body[..] else {
        panic!("{:?}", section.body)
    };
    assert_eq!((&*name.text(), &*file.file.glob.text()), ("a", "CLASS"));
    let script = "SECTIONS {\n CLASS(a) { CLASS(b) BYTE(1) }\n .x : { KEEP(CLASS(a)) } }";
    let lines = errors(script).into_iter().map(|(message, line, _)| (message, line));
    let lines: Vec<_> = lines.collect();
    let expected = [
        ("section class `a` refers to class `b`", 2),
        ("section class `a` can only hold input sections", 2),
        ("KEEP cannot stand around a section class: put it inside the class's definition", 3),
    ];
    assert_eq!(lines, expected.map(|(message, line)| (message.to_owned(), line)));
}

#[test]
fn errors_name_line_and_column() {
    assert_eq!(errors("x = 1;\n  y = ;"), [("expected a value, found `;`".into(), 2, 7)]);
    assert_eq!(
        errors("SECTIONS {\n  .text : { *(.text }\n  .data { *(.data) }\n  .bss : { *(.bss) }\n}\nFOO(1);"),
        [
            ("expected a section pattern or `)`, found `}`".into(), 2, 21),
            ("expected a value, found `{`".into(), 3, 9),
            ("unknown command `FOO`".into(), 6, 1),
        ]
    );
    assert_eq!(
        errors("SECTIONS { .a : { *(.a) }"),
        [("expected `}`, found the end of the script".into(), 1, 26)]
    );
    assert_eq!(errors("x = 12z;"), [("`12z` is not a number".into(), 1, 5)]);
    assert_eq!(errors("x = 1; /* oops"), [("unclosed comment".into(), 1, 8)]);
    assert_eq!(errors("ENTRY(\"a)"), [("unclosed quote".into(), 1, 7)]);
    assert_eq!(errors("VERSION { v { /*"), [("unclosed comment".into(), 1, 15)]);
    assert_eq!(errors("VERSION { v { \"f; }; }"), [("unclosed quote".into(), 1, 15)]);
    assert_eq!(errors("SECTIONS { .a : { x = 1 } > : } y = 1;")[0].2, 29);
    assert_eq!(errors("} x = 1;"), [("expected a command, found `}`".into(), 1, 1)]);
    assert_eq!(errors("PROVIDE(. = 3);")[0].2, 9);
    assert_eq!(errors("SECTIONS { .a : { BYTE(a b) x = 1; } }").len(), 1);
    assert_eq!(errors("MEMORY { r : o = 0 }").len(), 1);
    assert_eq!(errors("PHDRS { a PT_FOO; }")[0].0, "unknown segment type `PT_FOO`");
    assert!(errors("\x01 = 3;")[0].0.contains("\\x01"));
}

#[test]
fn bad_texts_end_in_errors_and_not_in_a_panic() {
    let deep = format!("x = {}1{};", "(".repeat(100_000), ")".repeat(100_000));
    assert!(errors(&deep)[0].0.contains("operators"));
    let long = format!("x = 1{};", "+1".repeat(100_000));
    assert!(errors(&long)[0].0.contains("operators"));
    assert!(errors(&"{".repeat(10_000)).len() <= 20);
    assert!(errors(&"foo ;".repeat(10_000)).len() <= 20);
    let nested = "SECTIONS { ".to_owned() + &"GROUP : { ".repeat(100_000);
    assert!(!errors(&nested).is_empty());
}

#[test]
fn texts_of_options() {
    let mut sources = Sources::new();
    let assignment = parse_defsym(&mut sources, "--defsym", b"a.b=c+0x10").unwrap();
    assert_eq!((assignment.target.text().as_ref(), show(&assignment.value)), ("a.b", "(c + 16)".into()));
    assert!(matches!(assignment.value.kind, ExprKind::Binary(BinaryOp::Add, _, _)));
    assert!(parse_defsym(&mut sources, "--defsym", b"a").is_err());
    assert!(parse_defsym(&mut sources, "--defsym", b"a=1 2").is_err());
    assert_eq!(show(&parse_expression(&mut sources, "-Ttext", b"0x1000").unwrap()), "4096");
    assert!(parse_expression(&mut sources, "-Ttext", b"").is_err());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(text in "[ -~\n]{0,60}") {
        let _ = parse(&text);
        let _ = parse(&format!("SECTIONS {{ {text} }}"));
        let _ = parse(&format!("SECTIONS {{ .a : {{ {text} }} }}"));
    }
}
