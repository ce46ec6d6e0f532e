#!/usr/bin/env bash
# Prints the bytes of text that an embedder's program gets for allocating and freeing, apart from what makes the allocator: no_std,
# for size, aborting, with link-time optimisation and unused sections dropped. The columns are the folders of crates/pageblock/src in
# which functions stand; what the compiler inlines counts where it went. With `--check` it ends with 1 where a bound is exceeded.
set -euo pipefail
cd "$(dirname "$0")/../../.."
check=${1:-}
[[ $# = 0 || ($# = 1 && $check = --check) ]] || { echo "run.sh: $*; allowed: nothing or --check" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Not by cargo: neither crate has a dependency, so there is no file of versions to keep.
options=(--edition 2024 -C opt-level=s -C panic=abort -C codegen-units=1 -C strip=none)
rustc "${options[@]}" --crate-name pageblock --crate-type rlib crates/pageblock/src/lib.rs -o "$work/libpageblock.rlib"
for policy in packed linked chosen; do
    rustc "${options[@]}" -D warnings -C lto=fat --crate-type staticlib --check-cfg 'cfg(policy, values(any()))' \
        --cfg "policy=\"$policy\"" crates/bench/text/text.rs --extern "pageblock=$work/libpageblock.rlib" -o "$work/$policy.a"
done

# Bytes of .text, and those of a folder's functions.
text() { size -A "$1" | awk '$1 == ".text" { print $2 }'; }
folder() {
    nm -S -C -t d "$1" | awk -v folder="$2" '
        toupper($3) == "T" {
            where = match($0, /pageblock::[a-z_]+/) ? substr($0, RSTART + 11, RLENGTH - 11) : "entry"
            sum += where == folder ? $2 : 0
        }
        END { print sum + 0 }'
}

status=0
printf '%-28s %7s %7s %7s %7s %7s %7s\n' '' bytes entry+api access percpu zone table
while read -r policy handle bound name; do
    program="$work/$policy-$handle"
    ld --gc-sections --unresolved-symbols=ignore-all -e "${handle}_alloc" -u "${handle}_free" -o "$program" "$work/$policy.a"
    bytes=$(text "$program")
    entry=$(($(folder "$program" entry) + $(folder "$program" api)))
    printf '%-28s %7d %9d' "$name" "$bytes" "$entry"
    for part in access percpu zone table; do printf ' %7d' "$(folder "$program" "$part")"; done
    echo
    if [[ $check && $bytes -gt $bound ]]; then
        echo "run.sh: $name: $bytes bytes of text; allowed: $bound" >&2
        status=1
    fi
done <<'ROWS'
packed owner 43900 packed, fixed, one owner
packed cpu   45000 packed, fixed, a CPU's handle
linked owner 25000 lists, fixed, one owner
linked cpu   26600 lists, fixed, a CPU's handle
chosen owner 67300 chosen, one owner
chosen cpu   69400 chosen, a CPU's handle
ROWS
exit "$status"
