# SPDX-License-Identifier: MIT
# How guests' machines are started, and whether with hardware virtualisation or software emulation; sourced, not run.
# shellcheck shell=bash

qemu_bare=(-nodefaults -no-user-config -display none -no-reboot)

# Self-tests and certificates cost a second of emulation. The emulated TSC is the same on all CPUs, but Linux does not trust
# it, and with another clock every look at it leaves the guest's CPU. An oops ends the guest, which the host sees at once. Nor does it
# count timer interrupts at boot: where the host is busy there may be none in that time, and it would panic.
kernel_arguments="console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr net.ifnames=0 tsc=reliable no_timer_check nowatchdog \
random.trust_cpu=on cryptomgr.notests=1 \
initcall_blacklist=init_kprobe_trace,crypto_kdf108_init,load_system_certificate_list"

# choose_clock BUILD: sets kernel_clock to how fast an emulated TSC counts, which is as fast as the host's. On a busy host the kernel would
# measure that wrong: clocks went up to nineteen times too fast, and every deadline in the guest with them.
choose_clock() {
  kernel_clock=
  [ "$accelerator" = tcg ] || return 0
  local khz
  khz=$("$1/bin/vm_tsc_khz") || fail "$1/bin/vm_tsc_khz is not there or fails"
  kernel_clock=tsc_early_khz=$khz
}

probe_seconds=4

# choose_accelerator DIR: sets accelerator to kvm or tcg. /dev/kvm may be there and hang a guest, so it counts only after a
# guest has booted on it. What was found holds until the host boots again.
choose_accelerator() {
  local dir=$1 boot_id found=
  accelerator=${VM_ACCELERATOR:-}
  case $accelerator in
    kvm | tcg) return ;;
    "") ;;
    *) fail "VM_ACCELERATOR is $accelerator; it may be kvm or tcg" ;;
  esac
  boot_id=$(cat /proc/sys/kernel/random/boot_id)
  [ ! -f "$dir/accelerator" ] || read -r found accelerator <"$dir/accelerator"
  [ "$found" != "$boot_id" ] || return 0
  accelerator=tcg
  [ -w /dev/kvm ] || return 0
  ! kvm_boots "$dir" || accelerator=kvm
  say "/dev/kvm is there; after a probe, guests use $accelerator"
  printf '%s %s\n' "$boot_id" "$accelerator" >"$dir/accelerator"
}

kvm_boots() {  # DIR
  { timeout --signal=KILL "$probe_seconds" qemu-system-x86_64 -M q35 -accel kvm -cpu max -smp 2 -m 256M "${qemu_bare[@]}" \
      -serial "file:$1/probe" -kernel "$image_kernel" -initrd "$image_initramfs" -append "$kernel_arguments VM_PROBE=1" \
      </dev/null && grep -q '^guest: up' "$1/probe"; } >/dev/null 2>&1
}
