//! The default layouts: the scripts `linker-scripts/*.ld` of this repository, built into the program.
//!
//! There is one script for each kind of output. A value that options change is written as `CONSTANT(name)` in
//! the script's expressions, and [`LayoutConstants`] gives the values of these constants. Options that change
//! the order of sections ([`Order`]) move parts of the text, which comments in the script mark. `--verbose`
//! prints the script with the values in their places, so GNU ld can read it too.

use super::ast::Script;
use super::parse::parse_script;
use super::source::Sources;
use std::borrow::Cow;

/// Comments in the scripts that mark: where constants go with `--rosegment`, where their pages begin without
/// it, the start of the constants, and their end.
const MARKERS: [&str; 4] = [
    "/* With --rosegment, constants stand here. */",
    "/* Without --rosegment, constants stand here. */",
    "/* The constants. */",
    "/* End of the constants. */",
];

/// The two tables of slots, and the one that holds both.
const TWO_TABLES: [&str; 2] =
    ["  .got : { *(.got) *(.igot) }\n", "  .got.plt : { *(.got.plt) *(.igot.plt) }\n"];
const ONE_TABLE: &str = "  .got : { *(.got.plt) *(.igot.plt) *(.got) *(.igot) }\n";

/// Comments around the parts of `.text` that become output sections with `-z keep-text-section-prefix`.
const PARTS: [&str; 2] = ["/* Parts of the code. */\n", "/* End of the parts of the code. */\n"];

/// The names of these parts without the leading `.text`, as compilers and lld use them.
const PART_NAMES: [&str; 6] = [".unlikely", ".exit", ".startup", ".hot", ".unknown", ".split"];

/// The order of sections, as far as options choose it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Order {
    /// `--rosegment`: constants come before the code, so that everything read-only is one segment.
    pub rosegment: bool,
    /// `-z keep-text-section-prefix`: `.text.hot` and the like are output sections of their own, before
    /// `.text`.
    pub text_parts: bool,
    /// `-z now` with `-z relro`: all slots are protected, so those of the PLT need no section apart.
    pub one_got: bool,
    /// `-z nolrodata-after-bss`: constants of the large code model stand with what is read-only, before the
    /// code.
    pub large_constants_first: bool,
}

/// The kinds of output that have a default layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// An executable at a fixed address, dynamic or static.
    Static,
    /// A position-independent executable, dynamic or static-pie.
    Pie,
    /// A shared library.
    Shared,
    /// `-r`.
    Relocatable,
}

impl Layout {
    /// Every kind.
    pub const ALL: [Layout; 4] = [Layout::Static, Layout::Pie, Layout::Shared, Layout::Relocatable];

    /// The script's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Static => "<built-in static.ld>",
            Layout::Pie => "<built-in pie.ld>",
            Layout::Shared => "<built-in shared.ld>",
            Layout::Relocatable => "<built-in relocatable.ld>",
        }
    }

    /// The text of the script, in this order.
    fn text_for(self, order: Order) -> Cow<'static, str> {
        let text = self.text();
        let at = |marker: &str| text.find(marker).filter(|_| order.rosegment);
        // A test makes sure that every script with constants has all markers.
        let text = match MARKERS.map(at) {
            [Some(here), Some(gap), Some(start), Some(end)] => {
                Cow::Owned([&text[..here], &text[start..end], &text[here..gap], &text[end..]].concat())
            }
            _ => Cow::Borrowed(text),
        };
        let text = if order.large_constants_first { large_constants_first(text) } else { text };
        let text = if order.text_parts { part_text(text) } else { text };
        if order.one_got {
            text.replace(TWO_TABLES[0], ONE_TABLE).replace(TWO_TABLES[1], "").into()
        } else {
            text
        }
    }

    /// The text of the script.
    pub fn text(self) -> &'static str {
        match self {
            Layout::Static => include_str!("../../../linker-scripts/static.ld"),
            Layout::Pie => include_str!("../../../linker-scripts/pie.ld"),
            Layout::Shared => include_str!("../../../linker-scripts/shared.ld"),
            Layout::Relocatable => include_str!("../../../linker-scripts/relocatable.ld"),
        }
    }

    /// The parsed script. Its text is added to `sources`.
    pub fn script(self, order: Order, sources: &mut Sources) -> Script {
        let mut include = |_: &str, _: &str| Err("the built-in scripts include nothing".to_owned());
        // A test parses all four scripts, so there is no error here.
        parse_script(sources, self.name(), self.text_for(order).as_bytes(), &mut include).unwrap_or_default()
    }

    /// The text of the script with its switches resolved, for `--verbose`.
    pub fn resolved_text(self, order: Order, switches: &LayoutConstants) -> String {
        let mut text = self.text_for(order).into_owned();
        for (name, value) in switches.constants() {
            let value = if name == "IMAGE_BASE" { format!("{value:#x}") } else { value.to_string() };
            text = text.replace(&format!("CONSTANT({name})"), &value);
        }
        text
    }
}

/// The text with `.lrodata` before the code, and before all other constants. There it needs no pages apart.
fn large_constants_first(text: Cow<'static, str>) -> Cow<'static, str> {
    const HEAD: &str = "  .lrodata ALIGN(";
    const END: &str = "\n  }\n";
    let place = [MARKERS[0], MARKERS[2]].into_iter().filter_map(|marker| text.find(marker)).min();
    let (Some(place), Some(start)) = (place, text.find(HEAD)) else { return text };
    let body = text[start..].find("\n  {").map(|at| start + at);
    let end = text[start..].find(END).map(|at| start + at + END.len());
    let (Some(body), Some(end)) = (body, end) else { return text };
    [&text[..place], ".lrodata :", &text[body..end], "  ", &text[place..start], &text[end..]].concat().into()
}

/// The text with the parts of `.text` turned into output sections.
fn part_text(text: Cow<'static, str>) -> Cow<'static, str> {
    let [Some(code), Some(start), Some(end)] =
        ["  .text :", PARTS[0], PARTS[1]].map(|marker| text.find(marker))
    else {
        return text;
    };
    let part = |name: &str| {
        let more = if name == ".unlikely" { " .text.*_unlikely" } else { "" };
        format!("  .text{name} : {{ *(.text{name} .text{name}.*{more}) }}\n")
    };
    let parts: String = PART_NAMES.into_iter().map(part).collect();
    [&text[..code], &parts, &text[code..start], &text[end..]].concat().into()
}

/// The values that options and targets change in a default layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutConstants {
    /// Whether code shares no page with anything else: `-z separate-code`, with neither `-N` nor `-n`.
    pub separate_code: bool,
    /// Whether all of `.got.plt` is protected: `-z now` with `-z relro`.
    pub protect_got: bool,
    /// Whether data begins on a page of its own: not with `-N`.
    pub paged_data: bool,
    /// The lowest address of an executable at a fixed address.
    pub image_base: u64,
    /// Bytes at the head of `.got.plt` that the dynamic linker writes before code runs.
    pub reserved_slots: u64,
    /// Symbols that may stand between sections get addresses that are multiples of this many bytes: 2 where
    /// code can compute only even addresses, 1 elsewhere.
    pub symbol_alignment: u64,
}

impl LayoutConstants {
    /// The value of `CONSTANT(name)` if the name is one of the switches. `MAXPAGESIZE` and `COMMONPAGESIZE`
    /// are not.
    pub fn constant(&self, name: &[u8]) -> Option<u64> {
        self.constants().into_iter().find(|(known, _)| known.as_bytes() == name).map(|(_, value)| value)
    }

    fn constants(&self) -> [(&'static str, u64); 6] {
        [
            ("SEPARATE_CODE", self.separate_code.into()),
            ("PROTECT_GOT", self.protect_got.into()),
            ("PAGED_DATA", self.paged_data.into()),
            ("IMAGE_BASE", self.image_base),
            ("RESERVED_SLOTS", self.reserved_slots),
            ("SYMBOL_ALIGNMENT", self.symbol_alignment),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{BodyItem, Command, OutputSection, SectionsItem};

    fn output_sections(script: &Script) -> Vec<&OutputSection> {
        let mut all = Vec::new();
        for command in &script.commands {
            let Command::Sections(items) = command else { continue };
            all.extend(items.iter().filter_map(|item| match item {
                SectionsItem::Output(section) => Some(&**section),
                _ => None,
            }));
        }
        all
    }

    fn names(layout: Layout) -> Vec<String> {
        let script = layout.script(Order::default(), &mut Sources::new());
        output_sections(&script).iter().map(|section| section.name.text().into_owned()).collect()
    }

    #[test]
    fn sections_stand_in_the_usual_order() {
        let order = [
            ".dynsym",
            ".rela.dyn",
            ".init",
            ".plt",
            ".text",
            ".fini",
            ".rodata",
            ".eh_frame_hdr",
            ".eh_frame",
            ".sframe_idx",
            ".sframe_compact",
            ".sframe",
            ".sframe_light",
            ".tdata",
            ".init_array",
            ".data.rel.ro",
            ".dynamic",
            ".got",
            ".got.plt",
            ".data",
            ".bss",
            ".lbss",
            ".lrodata",
            ".ldata",
            ".comment",
            ".debug_info",
        ];
        for layout in [Layout::Static, Layout::Pie, Layout::Shared] {
            let names = names(layout);
            let places: Vec<_> =
                order.iter().map(|name| names.iter().position(|have| have == name).expect(name)).collect();
            assert!(places.is_sorted(), "{layout:?}: {places:?}");
            assert_eq!(names.iter().any(|name| name == ".interp"), layout != Layout::Shared);
        }
    }

    #[test]
    fn relocatable_merges_only_equal_names() {
        let script = Layout::Relocatable.script(Order::default(), &mut Sources::new());
        assert!(output_sections(&script).len() > 60);
        for section in output_sections(&script) {
            for item in &section.body {
                let BodyItem::Input(statement) = item else { continue };
                for pattern in statement.sections.iter().flatten() {
                    // Common blocks that `-d` allocates go to `.bss` too.
                    let common = *pattern.glob.bytes == *b"COMMON" && *section.name.bytes == *b".bss";
                    assert!(common || pattern.glob.bytes == section.name.bytes);
                }
            }
        }
        assert!(names(Layout::Relocatable).iter().all(|name| !name.starts_with(".sframe")));
    }

    #[test]
    fn rosegment_moves_the_constants_before_the_code() {
        for layout in [Layout::Static, Layout::Pie, Layout::Shared] {
            let script = layout.script(Order { rosegment: true, ..Order::default() }, &mut Sources::new());
            let moved: Vec<_> =
                output_sections(&script).iter().map(|section| section.name.text().into_owned()).collect();
            let place = |name: &str| moved.iter().position(|have| have == name);
            assert!(place(".relr.dyn") < place(".rodata") && place(".rodata") < place(".init"), "{layout:?}");
            assert!(place(".exception_ranges") < place(".init"), "{layout:?}");
            let mut sorted = [moved, names(layout)];
            sorted.iter_mut().for_each(|names| names.sort());
            assert_eq!(sorted[0], sorted[1], "nothing is lost or doubled");
        }
    }

    #[test]
    fn large_constants_move_before_the_code() {
        for rosegment in [false, true] {
            for layout in [Layout::Static, Layout::Pie, Layout::Shared] {
                let order = Order { rosegment, large_constants_first: true, ..Order::default() };
                let script = layout.script(order, &mut Sources::new());
                let moved: Vec<_> =
                    output_sections(&script).iter().map(|section| section.name.text().into_owned()).collect();
                let place = |name: &str| moved.iter().position(|have| have == name);
                assert!(place(".relr.dyn") < place(".lrodata"), "{layout:?}");
                assert!(place(".lrodata") < place(".init"), "{layout:?}");
                assert!(place(".lrodata") < place(".rodata"), "{layout:?}");
                let mut sorted = [moved, names(layout)];
                sorted.iter_mut().for_each(|names| names.sort());
                assert_eq!(sorted[0], sorted[1], "nothing is lost or doubled");
            }
        }
    }

    #[test]
    fn parts_of_the_code_stand_before_it() {
        for rosegment in [false, true] {
            for layout in [Layout::Static, Layout::Pie, Layout::Shared] {
                let script = layout
                    .script(Order { rosegment, text_parts: true, ..Order::default() }, &mut Sources::new());
                let sections = output_sections(&script);
                let code = sections.iter().position(|section| section.name.text() == ".text").expect(".text");
                let parts = &sections[code - PART_NAMES.len()..code];
                for (part, name) in parts.iter().zip(PART_NAMES) {
                    assert_eq!(part.name.text(), format!(".text{name}"));
                }
                assert_eq!(sections[code].body.len(), 3, "what is left of {layout:?}");
            }
        }
        assert!(names(Layout::Relocatable).iter().all(|name| name != ".text.hot"));
    }

    #[test]
    fn one_table_of_slots_takes_the_place_of_two() {
        for layout in [Layout::Static, Layout::Pie, Layout::Shared] {
            let order = Order { one_got: true, ..Order::default() };
            let script = layout.script(order, &mut Sources::new());
            let tables = |section: &&&OutputSection| section.name.text().starts_with(".got");
            let sections = output_sections(&script);
            let tables: Vec<_> = sections.iter().filter(tables).collect();
            assert_eq!(tables.len(), 1, "{layout:?}");
            assert_eq!(tables[0].body.len(), 4, "{layout:?}");
        }
    }

    #[test]
    fn kept_sections_are_kept() {
        for layout in [Layout::Static, Layout::Pie, Layout::Shared] {
            let script = layout.script(Order::default(), &mut Sources::new());
            for name in [
                ".init",
                ".fini",
                ".init_array",
                ".fini_array",
                ".preinit_array",
                ".eh_frame",
                ".jcr",
                ".ctors",
            ] {
                let section =
                    output_sections(&script).into_iter().find(|s| *s.name.bytes == *name.as_bytes());
                let kept = section
                    .expect(name)
                    .body
                    .iter()
                    .any(|item| matches!(item, BodyItem::Input(statement) if statement.keep));
                assert!(kept, "{layout:?} {name}");
            }
        }
    }

    #[test]
    fn switches_are_constants() {
        let switches = LayoutConstants {
            separate_code: true,
            protect_got: false,
            paged_data: true,
            image_base: 0x40_0000,
            reserved_slots: 24,
            symbol_alignment: 1,
        };
        assert_eq!(switches.constant(b"SEPARATE_CODE"), Some(1));
        assert_eq!(switches.constant(b"PROTECT_GOT"), Some(0));
        assert_eq!(switches.constant(b"MAXPAGESIZE"), None);
        for layout in Layout::ALL {
            let text = layout.resolved_text(Order::default(), &switches);
            for (name, _) in switches.constants() {
                assert!(!text.contains(&format!("CONSTANT({name})")), "{layout:?}");
            }
        }
        assert!(
            Layout::Static
                .resolved_text(Order::default(), &switches)
                .contains("SEGMENT_START(\"text-segment\", 0x400000)")
        );
    }
}
