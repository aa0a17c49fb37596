//! Prints operators, expressions and literals.

use crate::print::{Done, Fault, Printer};
use crate::tree::{Id, Kind, Literal, NONE};

impl<'a> Printer<'_, 'a> {
    pub(crate) fn expression(&mut self, kind: Kind<'a>, left: Id, right: Id) -> Done {
        match kind {
            Kind::Operator(operator) => {
                self.text("operator");
                if operator.text.starts_with(|first: char| first.is_ascii_lowercase()) {
                    self.text(" ");
                }
                self.text(operator.text.trim_end_matches(' '));
                Ok(())
            }
            Kind::VendorOperator(_) => self.around("operator ", left, ""),
            Kind::Conversion => {
                self.text("operator ");
                self.conversion(left)
            }
            Kind::InitializerList => {
                self.optional(left)?;
                self.around("{", right, "}")
            }
            Kind::Nullary => self.operator(left),
            Kind::Unary => self.unary(left, right),
            Kind::Binary => self.binary(left, right),
            Kind::Trinary => self.trinary(left, right),
            Kind::Cast => self.node(left),
            Kind::VendorExpression => {
                self.node(left)?;
                self.around("(", right, ")")
            }
            Kind::Literal(negative) => self.literal(negative, left, right),
            _ => Err(Fault),
        }
    }

    fn operator(&mut self, id: Id) -> Done {
        match self.nodes.kind(id) {
            Kind::Operator(operator) => {
                self.text(operator.text);
                Ok(())
            }
            _ => self.node(id),
        }
    }

    /// Writes an operand, in parentheses unless it is simple.
    pub(crate) fn operand(&mut self, id: Id) -> Done {
        if !id.is_some() {
            return Err(Fault);
        }
        match self.nodes.kind(id) {
            Kind::Name(_) | Kind::Qualified | Kind::InitializerList | Kind::FunctionParam(_) => self.node(id),
            _ => self.around("(", id, ")"),
        }
    }

    fn unary(&mut self, operator: Id, operand: Id) -> Done {
        let kind = self.nodes.kind(operator);
        let code = kind.operator_code().unwrap_or_default();
        let mut operand = operand;
        if !operand.is_some() {
            return Err(Fault);
        }
        // The address of a function needs no parameters.
        if code == "ad" && self.nodes.kind(operand) == Kind::Typed {
            let (name, ty) = (self.nodes.left(operand), self.nodes.right(operand));
            if self.nodes.kind(name) == Kind::Qualified && self.nodes.kind(ty) == Kind::Function {
                operand = name;
            }
        }
        if self.nodes.kind(operand) == Kind::BinaryOperands {
            self.operand(self.nodes.left(operand))?;
            return self.operator(operator);
        }
        match code {
            "sZ" => {
                let count = self.find_pack(operand).map_or(0, |pack| self.pack_length(pack));
                self.text(&count.to_string());
                return Ok(());
            }
            "sP" => {
                let count = self.argument_count(operand)?;
                self.text(&count.to_string());
                return Ok(());
            }
            _ => {}
        }
        if kind == Kind::Cast {
            self.around("(", self.nodes.left(operator), ")")?;
        } else {
            self.operator(operator)?;
        }
        match code {
            "gs" => self.node(operand),
            "st" | "nx" => self.around("(", operand, ")"),
            _ => self.operand(operand),
        }
    }

    /// The number of template arguments. The elements of expanded packs count one by one.
    fn argument_count(&mut self, mut list: Id) -> Result<usize, Fault> {
        let mut count = 0;
        while list.is_some() && matches!(self.nodes.kind(list), Kind::TemplateArguments(_)) {
            self.count(1)?;
            let element = self.nodes.left(list);
            if !element.is_some() {
                break;
            }
            count += match self.nodes.kind(element) {
                Kind::PackExpansion => {
                    self.find_pack(self.nodes.left(element)).map_or(0, |pack| self.pack_length(pack))
                }
                _ => 1,
            };
            list = self.nodes.right(list);
        }
        Ok(count)
    }

    fn binary(&mut self, operator: Id, operands: Id) -> Done {
        let kind = self.nodes.kind(operator);
        let code = kind.operator_code().unwrap_or_default();
        let (left, right) = (self.nodes.left(operands), self.nodes.right(operands));
        if kind.is_named_cast() {
            self.operator(operator)?;
            self.around("<", left, ">(")?;
            return self.around("", right, ")");
        }
        match code {
            "fl" | "fr" => return self.fold(code, left, right, NONE),
            "di" | "dx" => return self.designated(code, left, NONE, right),
            _ => {}
        }
        // `>` would look like the end of the template arguments.
        if code == "gt" {
            self.text("(");
        }
        if code == "cl" && self.nodes.kind(left) == Kind::Typed {
            // Arguments follow. Types of parameters would be too much.
            if self.nodes.kind(self.nodes.right(left)) != Kind::Function {
                return Err(Fault);
            }
            self.operand(self.nodes.left(left))?;
        } else {
            self.operand(left)?;
        }
        if code == "ix" {
            self.around("[", right, "]")?;
        } else {
            if code != "cl" {
                self.operator(operator)?;
            }
            self.operand(right)?;
        }
        if code == "gt" {
            self.text(")");
        }
        Ok(())
    }

    fn trinary(&mut self, operator: Id, operands: Id) -> Done {
        let code = self.nodes.kind(operator).operator_code().unwrap_or_default();
        let (first, rest) = (self.nodes.left(operands), self.nodes.right(operands));
        let (second, third) = (self.nodes.left(rest), self.nodes.right(rest));
        match code {
            "fL" | "fR" => self.fold(code, first, second, third),
            "dX" => self.designated(code, first, second, third),
            "qu" => {
                self.operand(first)?;
                self.operator(operator)?;
                self.operand(second)?;
                self.text(" : ");
                self.operand(third)
            }
            _ => {
                self.text("new ");
                if self.nodes.left(first).is_some() {
                    self.operand(first)?;
                    self.text(" ");
                }
                self.node(second)?;
                if third.is_some() { self.operand(third) } else { Ok(()) }
            }
        }
    }

    /// Writes a fold expression, with its pack as a whole.
    fn fold(&mut self, code: &str, operator: Id, first: Id, second: Id) -> Done {
        let outer = self.pack_index.take();
        match code {
            "fl" => {
                self.text("(...");
                self.operator(operator)?;
                self.operand(first)?;
                self.text(")");
            }
            "fr" => {
                self.text("(");
                self.operand(first)?;
                self.operator(operator)?;
                self.text("...)");
            }
            _ => {
                self.text("(");
                self.operand(first)?;
                self.operator(operator)?;
                self.text("...");
                self.operator(operator)?;
                self.operand(second)?;
                self.text(")");
            }
        }
        self.pack_index = outer;
        Ok(())
    }

    /// Writes `.name=value`, `[index]=value`, `[from ... to]=value`. Several designators may follow each
    /// other.
    fn designated(&mut self, code: &str, first: Id, last: Id, value: Id) -> Done {
        match code {
            "di" => self.around(".", first, "")?,
            "dx" => self.around("[", first, "]")?,
            _ => {
                self.around("[", first, " ... ")?;
                self.around("", last, "]")?;
            }
        }
        let nested = matches!(self.nodes.kind(value), Kind::Binary | Kind::Trinary)
            && matches!(self.nodes.kind(self.nodes.left(value)).operator_code(), Some("di" | "dx" | "dX"));
        if nested {
            return self.node(value);
        }
        self.text("=");
        self.operand(value)
    }

    fn literal(&mut self, negative: bool, ty: Id, digits: Id) -> Done {
        let form = match self.nodes.kind(ty) {
            Kind::Builtin(builtin) => builtin.literal,
            _ => Literal::Cast,
        };
        let sign = if negative { "-" } else { "" };
        match form {
            Literal::Suffix(suffix) => return self.around(sign, digits, suffix),
            Literal::Bool if !negative && self.nodes.kind(digits) == Kind::Name(b"0") => {
                self.text("false");
                return Ok(());
            }
            Literal::Bool if !negative && self.nodes.kind(digits) == Kind::Name(b"1") => {
                self.text("true");
                return Ok(());
            }
            _ => {}
        }
        self.around("(", ty, ")")?;
        self.text(sign);
        if form == Literal::Float { self.around("[", digits, "]") } else { self.node(digits) }
    }
}
