//! Options for definitions, references and exports.

use crate::config::{DefSym, Report, Symbolic};
use crate::spec::{OptionSpec, Reach, flag, value};
use crate::state::State;
use crate::values::{Outcome, pair, path, shown, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(&["e", "entry"], "ADDRESS", "Start the program at ADDRESS, a symbol or a number", |state, name| {
        state.config.symbols.entry = Some(name.to_vec());
        Ok(())
    }),
    value(
        &["init"],
        "SYMBOL",
        "Call the function SYMBOL when the output is loaded (default _init)",
        |state, name| {
            state.config.symbols.init = name.to_vec();
            Ok(())
        },
    ),
    value(
        &["fini"],
        "SYMBOL",
        "Call the function SYMBOL when the output is unloaded (default _fini)",
        |state, name| {
            state.config.symbols.fini = name.to_vec();
            Ok(())
        },
    ),
    value(
        &["u", "undefined"],
        "SYMBOL",
        "Refer to SYMBOL, so that archives are searched for it and its definition is kept",
        |state, name| {
            state.config.symbols.undefined.push(name.to_vec());
            Ok(())
        },
    ),
    value(
        &["undefined-glob"],
        "PATTERN",
        "Refer to every symbol that matches PATTERN, as -u does to one",
        |state, name| {
            state.config.symbols.undefined_globs.push(name.to_vec());
            Ok(())
        },
    ),
    value(
        &["require-defined"],
        "SYMBOL",
        "Same as -u, and report an error if SYMBOL stays undefined",
        |state, name| {
            state.config.symbols.require_defined.push(name.to_vec());
            Ok(())
        },
    ),
    value(&["defsym"], "SYMBOL=EXPRESSION", "Define SYMBOL with the value of EXPRESSION", define_symbol),
    value(
        &["wrap"],
        "SYMBOL",
        "Bind references to SYMBOL to __wrap_SYMBOL, and those to __real_SYMBOL to SYMBOL",
        |state, name| {
            state.config.symbols.wrap.push(name.to_vec());
            Ok(())
        },
    ),
    flag(&["E", "export-dynamic"], "Export all global symbols of an executable", |state| {
        state.config.symbols.export_dynamic = true;
    }),
    flag(
        &["no-export-dynamic"],
        "Export only the symbols of an executable that shared libraries need (default)",
        |state| {
            state.config.symbols.export_dynamic = false;
        },
    ),
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
        "Export the symbols that FILE lists, and do not bind references to them locally",
        |state, file| {
            state.config.scripts.dynamic_lists.push(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    flag(&["dynamic-list-data"], "Add data symbols to the dynamic list", |state| {
        state.config.symbols.dynamic_list_data = true;
    }),
    flag(&["dynamic-list-cpp-new"], "Add the C++ operators new and delete to the dynamic list", |state| {
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
    flag(&["undefined-version"], "Let version scripts name symbols that do not exist (default)", |state| {
        state.config.symbols.allow_undefined_version = true;
    }),
    flag(
        &["no-undefined-version"],
        "Report an error if a version script names a symbol that does not exist",
        |state| {
            state.config.symbols.allow_undefined_version = false;
        },
    ),
    flag(&["default-symver"], "Give the soname as version to symbols that have none", |state| {
        state.config.symbols.default_symver = true;
    }),
    flag(
        &["default-imported-symver"],
        "Ask for the soname as version of symbols to which their library gives none",
        |state| state.config.symbols.default_imported_symver = true,
    ),
    flag(
        &["disable-multiple-abs-defs"],
        "Let no object define what a file of --just-symbols defines in a section",
        |state| state.config.symbols.defined_once_beside_just_symbols = true,
    ),
    value(
        &["exclude-libs"],
        "LIB,LIB...|ALL",
        "Export no symbols from these archives; ALL means every archive",
        |state, names| {
            for name in names.split(|byte| matches!(byte, b',' | b':')).filter(|name| !name.is_empty()) {
                state.config.symbols.exclude_libs.push(name.to_vec());
            }
            Ok(())
        },
    ),
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
    flag(&["Bsymbolic-non-weak"], "Same as -Bsymbolic, except for weak symbols", |state| {
        state.config.symbols.symbolic = Symbolic::NonWeak;
    }),
    flag(
        &["Bsymbolic-non-weak-functions"],
        "Same as -Bsymbolic-functions, except for weak symbols",
        |state| {
            state.config.symbols.symbolic = Symbolic::NonWeakFunctions;
        },
    ),
    flag(
        &["Bno-symbolic"],
        "Let the dynamic linker bind references to a library's own symbols (default)",
        |state| {
            state.config.symbols.symbolic = Symbolic::No;
        },
    ),
    flag(
        &["allow-multiple-definition"],
        "Use the first of several definitions of a symbol, without an error",
        |state| {
            state.config.symbols.allow_multiple_definition = true;
        },
    ),
    flag(
        &["no-allow-multiple-definition"],
        "Report several definitions of a symbol as an error (default)",
        |state| {
            state.config.symbols.allow_multiple_definition = false;
        },
    ),
    flag(&["no-undefined"], "Report undefined symbols also if the output is a shared library", |state| {
        state.pending.report_in_objects = Some(true);
    }),
    value(
        &["unresolved-symbols"],
        "METHOD",
        "Report undefined symbols: report-all, ignore-all, ignore-in-object-files or ignore-in-shared-libs",
        unresolved_symbols,
    ),
    flag(
        &["allow-shlib-undefined"],
        "Do not report undefined symbols of the shared libraries in the link",
        |state| {
            state.pending.report_in_shared_libraries = Some(false);
        },
    ),
    flag(
        &["no-allow-shlib-undefined"],
        "Report undefined symbols of the shared libraries in the link",
        |state| {
            state.pending.report_in_shared_libraries = Some(true);
        },
    ),
    flag(&["warn-unresolved-symbols"], "Report undefined symbols as warnings", |state| {
        state.pending.unresolved = Some(Report::Warning);
    }),
    flag(&["error-unresolved-symbols"], "Report undefined symbols as errors (default)", |state| {
        state.pending.unresolved = Some(Report::Error);
    }),
    value(
        &["ignore-unresolved-symbol"],
        "SYMBOL",
        "Do not report SYMBOL if it stays undefined",
        |state, name| {
            state.config.undefined.ignored.push(name.to_vec());
            Ok(())
        },
    ),
    flag(&["d", "dc", "dp"], "Allocate common symbols also with -r", |state| {
        state.config.symbols.define_common = Some(true);
    }),
    flag(&["no-define-common"], "Let other modules define the common symbols of a shared library", |state| {
        state.config.symbols.define_common = Some(false);
    }),
    flag(&["gnu-unique"], "Keep STB_GNU_UNIQUE symbols (default)", |state| {
        state.config.symbols.gnu_unique = true;
    }),
    flag(&["no-gnu-unique"], "Turn STB_GNU_UNIQUE symbols into ordinary global ones", |state| {
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
