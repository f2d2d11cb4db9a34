# SPDX-License-Identifier: MIT
# The RDMA device that cases use, in a guest or natively; sourced, not run. POSIX sh, and no other programs: under emulation
# each costs a tenth of a second.
# shellcheck shell=sh

# find_device: sets VM_DEVICE, VM_NETDEV, VM_GID_INDEX and VM_GID_ADDRESS (IPv4) from the first active port that has a RoCE v2
# GID of an IPv4 address.
find_device() {
  for port in /sys/class/infiniband/*/ports/1; do
    read -r text 2>/dev/null <"$port/state" || continue
    case $text in *ACTIVE*) ;; *) continue ;; esac
    for gid in "$port"/gids/*; do
      read -r text <"$gid" || continue
      case $text in 0000:0000:0000:0000:0000:ffff:*) ;; *) continue ;; esac
      ipv4=${text#0000:0000:0000:0000:0000:ffff:}
      VM_GID_INDEX=${gid##*/}
      read -r text 2>/dev/null <"$port/gid_attrs/types/$VM_GID_INDEX" || continue
      [ "$text" = "RoCE v2" ] || continue
      read -r VM_NETDEV <"$port/gid_attrs/ndevs/$VM_GID_INDEX" || continue
      VM_DEVICE=${port%/ports/1}
      VM_DEVICE=${VM_DEVICE##*/}
      high=$((0x${ipv4%:*})) low=$((0x${ipv4#*:}))
      VM_GID_ADDRESS=$((high / 256)).$((high % 256)).$((low / 256)).$((low % 256))
      export VM_DEVICE VM_GID_INDEX VM_NETDEV VM_GID_ADDRESS
      return 0
    done
  done
  return 1
}
