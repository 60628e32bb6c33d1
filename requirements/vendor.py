"""Writes src/orbitmq/console/static/vendor: JavaScript for the console's pages, from the npm registry.

    python requirements/vendor.py

Each package is pinned by the registry's SHA-512. Names of packages in imports become paths, for a browser
knows no packages. `vendor.json` keeps versions, licences and a SHA-256 of every file; a test compares them.
"""

import base64
import hashlib
import io
import json
import tarfile
import urllib.request
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src" / "orbitmq" / "console" / "static" / "vendor"
REGISTRY = "https://registry.npmjs.org"
PACKAGES = (
    # Name, version, licence, integrity, files in the package and here.
    (
        "preact",
        "11.2.0",
        "MIT",
        "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"},
    ),
    (
        "htm",
        "3.1.1",
        "Apache-2.0",
        "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"dist/htm.mjs": "htm.js"},
    ),
    (
        "@preact/signals-core",
        "1.14.5",
        "MIT",
        "vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        {"dist/signals-core.mjs": "signals-core.js"},
    ),
    (
        "@preact/signals",
        "2.11.4",
        "MIT",
        "Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        {"dist/signals.mjs": "signals.js"},
    ),
    (
        "uplot",
        "1.6.32",
        "MIT",
        "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"},
    ),
)
IMPORTS = {"preact": "preact.js", "preact/hooks": "hooks.js", "@preact/signals-core": "signals-core.js"}


def fetch(name: str, version: str, integrity: str) -> tarfile.TarFile:
    """The package, once it is what was pinned."""
    address = f"{REGISTRY}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    with urllib.request.urlopen(address) as answer:
        data = answer.read()
    found = base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != integrity:
        raise SystemExit(f"{name} {version} has SHA-512 {found}, not {integrity}")
    return tarfile.open(fileobj=io.BytesIO(data))


def member(package: tarfile.TarFile, path: str) -> bytes:
    """One file of a package."""
    file = package.extractfile(f"package/{path}")
    assert file is not None
    return file.read()


def adapt(source: bytes) -> bytes:
    """Imports by path, and no hint at a source map that is not here."""
    text = source.decode()
    for name, path in IMPORTS.items():
        text = text.replace(f'from"{name}"', f'from"./{path}"')
    return "".join(
        line for line in text.splitlines(True) if not line.startswith("//# sourceMappingURL")
    ).encode()


def write() -> None:
    """Fetches everything anew."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    listed = []
    for name, version, licence, integrity, files in PACKAGES:
        package = fetch(name, version, integrity)
        own = name.replace("@", "").replace("/", "-")
        contents = {here: adapt(member(package, there)) for there, here in files.items()}
        contents[f"{own}.LICENSE"] = member(package, "LICENSE")
        for here, data in contents.items():
            (FOLDER / here).write_bytes(data)
        sums = {here: hashlib.sha256(data).hexdigest() for here, data in contents.items()}
        listed.append(
            {
                "name": name,
                "version": version,
                "licence": licence,
                "integrity": f"sha512-{integrity}",
                "files": sums,
            }
        )
    (FOLDER / "vendor.json").write_text(json.dumps(listed, indent=2) + "\n")


if __name__ == "__main__":
    write()
