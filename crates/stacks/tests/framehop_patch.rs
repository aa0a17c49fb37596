//! `examples/framehop-patch` gives framehop SFrame as a module format: the patch applies to the version that
//! this crate is tested with, and its own test passes there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TEST: &str = "framehop_unwinds_by_sframe_with_the_patch";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cargo(folder: &Path, words: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("framehop-patch");
    let format = root().join("crates/sframe-format");
    let patch = format!("patch.crates-io.sframe-format.path='{}'", format.display());
    let mut command = Command::new(cargo);
    command.current_dir(folder).args(words).arg("--config").arg(patch).env("CARGO_TARGET_DIR", target);
    command.output().expect("cargo runs")
}

/// The folder of the published crate. `None`: cargo has not fetched it. Where only this workspace was built,
/// crates for other platforms were not fetched, so they must not be asked for.
fn published(version: &str) -> Option<PathBuf> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output =
        cargo(&root(), &["metadata", "--format-version=1", "--quiet", "--filter-platform", &platform]);
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let packages = metadata["packages"].as_array()?;
    let it = packages.iter().find(|it| it["name"] == "framehop" && it["version"] == version)?;
    Some(Path::new(it["manifest_path"].as_str()?).parent()?.to_owned())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, copied) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &copied);
        } else {
            // A copy keeps permissions, and files of the registry may be read-only.
            std::fs::write(copied, std::fs::read(source).unwrap()).unwrap();
        }
    }
}

/// Applies a patch whose hunks fit exactly.
fn apply(patch: &str, folder: &Path) {
    for file in patch.split("diff --git ").skip(1) {
        let path = file.lines().find_map(|line| line.strip_prefix("+++ b/")).expect("a new name");
        let path = folder.join(path);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let before: Vec<&str> = before.lines().collect();
        let (mut after, mut at) = (Vec::new(), 0);
        let hunks = file.lines().skip_while(|line| !line.starts_with("@@"));
        for line in hunks {
            if let Some(place) = line.strip_prefix("@@ -") {
                let start: usize = place.split([',', ' ']).next().unwrap().parse().unwrap();
                after.extend(&before[at..start.saturating_sub(1)]);
                at = start.saturating_sub(1);
                continue;
            }
            let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
            if kind != "+" {
                assert_eq!(before.get(at), Some(&text), "line {} of {}", at + 1, path.display());
                at += 1;
            }
            if kind != "-" {
                after.push(text);
            }
        }
        after.extend(&before[at..]);
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(path, after.join("\n") + "\n").unwrap();
    }
}

#[test]
fn framehop_unwinds_by_sframe_with_the_patch() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(published) = published("0.16.0") else {
        return peers::tree::skip(scratch, TEST, "cargo has no framehop 0.16.0");
    };
    let folder = tempfile::tempdir().unwrap();
    copy(&published, folder.path());
    // The manifest and the lock file of the published crate are not those of the repository.
    std::fs::rename(folder.path().join("Cargo.toml.orig"), folder.path().join("Cargo.toml")).unwrap();
    let _ = std::fs::remove_file(folder.path().join("Cargo.lock"));
    let patch = root().join("examples/framehop-patch/framehop-0.16.0-sframe.patch");
    apply(&std::fs::read_to_string(patch).unwrap(), folder.path());
    let fetched = cargo(folder.path(), &["fetch", "--quiet"]);
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
        return peers::tree::skip(scratch, TEST, said.lines().next().unwrap_or("no crates"));
    }
    let tested = cargo(folder.path(), &["test", "--quiet", "--features", "sframe", "--test", "sframe"]);
    let (said, failed) = (String::from_utf8_lossy(&tested.stdout), String::from_utf8_lossy(&tested.stderr));
    assert!(tested.status.success(), "{said}{failed}");
    assert!(said.contains("3 passed"), "{said}");
}
