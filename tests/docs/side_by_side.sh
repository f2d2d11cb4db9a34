#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# side_by_side.sh compiled LIBRARY QPMESH-RUN MPICC MPIRUN
# side_by_side.sh python MPIRUN
# side_by_side.sh qpmesh_in_python PYTHON MODULE-FOLDER QPMESH-RUN
# Builds the programs of examples/side_by_side in C++ and C, or takes those in Python, runs them with 2 and 4 ranks, and wants the same one line of all.
# `compiled` also holds the table of docs/from-mpi.md against them: ours has no more lines and calls than MPI's. In Python ours has no more than
# mpi4py's. `python` ends with 77 where Debian's Python has no mpi4py.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=$source/examples/side_by_side
python=/usr/bin/python3  # another one on the PATH does not see Debian's packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# says_right NAME FORM COMMAND…: of the failures a rank is killed, and the launcher ends with its code.
says_right() {
  local name=$1 form=$2 output code=0
  shift 2
  output=$(timeout 60 "$@" 2>"$work/log") || code=$?
  [ "$code" = 0 ] || [ "$name" = failures ] || fail "$name, $form: exit code $code: $(cat "$work/log")"
  output=$(grep ': ' <<<"$output" | head -n 1) || true
  [[ $output == *": right" ]] || fail "$name, $form: '$output': $(cat "$work/log")"
}

if [ "$1" = python ]; then
  mpirun=$2
  "$python" -c 'import mpi4py, numpy' 2>/dev/null || { echo "skipped: mpi4py or numpy (python3-mpi4py, python3-numpy) is not installed"; exit 77; }
  for file in "$programs"/*.py; do
    name=$(basename "$file" .py)
    case $name in count | *_qpmesh) continue ;; esac
    for ranks in 2 4; do says_right "$name" mpi4py "$mpirun" --oversubscribe -np "$ranks" "$python" "$file"; done
  done
  exit
fi

if [ "$1" = qpmesh_in_python ]; then
  python=$2 qpmesh_run=$4
  export PYTHONPATH=$3
  for file in "$programs"/*_qpmesh.py; do
    for ranks in 2 4; do says_right "$(basename "$file" _qpmesh.py)" "qpmesh in Python" "$qpmesh_run" -np "$ranks" "$python" "$file"; done
  done
  exit
fi

library=$2 qpmesh_run=$3 mpicc=$4 mpirun=$5
for file in "$programs"/*.cpp; do
  name=$(basename "$file" .cpp)
  printf '%s\0' "g++ -std=c++20 -Wall -I'$source/include' '$file' '$library' '-Wl,-rpath,${library%/*}' -o '$work/$name'" \
    "'$mpicc' -std=gnu99 -Wall '$programs/${name}_mpi.c' -o '$work/${name}_mpi'"
done | xargs -0 -P "$(nproc)" -I{} bash -c '{}'
for file in "$programs"/*.cpp; do
  name=$(basename "$file" .cpp)
  for ranks in 2 4; do
    says_right "$name" qpmesh "$qpmesh_run" --keep-going -np "$ranks" "$work/$name"
    says_right "$name" MPI "$mpirun" --oversubscribe -enable-recovery -np "$ranks" "$work/${name}_mpi"
  done
done
"$python" - "$programs" "$source/docs/from-mpi.md" <<'END'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import count
for name in count.NAMES:
    for form, other in (("qpmesh", "MPI"), ("qpmesh in Python", "mpi4py")):
        ours, theirs = count.count(name, form), count.count(name, other)
        assert (ours is None) == (theirs is None), f"{name}: {form} or {other} has it alone"
        assert ours is None or (ours[0] <= theirs[0] and ours[1] <= theirs[1]), f"{name} in {form} is longer than in {other}: {ours}, {theirs}"
assert count.table() in open(sys.argv[2]).read(), "docs/from-mpi.md has another table:\n" + count.table()
END
