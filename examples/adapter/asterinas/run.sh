#!/usr/bin/env bash
# Boots ostd with the adapter as its frame allocator in QEMU, and runs this crate's tests there, ostd's own, and those of
# Asterinas' heap. It needs qemu-system-x86_64, and `cargo install cargo-osdk --version 0.19.0`.
set -euo pipefail
cd "$(dirname "$0")"
command -v cargo-osdk >/dev/null || { echo "cargo-osdk is not installed: cargo install cargo-osdk --version 0.19.0" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# cargo-osdk writes a kernel that runs this workspace's tests only, and then calls cargo. osdk-frame-allocator's tests
# ask the allocator of its own, which has no memory here.
cat >"$work/cargo" <<WRAPPER
#!/usr/bin/env bash
if [[ " \$* " == *" build "* && -f src/main.rs ]]; then
    perl -0pi -e 's/(KTEST_CRATE_WHITELIST: \S+ = )Some\(&\[.*?\]\);/\$1Some(&["adapter-asterinas", "ostd", "osdk-heap-allocator"]);/s' src/main.rs
fi
exec "$(command -v cargo)" "\$@"
WRAPPER
chmod +x "$work/cargo"
PATH="$work:$PATH" cargo-osdk osdk test | tee "$work/log" | grep -E "^(running|test result)|FAILED" || true
grep -q "All crates tested" "$work/log"
