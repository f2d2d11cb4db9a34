# SPDX-License-Identifier: MIT
"""Every operation, of every type, in the world and in groups, against what one rank computes alone."""

import functools
import itertools
import math

import torch
import torch.distributed as dist

import job

Op = dist.ReduceOp
integers = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
reals = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
complexes = [torch.complex64, torch.complex128]
types = [torch.bool, *integers, *reals, *complexes]


def given(rank, dtype, shape=(3, 4)):
    """What a rank gives: small numbers, of which every type has exact sums and products."""
    count = 1
    for length in shape:
        count *= length
    values = torch.arange(count).remainder(3) + rank % 2 + (rank == 2)
    if dtype is torch.bool:
        return (values % 2 == 0).reshape(shape)
    if dtype.is_complex:
        return torch.complex(values.double(), (values - 1).double()).to(dtype).reshape(shape)
    return values.to(dtype).reshape(shape)


class Layout:
    """A tensor whose memory is not what it shows, row by row."""

    plain = staticmethod(lambda tensor: tensor.clone())
    transposed = staticmethod(lambda tensor: tensor.transpose(0, -1).clone().transpose(0, -1) if tensor.dim() > 1 else tensor.clone())
    strided = staticmethod(lambda tensor: torch.stack([tensor, torch.zeros_like(tensor)], -1)[..., 0])
    all = (plain, transposed, strided)


def same(found, expected, what):
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    assert torch.equal(found, expected), (what, found, expected)


def combined(op, tensors):
    dtype = tensors[0].dtype
    if dtype is torch.bool:
        each = {Op.SUM: torch.logical_or, Op.MAX: torch.logical_or, Op.BOR: torch.logical_or, Op.PRODUCT: torch.logical_and,
                Op.MIN: torch.logical_and, Op.BAND: torch.logical_and, Op.BXOR: torch.logical_xor}[op]
    else:
        each = {Op.SUM: torch.add, Op.AVG: torch.add, Op.PRODUCT: torch.mul, Op.MIN: torch.minimum, Op.MAX: torch.maximum,
                Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor}[op]
    result = functools.reduce(each, tensors)
    if op is Op.AVG:
        result = torch.div(result, len(tensors), rounding_mode="trunc") if dtype in integers else result / len(tensors)
    return result


def reductions(dtype):
    yield from (Op.SUM, Op.PRODUCT)
    if not dtype.is_complex:
        yield from (Op.MIN, Op.MAX)
    if dtype in integers or dtype is torch.bool:
        yield from (Op.BAND, Op.BOR, Op.BXOR)
    if dtype is not torch.bool:
        yield Op.AVG


class Operations:
    """Of one group: ranks are those of the group, roots those of the world."""

    def __init__(self, group, members):
        self.group, self.members, self.size = group, members, len(members)
        self.rank = members.index(job.rank)

    def given_by_all(self, dtype, shape=(3, 4)):
        return [given(rank, dtype, shape) for rank in range(self.size)]

    def reductions(self, dtype):
        everybody = self.given_by_all(dtype)
        for op, layout in zip(reductions(dtype), itertools.cycle(Layout.all)):
            what = (op, dtype, layout)
            expected = combined(op, everybody)
            tensor = layout(everybody[self.rank])
            if dtype.is_complex:  # torch itself sends only sums, as twice as many reals
                options = dist.AllreduceOptions()
                options.reduceOp = op
                self.group.allreduce([tensor], options).wait()
            else:
                dist.all_reduce(tensor, op, group=self.group)
            same(tensor, expected, what)
            for root in range(self.size):
                tensor = layout(everybody[self.rank])
                dist.reduce(tensor, self.members[root], op, group=self.group)
                same(tensor, expected if root == self.rank else everybody[self.rank], what)
            parts = [given(self.rank + i, dtype) for i in range(self.size)]
            expected = combined(op, [given(rank + self.rank, dtype) for rank in range(self.size)])
            tensor = layout(torch.zeros(3, 4, dtype=dtype))
            dist.reduce_scatter(tensor, [layout(part) for part in parts], op, group=self.group)
            same(tensor, expected, what)
            tensor = layout(torch.zeros(3, 4, dtype=dtype))
            dist.reduce_scatter_tensor(tensor, layout(torch.cat(parts)), op, group=self.group)
            same(tensor, expected, what)

    def premultiplied(self):
        for dtype in (torch.float32, torch.bfloat16, torch.complex64):
            tensor = given(self.rank, dtype)
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(2.0), group=self.group)
            same(tensor, combined(Op.SUM, [each * 2 for each in self.given_by_all(dtype)]), "premultiplied")
            op = dist._make_nccl_premul_sum(torch.tensor([2.0], dtype=dtype))
            for root in range(self.size):
                tensor = given(self.rank, dtype)
                dist.reduce(tensor, self.members[root], op, group=self.group)
                everybody = self.given_by_all(dtype)
                same(tensor, combined(Op.SUM, [each * 2 for each in everybody]) if root == self.rank else everybody[self.rank], "premultiplied")
            parts = [given(self.rank + i, dtype) for i in range(self.size)]
            expected = combined(Op.SUM, [given(rank + self.rank, dtype) * 2 for rank in range(self.size)])
            for call, source in ((dist.reduce_scatter, parts), (dist.reduce_scatter_tensor, torch.cat(parts))):
                tensor = torch.zeros(3, 4, dtype=dtype)
                call(tensor, source, op, group=self.group)
                same(tensor, expected, "premultiplied")
            assert all(map(torch.equal, parts, [given(self.rank + i, dtype) for i in range(self.size)]))
        tensors = [given(self.rank, torch.float32), torch.ones(2)]
        options = dist.AllreduceCoalescedOptions()
        options.reduceOp = dist._make_nccl_premul_sum(torch.tensor([3.0]))
        self.group.allreduce_coalesced(tensors, options).wait()
        same(tensors[0], combined(Op.SUM, [each * 3 for each in self.given_by_all(torch.float32)]), "premultiplied")
        same(tensors[1], torch.full((2,), 3.0 * self.size), "premultiplied")
        half = torch.full((2,), 0.001, dtype=torch.float16)  # the factor is none of its type
        dist.all_reduce(half, dist._make_nccl_premul_sum(torch.tensor([1e5])), group=self.group)
        same(half, torch.full((2,), 0.001, dtype=torch.float16).float().mul(1e5).half() * self.size, "premultiplied")
        scalar = torch.tensor(2.0)
        dist.all_reduce(scalar, dist._make_nccl_premul_sum(torch.tensor([[3.0]])), group=self.group)
        same(scalar, torch.tensor(6.0 * self.size), "premultiplied")

    def moves(self, dtype):
        for shape, layout in (((3, 4), Layout.plain), ((3, 4), Layout.transposed), ((3, 4), Layout.strided),
                              ((0,), Layout.plain), ((), Layout.plain), ((9, 1000), Layout.strided)):
            what = (dtype, shape, layout)
            everybody = self.given_by_all(dtype, shape)
            mine, nothing = everybody[self.rank], torch.zeros(shape, dtype=dtype)
            for root in range(self.size):
                tensor = layout(mine)
                dist.broadcast(tensor, self.members[root], group=self.group)
                same(tensor, everybody[root], what)
                is_root = root == self.rank
                rows = [layout(nothing) for _ in everybody] if is_root else None
                dist.gather(layout(mine), rows, self.members[root], group=self.group)
                for found, expected in zip(rows or [], everybody):
                    same(found, expected, what)
                tensor = layout(nothing)
                dist.scatter(tensor, [layout(each) for each in everybody] if is_root else None, self.members[root], group=self.group)
                same(tensor, mine, what)
            rows = [layout(nothing) for _ in everybody]
            dist.all_gather(rows, layout(mine), group=self.group)
            for found, expected in zip(rows, everybody):
                same(found, expected, what)
            if shape:
                tensor = torch.zeros((self.size * shape[0], *shape[1:]), dtype=dtype)
                dist.all_gather_into_tensor(tensor, layout(mine), group=self.group)
                same(tensor, torch.cat(everybody), what)
                parts = [given(self.rank + i, dtype, shape) for i in range(self.size)]
                expected = [given(i + self.rank, dtype, shape) for i in range(self.size)]
                tensor = torch.zeros_like(tensor)
                dist.all_to_all_single(tensor, torch.cat(parts), group=self.group)
                same(tensor, torch.cat(expected), what)
            rows = [layout(nothing) for _ in everybody]
            dist.all_to_all(rows, [layout(given(self.rank + i, dtype, shape)) for i in range(self.size)], group=self.group)
            for i, found in enumerate(rows):
                same(found, given(i + self.rank, dtype, shape), what)

    def half_complex(self):
        """Of which torch 1.13 can do little but show the parts."""
        def of(rank):
            return torch.view_as_complex(torch.tensor([[1.0, rank], [rank, 0.5]], dtype=torch.float16))

        def parts(tensor):
            assert tensor.dtype is torch.complex32
            return torch.view_as_real(tensor).float()

        total = sum(parts(of(rank)) for rank in range(self.size))
        for op, expected in ((Op.SUM, total), (Op.AVG, (total / self.size).half().float())):
            options = dist.AllreduceOptions()
            options.reduceOp = op
            tensor = of(self.rank)
            self.group.allreduce([tensor], options).wait()
            same(parts(tensor), expected, "complex32")
        rows = [of(-1) for _ in range(self.size)]
        dist.all_gather(rows, of(self.rank), group=self.group)
        for rank, row in enumerate(rows):
            same(parts(row), parts(of(rank)), "complex32")
        tensor = of(self.rank)
        dist.broadcast(tensor, self.members[-1], group=self.group)
        same(parts(tensor), parts(of(self.size - 1)), "complex32")
        options.reduceOp = Op.PRODUCT
        job.require_error(lambda: self.group.allreduce([tensor], options), code="bad_argument", cause="there is no PRODUCT of ComplexHalf",
                          hint="convert it to complex64")

    def conjugates(self):
        """Whose memory holds something else than they show, where torch lets them through to us."""
        mine = torch.tensor([1 + 2j, self.rank - 1j]).conj()
        everybody = torch.zeros(2 * self.size, dtype=mine.dtype).conj()
        job.backend_of(self.group)._allgather_base(everybody, mine).wait()
        same(everybody, torch.cat([torch.tensor([1 - 2j, rank + 1j]) for rank in range(self.size)]), "conjugate")

    def unequal_lengths(self):
        lengths = [rank + 1 for rank in range(self.size)]
        everybody = [torch.full((length, 2), float(rank)) for rank, length in enumerate(lengths)]
        rows = [torch.zeros_like(each) for each in everybody]
        dist.all_gather(rows, everybody[self.rank], group=self.group)
        assert all(map(torch.equal, rows, everybody))
        tensor = torch.zeros_like(everybody[self.rank])
        dist.scatter(tensor, everybody if self.rank == 0 else None, self.members[0], group=self.group)
        same(tensor, everybody[self.rank], "scatter")
        rows = [torch.zeros_like(each) for each in everybody] if self.rank == 0 else None
        dist.gather(tensor, rows, self.members[0], group=self.group)
        assert self.rank != 0 or all(map(torch.equal, rows, everybody))
        dist.reduce_scatter(tensor, everybody, group=self.group)
        same(tensor, everybody[self.rank] * self.size, "reduce_scatter")
        # Rank r sends r + 1 rows to each; the second time with no row for itself.
        for own in (1, 0):
            sent = [(self.rank + 1) * (own if i == self.rank else 1) for i in range(self.size)]
            got = [(i + 1) * (own if i == self.rank else 1) for i in range(self.size)]
            tensor = torch.full((sum(got), 2), -1.0)
            dist.all_to_all_single(tensor, torch.full((sum(sent), 2), float(self.rank)), got, sent, group=self.group)
            same(tensor, torch.cat([torch.full((count, 2), float(i)) for i, count in enumerate(got)]), "all_to_all_single")

    def coalesced(self):
        lengths = (1, 7, 0, 5000, 3, 20000)
        tensors = [Layout.strided(torch.full((length,), self.rank + 1.0)) for length in lengths]
        dist.all_reduce_coalesced(tensors, group=self.group)
        total = self.size * (self.size + 1) / 2.0
        for tensor, length in zip(tensors, lengths):
            same(tensor, torch.full((length,), total), "all_reduce_coalesced")
        works = []
        for dtype, op, expected in ((torch.float64, Op.AVG, (self.size + 1) / 2), (torch.int16, Op.MAX, self.size),
                                    (torch.complex64, Op.PRODUCT, math.factorial(self.size) * 1j ** self.size)):
            tensors = [torch.full((length,), self.rank + 1, dtype=dtype) * (1j if dtype.is_complex else 1) for length in lengths]
            options = dist.AllreduceCoalescedOptions()
            options.reduceOp = op
            works.append((self.group.allreduce_coalesced(tensors, options), tensors, dtype, expected))
        works.append((job.backend_of(self.group).allreduce_coalesced([], options), [], dtype, 0))
        for work, tensors, dtype, expected in reversed(works):
            work.wait()
            for tensor, length in zip(tensors, lengths):
                same(tensor, torch.full((length,), expected, dtype=dtype), "several coalesced calls in flight")
        rows = [[torch.zeros(length) for length in lengths] for _ in range(self.size)]
        dist.all_gather_coalesced(rows, [torch.full((length,), float(self.rank)) for length in lengths], group=self.group)
        for rank, row in enumerate(rows):
            for tensor, length in zip(row, lengths):
                same(tensor, torch.full((length,), float(rank)), "all_gather_coalesced")
        tensors = [torch.ones(2, 3), torch.ones(4)] if self.rank == 0 else [torch.zeros(2, 3), torch.zeros(4)]
        dist._broadcast_coalesced(self.group, tensors, 1024, 0)
        assert all(tensor.eq(1).all() for tensor in tensors)

    def messages(self):
        if self.size < 2:
            return
        following, before = self.members[(self.rank + 1) % self.size], self.members[self.rank - 1]
        for length in (0, 1, 1000, 300_000):
            for layout in (Layout.plain, Layout.strided):
                for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64):
                    found = layout(torch.zeros(length, dtype=dtype))
                    works = [dist.isend(layout(given(self.rank, dtype, (length,))), following, self.group, 3),
                             dist.irecv(found, before, self.group, 3)]
                    for work in works:
                        work.wait()
                    same(found, given((self.rank - 1) % self.size, dtype, (length,)), "isend, irecv")
        # By tags, whatever the order.
        one, two = torch.zeros(2), torch.zeros(2)
        work = dist.isend(torch.ones(2), following, self.group, 1)
        work_two = dist.isend(torch.full((2,), 2.0), following, self.group, 2)
        dist.recv(two, before, self.group, 2)
        dist.recv(one, before, self.group, 1)
        work.wait(), work_two.wait()
        assert one[0] == 1 and two[0] == 2
        # From whoever sends.
        if self.rank == 0:
            seen = set()
            for _ in range(self.size - 1):
                source = dist.recv(one, None, self.group, 5)
                assert self.members.index(source) == one[0]
                seen.add(source)
            assert seen == set(self.members[1:])
        else:
            dist.send(torch.full((2,), float(self.rank)), self.members[0], self.group, 5)
        found, sent = torch.zeros(500), torch.full((500,), float(self.rank))
        for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, following, self.group),
                                               dist.P2POp(dist.irecv, found, before, self.group)]):
            request.wait()
        same(found, torch.full((500,), float((self.rank - 1) % self.size)), "batch_isend_irecv")

    def objects(self):
        things = [None] * self.size
        dist.all_gather_object(things, {"rank": self.rank, "pad": "x" * self.rank}, group=self.group)
        assert [thing["rank"] for thing in things] == list(range(self.size))
        things = [f"from {self.rank}", self.rank]
        dist.broadcast_object_list(things, self.members[-1], group=self.group)
        assert things == [f"from {self.size - 1}", self.size - 1]
        things = [None] * self.size if self.rank == 0 else None
        dist.gather_object(self.rank, things, self.members[0], group=self.group)
        assert things in (None, list(range(self.size)))
        if self.members[0] != 0:  # torch 1.13 takes the root's number in the group for that in the world
            return
        mine = [None]
        dist.scatter_object_list(mine, list(range(self.size)), self.members[0], group=self.group)
        assert mine == [self.rank]

    def barriers(self):
        dist.barrier(group=self.group)
        self.group.monitored_barrier()

    def works(self):
        """Many at a time, ended in any order, by wait, by looks, by a future, or by nobody."""
        tensors = [torch.full((1 + 3000 * i,), 1.0) for i in range(12)]
        works = [dist.all_reduce(tensor, group=self.group, async_op=True) for tensor in tensors]
        del works[5], works[4]
        futures = [work.get_future() for work in works[:3]]
        doubled = [future.then(lambda future: future.value()[0] * 2) for future in futures]

        def fails(_future):
            raise ValueError("by the program")

        broken = [future.then(fails) for future in futures]
        works[-1].wait()
        while not works[-2].is_completed():
            pass
        assert all(future.wait().eq(2 * self.size).all() for future in doubled)
        for future in broken:  # whose operations have ended well
            try:
                future.wait()
                raise AssertionError("the callback's exception is lost")
            except RuntimeError as error:
                assert "ValueError: by the program" in str(error), str(error)
        for work in works:
            assert work.wait() and work.is_completed() and work.result()[0].eq(self.size).all()
        dist.barrier(group=self.group)
        assert all(tensor.eq(self.size).all() for tensor in tensors)
        numbers = [None] * self.size
        dist.all_gather_object(numbers, job.backend_of(self.group)._get_sequence_number_for_group(), group=self.group)
        assert len(set(numbers)) == 1, numbers

    def all(self):
        for dtype in types:
            self.reductions(dtype)
            self.moves(dtype)
        self.premultiplied()
        self.half_complex()
        self.conjugates()
        self.unequal_lengths()
        self.coalesced()
        self.messages()
        self.objects()
        self.barriers()
        self.works()


def main():
    job.begin()
    Operations(dist.group.WORLD, list(range(job.size))).all()
    # In one order, as torch wants it, by their members alone; two of the same ranks at a time.
    lists = [[job.size - 1], list(range(0, job.size, 2)), list(range(job.size)), list(range(job.size))]
    for members in lists:
        group = dist.new_group(members)
        if job.rank in members:
            Operations(group, members).all()
    dist.destroy_process_group()


main()
