#!/bin/sh
# SPDX-License-Identifier: MIT
# launch_by_hand.sh PROGRAM KIND: ranks started as four shells would, by the environment alone. KIND is one_host, tcp, torchrun,
# or two_jobs (two jobs of one host at once).
program=$1
size=4
case $2 in
  tcp) QPMESH_ROOT=127.0.0.1:$("$program" --free-port) || exit 1
       QPMESH_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
       export QPMESH_ROOT QPMESH_SECRET ;;
  torchrun) MASTER_ADDR=127.0.0.1 MASTER_PORT=$("$program" --free-port) WORLD_SIZE=$size LOCAL_WORLD_SIZE=$size
       export MASTER_ADDR MASTER_PORT WORLD_SIZE LOCAL_WORLD_SIZE ;;
esac

pids=
start() {  # JOB RANK
  if [ "$kind" = torchrun ]; then
    RANK=$2 LOCAL_RANK=$2 "$program" torchrun $size &
  else
    QPMESH_JOB=$1 QPMESH_RANK=$2 QPMESH_SIZE=$size "$program" qpmesh $size &
  fi
  pids="$pids $!"
}
kind=$2
jobs=by-hand-$$
[ "$kind" = two_jobs ] && jobs="by-hand-$$-a by-hand-$$-b"
for rank in 3 1 0 2; do
  for job in $jobs; do start "$job" $rank; done
done
failed=0
for pid in $pids; do wait "$pid" || failed=1; done
exit $failed
