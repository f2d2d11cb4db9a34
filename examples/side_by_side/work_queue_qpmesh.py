# SPDX-License-Identifier: MIT
# Rank 0 gives tasks to whoever is free: a result, at first an empty one, asks for the next task.
import sys

import qpmesh

tasks = 100
with qpmesh.init() as world:
    total, result, task = 0, 0, 0
    queue, working = list(range(tasks)), world.size - 1
    while world.rank == 0 and working > 0:
        source = world.probe(tag=0).source
        total += world.receive_object(source)
        task = queue.pop() if queue else None
        working -= task is None
        world.send_object(task, source)
    while world.rank > 0:
        world.send_object(result, 0)
        task = world.receive_object(0)
        if task is None:
            break
        result = task * task
    right = world.rank != 0 or total == (tasks - 1) * tasks * (2 * tasks - 1) // 6
    if world.rank == 0:
        print("work queue:", "right" if right else "wrong")
sys.exit(0 if right else 1)
