//! Options for definitions, references and exports.

use crate::config::{DefSym, Report, Symbolic};
use crate::spec::{OptionSpec, Reach, flag, value};
use crate::state::State;
use crate::values::{Outcome, pair, path, shown, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(&["e", "entry"], "ADDRESS", "Start at this symbol or address", |state, name| {
        state.config.symbols.entry = Some(name.to_vec());
        Ok(())
    }),
    value(&["init"], "SYMBOL", "Function to call at load time (default _init)", |state, name| {
        state.config.symbols.init = name.to_vec();
        Ok(())
    }),
    value(&["fini"], "SYMBOL", "Function to call at unload time (default _fini)", |state, name| {
        state.config.symbols.fini = name.to_vec();
        Ok(())
    }),
    value(&["u", "undefined"], "SYMBOL", "Start with a reference to SYMBOL", |state, name| {
        state.config.symbols.undefined.push(name.to_vec());
        Ok(())
    }),
    value(
        &["undefined-glob"],
        "PATTERN",
        "Start with references to symbols that match PATTERN",
        |state, name| {
            state.config.symbols.undefined_globs.push(name.to_vec());
            Ok(())
        },
    ),
    value(
        &["require-defined"],
        "SYMBOL",
        "As -u, and an error where SYMBOL stays undefined",
        |state, name| {
            state.config.symbols.require_defined.push(name.to_vec());
            Ok(())
        },
    ),
    value(&["defsym"], "SYMBOL=EXPRESSION", "Define SYMBOL", define_symbol),
    value(&["wrap"], "SYMBOL", "Send references to SYMBOL to __wrap_SYMBOL", |state, name| {
        state.config.symbols.wrap.push(name.to_vec());
        Ok(())
    }),
    flag(&["E", "export-dynamic"], "Export all global symbols of an executable", |state| {
        state.config.symbols.export_dynamic = true;
    }),
    flag(&["no-export-dynamic"], "Export what shared libraries need (default)", |state| {
        state.config.symbols.export_dynamic = false;
    }),
    value(&["export-dynamic-symbol"], "PATTERN", "Export the symbols that match PATTERN", |state, name| {
        state.config.symbols.export_symbols.push(name.to_vec());
        Ok(())
    }),
    value(
        &["export-dynamic-symbol-list"],
        "FILE",
        "Read patterns for --export-dynamic-symbol from FILE",
        |state, file| {
            state.config.scripts.export_lists.push(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["dynamic-list"],
        "FILE",
        "Read a list of symbols to export, and not to bind locally, from FILE",
        |state, file| {
            state.config.scripts.dynamic_lists.push(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    flag(&["dynamic-list-data"], "Add data symbols to the dynamic list", |state| {
        state.config.symbols.dynamic_list_data = true;
    }),
    flag(&["dynamic-list-cpp-new"], "Add C++ operators new and delete to the dynamic list", |state| {
        state.config.symbols.dynamic_list_cpp_new = true;
    }),
    flag(&["dynamic-list-cpp-typeinfo"], "Add C++ type information to the dynamic list", |state| {
        state.config.symbols.dynamic_list_cpp_typeinfo = true;
    }),
    value(&["version-script"], "FILE", "Read symbol versions from FILE", |state, file| {
        state.config.scripts.version_scripts.push(path(file));
        Ok(())
    })
    .reaches(Reach::Reads),
    flag(&["undefined-version"], "A version script may name symbols that do not exist (default)", |state| {
        state.config.symbols.allow_undefined_version = true;
    }),
    flag(&["no-undefined-version"], "A version script may not name symbols that do not exist", |state| {
        state.config.symbols.allow_undefined_version = false;
    }),
    flag(&["default-symver"], "Give symbols without a version the soname as version", |state| {
        state.config.symbols.default_symver = true;
    }),
    value(&["exclude-libs"], "LIB,LIB...|ALL", "Export nothing from these archives", |state, names| {
        for name in names.split(|byte| matches!(byte, b',' | b':')).filter(|name| !name.is_empty()) {
            state.config.symbols.exclude_libs.push(name.to_vec());
        }
        Ok(())
    }),
    value(&["retain-symbols-file"], "FILE", "Keep only the symbols that FILE lists", |state, file| {
        state.config.scripts.retain_symbols = Some(path(file));
        Ok(())
    })
    .reaches(Reach::Reads),
    flag(&["Bsymbolic"], "Bind references to a library's own symbols locally", |state| {
        state.config.symbols.symbolic = Symbolic::All;
    }),
    flag(&["Bsymbolic-functions"], "Bind references to a library's own functions locally", |state| {
        state.config.symbols.symbolic = Symbolic::Functions;
    }),
    flag(&["Bsymbolic-non-weak"], "As -Bsymbolic, weak symbols left out", |state| {
        state.config.symbols.symbolic = Symbolic::NonWeak;
    }),
    flag(&["Bsymbolic-non-weak-functions"], "As -Bsymbolic-functions, weak symbols left out", |state| {
        state.config.symbols.symbolic = Symbolic::NonWeakFunctions;
    }),
    flag(&["Bno-symbolic"], "Bind nothing locally (default)", |state| {
        state.config.symbols.symbolic = Symbolic::No;
    }),
    flag(&["allow-multiple-definition"], "Take the first of several definitions", |state| {
        state.config.symbols.allow_multiple_definition = true;
    }),
    flag(&["no-allow-multiple-definition"], "Several definitions are an error (default)", |state| {
        state.config.symbols.allow_multiple_definition = false;
    }),
    flag(&["no-undefined"], "Report undefined symbols in shared libraries too", |state| {
        state.pending.report_in_objects = Some(true);
    }),
    value(
        &["unresolved-symbols"],
        "METHOD",
        "Report undefined symbols: report-all, ignore-all, ignore-in-object-files or ignore-in-shared-libs",
        unresolved_symbols,
    ),
    flag(&["allow-shlib-undefined"], "Shared libraries may have undefined symbols", |state| {
        state.pending.report_in_shared_libraries = Some(false);
    }),
    flag(&["no-allow-shlib-undefined"], "Report undefined symbols of shared libraries", |state| {
        state.pending.report_in_shared_libraries = Some(true);
    }),
    flag(&["warn-unresolved-symbols"], "Undefined symbols are warnings", |state| {
        state.pending.unresolved = Some(Report::Warning);
    }),
    flag(&["error-unresolved-symbols"], "Undefined symbols are errors (default)", |state| {
        state.pending.unresolved = Some(Report::Error);
    }),
    value(&["ignore-unresolved-symbol"], "SYMBOL", "SYMBOL may stay undefined", |state, name| {
        state.config.undefined.ignored.push(name.to_vec());
        Ok(())
    }),
    flag(&["d", "dc", "dp"], "Allocate common symbols under -r too", |state| {
        state.config.symbols.define_common = Some(true);
    }),
    flag(&["no-define-common"], "Leave common symbols of a shared library to other modules", |state| {
        state.config.symbols.define_common = Some(false);
    }),
    flag(&["gnu-unique"], "Keep STB_GNU_UNIQUE symbols (default)", |state| {
        state.config.symbols.gnu_unique = true;
    }),
    flag(&["no-gnu-unique"], "Make STB_GNU_UNIQUE symbols ordinary global ones", |state| {
        state.config.symbols.gnu_unique = false;
    }),
];

fn define_symbol(state: &mut State<'_>, text: &[u8]) -> Outcome {
    let (name, expression) = pair(text, "SYMBOL=EXPRESSION")?;
    let name = name.trim_ascii();
    let expression = std::str::from_utf8(expression)
        .map_err(|_| format!("the expression '{}' is not UTF-8", shown(expression)))?;
    if name.is_empty() || expression.trim().is_empty() {
        return Err(format!("'{}' is not of the form SYMBOL=EXPRESSION", shown(text)));
    }
    let expression = expression.trim().to_string();
    let (inputs_before, scripts_before) = (state.inputs.len(), state.config.scripts.scripts.len());
    state.config.symbols.defsyms.push(DefSym {
        name: name.to_vec(),
        expression,
        inputs_before,
        scripts_before,
    });
    Ok(())
}

fn unresolved_symbols(state: &mut State<'_>, method: &[u8]) -> Outcome {
    let (in_objects, in_shared_libraries) = word(
        method,
        &[
            ("report-all", (true, true)),
            ("ignore-all", (false, false)),
            ("ignore-in-object-files", (false, true)),
            ("ignore-in-shared-libs", (true, false)),
        ],
    )?;
    state.pending.report_in_objects = Some(in_objects);
    state.pending.report_in_shared_libraries = Some(in_shared_libraries);
    Ok(())
}
