# SPDX-License-Identifier: MIT
"""The interpreter is unlocked while a call waits: another thread goes on."""

import sys
import threading

import numpy
import qpmesh

# No thread is made to give the interpreter up: the main thread below goes on when the call lets it.
sys.setswitchinterval(1000)

with qpmesh.init(threads="several", timeout_ms=10000) as world:
    rank, got = world.rank, numpy.empty(1)

    def take(message):
        message.receive(got)

    for tag, call in enumerate((
        lambda tag: world.receive(got, rank, tag),
        lambda tag: world.receive_async(got, rank, tag).wait(),
        lambda tag: world.receive_async(got, rank, tag).wait(timeout=9),
        lambda tag: take(world.match(rank, tag)),
        lambda tag: (world.probe(rank, tag), world.receive(got, rank, tag)),
        lambda tag: world.sendrecv(numpy.ones(1), qpmesh.no_rank, got, rank, 0, tag),
    )):
        about_to_call, ended, failed = threading.Event(), False, []

        def wait():
            global ended
            about_to_call.set()
            try:
                call(tag)
            except BaseException as error:
                failed.append(error)
            ended = True

        thread = threading.Thread(target=wait)
        thread.start()
        about_to_call.wait()
        count = 0
        for _ in range(100_000):
            count += 1
        assert not ended and not failed, failed  # what it waits for was not sent yet
        world.send(numpy.full(1, 5.0 + tag), rank, tag)
        thread.join()
        assert count == 100_000 and not failed and got[0] == 5.0 + tag, (tag, failed)
    world.barrier()
