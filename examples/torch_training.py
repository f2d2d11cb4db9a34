# SPDX-License-Identifier: MIT
"""A small language model, trained by all ranks on data of their own: PyTorch's DistributedDataParallel over qpmesh.

    torchrun --nproc_per_node 2 examples/torch_training.py           # or: qpmesh-run -np 2 python3 examples/torch_training.py
    … --backend gloo                                                 # the same over what torch has itself
    … --compare                                                      # both; the losses of two ranks are equal bit for bit

Sentences are made by a grammar of a few rules, so the model can learn what comes next; the loss falls from 3.2 to about 1.
"""

import argparse
import os
import random
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import qpmesh_torch  # noqa: F401  registers the backend

letters = "abcdefghijklmnopqrstuvwxyz ."
length, width, batch = 32, 48, 16


def sentence(made_by):
    who = made_by.choice(["the cat", "a dog", "the old king", "my friend", "nobody"])
    does = made_by.choice(["sees", "likes", "follows", "forgets"])
    whom = made_by.choice(["the moon", "a mouse", "the sea", "an apple", "everybody"])
    return f"{who} {does} {whom}. "


def batches(rank):
    """Without end: what comes in, and what comes next."""
    made_by = random.Random(rank)
    while True:
        rows = []
        for _ in range(batch):
            text = ""
            while len(text) <= length:
                text += sentence(made_by)
            rows.append([letters.index(letter) for letter in text[: length + 1]])
        rows = torch.tensor(rows)
        yield rows[:, :-1], rows[:, 1:]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = torch.nn.Embedding(len(letters), width)
        self.places = torch.nn.Embedding(length, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(width, len(letters))
        self.register_buffer("later", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, rows):
        return self.head(self.layers(self.letters(rows) + self.places.weight, self.later))


def train(group, steps):
    torch.manual_seed(0)
    model = DistributedDataParallel(Model(), process_group=group)
    optimizer = torch.optim.AdamW(model.parameters(), 0.003)
    losses = []
    for step, (rows, following) in zip(range(steps), batches(dist.get_rank())):
        loss = torch.nn.functional.cross_entropy(model(rows).transpose(1, 2), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        dist.all_reduce(loss, group=group)
        losses.append(loss.item() / dist.get_world_size(group))
        if dist.get_rank() == 0 and step % 20 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}", flush=True)
    return losses


def begin(backend):
    if "QPMESH_RANK" in os.environ and "RANK" not in os.environ:  # under qpmesh-run
        store = dist.FileStore(os.path.join(tempfile.gettempdir(), f"torch_training.{os.environ['QPMESH_JOB']}"), int(os.environ["QPMESH_SIZE"]))
        dist.init_process_group(backend, store=store, rank=int(os.environ["QPMESH_RANK"]), world_size=int(os.environ["QPMESH_SIZE"]))
    else:
        dist.init_process_group(backend)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--backend", default="qpmesh")
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--compare", action="store_true", help="train with qpmesh and with gloo, and compare")
    options = options.parse_args()
    torch.set_num_threads(1)
    begin(options.backend)
    losses = train(dist.group.WORLD, options.steps)
    if options.compare:
        others = train(dist.new_group(backend="gloo"), options.steps)
        if others != losses:
            step = next(i for i, pair in enumerate(zip(losses, others)) if pair[0] != pair[1])
            raise SystemExit(f"the losses differ from step {step} on: {losses[step]!r} over qpmesh, {others[step]!r} over gloo")
        if dist.get_rank() == 0:
            print(f"{options.steps} losses are equal, bit for bit, over qpmesh and over gloo; the last one is {losses[-1]:.4f}")
    dist.destroy_process_group()


main()
