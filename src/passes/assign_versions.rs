//! Gives each definition of the output its version.
//!
//! A version script names symbols by pattern. A definition that carries a version of its own keeps it; such
//! versions come from `.symver` and from assignments to `name@VERSION` and `name@@VERSION`. Symbols that a
//! script lists under `local:` get version 0 and are not exported. References take the versions of the
//! libraries that define them (`synth/symbol_versions`).

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::shared::VERSION_HIDDEN;
use crate::phase::{Inputs, Session};
use crate::plan::LayoutPlan;
use crate::script::ast::Name;
use crate::script::version::{VersionMatcher, VersionNode, VersionScript};
use crate::script::{Sources, Span};
use crate::symbols::versions::{FIRST_VERSION, Indices, split, too_many};
use crate::symbols::{Definition, Definitions, LinkerSymbol, VersionDefinition, Versions};
use hashbrown::{HashMap, HashSet};
use parallel::ParallelSlice;

/// Returns the versions that the output defines, and the version word (`.gnu.version`) of each definition.
pub fn run<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    plan: &LayoutPlan,
    definitions: &Definitions,
    linker_symbols: &[LinkerSymbol],
) -> Versions<'a> {
    let words = vec![elf::VER_NDX_GLOBAL; inputs.globals.len()];
    if inputs.config.is_relocatable() {
        return Versions { words, ..Versions::default() };
    }
    let lists = &inputs.lists;
    let mut versions = Versions { definitions: define_versions(inputs), words };
    let mut own = OwnVersions::new(&versions);
    if !lists.version_script.is_empty() || inputs.config.symbols.default_symver {
        assign_by_script(inputs, definitions, &own.indices, &mut versions);
    }
    assign_own_versions(inputs, definitions, &mut own, &mut versions);
    assign_to_linker_symbols(inputs, linker_symbols, &mut own, &mut versions);
    mark_unused(&lists.version_script, &mut versions);
    assign_to_version_symbols(inputs, definitions, &mut versions);
    if !inputs.config.symbols.allow_undefined_version {
        report_undefined(inputs, &plan.sources, definitions);
    }
    versions
}

/// The versions of scripts, in their order. `--default-symver` puts one before them that has the output's own
/// name.
fn define_versions<'a, T: Target>(inputs: &Inputs<'a, T>) -> Vec<VersionDefinition<'a>> {
    let Session { config, sink, store, .. } = inputs.session;
    let mut definitions = Vec::new();
    if config.symbols.default_symver {
        let name = store.keep(config.output_name());
        definitions.push(VersionDefinition { name, parents: Vec::new(), weak: false });
    }
    let keep = |name: &[u8]| store.keep(name);
    for node in &inputs.lists.version_script.nodes {
        let Some(name) = &node.name else { continue };
        let parents = node.depends.iter().map(|parent| keep(&parent.bytes)).collect();
        definitions.push(VersionDefinition { name: keep(&name.bytes), parents, weak: false });
    }
    if let Some(finding) = too_many(definitions.len()) {
        sink.report(finding);
        definitions.clear();
    }
    definitions
}

fn assign_by_script<T: Target>(
    inputs: &Inputs<'_, T>,
    definitions: &Definitions,
    indices: &Indices<'_>,
    versions: &mut Versions<'_>,
) {
    let lists = &inputs.lists;
    // By node: the index of its version. The anonymous node has 1.
    let nodes = lists.version_script.nodes.iter();
    let named = |name: &Name| indices.of(&name.bytes);
    let index_of: Vec<u16> =
        nodes.map(|node| node.name.as_ref().and_then(named).unwrap_or(elf::VER_NDX_GLOBAL)).collect();
    let is_anonymous =
        |node: u32| lists.version_script.nodes.get(node as usize).is_some_and(|node| node.name.is_none());
    let unlisted = if inputs.config.symbols.default_symver { FIRST_VERSION } else { elf::VER_NDX_GLOBAL };
    versions.words.par_iter_mut().enumerate().with_min_len(1024).for_each(|(row, word)| {
        if !is_definition(definitions.definition(SymbolId(row as u32))) {
            return;
        }
        *word = match lists.version_matcher.find(inputs.globals.names[row]) {
            Some(found) if found.local => elf::VER_NDX_LOCAL,
            // With --default-symver, the anonymous version is the one that has the output's name.
            Some(found) if is_anonymous(found.node) => unlisted,
            Some(found) => index_of.get(found.node as usize).copied().unwrap_or(unlisted),
            None => unlisted,
        };
    });
}

/// Assigns the versions that objects give to their definitions (`.symver`).
fn assign_own_versions<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    definitions: &Definitions,
    own: &mut OwnVersions<'a>,
    versions: &mut Versions<'a>,
) {
    for object in &inputs.objects {
        for versioned in &object.versioned {
            let id = object.symbol_id(versioned.symbol);
            let is_it = match definitions.definition(id) {
                Definition::Object { file, symbol } => {
                    file == object.id
                        && (symbol == versioned.symbol
                            || object.is_same_place(symbol as usize, versioned.symbol as usize))
                }
                _ => false,
            };
            if !is_it {
                continue;
            }
            if own.is_local(inputs, id, versioned.version) {
                versions.words[id.index()] = elf::VER_NDX_LOCAL;
                continue;
            }
            match own.index_of(inputs, versioned.version, versions) {
                Some(index) => {
                    // `unify_versions` gave the plain name to a symbol that is the same as `name@@VERSION`.
                    let default = versioned.default || !inputs.globals.names[id.index()].contains(&b'@');
                    versions.words[id.index()] = index | if default { 0 } else { VERSION_HIDDEN };
                    if !default {
                        hide_twin(inputs, definitions, versions, id, index);
                    }
                }
                // Nobody outside sees this definition, so it needs no version.
                None if object.hide_symbols => {
                    versions.words[id.index()] = elf::VER_NDX_LOCAL;
                }
                None => {
                    let name = String::from_utf8_lossy(object.symbol_name(versioned.symbol as usize));
                    let place = format!("defined in {}", object.name);
                    let missing = not_found(&name, versioned.version).note(place);
                    inputs.sink.report(missing.ordered(object.id.0, 0, versioned.symbol.into()));
                }
            }
        }
    }
}

/// A version has one definition of a name. If that is `name@VERSION`, and the script's pattern gave the same
/// version to another definition of the plain name, this function makes the latter local.
fn hide_twin<T: Target>(
    inputs: &Inputs<'_, T>,
    definitions: &Definitions,
    versions: &mut Versions<'_>,
    versioned: SymbolId,
    index: u16,
) {
    let base = split(inputs.globals.names[versioned.index()]).map(|(base, _)| base);
    let Some(plain) = base.and_then(|base| inputs.globals.lookup(base)) else { return };
    let is_object = matches!(definitions.definition(plain), Definition::Object { .. });
    if is_object && plain != versioned && versions.words[plain.index()] == index {
        versions.words[plain.index()] = elf::VER_NDX_LOCAL;
    }
}

/// Assigns versions to symbols that scripts and options assign as `name@VERSION` or `name@@VERSION`.
fn assign_to_linker_symbols<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    linker_symbols: &[LinkerSymbol],
    own: &mut OwnVersions<'a>,
    versions: &mut Versions<'a>,
) {
    for symbol in linker_symbols {
        let name = inputs.globals.names[symbol.symbol.index()];
        let Some((base, version)) = split(name) else { continue };
        let word = match own.index_of(inputs, version, versions) {
            _ if own.is_local(inputs, symbol.symbol, version) => elf::VER_NDX_LOCAL,
            Some(index) if name[base.len()..].starts_with(b"@@") => index,
            Some(index) => index | VERSION_HIDDEN,
            None => {
                inputs.sink.report(not_found(&String::from_utf8_lossy(name), version));
                continue;
            }
        };
        versions.words[symbol.symbol.index()] = word;
    }
}

/// What scripts say about the versions that definitions carry.
struct OwnVersions<'a> {
    indices: Indices<'a>,
    /// The patterns that a version's own node exports, and those that it makes local, once a definition asked
    /// for them. `None` if no node has that name.
    matchers: HashMap<&'a [u8], Option<[VersionMatcher; 2]>>,
    /// The places of nodes by their names.
    places: HashMap<Vec<u8>, usize>,
}

impl<'a> OwnVersions<'a> {
    fn new(versions: &Versions<'a>) -> Self {
        OwnVersions { indices: versions.indices(), matchers: HashMap::new(), places: HashMap::new() }
    }

    /// The index of a version that a definition carries; `None` if no script defines the version. In an
    /// executable, the definition itself makes the version, because nothing is linked against an executable.
    fn index_of<T: Target>(
        &mut self,
        inputs: &Inputs<'_, T>,
        version: &'a [u8],
        versions: &mut Versions<'a>,
    ) -> Option<u16> {
        if version.is_empty() {
            // `name@` and `name@@` have no version, whatever a script says.
            return Some(elf::VER_NDX_GLOBAL);
        }
        if self.indices.of(version).is_none() && !inputs.config.is_shared() {
            self.indices.add(version, versions.definitions.len());
            versions.definitions.push(VersionDefinition { name: version, parents: Vec::new(), weak: false });
        }
        self.indices.of(version)
    }

    /// Whether a script makes a symbol local that carries a version. The node of that version decides,
    /// because the patterns of other nodes are about other versions of the name. In that node, a pattern
    /// under `global:` prevails over any under `local:`, as in other linkers: the object says that the symbol
    /// has this version. For the same reason only its exact name under `local:` hides it, as in gold and
    /// mold:
    /// `local: *` is about what nobody gave a version. No node is about `name@` and `name@@`.
    fn is_local<T: Target>(&mut self, inputs: &Inputs<'_, T>, id: SymbolId, version: &'a [u8]) -> bool {
        let name = inputs.globals.names[id.index()];
        let base = split(name).map_or(name, |(base, _)| base);
        if version.is_empty() {
            return false;
        }
        let script = &inputs.lists.version_script;
        if self.places.is_empty() {
            for (place, node) in script.nodes.iter().enumerate() {
                let name = node.name.as_ref().map_or(&b""[..], |name| &name.bytes);
                self.places.entry(name.to_vec()).or_insert(place);
            }
        }
        let places = &self.places;
        let of_node = || {
            let node = &script.nodes[*places.get(version)?];
            let exporting = VersionNode { local: Vec::new(), ..node.clone() };
            let hiding = VersionNode { global: Vec::new(), ..node.clone() };
            Some([exporting, hiding].map(|node| VersionMatcher::new(&VersionScript { nodes: vec![node] })))
        };
        match self.matchers.entry(version).or_insert_with(of_node) {
            Some([exporting, hiding]) => exporting.find(base).is_none() && hiding.names_as_local(base),
            None => inputs.lists.version_matcher.names_as_local(base),
        }
    }
}

fn not_found(symbol: &str, version: &[u8]) -> Diagnostic {
    let version = String::from_utf8_lossy(version);
    Diagnostic::error(Code::UndefinedVersion, format!("version node not found for symbol {symbol}"))
        .help(format!("define the version in a version script: {version} {{ … }};"))
}

/// If the linker defines a symbol with a version's name (`STT_OBJECT`, as GNU ld makes it), gives it that
/// version.
fn assign_to_version_symbols<T: Target>(
    inputs: &Inputs<'_, T>,
    definitions: &Definitions,
    versions: &mut Versions<'_>,
) {
    for (index, version) in (FIRST_VERSION..).zip(&versions.definitions) {
        if let Some(id) = inputs.globals.lookup(version.name)
            && matches!(definitions.definition(id), Definition::Linker(_))
        {
            versions.words[id.index()] = index;
        }
    }
}

/// Marks versions without patterns and without symbols as weak (`VER_FLG_WEAK`): such a version is only a
/// parent of others.
fn mark_unused(script: &VersionScript, versions: &mut Versions<'_>) {
    let lists_nothing = |node: &&VersionNode| node.global.is_empty() && node.local.is_empty();
    let names = script.nodes.iter().filter(lists_nothing).filter_map(|node| node.name.as_ref());
    let empty: HashSet<&[u8]> = names.map(|name| &name.bytes[..]).collect();
    if empty.is_empty() {
        return;
    }
    let Versions { definitions, words } = versions;
    let mut used = vec![false; definitions.len()];
    for word in words {
        let row = (*word & !VERSION_HIDDEN).checked_sub(FIRST_VERSION);
        if let Some(used) = row.and_then(|row| used.get_mut(usize::from(row))) {
            *used = true;
        }
    }
    for (definition, used) in definitions.iter_mut().zip(used) {
        definition.weak |= !used && empty.contains(definition.name);
    }
}

/// `--no-undefined-version`: reports names of the script that nothing defines.
fn report_undefined<T: Target>(inputs: &Inputs<'_, T>, sources: &Sources, definitions: &Definitions) {
    let script = &inputs.lists.version_script;
    let is_defined =
        |name: &[u8]| inputs.globals.lookup(name).is_some_and(|id| is_definition(definitions.definition(id)));
    for (node, name, span) in script.exact_globals() {
        let version = script.nodes.get(node as usize).and_then(|node| node.name.as_ref());
        let version = version.map_or(&b""[..], |name| &name.bytes);
        let own = [&name[..], b"@", version].concat();
        if !is_defined(&name) && !is_defined(&own) {
            inputs.sink.report_recoverable(undefined(sources, version, &inputs.name_text(&name), span));
        }
    }
}

/// Whether this output defines the symbol.
fn is_definition(definition: Definition) -> bool {
    matches!(definition, Definition::Object { .. } | Definition::Linker(_))
}

fn undefined(sources: &Sources, version: &[u8], name: &str, span: Span) -> Diagnostic {
    let version = match version {
        b"" => "global".into(),
        name => String::from_utf8_lossy(name),
    };
    Diagnostic::error(
        Code::UndefinedVersion,
        format!("version script assignment of '{version}' to symbol '{name}' failed: symbol not defined"),
    )
    .at(sources.location(span))
    .ordered(span.file, 0, span.start.into())
    .help("--undefined-version accepts names that do not exist")
}
