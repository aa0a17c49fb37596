# For LLVM's lit: `lit lit-tests`, with FileCheck, not and split-file on PATH.
# What the tests call %ld, %as and so on is settled by the project's own runner; this asks it.
import json
import os
import subprocess

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
asked = ["cargo", "test", "--quiet", "--test", "lit", "--", "--configuration"]
if "ld" in lit_config.params:
    asked.append("--ld=" + lit_config.params["ld"])
settled = json.loads(subprocess.check_output(asked, cwd=root))

config.name = "sframe-ld"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".test", ".s", ".c"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
target = os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target"))
config.test_exec_root = os.path.join(target, "tmp", "llvm-lit")
config.substitutions.extend((name, value) for name, value in settled["substitutions"])
config.available_features.update(settled["features"])
config.environment["LC_ALL"] = "C"
# lit keeps only the PATH that it knows; the tests need compilers too.
config.environment["PATH"] = os.environ["PATH"]
