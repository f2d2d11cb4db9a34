# SPDX-License-Identifier: MIT
"""A signal's handler runs while a call waits, and what it raises ends the wait."""

import os
import signal
import subprocess
import sys
import time

import numpy
import qpmesh


class Stop(Exception):
    pass


def raised_by(call, kind):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


# A start waits for ranks that never come.
no_job = {name: value for name, value in os.environ.items() if not name.startswith("QPMESH_")}
for waits_as in ("0", "1"):
    lone = subprocess.Popen([sys.executable, "-c", "import qpmesh; print('here', flush=True); qpmesh.init()"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=no_job | {
                                "QPMESH_RANK": waits_as, "QPMESH_SIZE": "2", "QPMESH_JOB": f"lone-{os.getpid()}-{waits_as}"})
    assert lone.stdout.readline() == "here\n"
    time.sleep(0.3)  # it may wait by then; where it does not the signal ends it, too
    begin = time.monotonic()
    lone.send_signal(signal.SIGINT)
    said = lone.communicate(timeout=20)[1]
    assert "KeyboardInterrupt" in said and time.monotonic() - begin < 10, said

for threads in ("one", "several"):
    with qpmesh.init(threads=threads, timeout_ms=20000) as world:
        rank, got, calls = world.rank, numpy.zeros(1), []

        def twice(number, frame):  # at first it returns, and the wait goes on
            calls.append(number)
            if len(calls) == 2:
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise Stop

        signal.signal(signal.SIGALRM, twice)

        def stopped(call):
            def timed():
                calls.clear()
                signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
                call()

            raised_by(timed, Stop)
            assert calls == [signal.SIGALRM] * 2, calls

        # What nothing has come for is taken back: the next receive gets the message.
        stopped(lambda: world.receive(got, rank, 1))
        stopped(lambda: world.probe(rank, 1))
        stopped(lambda: world.receive_async(got, rank, 1).wait())
        kept = world.receive_async(got, rank, 1)
        stopped(lambda: kept.wait(timeout=15))
        world.send(numpy.full(1, 5.0), rank, 1)
        assert kept.wait().source == rank and got[0] == 5.0

        # Anything else may be half done, and its communicator has failed on all ranks.
        if world.size > 1:
            other = world.duplicate()
            if rank == 0:
                stopped(other.barrier)
                for peer in range(1, world.size):
                    world.send(got, peer, 2)
            else:
                world.receive(got, 0, 2)
            # The first one may end well where the news is late: rank 0 had come to it.
            error = raised_by(lambda: (other.barrier(), other.barrier()), qpmesh.Error)
            assert (error.code, error.peer) == ("aborted", 0) and "interrupted" in error.cause, error
        world.barrier()
