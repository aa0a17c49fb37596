//! Computes what follows from addresses: places of sections, values of linker-defined symbols, the entry.

use super::converge::Round;
use super::link_order;
use super::names::{Source, reserved_section};
use super::orphan;
use super::place::{self, List};
use super::segments;
use super::state::LayoutState;
use crate::arch::Target;
use crate::chunks::{Chunk, Layout, LinkerValue, Places, TlsTemplate};
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{ChunkId, OutputId, SectionId, SymbolId};
use crate::phase::{Addresses, Contents, Geometry, Located};
use crate::rows::{filled, joined};
use crate::script::eval::{Base, Value};
use crate::symbols::Definition;
use crate::symbols::{LinkerSymbol, LinkerSymbolOrigin, Reserved};
use parallel::ParallelSlice;

/// The geometry of a round: chunks with their items, the place of every section, and the values of the
/// linker's symbols.
pub fn geometry<'a, T: Target>(
    link: Contents<'a, T>,
    layout_state: &LayoutState<'_>,
    round: Round<'a>,
) -> Geometry<'a, T> {
    let Round { chunks, outputs, order, segments } = round;
    let mut chunk_of = vec![None; layout_state.outputs.len()];
    for (index, &output) in outputs.iter().enumerate() {
        chunk_of[output.index()] = Some(ChunkId::from_index(index));
    }
    let mut layout = Layout {
        chunks,
        places: places(&link, layout_state, &chunk_of),
        order,
        segments,
        regions: layout_state.regions.iter().skip(1).copied().collect(),
        tls: TlsTemplate::default(),
        headers_size: layout_state.headers_size,
        headers_address: layout_state.headers_address,
        apart: 0,
    };
    let goes_apart = |chunk: &&Chunk<'_>| orphan::goes_apart(&link.config.strip, chunk.name, chunk.flags);
    layout.apart = layout.chunks.iter().rev().take_while(goes_apart).count();
    layout.tls = tls_template(&layout);
    for (output, &chunk) in chunk_of.iter().enumerate() {
        match chunk {
            Some(chunk) => fill_chunk(&link, &mut layout, layout_state, output, chunk),
            None => move_to_neighbour(&link, &mut layout, layout_state, output),
        }
    }
    let linker_values = linker_values(&link, &layout, layout_state, &chunk_of);
    let addresses = Addresses::of(&link, &layout);
    Geometry { layout, linker_values, addresses, contents: link }
}

/// The TLS template, which `PT_TLS` describes. With `PHDRS`, there may be no such segment, or no section in
/// it. Then the template is what the segment would hold.
fn tls_template(layout: &Layout<'_>) -> TlsTemplate {
    let named = layout.segment(elf::PT_TLS).filter(|segment| !segment.is_empty()).copied();
    let derived = || {
        let chunks: Vec<&Chunk<'_>> = layout.order.iter().map(|id| &layout.chunks[id.index()]).collect();
        segments::tls(&chunks)
    };
    let Some(segment) = named.or_else(derived) else { return TlsTemplate::default() };
    let Some(last) = layout.chunks_of(&segment).last() else { return TlsTemplate::default() };
    let last = &layout.chunks[last.index()];
    let end = last.address.wrapping_add(last.size);
    TlsTemplate { start: segment.address, size: end.wrapping_sub(segment.address), align: segment.align }
}

/// The lists of an output section, in order.
fn lists_of<'m>(layout_state: &'m LayoutState<'_>, output: usize) -> impl Iterator<Item = &'m List> {
    layout_state.plan.outputs[output].rules().map(|rule| &layout_state.lists[rule.index()])
}

/// The output section and the offset of each section that is in the output.
fn places<T: Target>(
    link: &Contents<'_, T>,
    layout_state: &LayoutState<'_>,
    chunk_of: &[Option<ChunkId>],
) -> Places {
    let lists = layout_state.lists.iter().zip(&layout_state.plan.rules);
    let of_rule: Vec<(Option<ChunkId>, u64)> =
        lists.map(|(list, rule)| (chunk_of[rule.output.index()], list.start)).collect();
    let count = link.section_count();
    let mut places = Places { chunk: filled(None, count), offset: filled(0, count) };
    let facts = layout_state.section_rules.par_iter().zip(&layout_state.offsets).enumerate();
    let rows = places.chunk.par_iter_mut().zip(&mut places.offset).zip(facts);
    rows.with_min_len(super::place::BLOCK).for_each(|((chunk, place), (row, (rule, offset)))| {
        if let Some(rule) = rule
            && let (Some(id), start) = of_rule[rule.index()]
            && place::is_placed(link, SectionId::from_index(row))
        {
            *chunk = Some(id);
            *place = start.wrapping_add(*offset);
        }
    });
    places
}

fn fill_chunk<T: Target>(
    link: &Contents<'_, T>,
    layout: &mut Layout<'_>,
    layout_state: &LayoutState<'_>,
    output: usize,
    id: ChunkId,
) {
    let lists: Vec<&[SectionId]> = lists_of(layout_state, output).map(|list| &list.items[..]).collect();
    let items = joined(&lists, 0, SectionId(0));
    let ordered = elf::SHF_LINK_ORDER;
    let link_order = match layout.chunks[id.index()].flags & ordered {
        0 => None,
        _ => link_order::described(link, layout, &items),
    };
    let state = &layout_state.outputs[output];
    let chunk = &mut layout.chunks[id.index()];
    // Later links find the text that keeps SFrame data by its relocations, so the data needs no `sh_link`.
    if link_order.is_none() && link.config.is_relocatable() && state.facts.sframe {
        chunk.flags &= !ordered;
    }
    chunk.items = items;
    chunk.link_order = link_order;
    chunk.fills.clone_from(&state.fills);
    chunk.data.clone_from(&state.data);
}

/// Moves the sections of a dropped output section to the nearest output section. They are empty, but may hold
/// symbols.
fn move_to_neighbour<T: Target>(
    link: &Contents<'_, T>,
    layout: &mut Layout<'_>,
    layout_state: &LayoutState<'_>,
    output: usize,
) {
    if lists_of(layout_state, output).all(|list| list.items.is_empty()) {
        return;
    }
    let address = layout_state.outputs[output].address;
    let neighbour = nearest(&layout.chunks, address);
    let start = neighbour.map_or(0, |chunk| layout.chunks[chunk.index()].address);
    for list in lists_of(layout_state, output) {
        for &item in &list.items {
            // Inputs define no symbols in synthetic sections, so an empty synthetic section needs no output
            // section.
            if item.0 < link.first_internal() {
                layout.places.chunk[item.index()] = neighbour;
                layout.places.offset[item.index()] = address.wrapping_sub(start);
            }
        }
    }
}

/// The last output section in memory that begins at or before an address. If there is none, the first one.
pub fn nearest(chunks: &[Chunk<'_>], address: u64) -> Option<ChunkId> {
    let taking = || chunks.iter().enumerate().filter(|(_, chunk)| chunk.takes_address_space());
    let before =
        taking().filter(|(_, chunk)| chunk.address <= address).max_by_key(|(at, chunk)| (chunk.address, *at));
    before.or_else(|| taking().next()).map(|(at, _)| ChunkId::from_index(at))
}

/// [`nearest`] for many addresses: a script may compute as many symbols as there are output sections.
struct Nearest {
    /// Addresses and numbers of the chunks that take address space, ascending.
    sorted: Vec<(u64, usize)>,
    first: Option<usize>,
}

impl Nearest {
    fn among(chunks: &[Chunk<'_>]) -> Self {
        let taking = chunks.iter().enumerate().filter(|(_, chunk)| chunk.takes_address_space());
        let mut sorted: Vec<(u64, usize)> = taking.map(|(at, chunk)| (chunk.address, at)).collect();
        let first = sorted.first().map(|&(_, at)| at);
        sorted.sort_unstable();
        Self { sorted, first }
    }

    fn find(&self, address: u64) -> Option<ChunkId> {
        let behind = self.sorted.partition_point(|&(start, _)| start <= address);
        let before = behind.checked_sub(1).map(|last| self.sorted[last].1);
        before.or(self.first).map(ChunkId::from_index)
    }
}

/// Places of the linker's symbols, by their rows.
fn linker_values<T: Target>(
    link: &Contents<'_, T>,
    layout: &Layout<'_>,
    layout_state: &LayoutState<'_>,
    chunk_of: &[Option<ChunkId>],
) -> Vec<LinkerValue> {
    let of_reserved = |symbol: &LinkerSymbol| {
        let name = link.globals.names[symbol.symbol.index()];
        let edge =
            |prefix: &[u8], stop| edge(layout, layout_state, name.strip_prefix(prefix), chunk_of, stop);
        let found = match symbol.origin {
            LinkerSymbolOrigin::Assignment | LinkerSymbolOrigin::Version => None,
            LinkerSymbolOrigin::Start => edge(b"__start_", false),
            LinkerSymbolOrigin::Stop => edge(b"__stop_", true),
            LinkerSymbolOrigin::Reserved(reserved) => reserved_place(link, layout, reserved),
        };
        found.map_or_else(LinkerValue::default, |(chunk, value)| LinkerValue { chunk: Some(chunk), value })
    };
    let mut values: Vec<LinkerValue> = link.linker_symbols.iter().map(of_reserved).collect();
    let position_independent = link.config.is_position_independent();
    let nearest = Nearest::among(&layout.chunks);
    for entry in &layout_state.symbols.entries {
        let Source::Script(Some(row)) = entry.source else { continue };
        let Some(value) = entry.value else { continue };
        let symbol = &link.linker_symbols[row as usize];
        if symbol.origin != LinkerSymbolOrigin::Assignment {
            continue;
        }
        let (mut chunk, value) = place(&nearest, layout_state, chunk_of, value, entry.anchor);
        // Outside of sections, `a + 4` is an absolute address. A dynamic linker would leave it as it is,
        // while references inside the output move with `a`. So it becomes relative to a chunk. Zero is not an
        // address: `DEFINED(a) ? a : 0`.
        if position_independent && !symbol.fixed && !entry.absolute && value != 0 {
            chunk = chunk.or_else(|| nearest.find(value));
        }
        values[row as usize] = LinkerValue { chunk, value };
    }
    values
}

/// The chunk and the address of a script's value.
fn place(
    nearest: &Nearest,
    layout_state: &LayoutState<'_>,
    chunk_of: &[Option<ChunkId>],
    value: Value,
    anchor: Option<OutputId>,
) -> (Option<ChunkId>, u64) {
    let address = value.address(None, layout_state);
    let chunk = match value.base {
        Base::Section(section) => chunk_of[section as usize],
        _ if value.moves => anchor.and_then(|output| chunk_of[output.index()]),
        _ => return (None, address),
    };
    (chunk.or_else(|| nearest.find(address)), address)
}

fn edge(
    layout: &Layout<'_>,
    layout_state: &LayoutState<'_>,
    section: Option<&[u8]>,
    chunk_of: &[Option<ChunkId>],
    stop: bool,
) -> Option<(ChunkId, u64)> {
    let output = layout_state.output_names.find(section?)?;
    let state = &layout_state.outputs[output.index()];
    let address = state.address.wrapping_add(if stop { state.size } else { 0 });
    let chunk = chunk_of[output.index()];
    Some((chunk.or_else(|| nearest(&layout.chunks, address))?, address))
}

fn reserved_place<T: Target>(
    link: &Contents<'_, T>,
    layout: &Layout<'_>,
    reserved: Reserved,
) -> Option<(ChunkId, u64)> {
    match reserved {
        Reserved::EhdrStart => {
            let address = layout.headers_address?;
            Some((nearest(&layout.chunks, address)?, address))
        }
        Reserved::DsoHandle => {
            let starts =
                layout.chunks.iter().filter(|chunk| is_alloc(chunk.flags)).map(|chunk| chunk.address);
            let address = layout.headers_address.or_else(|| starts.min())?;
            Some((nearest(&layout.chunks, address)?, address))
        }
        Reserved::TlsModuleBase => {
            let chunk = layout
                .chunks
                .iter()
                .position(|chunk| is_alloc(chunk.flags) && chunk.flags & elf::SHF_TLS != 0)?;
            Some((ChunkId::from_index(chunk), layout.tls.start))
        }
        _ => {
            let section = reserved_section(link, reserved)?;
            Some((layout.chunk_with(section)?, layout.section_address(section)))
        }
    }
}

/// The address of a symbol that this output defines; `None` if it does not.
fn address_here<T: Target>(link: &Located<'_, T>, id: SymbolId) -> Option<u64> {
    let is_placed =
        |section: SectionId| link.sections.is_alive(section) && link.output_chunk(section).is_some();
    let is_here = match link.definition(id) {
        Definition::Linker(_) => true,
        Definition::Object { .. } => link.symbol_section(id).is_none_or(|(section, _)| is_placed(section)),
        Definition::Shared { .. } | Definition::Undefined => false,
    };
    is_here.then(|| link.values[id.index()])
}

/// The entry address (`e_entry`): the address of the entry symbol, or the number that is given for it. An
/// executable without either gets the start of `.text`, with a warning, as in GNU ld. A library or an object
/// (`-r`) without either gets 0, because nobody starts it by accident. In an object, the symbol's value is
/// its offset in its section. Symbols must have their values.
pub fn entry<T: Target>(link: &Located<'_, T>) -> u64 {
    let config = link.config;
    let name = &link.entry[..];
    if let Some(address) = link.globals.lookup(name).and_then(|id| address_here(link, id)) {
        return address;
    }
    if let Some(number) = parse_number(name) {
        return number;
    }
    let asked = config.symbols.entry.is_some();
    let is_started = !config.is_relocatable() && !config.is_shared();
    if !is_started && !asked {
        return 0;
    }
    let text = link.layout.find(b".text").filter(|_| is_started);
    let text = text.map(|chunk| link.layout.chunks[chunk.index()].address);
    let outcome = match text {
        Some(address) => format!("defaulting to {address:016x}"),
        None => "not setting start address".to_owned(),
    };
    let is_default = !asked && link.plan.entry.is_none();
    if is_default && link.plan.replaces_default {
        return text.unwrap_or(0);
    }
    let name = link.name_text(name);
    link.sink.report(
        // The message is this line alone, because builds filter it out by its text.
        Diagnostic::warning(Code::NoEntry, format!("cannot find entry symbol {name}; {outcome}")),
    );
    text.unwrap_or(0)
}

/// The number that the whole text is, as `strtoul` with base 0 reads it.
fn parse_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}
