# SPDX-License-Identifier: MIT
# The software device of iWARP, which Debian's kernels leave out: built from the source package of the guests' kernel. Sourced, not run.
# shellcheck shell=bash

# make_siw DIR VERSION: makes DIR/VERSION/siw.ko once, for programs/iwarp_device. Says why it cannot; the cases are skipped then.
make_siw() {
  local module=$1/$2/siw.ko work missing
  [ ! -e "$module" ] || return 0
  missing=$(missing_commands apt-get dpkg-deb tar xz make gcc-12 strip)
  [ -z "$missing" ] || { say "no siw, these commands are missing: $missing"; return 0; }
  say "building siw for $2 from Debian's sources"
  work=$(mktemp -d "$1/siw.XXXXXX")
  if build_siw "$work" "$2" >"$work/log" 2>&1; then mv "$work/siw.ko" "$module"
  else say "no siw: $(tail -n 1 "$work/log")"; fi
  rm -rf "$work"
}

build_siw() {  # WORK VERSION: makes WORK/siw.ko
  local work=$1 version=$2 series package headers
  series=$(cut -d . -f 1-2 <<<"$version")
  download "$work" "linux-source-$series" "linux-kbuild-$series" "linux-headers-$version" "linux-headers-${version%-*}-common" || return 1
  for package in "$work"/linux-{kbuild,headers}*.deb; do dpkg-deb --extract "$package" "$work/root" || return 1; done
  headers=$work/root/usr/src/linux-headers-$version
  sed -i "s#/usr/src/#$work/root/usr/src/#" "$headers/Makefile" || return 1
  dpkg-deb --fsys-tarfile "$work"/linux-source*.deb | tar -x -O --wildcards './usr/src/*.tar.xz' | xz -dc |
    tar -x -C "$work" --strip-components 4 --wildcards '*/drivers/infiniband/sw/siw/*' || return 1
  make -C "$headers" M="$work/siw" CONFIG_RDMA_SIW=m modules || return 1
  strip --strip-debug -o "$work/siw.ko" "$work/siw/siw.ko"
}
