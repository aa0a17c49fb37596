//! The program that the generated links build: its functions, their callees and their results.
//!
//! The program is not stored: all properties of a function follow from its numbers, so any object can be
//! written alone, and the work per object does not depend on how many there are.

/// Objects that define an inline function, on average.
const DEFINITIONS: u64 = 4;
/// Calls of an ordinary function within its object, and to other objects. One more goes to an inline
/// function.
const CALLS_NEAR: u64 = 3;
const CALLS_FAR: u64 = 2;
/// Distinct strings of the program that many functions share.
const SHARED_STRINGS: u64 = 5000;

/// These numbers settle the program.
#[derive(Clone, Copy)]
pub struct Program {
    pub objects: u64,
    /// Ordinary functions per object.
    pub functions: u64,
    /// Inline functions that an object defines, at most.
    pub inline_functions: u64,
    /// Bytes of debug information per object, without its strings.
    pub debug: u64,
    /// How deep the main program lets each function call others.
    pub depth: u32,
}

#[derive(Clone, Copy)]
pub enum Function {
    Ordinary { object: u64, index: u64 },
    Inline { number: u64 },
}

/// A well-mixed number from two (the finalizer of splitmix64).
pub fn mix(a: u64, b: u64) -> u64 {
    let mut value = a.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(b).wrapping_add(0x632b_e59b_d9b4_e019);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Name and value of the variable that `object` defines for others.
pub fn variable(object: u64) -> (String, u32) {
    (format!("_ZN9generated10unit_{object:05}8variableE"), mix(object, 4) as u32)
}

impl Function {
    /// A number of its own, from which the rest follows.
    fn seed(self) -> u64 {
        match self {
            Function::Ordinary { object, index } => mix(object, 100 + index),
            Function::Inline { number } => mix(u64::MAX, number),
        }
    }

    /// Its mangled C++ name.
    pub fn name(self) -> String {
        match self {
            Function::Ordinary { object, index } => {
                let length = if index < 100 { 11 } else { 12 };
                format!("_ZN9generated10unit_{object:05}{length}function_{index:02}Ei")
            }
            Function::Inline { number } => format!("_ZN9generated15inline_functionILj{number}EEEji"),
        }
    }

    /// The constant that it adds.
    pub fn constant(self) -> u32 {
        self.seed() as u32
    }

    /// The text whose first byte it adds. A third of the ordinary functions have one of their own.
    pub fn text(self) -> String {
        let seed = mix(self.seed(), 1);
        match self {
            Function::Ordinary { .. } if seed.is_multiple_of(3) => format!("{seed:x} of one function only"),
            _ => format!("{:x} said by many functions", mix(seed % SHARED_STRINGS, 2)),
        }
    }
}

impl Program {
    /// So many objects of the size that most C++ sources have.
    pub fn usual(objects: u64) -> Self {
        Program { objects, functions: 24, inline_functions: 8, debug: 0, depth: 2 }
    }

    /// So many objects of the size that a browser's have, with debug information: sources are compiled in
    /// batches there.
    pub fn large(objects: u64) -> Self {
        Program { objects, functions: 170, inline_functions: 60, debug: 100 << 10, depth: 1 }
    }

    /// The inline functions that `object` defines, each once.
    pub fn inline_functions(&self, object: u64) -> Vec<Function> {
        let pick = |slot| mix(mix(object, slot), 3) % (self.objects * self.inline_functions / DEFINITIONS);
        let mut numbers: Vec<u64> = (0..self.inline_functions).map(pick).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| Function::Inline { number }).collect()
    }

    /// The functions that `function` calls, in order. An object calls only those inline functions that it
    /// defines.
    pub fn callees(&self, function: Function) -> Vec<Function> {
        let pick = |slot| mix(function.seed(), 16 + slot);
        let elsewhere = |seed: u64| Function::Ordinary {
            object: (seed >> 8) % self.objects,
            index: seed % self.functions,
        };
        let Function::Ordinary { object, .. } = function else { return vec![elsewhere(pick(0))] };
        let inline_functions = self.inline_functions(object);
        let near =
            (0..CALLS_NEAR).map(|slot| Function::Ordinary { object, index: pick(slot) % self.functions });
        let far = (CALLS_NEAR..CALLS_NEAR + CALLS_FAR).map(|slot| elsewhere(pick(slot)));
        let inline = inline_functions[pick(32) as usize % inline_functions.len()];
        near.chain(far).chain([inline]).collect()
    }

    /// The object whose variable `function` adds: inline functions read the same one in every copy.
    pub fn variable_object(&self, function: Function) -> u64 {
        mix(function.seed(), 5) % self.objects
    }

    /// The result of a call `function(depth)`.
    fn value(&self, function: Function, depth: u32) -> u32 {
        let (_, variable) = variable(self.variable_object(function));
        let own =
            function.constant().wrapping_add(u32::from(function.text().as_bytes()[0])).wrapping_add(variable);
        if depth == 0 {
            return own;
        }
        let calls = self.callees(function).into_iter().map(|callee| self.value(callee, depth - 1));
        calls.fold(own, u32::wrapping_add)
    }

    /// The sum that the program prints: every ordinary function, called once.
    pub fn sum(&self) -> u32 {
        let functions = (0..self.objects)
            .flat_map(|object| (0..self.functions).map(move |index| Function::Ordinary { object, index }));
        functions.map(|function| self.value(function, self.depth)).fold(0, u32::wrapping_add)
    }
}
