//! How to compile units of C, and how their code may form an address.
//!
//! In C, the compiler decides how the code forms an address, by its options and by the visibility in a
//! declaration. So the forms here are expressions, and say only what the compiler may assume.

use super::dialect::{ANY, FIXED, Form, Leads, NEAR, Word, form, word};
use super::rng::Rng;
use crate::machine::Machine;

/// How a unit is compiled.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What its code may assume.
    pub code: Code,
    /// Arguments for the compiler.
    pub words: Vec<String>,
    /// Whether the link compiles it (`-flto`).
    pub lto: bool,
}

/// What code may assume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// That addresses are fixed (`-fno-pic`).
    Fixed,
    /// That it belongs to a program (`-fPIE`).
    Pie,
    /// Nothing (`-fPIC`).
    Pic,
}

/// The forms for a kind of code.
#[derive(Debug)]
pub struct Forms {
    /// Addresses of data.
    pub data: &'static [Form],
    /// Addresses of functions.
    pub functions: &'static [Form],
    /// Calls.
    pub calls: &'static [Form],
    /// Addresses of thread-local variables.
    pub tls: &'static [Form],
    /// Addresses in data.
    pub words: &'static [Word],
}

const ADDRESS: &str = "(u64)&{t}{a}";
/// Loads an address from a word of data.
const STORED: &str = "({ static const volatile u64 stored = (u64)&{t}{a}; stored; })";

static FIXED_FORMS: Forms = Forms {
    data: &[form("C, fixed", FIXED, ADDRESS), form("C, fixed, stored", FIXED, STORED)],
    functions: &[form("C, fixed", FIXED, ADDRESS), form("C, fixed, stored", FIXED, STORED)],
    calls: &[form("C", ANY, "{t}()")],
    tls: &[form("C, fixed", ANY, ADDRESS)],
    words: &[word("C", FIXED, ADDRESS, Leads::Address)],
};
static PIE_FORMS: Forms = Forms {
    data: &[form("C, PIE", NEAR, ADDRESS), form("C, PIE, stored", ANY, STORED)],
    functions: &[form("C, PIE", ANY, ADDRESS), form("C, PIE, stored", ANY, STORED)],
    calls: &[form("C", ANY, "{t}()")],
    tls: &[form("C, PIE", ANY, ADDRESS)],
    words: &[word("C", ANY, ADDRESS, Leads::Address)],
};
static PIC_FORMS: Forms = Forms {
    data: &[form("C, PIC", ANY, ADDRESS), form("C, PIC, stored", ANY, STORED)],
    functions: &[form("C, PIC", ANY, ADDRESS), form("C, PIC, stored", ANY, STORED)],
    calls: &[form("C", ANY, "{t}()")],
    tls: &[form("C, PIC", ANY, ADDRESS)],
    words: &[word("C", ANY, ADDRESS, Leads::Address)],
};

impl Compiled {
    /// Chooses random compiler arguments for a unit of the program or of a library.
    pub fn new(rng: &mut Rng, machine: Machine, in_program: bool, fixed: bool) -> Self {
        let code = match in_program {
            true if fixed => Code::Fixed,
            true if rng.one_in(2) => Code::Pie,
            _ => Code::Pic,
        };
        let common = "-ffreestanding -fno-stack-protector -fno-strict-aliasing -fcommon -w";
        let mut words: Vec<String> = common.split(' ').map(String::from).collect();
        words.push((*rng.pick(&["-O0", "-O1", "-O2", "-O2", "-Os", "-O3"])).into());
        words.push(
            match code {
                Code::Fixed => "-fno-pic",
                Code::Pie => "-fPIE",
                Code::Pic => "-fPIC",
            }
            .into(),
        );
        if code != Code::Fixed {
            words.push((*rng.pick(&["-ftls-model=global-dynamic", "-ftls-model=initial-exec"])).into());
        }
        let any = [
            "-ffunction-sections",
            "-fdata-sections",
            "-fmerge-all-constants",
            "-g",
            "-fno-toplevel-reorder",
        ];
        for word in any {
            words.extend(rng.one_in(3).then(|| word.to_owned()));
        }
        if machine == Machine::X86_64 {
            let protection = *rng.pick(&["-fcf-protection=none", "-fcf-protection=branch"]);
            words.push(protection.into());
            let more: &[&str] = match code {
                Code::Fixed => &["-mcmodel=large", "-mcmodel=medium"],
                _ => &["-fno-plt", "-mtls-dialect=gnu2"],
            };
            words.extend(rng.one_in(3).then(|| (*rng.pick(more)).to_owned()));
        }
        Compiled { code, words, lto: false }
    }

    /// The forms for its code.
    pub fn forms(&self) -> &'static Forms {
        match self.code {
            Code::Fixed => &FIXED_FORMS,
            Code::Pie => &PIE_FORMS,
            Code::Pic => &PIC_FORMS,
        }
    }
}
