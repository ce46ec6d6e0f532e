#!/usr/bin/env bash
# Builds the kernel and boots it in QEMU, without KVM, on two machines: one with the usual hole below
# 1 MiB, and one that has half of its memory above 4 GiB. Ends with 0 where both find all well, and also,
# with a word about it, where the compiler's target or QEMU is missing and cannot be installed.
set -euo pipefail
cd "$(dirname "$0")"
target=x86_64-unknown-none
kernel="${CARGO_TARGET_DIR:-target}/$target/release/kernel"
output="$(mktemp)"
trap 'rm -f "$output"' EXIT

skip() { echo "kernel: skipped, $*"; exit 0; }

has_target() { [ -d "$(rustc --print target-libdir --target $target)" ]; }

boot() {
    local status=0
    timeout --kill-after=2 28 qemu-system-x86_64 -machine "$1,accel=tcg" -cpu qemu64 -smp 2 -m 256M \
        -kernel "$kernel" -device isa-debug-exit,iobase=0xf4,iosize=1 -no-reboot \
        -nodefaults -display none -serial stdio </dev/null >"$output" || status=$?
    cat "$output"
    [ "$status" = 33 ] || { echo "kernel: on $1 the status is $status, not 33" >&2; exit 1; }
    for line in "$2" "^CPU 0: .* of the other freed" "^CPU 1: .* of the other freed" "^all is well"; do
        grep -q -- "$line" "$output" || { echo "kernel: on $1 no line has '$line'" >&2; exit 1; }
    done
}

has_target || rustup target add $target || skip "no $target for this compiler"
cargo fmt --check
cargo clippy --release --locked --quiet -- -D warnings
cargo build --release --locked --quiet

if ! command -v qemu-system-x86_64 >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends qemu-system-x86; } >&2 || true
fi
command -v qemu-system-x86_64 >/dev/null || skip "no QEMU here"

boot pc "DMA32"
boot pc,max-ram-below-4g=128M "Normal"
