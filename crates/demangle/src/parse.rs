//! Parses a mangled name: encodings, special names and the parts of names.

use crate::tables;
use crate::tree::{Id, Kind, NONE, Nodes};

/// The largest depth of nested types, expressions and encodings.
const DEPTH: u32 = 1024;
/// The largest number of nodes for each byte of the name.
const NODES_PER_BYTE: usize = 16;
/// How often the parser may read a byte again, on average.
const REREADS_PER_BYTE: usize = 16;

/// A parser of one mangled name. A method that reads a part returns `None` if the part is not there.
pub struct Parser<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) at: usize,
    pub(crate) nodes: Nodes<'a>,
    pub(crate) substitutions: Vec<Id>,
    /// The name that a constructor or destructor would have at this point.
    pub(crate) last_name: Id,
    pub(crate) in_expression: bool,
    pub(crate) in_conversion: bool,
    depth: u32,
    /// Bytes that were read in vain and are read again, and nodes that are visited once more.
    repeated: usize,
}

/// A state of the parser.
pub(crate) struct Mark {
    at: usize,
    substitutions: usize,
    last_name: Id,
}

impl<'a> Parser<'a> {
    /// A parser at the start of a text.
    pub fn new(text: &'a [u8]) -> Self {
        Parser {
            text,
            at: 0,
            nodes: Nodes::with_capacity(text.len()),
            substitutions: Vec::new(),
            last_name: NONE,
            in_expression: false,
            in_conversion: false,
            depth: 0,
            repeated: 0,
        }
    }

    /// `_Z`, an encoding and the suffixes of clones, up to the end of the text.
    pub fn symbol(&mut self) -> Option<Id> {
        let mut symbol = self.mangled(true)?;
        while self.peek() == b'.' && (self.next_is_word() || self.peek_at(1).is_ascii_digit()) {
            symbol = self.clone_suffix(symbol)?;
        }
        (self.at == self.text.len()).then_some(symbol)
    }

    fn next_is_word(&self) -> bool {
        self.peek_at(1).is_ascii_lowercase() || self.peek_at(1) == b'_'
    }

    /// `.isra.0`, `.cold`, `.1.2`: letters, then numbers.
    fn clone_suffix(&mut self, of: Id) -> Option<Id> {
        let start = self.at;
        if self.next_is_word() {
            self.at += 2;
            while self.peek().is_ascii_lowercase() || self.peek() == b'_' {
                self.at += 1;
            }
        }
        while self.peek() == b'.' && self.peek_at(1).is_ascii_digit() {
            self.at += 2;
            while self.peek().is_ascii_digit() {
                self.at += 1;
            }
        }
        let suffix = self.leaf(Kind::Name(&self.text[start..self.at]));
        self.node(Kind::Clone, of, suffix)
    }

    // ---- bytes ---------------------------------------------------------------------------------

    /// The byte at the current position, or 0 at the end.
    pub(crate) fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    pub(crate) fn peek_at(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips these bytes if they come next. Returns whether they do.
    pub(crate) fn take(&mut self, expected: &[u8]) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    /// The rest of the name.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(&[byte]).then_some(())
    }

    /// The current state, for another attempt.
    pub(crate) fn mark(&self) -> Mark {
        Mark { at: self.at, substitutions: self.substitutions.len(), last_name: self.last_name }
    }

    pub(crate) fn go_back(&mut self, mark: Mark) {
        self.repeated += self.at - mark.at;
        self.at = mark.at;
        self.substitutions.truncate(mark.substitutions);
        self.last_name = mark.last_name;
    }

    // ---- nodes ---------------------------------------------------------------------------------

    pub(crate) fn leaf(&mut self, kind: Kind<'a>) -> Id {
        self.nodes.push(kind, NONE, NONE)
    }

    pub(crate) fn node(&mut self, kind: Kind<'a>, left: Id, right: Id) -> Option<Id> {
        Some(self.nodes.push(kind, left, right))
    }

    /// Runs a method one level deeper.
    pub(crate) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        // Nested attempts read the same text again and again, and make nodes each time.
        let length = self.text.len();
        if self.depth >= DEPTH
            || self.nodes.len() > NODES_PER_BYTE * length
            || self.repeated > REREADS_PER_BYTE * length
        {
            return None;
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    // ---- numbers -------------------------------------------------------------------------------

    /// `[n] <digits>`. No digits mean 0.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let negative = self.take(b"n");
        let mut value = 0_i64;
        while self.peek().is_ascii_digit() {
            value = value.checked_mul(10)?.checked_add(i64::from(self.peek() - b'0'))?;
            if value > i64::from(i32::MAX) {
                return None;
            }
            self.at += 1;
        }
        Some(if negative { -value } else { value })
    }

    /// `_` is 0, `0_` is 1, …
    pub(crate) fn compact_number(&mut self) -> Option<u32> {
        let number = match self.peek() {
            b'_' => 0,
            b'n' => return None,
            _ => u32::try_from(self.number()?).ok()?.checked_add(1)?,
        };
        self.expect(b'_')?;
        Some(number)
    }

    /// `_ <digit>` or `__ <digits> _`. It distinguishes local names, and the text omits it.
    fn discriminator(&mut self) -> Option<()> {
        if !self.take(b"_") {
            return Some(());
        }
        let long = self.take(b"_");
        let number = self.number()?;
        if number < 0 {
            return None;
        }
        if long && number >= 10 { self.expect(b'_') } else { Some(()) }
    }

    // ---- encodings -----------------------------------------------------------------------------

    /// `_Z <encoding>`. Old compilers omitted the `_` inside other encodings.
    pub(crate) fn mangled(&mut self, top: bool) -> Option<Id> {
        if !self.take(b"_") && top {
            return None;
        }
        self.expect(b'Z')?;
        self.encoding(top)
    }

    /// A function with its type, a variable or a special name.
    pub(crate) fn encoding(&mut self, top: bool) -> Option<Id> {
        self.deeper(|parser| match parser.peek() {
            b'G' | b'T' => parser.special_name(),
            _ => parser.name_with_type(top),
        })
    }

    fn name_with_type(&mut self, top: bool) -> Option<Id> {
        let name = self.name()?;
        if matches!(self.peek(), 0 | b'E') {
            return Some(name);
        }
        let returns = self.has_return_type(name);
        let function = self.bare_function_type(returns)?;
        // A return type of an enclosing function would look like that of the local name.
        if !top && self.nodes.kind(name) == Kind::Local {
            self.nodes[function].left = NONE;
        }
        let mut function = self.constraints(function)?;
        if let Some(condition) = self.take_constraint(name) {
            function = self.nodes.push(Kind::Constraints, function, condition);
        }
        self.node(Kind::Typed, name, function)
    }

    /// Takes the constraint from a function template's arguments, because the text has it after the function.
    fn take_constraint(&mut self, mut name: Id) -> Option<Id> {
        while self.nodes.kind(name).is_function_qualifier() {
            self.repeated += 1;
            name = self.nodes.left(name);
        }
        let arguments = self.nodes.right(name);
        if self.nodes.kind(name) != Kind::Template || self.nodes.kind(arguments) != Kind::Constraints {
            return None;
        }
        self.nodes[name].right = self.nodes.left(arguments);
        Some(self.nodes.right(arguments))
    }

    /// Whether the encoding has a return type. Function templates have one, except constructors, destructors
    /// and conversions.
    fn has_return_type(&mut self, mut name: Id) -> bool {
        loop {
            self.repeated += 1;
            match self.nodes.kind(name) {
                Kind::Local => name = self.nodes.right(name),
                Kind::Template => return !self.lacks_return_type(self.nodes.left(name)),
                kind if kind.is_function_qualifier() => name = self.nodes.left(name),
                _ => return false,
            }
        }
    }

    fn lacks_return_type(&mut self, mut name: Id) -> bool {
        while name.is_some() {
            self.repeated += 1;
            match self.nodes.kind(name) {
                Kind::Qualified | Kind::Local => name = self.nodes.right(name),
                kind => return matches!(kind, Kind::Ctor | Kind::Dtor | Kind::Conversion),
            }
        }
        false
    }

    /// `Q <expression>` after the entity that it constrains.
    pub(crate) fn constraints(&mut self, of: Id) -> Option<Id> {
        if !self.take(b"Q") {
            return Some(of);
        }
        let condition = self.expression()?;
        self.node(Kind::Constraints, of, condition)
    }

    fn special_name(&mut self) -> Option<Id> {
        let code = [self.peek(), self.peek_at(1)];
        self.at += 2;
        let (text, of) = match &code {
            b"TV" => ("vtable for ", self.ty()?),
            b"TT" => ("VTT for ", self.ty()?),
            b"TI" => ("typeinfo for ", self.ty()?),
            b"TS" => ("typeinfo name for ", self.ty()?),
            b"TF" => ("typeinfo fn for ", self.ty()?),
            b"TJ" => ("java Class for ", self.ty()?),
            b"Th" => {
                self.call_offset(b'h')?;
                ("non-virtual thunk to ", self.encoding(false)?)
            }
            b"Tv" => {
                self.call_offset(b'v')?;
                ("virtual thunk to ", self.encoding(false)?)
            }
            b"Tc" => {
                for _ in 0..2 {
                    let kind = self.peek();
                    self.at += 1;
                    self.call_offset(kind)?;
                }
                ("covariant return thunk to ", self.encoding(false)?)
            }
            b"TC" => return self.construction_vtable(),
            b"TH" => ("TLS init function for ", self.name()?),
            b"TW" => ("TLS wrapper function for ", self.name()?),
            b"TA" => ("template parameter object for ", self.template_argument()?),
            b"GV" => ("guard variable for ", self.name()?),
            b"GR" => {
                let name = self.name()?;
                let number = self.number()?;
                let number = self.leaf(Kind::Number(number));
                return self.node(Kind::ReferenceTemporary, name, number);
            }
            b"GA" => ("hidden alias for ", self.encoding(false)?),
            b"GT" if self.take(b"n") => ("non-transaction clone for ", self.encoding(false)?),
            b"GT" => {
                self.take(b"t");
                ("transaction clone for ", self.encoding(false)?)
            }
            b"GI" => {
                let module = self.module_names(NONE)?;
                ("initializer for module ", module.is_some().then_some(module)?)
            }
            _ => return None,
        };
        self.node(Kind::Special(text), of, NONE)
    }

    fn construction_vtable(&mut self) -> Option<Id> {
        let derived = self.ty()?;
        if self.number()? < 0 {
            return None;
        }
        self.expect(b'_')?;
        let base = self.ty()?;
        self.node(Kind::ConstructionVtable, base, derived)
    }

    /// A thunk's adjustment of the object pointer. The text omits it.
    fn call_offset(&mut self, kind: u8) -> Option<()> {
        for _ in 0..match kind {
            b'h' => 1,
            b'v' => 2,
            _ => return None,
        } {
            self.number()?;
            self.expect(b'_')?;
        }
        Some(())
    }

    // ---- names ---------------------------------------------------------------------------------

    /// `<name>`
    pub(crate) fn name(&mut self) -> Option<Id> {
        match self.peek() {
            b'N' => self.nested_name(),
            b'Z' => self.deeper(Self::local_name),
            b'U' => self.unqualified_name(NONE, NONE),
            b'S' => self.abbreviated_name(),
            _ => {
                let name = self.unqualified_name(NONE, NONE)?;
                if self.peek() != b'I' {
                    return Some(name);
                }
                self.substitutions.push(name);
                let arguments = self.template_arguments()?;
                self.node(Kind::Template, name, arguments)
            }
        }
    }

    /// A name in `std`, or one that begins with a substitution.
    fn abbreviated_name(&mut self) -> Option<Id> {
        let mut scope = NONE;
        if self.take(b"St") {
            scope = self.leaf(Kind::Name(b"std"));
        }
        let mut module = NONE;
        let mut found = NONE;
        if self.peek() == b'S' {
            let substitution = self.substitution(false)?;
            if matches!(self.nodes.kind(substitution), Kind::Module(_)) {
                module = substitution;
            } else if scope.is_some() {
                return None;
            } else {
                found = substitution;
            }
        }
        let substituted = found.is_some();
        if !substituted {
            found = self.unqualified_name(scope, module)?;
        }
        if self.peek() != b'I' {
            return Some(found);
        }
        if !substituted {
            self.substitutions.push(found);
        }
        let arguments = self.template_arguments()?;
        self.node(Kind::Template, found, arguments)
    }

    fn nested_name(&mut self) -> Option<Id> {
        self.expect(b'N')?;
        let explicit_this = self.take(b"H");
        let (outer, inner) = if explicit_this { (NONE, NONE) } else { self.qualifiers(true)? };
        let reference = if explicit_this { Some(Kind::ExplicitThis) } else { self.reference_qualifier() };
        let mut name = self.prefix(true)?;
        if outer.is_some() {
            self.nodes[inner].left = name;
            name = outer;
        }
        if let Some(kind) = reference {
            name = self.nodes.push(kind, name, NONE);
        }
        self.expect(b'E')?;
        Some(name)
    }

    /// `R` or `O`: the reference qualifier of a member function.
    pub(crate) fn reference_qualifier(&mut self) -> Option<Kind<'a>> {
        if self.take(b"R") {
            Some(Kind::ReferenceThis)
        } else if self.take(b"O") {
            Some(Kind::RvalueReferenceThis)
        } else {
            None
        }
    }

    /// `<prefix>`, up to its `E`, which stays unread.
    pub(crate) fn prefix(&mut self, substitute: bool) -> Option<Id> {
        let mut found = NONE;
        loop {
            match (self.peek(), self.peek_at(1)) {
                (0, _) => return None,
                (b'E', _) => return found.is_some().then_some(found),
                (b'D', b'T' | b't') => {
                    if found.is_some() {
                        return None;
                    }
                    // The method for types has added this type to the substitutions already. It must be there
                    // twice.
                    found = self.ty()?;
                }
                (b'I', _) => {
                    if !found.is_some() {
                        return None;
                    }
                    let arguments = self.template_arguments()?;
                    found = self.nodes.push(Kind::Template, found, arguments);
                }
                (b'T', _) => {
                    if found.is_some() {
                        return None;
                    }
                    found = self.template_param()?;
                }
                (b'M', _) => {
                    if !found.is_some() {
                        return None;
                    }
                    // The variable that a lambda initialises follows.
                    self.at += 1;
                    continue;
                }
                (first, _) => {
                    let mut module = NONE;
                    if first == b'S' {
                        let substitution = self.substitution(true)?;
                        if matches!(self.nodes.kind(substitution), Kind::Module(_)) {
                            module = substitution;
                        } else if found.is_some() {
                            return None;
                        } else {
                            found = substitution;
                            continue;
                        }
                    }
                    found = self.unqualified_name(found, module)?;
                }
            }
            if substitute && self.peek() != b'E' {
                self.substitutions.push(found);
            }
        }
    }

    /// `<unqualified-name>` in a scope and a module.
    pub(crate) fn unqualified_name(&mut self, scope: Id, module: Id) -> Option<Id> {
        let module = self.module_names(module)?;
        let friend = self.take(b"F");
        let mut name = match (self.peek(), self.peek_at(1)) {
            (b'0'..=b'9', _) => self.source_name()?,
            (b'a'..=b'z', _) => self.operator_function()?,
            (b'D', b'C') => self.structured_binding()?,
            (b'C' | b'D', _) => self.constructor()?,
            (b'L', _) => {
                self.at += 1;
                let name = self.source_name()?;
                self.discriminator()?;
                name
            }
            (b'U', b'l') => self.deeper(Self::lambda)?,
            (b'U', b't') => {
                self.at += 2;
                let number = self.compact_number()?;
                self.leaf(Kind::UnnamedType(number))
            }
            _ => return None,
        };
        if module.is_some() {
            name = self.nodes.push(Kind::ModuleEntity, name, module);
        }
        if self.peek() == b'B' {
            name = self.abi_tags(name)?;
        }
        if friend {
            name = self.nodes.push(Kind::Friend, name, NONE);
        }
        Some(if scope.is_some() { self.nodes.push(Kind::Qualified, scope, name) } else { name })
    }

    /// `W <name>`, `WP <name>`: modules and their partitions, each inside the one before.
    fn module_names(&mut self, mut module: Id) -> Option<Id> {
        while self.take(b"W") {
            let partition = self.take(b"P");
            let name = self.source_name()?;
            module = self.nodes.push(Kind::Module(partition), module, name);
            self.substitutions.push(module);
        }
        Some(module)
    }

    fn operator_function(&mut self) -> Option<Id> {
        let outer = self.in_expression;
        if self.take(b"on") {
            self.in_expression = false;
        }
        let operator = self.operator_name();
        self.in_expression = outer;
        let operator = operator?;
        if self.nodes.kind(operator).operator_code() != Some("li") {
            return Some(operator);
        }
        let suffix = self.source_name()?;
        self.node(Kind::Unary, operator, suffix)
    }

    fn structured_binding(&mut self) -> Option<Id> {
        self.at += 2;
        let mut names = Vec::new();
        while !self.take(b"E") {
            names.push(self.source_name()?);
        }
        let list =
            names.into_iter().rev().fold(NONE, |rest, name| self.nodes.push(Kind::Arguments, name, rest));
        list.is_some().then(|| self.nodes.push(Kind::StructuredBinding, list, NONE))
    }

    fn constructor(&mut self) -> Option<Id> {
        let code = self.peek();
        self.at += 1;
        let inherited = code == b'C' && self.take(b"I");
        let (kind, known): (_, &[u8]) =
            if code == b'C' { (Kind::Ctor, b"12345") } else { (Kind::Dtor, b"01245") };
        if !known.contains(&self.peek()) {
            return None;
        }
        self.at += 1;
        if inherited {
            // The constructor has the name of the base.
            self.ty()?;
        }
        self.last_name.is_some().then(|| self.nodes.push(kind, self.last_name, NONE))
    }

    fn lambda(&mut self) -> Option<Id> {
        self.at += 2;
        let head = self.template_head()?;
        let parameters = self.parameters()?;
        self.expect(b'E')?;
        let number = self.compact_number()?;
        self.node(Kind::Lambda(number), parameters, head)
    }

    /// `<source-name>`: a length, and as many bytes.
    pub(crate) fn source_name(&mut self) -> Option<Id> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length > 0)?;
        let name = self.text.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        let anonymous = name.len() >= 10
            && name.starts_with(b"_GLOBAL_")
            && matches!(name[8], b'.' | b'_' | b'$')
            && name[9] == b'N';
        let name = if anonymous { b"(anonymous namespace)" } else { name };
        self.last_name = self.leaf(Kind::Name(name));
        Some(self.last_name)
    }

    fn abi_tags(&mut self, mut name: Id) -> Option<Id> {
        let last_name = self.last_name;
        while self.take(b"B") {
            let tag = self.source_name()?;
            name = self.nodes.push(Kind::Tagged, name, tag);
        }
        self.last_name = last_name;
        Some(name)
    }

    fn local_name(&mut self) -> Option<Id> {
        self.expect(b'Z')?;
        let function = self.encoding(false)?;
        self.expect(b'E')?;
        let name = if self.take(b"s") {
            self.discriminator()?;
            self.leaf(Kind::Name(b"string literal"))
        } else {
            let argument = if self.take(b"d") { Some(self.compact_number()?) } else { None };
            let name = self.name()?;
            // Lambdas and unnamed types have numbers instead.
            if !matches!(self.nodes.kind(name), Kind::Lambda(_) | Kind::UnnamedType(_)) {
                self.discriminator()?;
            }
            match argument {
                Some(number) => self.nodes.push(Kind::DefaultArgument(number), name, NONE),
                None => name,
            }
        };
        self.drop_return_type(function);
        self.node(Kind::Local, function, name)
    }

    fn drop_return_type(&mut self, function: Id) {
        if self.nodes.kind(function) == Kind::Typed {
            let ty = self.nodes.right(function);
            if self.nodes.kind(ty) == Kind::Function {
                self.nodes[ty].left = NONE;
            }
        }
    }

    /// `<substitution>`: an earlier part of the name, or an abbreviation.
    pub(crate) fn substitution(&mut self, prefix: bool) -> Option<Id> {
        self.expect(b'S')?;
        let first = self.peek();
        if first == b'_' || first.is_ascii_digit() || first.is_ascii_uppercase() {
            let mut row = 0_usize;
            if first != b'_' {
                while self.peek() != b'_' {
                    let digit = match self.peek() {
                        digit @ b'0'..=b'9' => digit - b'0',
                        digit @ b'A'..=b'Z' => digit - b'A' + 10,
                        _ => return None,
                    };
                    row = row.checked_mul(36)?.checked_add(digit.into())?;
                    self.at += 1;
                }
                row = row.checked_add(1)?;
            }
            self.at += 1;
            return self.substitutions.get(row).copied();
        }
        let known = tables::abbreviation(first)?;
        self.at += 1;
        let in_full = prefix && matches!(self.peek(), b'C' | b'D');
        if !known.last.is_empty() {
            self.last_name = self.leaf(Kind::Standard(known.last));
        }
        let mut found = self.leaf(Kind::Standard(if in_full { known.full } else { known.short }));
        if self.peek() == b'B' {
            found = self.abi_tags(found)?;
            self.substitutions.push(found);
        }
        Some(found)
    }
}
