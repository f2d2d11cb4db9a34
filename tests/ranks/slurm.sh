#!/bin/bash
# SPDX-License-Identifier: MIT
# slurm.sh PROGRAM LINE: a real Slurm of two nodes, each in a network namespace of its own, starts PROGRAM (the ten lines of the
# README) with 4 tasks on 2 nodes, and with 2 on one; the output must be "4 ranks, …" and "2 ranks, …". As on a Debian host, each node's
# own name stands for 127.0.1.1 there. Exit code 77: it cannot be tried here, with the reason.
set -uo pipefail
program=$1
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "network namespaces take root"
for tool in ip munged slurmctld slurmd srun unshare; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done

# A network namespace, and mounts, of the script's own: nothing of it is seen outside.
if [ "${SLURM_TEST_INSIDE:-}" != yes ]; then
  SLURM_TEST_INSIDE=yes exec unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0" "$@"
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
give_up() { echo "$*"; tail -n 20 "$folder"/*.log; exit 1; }

# The shell's own namespace is node1; node2 is the sleeping process's.
unshare --net --uts sleep 120 &
other=$!
for _ in $(seq 100); do [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break; sleep 0.02; done
there() { nsenter --net="/proc/$other/ns/net" --uts="/proc/$other/ns/uts" "$@"; }
ip link add cable type veth peer name cable netns "$other" || skip "no veth interfaces"
hostname node1
there hostname node2
ip link set lo up && ip addr add 10.77.0.1/24 dev cable && ip link set cable up
there ip link set lo up && there ip addr add 10.77.0.2/24 dev cable && there ip link set cable up
printf '127.0.0.1 localhost\n127.0.1.1 node1\n10.77.0.2 node2\n' >"$folder/hosts1"
printf '127.0.0.1 localhost\n127.0.1.1 node2\n10.77.0.1 node1\n' >"$folder/hosts2"
# Slurm wants a cgroup hierarchy to be there, even where it uses none.
mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/{freezer,memory,cpuset,devices,cpu,cpuacct}
# node N COMMAND…: runs it on that node.
node() {
  local number=$1 enter=()
  shift
  [ "$number" = 1 ] || enter=(nsenter --net="/proc/$other/ns/net" --uts="/proc/$other/ns/uts")
  "${enter[@]}" unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$folder/hosts$number" "$@"
}

head -c 1024 /dev/urandom >"$folder/key"
chmod 600 "$folder/key"
mkdir "$folder/state" "$folder/spool-node1" "$folder/spool-node2" "$folder/home" "$folder/munge"
export SLURM_CONF="$folder/slurm.conf" HOME="$folder/home"
printf 'CgroupPlugin=cgroup/v1\n' >"$folder/cgroup.conf"
cat >"$SLURM_CONF" <<END
ClusterName=two
SlurmctldHost=node1(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SlurmdParameters=config_overrides
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=node1 NodeAddr=10.77.0.1 CPUs=4
NodeName=node2 NodeAddr=10.77.0.2 CPUs=4
PartitionName=all Nodes=node1,node2 Default=YES State=UP
END
munged --force --foreground --socket="$folder/munge/socket" --key-file="$folder/key" --pid-file="$folder/munge/pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munge/seed" 2>"$folder/munged.err.log" &
node 1 slurmctld -D 2>"$folder/slurmctld.err.log" &
for number in 1 2; do node $number slurmd -D -N node$number 2>"$folder/slurmd$number.err.log" & done
for _ in $(seq 100); do
  [ "$(node 1 sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && break
  sleep 0.2
done

said=$(node 1 timeout 40 srun -N 2 -n 4 --ntasks-per-node=2 "$program" 2>"$folder/srun.log") || give_up "srun failed"
[ "$said" = "4 ranks, each element 4" ] || give_up "4 tasks on 2 nodes said: $said"
said=$(node 1 timeout 40 srun -N 1 -n 2 "$program" 2>"$folder/srun.log") || give_up "srun failed"
[ "$said" = "2 ranks, each element 2" ] || give_up "2 tasks on a node said: $said"
echo "4 tasks on 2 nodes, 2 on one: right"
