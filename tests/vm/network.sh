# A bridge with a tap device for each guest; sourced, not run. For a network namespace of one's own: nothing is undone, all
# of it ends with the namespace.
# shellcheck shell=bash

network_mtu=9000  # a path MTU of 4096 for RoCE

make_network() {  # GUESTS
  local guest
  ip link set lo up
  ip link add bridge type bridge mcast_snooping 0
  ip link set bridge mtu "$network_mtu" up
  for guest in $(seq "$1"); do
    ip tuntap add "tap$guest" mode tap
    ip link set "tap$guest" mtu "$network_mtu" master bridge up
  done
}
