//! The tree of a mangled name.
//!
//! Nodes have at most two children, so that a search need not know their kinds. A substitution is a second
//! way to the same node. So the tree is a graph, and the printer has to guard against cycles.

use std::ops::{Index, IndexMut};

/// The index of a node, or [`NONE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id(pub u32);

/// Stands for no node.
pub const NONE: Id = Id(u32::MAX);

impl Id {
    pub fn is_some(self) -> bool {
        self != NONE
    }
}

/// A node: its kind with its own text or numbers, and its children.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    pub kind: Kind<'a>,
    pub left: Id,
    pub right: Id,
}

/// All nodes of a name.
pub struct Nodes<'a>(Vec<Node<'a>>);

impl<'a> Nodes<'a> {
    /// An empty list with room for `count` nodes.
    pub fn with_capacity(count: usize) -> Self {
        Nodes(Vec::with_capacity(count))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn push(&mut self, kind: Kind<'a>, left: Id, right: Id) -> Id {
        self.0.push(Node { kind, left, right });
        Id(self.0.len() as u32 - 1)
    }

    pub fn kind(&self, id: Id) -> Kind<'a> {
        self[id].kind
    }

    pub fn left(&self, id: Id) -> Id {
        self[id].left
    }

    pub fn right(&self, id: Id) -> Id {
        self[id].right
    }
}

impl<'a> Index<Id> for Nodes<'a> {
    type Output = Node<'a>;

    fn index(&self, id: Id) -> &Node<'a> {
        &self.0[id.0 as usize]
    }
}

impl IndexMut<Id> for Nodes<'_> {
    fn index_mut(&mut self, id: Id) -> &mut Self::Output {
        &mut self.0[id.0 as usize]
    }
}

/// The form of a literal of a builtin type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Literal {
    /// The type in parentheses before the digits.
    Cast,
    /// The digits, and this suffix.
    Suffix(&'static str),
    Bool,
    /// The bytes of the number, in brackets.
    Float,
}

/// A type of the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Builtin {
    pub name: &'static str,
    pub literal: Literal,
}

/// An operator of the language: its code, its text and the number of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operator {
    pub code: &'static str,
    pub text: &'static str,
    pub operands: u8,
}

/// Qualifiers of types and, with `this`, of member functions and function types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Qualifier {
    Restrict,
    Volatile,
    Const,
}

/// Kinds of nodes. `l` and `r` are the left and the right child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind<'a> {
    /// An identifier, or another text of the input.
    Name(&'a [u8]),
    /// The name that an abbreviation (`Ss`) stands for.
    Standard(&'static str),
    /// `l[abi:r]`
    Tagged,
    /// `l::r`
    Qualified,
    /// `r` inside the function `l`.
    Local,
    /// `r` is the type of the function (or variable) `l`.
    Typed,
    /// `l<r>`
    Template,
    TemplateParam(u32),
    FunctionParam(u32),
    Ctor,
    Dtor,
    /// A text before `l`: `vtable for `, …
    Special(&'static str),
    /// `r` is the class that contains the part `l`.
    ConstructionVtable,
    /// `r` is the number.
    ReferenceTemporary,
    Cv(Qualifier),
    CvThis(Qualifier),
    ReferenceThis,
    RvalueReferenceThis,
    ExplicitThis,
    TransactionSafe,
    /// `r` is the condition.
    Noexcept,
    /// `r` are the types.
    Throw,
    /// `r` is the qualifier.
    VendorQualifier,
    Pointer,
    Reference,
    RvalueReference,
    Complex,
    Imaginary,
    Builtin(&'static Builtin),
    /// `_Float`, bits, suffix.
    Float(u32, &'static str),
    VendorType,
    /// `l` is the return type, `r` the parameters.
    Function,
    /// `l` is the dimension, `r` the element.
    Array,
    /// `l` is the class, `r` the member's type.
    MemberPointer,
    /// `l` is the number of elements, `r` their type.
    Vector,
    /// A list: `l` is an element, `r` the rest.
    Arguments,
    /// A list, too. Its elements were made one after the other, from the last to the first. The number counts
    /// those from here on.
    TemplateArguments(u32),
    /// `l` is the type, `r` the list.
    InitializerList,
    Operator(&'static Operator),
    /// A vendor's operator, with its number of operands.
    VendorOperator(u8),
    Conversion,
    Cast,
    Nullary,
    Unary,
    Binary,
    BinaryOperands,
    Trinary,
    /// `l` is the first operand, `r` the other two.
    TrinaryOperands,
    TrinaryRest,
    VendorExpression,
    /// `l` is the type, `r` the digits. The flag says whether it is negative.
    Literal(bool),
    Number(i64),
    DefaultArgument(u32),
    /// `l` are the parameters, `r` the template's head.
    Lambda(u32),
    UnnamedType(u32),
    /// `r` is the suffix.
    Clone,
    PackExpansion,
    Decltype,
    StructuredBinding,
    /// `l` is an entity of the module `r`.
    ModuleEntity,
    /// The flag says whether it is a partition. `l` is the module above.
    Module(bool),
    Friend,
    /// `l requires r`
    Constraints,
    /// Parameters of a lambda's template: `l`, then `r`.
    TemplateHead,
    TypeParam,
    /// `l` is its type.
    ValueParam,
    /// `l` is its head.
    TemplateTemplateParam,
    PackParam,
}

impl Kind<'_> {
    /// Whether it comes after a function's parameters.
    pub fn is_function_qualifier(self) -> bool {
        matches!(
            self,
            Kind::CvThis(_)
                | Kind::ReferenceThis
                | Kind::RvalueReferenceThis
                | Kind::ExplicitThis
                | Kind::TransactionSafe
                | Kind::Noexcept
                | Kind::Throw
        )
    }

    pub fn operator_code(self) -> Option<&'static str> {
        match self {
            Kind::Operator(operator) => Some(operator.code),
            _ => None,
        }
    }

    /// Whether it is one of the `…_cast<T>` operators.
    pub fn is_named_cast(self) -> bool {
        matches!(self.operator_code(), Some("cc" | "dc" | "rc" | "sc"))
    }
}
