//! Tests of the layout engine on scripts in memory and sections without contents.

use super::converge;
use super::names::{OutputNames, Symbols};
use super::orphan::{self, Key, Orphan};
use super::output::OutputFacts;
use super::place::List;
use super::state::{LayoutState, OutputState, Settings};
use crate::chunks::align;
use crate::cli::Config;
use crate::diag::Diagnostic;
use crate::elf::consts as elf;
use crate::ids::{RuleId, SectionId};
use crate::input::SectionInfo;
use crate::plan::{Command, LayoutPlan, Scripts};
use crate::script::eval::Base;
use crate::script::glob::Glob;
use crate::script::{Sources, parse_script};

const CODE: u64 = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
const DATA: u64 = elf::SHF_ALLOC | elf::SHF_WRITE;

/// Name, type, flags, size, alignment.
type Section = (&'static str, u32, u64, u64, u64);

fn progbits(name: &'static str, flags: u64, size: u64, align: u64) -> Section {
    (name, elf::SHT_PROGBITS, flags, size, align)
}

fn plan_of(texts: &[&str], config: &Config) -> (LayoutPlan, Vec<Diagnostic>) {
    let mut sources = Sources::new();
    let mut scripts: Vec<_> = texts
        .iter()
        .map(|text| {
            let mut none = |_: &str, _: &str| Err(String::new());
            parse_script(&mut sources, "test.ld", text.as_bytes(), &mut none).expect("the script parses")
        })
        .collect();
    let builtin = scripts.remove(0);
    let replacing = scripts.into_iter().map(|script| (0, script)).collect();
    LayoutPlan::new(Scripts { builtin, replacing, sources, ..Scripts::default() }, config)
}

/// The rule of a section, found by trying all patterns.
fn rule_of(plan: &LayoutPlan, name: &str) -> Option<RuleId> {
    let takes = |rule: &crate::plan::Rule| {
        let Some(statement) = rule.statement else { return false };
        let statement = &plan.statements[statement.index()];
        let patterns = statement.sections.as_deref().unwrap_or(&[]);
        patterns[rule.patterns.start as usize..rule.patterns.end as usize]
            .iter()
            .any(|pattern| Glob::new(&pattern.glob.bytes).matches(name.as_bytes()))
    };
    plan.rules.iter().position(takes).map(RuleId::from_index)
}

fn info(section: &Section) -> SectionInfo<'static> {
    let &(name, sh_type, flags, size, align) = section;
    SectionInfo { name: name.as_bytes(), sh_type, flags, size, align, entsize: 0 }
}

/// A plan with sections in its lists.
struct Case {
    plan: LayoutPlan,
    rules: Vec<Option<RuleId>>,
    lists: Vec<List>,
    settings: Settings,
}

impl Case {
    fn new(text: &str, sections: &[Section]) -> Case {
        let (plan, findings) = plan_of(&[text], &Config::default());
        assert_eq!(findings, []);
        Case::of_plan(plan, sections)
    }

    fn of_plan(mut plan: LayoutPlan, sections: &[Section]) -> Case {
        let mut lists = vec![List::default(); plan.rules.len()];
        let mut rules: Vec<Option<RuleId>> =
            sections.iter().map(|section| rule_of(&plan, section.0)).collect();
        let ids = || (0..sections.len() as u32).map(SectionId);
        for (id, rule) in ids().zip(&rules).filter_map(|(id, rule)| Some((id, (*rule)?))) {
            lists[rule.index()].items.push(id);
        }
        lists.iter_mut().for_each(|list| gather(list, sections));
        let orphans: Vec<Orphan<'_>> = ids()
            .zip(sections)
            .filter(|(id, _)| rules[id.index()].is_none())
            .map(|(id, section)| {
                let info = info(section);
                let alloc = section.2 & elf::SHF_ALLOC != 0;
                let key = Key {
                    name: info.name,
                    alloc,
                    tls: false,
                    contents: true,
                    exact: None,
                    own: None,
                    describes: None,
                };
                Orphan { id, info, key, may_join: true, last: false }
            })
            .collect();
        orphan::place(&mut plan, &mut lists, &mut rules, &orphans, false);
        lists.iter_mut().for_each(|list| gather(list, sections));
        let settings = Settings { max_page_size: 0x1000, common_page_size: 0x1000, ..Settings::default() };
        Case { plan, rules, lists, settings }
    }

    /// Runs the plan `runs` times.
    fn run(&self, runs: u32) -> LayoutState<'_> {
        let outputs = self.plan.outputs.iter().map(|_| OutputState::default()).collect();
        let offsets = vec![0; self.rules.len()];
        let mut layout_state = LayoutState::new(
            &self.plan,
            self.rules.clone(),
            self.lists.clone(),
            offsets,
            outputs,
            self.settings,
        );
        converge::refresh_outputs(&mut layout_state, false, true);
        for (state, output) in layout_state.outputs.iter_mut().zip(&self.plan.outputs) {
            state.in_output = state.facts.count > 0 || !output.body.is_empty();
        }
        layout_state.output_names =
            OutputNames::new(&self.plan, &|output| layout_state.outputs[output.index()].facts.count > 0);
        layout_state.symbols = Symbols::of_script(&self.plan);
        for _ in 0..runs {
            layout_state.run();
            for entry in &mut layout_state.symbols.entries {
                entry.previous = entry.value.or(entry.previous);
            }
        }
        layout_state
    }

    fn names(&self) -> Vec<String> {
        let outputs = self.plan.commands.iter().filter_map(|command| match command {
            Command::Output(output) => Some(&self.plan.outputs[output.index()].name),
            _ => None,
        });
        outputs.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

fn gather(list: &mut List, sections: &[Section]) {
    let of = |id: &SectionId| &sections[id.index()];
    list.sizes = list.items.iter().map(|id| of(id).3).collect();
    list.aligns = list.items.iter().map(|id| of(id).4.trailing_zeros() as u8).collect();
    list.max_align = list.aligns.iter().copied().max().unwrap_or(0);
    list.facts = list
        .items
        .iter()
        .map(|&id| OutputFacts::of(id, &info(of(&id))))
        .fold(OutputFacts::default(), OutputFacts::join);
}

fn output<'m>(layout_state: &'m LayoutState<'_>, name: &str) -> &'m OutputState {
    let index = layout_state.plan.outputs.iter().position(|output| output.name == name.as_bytes());
    &layout_state.outputs[index.expect(name)]
}

fn symbol(layout_state: &LayoutState<'_>, name: &str) -> u64 {
    let row = layout_state.symbols.row(name.as_bytes()).expect(name);
    layout_state.symbols.entries[row as usize].value.expect(name).address(None, layout_state)
}

fn messages(layout_state: &LayoutState<'_>) -> Vec<String> {
    layout_state.findings.iter().map(|finding| finding.message.clone()).collect()
}

#[test]
fn location_counter_moves_as_written() {
    let case = Case::new(
        "SECTIONS { . = 0x1000; .text : { a = .; *(.text) b = .; . = ALIGN(32); c = .; }
           . = ALIGN(0x100); d = .; .data : { *(.data) BYTE(1) SHORT(0x203) . += 5; FILL(0xabcd) . += 2; e = .; } f = .; }",
        &[progbits(".text", CODE, 6, 4), progbits(".text", CODE, 3, 16), progbits(".data", DATA, 5, 8)],
    );
    let layout_state = case.run(1);
    assert_eq!(messages(&layout_state), [""; 0]);
    assert_eq!(output(&layout_state, ".text").address, 0x1000);
    assert_eq!(
        ["a", "b", "c", "d", "e", "f"].map(|name| symbol(&layout_state, name)),
        [0x1000, 0x1013, 0x1020, 0x1100, 0x110f, 0x110f]
    );
    let data = output(&layout_state, ".data");
    assert_eq!((data.address, data.size), (0x1100, 15));
    let bytes: Vec<_> = data.data.iter().map(|data| (data.offset, &data.bytes[..])).collect();
    assert_eq!(bytes, [(5, &[1][..]), (6, &[3, 2][..])]);
    assert_eq!(
        data.fills.iter().map(|fill| (fill.offset, &fill.pattern[..])).collect::<Vec<_>>(),
        [(5, &[][..]), (6, &[]), (8, &[]), (13, &[0xab, 0xcd])]
    );
}

#[test]
fn symbols_belong_to_sections() {
    let case = Case::new(
        "SECTIONS { first = .; . = 0x2000; .text : { in = .; *(.text) } after = .; number = 7; }",
        &[progbits(".text", CODE, 8, 4)],
    );
    let layout_state = case.run(1);
    let base = |name: &str| {
        let row = layout_state.symbols.row(name.as_bytes()).expect(name);
        layout_state.symbols.entries[row as usize].value.expect(name).base
    };
    assert_eq!([base("in"), base("after")], [Base::Section(0); 2]);
    assert_eq!([base("first"), base("number")], [Base::Absolute; 2]);
}

#[test]
fn later_values_are_known_in_the_next_run() {
    let case = Case::new(
        "SECTIONS { a = b + 1; size = SIZEOF(.data); .text : { *(.text) } .data : { *(.data) } b = ADDR(.data); }",
        &[progbits(".text", CODE, 16, 1), progbits(".data", DATA, 4, 4)],
    );
    assert_eq!(messages(&case.run(1)).len(), 2);
    let layout_state = case.run(2);
    assert_eq!(messages(&layout_state), [""; 0]);
    assert_eq!((symbol(&layout_state, "a"), symbol(&layout_state, "size")), (17, 4));
}

#[test]
fn faults_point_at_the_script() {
    let case = Case::new(
        "SECTIONS {\n .text : { *(.text) . = 4; }\n ASSERT(SIZEOF(.text) < 4, \"too large\")\n x = 1 / 0; }",
        &[progbits(".text", CODE, 16, 1)],
    );
    let layout_state = case.run(2);
    assert_eq!(
        messages(&layout_state),
        [
            "the location counter cannot move backwards in output section `.text`, from 0x10 to 0x4",
            "too large",
            "division by zero: the divisor `0` is 0",
        ]
    );
    let lines: Vec<u32> = layout_state
        .findings
        .iter()
        .map(|finding| match finding.location {
            crate::diag::Location::Script { line, .. } => line,
            _ => 0,
        })
        .collect();
    assert_eq!(lines, [2, 3, 4]);
}

#[test]
fn regions_take_sections_one_after_another() {
    let case = Case::new(
        "MEMORY { rom (rx) : ORIGIN = 0x100, LENGTH = 32  ram (rw) : ORIGIN = 0x1000, LENGTH = 16 }
         SECTIONS { .text : { *(.text) } >rom .data : { *(.data) } >ram AT>rom .bss : { *(.bss) } }",
        &[
            progbits(".text", CODE, 20, 4),
            progbits(".data", DATA, 8, 8),
            (".bss", elf::SHT_NOBITS, DATA, 12, 4),
        ],
    );
    let layout_state = case.run(1);
    let places = [".text", ".data", ".bss"].map(|name| {
        let state = output(&layout_state, name);
        (state.address, state.load_address)
    });
    assert_eq!(places, [(0x100, 0x100), (0x1000, 0x114), (0x1008, 0x1008)]);
    assert_eq!(messages(&layout_state), ["region `ram' overflowed by 4 bytes (0x4)"]);
}

#[test]
fn load_addresses_keep_their_distance() {
    let case = Case::new(
        "SECTIONS { . = 0x80000000; .text : AT(ADDR(.text) - 0x7f000000) { *(.text) } .data : { *(.data) } }",
        &[progbits(".text", CODE, 16, 4), progbits(".data", DATA, 8, 4)],
    );
    let layout_state = case.run(1);
    assert_eq!(output(&layout_state, ".text").load_address, 0x100_0000);
    assert_eq!(output(&layout_state, ".data").load_address, 0x100_0010);
}

#[test]
fn sections_of_an_overlay_share_an_address() {
    let case = Case::new(
        "SECTIONS { OVERLAY 0x1000 : AT(0x4000) { .a { *(.a) } .b { *(.b) } } .c : { *(.c) } }",
        &[progbits(".a", DATA, 8, 1), progbits(".b", DATA, 24, 1), progbits(".c", DATA, 4, 1)],
    );
    let layout_state = case.run(2);
    let places = [".a", ".b", ".c"].map(|name| {
        let state = output(&layout_state, name);
        (state.address, state.load_address)
    });
    assert_eq!(places, [(0x1000, 0x4000), (0x1000, 0x4008), (0x1018, 0x4020)]);
    assert_eq!(symbol(&layout_state, "__load_start_b"), 0x4008);
    assert_eq!(symbol(&layout_state, "__load_stop_b"), 0x4020);
}

#[test]
fn thread_local_zeros_take_no_addresses() {
    let tls = DATA | elf::SHF_TLS;
    let case = Case::new(
        "SECTIONS { . = 0x1000; .tdata : { *(.tdata) } .tbss : { *(.tbss) } .data : { *(.data) } }",
        &[
            progbits(".tdata", tls, 4, 4),
            (".tbss", elf::SHT_NOBITS, tls, 64, 32),
            progbits(".data", DATA, 4, 4),
        ],
    );
    let layout_state = case.run(1);
    assert_eq!(output(&layout_state, ".tdata").align, 32);
    assert_eq!((output(&layout_state, ".tbss").address, output(&layout_state, ".tbss").size), (0x1020, 64));
    assert_eq!(output(&layout_state, ".data").address, 0x1020);
}

#[test]
fn orphans_stand_beside_their_like() {
    let case = Case::new(
        "SECTIONS { .text : { *(.text) } etext = .; . = ALIGN(0x1000); .data : { *(.data) } edata = .;
           .bss : { *(.bss) } .comment 0 : { *(.comment) } }",
        &[
            progbits(".text", CODE, 4, 4),
            progbits(".data", DATA, 4, 4),
            (".bss", elf::SHT_NOBITS, DATA, 4, 4),
            progbits(".comment", 0, 4, 1),
            progbits("mycode", CODE, 4, 4),
            progbits("mydata", DATA, 4, 4),
            (".mybss", elf::SHT_NOBITS, DATA, 4, 4),
            progbits("constants", elf::SHF_ALLOC, 4, 4),
            progbits("mydata2", DATA, 4, 4),
            progbits(".meta", 0, 4, 4),
            progbits("mydata", DATA, 4, 4),
        ],
    );
    assert_eq!(
        case.names(),
        [".text", "mycode", "constants", ".data", "mydata", "mydata2", ".bss", ".mybss", ".comment", ".meta"]
    );
    let layout_state = case.run(1);
    assert_eq!(output(&layout_state, "mydata").size, 8);
    assert_eq!(symbol(&layout_state, "etext"), 4);
    assert_eq!(output(&layout_state, ".data").address, 0x1000);
}

#[test]
fn an_orphan_joins_the_section_of_its_name() {
    let case = Case::new(
        "SECTIONS { .both : { *(.one) } }",
        &[progbits(".one", DATA, 4, 4), progbits(".both", DATA, 8, 4)],
    );
    assert_eq!(case.names(), [".both"]);
    assert_eq!(output(&case.run(1), ".both").size, 12);
}

#[test]
fn insert_edits_the_main_script() {
    let main = "SECTIONS { .text : { *(.text) } etext = .; . = ALIGN(64); .data : { *(.data .x) } }";
    let edit = "SECTIONS { .mine : { *(.x) } } INSERT AFTER .text; SECTIONS { .first : { *(.y) } } INSERT BEFORE .text;";
    let (plan, findings) = plan_of(&[main, edit], &Config::default());
    assert_eq!(findings, []);
    let case = Case::of_plan(plan, &[progbits(".x", DATA, 4, 1), progbits(".y", DATA, 4, 1)]);
    assert_eq!(case.names(), [".first", ".text", ".mine", ".data"]);
    // Rules are tried in the order of the edited script.
    assert_eq!(output(&case.run(1), ".mine").facts.count, 1);
    assert_eq!(output(&case.run(1), ".first").facts.count, 1);

    let (_, findings) = plan_of(&[main, "SECTIONS { .a : { } } INSERT AFTER .nowhere;"], &Config::default());
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.contains(".nowhere"));
}

#[test]
fn a_script_without_insert_replaces_the_main_one() {
    let (plan, _) = plan_of(&["SECTIONS { .a : { } }", "SECTIONS { .b : { } }"], &Config::default());
    assert_eq!(plan.outputs.iter().map(|output| &output.name[..]).collect::<Vec<_>>(), [b".b"]);
}

#[test]
fn options_edit_the_plan() {
    let mut config = Config::default();
    config.layout.section_starts = vec![(b".text".to_vec(), 0x5000), (b"orphan".to_vec(), 0x9000)];
    config.layout.sort_section = crate::cli::SortSection::Name;
    let (plan, _) = plan_of(&["SECTIONS { . = 0x100; .text : { *(.text) *(SORT_NONE(.t)) } }"], &config);
    assert_eq!(plan.rules[0].sort.first, crate::script::ast::SortKey::Name);
    assert_eq!(plan.rules[1].sort.first, crate::script::ast::SortKey::None);
    let case = Case::of_plan(plan, &[progbits(".text", CODE, 4, 4), progbits("orphan", DATA, 4, 4)]);
    let layout_state = case.run(1);
    assert_eq!(output(&layout_state, ".text").address, 0x5000);
    assert_eq!(output(&layout_state, "orphan").address, 0x9000);
}

#[test]
fn patterns_of_one_order_share_a_rule() {
    let (plan, _) = plan_of(
        &[
            "SECTIONS { .init_array : { *(SORT_BY_INIT_PRIORITY(.init_array.*) SORT_BY_INIT_PRIORITY(.ctors.*) .init_array) } }",
        ],
        &Config::default(),
    );
    let patterns: Vec<_> = plan.rules.iter().map(|rule| rule.patterns.clone()).collect();
    assert_eq!(patterns, [0..2, 2..3]);
}

#[test]
fn symbols_of_a_plan_are_listed_once() {
    let (plan, _) = plan_of(
        &["a = 1; PROVIDE(b = c); SECTIONS { .x : { HIDDEN(d = .); b = 3; } PROVIDE_HIDDEN(e = f); }"],
        &Config::default(),
    );
    let symbols: Vec<_> = plan.symbols().iter().map(|s| (s.name, s.provide, s.hidden)).collect();
    assert_eq!(
        symbols,
        [
            (&b"a"[..], false, false),
            (&b"b"[..], false, false),
            (&b"d"[..], false, true),
            (&b"e"[..], true, true)
        ]
    );
    let names = |wanted: bool| plan.referenced_symbols(&move |_| wanted).len();
    // It is not known yet whether something asks for `b` in front of its assignment.
    assert_eq!((names(false), names(true)), (0, 2));
}

#[test]
fn sections_beyond_the_address_space_are_reported() {
    let case = Case::new(
        "SECTIONS { . = 0xfffffffffffffff0; .data : { *(.data) } }",
        &[progbits(".data", DATA, 64, 4)],
    );
    let layout_state = case.run(1);
    assert_eq!(
        messages(&layout_state),
        ["output section `.data` does not fit the address space, from 0xfffffffffffffff0"]
    );
    assert_eq!(align::align_to(u64::MAX, 2), None);
}
