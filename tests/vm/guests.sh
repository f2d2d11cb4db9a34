# SPDX-License-Identifier: MIT
# Places to run commands in: QEMU guests. Sourced, not run; native.sh has the same functions. Uses what run sets: work (a
# folder for this run), build, image_…, accelerator, kernel_clock, guest_count.
# shellcheck shell=bash

boot_seconds=$((120 * slowness))  # 5 s on idle cores with KVM, ten times that on crowded ones
guest_memory=2G  # touched when used

declare -A guest_process guest_commands guest_replies  # by guest: process id, descriptors of its job port

places_start() {
  local guest start
  [ "$guest_count" -eq 1 ] || make_network "$guest_count"
  for guest in $(seq "$guest_count"); do start_guest "$guest"; done
  start=$(now_us)
  for guest in $(seq "$guest_count"); do
    wait_for_reply "$guest" $((SECONDS + boot_seconds)) && [ "$reply" = ready ] ||
      { say "guest $guest does not boot, its console:"; tail -n 30 "$work/guest$guest/console" || true; return 1; }
  done
  say "$guest_count guest(s) booted in $(seconds_since "$start") s ($accelerator, kernel $image_version)"
}

# A second processor is possible even where there is none: for a machine that can have only one QEMU translates locked instructions as
# plain ones. The other end of a virtio queue is a thread of QEMU: eth0 missed a wake-up after 145,000 packets, and sent nothing any more.
start_guest() {  # GUEST
  local guest=$1 share=$work/guest$1 cpus=1 network=()
  mkdir -p "$share"
  printf '%s=%q\n' VM_GUEST "$guest" VM_GUESTS "$guest_count" VM_SOURCE "$vm_source" VM_BUILD "$build" >"$share/settings"
  if [ "$guest_count" -eq 1 ]; then
    cpus=2
  else
    network=(-netdev "tap,id=net,ifname=tap$guest,script=no,downscript=no"
             -device "virtio-net-pci,netdev=net,csum=off,romfile=,mac=$(guest_mac tap "$guest"),host_mtu=$network_mtu"
             -netdev "tap,id=other,ifname=other$guest,script=no,downscript=no"
             -device "virtio-net-pci,netdev=other,romfile=,mac=$(guest_mac other "$guest"),host_mtu=$network_mtu")
  fi
  mkfifo "$share/jobs.in" "$share/jobs.out"
  setpriv --pdeathsig KILL qemu-system-x86_64 -M q35 -accel "$accelerator${tcg_threads[$accelerator]}" -cpu max \
    -smp "$cpus,maxcpus=2" -m "$guest_memory" "${qemu_bare[@]}" -serial "file:$share/console" \
    -kernel "$image_kernel" -initrd "$image_initramfs" -append "$kernel_arguments $kernel_clock" \
    -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$share,mount_tag=share,security_model=none" \
    -device virtio-serial-pci -chardev "pipe,id=jobs,path=$share/jobs" -device virtserialport,chardev=jobs,name=jobs \
    "${network[@]}" >"$share/qemu" 2>&1 </dev/null &
  guest_process[$guest]=$!
  # shellcheck disable=SC1083,SC2086
  exec {guest_commands[$guest]}<>"$share/jobs.in" {guest_replies[$guest]}<>"$share/jobs.out"
}

declare -A tcg_threads=([tcg]=",thread=multi" [kvm]="")

# wait_for_reply GUEST DEADLINE: one line of the guest into reply. Fails when QEMU has ended or at the deadline (SECONDS).
wait_for_reply() {
  local part
  reply=
  while [ "$SECONDS" -lt "$2" ]; do
    if IFS= read -r -t 1 -u "${guest_replies[$1]}" part; then
      reply+=$part
      return 0
    fi
    reply+=$part
    pause_who_asks
    kill -0 "${guest_process[$1]}" 2>/dev/null || { reply="guest $1 has died"; return 1; }
  done
  reply="guest $1 does not answer"
  return 1
}

# A guest that writes SECONDS to `pause` in its folder stands still for so long (programs/paused).
pause_who_asks() {
  local guest seconds
  for guest in "${!guest_process[@]}"; do
    [ -e "$work/guest$guest/pause" ] || continue
    read -r seconds <"$work/guest$guest/pause"
    rm "$work/guest$guest/pause"
    kill -STOP "${guest_process[$guest]}"
    sleep "$seconds"
    kill -CONT "${guest_process[$guest]}"
  done
}

place_folder() { printf '%s/guest%s/%s' "$work" "$1" "$2"; }  # GUEST CASE: where the case's files are

place_job() { printf 'run %s\n' "${*:2}" >&"${guest_commands[$1]}"; }  # GUEST CASE SECONDS FIRST_RANK RANKS

# place_wait GUEST CASE DEADLINE: sets place_text to what went wrong; 0: the case ended well, 1: badly, 2: the guest is lost.
place_wait() {
  local verb name status
  wait_for_reply "$1" "$3" || { place_text=$reply; return 2; }
  read -r verb name status place_text <<<"$reply"
  [ "$verb $name" = "done $2" ] || { place_text="guest $1 answers $reply"; return 2; }
  place_text="guest $1: $place_text"
  [ "$status" -eq 0 ]
}

place_serve() { echo serve >&"${guest_commands[$1]}"; }  # GUEST: it accepts commands of other guests until place_stop

place_stop() {  # GUEST
  echo stop >&"${guest_commands[$1]}"
  wait_for_reply "$1" $((SECONDS + 10)) && [ "$reply" = stopped ]
}

# Guests write nothing that would have to be saved.
places_end() {
  local guest
  for guest in "${!guest_process[@]}"; do
    kill -KILL "${guest_process[$guest]}" 2>/dev/null || true
    wait "${guest_process[$guest]}" 2>/dev/null || true
  done
}

# What the kernels complained about; cases may have passed all the same.
places_complaints() {
  local guest
  for guest in $(seq "$guest_count"); do
    grep -E 'BUG|Oops|WARNING|Call Trace|panic|guest:' "$work/guest$guest/console" | sed "s/^/guest $guest console: /" || true
  done
}
