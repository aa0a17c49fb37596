//! Reads expressions and literals.

use crate::parse::Parser;
use crate::tables;
use crate::tree::{Id, Kind, NONE};

impl<'a> Parser<'a> {
    /// `<expression>`
    pub(crate) fn expression(&mut self) -> Option<Id> {
        let outer = std::mem::replace(&mut self.in_expression, true);
        let expression = self.deeper(Self::expression_here);
        self.in_expression = outer;
        expression
    }

    fn expression_here(&mut self) -> Option<Id> {
        match (self.peek(), self.peek_at(1)) {
            (b'L', _) => self.literal(),
            (b'T', _) => self.template_param(),
            (b's', b'r') => self.unresolved_name(),
            (b's', b'p') => {
                self.at += 2;
                let pattern = self.expression()?;
                self.node(Kind::PackExpansion, pattern, NONE)
            }
            (b'f', b'p') => self.function_param(),
            (b'0'..=b'9', _) => self.named(),
            (b'o', b'n') => {
                self.at += 2;
                self.named()
            }
            (b'i' | b't', b'l') => {
                let typed = self.peek() == b't';
                self.at += 2;
                let ty = if typed { self.ty()? } else { NONE };
                let list = self.expression_list(b'E')?;
                self.node(Kind::InitializerList, ty, list)
            }
            (b'u', _) => {
                self.at += 1;
                let name = self.source_name()?;
                let arguments = self.template_arguments_rest()?;
                self.node(Kind::VendorExpression, name, arguments)
            }
            _ => self.operation(),
        }
    }

    /// A name without a scope, with its template arguments.
    fn named(&mut self) -> Option<Id> {
        let name = self.unqualified_name(NONE, NONE)?;
        self.with_arguments(name)
    }

    fn with_arguments(&mut self, name: Id) -> Option<Id> {
        if self.peek() != b'I' {
            return Some(name);
        }
        let arguments = self.template_arguments()?;
        self.node(Kind::Template, name, arguments)
    }

    /// `sr …`: a name in a type that is not known yet. The ABI's forms begin like that of old compilers,
    /// which put any type after `sr`. So this tries one form after the other.
    fn unresolved_name(&mut self) -> Option<Id> {
        self.at += 2;
        let start = self.mark();
        if let Some(found) = self.scoped_name() {
            return Some(found);
        }
        self.go_back(start);
        let ty = self.ty()?;
        self.name_in(ty)
    }

    /// `<level>+ E <name>`
    fn scoped_name(&mut self) -> Option<Id> {
        if !self.peek().is_ascii_digit() {
            return None;
        }
        let scope = self.prefix(false)?;
        self.expect(b'E')?;
        self.name_in(scope)
    }

    fn name_in(&mut self, scope: Id) -> Option<Id> {
        self.take(b"on");
        let name = self.unqualified_name(NONE, NONE)?;
        let name = self.nodes.push(Kind::Qualified, scope, name);
        self.with_arguments(name)
    }

    fn function_param(&mut self) -> Option<Id> {
        self.at += 2;
        if self.take(b"T") {
            return Some(self.leaf(Kind::FunctionParam(0)));
        }
        let number = self.compact_number()?.checked_add(1)?;
        Some(self.leaf(Kind::FunctionParam(number)))
    }

    /// Expressions up to a letter, which this skips.
    fn expression_list(&mut self, end: u8) -> Option<Id> {
        let mut expressions = Vec::new();
        while !self.take(&[end]) {
            expressions.push(self.expression()?);
        }
        Some(self.list(Kind::Arguments, &expressions))
    }

    /// The name of an operator. After `cv`, the type that it converts to follows.
    pub(crate) fn operator_name(&mut self) -> Option<Id> {
        let code = [self.peek(), self.peek_at(1)];
        self.at += 2;
        if code[0] == b'v' && code[1].is_ascii_digit() {
            let name = self.source_name()?;
            return self.node(Kind::VendorOperator(code[1] - b'0'), name, NONE);
        }
        if &code == b"cv" {
            let outer = std::mem::replace(&mut self.in_conversion, !self.in_expression);
            let ty = self.ty();
            let kind = if self.in_conversion { Kind::Conversion } else { Kind::Cast };
            self.in_conversion = outer;
            return self.node(kind, ty?, NONE);
        }
        Some(self.leaf(Kind::Operator(tables::operator(code)?)))
    }

    fn operation(&mut self) -> Option<Id> {
        let operator = self.operator_name()?;
        let (code, operands) = match self.nodes.kind(operator) {
            Kind::Operator(known) => (known.code, known.operands),
            Kind::VendorOperator(operands) => ("", operands),
            Kind::Cast => ("", 1),
            _ => return None,
        };
        match operands {
            0 => self.node(Kind::Nullary, operator, NONE),
            1 => self.unary(operator, code),
            2 => self.binary(operator, code),
            3 => self.trinary(operator, code),
            _ => None,
        }
    }

    fn unary(&mut self, operator: Id, code: &str) -> Option<Id> {
        let suffix = matches!(code, "pp" | "mm") && !self.take(b"_");
        let mut operand = match code {
            "st" => self.ty()?,
            "sP" => self.template_arguments_rest()?,
            "" if self.nodes.kind(operator) == Kind::Cast && self.take(b"_") => self.expression_list(b'E')?,
            _ => self.expression()?,
        };
        if suffix {
            operand = self.nodes.push(Kind::BinaryOperands, operand, operand);
        }
        self.node(Kind::Unary, operator, operand)
    }

    fn binary(&mut self, operator: Id, code: &str) -> Option<Id> {
        let left = match code {
            "cc" | "dc" | "rc" | "sc" => self.ty()?,
            "fl" | "fr" => self.operator_name()?,
            "di" => self.unqualified_name(NONE, NONE)?,
            _ => self.expression()?,
        };
        let right = match code {
            "cl" => self.expression_list(b'E')?,
            "dt" | "pt" if self.peek() != b'g' && !self.rest().starts_with(b"sr") => self.named()?,
            _ => self.expression()?,
        };
        let operands = self.nodes.push(Kind::BinaryOperands, left, right);
        self.node(Kind::Binary, operator, operands)
    }

    fn trinary(&mut self, operator: Id, code: &str) -> Option<Id> {
        let (first, second, third) = match code {
            "qu" | "dX" => (self.expression()?, self.expression()?, self.expression()?),
            "fL" | "fR" => (self.operator_name()?, self.expression()?, self.expression()?),
            _ => {
                let place = self.expression_list(b'_')?;
                let ty = self.ty()?;
                let initializer = if self.take(b"E") {
                    NONE
                } else if self.take(b"pi") {
                    self.expression_list(b'E')?
                } else if self.rest().starts_with(b"il") {
                    self.expression()?
                } else {
                    return None;
                };
                (place, ty, initializer)
            }
        };
        let rest = self.nodes.push(Kind::TrinaryRest, second, third);
        let operands = self.nodes.push(Kind::TrinaryOperands, first, rest);
        self.node(Kind::Trinary, operator, operands)
    }

    /// `L … E`
    pub(crate) fn literal(&mut self) -> Option<Id> {
        self.expect(b'L')?;
        let literal = if matches!(self.peek(), b'_' | b'Z') {
            self.mangled(false)?
        } else {
            let ty = self.ty()?;
            if let Kind::Builtin(builtin) = self.nodes.kind(ty)
                && builtin.name == "decltype(nullptr)"
                && self.take(b"E")
            {
                return Some(ty);
            }
            let negative = self.take(b"n");
            if self.peek() == b'E' {
                return None;
            }
            let start = self.at;
            while self.peek() != b'E' {
                if self.at >= self.text.len() {
                    return None;
                }
                self.at += 1;
            }
            let digits = self.leaf(Kind::Name(&self.text[start..self.at]));
            self.nodes.push(Kind::Literal(negative), ty, digits)
        };
        self.expect(b'E')?;
        Some(literal)
    }
}
