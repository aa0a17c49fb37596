//! Finds every path in a crate's files, and the file that defines the item it names.

use crate::modules::{Module, Modules};
use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::visit::Visit;

/// A path that names something in the crate.
pub struct Named<'m> {
    /// The file that contains the path.
    pub from: &'m str,
    /// The file that defines the item.
    pub to: &'m str,
    /// Line, from 1.
    pub line: usize,
    /// The path, starting with `crate`.
    pub path: String,
}

/// What a path leads to.
enum Target {
    /// A module itself.
    Module(usize),
    /// An item of a module.
    Item(usize, String),
    /// Something in another crate, a type parameter or a local name.
    Foreign,
}

/// How many `use` a path may lead through. Those of a circle would never end.
const DEPTH: usize = 16;

/// Finds all paths.
pub fn all(modules: &Modules) -> Vec<Named<'_>> {
    let mut found = Vec::new();
    for (row, module) in modules.all.iter().enumerate() {
        let mut add = |path: &[String], line: usize| {
            found.extend(modules.named(row, path, line));
        };
        for import in &module.imports {
            // A folder that re-exports the items of its own files does not need these files.
            let hands_on = import.public && modules.leads_below(row, &import.path);
            if !hands_on && import.name.is_some() {
                add(&import.path, import.line);
            }
        }
        let mut visitor = Paths { found: Vec::new() };
        module.body.iter().for_each(|item| visitor.visit_item(item));
        for (path, line) in visitor.found {
            add(&path, line);
        }
    }
    found
}

impl Modules {
    fn named(&self, from: usize, path: &[String], line: usize) -> Option<Named<'_>> {
        let (to, name) = match self.resolve(from, path, 0) {
            Target::Item(to, name) => (to, Some(name)),
            // A name for a module is not a use of the module yet; a path that continues from it is.
            Target::Module(_) | Target::Foreign => return None,
        };
        let target: &Module = &self.all[to];
        let names = std::iter::once("crate").chain(target.path.iter().map(String::as_str));
        let path: Vec<&str> = names.chain(name.as_deref()).collect();
        Some(Named { from: &self.all[from].file, to: &target.file, line, path: path.join("::") })
    }

    /// Whether a path leads to something below this module.
    fn leads_below(&self, row: usize, path: &[String]) -> bool {
        let Target::Item(mut at, _) = self.resolve(row, path, 0) else { return false };
        while at != 0 {
            if at == row {
                return true;
            }
            at = self.all[at].parent;
        }
        row == 0
    }

    /// Follows a path in a module.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Target {
        let Some((first, rest)) = path.split_first() else { return Target::Module(from) };
        match first.as_str() {
            "crate" => self.descend(0, rest, depth),
            "self" => self.descend(from, rest, depth),
            "super" => self.resolve_super(self.all[from].parent, rest, depth),
            _ => self.descend(from, path, depth),
        }
    }

    fn resolve_super(&self, at: usize, rest: &[String], depth: usize) -> Target {
        match rest.split_first() {
            Some((first, rest)) if first == "super" => self.resolve_super(self.all[at].parent, rest, depth),
            _ => self.descend(at, rest, depth),
        }
    }

    /// Follows names, starting in a module.
    fn descend(&self, at: usize, path: &[String], depth: usize) -> Target {
        let Some((first, rest)) = path.split_first() else { return Target::Module(at) };
        if depth > DEPTH {
            return Target::Foreign;
        }
        let module = &self.all[at];
        if let Some(&child) = module.children.get(first) {
            return self.descend(child, rest, depth);
        }
        if module.items.contains(first) {
            return Target::Item(at, first.clone());
        }
        if let Some(import) = module.imports.iter().find(|import| import.name.as_deref() == Some(first)) {
            return match self.resolve(at, &import.path, depth + 1) {
                Target::Module(module) => self.descend(module, rest, depth + 1),
                // If a module re-exports an item of another crate, the item counts as the module's own.
                Target::Foreign => Target::Item(at, first.clone()),
                Target::Item(at, name) => Target::Item(at, name),
            };
        }
        for import in module.imports.iter().filter(|import| import.name.is_none()) {
            let Target::Module(globbed) = self.resolve(at, &import.path, depth + 1) else { continue };
            if globbed == at {
                continue;
            }
            match self.descend(globbed, path, depth + 1) {
                Target::Foreign => {}
                target => return target,
            }
        }
        Target::Foreign
    }
}

/// Collects paths with their lines.
struct Paths {
    found: Vec<(Vec<String>, usize)>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.found.push((names, first.ident.span().start().line));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.tokens(list.tokens.clone());
        syn::visit::visit_meta_list(self, list);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        syn::visit::visit_macro(self, call);
    }
}

impl Paths {
    /// The arguments of a macro or an attribute may be anything, so names joined by `::` count as paths.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.take(&mut path, line);
                        line = name.span().start().line;
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += if colons == 1 || mark.spacing() == Spacing::Joint { 1 } else { 3 };
                }
                TokenTree::Group(group) => {
                    self.take(&mut path, line);
                    colons = 0;
                    self.tokens(group.stream());
                }
                _ => {
                    self.take(&mut path, line);
                    colons = 0;
                }
            }
        }
        self.take(&mut path, line);
    }

    fn take(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.found.push((std::mem::take(path), line));
        }
    }
}
