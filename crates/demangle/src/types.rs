//! Parses types and template arguments.

use crate::parse::Parser;
use crate::tables;
use crate::tree::{Builtin, Id, Kind, Literal, NONE, Qualifier};

static VOID: &str = "void";

impl<'a> Parser<'a> {
    /// `<type>`
    pub(crate) fn ty(&mut self) -> Option<Id> {
        self.deeper(Self::type_here)
    }

    fn type_here(&mut self) -> Option<Id> {
        if self.at_qualifier() {
            return self.qualified_type();
        }
        let first = self.peek();
        let ty = match first {
            b'F' => self.function_type()?,
            b'0'..=b'9' | b'N' | b'Z' => self.name()?,
            b'A' => self.array_type()?,
            b'M' => {
                self.at += 1;
                let class = self.ty()?;
                let member = self.ty()?;
                self.nodes.push(Kind::MemberPointer, class, member)
            }
            b'T' => self.param_type()?,
            b'O' => self.wrapped(Kind::RvalueReference)?,
            b'P' => self.wrapped(Kind::Pointer)?,
            b'R' => self.wrapped(Kind::Reference)?,
            b'C' => self.wrapped(Kind::Complex)?,
            b'G' => self.wrapped(Kind::Imaginary)?,
            b'S' => return self.substituted_type(),
            b'U' => self.vendor_qualified_type()?,
            b'D' => return self.other_type(),
            b'u' => {
                self.at += 1;
                let name = self.source_name()?;
                self.nodes.push(Kind::VendorType, name, NONE)
            }
            _ => {
                let builtin = tables::builtin(first)?;
                self.at += 1;
                return Some(self.leaf(Kind::Builtin(builtin)));
            }
        };
        self.substitutions.push(ty);
        Some(ty)
    }

    /// A letter and a type.
    fn wrapped(&mut self, kind: Kind<'a>) -> Option<Id> {
        self.at += 1;
        let inner = self.ty()?;
        self.node(kind, inner, NONE)
    }

    fn substituted_type(&mut self) -> Option<Id> {
        let next = self.peek_at(1);
        if next == b'_' || next.is_ascii_digit() || next.is_ascii_uppercase() {
            let start = self.mark();
            let found = self.substitution(false)?;
            if let Kind::Module(_) = self.nodes.kind(found) {
                self.go_back(start);
                return self.class_type();
            }
            if self.peek() != b'I' {
                return Some(found);
            }
            // A template that stands for itself.
            let arguments = self.template_arguments()?;
            let ty = self.nodes.push(Kind::Template, found, arguments);
            self.substitutions.push(ty);
            return Some(ty);
        }
        self.class_type()
    }

    /// A class or enumeration whose name begins with `S`.
    fn class_type(&mut self) -> Option<Id> {
        let ty = self.name()?;
        // An abbreviation is no substitution.
        if !matches!(self.nodes.kind(ty), Kind::Standard(_)) {
            self.substitutions.push(ty);
        }
        Some(ty)
    }

    fn param_type(&mut self) -> Option<Id> {
        let param = self.template_param()?;
        if self.peek() != b'I' {
            return Some(param);
        }
        if !self.in_conversion {
            self.substitutions.push(param);
            let arguments = self.template_arguments()?;
            return self.node(Kind::Template, param, arguments);
        }
        // `cv T_ I…E`: the arguments belong to the conversion, unless others follow them.
        let start = self.mark();
        let arguments = self.template_arguments();
        if let (Some(arguments), b'I') = (arguments, self.peek()) {
            self.substitutions.push(param);
            return self.node(Kind::Template, param, arguments);
        }
        self.go_back(start);
        Some(param)
    }

    fn vendor_qualified_type(&mut self) -> Option<Id> {
        if matches!(self.peek_at(1), b'l' | b't') {
            return self.unqualified_name(NONE, NONE);
        }
        self.at += 1;
        let mut name = self.source_name()?;
        if self.peek() == b'I' {
            let arguments = self.template_arguments()?;
            name = self.nodes.push(Kind::Template, name, arguments);
        }
        let ty = self.ty()?;
        self.node(Kind::VendorQualifier, ty, name)
    }

    /// A type whose code begins with `D`.
    fn other_type(&mut self) -> Option<Id> {
        let code = self.peek_at(1);
        let ty = match code {
            b'T' | b't' => {
                self.at += 2;
                let expression = self.expression()?;
                self.expect(b'E')?;
                self.nodes.push(Kind::Decltype, expression, NONE)
            }
            b'p' => {
                self.at += 2;
                let pattern = self.ty()?;
                self.nodes.push(Kind::PackExpansion, pattern, NONE)
            }
            b'v' => self.vector_type()?,
            b'F' => return self.float_type(),
            _ => {
                let builtin = tables::other_builtin(code)?;
                self.at += 2;
                return Some(self.leaf(Kind::Builtin(builtin)));
            }
        };
        self.substitutions.push(ty);
        Some(ty)
    }

    fn float_type(&mut self) -> Option<Id> {
        static BFLOAT: Builtin = Builtin { name: "std::bfloat16_t", literal: Literal::Float };
        self.at += 2;
        let bits = u32::try_from(self.number()?).ok()?;
        let suffix = self.peek();
        self.at += 1;
        let kind = match (bits, suffix) {
            (16, b'b') => Kind::Builtin(&BFLOAT),
            (_, b'x') => Kind::Float(bits, "x"),
            (_, b'_') => Kind::Float(bits, ""),
            _ => return None,
        };
        Some(self.leaf(kind))
    }

    fn vector_type(&mut self) -> Option<Id> {
        self.at += 2;
        let count = match self.peek() {
            b'_' => {
                self.at += 1;
                self.expression()?
            }
            _ => {
                let count = self.number()?;
                self.leaf(Kind::Number(count))
            }
        };
        self.expect(b'_')?;
        let element = self.ty()?;
        self.node(Kind::Vector, count, element)
    }

    fn array_type(&mut self) -> Option<Id> {
        self.at += 1;
        let dimension = match self.peek() {
            b'_' => NONE,
            b'0'..=b'9' => {
                let start = self.at;
                while self.peek().is_ascii_digit() {
                    self.at += 1;
                }
                self.leaf(Kind::Name(&self.text[start..self.at]))
            }
            _ => self.expression()?,
        };
        self.expect(b'_')?;
        let element = self.ty()?;
        self.node(Kind::Array, dimension, element)
    }

    // ---- qualifiers ----------------------------------------------------------------------------

    fn at_qualifier(&self) -> bool {
        match self.peek() {
            b'r' | b'V' | b'K' => true,
            b'D' => matches!(self.peek_at(1), b'x' | b'o' | b'O' | b'w'),
            _ => false,
        }
    }

    fn qualified_type(&mut self) -> Option<Id> {
        let (outer, inner) = self.qualifiers(false)?;
        let function = self.peek() == b'F';
        // A qualified function type is one substitution, with its qualifiers.
        let ty = if function { self.function_type()? } else { self.ty()? };
        let mut found = outer;
        match self.nodes.kind(ty) {
            // The reference comes after the qualifiers.
            Kind::ReferenceThis | Kind::RvalueReferenceThis if function => {
                let plain = self.nodes.left(ty);
                self.nodes[inner].left = plain;
                self.nodes[ty].left = outer;
                found = ty;
            }
            _ => self.nodes[inner].left = ty,
        }
        self.substitutions.push(found);
        Some(found)
    }

    /// Qualifiers, as the outermost and the innermost node, or [`NONE`] twice. They belong to a member
    /// function or to the type that follows.
    pub(crate) fn qualifiers(&mut self, member: bool) -> Option<(Id, Id)> {
        let (mut outer, mut inner) = (NONE, NONE);
        while self.at_qualifier() {
            let letter = self.peek();
            self.at += 1;
            let mut right = NONE;
            let kind = match letter {
                b'r' => Kind::Cv(Qualifier::Restrict),
                b'V' => Kind::Cv(Qualifier::Volatile),
                b'K' => Kind::Cv(Qualifier::Const),
                _ => {
                    let code = self.peek();
                    self.at += 1;
                    match code {
                        b'x' => Kind::TransactionSafe,
                        b'o' => Kind::Noexcept,
                        b'O' => {
                            right = self.expression()?;
                            self.expect(b'E')?;
                            Kind::Noexcept
                        }
                        _ => {
                            right = self.parameters()?;
                            self.expect(b'E')?;
                            Kind::Throw
                        }
                    }
                }
            };
            let kind = match kind {
                Kind::Cv(qualifier) if member => Kind::CvThis(qualifier),
                kind => kind,
            };
            let node = self.nodes.push(kind, NONE, right);
            if outer.is_some() {
                self.nodes[inner].left = node;
            } else {
                outer = node;
            }
            inner = node;
        }
        if !member && self.peek() == b'F' {
            let mut node = outer;
            while node.is_some() {
                if let Kind::Cv(qualifier) = self.nodes.kind(node) {
                    self.nodes[node].kind = Kind::CvThis(qualifier);
                }
                node = self.nodes.left(node);
            }
        }
        Some((outer, inner))
    }

    // ---- functions -----------------------------------------------------------------------------

    fn function_type(&mut self) -> Option<Id> {
        self.expect(b'F')?;
        self.take(b"Y");
        let function = self.bare_function_type(true)?;
        let function = match self.reference_qualifier() {
            Some(kind) => self.nodes.push(kind, function, NONE),
            None => function,
        };
        self.expect(b'E')?;
        Some(function)
    }

    /// Parameter types, after the return type if there is one.
    pub(crate) fn bare_function_type(&mut self, returns: bool) -> Option<Id> {
        let returns = self.take(b"J") || returns;
        let result = if returns { self.ty()? } else { NONE };
        let parameters = self.parameters()?;
        self.node(Kind::Function, result, parameters)
    }

    /// Types of parameters: a list. For `(void)`, it has one element, which is missing.
    pub(crate) fn parameters(&mut self) -> Option<Id> {
        let mut types = Vec::new();
        loop {
            match (self.peek(), self.peek_at(1)) {
                (0 | b'E' | b'.' | b'Q', _) => break,
                (b'R' | b'O', b'E') => break,
                _ => types.push(self.ty()?),
            }
        }
        let first = *types.first()?;
        if let (1, Kind::Builtin(builtin)) = (types.len(), self.nodes.kind(first))
            && builtin.name == VOID
        {
            return self.node(Kind::Arguments, NONE, NONE);
        }
        Some(self.list(Kind::Arguments, &types))
    }

    pub(crate) fn list(&mut self, kind: Kind<'a>, elements: &[Id]) -> Id {
        if elements.is_empty() {
            return self.nodes.push(kind, NONE, NONE);
        }
        elements.iter().rev().zip(1..).fold(NONE, |rest, (&element, count)| {
            let kind = match kind {
                Kind::TemplateArguments(_) => Kind::TemplateArguments(count),
                kind => kind,
            };
            self.nodes.push(kind, element, rest)
        })
    }

    // ---- templates -----------------------------------------------------------------------------

    /// `T_`, `T0_`, …
    pub(crate) fn template_param(&mut self) -> Option<Id> {
        self.expect(b'T')?;
        let number = self.compact_number()?;
        Some(self.leaf(Kind::TemplateParam(number)))
    }

    /// `I … E`, also `J … E` for packs.
    pub(crate) fn template_arguments(&mut self) -> Option<Id> {
        if !matches!(self.peek(), b'I' | b'J') {
            return None;
        }
        self.at += 1;
        self.template_arguments_rest()
    }

    pub(crate) fn template_arguments_rest(&mut self) -> Option<Id> {
        // Names among the arguments do not name the constructors after them.
        let last_name = self.last_name;
        let arguments = self.deeper(|parser| {
            let mut arguments = Vec::new();
            let mut constraint = None;
            while !parser.take(b"E") {
                if parser.take(b"Q") {
                    constraint = Some(parser.expression()?);
                    parser.expect(b'E')?;
                    break;
                }
                arguments.push(parser.template_argument()?);
            }
            let list = parser.list(Kind::TemplateArguments(0), &arguments);
            match constraint {
                Some(condition) => parser.node(Kind::Constraints, list, condition),
                None => Some(list),
            }
        })?;
        self.last_name = last_name;
        Some(arguments)
    }

    pub(crate) fn template_argument(&mut self) -> Option<Id> {
        match self.peek() {
            b'X' => {
                self.at += 1;
                let expression = self.expression()?;
                self.expect(b'E')?;
                Some(expression)
            }
            b'L' => self.literal(),
            b'I' | b'J' => self.template_arguments(),
            _ => self.ty(),
        }
    }

    /// The parameters of a lambda's template, or [`NONE`].
    pub(crate) fn template_head(&mut self) -> Option<Id> {
        let mut parameters = Vec::new();
        while self.peek() == b'T' && matches!(self.peek_at(1), b'y' | b'n' | b't' | b'p') {
            parameters.push(self.template_parameter()?);
        }
        Some(if parameters.is_empty() { NONE } else { self.list(Kind::TemplateHead, &parameters) })
    }

    fn template_parameter(&mut self) -> Option<Id> {
        self.expect(b'T')?;
        let code = self.peek();
        self.at += 1;
        match code {
            b'y' => Some(self.leaf(Kind::TypeParam)),
            b'n' => {
                let ty = self.ty()?;
                self.node(Kind::ValueParam, ty, NONE)
            }
            b't' => {
                let head = self.deeper(Self::template_head)?;
                self.expect(b'E')?;
                self.node(Kind::TemplateTemplateParam, head, NONE)
            }
            b'p' => {
                let parameter = self.deeper(Self::template_parameter)?;
                self.node(Kind::PackParam, parameter, NONE)
            }
            _ => None,
        }
    }
}
