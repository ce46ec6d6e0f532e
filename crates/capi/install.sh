#!/bin/sh
# Installs the header, the static and the shared library, pageblock.pc, and what CMake's find_package reads:
#
#     crates/capi/install.sh PREFIX [BUILT]
#
# BUILT is where the built libraries are; without it they are built here, for release.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: install.sh PREFIX [BUILT]}
built=${2:-}

if [ -z "$built" ]; then
    target=${CARGO_TARGET_DIR:-$here/../../target}
    cargo build --manifest-path "$here/Cargo.toml" --release --locked --target-dir "$target"
    built=$target/release
fi

# A member may take its version from the workspace.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" "$here/../../Cargo.toml" | head -n 1)
major=${version%%.*}

mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/pageblock"
prefix=$(cd "$prefix" && pwd)
install -m 644 "$here/include/pageblock.h" "$prefix/include/pageblock.h"
install -m 644 "$built/libpageblock_capi.a" "$prefix/lib/libpageblock.a"
install -m 755 "$built/libpageblock_capi.so" "$prefix/lib/libpageblock.so.$version"
ln -sf "libpageblock.so.$version" "$prefix/lib/libpageblock.so.$major"
ln -sf "libpageblock.so.$major" "$prefix/lib/libpageblock.so"
# What rustc says that a static library of its own needs (--print native-static-libs).
private="-lgcc_s -lpthread -ldl -lm"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@PRIVATE@|$private|" \
    "$here/pageblock.pc.in" > "$prefix/lib/pkgconfig/pageblock.pc"
for file in pageblock-config pageblock-config-version; do
    sed -e "s|@VERSION@|$version|" -e "s|@MINOR@|${version%.*}|" -e "s|@SONAME@|libpageblock.so.$major|" \
        -e "s|@PRIVATE@|$(echo "$private" | tr ' ' ';')|" "$here/$file.cmake.in" > "$prefix/lib/cmake/pageblock/$file.cmake"
done
echo "installed pageblock $version in $prefix"
