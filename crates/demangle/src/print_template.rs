//! Prints templates, the arguments of their parameters, packs, and lambdas.

use crate::print::{DEPTH, Done, Fault, Printer, Scope};
use crate::tree::{Id, Kind, NONE, Node};

impl<'a> Printer<'_, 'a> {
    pub(crate) fn template(&mut self, id: Id) -> Done {
        let outer = std::mem::replace(&mut self.current_template, id);
        // The template is a name, and its modifier stays outside.
        let modifier = self.modifier.take();
        self.node(self.nodes.left(id))?;
        self.template_list(self.nodes.right(id))?;
        self.modifier = modifier;
        self.current_template = outer;
        Ok(())
    }

    /// Writes `<…>`. Two brackets never touch.
    fn template_list(&mut self, arguments: Id) -> Done {
        if self.last == b'<' {
            self.text(" ");
        }
        self.around("<", arguments, "")?;
        self.text(if self.last == b'>' { " >" } else { ">" });
        Ok(())
    }

    pub(crate) fn template_param(&mut self, id: Id, number: u32) -> Done {
        if self.in_lambda > 0 {
            return match self.lambda_parameters.get(number as usize) {
                Some(&parameter) => self.parameter_name(parameter),
                None => {
                    self.text(&format!("auto:{}", u64::from(number) + 1));
                    Ok(())
                }
            };
        }
        let argument = self.argument_of(id).ok_or(Fault)?;
        let outer = self.templates;
        self.templates = outer.and_then(|at| self.scopes[at as usize].next);
        let done = self.node(argument);
        self.templates = outer;
        done
    }

    /// The argument of a template parameter. If it is a pack, the current element.
    pub(crate) fn argument_of(&self, param: Id) -> Option<Id> {
        let argument = self.lookup(param)?;
        match (self.nodes.kind(argument), self.pack_index) {
            (Kind::TemplateArguments(_), Some(index)) => self.element(argument, index),
            _ => Some(argument),
        }
    }

    pub(crate) fn lookup(&self, param: Id) -> Option<Id> {
        let Kind::TemplateParam(number) = self.nodes.kind(param) else { return None };
        let scope = self.scopes[self.templates? as usize];
        self.element(self.nodes.right(scope.template), number as usize)
    }

    fn element(&self, mut list: Id, index: usize) -> Option<Id> {
        if list.is_some() && self.nodes.kind(list) == Kind::Constraints {
            list = self.nodes.left(list);
        }
        // Elements follow one another among the nodes, with the first one last.
        let index = u32::try_from(index).ok()?;
        match list.is_some().then(|| self.nodes.kind(list))? {
            Kind::TemplateArguments(count) if index < count => Some(self.nodes.left(Id(list.0 - index))),
            _ => None,
        }
    }

    /// Runs a method with one more template in scope.
    pub(crate) fn within(&mut self, template: Id, write: impl FnOnce(&mut Self) -> Done) -> Done {
        let outer = self.templates;
        // Scopes stay in the list when they have been left, because a reference may come back to them.
        self.scopes.push(Scope { next: outer, template });
        self.templates = Some(self.scopes.len() as u32 - 1);
        let done = write(self);
        self.templates = outer;
        done
    }

    pub(crate) fn lambda(&mut self, parameters: Id, head: Id, number: u32) -> Done {
        self.text("{lambda");
        let outer = std::mem::take(&mut self.lambda_parameters);
        let mut rest = head;
        while rest.is_some() {
            self.count(1)?;
            self.lambda_parameters.push(self.nodes.left(rest));
            rest = self.nodes.right(rest);
        }
        self.in_lambda += 1;
        if head.is_some() {
            self.around("<", head, ">")?;
        }
        self.around("(", parameters, "")?;
        self.in_lambda -= 1;
        self.lambda_parameters = outer;
        self.text(&format!(")#{}}}", u64::from(number) + 1));
        Ok(())
    }

    /// Writes a parameter of a lambda's template with a made-up name, or a parameter of an inner template
    /// without one.
    pub(crate) fn head_parameter(&mut self, kind: Kind<'a>, left: Id) -> Done {
        let id = self.path.last().copied().unwrap_or(NONE);
        match kind {
            Kind::TypeParam => self.text("typename"),
            Kind::ValueParam => self.node(left)?,
            Kind::TemplateTemplateParam => self.around("template<", left, "> class")?,
            _ => self.around("", left, "...")?,
        }
        self.count(self.lambda_parameters.len())?;
        if self.lambda_parameters.contains(&id) {
            self.text(" ");
            return self.parameter_name(id);
        }
        Ok(())
    }

    /// Writes a made-up name, by the kind and the position of a lambda's template parameter.
    fn parameter_name(&mut self, id: Id) -> Done {
        self.count(self.lambda_parameters.len())?;
        let row = self.lambda_parameters.iter().position(|&known| known == id).ok_or(Fault)?;
        let mut kind = self.nodes.kind(id);
        if kind == Kind::PackParam {
            kind = self.nodes.kind(self.nodes.left(id));
        }
        let stem = match kind {
            Kind::ValueParam => "$N",
            Kind::TemplateTemplateParam => "$TT",
            _ => "$T",
        };
        self.text(&format!("{stem}{row}"));
        Ok(())
    }

    pub(crate) fn pack_expansion(&mut self, pattern: Id) -> Done {
        let pack = if self.in_lambda > 0 { None } else { self.find_pack(pattern) };
        let Some(pack) = pack else {
            // The arguments are packs of function parameters only, and the pattern stands for all.
            self.operand(pattern)?;
            self.text("...");
            return Ok(());
        };
        let outer = self.pack_index;
        let count = self.pack_length(pack);
        for index in 0..count {
            self.pack_index = Some(index);
            self.node(pattern)?;
            if index + 1 < count {
                self.text(", ");
            }
        }
        self.pack_index = outer;
        Ok(())
    }

    /// The pack that a pattern ranges over.
    pub(crate) fn find_pack(&mut self, pattern: Id) -> Option<Id> {
        self.searched.resize(self.nodes.len(), 0);
        self.searches += 1;
        self.find_pack_below(pattern, 0)
    }

    /// Substitutions lead to the same node on many ways. Visiting it once is enough.
    fn find_pack_below(&mut self, id: Id, depth: u32) -> Option<Id> {
        if !id.is_some() || depth > DEPTH || self.searched[id.0 as usize] == self.searches {
            return None;
        }
        self.searched[id.0 as usize] = self.searches;
        self.count(1).ok()?;
        let Node { kind, left, right } = self.nodes[id];
        match kind {
            Kind::TemplateParam(_) => self
                .lookup(id)
                .filter(|&argument| matches!(self.nodes.kind(argument), Kind::TemplateArguments(_))),
            Kind::PackExpansion | Kind::Lambda(_) | Kind::Tagged | Kind::DefaultArgument(_) => None,
            _ => self.find_pack_below(left, depth + 1).or_else(|| self.find_pack_below(right, depth + 1)),
        }
    }

    pub(crate) fn pack_length(&self, pack: Id) -> usize {
        match self.nodes.kind(pack) {
            Kind::TemplateArguments(count) => count as usize,
            _ => 0,
        }
    }
}
