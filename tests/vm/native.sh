# SPDX-License-Identifier: MIT
# Places to run commands in: this host, which has an RDMA device. Sourced, not run; guests.sh has the same functions. With
# several "guests" their commands run side by side.
# shellcheck shell=bash

declare -A job_process

places_start() {
  find_device || skip "the host's RDMA devices have no active port with a RoCE v2 GID of an IPv4 address"
  export VM_GUESTS=$guest_count VM_SOURCE=$vm_source VM_BUILD=$build VM_NATIVE=1
  export VM_ADDRESS=$VM_GID_ADDRESS VM_FIRST_ADDRESS=$VM_GID_ADDRESS PATH=$vm_source/programs:$PATH
  ulimit -l unlimited 2>/dev/null || true
  say "native: device $VM_DEVICE on $VM_NETDEV, GID $VM_GID_INDEX, $VM_GID_ADDRESS"
}

place_folder() { printf '%s/guest%s/%s' "$work" "$1" "$2"; }  # GUEST CASE

place_job() {  # GUEST CASE SECONDS FIRST_RANK RANKS
  local dir
  dir=$(place_folder "$1" "$2")
  VM_GUEST=$1 setsid setpriv --pdeathsig KILL "$vm_source/job" "$dir" "${@:3}" >"$dir/text" &
  job_process[$1]=$!
}

place_wait() {  # GUEST CASE DEADLINE: the job keeps the deadline itself
  local status=0
  wait "${job_process[$1]}" || status=$?
  end_job "$1"
  place_text="guest $1: $(cat "$(place_folder "$1" "$2")/text")"
  [ "$status" -eq 0 ]
}

end_job() { pkill -KILL --session "${job_process[$1]}" || true; }  # GUEST: what the job left; it had a session of its own

place_serve() { :; }
place_stop() { :; }
places_end() {
  local guest
  for guest in "${!job_process[@]}"; do end_job "$guest"; done
}
places_complaints() { :; }
