//! Reads the names of a unit from its entries, for compilers that list no names.
//!
//! The names are those that gcc lists: functions and variables of namespaces, types and enumerators, each
//! with its scopes. Types inside classes are added, because debuggers look these up by name as well. A
//! declaration adds no name. The reader remembers it nevertheless, because a definition elsewhere may refer
//! to it for its scope. The reader skips entries inside functions.

use super::dwarf::{Dwarf, Reader, Unit};
use super::gdb_index::Attributes;
use super::units::Result;
use crate::input::measure::Budget;
use gimli::{Abbreviation, AttributeValue, DwTag, EntriesRaw, UnitOffset};
use std::ops::Range;

/// The name of a namespace without one, as debuggers spell it.
const ANONYMOUS: &[u8] = b"(anonymous namespace)";

/// Names that were read: their texts, one after the other, and the end of each text.
#[derive(Default)]
pub struct EntryNames {
    /// The texts.
    pub texts: Vec<u8>,
    /// The end of each in `texts`, and its kind.
    pub names: Vec<(usize, Attributes)>,
    /// The main function so far.
    pub main: Option<MainEntry>,
    /// What reading may still consume: bytes of names and scopes, attributes, address ranges.
    pub measure: Budget,
}

/// The name of the main function where debug information does not say which one it is.
pub const MAIN: &[u8] = b"main";

/// The main function.
#[derive(Clone, Copy)]
pub struct MainEntry {
    /// The row of its name.
    pub name: usize,
    /// Its language (`DW_LANG`).
    pub language: u16,
    /// Whether an attribute says that it is the main function.
    pub is_stated: bool,
}

/// The language of a unit (`DW_LANG`); 0 if the unit does not say it.
///
/// # Errors
/// The unit's first entry cannot be read, or the measure is exceeded.
pub fn language(unit: &Unit<'_, '_>, measure: &mut Budget) -> Result<u16> {
    let mut entries = unit.entries_raw(None)?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(0) };
    measure.take(abbreviation.attributes().len() as u64)?;
    for &specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(specification)?;
        if let AttributeValue::Language(language) = attribute.value() {
            return Ok(language.0);
        }
    }
    Ok(0)
}

/// Adds the names of a unit.
///
/// # Errors
/// The entries' encoding is wrong, or the measure is exceeded. The names that stand before the error
/// are added.
pub fn read<'s, 'a>(dwarf: &Dwarf<'s, 'a>, unit: &Unit<'s, 'a>, found: &mut EntryNames) -> Result<()> {
    let mut names = Names {
        dwarf,
        unit,
        found,
        language: Language::default(),
        dw_lang: 0,
        prefixes: vec![Vec::new()],
        declared: Vec::new(),
        deferred: Vec::new(),
    };
    let result = names.walk();
    names.finish_deferred()?;
    result
}

/// How a language composes names and shares types.
#[derive(Clone, Copy)]
struct Language {
    separator: &'static [u8],
    /// Types and enumerators of one name are the same in all units (C++'s one definition rule).
    one_definition: bool,
}

impl Default for Language {
    fn default() -> Self {
        Language { separator: b"::", one_definition: false }
    }
}

impl Language {
    fn of(language: gimli::DwLang) -> Self {
        let one_definition = matches!(
            language,
            gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20
                | gimli::DW_LANG_ObjC_plus_plus
        );
        let separator: &[u8] = match language {
            gimli::DW_LANG_D | gimli::DW_LANG_Java | gimli::DW_LANG_Go | gimli::DW_LANG_Swift => b".",
            _ => b"::",
        };
        Language { separator, one_definition }
    }
}

/// An entry whose children are read.
#[derive(Clone, Copy)]
struct Scope {
    /// Depth of its children.
    depth: isize,
    /// The row of [`Names::prefixes`] with the scope of its children.
    prefix: u32,
    kind: ScopeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScopeKind {
    /// A unit, a namespace or a module.
    Space,
    /// A class, a structure or a union.
    Class,
    Enumeration,
}

/// A definition that refers to its declaration.
struct Deferred {
    declaration: UnitOffset,
    attributes: Attributes,
}

/// The attributes of an entry that its name depends on.
struct EntryAttributes<'s, 'a> {
    name: Option<AttributeValue<Reader<'s, 'a>>>,
    declaration: bool,
    external: bool,
    enum_class: bool,
    /// Whether the entry is an instance of another one, which has the name (`DW_AT_abstract_origin` and the
    /// like).
    copy: bool,
    /// Whether the entry is the main function.
    main: bool,
    specification: Option<UnitOffset>,
    sibling: Option<UnitOffset>,
    language: Option<gimli::DwLang>,
}

impl EntryAttributes<'_, '_> {
    fn none() -> Self {
        EntryAttributes {
            name: None,
            declaration: false,
            external: false,
            enum_class: false,
            copy: false,
            main: false,
            specification: None,
            sibling: None,
            language: None,
        }
    }
}

struct Names<'n, 's, 'a> {
    dwarf: &'n Dwarf<'s, 'a>,
    unit: &'n Unit<'s, 'a>,
    found: &'n mut EntryNames,
    language: Language,
    /// The number of the language.
    dw_lang: u16,
    /// Scopes, each with a separator at its end. The first is the empty scope.
    prefixes: Vec<Vec<u8>>,
    /// Declarations by ascending offset, with their scope and whether they are external.
    declared: Vec<(UnitOffset, u32, bool)>,
    deferred: Vec<Deferred>,
}

impl<'s, 'a> Names<'_, 's, 'a> {
    fn walk(&mut self) -> Result<()> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(None)?;
        // The depth of the entry from which `entries` counts. Each jump starts a new count.
        let mut base = 0;
        let mut scopes: Vec<Scope> = Vec::new();
        while !entries.is_empty() {
            let depth = base + entries.next_depth();
            while scopes.last().is_some_and(|scope| scope.depth > depth) {
                scopes.pop();
            }
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            // An attribute may take no bytes, so an entry of one byte may have any number of them.
            self.found.measure.take(abbreviation.attributes().len() as u64)?;
            let parent = scopes.last().copied();
            if parent.is_some_and(|parent| parent.depth < depth) || parent.is_none() && depth > 0 {
                // The entry is inside one that the reader skips.
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let facts = self.facts(&mut entries, abbreviation)?;
            let inner = self.entry(abbreviation.tag(), offset, parent, &facts)?;
            if !abbreviation.has_children() {
                continue;
            }
            match (inner, facts.sibling) {
                (Some((prefix, kind)), _) => scopes.push(Scope { depth: depth + 1, prefix, kind }),
                (None, Some(sibling)) if sibling > entries.next_offset() => {
                    entries = unit.entries_raw(Some(sibling))?;
                    base = depth;
                }
                (None, _) => {}
            }
        }
        Ok(())
    }

    fn facts(
        &self,
        entries: &mut EntriesRaw<'_, Reader<'s, 'a>>,
        abbreviation: &Abbreviation,
    ) -> Result<EntryAttributes<'s, 'a>> {
        let mut facts = EntryAttributes::none();
        for &specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(specification)?;
            let flag = || matches!(attribute.raw_value(), AttributeValue::Flag(true));
            match attribute.name() {
                gimli::DW_AT_name => facts.name = Some(attribute.value()),
                gimli::DW_AT_declaration => facts.declaration = flag(),
                gimli::DW_AT_external => facts.external = flag(),
                gimli::DW_AT_enum_class => facts.enum_class = flag(),
                gimli::DW_AT_abstract_origin => facts.copy = true,
                gimli::DW_AT_main_subprogram => facts.main = flag(),
                gimli::DW_AT_specification => match attribute.value() {
                    AttributeValue::UnitRef(offset) => facts.specification = Some(offset),
                    _ => facts.copy = true,
                },
                gimli::DW_AT_sibling => {
                    if let AttributeValue::UnitRef(offset) = attribute.value() {
                        facts.sibling = Some(offset);
                    }
                }
                gimli::DW_AT_language => {
                    if let AttributeValue::Language(language) = attribute.value() {
                        facts.language = Some(language);
                    }
                }
                _ => {}
            }
        }
        Ok(facts)
    }

    /// Reads an entry. Returns the scope of its children, or `None` to skip them.
    fn entry(
        &mut self,
        tag: DwTag,
        offset: UnitOffset,
        parent: Option<Scope>,
        facts: &EntryAttributes<'s, 'a>,
    ) -> Result<Option<(u32, ScopeKind)>> {
        let Some(parent) = parent else {
            self.language = facts.language.map_or(self.language, Language::of);
            self.dw_lang = facts.language.map_or(0, |language| language.0);
            return Ok(Some((0, ScopeKind::Space)));
        };
        let types = Attributes::TYPE.with_static(!self.language.one_definition);
        Ok(match tag {
            gimli::DW_TAG_namespace | gimli::DW_TAG_module => {
                let text = self.text(facts)?.unwrap_or_else(|| ANONYMOUS.to_vec());
                self.add(parent.prefix, &text, Attributes::TYPE)?;
                Some((self.prefix(parent.prefix, &text)?, ScopeKind::Space))
            }
            gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type => self.class(offset, parent, facts, types)?,
            gimli::DW_TAG_enumeration_type => self.enumeration(parent, facts, types)?,
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_subrange_type
            | gimli::DW_TAG_template_alias => {
                self.named(parent, facts, Attributes::TYPE.with_static(true))?;
                None
            }
            gimli::DW_TAG_imported_declaration if parent.kind == ScopeKind::Space => {
                self.named(parent, facts, Attributes::TYPE)?;
                None
            }
            gimli::DW_TAG_enumerator if parent.kind == ScopeKind::Enumeration => {
                let is_static = !self.language.one_definition;
                self.named(parent, facts, Attributes::VARIABLE.with_static(is_static))?;
                None
            }
            gimli::DW_TAG_subprogram => {
                let before = self.found.names.len();
                self.definition(offset, parent, facts, Attributes::FUNCTION)?;
                if self.found.names.len() > before {
                    self.note_main(before, facts.main);
                }
                None
            }
            gimli::DW_TAG_variable | gimli::DW_TAG_constant | gimli::DW_TAG_member => {
                self.definition(offset, parent, facts, Attributes::VARIABLE)?;
                None
            }
            _ => None,
        })
    }

    fn class(
        &mut self,
        offset: UnitOffset,
        parent: Scope,
        facts: &EntryAttributes<'s, 'a>,
        types: Attributes,
    ) -> Result<Option<(u32, ScopeKind)>> {
        // The definition of a class that another class declares stands after its declaration.
        let declaration = facts.specification.map(|declaration| self.declaration(declaration)).transpose()?;
        let (scope, text) = match declaration {
            Some(Some((scope, text, _))) => (scope, text),
            Some(None) => return Ok(None),
            None => match self.text(facts)? {
                Some(text) => (parent.prefix, text),
                None => return Ok(None),
            },
        };
        if facts.declaration {
            self.declared.push((offset, scope, true));
        } else {
            self.add(scope, &text, types)?;
        }
        Ok(Some((self.prefix(scope, &text)?, ScopeKind::Class)))
    }

    fn enumeration(
        &mut self,
        parent: Scope,
        facts: &EntryAttributes<'s, 'a>,
        types: Attributes,
    ) -> Result<Option<(u32, ScopeKind)>> {
        let text = self.text(facts)?;
        if let Some(text) = &text
            && !facts.declaration
        {
            self.add(parent.prefix, text, types)?;
        }
        let prefix = match text {
            Some(text) if facts.enum_class => self.prefix(parent.prefix, &text)?,
            _ => parent.prefix,
        };
        Ok(Some((prefix, ScopeKind::Enumeration)))
    }

    /// A function or a variable.
    fn definition(
        &mut self,
        offset: UnitOffset,
        parent: Scope,
        facts: &EntryAttributes<'s, 'a>,
        kind: Attributes,
    ) -> Result<()> {
        if facts.copy {
            return Ok(());
        }
        if let Some(declaration) = facts.specification {
            let attributes = kind.with_static(!facts.external);
            self.deferred.push(Deferred { declaration, attributes });
        } else if facts.declaration || parent.kind != ScopeKind::Space {
            self.declared.push((offset, parent.prefix, facts.external));
        } else {
            self.named(parent, facts, kind.with_static(!facts.external))?;
        }
        Ok(())
    }

    /// Remembers a function if it is the main function: one that says so, or else the first one that is
    /// called so, has no scope, and is known to other units.
    fn note_main(&mut self, name: usize, is_stated: bool) {
        let found = &self.found;
        let is_main =
            || found.texts[found.range(name)] == *MAIN && found.names[name].1 == Attributes::FUNCTION;
        let is_better = match found.main {
            Some(known) => is_stated && !known.is_stated,
            None => is_stated || is_main(),
        };
        if is_better {
            self.found.main = Some(MainEntry { name, language: self.dw_lang, is_stated });
        }
    }

    /// Adds the name of an entry, if it has a name and is no declaration.
    fn named(
        &mut self,
        parent: Scope,
        facts: &EntryAttributes<'s, 'a>,
        attributes: Attributes,
    ) -> Result<()> {
        if !facts.declaration
            && let Some(text) = self.text(facts)?
        {
            self.add(parent.prefix, &text, attributes)?;
        }
        Ok(())
    }

    fn text(&mut self, facts: &EntryAttributes<'s, 'a>) -> Result<Option<Vec<u8>>> {
        let Some(value) = facts.name.clone() else { return Ok(None) };
        let text = self.dwarf.attr_string(self.unit, value)?;
        let text = gimli::Reader::to_slice(&text)?;
        self.found.measure.take(text.len() as u64)?;
        Ok((!text.is_empty()).then(|| text.into_owned()))
    }

    fn add(&mut self, prefix: u32, text: &[u8], attributes: Attributes) -> Result<()> {
        let prefix = &self.prefixes[prefix as usize];
        self.found.measure.take((prefix.len() + text.len()) as u64)?;
        self.found.texts.extend_from_slice(prefix);
        self.found.texts.extend_from_slice(text);
        self.found.names.push((self.found.texts.len(), attributes));
        Ok(())
    }

    fn prefix(&mut self, parent: u32, text: &[u8]) -> Result<u32> {
        let parent = &self.prefixes[parent as usize];
        self.found.measure.take((parent.len() + text.len()) as u64)?;
        self.prefixes.push([parent, text, self.language.separator].concat());
        Ok(self.prefixes.len() as u32 - 1)
    }

    /// Scope and name of a declaration, and whether it is external. `None`: the reader skipped the
    /// declaration. Any number of definitions may refer to one declaration.
    fn declaration(&mut self, declaration: UnitOffset) -> Result<Option<(u32, Vec<u8>, bool)>> {
        let row = self.declared.binary_search_by_key(&declaration, |&(offset, ..)| offset);
        let Some((_, prefix, external)) = row.ok().map(|row| self.declared[row]) else { return Ok(None) };
        let Ok(entry) = self.unit.entry(declaration) else { return Ok(None) };
        self.found.measure.take(entry.attrs().len() as u64)?;
        let name = entry.attr_value(gimli::DW_AT_name);
        let text = name.and_then(|name| self.dwarf.attr_string(self.unit, name).ok());
        let Some(text) = text.as_ref().and_then(|text| gimli::Reader::to_slice(text).ok()) else {
            return Ok(None);
        };
        self.found.measure.take(text.len() as u64)?;
        Ok(Some((prefix, text.into_owned(), external)))
    }

    /// Names the definitions whose declarations follow them. If the reader skipped a declaration, its
    /// definition gets no name.
    fn finish_deferred(&mut self) -> Result<()> {
        for Deferred { declaration, attributes } in std::mem::take(&mut self.deferred) {
            let Some((prefix, text, external)) = self.declaration(declaration)? else { continue };
            let attributes = if external { attributes.with_static(false) } else { attributes };
            self.add(prefix, &text, attributes)?;
        }
        Ok(())
    }
}

impl EntryNames {
    /// The range of a text.
    pub fn range(&self, row: usize) -> Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| self.names[before].0);
        start..self.names[row].0
    }

    /// The range and kind of each text, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Range<usize>, Attributes)> {
        let starts = std::iter::once(0).chain(self.names.iter().map(|&(end, _)| end));
        starts.zip(&self.names).map(|(start, &(end, attributes))| (start..end, attributes))
    }
}
