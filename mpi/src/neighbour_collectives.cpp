// SPDX-License-Identifier: MIT
// Collectives of neighbourhoods: each is one exchange of all ranks' blocks.
#include <algorithm>
#include <utility>
#include <vector>

#include "collective_call.hpp"

namespace qpmesh::mpi {
namespace {

// Blocks for neighbours become one block for each rank: several neighbours may be the same rank.
// Of a Cartesian dimension, what goes to the one side comes from the other.
struct Neighbourhood {
  explicit Neighbourhood(const Communicator& own) : topology{own.topology.get()} {
    require(topology != nullptr, MPI_ERR_TOPOLOGY, "the communicator has no topology");
  }
  const std::vector<int>& targets() const noexcept { return topology->targets; }
  const std::vector<int>& sources() const noexcept { return topology->sources; }
  // The place of what is sent to target number index, among those to the same rank.
  std::size_t order(std::size_t index) const noexcept {
    return topology->kind == MPI_CART ? index ^ 1U : index;
  }

  const Topology* topology;
};

// Packs blocks in the order in which they are received, or unpacks them in their own.
template <class BlockOf>
qpmesh_blocks neighbour_blocks(Call& call, const std::vector<int>& neighbours, bool sent,
                               const Neighbourhood& of, BlockOf&& block_of_neighbour) {
  const int count = call.size();
  auto* const lengths = call.list<std::size_t>(count);
  auto* const places = call.list<void*>(count);
  std::fill_n(lengths, count, 0);
  std::fill_n(places, count, nullptr);
  std::vector<std::size_t> order(neighbours.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[sent ? of.order(i) : i] = i;
  std::vector<Elements> elements;
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    elements.push_back(block_of_neighbour(static_cast<int>(i)));
    if (neighbours[i] >= 0) lengths[neighbours[i]] += unsigned_of(elements.back().bytes());
  }
  std::vector<std::byte*> next(unsigned_of(count), nullptr);
  for (int rank = 0; rank < count; ++rank) {
    if (lengths[rank] == 0) continue;
    next[unsigned_of(rank)] = call.staging().memory(static_cast<MPI_Count>(lengths[rank]));
    places[rank] = next[unsigned_of(rank)];
  }
  for (const std::size_t i : order) {
    if (neighbours[i] < 0 || elements[i].bytes() == 0) continue;
    std::byte*& place = next[unsigned_of(neighbours[i])];
    if (sent) call.staging().pack_to(elements[i], place);
    else call.staging().unpack_from(place, elements[i]);
    place += elements[i].bytes();
  }
  return {nullptr, lengths, nullptr, places};
}

template <class Sent, class Received>
void neighbour_exchange(Call& call, const Neighbourhood& of, Sent&& sent, Received&& received) {
  const qpmesh_blocks in = neighbour_blocks(call, of.targets(), true, of, std::forward<Sent>(sent));
  const qpmesh_blocks out =
      neighbour_blocks(call, of.sources(), false, of, std::forward<Received>(received));
  exchange_blocks(call, in, out);
}

// One of the blocks for neighbours, or from them. Where there are none the program's list is empty,
// and may have no address.
Elements given_block(const void* data, MPI_Count count, MPI_Datatype datatype,
                     const std::vector<int>& neighbours) {
  return given(data, neighbours.empty() ? std::min<MPI_Count>(count, 0) : count, datatype);
}

void neighbor_allgather(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                        void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Neighbourhood of{call.communicator()};
  const Elements sent = given_block(send, send_count, send_type, of.targets());
  const Elements block = given_block(receive, receive_count, receive_type, of.sources());
  neighbour_exchange(
      call, of, [&](int) { return sent; }, [&](int index) { return block_of(block, index); });
}

void neighbor_allgatherv(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                         const Vector& received) {
  const Neighbourhood of{call.communicator()};
  const Elements sent = given_block(send, send_count, send_type, of.targets());
  neighbour_exchange(
      call, of, [&](int) { return sent; }, [&](int index) { return received.block(index); });
}

void neighbor_alltoall(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                       void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Neighbourhood of{call.communicator()};
  const Elements sent = given_block(send, send_count, send_type, of.targets());
  const Elements block = given_block(receive, receive_count, receive_type, of.sources());
  neighbour_exchange(
      call, of, [&](int index) { return block_of(sent, index); },
      [&](int index) { return block_of(block, index); });
}

// v and w.
void neighbor_alltoallv(Call& call, const Vector& sent, const Vector& received) {
  require(sent.data != MPI_IN_PLACE, MPI_ERR_BUFFER, "a neighbourhood has no MPI_IN_PLACE");
  const Neighbourhood of{call.communicator()};
  neighbour_exchange(
      call, of, [&](int index) { return sent.block(index); },
      [&](int index) { return received.block(index); });
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

#define QPMESH_MPI_ENTRIES "neighbour_collectives.inc"
#include "counted_entries.inc"
