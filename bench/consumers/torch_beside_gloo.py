#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs of PyTorch's kind over qpmesh beside gloo: in one run, in turn, medians of rounds.

    PYTHONPATH=build/release/python build/release/bin/qpmesh-run -np 2 python3 bench/consumers/torch_beside_gloo.py WHAT [--threads 2]

allreduce  one call behind the other, and with 300 us of computing between them; "shared" is a tensor of qpmesh_torch.empty
ddp        a step of DistributedDataParallel of a model of 9 thousand parameters, and of a million
tokens     what the generation of text asks for: 8 to 32 KiB of 16-bit numbers between 50 to 500 us of computing
init       init_process_group and new_group, over a store that is there

Each figure is the median of rounds' medians, in us, of rank 0, with the least and the largest; ratio is gloo's over ours, so above 1
we are faster. "computing" is what the step takes without an exchange.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import qpmesh_torch

rank, size = int(os.environ.get("QPMESH_RANK", 0)), int(os.environ.get("QPMESH_SIZE", 1))


def store(name):
    return dist.FileStore(os.path.join(tempfile.gettempdir(), f"torch_beside_gloo.{os.environ['QPMESH_JOB']}.{name}"), size)


class Table:
    def __init__(self, *columns):
        self.columns = columns
        self.line("", *columns, "ratio")

    @staticmethod
    def line(*cells):
        if rank == 0:
            print(f"{cells[0]:32}" + "".join(f"{cell:>26}" for cell in cells[1:]), flush=True)

    def row(self, name, rounds, ways, ratio_of=("gloo", "qpmesh")):
        """ways: what makes a median of many calls, by the columns' names."""
        found = {column: [] for column in self.columns}
        for number in range(rounds):
            for column in self.columns if number % 2 == 0 else reversed(self.columns):
                dist.barrier()
                found[column].append(1e6 * ways[column]())
        middle = {column: statistics.median(values) for column, values in found.items()}
        self.line(name, *(f"{middle[column]:.1f} ({min(found[column]):.1f} - {max(found[column]):.1f})" for column in self.columns),
                  f"{middle[ratio_of[0]] / middle[ratio_of[1]]:.2f}")


def median_of(step, count, warm_up=3):
    for _ in range(warm_up):
        step()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def text_of(count):
    return f"{count} B" if count < 1024 else f"{count >> 10} KiB" if count < 1 << 20 else f"{count >> 20} MiB"


def allreduce(groups, rounds):
    table = Table("gloo", "qpmesh", "shared")
    options = dist.AllreduceOptions()
    for pause in (0, 300e-6):
        for length in (8, 8 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20):
            own, shared = torch.zeros(length // 4), qpmesh_torch.empty(length // 4)

            def median(group, tensor, count, pause=pause):
                times = []
                for step in range(count + 3):
                    if pause > 0:
                        spin(pause)
                    begin = time.perf_counter()
                    group.allreduce([tensor], options).wait()
                    if step >= 3:
                        times.append(time.perf_counter() - begin)
                return statistics.median(times)

            count = 200 if length < 1 << 20 else 30
            table.row(f"{text_of(length)}, {1e6 * pause:.0f} us between", rounds,
                      {"gloo": lambda: median(groups["gloo"], own, min(count, 30)), "qpmesh": lambda: median(groups["qpmesh"], own, count),
                       "shared": lambda: median(groups["shared"], shared, count)})


def ddp(groups, rounds):
    table = Table("gloo", "qpmesh", "shared", "computing")
    for name, inputs, width, rows, count in (("9 thousand parameters", 32, 64, 16, 60), ("1 million parameters", 256, 768, 16, 20)):

        def make(group=None, inputs=inputs, width=width):
            torch.manual_seed(1)
            module = torch.nn.Sequential(torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(),
                                         torch.nn.Linear(width, inputs))
            if group is not None:
                module = DistributedDataParallel(module, process_group=group, gradient_as_bucket_view=True)
            return module, torch.optim.SGD(module.parameters(), 0.01)

        data = torch.randn(rows, inputs)

        def step(module, optimizer, data=data):
            optimizer.zero_grad(set_to_none=False)
            module(data).square().mean().backward()
            optimizer.step()

        models = {"gloo": make(groups["gloo"]), "qpmesh": make(groups["qpmesh"]), "computing": make()}
        with qpmesh_torch.shared_memory():
            models["shared"] = make(groups["shared"])
            for _ in range(3):
                step(*models["shared"])
        parameters = sum(parameter.numel() for parameter in models["computing"][0].parameters())
        table.row(f"{name} ({parameters})", rounds, {way: (lambda made=made: median_of(lambda: step(*made), count)) for way, made in models.items()})


def tokens(groups, rounds):
    table = Table("gloo", "qpmesh", "bfloat16", "computing")
    options = dist.AllreduceOptions()
    for computing in (50e-6, 200e-6, 500e-6):
        # So many that torch parts them among its threads.
        numbers, result = torch.randn(40_000), torch.empty(40_000)
        passes = torch.tensor(max(1, round(computing / median_of(lambda: torch.add(numbers, 1, out=result), 300))))
        dist.broadcast(passes, 0)  # all compute alike

        def compute(passes=int(passes)):
            for _ in range(passes):
                torch.add(numbers, 1, out=result)

        for length in (8 << 10, 32 << 10):
            half, brain = torch.zeros(length // 2, dtype=torch.float16), torch.zeros(length // 2, dtype=torch.bfloat16)

            def step(group, tensor):
                compute()
                group.allreduce([tensor], options).wait()

            table.row(f"{text_of(length)}, {1e6 * computing:.0f} us of computing", rounds,
                      {"gloo": lambda: median_of(lambda: step(groups["gloo"], half), 40),
                       "qpmesh": lambda: median_of(lambda: step(groups["qpmesh"], half), 200),
                       "bfloat16": lambda: median_of(lambda: step(groups["qpmesh"], brain), 200),  # gloo of torch 1.13 has none
                       "computing": lambda: median_of(compute, 200)})


def init(groups, rounds):
    dist.destroy_process_group()
    for what in ("init_process_group", "new_group"):
        found = {"gloo": [], "qpmesh": []}
        for number in range(rounds):
            for backend in found:
                place = store(f"{what}.{number}.{backend}")
                place.add("here", 1)
                while place.add("here", 0) < size:
                    pass
                begin = time.perf_counter()
                dist.init_process_group(backend, store=place, rank=rank, world_size=size)
                if what == "new_group":
                    begin = time.perf_counter()
                    dist.new_group(list(range(size)))
                found[backend].append(1e3 * (time.perf_counter() - begin))
                dist.destroy_process_group()
        if rank == 0:
            print(what, {backend: f"{statistics.median(times):.1f} ms ({min(times):.1f} - {max(times):.1f})" for backend, times in found.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["allreduce", "ddp", "tokens", "init"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="of OpenMP, for each rank")
    options = parser.parse_args()
    if "QPMESH_JOB" not in os.environ:
        parser.error("qpmesh-run starts the ranks")
    torch.set_num_threads(options.threads)
    dist.init_process_group("qpmesh", store=store("world"), rank=rank, world_size=size)
    # Each chooses its algorithms for itself.
    groups = {"qpmesh": dist.group.WORLD, "shared": dist.new_group(), "gloo": dist.new_group(backend="gloo")}
    globals()[options.what](groups, options.rounds)


main()
