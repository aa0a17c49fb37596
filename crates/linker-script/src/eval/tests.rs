//! Tests that expressions have the values that GNU ld 2.47 gives them.

use super::*;
use crate::parse_expression;

/// `.text` (number 0) is at 0x1000 and holds `start` at its beginning. `.data` (number 1) is at 0x2000 and
/// holds `a` at its beginning and `b` 8 bytes behind it. `abs` is an absolute symbol of value 4.
struct Fixture {
    dot: Option<u64>,
    current: Option<u32>,
    sane: bool,
    segment: DataSegment,
}

impl Scope for Fixture {
    fn dot(&self) -> Option<u64> {
        self.dot
    }

    fn current_section(&self) -> Option<u32> {
        self.current
    }

    fn section_address(&self, section: u32) -> u64 {
        0x1000 * (u64::from(section) + 1)
    }

    fn section(&self, name: &[u8]) -> Lookup<OutputSectionValues> {
        match name {
            b".text" => Lookup::Known(OutputSectionValues {
                section: 0,
                load_address: 0x9000,
                size: 1,
                alignment: 16,
            }),
            b".data" => Lookup::Known(OutputSectionValues {
                section: 1,
                load_address: 0x2000,
                size: 16,
                alignment: 8,
            }),
            b".later" => Lookup::NotYetKnown,
            _ => Lookup::Missing,
        }
    }

    fn next_section(&self) -> Lookup<OutputSectionValues> {
        if self.current.is_some() { Lookup::Missing } else { self.section(b".data") }
    }

    fn symbol(&self, name: &[u8]) -> Symbol {
        match name {
            b"start" => Symbol::Defined(Value::relative(0, 0)),
            b"a" => Symbol::Defined(Value::relative(1, 0)),
            b"b" => Symbol::Defined(Value::relative(1, 8)),
            b"abs" => Symbol::Defined(Value::absolute(4)),
            b"gone" => Symbol::Discarded,
            b"later" => Symbol::NotYetKnown,
            _ => Symbol::Undefined,
        }
    }

    fn is_defined(&self, name: &[u8]) -> bool {
        name == b"a"
    }

    fn region(&self, name: &[u8]) -> Lookup<(u64, u64)> {
        if name == b"ram" { Lookup::Known((0x2100, 0x400)) } else { Lookup::Missing }
    }

    fn constant(&self, name: &[u8]) -> Option<u64> {
        (name == b"MAXPAGESIZE").then_some(0x1000)
    }

    fn size_of_headers(&self) -> u64 {
        0x78
    }

    fn segment_start(&self, name: &[u8]) -> Option<u64> {
        (name == b"text-segment").then_some(0x40_0000)
    }

    fn data_segment(&mut self) -> &mut DataSegment {
        &mut self.segment
    }

    fn sane_expressions(&self) -> bool {
        self.sane
    }
}

fn outside() -> Fixture {
    Fixture { dot: Some(0x2010), current: None, sane: false, segment: DataSegment::new() }
}

fn in_data() -> Fixture {
    Fixture { current: Some(1), ..outside() }
}

fn eval_text(text: &str, scope: &mut Fixture) -> Result<Value, EvalError> {
    let expr = parse_expression(&mut Sources::new(), "t.ld", text.as_bytes()).unwrap();
    eval(&expr, scope)
}

fn check(scope: fn() -> Fixture, cases: &[(&str, Value)]) {
    for (text, expected) in cases {
        let value = eval_text(text, &mut scope()).map(|value| Value { moves: false, ..value });
        assert_eq!(value, Ok(*expected), "{text}");
    }
}

const NUMBER: fn(u64) -> Value = Value::number;
const ABSOLUTE: fn(u64) -> Value = Value::absolute;

fn text(offset: u64) -> Value {
    Value::relative(0, offset)
}

fn data(offset: u64) -> Value {
    Value::relative(1, offset)
}

#[test]
fn outside_of_output_sections() {
    check(
        outside,
        &[
            ("5", ABSOLUTE(5)),
            (".", ABSOLUTE(0x2010)),
            ("a", data(0)),
            ("abs", ABSOLUTE(4)),
            ("a - b", ABSOLUTE(u64::MAX - 7)),
            ("start - start", ABSOLUTE(0)),
            ("-start", text(0)),
            ("~start", text(u64::MAX)),
            ("a + 1", ABSOLUTE(0x2001)),
            ("1 + a", ABSOLUTE(0x2001)),
            ("a + b", ABSOLUTE(8)),
            ("a & 0xff", ABSOLUTE(0)),
            ("start * 2", ABSOLUTE(0x2000)),
            ("a < b", NUMBER(1)),
            ("MAX(a, 5)", ABSOLUTE(0x2000)),
            ("a - start", ABSOLUTE(0x1000)),
            (". - start", ABSOLUTE(0x1010)),
            ("ADDR(.text)", text(0)),
            ("SIZEOF(.text) + 1", ABSOLUTE(2)),
            ("ABSOLUTE(b)", ABSOLUTE(0x2008)),
            ("ALIGN(64)", ABSOLUTE(0x2040)),
            ("SEGMENT_START(\"text-segment\", 0)", ABSOLUTE(0x40_0000)),
            ("SEGMENT_START(other, 3)", ABSOLUTE(3)),
            ("ALIGNOF(NEXT_SECTION)", NUMBER(8)),
            ("NEXT(64)", ABSOLUTE(0x2040)),
        ],
    );
}

#[test]
fn inside_an_output_section() {
    check(
        in_data,
        &[
            ("5", NUMBER(5)),
            ("5 + 3", NUMBER(8)),
            (".", data(0x10)),
            ("abs", NUMBER(4)),
            ("abs + 1", NUMBER(5)),
            ("ABSOLUTE(4)", ABSOLUTE(4)),
            ("ABSOLUTE(4) + 4", ABSOLUTE(8)),
            ("a - start", NUMBER(0x1000)),
            ("b - a", NUMBER(8)),
            ("a + b", NUMBER(8)),
            ("1 + b", data(9)),
            ("5 - b", data(u64::MAX - 2)),
            ("b * 2", data(16)),
            ("!a", data(1)),
            ("-b", data(u64::MAX - 7)),
            ("-start", text(0)),
            ("1 ? b : nosuch", data(8)),
            ("MAX(a, 5)", data(5)),
            ("MIN(b, 5)", data(5)),
            ("LOADADDR(.text)", ABSOLUTE(0x9000)),
            ("ADDR(.text)", text(0)),
            ("SIZEOF(.data)", NUMBER(16)),
            ("DEFINED(a)", NUMBER(1)),
            ("DEFINED(zz)", NUMBER(0)),
            ("CONSTANT(MAXPAGESIZE)", NUMBER(0x1000)),
            ("ORIGIN(ram)", data(0x100)),
            ("LENGTH(ram)", NUMBER(0x400)),
            ("SEGMENT_START(t, 0x44)", Value::relative(1, 0x44u64.wrapping_sub(0x2000))),
            ("ALIGN(64)", data(0x40)),
            ("ALIGN(b, 64)", data(64)),
            ("BLOCK(16)", data(0x10)),
            ("NEXT(64)", ABSOLUTE(0x2040)),
            ("SIZEOF_HEADERS", NUMBER(0x78)),
            ("ALIGNOF(NEXT_SECTION)", NUMBER(0)),
            ("ASSERT(4, \"m\")", NUMBER(4)),
        ],
    );
}

#[test]
fn sane_expressions() {
    let sane = || Fixture { sane: true, ..outside() };
    check(
        sane,
        &[
            ("5", NUMBER(5)),
            ("b - a", NUMBER(8)),
            ("ADDR(.data) + 1", data(1)),
            ("abs + a", data(4)),
            ("4 + .", ABSOLUTE(0x2014)),
        ],
    );
}

#[test]
fn plain_arithmetic() {
    let value = |text: &str| eval_text(text, &mut outside()).unwrap().value;
    for (text, expected) in [
        ("-5 / 2", -2),
        ("-5 % 3", -2),
        ("1 << 63 >> 63", 1),
        ("-1 >> 4", 0x0fff_ffff_ffff_ffff),
        ("1 << 70", 64),
        ("0 - 1 < 1", 0),
        ("MAX(-1, 1)", -1),
        ("MIN(-1, 1)", 1),
        ("LOG2CEIL(0)", 0),
        ("LOG2CEIL(1)", 0),
        ("LOG2CEIL(9)", 4),
        ("LOG2CEIL(1 << 63)", 63),
        ("LOG2CEIL(-1)", 64),
        ("1 == 1 == 1", 1),
        ("1 || 0 && 0", 1),
        ("1 ? 2 : 0 ? 4 : 5", 2),
        ("ALIGN(10, 4)", 12),
        ("ALIGN(10, 0)", 10),
        ("-9223372036854775808 / -1", i64::MIN),
    ] {
        assert_eq!(value(text).cast_signed(), expected, "{text}");
    }
}

#[test]
fn what_moves_with_the_program() {
    let moves = |text: &str| eval_text(text, &mut outside()).unwrap().moves;
    for text in [".", ". + 1", "ALIGN(8)", "SEGMENT_START(t, 4)", "DEFINED(a) ? . : 3", "ORIGIN(ram)"] {
        assert!(moves(text), "{text}");
    }
    for text in ["4", "a", ". - start", "ABSOLUTE(.)", "NEXT(8)", "SIZEOF(.text)"] {
        assert!(!moves(text), "{text}");
    }
}

#[test]
fn errors_tell_missing_from_not_yet() {
    let error = |text: &str, scope: &mut Fixture| eval_text(text, scope).unwrap_err();
    assert!(matches!(error("1 + later", &mut outside()), EvalError::NotYetKnown { span } if span.start == 4));
    assert!(matches!(error("SIZEOF(.later)", &mut outside()), EvalError::NotYetKnown { .. }));
    let undefined = |text: &str| match error(text, &mut outside()) {
        EvalError::Undefined { what, .. } => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(undefined("zz"), NameKind::Symbol);
    assert_eq!(undefined("1 || zz"), NameKind::Symbol);
    assert_eq!(undefined("SIZEOF(.zz)"), NameKind::Section);
    assert_eq!(undefined("ORIGIN(zz)"), NameKind::Region);
    assert_eq!(undefined("CONSTANT(zz)"), NameKind::Constant);
    assert!(matches!(error("gone", &mut outside()), EvalError::Discarded { .. }));
    assert!(matches!(error("4 % (1 - 1)", &mut outside()), EvalError::DivisionByZero { .. }));
    assert!(matches!(error(".", &mut Fixture { dot: None, ..outside() }), EvalError::InvalidContext { .. }));
    assert!(matches!(error("DATA_SEGMENT_END(.)", &mut in_data()), EvalError::InvalidContext { .. }));
    let failed = error("ASSERT(1 == 2, \"no\")", &mut outside());
    assert!(matches!(&failed, EvalError::AssertionFailed { message, .. } if message == "no"));
}

#[test]
fn errors_as_diagnostics() {
    let mut sources = Sources::new();
    let expr = parse_expression(&mut sources, "t.ld", b"1 + a/b").unwrap();
    let diagnostic = eval(&expr, &mut outside()).unwrap_err().diagnostic(&sources);
    assert_eq!(diagnostic.message, "undefined symbol `a/b' referenced in expression");
    assert!(diagnostic.help[0].contains("blanks"));
    assert!(matches!(
        diagnostic.location,
        diagnostics::Location::Script { line: 1, column: 5, length: 3, .. }
    ));
}

#[test]
fn data_segment_functions() {
    let mut scope = outside();
    assert_eq!(eval_text("DATA_SEGMENT_ALIGN(0x1000, 0x1000)", &mut scope).unwrap().value, 0x3010);
    assert_eq!(eval_text("DATA_SEGMENT_RELRO_END(24, 0x3100)", &mut scope).unwrap().value, 0x3100);
    assert_eq!(eval_text("DATA_SEGMENT_END(0x3200)", &mut scope).unwrap().value, 0x3200);
    assert_eq!(scope.segment.relro(), Some((0x3010, 0x3118)));
}

#[test]
fn fills() {
    let fill = |text: &str| {
        let expr = parse_expression(&mut Sources::new(), "t.ld", text.as_bytes()).unwrap();
        fill_bytes(&expr, &mut outside()).unwrap()
    };
    assert_eq!(fill("0x90909090"), [0x90; 4]);
    assert_eq!(fill("0x90"), [0x90]);
    assert_eq!(fill("0x123"), [1, 0x23]);
    assert_eq!(fill("0x00112233445566778899aabb").len(), 12);
    assert_eq!(fill("144"), [0, 0, 0, 0x90]);
    assert_eq!(fill("0x90 + 1"), [0, 0, 0, 0x91]);
}
