# SPDX-License-Identifier: MIT
# An asynchronous allreduce from Python, without a launcher: two processes find each other by a gather of
# their own. The binding is ctypes alone.  LD_LIBRARY_PATH=… python3 allreduce.py
import ctypes as c
import mmap
import multiprocessing as mp

# ---- the binding ----
qp = c.CDLL("libqpmesh.so")
qp.qpmesh_error_text.restype = c.c_char_p
AllGather = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p, c.c_int)
class Bootstrap(c.Structure):
    _fields_ = [("rank", c.c_int), ("size", c.c_int), ("all_gather", AllGather), ("context", c.c_void_p), ("address", c.c_char_p)]
def call(name, *arguments):
    if getattr(qp, "qpmesh_" + name)(*arguments) != 0:
        raise RuntimeError(qp.qpmesh_error_text().decode())
FLOAT64, SUM = 10, 0
# ---- until here ----

BLOB = 1 << 17

def run(rank, size, board, everybody):
    @AllGather
    def all_gather(context, mine, count, all, timeout_ms):
        try:
            board[rank * BLOB:rank * BLOB + count] = c.string_at(mine, count)
            everybody.wait(timeout_ms / 1000)
            for r in range(size):
                c.memmove(all + r * count, board[r * BLOB:r * BLOB + count], count)
            everybody.wait(timeout_ms / 1000)  # before anybody writes again
            return 0
        except Exception:
            return 1  # ctypes would swallow it

    world, request, values = c.c_void_p(), c.c_void_p(), (c.c_double * 1000)(*[1.0] * 1000)
    call("init_with", None, c.byref(Bootstrap(rank, size, all_gather)), c.byref(world))
    call("allreduce_async", world, values, values, c.c_size_t(1000), FLOAT64, SUM, None, c.byref(request))
    call("wait", request, None)  # after other work
    call("request_free", request)
    if rank == 0:
        print(f"{qp.qpmesh_size(world)} ranks, each element {values[999]:g}", flush=True)
    call("finalize", world, None)

if __name__ == "__main__":
    start = mp.get_context("fork")
    size, board = 2, mmap.mmap(-1, 2 * BLOB)
    everybody = start.Barrier(size)
    ranks = [start.Process(target=run, args=(r, size, board, everybody)) for r in range(size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    raise SystemExit(any(process.exitcode for process in ranks))
