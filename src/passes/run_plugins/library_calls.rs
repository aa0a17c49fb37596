//! Functions that a compiler calls by itself: copies of structures, arithmetic that the machine lacks.
//!
//! No file of intermediate code refers to them. Only the compiled code does, and then it is too late to
//! compile the member that defines one. So members of intermediate code that define one take part from the
//! beginning, as in lld, and the compiler must keep the definitions. Members of machine code can still be
//! extracted after compilation.

use crate::arch::Target;
use crate::ids::SymbolId;
use crate::passes::parse_inputs::{Parsed, ParsedInputs};
use crate::symbols::Globals;
use hashbrown::HashSet;

/// Names that gcc and LLVM call on any machine, whatever the source says.
const PLAIN: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "bzero",
    "strlen",
    "abort",
    "__stack_chk_fail",
    "__stack_chk_guard",
    "_Unwind_Resume",
    "__cxa_end_cleanup",
    "sincos",
    "sincosf",
    "sincosl",
    "__clear_cache",
];

/// Functions of libm. Each has a form for `double`, `float` (`f`) and `long double` (`l`).
const REAL: &[&str] = &[
    "acos",
    "asin",
    "atan",
    "atan2",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "exp",
    "exp10",
    "exp2",
    "fabs",
    "floor",
    "fma",
    "fmax",
    "fmaximum",
    "fmaximum_num",
    "fmin",
    "fminimum",
    "fminimum_num",
    "fmod",
    "frexp",
    "ldexp",
    "llrint",
    "llround",
    "log",
    "log10",
    "log2",
    "lrint",
    "lround",
    "modf",
    "nearbyint",
    "pow",
    "remainder",
    "rint",
    "round",
    "roundeven",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
];

/// Prefixes of functions in the compilers' own libraries (libgcc, compiler-rt, libatomic): arithmetic and
/// conversions of wide integers and of floating-point numbers, and atomic accesses.
const OWN: &[&str] = &[
    "__add",
    "__sub",
    "__mul",
    "__div",
    "__mod",
    "__udiv",
    "__umod",
    "__neg",
    "__ash",
    "__lsh",
    "__cmp",
    "__ucmp",
    "__eq",
    "__ne",
    "__lt",
    "__le",
    "__gt",
    "__ge",
    "__unord",
    "__extend",
    "__trunc",
    "__fix",
    "__float",
    "__pow",
    "__popcount",
    "__parity",
    "__clz",
    "__ctz",
    "__ffs",
    "__bswap",
    "__gnu_f2h",
    "__gnu_h2f",
    "__atomic_",
    "__sync_",
];

/// Whether a compiler calls a function of this name by itself.
fn is_library_call(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let real = name.strip_suffix(['f', 'l']).unwrap_or(name);
    PLAIN.contains(&name)
        || REAL.contains(&name)
        || REAL.contains(&real)
        || name.starts_with("__") && OWN.iter().any(|prefix| name.starts_with(prefix))
}

/// Library calls that are first defined in a claimed file, in the order of inputs. `is_claimed` tells whether
/// a plugin has claimed the file in a row.
pub fn wanted<T: Target>(parsed: &ParsedInputs<'_, T>, is_claimed: &dyn Fn(u32) -> bool) -> Vec<SymbolId> {
    let calls: HashSet<SymbolId> = of(&parsed.globals).collect();
    let (mut seen, mut wanted) = (HashSet::new(), Vec::new());
    for (row, file) in (0..).zip(&parsed.files) {
        match file {
            Parsed::Object(object) => {
                for (symbol, &id) in
                    object.symbols[object.first_global as usize..].iter().zip(&object.globals)
                {
                    if !symbol.is_undefined() && calls.contains(&id) && seen.insert(id) && is_claimed(row) {
                        wanted.push(id);
                    }
                }
            }
            Parsed::Shared(library) => {
                for (symbol, &id) in library.symbols.iter().zip(&library.globals) {
                    if !symbol.is_undefined() && calls.contains(&id) {
                        seen.insert(id);
                    }
                }
            }
            Parsed::Broken | Parsed::Nothing => {}
        }
    }
    wanted
}

/// The library calls among the names of a link.
pub fn of(globals: &Globals<'_>) -> impl Iterator<Item = SymbolId> {
    globals.ids().filter(|id| is_library_call(globals.names[id.index()]))
}

#[cfg(test)]
mod tests {
    use super::is_library_call;

    #[test]
    fn names_that_compilers_call() {
        for name in
            ["memcpy", "sqrtf", "fmodl", "pow", "__udivti3", "__atomic_load_16", "__sync_fetch_and_add_4"]
        {
            assert!(is_library_call(name.as_bytes()), "{name}");
        }
        for name in ["main", "powers", "memory", "ff", "_start", "add", "__init_array"] {
            assert!(!is_library_call(name.as_bytes()), "{name}");
        }
    }
}
