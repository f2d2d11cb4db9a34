# SPDX-License-Identifier: MIT
# Shared by the scripts of this folder; sourced, not run. Needs bash, set -euo pipefail.
# shellcheck shell=bash

export LC_ALL=C  # numbers with a point, greps of bytes
vm_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '== %s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# What CTest counts as skipped. The reason is the last line.
skip_status=77
skip() {
  printf 'skipped: %s\n' "$*"
  exit "$skip_status"
}

now_us() { printf '%s' "${EPOCHREALTIME/[.,]/}"; }

# seconds_since START_US: "1.2"
seconds_since() {
  local us=$(($(now_us) - $1))
  printf '%d.%d' $((us / 1000000)) $((us % 1000000 / 100000))
}

# missing_commands NAME…: prints those that are not there.
missing_commands() {
  local name
  for name in "$@"; do command -v "$name" >/dev/null || printf '%s ' "$name"; done
}
