//! Reads the tree of a crate's modules: the items that each module defines, and those that it imports.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, UseTree, Visibility};

/// A module: a file, or a part of one.
pub struct Module {
    /// The file, relative to the root file's folder.
    pub file: String,
    /// The row of the module that contains this one; the root contains itself.
    pub parent: usize,
    /// The names from the root to here, without `crate`.
    pub path: Vec<String>,
    /// The rows of the modules in this one.
    pub children: BTreeMap<String, usize>,
    /// The items defined here, except for modules.
    pub items: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// All other items; they are searched for paths.
    pub body: Vec<Item>,
}

/// One name in a `use`.
pub struct Import {
    /// The name that it has here; `None` for `*`.
    pub name: Option<String>,
    /// The path in the source.
    pub path: Vec<String>,
    /// Line, from 1.
    pub line: usize,
    /// Whether other modules can see the name.
    pub public: bool,
}

/// All modules of a crate; the first one is the root.
pub struct Modules {
    pub all: Vec<Module>,
    folder: PathBuf,
}

impl Modules {
    /// Reads the root file and every module that it declares.
    pub fn read(root: &Path) -> Result<Self> {
        let folder = root.parent().context("the root file has no folder")?.to_path_buf();
        let mut modules = Modules { all: Vec::new(), folder: folder.clone() };
        modules.file(root, &folder, 0, Vec::new())?;
        Ok(modules)
    }

    /// Every file, once, sorted.
    pub fn files(&self) -> Vec<String> {
        let files: BTreeSet<&String> = self.all.iter().map(|module| &module.file).collect();
        files.into_iter().cloned().collect()
    }

    /// Reads a file. `below` is the folder with the files of its child modules.
    fn file(&mut self, path: &Path, below: &Path, parent: usize, names: Vec<String>) -> Result<usize> {
        let shown = path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| format!("cannot parse {shown}"))?;
        self.module(shown, below, parent, names, file.items)
    }

    fn module(
        &mut self,
        file: String,
        below: &Path,
        parent: usize,
        path: Vec<String>,
        items: Vec<Item>,
    ) -> Result<usize> {
        let row = self.all.len();
        self.all.push(Module {
            file: file.clone(),
            parent,
            path: path.clone(),
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
            body: Vec::new(),
        });
        for item in items {
            match item {
                item if is_for_tests(&item) => {}
                Item::Use(item) => {
                    let public = !matches!(item.vis, Visibility::Inherited);
                    let line = item.use_token.span.start().line;
                    let mut add = |name, path| {
                        self.all[row].imports.push(Import { name, path, line, public });
                    };
                    // `::name` is another crate, even if a module here has this name.
                    let mut start = item.leading_colon.map(|_| "::".to_owned()).into_iter().collect();
                    flatten(&item.tree, &mut start, &mut add);
                }
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    let names = [&path[..], std::slice::from_ref(&name)].concat();
                    let folder = below.join(&name);
                    let child = match item.content {
                        Some((_, items)) => self.module(file.clone(), &folder, row, names, items)?,
                        None => {
                            let own = below.join(format!("{name}.rs"));
                            let own = if own.is_file() { own } else { folder.join("mod.rs") };
                            self.file(&own, &folder, row, names)?
                        }
                    };
                    self.all[row].children.insert(name, child);
                }
                item => {
                    self.all[row].items.extend(name_of(&item));
                    self.all[row].body.push(item);
                }
            }
        }
        Ok(row)
    }
}

/// Whether an item exists in tests only.
fn is_for_tests(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        _ => &[],
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

/// Calls `add` with every name in a `use` and its path.
fn flatten(tree: &UseTree, path: &mut Vec<String>, add: &mut impl FnMut(Option<String>, Vec<String>)) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            flatten(&tree.tree, path, add);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, path, add)),
        UseTree::Glob(_) => add(None, path.clone()),
        UseTree::Name(_) | UseTree::Rename(_) => {
            let (from, to) = match tree {
                UseTree::Rename(tree) => (tree.ident.to_string(), tree.rename.to_string()),
                UseTree::Name(tree) => (tree.ident.to_string(), tree.ident.to_string()),
                _ => return,
            };
            if from == "self" {
                let name = if to == "self" { path.last().cloned() } else { Some(to) };
                add(name, path.clone());
            } else {
                add(Some(to), [&path[..], &[from]].concat());
            }
        }
    }
}
