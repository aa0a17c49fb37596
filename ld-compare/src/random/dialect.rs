//! A machine's assembly as templates: the ways to form an address, to call, to reach a thread-local variable,
//! and to store any of it in data. Generated code works with two values only, one that is computed (`A`) and
//! one that outlives calls (`S`), so that the rest of the generator knows no machine.
//!
//! Templates name the symbol `{t}`, its addend `{a}` (as `+8`, or nothing) and `{n}` (as a number), a number
//! of an observation or constant `{i}`, and a number for labels `{l}` that no other use has.

/// Conditions under which a form is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The symbol cannot be preempted: its module defines it, and no other module's definition comes before.
    pub near: bool,
    /// The code has fixed addresses.
    pub fixed: bool,
    /// The code is a program's, not a library's.
    pub program: bool,
    /// The symbol is global and no ifunc: GNU ld supports no others here.
    pub global: bool,
}

/// Right everywhere.
pub const ANY: Needs = Needs { near: false, fixed: false, program: false, global: false };
/// Right where the symbol cannot be preempted.
pub const NEAR: Needs = Needs { near: true, ..ANY };
/// Right in programs with fixed addresses.
pub const FIXED: Needs = Needs { near: true, fixed: true, program: true, ..ANY };
/// Right in programs, for what the program defines.
pub const PROGRAM: Needs = Needs { near: true, program: true, ..ANY };
/// Right for global symbols that are no ifuncs.
pub const GLOBAL: Needs = Needs { global: true, ..ANY };

/// A way to do something with a symbol.
#[derive(Debug)]
pub struct Form {
    /// For comments in the generated text.
    pub name: &'static str,
    /// When it is right.
    pub needs: Needs,
    /// The template.
    pub text: &'static str,
}

/// How a word of data leads to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// It is the address.
    Address,
    /// 32 bits, the address without its upper half.
    Short,
    /// 64 bits, relative to the word.
    Relative,
    /// 32 bits, relative to the word.
    ShortRelative,
    /// 64 bits, relative to the GOT.
    GotRelative,
    /// 32 bits, relative to the word: leads to the target's slot in the GOT.
    Slot,
}

/// A way to store a symbol's address in data.
#[derive(Debug)]
pub struct Word {
    /// The template.
    pub form: Form,
    /// How to follow it.
    pub leads: Leads,
    /// Whether it can take an addend.
    pub addend: bool,
    /// Whether it can hold addresses of functions only.
    pub function: bool,
}

/// A field for absolute symbols or sizes, with the values at its limits.
#[derive(Debug)]
pub struct Field {
    /// The template: makes `A` from the symbol, or 8 bytes of data.
    pub form: Form,
    /// Values at the limits.
    pub limits: &'static [i64],
}

/// A form.
pub const fn form(name: &'static str, needs: Needs, text: &'static str) -> Form {
    Form { name, needs, text }
}

/// A word that can take an addend and is not for functions alone.
pub const fn word(name: &'static str, needs: Needs, text: &'static str, leads: Leads) -> Word {
    Word { form: form(name, needs, text), leads, addend: true, function: false }
}

/// A field.
pub const fn field(name: &'static str, needs: Needs, text: &'static str, limits: &'static [i64]) -> Field {
    Field { form: form(name, needs, text), limits }
}

/// A machine's templates.
#[derive(Debug)]
pub struct Dialect {
    /// Starts a comment.
    pub comment: &'static str,
    /// Before section and symbol types.
    pub at: char,
    /// Start and end of functions that call, after the label; with call frame information.
    pub enter: &'static str,
    /// Return from such functions.
    pub leave: &'static str,
    /// Return from a function that has touched nothing but `A`.
    pub ret: &'static str,
    /// `A = {i}`, a 64-bit constant.
    pub constant: fn(u64) -> String,
    /// `A = address`.
    pub addresses: &'static [Form],
    /// Calls: the result is `A`.
    pub calls: &'static [Form],
    /// `A = address` of thread-local variables.
    pub tls: &'static [Form],
    /// Addresses in data.
    pub words: &'static [Word],
    /// Absolute symbols in data, padded to 8 bytes.
    pub data_fields: &'static [Field],
    /// Absolute symbols in code.
    pub code_fields: &'static [Field],
    /// Sizes of symbols in data, padded to 8 bytes.
    pub sizes: &'static [Form],
    /// `A = 64 bits at A`.
    pub load: &'static str,
    /// `A = 32 bits at A`, signed.
    pub load_signed: &'static str,
    /// `A = 32 bits at A`, unsigned.
    pub load_short: &'static str,
    /// `S = A`.
    pub save: &'static str,
    /// `A = A + S`.
    pub add: &'static str,
    /// `A = A - S`.
    pub subtract: &'static str,
    /// `A = A << {i}`.
    pub shift: &'static str,
    /// Where a word of data is not aligned: bytes before it.
    pub unaligned: &'static str,
    /// `64 bits at S = A`.
    pub store: &'static str,
    /// `A = A()`.
    pub call_a: &'static str,
    /// `S = address of the GOT`.
    pub got: &'static str,
    /// `observe({i}, A)`.
    pub observe: &'static str,
    /// `observe_text({i}, A)`.
    pub observe_text: &'static str,
    /// `observe_range({i}, S, A)`.
    pub observe_range: &'static str,
}
