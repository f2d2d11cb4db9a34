# SPDX-License-Identifier: MIT
# What guests boot from: an uncompressed kernel and an initramfs of busybox and a few modules. Sourced, not run.
# shellcheck shell=bash

# In load order where it matters: RoCE's ICRC needs crc32 before a device is added. modprobe adds what they depend on.
guest_modules=(crc32_generic crc32_pclmul virtio_pci virtio_console 9p 9pnet_virtio overlay virtio_net dummy
               ib_uverbs rdma_rxe rdma_ucm ib_umad sch_netem
               sch_ingress cls_u32 act_gact crc32c_generic libcrc32c)  # the last two: siw

# Where those and all they depend on are in the kernel package.
module_folders=(arch crypto lib net fs/9p fs/netfs fs/fscache fs/overlayfs fs/configfs drivers/infiniband drivers/virtio
                drivers/net/dummy.ko drivers/net/virtio_net.ko drivers/net/net_failover.ko drivers/char/virtio_console.ko)

# make_image DIR: sets image_kernel, image_initramfs and image_version. Skips with the reason when it cannot.
# A kernel is fetched once; DIR/VERSION keeps what is needed of it, and nothing is installed.
make_image() {
  local dir=$1 modules
  mkdir -p "$dir"
  exec {image_lock}>"$dir/image.lock"
  flock "$image_lock"
  [ -n "$(kernels_in "$dir")" ] || fetch_kernel "$dir"
  image_version=$(kernels_in "$dir" | sort -V | tail -n 1)
  image_kernel=$dir/$image_version/vmlinux
  image_initramfs=$dir/$image_version/initramfs
  modules=$dir/$image_version/modules
  if [ ! "$image_initramfs" -nt "$vm_source/guest/init" ] || [ ! "$image_initramfs" -nt "$vm_source/image.sh" ]; then
    pack_initramfs "$modules" "$image_initramfs"
  fi
  exec {image_lock}>&-
}

kernels_in() {  # DIR: versions that have all modules of the list above, one a line
  local kernel
  for kernel in "$1"/*/vmlinux; do
    kernel=$(dirname "$kernel")
    [ "$(cat "$kernel/names" 2>/dev/null)" != "${guest_modules[*]}" ] || basename "$kernel"
  done
}

# The package named by VM_KERNEL_DEB, or Debian's current one.
fetch_kernel() {  # DIR
  local dir=$1 missing work package
  [ "$(uname -m)" = x86_64 ] || skip "guests run the host's own programs and are made for x86-64 only; this is $(uname -m)"
  missing=$(missing_commands dpkg-deb depmod modprobe busybox cpio xz zstd tar strip)
  [ -z "$missing" ] || skip "no kernel for guests can be made, these commands are missing: $missing"
  work=$(mktemp -d "$dir/fetch.XXXXXX")
  package=${VM_KERNEL_DEB:-}
  [ -n "$package" ] || { say "downloading Debian's kernel image"; download "$work" linux-image-amd64 && package=$(echo "$work"/*.deb); } ||
    { rm -rf "$work"; skip "no kernel for guests: apt-get could not download linux-image-amd64; VM_KERNEL_DEB may name a package file"; }
  [[ $(dpkg-deb -c "$package") == *boot/vmlinuz* ]] ||
    { rm -rf "$work"; skip "no kernel for guests: $(basename "$package") holds none, it is in packages of its own"; }
  say "unpacking $(basename "$package")"
  unpack_kernel "$package" "$work" || fail "$package does not hold what guests need; see $work"
  rm -rf "$work"
}

# Debian's packages, as files in WORK. Asks the system's package lists first. Where they are missing or too old, lists of our own,
# which takes no root.
download() {  # WORK NAME…
  local work=$1 own_lists=(-o "Dir::State::Lists=$1/lists" -o "Dir::Cache=$1/cache" -o Debug::NoLocking=1)
  shift
  command -v apt-get >/dev/null || return 1
  download_with "$work" "$*" && return 0
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  apt-get "${own_lists[@]}" update >"$work/log" 2>&1 && download_with "$work" "$*" "${own_lists[@]}" && return 0
  tail -n 5 "$work/log" >&2
  return 1
}

# Of linux-image-amd64, which holds nothing, the package that it depends on.
download_with() {  # WORK "NAME…" [APT-OPTION…]
  local work=$1 names=$2
  shift 2
  [ "$names" != linux-image-amd64 ] ||
    names=$(apt-cache "$@" depends "$names" 2>>"$work/log" | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
  # shellcheck disable=SC2086
  [ -n "$names" ] && (cd "$work" && apt-get "$@" download $names >>log 2>&1)
}

unpack_kernel() {  # PACKAGE WORK: makes DIR/VERSION beside WORK, whole or not at all
  local package=$1 work=$2 version patterns=() folder
  # From Debian 13 on the modules lie below usr, are compressed, and some of the folders are gone: copy_modules sees what is missing.
  for folder in "${module_folders[@]}"; do patterns+=("*/lib/modules/*/kernel/$folder*"); done
  dpkg-deb --fsys-tarfile "$package" |
    tar -x -C "$work" --wildcards './boot/vmlinuz*' '*/lib/modules/*/modules.*' "${patterns[@]}" 2>"$work/tar.log" || true
  [ ! -d "$work/usr/lib" ] || mv "$work/usr/lib" "$work/lib"
  [ -d "$work/lib/modules" ] || return 1
  find "$work/lib" -name '*.ko.xz' -exec xz -d {} + || return 1
  version=$(ls "$work/lib/modules")
  depmod -b "$work" "$version" || return 1
  mkdir -p "$work/new/modules"
  copy_modules "$work" "$version" "$work/new/modules" || return 1
  # Uncompressed, it starts by PVH: emulating the decompression would take longer than all else until user space.
  uncompress_kernel "$work/boot/vmlinuz-$version" >"$work/new/vmlinux" || return 1
  echo "${guest_modules[*]}" >"$work/new/names"
  rm -rf "$(dirname "$work")/$version"
  mv "$work/new" "$(dirname "$work")/$version"
}

# Prints the kernel proper of a bzImage. Fields and offsets: Documentation/arch/x86/boot.rst of Linux. Its last four bytes are the length
# of what comes out.
uncompress_kernel() {  # FILE
  local setup_sectors offset bytes magic unpack
  setup_sectors=$(od -An -tu1 -j 0x1f1 -N 1 "$1")
  offset=$(((setup_sectors + 1) * 512 + $(od -An -tu4 -j 0x248 -N 4 "$1")))
  bytes=$(od -An -tu4 -j 0x24c -N 4 "$1")
  magic=$(od -An -tx1 -j "$offset" -N 4 "$1")
  case $magic in
    " fd 37 7a 58") unpack=(xz -dc) ;;    # Debian 12
    " 28 b5 2f fd") unpack=(zstd -dc) ;;  # Debian 13
    *) return 1 ;;
  esac
  dd if="$1" bs=1M iflag=skip_bytes,count_bytes skip="$offset" count="$((bytes - 4))" status=none | "${unpack[@]}"
}

# With what they depend on, and without signatures, which the guest would only spend time on.
copy_modules() {  # ROOT VERSION TARGET: a tree that modprobe can use, and the names to load
  local root=$1 version=$2 target=$3/lib/modules/$2 module file
  for module in "${guest_modules[@]}"; do
    modprobe -d "$root" -S "$version" --show-depends "$module" || return 1
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u >"$root/files"
  while read -r file; do
    mkdir -p "$target/$(dirname "${file#*/lib/modules/"$version"/}")"
    strip --strip-debug -o "$target/${file#*/lib/modules/"$version"/}" "$file" || return 1
  done <"$root/files"
  cp "$root/lib/modules/$version"/modules.{builtin,order} "$target" && depmod -b "$3" "$version" 2>/dev/null
}

pack_initramfs() {  # MODULES INITRAMFS
  local tree
  say "packing $(basename "$(dirname "$2")")/initramfs"
  tree=$(mktemp -d "$2.XXXXXX")
  cp -r "$1/." "$tree"
  mkdir -p "$tree/bin" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/host" "$tree/memory" "$tree/root"
  cp "$(command -v busybox)" "$tree/bin/busybox"
  cp "$vm_source/guest/init" "$tree/init"
  chmod +x "$tree/init"
  printf '%s\n' "${guest_modules[@]}" >"$tree/modules"
  (cd "$tree" && find . | cpio -o -H newc --quiet) >"$2.new"
  rm -rf "$tree"
  mv "$2.new" "$2"
}
