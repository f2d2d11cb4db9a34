# SPDX-License-Identifier: MIT
# Rank 0 gives tasks to whoever is free: a result, at first an empty one, asks for the next task.
import sys

from mpi4py import MPI

tasks = 100
world = MPI.COMM_WORLD
rank = world.Get_rank()
total, result, task = 0, 0, 0
queue, working = list(range(tasks)), world.Get_size() - 1
while rank == 0 and working > 0:
    status = MPI.Status()
    total += world.recv(source=MPI.ANY_SOURCE, status=status)
    task = queue.pop() if queue else None
    working -= task is None
    world.send(task, status.Get_source())
while rank > 0:
    world.send(result, 0)
    task = world.recv(source=0)
    if task is None:
        break
    result = task * task
right = rank != 0 or total == (tasks - 1) * tasks * (2 * tasks - 1) // 6
if rank == 0:
    print("work queue:", "right" if right else "wrong")
sys.exit(0 if right else 1)
