# SPDX-License-Identifier: MIT
# Shared by scripts/test, scripts/bench and scripts/format; sourced, not run. Needs bash, set -euo pipefail.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages_build=(g++ cmake ninja-build pkg-config libfmt-dev libsodium-dev libhwloc-dev libhwy-dev
                libcli11-dev libbenchmark-dev libgtest-dev libgmock-dev openmpi-bin libopenmpi-dev
                libibverbs-dev librdmacm-dev ibverbs-providers nlohmann-json3-dev
                python3-dev pybind11-dev)
packages_test=(make dpkg-dev file  # outside projects, packages
               mpich libseccomp-dev util-linux procps  # Hydra, the trap for system calls, setpriv, pkill
               qemu-system-x86 busybox-static kmod cpio iproute2 xz-utils zstd  # guests with SoftRoCE (tests/vm); hosts of our own
               ibverbs-utils rdmacm-utils perftest                         # and what runs in them
               openssh-client openssh-server                               # qpmesh-run --hosts
               python3 python3-mpi4py python3-numpy python3-pip python3-setuptools python3-wheel)  # pages: their code, their links, programs side by side
# The backend of torch.distributed is for PyTorch 2.6 and later; Debian 12 has an older one.
grep -qs bookworm /etc/os-release || packages_test+=(python3-torch libtorch-dev)
packages_lint=(clang-format-16 clang-tidy-14)
packages_docs=(doxygen python3-markdown python3-pygments)
packages_arm64=(g++-aarch64-linux-gnu qemu-user)

say() { printf '== %s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The command of scripts/packages.txt for this system, else the names of Debian's packages.
packages_elsewhere() {  # NAME…
  local id like system command
  id=$(. /etc/os-release && printf '%s %s' "$ID" "${ID_LIKE:-}")
  while IFS='|' read -r like system command; do
    case " $id " in *" $like "*) printf '%s (%s)' "$command" "$system"; return 0 ;; esac
  done < <(grep -v '^#' scripts/packages.txt)
  printf 'the packages that Debian calls %s' "$*"
}

# install_packages NAME…: those that dpkg does not know as installed, and nothing at all when none is missing.
install_packages() {
  command -v dpkg-query >/dev/null || { say "nothing is installed here; what is needed: $(packages_elsewhere "$@")"; return 0; }
  local name missing=() as_root=()
  for name in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      fail "these Debian packages are missing and there is no sudo; install them as root: ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing the Debian packages ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update &&
         "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
       >"$log" 2>&1 </dev/null; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install: ${missing[*]}"
  fi
  rm -f "$log"
}

# Installs what lays out and checks the sources. Other versions lay them out in another way.
install_lint_tools() {
  local name
  for name in "${packages_lint[@]}"; do
    command -v "$name" >/dev/null || apt-cache show "$name" >/dev/null 2>&1 ||
      fail "the sources are laid out by clang-format 16 and checked by clang-tidy 14, and this system has no package $name; Debian 12 has it"
  done
  install_packages "${packages_lint[@]}"
}

# debian_suite FOLDER SUITE ARCHITECTURE: sets `apt`, options with which apt-get and apt-cache work on that suite of Debian and keep lists
# and packages in FOLDER. The machine's own lists and packages do not change.
debian_suite() {
  local own=$1 mirror log
  mkdir -p "$own/lists/partial" "$own/archives/partial"
  : >"$own/status"  # nothing is installed there
  apt=(-o Dir::Etc::sourcelist="$own/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$own" -o Dir::State::status="$own/status"
       -o Dir::State::lists="$own/lists" -o Dir::Cache="$own" -o Dir::Cache::archives="$own/archives" -o APT::Architecture="$3" -o APT::Architectures="$3"
       -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  [ ! -e "$own/complete" ] || return 0
  say "the package lists of Debian $2 for $3"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian')
  mirror=${mirror%%$'\n'*}
  [ -n "$mirror" ] || fail "apt has no lists of Debian's packages: run apt-get update"
  printf 'deb %s %s main\ndeb-src %s %s main\n' "$mirror" "$2" "$mirror" "$2" >"$own/sources.list"
  log=$(apt-get "${apt[@]}" update 2>&1) || fail "apt-get update of Debian $2: $log"
  touch "$own/complete"
}

jobs_max() { nproc; }

# More than cores: many tests wait most of their time for a deadline, for a cable that was cut, for ranks that end.
tests_max() { echo $(($(nproc) * 3 / 2)); }

configure() {  # PRESET
  say "configure $1"
  local log
  log=$(mktemp)
  if ! cmake --preset "$1" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "configuring $1 failed; after a change of compiler or packages remove build/$1 and try again"
  fi
  rm -f "$log"
}

build() {  # PRESET [TARGET…]
  local preset=$1
  shift
  say "build $preset"
  local targets=()
  [ $# -eq 0 ] || targets=(--target "$@")
  cmake --build --preset "$preset" --parallel "$(jobs_max)" ${targets[@]+"${targets[@]}"}
}

# Open MPI refuses to start as root unless told that this is meant.
allow_mpirun_as_root() {
  [ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# Own sources, NUL-separated. Not git's list: the scripts also run in an unpacked archive.
own_files() {
  local folder folders=()
  for folder in include src bootstrap mpi python simulator tools bench tests examples; do [ ! -d "$folder" ] || folders+=("$folder"); done
  find "${folders[@]}" -path python/build -prune -o \( -name '*.[hc]pp' -o -name '*.[hc]' -o -name '*.inc' \) -print0
}

# What a build compiles, NUL-separated: clang-tidy would guess the flags of all others. Some sources are compiled only in one unit,
# which CMake has written: it includes them.
compiled_files() {
  sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/lint/compile_commands.json | sort -u | tr '\n' '\0'
}
