//! Prints the tree: names, types and their qualifiers.
//!
//! C++ wraps pointers, references and qualifiers around names and parameters: in `int (*f)(char)`, the `*`
//! stands inside the text of the function type, although the pointer contains that type. So the printer does
//! not write a modifier where it meets it in the tree. It puts the modifier into a list, and the type inside
//! writes the list at the right place. A modifier that no type has written comes last.

use crate::tree::{Id, Kind, NONE, Node, Nodes, Qualifier};
use std::collections::BTreeMap;

/// The largest depth of the tree.
pub(crate) const DEPTH: u32 = 640;
/// The largest number of bytes of text for each byte of the name. A substitution of two bytes may stand for a
/// whole type.
const TEXT_PER_BYTE: usize = 128;
/// The largest number of nodes for each byte of the name that the printer writes or visits.
const STEPS_PER_BYTE: usize = 256;
/// The largest number of qualifiers that a function or an array passes on.
const MAX_PASSED_ON: usize = 4;

/// The text is too long or too deep, or the name refers to a part that it does not have.
#[derive(Debug)]
pub(crate) struct Fault;

pub(crate) type Done = Result<(), Fault>;

/// A link to the next element of a list; `None` at its end.
pub(crate) type Link = Option<u32>;

/// A modifier that waits for its place.
#[derive(Clone, Copy)]
struct Modifier {
    next: Link,
    node: Id,
    printed: bool,
    templates: Link,
}

/// A template that gives arguments to its parameters.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) next: Link,
    pub(crate) template: Id,
}

/// A printer of one tree.
pub struct Printer<'t, 'a> {
    pub(crate) nodes: &'t Nodes<'a>,
    pub(crate) out: Vec<u8>,
    /// For each node, how many times it is being written at this moment.
    active: Vec<u8>,
    /// The nodes that are being written, outermost first.
    pub(crate) path: Vec<Id>,
    modifiers: Vec<Modifier>,
    pub(crate) modifier: Link,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) templates: Link,
    /// For each referenced template parameter, the scope in which it was first met.
    saved: BTreeMap<Id, Link>,
    pub(crate) current_template: Id,
    pub(crate) pack_index: Option<usize>,
    pub(crate) in_lambda: u32,
    /// Parameters of a lambda's template, by their number.
    pub(crate) lambda_parameters: Vec<Id>,
    pub(crate) last: u8,
    /// For each node, the last search for a pack that visited it.
    pub(crate) searched: Vec<u32>,
    pub(crate) searches: u32,
    steps: usize,
    most_steps: usize,
    most_text: usize,
}

/// The text of a tree. The tree comes from a name of this length.
pub fn print(nodes: &Nodes<'_>, root: Id, length: usize) -> Option<Vec<u8>> {
    let mut printer = Printer {
        nodes,
        out: Vec::with_capacity(nodes.len() * 4),
        active: vec![0; nodes.len()],
        path: Vec::new(),
        modifiers: Vec::new(),
        modifier: None,
        scopes: Vec::new(),
        templates: None,
        saved: BTreeMap::new(),
        current_template: NONE,
        pack_index: Some(0),
        in_lambda: 0,
        lambda_parameters: Vec::new(),
        last: 0,
        searched: Vec::new(),
        searches: 0,
        steps: 0,
        most_steps: STEPS_PER_BYTE * length,
        most_text: TEXT_PER_BYTE * length,
    };
    printer.node(root).ok()?;
    Some(printer.out)
}

impl<'a> Printer<'_, 'a> {
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(&last) = bytes.last() {
            self.last = last;
            self.out.extend_from_slice(bytes);
        }
    }

    /// Counts steps: nodes or modifiers that the printer visits.
    pub(crate) fn count(&mut self, steps: usize) -> Done {
        self.steps += steps;
        if self.steps > self.most_steps { Err(Fault) } else { Ok(()) }
    }

    pub(crate) fn node(&mut self, id: Id) -> Done {
        if !id.is_some()
            || self.path.len() >= DEPTH as usize
            || self.out.len() > self.most_text
            || self.active[id.0 as usize] > 1
        {
            return Err(Fault);
        }
        self.count(1)?;
        self.active[id.0 as usize] += 1;
        self.path.push(id);
        let done = self.node_here(id);
        self.path.pop();
        self.active[id.0 as usize] -= 1;
        done
    }

    pub(crate) fn optional(&mut self, id: Id) -> Done {
        if id.is_some() { self.node(id) } else { Ok(()) }
    }

    fn node_here(&mut self, id: Id) -> Done {
        let Node { kind, left, right } = self.nodes[id];
        match kind {
            Kind::Name(text) => self.bytes(text),
            Kind::Standard(text) => self.text(text),
            Kind::Builtin(builtin) => self.text(builtin.name),
            Kind::Float(bits, suffix) => self.text(&format!("_Float{bits}{suffix}")),
            Kind::Number(number) => self.text(&number.to_string()),
            Kind::UnnamedType(number) => self.text(&format!("{{unnamed type#{}}}", u64::from(number) + 1)),
            Kind::FunctionParam(0) => self.text("this"),
            Kind::FunctionParam(number) => self.text(&format!("{{parm#{number}}}")),
            Kind::Typed => return self.typed(left, right),
            Kind::Template => return self.template(id),
            Kind::TemplateParam(number) => return self.template_param(id, number),
            Kind::Qualified | Kind::Local => return self.qualified(left, right),
            Kind::Cv(_) => return self.cv(id),
            Kind::Reference | Kind::RvalueReference => return self.reference(id),
            Kind::Function => return self.function(id),
            Kind::Array => return self.array(id),
            Kind::MemberPointer | Kind::Vector => return self.modified(id, right),
            Kind::Pointer | Kind::Complex | Kind::Imaginary | Kind::VendorQualifier => {
                return self.modified(id, left);
            }
            kind if kind.is_function_qualifier() => return self.modified(id, left),
            Kind::Arguments | Kind::TemplateArguments(_) | Kind::TemplateHead => return self.elements(id),
            Kind::PackExpansion => return self.pack_expansion(left),
            Kind::Lambda(number) => return self.lambda(left, right, number),
            Kind::Constraints => return self.joined(left, " requires ", right, ""),
            _ => return self.part(kind, left, right),
        }
        Ok(())
    }

    /// Writes the kinds that are a fixed text around their children.
    fn part(&mut self, kind: Kind<'a>, left: Id, right: Id) -> Done {
        match kind {
            Kind::Tagged => self.joined(left, "[abi:", right, "]"),
            Kind::Ctor | Kind::VendorType => self.node(left),
            Kind::Dtor => self.around("~", left, ""),
            Kind::Special(text) => self.around(text, left, ""),
            Kind::ConstructionVtable => {
                self.text("construction vtable for ");
                self.joined(left, "-in-", right, "")
            }
            Kind::ReferenceTemporary => {
                self.around("reference temporary #", right, " for ")?;
                self.node(left)
            }
            Kind::Clone => self.joined(left, " [clone ", right, "]"),
            Kind::Decltype => self.around("decltype (", left, ")"),
            Kind::StructuredBinding => self.around("[", left, "]"),
            Kind::ModuleEntity => self.joined(left, "@", right, ""),
            Kind::Module(partition) => {
                self.optional(left)?;
                if partition || left.is_some() {
                    self.text(if partition { ":" } else { "." });
                }
                self.node(right)
            }
            Kind::Friend => self.around("", left, "[friend]"),
            Kind::DefaultArgument(number) => {
                self.text(&format!("{{default arg#{}}}::", u64::from(number) + 1));
                self.node(left)
            }
            Kind::TypeParam | Kind::ValueParam | Kind::TemplateTemplateParam | Kind::PackParam => {
                self.head_parameter(kind, left)
            }
            _ => self.expression(kind, left, right),
        }
    }

    /// Writes a text, a node and another text.
    pub(crate) fn around(&mut self, before: &str, id: Id, behind: &str) -> Done {
        self.text(before);
        self.node(id)?;
        self.text(behind);
        Ok(())
    }

    fn joined(&mut self, left: Id, between: &str, right: Id, behind: &str) -> Done {
        self.node(left)?;
        self.around(between, right, behind)
    }

    fn qualified(&mut self, left: Id, right: Id) -> Done {
        self.joined(left, "::", right, "")
    }

    /// Writes a list with commas. No comma follows the last element that has a text (an empty pack has none),
    /// but the check for touching brackets counts that comma.
    fn elements(&mut self, list: Id) -> Done {
        let (mut rest, mut end) = (list, None);
        while rest.is_some() {
            if matches!(self.nodes.kind(rest), Kind::Constraints) {
                return self.node(rest);
            }
            if end.is_some() {
                self.text(", ");
            }
            let start = self.out.len();
            self.optional(self.nodes.left(rest))?;
            if end.is_none() || self.out.len() > start {
                end = Some(self.out.len());
            }
            rest = self.nodes.right(rest);
        }
        self.out.truncate(end.unwrap_or(usize::MAX));
        Ok(())
    }

    // ---- modifiers -----------------------------------------------------------------------------

    fn push_modifier(&mut self, node: Id) -> u32 {
        let entry = Modifier { next: self.modifier, node, printed: false, templates: self.templates };
        self.modifiers.push(entry);
        let at = self.modifiers.len() as u32 - 1;
        self.modifier = Some(at);
        at
    }

    /// Writes `inner` with `id` as one more modifier.
    fn modified(&mut self, id: Id, inner: Id) -> Done {
        let outer = self.modifier;
        let at = self.push_modifier(id);
        self.node(inner)?;
        if !self.modifiers[at as usize].printed {
            self.write_modifier(id)?;
        }
        self.modifiers.truncate(at as usize);
        self.modifier = outer;
        Ok(())
    }

    /// Writes a qualifier once, even if arrays have passed it down already.
    fn cv(&mut self, id: Id) -> Done {
        let mut link = self.modifier;
        while let Some(at) = link {
            self.count(1)?;
            let waiting = self.modifiers[at as usize];
            if !waiting.printed {
                match self.nodes.kind(waiting.node) {
                    kind if kind == self.nodes.kind(id) => return self.node(self.nodes.left(id)),
                    Kind::Cv(_) => {}
                    _ => break,
                }
            }
            link = waiting.next;
        }
        self.modified(id, self.nodes.left(id))
    }

    /// `T&` and `T&&`: two references make one, and `&` wins.
    fn reference(&mut self, id: Id) -> Done {
        let (mut outermost, mut inner) = (id, self.nodes.left(id));
        let outer = self.templates;
        if self.in_lambda == 0 && matches!(self.nodes.kind(inner), Kind::TemplateParam(_)) {
            match self.saved.get(&inner) {
                None => drop(self.saved.insert(inner, outer)),
                // The node is a substitution. The parameter keeps the meaning of its first occurrence, unless
                // the printer is at that occurrence.
                Some(&scope) => {
                    let above = self.path.split_last().map_or(&[][..], |(_, above)| above);
                    if !above.contains(&inner) && !above.contains(&id) {
                        self.templates = scope;
                    }
                }
            }
            inner = self.argument_of(inner).ok_or(Fault)?;
        }
        let mut target = self.nodes.left(outermost);
        if self.nodes.kind(inner) == Kind::Reference || self.nodes.kind(inner) == self.nodes.kind(id) {
            outermost = inner;
            target = self.nodes.left(inner);
        } else if self.nodes.kind(inner) == Kind::RvalueReference {
            target = self.nodes.left(inner);
        }
        let done = self.modified(outermost, target);
        self.templates = outer;
        done
    }

    fn write_modifier(&mut self, id: Id) -> Done {
        let Node { kind, left, right } = self.nodes[id];
        match kind {
            Kind::Cv(qualifier) | Kind::CvThis(qualifier) => self.text(match qualifier {
                Qualifier::Restrict => " restrict",
                Qualifier::Volatile => " volatile",
                Qualifier::Const => " const",
            }),
            Kind::TransactionSafe => self.text(" transaction_safe"),
            Kind::Noexcept | Kind::Throw => {
                self.text(if kind == Kind::Throw { " throw" } else { " noexcept" });
                if right.is_some() {
                    self.around("(", right, ")")?;
                }
            }
            Kind::VendorQualifier => self.around(" ", right, "")?,
            Kind::Pointer => self.text("*"),
            Kind::Reference => self.text("&"),
            Kind::ReferenceThis => self.text(" &"),
            Kind::RvalueReference => self.text("&&"),
            Kind::RvalueReferenceThis => self.text(" &&"),
            Kind::ExplicitThis => {}
            Kind::Complex => self.text(" _Complex"),
            Kind::Imaginary => self.text(" _Imaginary"),
            Kind::MemberPointer => {
                if self.last != b'(' {
                    self.text(" ");
                }
                self.around("", left, "::*")?;
            }
            Kind::Typed => self.node(left)?,
            Kind::Vector => self.around(" __vector(", left, ")")?,
            _ => self.node(id)?,
        }
        Ok(())
    }

    /// Writes the waiting modifiers. Those of functions come only at the end (`suffix`).
    fn write_modifiers(&mut self, mut link: Link, suffix: bool) -> Done {
        while let Some(at) = link {
            self.count(1)?;
            let Modifier { next, node, printed, templates } = self.modifiers[at as usize];
            link = next;
            let kind = self.nodes.kind(node);
            if printed || (!suffix && kind.is_function_qualifier()) {
                continue;
            }
            self.modifiers[at as usize].printed = true;
            let outer = std::mem::replace(&mut self.templates, templates);
            let done = match kind {
                Kind::Function => self.function_around(node, next),
                Kind::Array => self.array_around(node, next),
                Kind::Local => self.local_modifier(node),
                _ => self.write_modifier(node),
            };
            self.templates = outer;
            if matches!(kind, Kind::Function | Kind::Array | Kind::Local) {
                return done;
            }
            done?;
        }
        Ok(())
    }

    /// Writes a local name whose qualifiers wait in the list themselves.
    fn local_modifier(&mut self, id: Id) -> Done {
        let modifier = self.modifier.take();
        self.node(self.nodes.left(id))?;
        self.modifier = modifier;
        self.text("::");
        let mut name = self.nodes.right(id);
        if let Kind::DefaultArgument(number) = self.nodes.kind(name) {
            self.text(&format!("{{default arg#{}}}::", u64::from(number) + 1));
            name = self.nodes.left(name);
        }
        while self.nodes.kind(name).is_function_qualifier() {
            name = self.nodes.left(name);
        }
        self.node(name)
    }

    // ---- functions and arrays ------------------------------------------------------------------

    /// Writes a function with its type. The name becomes one more modifier of the type.
    fn typed(&mut self, name: Id, ty: Id) -> Done {
        let outer = self.modifier.take();
        let base = self.modifiers.len();
        let mut name = name;
        loop {
            if !name.is_some() || self.modifiers.len() - base >= MAX_PASSED_ON {
                return Err(Fault);
            }
            self.push_modifier(name);
            if !self.nodes.kind(name).is_function_qualifier() {
                break;
            }
            name = self.nodes.left(name);
        }
        if self.nodes.kind(name) == Kind::Local {
            name = self.local_qualifiers(name, base)?;
        }
        // The type may refer to the template's arguments.
        match self.nodes.kind(name) {
            Kind::Template => self.within(name, |printer| printer.node(ty))?,
            _ => self.node(ty)?,
        }
        for at in (base..self.modifiers.len()).rev() {
            if !self.modifiers[at].printed {
                self.text(" ");
                self.write_modifier(self.modifiers[at].node)?;
            }
        }
        self.modifiers.truncate(base);
        self.modifier = outer;
        Ok(())
    }

    /// Takes the qualifiers of a local function from its name.
    fn local_qualifiers(&mut self, local: Id, base: usize) -> Result<Id, Fault> {
        let mut name = self.nodes.right(local);
        if let Kind::DefaultArgument(_) = self.nodes.kind(name) {
            name = self.nodes.left(name);
        }
        while name.is_some() && self.nodes.kind(name).is_function_qualifier() {
            if self.modifiers.len() - base >= MAX_PASSED_ON {
                return Err(Fault);
            }
            // The local name stays the innermost one.
            let last = self.modifiers.len() - 1;
            self.modifiers[last].node = name;
            self.push_modifier(local);
            name = self.nodes.left(name);
        }
        if name.is_some() { Ok(name) } else { Err(Fault) }
    }

    fn function(&mut self, id: Id) -> Done {
        let result = self.nodes.left(id);
        if result.is_some() {
            let outer = self.modifier;
            let at = self.push_modifier(id);
            self.node(result)?;
            let printed = self.modifiers[at as usize].printed;
            self.modifiers.truncate(at as usize);
            self.modifier = outer;
            if printed {
                return Ok(());
            }
            self.text(" ");
        }
        self.function_around(id, self.modifier)
    }

    /// Writes name and parameters, with the function's modifiers in between.
    fn function_around(&mut self, id: Id, modifiers: Link) -> Done {
        let (mut bracket, mut space, mut explicit_this) = (false, false, false);
        let mut link = modifiers;
        while let Some(at) = link {
            self.count(1)?;
            let waiting = self.modifiers[at as usize];
            if waiting.printed || bracket {
                break;
            }
            match self.nodes.kind(waiting.node) {
                Kind::Pointer | Kind::Reference | Kind::RvalueReference => bracket = true,
                Kind::Cv(_)
                | Kind::VendorQualifier
                | Kind::Complex
                | Kind::Imaginary
                | Kind::MemberPointer => (bracket, space) = (true, true),
                Kind::ExplicitThis => explicit_this = true,
                _ => {}
            }
            link = waiting.next;
        }
        if bracket {
            space |= !matches!(self.last, b'(' | b'*');
            if space && self.last != b' ' {
                self.text(" ");
            }
            self.text("(");
        }
        let outer = self.modifier.take();
        self.write_modifiers(modifiers, false)?;
        if bracket {
            self.text(")");
        }
        self.text(if explicit_this { "(this " } else { "(" });
        self.optional(self.nodes.right(id))?;
        self.text(")");
        self.write_modifiers(modifiers, true)?;
        self.modifier = outer;
        Ok(())
    }

    /// Writes an array, which passes its qualifiers on to its elements.
    fn array(&mut self, id: Id) -> Done {
        let outer = self.modifier;
        let own = self.push_modifier(id);
        let mut link = outer;
        while let Some(at) = link {
            self.count(1)?;
            let waiting = self.modifiers[at as usize];
            if !matches!(self.nodes.kind(waiting.node), Kind::Cv(_)) {
                break;
            }
            if !waiting.printed {
                if self.modifiers.len() - own as usize >= MAX_PASSED_ON {
                    return Err(Fault);
                }
                let copy = self.push_modifier(waiting.node);
                self.modifiers[copy as usize].templates = waiting.templates;
                self.modifiers[at as usize].printed = true;
            }
            link = waiting.next;
        }
        self.node(self.nodes.right(id))?;
        self.modifier = outer;
        if !self.modifiers[own as usize].printed {
            for at in (own as usize + 1..self.modifiers.len()).rev() {
                self.write_modifier(self.modifiers[at].node)?;
            }
            self.modifiers.truncate(own as usize);
            return self.array_around(id, outer);
        }
        self.modifiers.truncate(own as usize);
        Ok(())
    }

    fn array_around(&mut self, id: Id, modifiers: Link) -> Done {
        let (mut space, mut bracket) = (true, false);
        let mut link = modifiers;
        while let Some(at) = link {
            self.count(1)?;
            let waiting = self.modifiers[at as usize];
            if !waiting.printed {
                bracket = self.nodes.kind(waiting.node) != Kind::Array;
                space = bracket;
                break;
            }
            link = waiting.next;
        }
        if modifiers.is_some() {
            if bracket {
                self.text(" (");
            }
            self.write_modifiers(modifiers, false)?;
            if bracket {
                self.text(")");
            }
        }
        self.text(if space { " [" } else { "[" });
        self.optional(self.nodes.left(id))?;
        self.text("]");
        Ok(())
    }

    /// Writes `operator T`. The type may refer to parameters of the template that the operator is a member
    /// of.
    pub(crate) fn conversion(&mut self, ty: Id) -> Done {
        let template = self.current_template;
        if template.is_some() { self.within(template, |printer| printer.node(ty)) } else { self.node(ty) }
    }
}
