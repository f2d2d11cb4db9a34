# SPDX-License-Identifier: MIT
# Two bridges with a tap device for each guest; sourced, not run. For a network namespace of one's own: nothing is undone, all
# of it ends with the namespace. In guests the second is eth1, down and without an address (programs/second_device).
# shellcheck shell=bash

network_mtu=9000  # a path MTU of 4096 for RoCE

declare -A network_number=([tap]=00 [other]=01)  # of a bridge, by what its taps are called

guest_mac() { printf '52:54:00:77:%s:0%s' "${network_number[$1]}" "$2"; }  # TAP GUEST

make_network() {  # GUESTS
  local guest tap
  ip link set lo up
  for tap in tap other; do
    ip link add "${tap}s" type bridge mcast_snooping 0
    ip link set "${tap}s" mtu "$network_mtu" up
    for guest in $(seq "$1"); do
      ip tuntap add "$tap$guest" mode tap
      ip link set "$tap$guest" mtu "$network_mtu" master "${tap}s" up
      # A packet whose source netem has corrupted would teach the bridge a wrong way, for as long as that guest is silent.
      ip link set "$tap$guest" type bridge_slave learning off
      bridge fdb add "$(guest_mac "$tap" "$guest")" dev "$tap$guest" master static
    done
  done
}
