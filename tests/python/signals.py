"""A signal's handler runs while a call waits, and what it raises ends the wait."""

import signal

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
            calls.clear()
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            raised_by(call, Stop)
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
