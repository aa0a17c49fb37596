//! Gives every section and every symbol its address.
//!
//! The layout has a circle in it: addresses depend on sizes, and some sizes depend on addresses. A branch
//! that is too far from its target needs a thunk, which moves everything behind it, and so may put other
//! branches out of reach. This pass is the list of steps that break the circle: [`crate::layout`] places
//! everything, measures what does not fit, enlarges it, and places everything again until nothing changes.
//! Only then symbols get values and the symbol table is planned.

use crate::arch::Target;
use crate::cli::Config;
use crate::diag::{Code, Diagnostic};
use crate::layout::priority::Priorities;
use crate::layout::rounds::{RoundResults, Rounds};
use crate::layout::{finish, lists, relocatable, settings, values};
use crate::passes::{drop_jumps, match_script, read_scripts};
use crate::phase::{Arranged, Contents, Geometry, Located, Placed};
use crate::sframe::collect::Chosen;
use crate::sframe_output;
use crate::symbols::{LinkerSymbolOrigin, MentionedBy, Reserved};
use crate::synth::{self, references, symtab_entries};
use crate::timing::Timings;
use std::ops::ControlFlow;

/// Lays the output out. `chosen` holds the functions of the SFrame table, and `priorities` the order from a
/// profile or an ordering file.
pub fn run<'a, T: Target>(
    mut contents: Contents<'a, T>,
    mut chosen: Chosen,
    priorities: &Priorities,
    timings: &mut Timings,
) -> Placed<'a, T> {
    settings::warn_image_base(&contents);
    let mut plan = contents.plan.clone();
    let mut lists = lists::of_rules(&contents, priorities, &mut plan);
    let alternatives = match_script::alternatives(&contents);
    // Where sections may still move on to other rules, nobody knows yet what follows them.
    if drop_jumps::is_wanted(&contents) && alternatives.is_empty() {
        (contents, chosen) = drop_jumps::run(contents, chosen, &plan, &mut lists.lists);
        timings.pass("drop jumps");
    }
    let mut rounds = Rounds::new(&contents, &plan, lists, alternatives, chosen);
    let geometry = loop {
        let geometry = rounds.settle(contents);
        match rounds.grow(geometry) {
            ControlFlow::Break(geometry) => break geometry,
            ControlFlow::Continue(larger) => contents = larger,
        }
    };
    let RoundResults { mut rules, thunks, chosen, values } = rounds.finish(&geometry);
    report_missing_headers(&geometry);
    timings.pass("lay out");
    let values = values.unwrap_or_else(|| values::all(&geometry));
    let located = Located { geometry, values };
    timings.pass("compute values");
    let local_symbols = synth::thunks::names(&located, &thunks);
    let (located, output_relocations, output_groups) = relocatable::run(located, &chosen);
    let named_globals = references::globals(&located, &output_groups);
    let arranged =
        Arranged { located, thunks, chosen, local_symbols, output_relocations, output_groups, named_globals };
    rules.resize(arranged.section_count(), None);
    let symtab = symtab_entries::plan(&arranged);
    timings.pass("plan symbol table");
    let frame_order = sframe_output::table::order(&arranged);
    timings.pass("order SFrame table");
    // If the layout failed, the entry may be missing only because of that, so it is not reported.
    let entry_address = if arranged.sink.has_errors() { 0 } else { finish::entry(&arranged) };
    let unused_pads = Vec::new();
    Placed { arranged, plan, rules, symtab, frame_order, entry_address, unused_pads }
}

/// The text of the built-in script that this link uses, in the form that GNU ld reads.
pub fn built_in_text<T: Target>(config: &Config) -> String {
    let script = read_scripts::built_in(config);
    let order = read_scripts::built_in_order(config);
    settings::settings::<T>(config)
        .switches
        .map_or_else(String::new, |switches| script.resolved_text(order, &switches))
}

/// Reports a strong reference to `__ehdr_start` if no segment loads the headers.
fn report_missing_headers<T: Target>(link: &Geometry<'_, T>) {
    let headers = link.linker_symbols.iter().find(|symbol| {
        symbol.origin == LinkerSymbolOrigin::Reserved(Reserved::EhdrStart)
            && link.mentions(symbol.symbol).contains(MentionedBy::STRONG_REFERENCE)
            && link.is_name_used(symbol.symbol)
    });
    if headers.is_some() && link.layout.headers_address.is_none() {
        link.sink.report_recoverable(
            Diagnostic::error(
                Code::UndefinedSymbol,
                "__ehdr_start has no address: the file header is not in a loaded segment",
            )
            .help("leave room for SIZEOF_HEADERS before the first section of the script"),
        );
    }
}
