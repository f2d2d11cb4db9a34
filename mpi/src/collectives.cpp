// SPDX-License-Identifier: MIT
// The barrier, and collectives that move.
#include "collective_call.hpp"

namespace qpmesh::mpi {
namespace {

// ---- vectors ----

// Have blocks that are received memory in common? MPI calls that erroneous, and programs do it: the
// last block is what stays then.
bool overlap(const Vector& vector, int count) {
  const auto end_of = [&](const Elements& block) {
    const MPI_Aint last = (block.count - 1) * block.type->extent();
    return static_cast<const std::byte*>(block.data) + last + block.type->true_bounds.upper;
  };
  const auto begin_of = [&](const Elements& block) {
    return static_cast<const std::byte*>(block.data) + block.type->true_bounds.lower;
  };
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  for (int i = 0; i < count; ++i) {
    const Elements block = vector.block(i);
    if (block.bytes() > 0) ranges.emplace_back(begin_of(block), end_of(block));
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return true;
  return false;
}

// Blocks where they lie, or, where a block's elements have gaps, packed.
enum class Use { sent, received, sent_in_place };

qpmesh_blocks blocks(Call& call, const Vector& vector, Use use) {
  const int count = call.size();
  auto* const lengths = call.list<std::size_t>(count);
  auto* const places = call.list<void*>(count);
  const bool apart = use == Use::received && overlap(vector, count);
  for (int i = 0; i < count; ++i) {
    const Elements block = vector.block(i);
    lengths[i] = unsigned_of(block.bytes());
    if (apart) places[i] = call.staging().unpacked(block);
    else if (use == Use::received) places[i] = call.target(block);
    else if (use == Use::sent) places[i] = const_cast<std::byte*>(call.source(block));
    else places[i] = const_cast<std::byte*>(call.staging().packed(block));
  }
  return {nullptr, lengths, nullptr, places};
}

// One type without gaps, no block before the buffer, and none that is received before the end of
// another one: the usual vector, without a list of places. Otherwise nothing: blocks() has it, and
// says what is wrong.
std::optional<qpmesh_blocks> plain_blocks(Call& call, const Vector& vector, Use use) {
  vector.check_lists();
  // Of types of its own each, that of an empty block may be null.
  if (vector.typed_blocks) return std::nullopt;
  const Datatype& type = committed_type(vector.types[0]);
  if (!type.in_one_piece(2)) return std::nullopt;
  const MPI_Count size = type.size;
  const int count = call.size();
  auto* const lengths = call.list<std::size_t>(2 * count);
  auto* const offsets = lengths + count;
  const auto fill = [=](const auto* counts, const auto* displacements) {
    MPI_Count end = 0;
    for (int i = 0; i < count; ++i) {
      const MPI_Count length = counts[i];
      const MPI_Count begin = length == 0 ? 0 : displacements[i];  // an empty block lies anywhere
      lengths[i] = unsigned_of(length * size);
      offsets[i] = unsigned_of(begin * size);
      if (length == 0) continue;
      if (length < 0 || begin < end) return false;
      if (use == Use::received) end = begin + length;
    }
    return true;
  };
  if (!vector.counts.with(vector.displacements, fill)) return std::nullopt;
  auto* const data = static_cast<std::byte*>(const_cast<void*>(vector.data));
  return qpmesh_blocks{type.first_byte(data), lengths, offsets, nullptr};
}

qpmesh_blocks vector_blocks(Call& call, const Vector& vector, Use use) {
  const std::optional<qpmesh_blocks> plain = plain_blocks(call, vector, use);
  return plain ? copied(*plain) : blocks(call, vector, use);
}

std::byte* block_of(const qpmesh_blocks& blocks, int rank) {
  return blocks.ranges != nullptr
             ? static_cast<std::byte*>(blocks.ranges[rank])
             : static_cast<std::byte*>(blocks.data) + blocks.displacements[rank];
}

// ---- the collectives ----

void barrier(Call& call) {
  call.run([](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr ? qpmesh_barrier(mesh, nullptr)
                              : qpmesh_barrier_async(mesh, nullptr, request);
  });
}

void broadcast(Call& call, void* buffer, MPI_Count count, MPI_Datatype type, int root) {
  check_root(call.communicator(), root);
  const Elements elements = given(buffer, count, type);
  void* const data =
      call.rank() == root ? const_cast<std::byte*>(call.source(elements)) : call.target(elements);
  const std::size_t bytes = unsigned_of(elements.bytes());
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_broadcast(mesh, data, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_broadcast_async(mesh, data, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

// This rank's block of what it receives is what it sends.
const std::byte* own_block(Call& call, const Elements& block, int index, std::byte* out) {
  std::byte* const own = out + index * block.bytes();
  if (!times(block, call.size()).in_one_piece())
    call.staging().pack_to(block_of(block, index), own);
  return own;
}

void allgather(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
               void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Elements block = given(receive, receive_count, receive_type);
  std::byte* const out = call.target(times(block, call.size()));
  std::size_t bytes = unsigned_of(block.bytes());
  const std::byte* in = nullptr;
  if (send == MPI_IN_PLACE) {
    in = own_block(call, block, call.rank(), out);
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    bytes = unsigned_of(sent.bytes());
    require(sent.bytes() <= block.bytes(), MPI_ERR_TRUNCATE, "each rank sends ", sent.bytes(),
            " bytes, and has room for ", block.bytes(), " of each");
    require(sent.bytes() == block.bytes(), MPI_ERR_COUNT, "each rank sends ", sent.bytes(),
            " bytes, and expects ", block.bytes(), " of each");
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_allgather(mesh, in, out, bytes, QPMESH_BYTE, nullptr)
               : qpmesh_allgather_async(mesh, in, out, bytes, QPMESH_BYTE, nullptr, request);
  });
}

void allgatherv(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                const Vector& received) {
  const qpmesh_blocks out = vector_blocks(call, received, Use::received);
  const int rank = call.rank();
  const std::byte* in = nullptr;
  std::size_t bytes = out.counts[rank];
  if (send == MPI_IN_PLACE) {
    std::byte* const own = block_of(out, rank);
    const Elements block = received.block(rank);
    if (own != block.first_byte()) call.staging().pack_to(block, own);
    in = own;
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    bytes = unsigned_of(sent.bytes());
  }
  call.run([=, out = copied(out)](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_allgatherv(mesh, in, bytes, &out, QPMESH_BYTE, nullptr)
               : qpmesh_allgatherv_async(mesh, in, bytes, &out, QPMESH_BYTE, nullptr, request);
  });
}

void gather(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
            void* receive, MPI_Count receive_count, MPI_Datatype receive_type, int root) {
  check_root(call.communicator(), root);
  std::byte* out = nullptr;
  const std::byte* in = nullptr;
  std::size_t bytes = 0;
  const bool in_place = call.rank() == root && send == MPI_IN_PLACE;
  if (call.rank() == root) {
    const Elements block = given(receive, receive_count, receive_type);
    out = call.target(times(block, call.size()));
    bytes = unsigned_of(block.bytes());
    if (in_place) in = own_block(call, block, root, out);
  }
  if (!in_place) {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    if (call.rank() != root) bytes = unsigned_of(sent.bytes());
    require(unsigned_of(sent.bytes()) == bytes, MPI_ERR_COUNT, "the root sends ", sent.bytes(),
            " bytes, and expects ", bytes, " of each rank");
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_gather(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_gather_async(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

void gatherv(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
             const Vector& received, int root) {
  check_root(call.communicator(), root);
  qpmesh_blocks out{};
  const std::byte* in = nullptr;
  std::size_t bytes = 0;
  const bool has_all = call.rank() == root;
  if (has_all) out = vector_blocks(call, received, Use::received);
  if (has_all && send == MPI_IN_PLACE) {
    std::byte* const own = block_of(out, root);
    const Elements block = received.block(root);
    if (own != block.first_byte()) call.staging().pack_to(block, own);
    in = own;
    bytes = out.counts[root];
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    bytes = unsigned_of(sent.bytes());
  }
  call.run([=, out = copied(out)](qpmesh_communicator* mesh, qpmesh_request** request) {
    const qpmesh_blocks* const all = has_all ? &out : nullptr;
    return request == nullptr
               ? qpmesh_gatherv(mesh, in, bytes, all, QPMESH_BYTE, root, nullptr)
               : qpmesh_gatherv_async(mesh, in, bytes, all, QPMESH_BYTE, root, nullptr, request);
  });
}

void scatter(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
             void* receive, MPI_Count receive_count, MPI_Datatype receive_type, int root) {
  check_root(call.communicator(), root);
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t bytes = 0;
  if (call.rank() == root) {
    const Elements block = given(send, send_count, send_type);
    in = call.source(times(block, call.size()));
    bytes = unsigned_of(block.bytes());
  }
  if (call.rank() == root && receive == MPI_IN_PLACE) {
    out = const_cast<std::byte*>(in) + unsigned_of(root) * bytes;
  } else {
    const Elements received = given(receive, receive_count, receive_type);
    out = call.target(received);
    if (call.rank() != root) bytes = unsigned_of(received.bytes());
    require(unsigned_of(received.bytes()) == bytes, MPI_ERR_COUNT, "the root sends ", bytes,
            " bytes to each rank, and expects ", received.bytes());
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_scatter(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_scatter_async(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

void scatterv(Call& call, const Vector& sent, void* receive, MPI_Count receive_count,
              MPI_Datatype receive_type, int root) {
  check_root(call.communicator(), root);
  qpmesh_blocks in{};
  std::byte* out = nullptr;
  std::size_t bytes = 0;
  const bool has_all = call.rank() == root;
  if (has_all) in = vector_blocks(call, sent, Use::sent);
  if (has_all && receive == MPI_IN_PLACE) {
    out = block_of(in, root);
    bytes = in.counts[root];
  } else {
    const Elements received = given(receive, receive_count, receive_type);
    out = call.target(received);
    bytes = unsigned_of(received.bytes());
  }
  call.run([=, in = copied(in)](qpmesh_communicator* mesh, qpmesh_request** request) {
    const qpmesh_blocks* const all = has_all ? &in : nullptr;
    return request == nullptr
               ? qpmesh_scatterv(mesh, all, out, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_scatterv_async(mesh, all, out, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

void alltoall(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
              void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Elements block = given(receive, receive_count, receive_type);
  const Elements received = times(block, call.size());
  std::byte* const out = call.target(received);
  const std::size_t bytes = unsigned_of(block.bytes());
  const std::byte* in = nullptr;
  if (send == MPI_IN_PLACE) {
    in = call.staging().packed(received);
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(times(sent, call.size()));
    require(sent.bytes() == block.bytes(), MPI_ERR_COUNT, "each rank sends ", sent.bytes(),
            " bytes to each, and expects ", block.bytes());
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_alltoall(mesh, in, out, bytes, QPMESH_BYTE, nullptr)
               : qpmesh_alltoall_async(mesh, in, out, bytes, QPMESH_BYTE, nullptr, request);
  });
}

// v and w.
void alltoallv(Call& call, const Vector& sent, const Vector& received) {
  const bool in_place = sent.data == MPI_IN_PLACE;
  // Both, or none, have lists of places.
  if (!in_place) {
    const std::optional<qpmesh_blocks> in = plain_blocks(call, sent, Use::sent);
    const std::optional<qpmesh_blocks> out =
        in ? plain_blocks(call, received, Use::received) : std::nullopt;
    if (out) return exchange_blocks(call, *in, *out);
  }
  const qpmesh_blocks in =
      in_place ? blocks(call, received, Use::sent_in_place) : blocks(call, sent, Use::sent);
  exchange_blocks(call, in, blocks(call, received, Use::received));
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Barrier, (MPI_Comm comm)) { return collective("MPI_Barrier", comm, barrier); }
QPMESH_MPI_ENTRY(Ibarrier, (MPI_Comm comm, MPI_Request* request)) {
  return begun("MPI_Ibarrier", comm, request, barrier);
}
QPMESH_MPI_ENTRY(Barrier_init, (MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
  return prepared("MPI_Barrier_init", comm, info, request, barrier);
}

#define QPMESH_MPI_ENTRIES "collectives.inc"
#include "counted_entries.inc"
