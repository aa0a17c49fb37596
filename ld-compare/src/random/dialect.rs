//! A machine's assembly as templates: how to form an address, call, reach a thread-local variable, and store
//! any of these in data.
//!
//! Generated code works with only two values: `A`, the one that it computes, and `S`, which survives calls.
//! Each machine says in which registers they are, so the rest of the generator needs to know no machine.
//!
//! In a template, `{t}` is the symbol, `{a}` its addend (as `+8`, or nothing) and `{n}` the addend as a
//! number. `{i}` is the number of an observation or a constant, and `{l}` a number that makes a label unique.

/// When a form is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The symbol cannot be preempted: its module defines it, and no other module's definition comes first.
    pub near: bool,
    /// The code has fixed addresses.
    pub fixed: bool,
    /// The code belongs to a program, not to a library.
    pub program: bool,
    /// The symbol is global and no ifunc, because GNU ld supports no others here.
    pub global: bool,
}

/// Correct everywhere.
pub const ANY: Needs = Needs { near: false, fixed: false, program: false, global: false };
/// Correct if the symbol cannot be preempted.
pub const NEAR: Needs = Needs { near: true, ..ANY };
/// Correct in programs with fixed addresses.
pub const FIXED: Needs = Needs { near: true, fixed: true, program: true, ..ANY };
/// Correct in programs, for symbols that the program defines.
pub const PROGRAM: Needs = Needs { near: true, program: true, ..ANY };
/// Correct for global symbols that are no ifuncs.
pub const GLOBAL: Needs = Needs { global: true, ..ANY };

/// A way to do something with a symbol.
#[derive(Debug)]
pub struct Form {
    /// The name, for comments in the generated text.
    pub name: &'static str,
    /// When it is correct.
    pub needs: Needs,
    /// The template.
    pub text: &'static str,
}

/// How a word of data refers to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// It contains the address.
    Address,
    /// It contains the lower 32 bits of the address.
    Short,
    /// 64 bits, relative to the word's own address.
    Relative,
    /// 32 bits, relative to the word's own address.
    ShortRelative,
    /// 64 bits, relative to the GOT.
    GotRelative,
    /// 32 bits, relative to the word's own address: leads to the target's slot in the GOT.
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
    /// Whether it can contain addresses of functions only.
    pub function: bool,
}

/// A field for absolute symbols or sizes, with the values at the limits of its range.
#[derive(Debug)]
pub struct Field {
    /// The template: sets `A` from the symbol, or writes 8 bytes of data.
    pub form: Form,
    /// The values at the limits.
    pub limits: &'static [i64],
}

/// A form.
pub const fn form(name: &'static str, needs: Needs, text: &'static str) -> Form {
    Form { name, needs, text }
}

/// A word that can take an addend and may refer to anything.
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
    /// The start of a comment.
    pub comment: &'static str,
    /// The sign before section and symbol types.
    pub at: char,
    /// The start of a function that calls others, after the label; with call frame information.
    pub enter: &'static str,
    /// The return from such a function.
    pub leave: &'static str,
    /// The return from a function that has only changed `A`.
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
    /// Bytes before a word of data that make it unaligned.
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
