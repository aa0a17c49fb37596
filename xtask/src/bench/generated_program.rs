//! The program that the generated links build: its functions, their callees and their results.
//!
//! The program is not stored. All properties of a function follow from its numbers, so each object can be
//! written alone, and the work for an object does not depend on how many objects there are.

/// How many objects define an inline function, on average.
const DEFINITIONS: u64 = 4;
/// How many functions of its own object an ordinary function calls, and how many of other objects. It also
/// calls one inline function.
const CALLS_NEAR: u64 = 3;
const CALLS_FAR: u64 = 2;
/// How many different strings many functions share.
const SHARED_STRINGS: u64 = 5000;

/// These numbers determine the program.
#[derive(Clone, Copy)]
pub struct Program {
    pub objects: u64,
    /// Ordinary functions in an object.
    pub functions: u64,
    /// The most inline functions that an object defines.
    pub inline_functions: u64,
    /// Bytes of debug information in an object, without its strings.
    pub debug: u64,
    /// How deep each function may call others when the main program calls it.
    pub depth: u32,
}

#[derive(Clone, Copy)]
pub enum Function {
    Ordinary { object: u64, index: u64 },
    Inline { number: u64 },
}

/// Mixes two numbers well into one (the finalizer of splitmix64).
pub fn mix(a: u64, b: u64) -> u64 {
    let mut value = a.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(b).wrapping_add(0x632b_e59b_d9b4_e019);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Name and value of the variable that `object` defines for other objects.
pub fn variable(object: u64) -> (String, u32) {
    (format!("_ZN9generated10unit_{object:05}8variableE"), mix(object, 4) as u32)
}

impl Function {
    /// The function's own number, from which all else follows.
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

    /// The constant that the function adds to its result.
    pub fn constant(self) -> u32 {
        self.seed() as u32
    }

    /// The text whose first byte the function adds to its result. A third of the ordinary functions have
    /// their own text.
    pub fn text(self) -> String {
        let seed = mix(self.seed(), 1);
        match self {
            Function::Ordinary { .. } if seed.is_multiple_of(3) => format!("{seed:x} of one function only"),
            _ => format!("{:x} said by many functions", mix(seed % SHARED_STRINGS, 2)),
        }
    }
}

impl Program {
    /// A program with this many objects, each as large as most C++ sources make them.
    pub fn usual(objects: u64) -> Self {
        Program { objects, functions: 24, inline_functions: 8, debug: 0, depth: 2 }
    }

    /// A program with this many objects, each as large as those of a browser, which compiles its sources in
    /// batches; with debug information.
    pub fn large(objects: u64) -> Self {
        Program { objects, functions: 170, inline_functions: 60, debug: 100 << 10, depth: 1 }
    }

    /// The inline functions that `object` defines, each one once.
    pub fn inline_functions(&self, object: u64) -> Vec<Function> {
        let pick = |slot| mix(mix(object, slot), 3) % (self.objects * self.inline_functions / DEFINITIONS);
        let mut numbers: Vec<u64> = (0..self.inline_functions).map(pick).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| Function::Inline { number }).collect()
    }

    /// The functions that `function` calls, in order. The inline functions among them are those that its
    /// object defines.
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

    /// The object whose variable `function` adds to its result. All copies of an inline function read the
    /// same variable.
    pub fn variable_object(&self, function: Function) -> u64 {
        mix(function.seed(), 5) % self.objects
    }

    /// The result of the call `function(depth)`.
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

    /// The sum that the program prints: the result of every ordinary function, called once.
    pub fn sum(&self) -> u32 {
        let functions = (0..self.objects)
            .flat_map(|object| (0..self.functions).map(move |index| Function::Ordinary { object, index }));
        functions.map(|function| self.value(function, self.depth)).fold(0, u32::wrapping_add)
    }
}
