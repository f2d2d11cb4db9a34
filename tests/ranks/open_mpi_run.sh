#!/bin/sh
# SPDX-License-Identifier: MIT
# open_mpi_run.sh ARGUMENT…: Open MPI's mpirun with a session folder of its own. All jobs of a user on a host share one by
# default, which each makes when it starts and removes when it ends: two that start at once fail now and then ("File exists").
sessions=${TMPDIR:-/tmp}/qpmesh-mpirun-$$
mkdir -p "$sessions" || exit 1
mpirun.openmpi --mca orte_tmpdir_base "$sessions" "$@" &
job=$!
trap 'kill -TERM "$job"' TERM INT HUP
wait "$job"
code=$?
while kill -0 "$job" 2>/dev/null; do wait "$job"; code=$?; done
rm -rf "$sessions"
exit "$code"
