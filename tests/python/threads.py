# SPDX-License-Identifier: MIT
"""Threads of one context: one has its turn and wants the interpreter, for its reduction is a function; another one has
the interpreter, and needs the turn."""

import faulthandler
import threading
import time

import numpy
import qpmesh

faulthandler.dump_traceback_later(50, exit=True)
with qpmesh.init(threads="several") as world:
    own = world.duplicate()
    groups = [world.duplicate() for _ in range(40)]

    def add(left, right):
        time.sleep(0.0005)  # the interpreter goes to the other thread
        return left + right

    def reduce():
        for _ in range(60):
            own.allreduce(numpy.ones(20), add)

    reducing = threading.Thread(target=reduce)
    reducing.start()
    while reducing.is_alive():
        time.sleep(0.0003)
        world.send(numpy.ones(1), world.rank, 3)
        world.receive_async(numpy.ones(1), world.rank, 3).wait()  # and the request goes
        if groups:
            groups.pop()
        world.self()
        for call in (world.wait_fd, world.arm_wait):
            try:
                call()
            except qpmesh.Error:  # that is for one thread
                pass
    reducing.join()
    groups.clear()
    world.barrier()
