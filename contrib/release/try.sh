#!/usr/bin/env bash
# Installs a release's artifacts in clean roots of Debian and a clean virtual environment, and uses them.
#
#     contrib/release/try.sh FOLDER [SUITE...]
#
# FOLDER is target/release-VERSION; the suites are stable and testing. Needs root, mmdebstrap, umoci, rpm, pkg-config, cc
# and python3 with venv. PB_MMDEBSTRAP has more options, as for a mirror whose lists are old:
# PB_MMDEBSTRAP=--aptopt=/etc/apt/apt.conf.d/FILE.
set -euo pipefail
artifacts=$(realpath "${1:?usage: try.sh FOLDER [SUITE...]}")
shift
suites=("${@:-stable}")
[[ $# -gt 0 ]] || suites=(stable testing)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra more <<<"${PB_MMDEBSTRAP:-}"

# Says how long something takes, and ends where it fails.
try() {
    local label=$1 from=$EPOCHREALTIME
    shift
    if ! "$@" >"$work/said" 2>&1; then
        echo "FAILED: $label" >&2
        cat "$work/said" >&2
        exit 1
    fi
    printf '%6.1f s  %s\n' "$(bc -l <<<"$EPOCHREALTIME - $from")" "$label"
}

says() { grep -q -- "$1" "$work/said" || { echo "FAILED: no '$1' in:" >&2; cat "$work/said" >&2; exit 1; }; }

# In this root, with /proc and a /tmp of its own.
within() { chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root TERM=dumb "$@"; }

# The program as a user meets it first.
first_use() {
    local program=$1
    within mkdir -p /root/recordings
    try "the recording" within "$program" demo --extract /root/recordings/debian-6.12-640m
    try "README's first example" within "$program" replay /root/recordings/debian-6.12-640m --policy linux-6.9 --policy linux-6.10
    says '^Mixed pageblocks at the end '
    try "demo" within "$program" demo -o /root/demo.html
    says 'Pictures: file:///root/demo.html'
    # This kernel may have nothing to complain of, or something.
    try "doctor" within sh -c "$program doctor; test \$? -le 1"
    cp "$(dirname "$0")/../../crates/doctor/tests/pasted/dmesg-color-always.log" "$root/root/failure.log"
    try "explain" within sh -c "$program explain < /root/failure.log"
    says order
}

debian() {
    local suite=$1
    echo "Debian $suite"
    root=$work/$suite
    # A cache of its own: what the host downloads is not touched.
    try "an empty root" mmdebstrap --quiet --mode=root --variant=minbase --include=man-db,systemd,bash-completion \
        "${more[@]}" "$suite" "$root"
    mount -t proc proc "$root/proc"
    trap 'umount "$root/proc"; rm -rf "$work"' EXIT
    cp "$artifacts"/pageblock_*_amd64.deb "$root/root/pageblock.deb"
    try "apt install ./pageblock.deb" within apt-get install -y -qq /root/pageblock.deb
    first_use pageblock
    try "man pageblock" within man -P cat pageblock-doctor
    says 'pageblock'
    try "completion" within bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/pageblock
        COMP_WORDS=(pageblock doc); COMP_CWORD=1; _pageblock pageblock doc pageblock; echo "${COMPREPLY[@]}"'
    says '^doctor$'
    try "units" within systemd-analyze verify --man=no /usr/lib/systemd/system/pageblock-{flight.service,metrics.service,metrics.timer}
    for unit in pageblock-flight.service pageblock-metrics.timer; do
        within systemctl is-enabled "$unit" >"$work/said" 2>&1 || true
        says '^disabled$'
    done
    try "apt remove" within apt-get remove -y -qq pageblock
    [[ ! -e $root/usr/bin/pageblock ]]
    echo "the static program beside it"
    tar --zstd -xf "$artifacts"/pageblock-*-x86_64-linux.tar.zst -C "$root/usr/local" --strip-components=1
    rm -rf "$root/root/recordings" "$root/root/demo.html"
    first_use pageblock
    umount "$root/proc"
    trap 'rm -rf "$work"' EXIT
}

wheel() {
    echo "a clean virtual environment"
    python3 -m venv "$work/python"
    try "pip install pageblock" "$work/python/bin/pip" install -q --disable-pip-version-check "$artifacts"/pageblock-*-manylinux*_x86_64.whl
    try "a first plot" "$work/python/bin/python" - <<'PYTHON'
import pageblock
runs = pageblock.run("hugealloc", ["linux-6.9", "linux-6.10"], scale="1/64", pictures=True)
svg = runs.plot("orders").svg
assert "<svg" in svg, svg
PYTHON
}

package_of_fedora() {
    echo "the rpm"
    try "its files" rpm -qpl "$artifacts"/pageblock-*x86_64.rpm
    says '^/usr/bin/pageblock$'
    try "its signature of content" rpm -K --nosignature "$artifacts"/pageblock-*x86_64.rpm
}

c_library() {
    echo "the C library"
    mkdir "$work/c"
    tar --zstd -xf "$artifacts"/pageblock-c-*.tar.zst -C "$work/c" --strip-components=1
    printf '#include <pageblock.h>\nint main(void) { return pb_destroy(0) == PB_STATUS_OK; }\n' >"$work/c/main.c"
    local flags
    flags=$(PKG_CONFIG_PATH=$work/c/lib/pkgconfig pkg-config --cflags --libs pageblock)
    # shellcheck disable=SC2086
    try "cc with pkg-config" cc "$work/c/main.c" $flags -o "$work/c/main"
    try "its program" env LD_LIBRARY_PATH="$work/c/lib" "$work/c/main"
}

image() {
    echo "the image"
    mkdir -p "$work/layout"
    tar -xf "$artifacts"/pageblock-*-amd64-oci.tar -C "$work/layout"
    local tag
    tag=$(umoci ls --layout "$work/layout")
    try "umoci unpack" umoci unpack --rootless --image "$work/layout:$tag" "$work/bundle"
    root=$work/bundle/rootfs
    try "its program" chroot "$root" /bin/pageblock policy list
    says '^linux-6.12'
}

(cd "$artifacts" && try "checksums" sha256sum -c --quiet SHA256SUMS)
wheel
package_of_fedora
c_library
image
for suite in "${suites[@]}"; do debian "$suite"; done
echo "all artifacts work"
