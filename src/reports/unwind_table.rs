//! What became of `.eh_frame` with `--unwind-table`: for `--print-sframe` and `--stats`.

use crate::arch::Target;
use crate::diag::words;
use crate::frames::UnwindTable;
use crate::frames::unwind_table::Stays;
use crate::ids::FileId;
use crate::phase::Live;
use std::fmt::Write;

/// A line about the table, and one for each reason why FDEs stay.
pub fn lines<T: Target>(link: &Live<'_, T>) -> String {
    let Some(table) = &link.unwind_table else { return String::new() };
    let functions = table.functions.len() as u64;
    let (stay, what) =
        (stay(table), if table.replaces { "that left .eh_frame" } else { "that .eh_frame keeps" });
    let mut text = format!(
        "unwind table: {functions} {}, for {} bytes of FDEs {what}; {stay} {} only in .eh_frame\n",
        words::form(functions, "function"),
        table.replaced,
        if stay == 1 { "FDE is" } else { "FDEs are" },
    );
    let mut line = |(reason, &(count, file, _)): (&Stays, &(u64, FileId, u32))| {
        let object = &link.objects[file.index()].name;
        let _ = writeln!(
            text,
            "unwind table: {count} {}: {reason}; first in {object}",
            words::form(count, "FDE")
        );
    };
    table.kept.iter().for_each(&mut line);
    text
}

/// The numbers of the table; none without one.
pub fn numbers<T: Target>(link: &Live<'_, T>) -> Vec<(&'static str, u64)> {
    let Some(table) = &link.unwind_table else { return Vec::new() };
    vec![
        ("unwind_table_functions", table.functions.len() as u64),
        ("unwind_table_fde_bytes", table.replaced),
        ("unwind_table_fdes_kept", stay(table)),
    ]
}

fn stay(table: &UnwindTable) -> u64 {
    table.kept.values().map(|kept| kept.0).sum()
}
