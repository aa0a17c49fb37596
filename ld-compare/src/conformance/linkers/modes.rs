//! Options that choose a way to link frames. Only this project's linker has most of them, so other tools take
//! part in few of these cases.

use super::super::blob::{Edition, abi};
use super::super::case::{Case, Fact, Source};
use super::super::linked::{
    complains, described, expected, has_type, links, look, no_section, nothing_else, one_blob_or_unsorted,
    segment,
};
use super::super::program::{File, Frames};
use super::calls::{rows_are_there, with_library};
use super::common::{ALL, a, b, link, right};
use crate::machine::Machine;
use sframe_format::{PT_GNU_SFRAME, SHT_GNU_SFRAME, Section, Version};

const RULE_7: Source = Source::Proposal("SFrame rule 7: .sframe_idx");
const MERGE: Source = Source::Proposal("--sframe=merge: one sorted blob");

pub fn cases(machine: Machine) -> Vec<Case> {
    let mut cases = index(machine);
    cases.extend(merge(machine));
    cases.extend(together(machine));
    cases.extend(others(machine));
    cases
}

fn two(machine: Machine, family: &str, about: &str, options: &str, second: fn(Frames) -> Frames) -> Case {
    link(machine, family, about)
        .needs(options)
        .file("a.o", a(machine, |frames| frames))
        .file("b.o", b(machine, second))
        .step(&format!("{options} a.o b.o"), "out")
}

/// One blob of a version, sorted, strictly ascending, in the section of a name.
fn one_table(name: &'static str, version: Version, source: Source) -> Fact {
    look(
        "one-table",
        "one sorted blob, strictly ascending, without empty functions",
        source,
        move |linked, _| {
            let (_, section) = linked.view.section(name).ok_or_else(|| format!("no {name}"))?;
            let blobs: Vec<_> = Section::new(section.data, section.address).blobs().collect();
            let [blob] = &blobs[..] else { return Err(format!("{} blobs", blobs.len())) };
            let header = blob.header();
            if header.version != version || !header.is_sorted() || !header.is_field_relative() {
                return Err(format!("version {}, flags {:#x}", header.version, header.flags.0));
            }
            let starts: Vec<u64> = blob.fdes().map(|fde| fde.address).collect();
            match starts.windows(2).find(|pair| pair[0] >= pair[1]) {
                Some(pair) => Err(format!("{:#x} follows {:#x}", pair[1], pair[0])),
                None if blob.fdes().any(|fde| fde.size == 0) => Err("an empty function".into()),
                None => Ok(()),
            }
        },
    )
}

fn index(machine: Machine) -> Vec<Case> {
    let by = |facts: Vec<Fact>| facts.into_iter().map(|fact| fact.by(RULE_7)).collect::<Vec<_>>();
    let case = |family: &str, about: &str, second: fn(Frames) -> Frames| {
        two(machine, family, about, "--sframe-index", second).facts(by(right(machine, ALL)))
    };
    let old: fn(Frames) -> Frames = |frames| frames.edition(Edition::V2);
    let mut cases = vec![
        case("modes/index", "--sframe-index", |frames| frames).facts([
            one_table(".sframe_idx", Version::V3, RULE_7),
            has_type(),
            segment(),
        ]),
        case("modes/index-of-two-versions", "--sframe-index of a V3 and a V2 object", old)
            .facts([one_table(".sframe_idx", Version::V3, RULE_7)]),
        two(
            machine,
            "modes/index-v2",
            "--sframe-index --sframe-version=2",
            "--sframe-index --sframe-version=2",
            old,
        )
        .facts(by(right(machine, ALL)))
        .facts([one_table(".sframe_idx", Version::V2, RULE_7)]),
        two(machine, "modes/index-overlay", "--sframe-index=overlay", "--sframe-index=overlay", |frames| {
            frames
        })
        .facts(by(vec![links(), described(expected(abi(machine), ALL)), nothing_else(ALL)])),
        two(
            machine,
            "modes/index-not-loaded",
            "not in memory",
            "--sframe-index -z nosframe-alloc",
            |frames| frames,
        )
        .facts([links(), not_loaded()]),
        with_library(machine, "modes/index-plt", "--sframe-index describes PLTs", "--sframe-index")
            .needs("--sframe-index")
            .facts([rows_are_there(machine, Source::Proposal("--sframe-plt"))]),
    ];
    let bare = File::new(machine).function("_start").write();
    cases.push(
        link(machine, "modes/index-of-nothing", "--sframe-index without frames: no section")
            .needs("--sframe-index")
            .file("a.o", bare)
            .step("--sframe-index a.o", "out")
            .facts([links(), no_section(RULE_7)]),
    );
    let script = "SECTIONS { . = 0x400000; .text : { *(.text .text.*) } .sframe : { *(.sframe_idx) } }";
    cases.push(
        link(machine, "modes/index-by-script", "a script gives the index the name .sframe")
            .needs("--sframe-index")
            .file("x.ld", script)
            .file("a.o", a(machine, |frames| frames))
            .step("--sframe-index -T x.ld a.o", "out")
            .facts(by(right(machine, &["_start", "first"])))
            .facts([one_table(".sframe", Version::V3, RULE_7), segment()]),
    );
    cases.push(index_after_r(machine));
    cases
}

/// `-r --sframe-index`, then a final link.
fn index_after_r(machine: Machine) -> Case {
    link(
        machine,
        "modes/index-relocatable",
        "-r --sframe-index: one 64-bit PC-relative relocation per function",
    )
    .needs("-r --sframe-index")
    .file("a.o", a(machine, |frames| frames))
    .file("b.o", b(machine, |frames| frames))
    .step("-r --sframe-index a.o b.o", "all.o")
    .step("all.o", "out")
    .facts(right(machine, ALL).into_iter().map(|fact| fact.by(RULE_7)))
    .facts([Fact::new(
        "one-relocation-each",
        "the index of a relocatable output has one relocation for each function",
        Source::Proposal("SFrame rule 6"),
        move |outcome| {
            let linked = super::super::linked::Linked::parse(outcome.output(0)?)?;
            let (row, section) = linked.view.section(".sframe_idx").ok_or("no .sframe_idx")?;
            let of = linked.view.relocations.iter();
            let kinds: Vec<u32> = of
                .filter(|(records, _)| linked.view.sections[*records].info as usize == row)
                .flat_map(|(_, records)| records.iter().map(|record| record.kind))
                .collect();
            let wanted = abi(machine).start_relocation(Version::V3);
            let functions: usize =
                Section::new(section.data, 0).blobs().map(|blob| blob.fdes().count()).sum();
            if kinds.len() == functions && kinds.iter().all(|kind| *kind == wanted) {
                Ok(())
            } else {
                Err(format!("{functions} functions, relocations of types {kinds:?}"))
            }
        },
    )])
}

fn not_loaded() -> Fact {
    let source = Source::Proposal("-z nosframe-alloc: neither SHF_ALLOC nor PT_GNU_SFRAME");
    look("not-loaded", "frames are in the file and not in memory", source, |linked, _| {
        let loaded = linked.sections().any(|section| section.is_alloc());
        let segment = linked.view.segments.iter().any(|segment| segment.kind == PT_GNU_SFRAME);
        match (linked.sframe.is_empty(), loaded, segment) {
            (true, ..) => Err("no SFrame section".into()),
            (_, true, _) => Err("a section is loaded".into()),
            (.., true) => Err("there is a segment".into()),
            _ => Ok(()),
        }
    })
}

fn merge(machine: Machine) -> Vec<Case> {
    let by = |facts: Vec<Fact>| facts.into_iter().map(|fact| fact.by(MERGE)).collect::<Vec<_>>();
    let old: fn(Frames) -> Frames = |frames| frames.edition(Edition::V2);
    let future: fn(Frames) -> Frames = |frames| frames;
    let unknown = {
        let functions = ["second", "third"].map(|name| super::super::blob::function(abi(machine), name));
        super::super::blob::blob(abi(machine), Edition::V3, &functions).with_byte(2, 9)
    };
    vec![
        two(machine, "modes/merge", "--sframe=merge", "--sframe=merge", future)
            .facts(by(right(machine, ALL)))
            .facts([one_table(".sframe", Version::V3, MERGE), segment()]),
        two(
            machine,
            "modes/merge-of-two-versions",
            "--sframe=merge of a V3 and a V2 object",
            "--sframe=merge",
            old,
        )
        .facts(by(right(machine, ALL)))
        .facts([one_table(".sframe", Version::V3, MERGE)]),
        two(
            machine,
            "modes/merge-to-v2",
            "--sframe=merge --sframe-version=2",
            "--sframe=merge --sframe-version=2",
            old,
        )
        .facts(by(right(machine, ALL)))
        .facts([one_table(".sframe", Version::V2, MERGE)]),
        link(
            machine,
            "modes/merge-unknown",
            "--sframe=merge drops a version that it does not know, and says so",
        )
        .needs("--sframe=merge")
        .file("a.o", a(machine, |frames| frames))
        .file("b.o", b(machine, |frames: Frames| frames.bytes(unknown.clone())))
        .step("--sframe=merge a.o b.o", "out")
        .facts(by(vec![links(), described(expected(abi(machine), &["_start", "first"]))]))
        .facts([complains(Source::Proposal("SFrame rule 10"))]),
        with_library(machine, "modes/merge-plt", "--sframe=merge describes PLTs", "--sframe=merge")
            .needs("--sframe=merge")
            .facts([rows_are_there(machine, Source::Proposal("--sframe-plt"))]),
        link(machine, "modes/merge-and-index", "two ways at once are an error")
            .needs("--sframe=merge")
            .file("a.o", a(machine, |frames| frames))
            .step("--sframe=merge --sframe-index a.o", "out")
            .facts([Fact::new("refused", "the link is refused", MERGE, |outcome| {
                if outcome.refused() { Ok(()) } else { Err("it linked".into()) }
            })]),
    ]
}

/// Every way must cope with what breaks a concatenating linker: today's objects with COMDAT groups.
fn together(machine: Machine) -> Vec<Case> {
    let live = ["_start", "shared", "other"];
    let object = |own: &str| {
        let file = File::new(machine).function(own).comdat("shared").call(own, "shared");
        file.frames(Frames::of(&[own, "shared"])).write()
    };
    let source =
        Source::Proposal("SFrame rule 3: index, merge and split leave dead rows out without a message");
    ["--sframe-index", "--sframe=merge", "--sframe-split"]
        .into_iter()
        .map(|option| {
            let name = option.trim_start_matches("--sframe").trim_start_matches(['-', '=']);
            link(machine, &format!("modes/groups-{name}"), "two copies of a group, described from outside")
                .needs(option)
                .file("a.o", object("_start"))
                .file("b.o", object("other"))
                .step(&format!("{option} a.o b.o"), "out")
                .facts(right(machine, &live).into_iter().map(move |fact| fact.by(source)))
                .facts([super::super::linked::silent(source)])
        })
        .collect()
}

fn others(machine: Machine) -> Vec<Case> {
    let plain: fn(Frames) -> Frames = |frames| frames;
    let manual = Source::Gnu("ld's manual: --discard-sframe");
    let discard = Source::Proposal("--sframe=discard");
    let live = ["_start", "shared", "other"];
    let object = |own: &str| {
        let file = File::new(machine).function(own).comdat("shared").call(own, "shared");
        file.frames(Frames::of(&[own, "shared"])).write()
    };
    let warning = Source::Proposal("-z sframe-violation=warning: a dead row, and a warning");
    vec![
        two(machine, "modes/discard-sframe", "--discard-sframe", "--discard-sframe", plain).facts([
            links(),
            no_section(manual),
            no_segment(manual),
        ]),
        two(machine, "modes/discard", "--sframe=discard", "--sframe=discard", plain).facts([
            links(),
            no_section(discard),
            no_segment(discard),
        ]),
        two(machine, "modes/split", "--sframe-split", "--sframe-split", plain)
            .facts(right(machine, ALL))
            .facts([one_blob_or_unsorted()]),
        two(machine, "modes/not-loaded", "-z nosframe-alloc", "--sframe=concat -z nosframe-alloc", plain)
            .facts([links(), not_loaded()]),
        link(machine, "modes/violation-warning", "a reference into a discarded group as a warning")
            .needs("--sframe=concat")
            .file("a.o", object("_start"))
            .file("b.o", object("other"))
            .step("-z sframe-violation=warning a.o b.o", "out")
            .facts([links().by(warning), complains(warning)])
            .facts(right(machine, &live).into_iter().map(|fact| fact.by(warning))),
        link(machine, "modes/split-gc", "--sframe-split: the parts die with their text")
            .needs("--sframe-split")
            .file("a.o", a(machine, |frames| frames))
            .file("b.o", b(machine, |frames| frames))
            .step("--sframe-split --gc-sections a.o b.o", "out")
            .facts(right(machine, &["_start", "first"])),
    ]
}

fn no_segment(source: Source) -> Fact {
    look("no-segment", "there is no PT_GNU_SFRAME", source, |linked, _| {
        let has = linked.view.segments.iter().any(|segment| segment.kind == PT_GNU_SFRAME);
        let left =
            linked.view.sections.iter().any(|section| section.kind == SHT_GNU_SFRAME && section.size > 0);
        if has || left { Err("a segment or a section is left".into()) } else { Ok(()) }
    })
}
