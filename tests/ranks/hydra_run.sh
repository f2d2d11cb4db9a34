#!/bin/sh
# SPDX-License-Identifier: MIT
# hydra_run.sh ARGUMENT…: MPICH's mpiexec. On a busy host it may die by SIGPIPE before it starts anything, whatever the program is: then it
# is started again.
for again in 1 2 3 4 5 6 7 8 9; do
  said=$(mpiexec.hydra "$@" 2>&1)
  code=$?
  [ "$code" = 141 ] && [ -z "$said" ] || break
done
printf '%s\n' "$said"
exit "$code"
