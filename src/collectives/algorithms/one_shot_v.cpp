// One shot of a v-form: of a gather, scatter or alltoall whose lengths only the ranks concerned
// know. Who has something to give publishes how long each block is, and the blocks behind that;
// long ones stay where they are, and it publishes where each begins. Whoever wants a block finds it
// by this table, and whether both ends gave it one length.
// Wins on one node. Cost: a line, two copies of a short block and one of a long one.
// Sources: those of one_shot and cma.
#include <algorithm>
#include <cstring>

#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/work.hpp"
#include "messaging/elements.hpp"

namespace qpmesh::collectives {
namespace {

// Longer vectors are not staged.
constexpr std::size_t staged_bytes_max = std::size_t{256} << 10;

// The ranks read each other's memory, and only some of them know each length.
bool fits(const CallShape& shape) {
  return shape.uneven && shape.cma && shape.size > 1 && shape.size <= node_ranks_max;
}

// Where a block lies that follows those before: long ones begin at a line.
std::size_t place_of(std::size_t end_of_last, std::size_t bytes) noexcept {
  return bytes < node_slot_bytes ? end_of_last
                                 : base::round_up(end_of_last, base::cache_line_bytes);
}

// What a rank gives: the blocks of a vector, but for the one that it takes itself.
struct Given {
  static constexpr int none = -1;

  const std::byte* vector;
  const Blocks& blocks;
  int kept = none;
  std::size_t staged_bytes = 0;
  std::size_t vector_bytes = 0;  // to the end of the last block
  bool is_exposed = false;

  Given(const std::byte* of_vector, const Blocks& of_blocks, int kept_block = none) noexcept
      : vector{of_vector}, blocks{of_blocks}, kept{kept_block} {
    staged_bytes = list_bytes();
    for (int block = 0; block < blocks.block_count; ++block) {
      const std::size_t bytes = length_bytes(block);
      if (bytes == 0) continue;
      staged_bytes = place_of(staged_bytes, bytes) + bytes;
      vector_bytes = std::max(vector_bytes, blocks.first_bytes(block) + bytes);
    }
    is_exposed = staged_bytes > staged_bytes_max;
  }
  std::size_t length_bytes(int block) const noexcept {
    return block == kept ? 0 : blocks.length_bytes(block);
  }
  std::size_t list_bytes() const noexcept {  // an entry for each block
    return sizeof(std::uint64_t) * static_cast<std::size_t>(blocks.block_count);
  }
  std::size_t published_bytes() const noexcept {
    return is_exposed ? 2 * list_bytes() : staged_bytes;
  }
  std::size_t staging_bytes() const noexcept {
    return NodeOperation::staging_for(published_bytes());
  }

  void publish(NodeOperation& node) const noexcept {
    std::byte* const lengths = node.place_for(published_bytes());
    std::byte* const begins = lengths + list_bytes();
    std::size_t end = list_bytes();
    for (int block = 0; block < blocks.block_count; ++block) {
      const std::uint64_t bytes = length_bytes(block);
      const std::uint64_t first = blocks.first_bytes(block);
      const std::size_t entry = sizeof bytes * static_cast<std::size_t>(block);
      std::memcpy(lengths + entry, &bytes, sizeof bytes);
      if (is_exposed) {
        std::memcpy(begins + entry, &first, sizeof first);
      } else if (bytes > 0) {
        const std::size_t place = place_of(end, bytes);
        base::copy_bytes(lengths + place, vector + first, bytes);
        end = place + bytes;
      }
    }
    if (is_exposed) node.expose_result(vector, vector_bytes);
    node.publish_placed(published_bytes(), is_exposed);
  }
};

// A block of what a member published, which has so many.
struct Wanted {
  int from;
  int block;
  int block_count;
};

std::uint64_t entry_of(const NodeOperation& node, int from, int index) {
  std::uint64_t entry = 0;
  const std::size_t begin = sizeof entry * static_cast<std::size_t>(index);
  std::memcpy(&entry, node.placed(from, begin, sizeof entry), sizeof entry);
  return entry;
}

// Copies it. False: the member has revoked it, or is gone. Throws Error{mismatch} where its length
// is another one than is due.
bool take(const Group& group, const NodeOperation& node, const Wanted& wanted, std::byte* target,
          std::size_t bytes_due) {
  const int from = wanted.from;
  const std::uint64_t bytes = entry_of(node, from, wanted.block);
  if (bytes != bytes_due) throw Error{messaging::wrong_step_length(from, bytes, bytes_due)};
  if (bytes == 0) return true;
  if (node.places_apart(from)) {
    const std::uint64_t begin = entry_of(node, from, wanted.block_count + wanted.block);
    return node.copy_exposed_result(from, target, begin, bytes_due);
  }
  std::size_t end = sizeof bytes * static_cast<std::size_t>(wanted.block_count);
  for (int block = 0; block < wanted.block; ++block) {
    const std::uint64_t before = entry_of(node, from, block);
    if (before > 0) end = place_of(end, before) + before;
  }
  group.copy(target, node.placed(from, place_of(end, bytes_due), bytes_due), bytes_due);
  return true;
}

Task gather(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  if (group.rank() != root) {
    const Blocks own = even_blocks(arguments.element_count, 1, arguments.element_bytes);
    const Given given{arguments.in, own};
    NodeOperation node{group, given.staging_bytes()};
    co_await node.own_slot();
    given.publish(node);
    if (given.is_exposed) co_await node.member(root, 1);
    co_return;
  }
  NodeOperation node{group};
  const Blocks& blocks = arguments.out_blocks;
  group.copy(arguments.out + blocks.first_bytes(root), arguments.in, arguments.bytes());
  bool is_awaited = false;
  for (int from = group.next(); from != root; from = group.after(from)) {
    co_await node.member(from, 1);
    if (!take(group, node, {from, 0, 1}, arguments.out + blocks.first_bytes(from),
              blocks.length_bytes(from)))
      co_await node.failure_of(from);
    is_awaited |= node.places_apart(from);
  }
  if (!is_awaited) co_return;
  co_await node.own_slot();
  node.publish({});
}

Task scatter(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  const int rank = group.rank();
  if (rank == root) {
    const Blocks& blocks = arguments.in_blocks;
    const Given given{arguments.in, blocks, rank};
    NodeOperation node{group, given.staging_bytes()};
    co_await node.own_slot();
    given.publish(node);
    group.copy(arguments.out, arguments.in + blocks.first_bytes(root), arguments.bytes());
    if (given.is_exposed) co_await node.all(1);
    co_return;
  }
  NodeOperation node{group};
  co_await node.member(root, 1);
  if (!take(group, node, {root, rank, group.size()}, arguments.out, arguments.bytes()))
    co_await node.failure_of(root);
  if (!node.places_apart(root)) co_return;
  co_await node.own_slot();
  node.publish({});
}

Task alltoall(Group group, const Arguments& arguments) {
  const Blocks& in_blocks = arguments.in_blocks;
  const Blocks& out_blocks = arguments.out_blocks;
  const int rank = group.rank();
  const Given given{arguments.in, in_blocks, rank};
  NodeOperation node{group, given.staging_bytes()};
  co_await node.own_slot();
  given.publish(node);
  group.copy(arguments.out + out_blocks.first_bytes(rank),
             arguments.in + in_blocks.first_bytes(rank), out_blocks.length_bytes(rank));
  bool is_awaited = false;
  for (int from = group.next(); from != rank; from = group.after(from)) {
    co_await node.member(from, 1);
    if (!take(group, node, {from, rank, group.size()}, arguments.out + out_blocks.first_bytes(from),
              out_blocks.length_bytes(from)))
      co_await node.failure_of(from);
    is_awaited |= node.places_apart(from);
  }
  if (is_awaited || given.is_exposed) node.advance(2);
  if (given.is_exposed) co_await node.all(2);
}

// Nobody knows all lengths: of the bytes that are told, none.
Cost gather_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {.give = shape.block_bytes()}, {.take = shape.others_bytes()});
}
Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {.parts = shape.block_bytes()}, {.give = shape.vector_bytes()});
}
Cost alltoall_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1,
                   {.keep = shape.block_bytes(), .parts = 2 * shape.others_bytes()});
}

}  // namespace

extern constexpr Algorithm gather_one_shot_v{Collective::gather, "one_shot_v", fits, gather_cost,
                                             gather};
extern constexpr Algorithm scatter_one_shot_v{Collective::scatter, "one_shot_v", fits, scatter_cost,
                                              scatter};
extern constexpr Algorithm alltoall_one_shot_v{Collective::alltoall, "one_shot_v", fits,
                                               alltoall_cost, alltoall};

}  // namespace qpmesh::collectives
