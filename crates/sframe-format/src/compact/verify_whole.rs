//! Checks the parts that only version 2 has against every rule of `COMPACT.md`.

use super::handlers::{MOST_ROUTINE, RANK, ROUTINE_SHIFT, WIDE};
use super::{CONTINUED_SIZE, HANDLER_PAGE_SIZE, View, unused};
use crate::error::{Error, ErrorKind};

pub(super) fn check(view: &View<'_>) -> Result<(), Error> {
    (0..view.header.rules).try_for_each(|number| check_rule(view, number))?;
    check_continued(view)?;
    check_handlers(view)
}

/// Checks that a rule has a meaning in version 2, and that its layout does not repeat what it says itself.
fn check_rule(view: &View<'_>, number: u32) -> Result<(), Error> {
    let Some(rules) = view.whole_rules(number)? else { return Ok(()) };
    let abi = view.header.abi;
    let repeats = rules.others.into_iter().any(|(register, _)| {
        register == abi.return_address() && rules.return_address.is_some()
            || register == abi.frame_pointer() && rules.frame_pointer.is_some()
    });
    if repeats || rules.key_b && !abi.is_aarch64() {
        return Err(unused(view.parts.layout_numbers + number as usize * 2, "a layout"));
    }
    Ok(())
}

fn check_continued(view: &View<'_>) -> Result<(), Error> {
    let mut last = None;
    let mut first_before = None;
    for number in 0..view.header.whole.continued as usize {
        let at = view.parts.continued + number * CONTINUED_SIZE;
        let (entry, first) = (view.u32(at), view.u32(at + 4));
        // The pieces of a function follow one another, so a piece continues the piece before.
        let before = entry.checked_sub(1);
        let follows = before == Some(first) || before == last && first_before == Some(first);
        let ascends = last.is_none_or(|last| last < entry);
        if !ascends || !follows || first >= entry || entry >= view.header.entries {
            return Err(Error::new(at, ErrorKind::CompactOrder { what: "continued entries" }));
        }
        if view.has_handler(entry) {
            return Err(unused(at, "a continued entry: it has a handler"));
        }
        (last, first_before) = (Some(entry), Some(first));
    }
    Ok(())
}

fn check_handlers(view: &View<'_>) -> Result<(), Error> {
    let whole = &view.header.whole;
    let disorder = |at: usize| Error::new(at, ErrorKind::CompactOrder { what: "handlers" });
    if whole.handlers == 0 {
        return if whole.lsda_bytes == 0 { Ok(()) } else { Err(disorder(view.parts.lsdas)) };
    }
    let (mut count, mut bytes) = (0u32, 0u32);
    for page in 0..view.header.pages {
        let at = view.parts.handler_pages + page as usize * HANDLER_PAGE_SIZE;
        let (rank, place) = (view.u32(at), view.u32(at + 4));
        if rank & RANK != count || place != bytes {
            return Err(disorder(at));
        }
        let own = view.handlers_between(view.first_entry(page), view.first_entry(page + 1));
        let has_bytes = rank >> ROUTINE_SHIFT & MOST_ROUTINE == 0;
        let width = if rank & WIDE == 0 { 2 } else { 4 } + u32::from(has_bytes);
        count = count.checked_add(own).ok_or(disorder(at))?;
        bytes = own.checked_mul(width).and_then(|own| bytes.checked_add(own)).ok_or(disorder(at))?;
    }
    if (count, bytes) != (whole.handlers, whole.lsda_bytes) {
        return Err(disorder(view.parts.handler_pages));
    }
    (0..view.header.entries).try_for_each(|entry| view.handler(entry).map(drop))?;
    let behind_last = view.header.entries % 8;
    let last = view.parts.lsdas - 1;
    let byte = view.data.get(last).copied().unwrap_or(0);
    if behind_last != 0 && byte >> behind_last != 0 {
        return Err(unused(last, "the bits of entries"));
    }
    Ok(())
}
