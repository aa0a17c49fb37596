//! The packages of a workspace and which of them needs which, according to cargo.

use crate::Order;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A package of a workspace.
pub struct Package {
    /// Its folder, relative to that of the workspace; `src` for the package of the workspace's own folder.
    pub folder: String,
    /// The folders of the workspace's packages that it is built with. Packages that only its tests need are
    /// left out.
    pub needs: Vec<String>,
}

/// The packages of the workspace in this folder, sorted by folder.
///
/// # Errors
/// Cargo cannot read the workspace.
pub fn packages(workspace: &Path) -> Result<Vec<Package>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace).args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let output = cargo.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let root = workspace.canonicalize()?;
    let folder = |path: &Path| {
        let below = path.strip_prefix(&root).map(|below| below.display().to_string()).unwrap_or_default();
        if below.is_empty() { "src".to_owned() } else { below }
    };
    let mut packages = Vec::new();
    for package in list(&metadata["packages"]) {
        let manifest = Path::new(package["manifest_path"].as_str().context("a package without a manifest")?);
        let dependencies = list(&package["dependencies"]);
        let built_with = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
        let needs = built_with.filter_map(|dependency| Some(folder(Path::new(dependency["path"].as_str()?))));
        packages
            .push(Package { folder: folder(manifest.parent().unwrap_or(manifest)), needs: needs.collect() });
    }
    packages.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(packages)
}

/// What is wrong with packages in this order: a package that needs a higher one, or one that has no place.
pub fn against(order: &Order, packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let Some(row) = order.row(&package.folder) else {
            wrong.push(format!("{} has no place in the order", package.folder));
            continue;
        };
        let upward = package.needs.iter().filter(|needed| order.row(needed).is_some_and(|it| it >= row));
        wrong.extend(upward.map(|needed| format!("{} needs {needed}", package.folder)));
    }
    wrong
}
