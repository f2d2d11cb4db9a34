# SPDX-License-Identifier: MIT
"""The module qpmesh takes torch's tensors by DLPack, and writes into their memory."""

import qpmesh
import torch

types = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
         torch.complex64, torch.complex128]

with qpmesh.init() as world:
    rank, size = world.rank, world.size
    for dtype in types:
        tensor = torch.arange(6).to(dtype).reshape(2, 3) + rank
        expected = sum(torch.arange(6).to(dtype).reshape(2, 3) + of for of in range(size))
        out = torch.zeros_like(tensor)
        assert world.allreduce(tensor, out=out) is out
        assert out.dtype == dtype and torch.equal(out, expected), (dtype, out)
        assert torch.equal(tensor, torch.arange(6).to(dtype).reshape(2, 3) + rank)
        assert world.allreduce(tensor) is tensor and torch.equal(tensor, expected), (dtype, tensor)
        world.broadcast(out.fill_(rank + 1), size - 1)
        assert out.eq(size).all(), dtype
        got = torch.zeros(2, 3, dtype=dtype)
        status = world.sendrecv(tensor + rank, (rank + 1) % size, got, (rank - 1) % size)
        assert torch.equal(got, expected + (rank - 1) % size) and status.bytes == 6 * tensor.element_size(), dtype
        rows = [torch.zeros(of + 1, dtype=dtype) for of in range(size)]
        world.allgather(torch.full((rank + 1,), rank, dtype=dtype), rows)
        assert all(row.eq(of).all() for of, row in enumerate(rows)), dtype
        if not dtype.is_complex:
            assert world.allreduce(torch.full((3,), rank, dtype=dtype), "max").eq(size - 1).all(), dtype
    # As numbers of 16 bits they would add up to others.
    third = torch.full((1000,), 1 / 3, dtype=torch.bfloat16)
    assert world.allreduce(third.clone()).float().sub(size / 3).abs().max() < 0.02 * size
    thirds = world.allgather(third)  # numpy has no such type: a new tensor
    assert thirds.dtype == torch.bfloat16 and thirds.shape == (size, 1000) and thirds.eq(third).all()
    part = torch.zeros(4, 3)
    world.allreduce(part[1:3].fill_(1.0))  # rows of a larger one
    assert part.sum(1).tolist() == [0, 3 * size, 3 * size, 0]
    for given, text in ((torch.ones(3, 4).t(), "contiguous"), (torch.ones(3, requires_grad=True), "grad"), (torch.ones(3).bool(), "bool has no sum")):
        try:
            world.allreduce(given)
            raise AssertionError(f"it was taken: {given}")
        except (BufferError, RuntimeError, TypeError) as error:
            assert text in str(error) and isinstance(error, qpmesh.Error) == (given.dtype == torch.bool), error
    world.barrier()
