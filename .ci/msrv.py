"""Fails if a dependency declares a newer Rust than the one given."""

import json
import subprocess
import sys


def version(text):
    return tuple(int(part) for part in (text.split(".") + ["0", "0"])[:3])


limit = sys.argv[1]
metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--all-features"]))
newer = [
    f"{package['name']} {package['version']} needs Rust {package['rust_version']}"
    for package in metadata["packages"]
    if package["rust_version"] and version(package["rust_version"]) > version(limit)
]
print("\n".join(newer) or f"no dependency needs more than Rust {limit}")
sys.exit(bool(newer))
