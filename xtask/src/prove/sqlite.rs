//! Proves the linker on sqlite3's amalgamation, as every kind of output.

use super::proof::Proof;
use crate::commands::output;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package whose source contains the amalgamation of sqlite.
const SQLITE_CRATE: &str = "libsqlite3-sys";

/// Makes tables, indices and a trigger, and runs queries whose results are known.
pub const MAIN: &str = r#"
#include <stdio.h>
#include "sqlite3.h"
static int row(void *unused, int n, char **values, char **names) {
    (void)unused; (void)names;
    for (int i = 0; i < n; i++) printf("%s%s", i ? "|" : "", values[i] ? values[i] : "null");
    puts("");
    return 0;
}
int main(void) {
    sqlite3 *db;
    char *message = 0;
    const char *script =
        "create table t(id integer primary key, name text unique, x real);"
        "create table log(what text);"
        "create trigger tr after insert on t begin insert into log values (new.name); end;"
        "with recursive n(i) as (values(1) union all select i + 1 from n where i < 1000)"
        " insert into t select i, printf('name%04d', i), i * 0.5 from n;"
        "create index ix on t(x);"
        "select count(*), sum(x), max(name), round(avg(sqrt(x * x)), 2) from t;"
        "select count(*) from log;"
        "select group_concat(name, ',') from (select name from t where x between 10 and 11 order by x desc);"
        "select json_extract('{\"a\":[1,2,{\"b\":3}]}', '$.a[2].b');"
        "pragma integrity_check;";
    if (sqlite3_open(":memory:", &db) || sqlite3_exec(db, script, row, 0, &message)) {
        printf("error: %s\n", message ? message : "open");
        return 1;
    }
    return sqlite3_close(db);
}
"#;
pub const EXPECTED: &str = "1000|250250.0|name1000|250.25\n1000\nname0022,name0021,name0020\n3\nok\n";

pub fn sqlite(proof: &mut Proof) -> Result<()> {
    let source = source(proof)?;
    std::fs::write(proof.folder.join("main.c"), MAIN)?;
    let include = format!("-I{}", source.display());
    let amalgamation = source.join("sqlite3.c").display().to_string();
    let features = ["-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE", "-DSQLITE_ENABLE_MATH_FUNCTIONS"];
    let common = ["-O1", "-g", "-ffunction-sections", "-fdata-sections", "-c", &include];
    for (kind, flag) in [("pie", "-fPIE"), ("no-pie", "-fno-PIE"), ("pic", "-fPIC")] {
        let (object, main) = (format!("sqlite3-{kind}.o"), format!("main-{kind}.o"));
        proof.tool("gcc", &[&common[..], &features, &[flag, "-o", &object, &amalgamation]].concat())?;
        proof.tool("gcc", &[&common[..], &[flag, "-o", &main, "main.c"]].concat())?;
    }
    let prefix = format!("-B{}", proof.prefix.display());
    for (name, kind, options) in [
        ("pie", "pie", &["-pie"][..]),
        ("no-pie", "no-pie", &["-no-pie"]),
        ("static", "no-pie", &["-static"]),
        ("static-pie", "pie", &["-static-pie"]),
        ("gc", "pie", &["-pie", "-Wl,--gc-sections", "-Wl,-z,pack-relative-relocs"]),
        ("relocatable", "no-pie", &["-r"]),
    ] {
        let (object, main) = (format!("sqlite3-{kind}.o"), format!("main-{kind}.o"));
        let libraries = if name == "relocatable" { &[][..] } else { &["-lm", "-lpthread"] };
        proof.tool("gcc", &[&[&prefix, "-o", name, &main, &object][..], options, libraries].concat())?;
        if name != "relocatable" {
            run_sqlite(proof, name)?;
        }
    }
    proof.tool("gcc", &[&prefix, "-no-pie", "-o", "twice", "relocatable", "-lm", "-lpthread"])?;
    run_sqlite(proof, "twice")?;
    proof.tool("gcc", &[&prefix, "-shared", "-o", "libsqlite3.so", "sqlite3-pic.o", "-lm"])?;
    let library = proof.folder.join("libsqlite3.so");
    proof.check(&library)?;
    let run_path = format!("-Wl,-rpath,{}", proof.folder.display());
    proof.tool("gcc", &[&prefix, "-o", "shared", "main-pie.o", "-L.", "-lsqlite3", &run_path])?;
    run_sqlite(proof, "shared")
}

fn run_sqlite(proof: &mut Proof, name: &str) -> Result<()> {
    let program = proof.folder.join(name);
    proof.check(&program)?;
    let text = proof.tool(&program, &[])?;
    ensure!(text == EXPECTED, "{name} says {text:?}");
    proof.note(format!("- {name}: answers are right"))
}

/// The folder of the amalgamation, from the crate that bundles it.
pub fn source(proof: &Proof) -> Result<PathBuf> {
    let source = crate_source(proof, SQLITE_CRATE)?.join("sqlite3");
    ensure!(source.join("sqlite3.c").exists(), "{SQLITE_CRATE} holds no amalgamation");
    Ok(source)
}

/// The folder of a crate that contains sources of another project; cargo fetches it.
pub fn crate_source(proof: &Proof, name: &str) -> Result<PathBuf> {
    let folder = proof.folder.join("crate").join(name);
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{name} = \"*\"\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut command = Command::new("cargo");
    command.current_dir(&folder).args(["metadata", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|p| p["name"] == name).context("no such package")?;
    let manifest = package["manifest_path"].as_str().context("no path")?;
    Ok(Path::new(manifest).with_file_name(""))
}
