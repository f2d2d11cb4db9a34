// SPDX-License-Identifier: MIT
// One shot of a v-form: of a gather, scatter or alltoall whose lengths only the ranks concerned
// know. Who has something to give publishes how long each block is, and the blocks behind that;
// long ones stay where they are, and it publishes where each begins. Whoever wants a block finds it
// by this table, and whether both ends gave it one length. Where a block is empty at both ends,
// neither waits for the other.
// Wins on one node. Cost: a line, two copies of a short block and one of a long one.
// Sources: those of one_shot and cma.
#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/work.hpp"
#include "messaging/elements.hpp"

namespace qpmesh::collectives {
namespace {

// Longer vectors are not staged: where each rank has a core one copy takes less time than two, and
// who shares one would have to wait for it until the others have read.
constexpr std::size_t staged_bytes_max = std::size_t{8} << 10;
constexpr std::size_t staged_bytes_max_on_shared_cores = std::size_t{512} << 10;

// The ranks read each other's memory, and only some of them know each length.
bool fits(const CallShape& shape) {
  return shape.uneven && shape.cma && shape.size > 1 && shape.size <= node_ranks_max;
}

// Where a block lies that follows those before: long ones begin at a line.
std::size_t place_of(std::size_t end_of_last, std::size_t bytes) noexcept {
  return bytes < node_slot_bytes ? end_of_last
                                 : base::round_up(end_of_last, base::cache_line_bytes);
}

// An entry of the table: how long a block is, and the sum of what its giver has given its taker so
// far (NodeOperation::gifts_to), or 0. So a block that was given where none was awaited shows in
// the next one between the two that is not 0.
constexpr int length_bits = 48;
constexpr std::uint64_t length_mask = (std::uint64_t{1} << length_bits) - 1;
struct Entry {
  std::uint64_t bytes;
  std::uint16_t gifts;
};

// What a rank gives: the blocks of a vector, but for the one that it takes itself; or nothing.
struct Given {
  static constexpr int none = -1;

  const std::byte* vector = nullptr;
  Blocks blocks{};
  int first_taker = 0;  // of the first block; the others follow
  int kept = none;
  std::size_t staged_bytes = 0;
  std::size_t vector_bytes = 0;  // to the end of the last block; 0: nothing is given
  bool is_exposed = false;

  Given() = default;
  Given(const Group& group, const std::byte* of_vector, const Blocks& of_blocks, int taker,
        int kept_block) noexcept
      : vector{of_vector}, blocks{of_blocks}, first_taker{taker}, kept{kept_block} {
    staged_bytes = list_bytes();
    for (int block = 0; block < blocks.block_count; ++block) {
      const std::size_t bytes = length_bytes(block);
      if (bytes == 0) continue;
      staged_bytes = place_of(staged_bytes, bytes) + bytes;
      vector_bytes = std::max(vector_bytes, blocks.first_bytes(block) + bytes);
    }
    is_exposed = staged_bytes > (group.node().shares_cores() ? staged_bytes_max_on_shared_cores
                                                             : staged_bytes_max);
  }
  bool is_something() const noexcept { return vector_bytes > 0; }
  std::size_t length_bytes(int block) const noexcept {
    return block == kept ? 0 : blocks.length_bytes(block);
  }
  std::size_t bytes_for(int rank) const noexcept {
    const int block = rank - first_taker;
    return block < 0 || block >= blocks.block_count ? 0 : length_bytes(block);
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

  // When the call begins.
  void note(NodeOperation& node) const noexcept {
    for (int block = 0; block < blocks.block_count; ++block) {
      if (const std::size_t bytes = length_bytes(block); bytes > 0)
        node.note_gift_to(first_taker + block, bytes);
    }
  }
  void publish(NodeOperation& node) const noexcept {
    std::byte* const lengths = node.place_for(published_bytes());
    std::byte* const begins = lengths + list_bytes();
    std::size_t end = list_bytes();
    for (int block = 0; block < blocks.block_count; ++block) {
      const std::uint64_t bytes = length_bytes(block);
      const std::uint64_t first = blocks.first_bytes(block);
      const std::uint64_t gifts = bytes > 0 ? node.gifts_to(first_taker + block) : 0;
      const std::uint64_t told = gifts << length_bits | bytes;
      const std::size_t entry = sizeof told * static_cast<std::size_t>(block);
      std::memcpy(lengths + entry, &told, sizeof told);
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

std::uint64_t word_of(const NodeOperation& node, int from, int index) {
  std::uint64_t word = 0;
  const std::size_t begin = sizeof word * static_cast<std::size_t>(index);
  std::memcpy(&word, node.placed(from, begin, sizeof word), sizeof word);
  return word;
}
Entry entry_of(const NodeOperation& node, int from, int block) {
  const std::uint64_t word = word_of(node, from, block);
  return {.bytes = word & length_mask, .gifts = static_cast<std::uint16_t>(word >> length_bits)};
}

// Copies the block of that number, of so many, out of what a member published. False: the member
// has revoked it, or is gone. Throws Error{mismatch} where its length is another one than is due.
bool copy_block(const Group& group, NodeOperation& node, int from, int block, int block_count,
                std::span<std::byte> due) {
  const auto [bytes, gifts] = entry_of(node, from, block);
  if (bytes != due.size())
    node.refuse(messaging::wrong_step_length(node.named(from), bytes, due.size()));
  const std::uint16_t gifts_due = node.gifts_from(from);
  if (gifts != gifts_due && gifts != 0 && gifts_due != 0)
    node.refuse(messaging::undue_step(node.named(from)));
  if (node.places_apart(from)) {
    const std::uint64_t begin = word_of(node, from, block_count + block);
    return node.copy_exposed_result(from, due.data(), begin, bytes);
  }
  std::size_t end = sizeof(std::uint64_t) * static_cast<std::size_t>(block_count);
  for (int other = 0; other < block; ++other) {
    const std::uint64_t before = entry_of(node, from, other).bytes;
    if (before > 0) end = place_of(end, before) + before;
  }
  group.copy(due.data(), node.placed(from, place_of(end, bytes), bytes), bytes);
  return true;
}

// A vector that is one block. As a list, which is read without the divisions of even blocks.
Blocks only_block(const Arguments& arguments) noexcept {
  static constexpr std::size_t first_bytes = 0;
  return {.element_count = arguments.element_count,
          .element_bytes = arguments.element_bytes,
          .block_count = 1,
          .gapless = true,
          .counts = &arguments.element_count,
          .offsets_bytes = &first_bytes};
}

// This rank's own block, which is empty where a program gives or takes nothing.
void keep_block(const Group& group, std::byte* target, const std::byte* source, std::size_t bytes) {
  if (bytes > 0) group.copy(target, source, bytes);
}

// A form: what a rank gives, what it takes itself, the members that may have something
// for it, and where it takes what is due from one of them.
struct Gather {
  static constexpr SlotBank bank = SlotBank::ahead;
  static Given given(const Group& group, const Arguments& arguments) {
    if (group.rank() == arguments.root) return {};
    return {group, arguments.in, only_block(arguments), arguments.root, Given::none};
  }
  static RankRange givers(const Group& group, const Arguments& arguments) {
    return group.rank() == arguments.root ? RankRange{0, group.size()} : RankRange{};
  }
  static void keep(const Group& group, const Arguments& arguments) {
    if (group.rank() != arguments.root) return;
    keep_block(group, arguments.out + arguments.out_blocks.first_bytes(group.rank()), arguments.in,
               arguments.bytes());
  }
  static std::span<std::byte> due(const Arguments& arguments, int from) {
    return arguments.out_blocks.of(arguments.out, from);
  }
  static bool take(NodeOperation& node, const Group& group, int from, std::span<std::byte> due) {
    return copy_block(group, node, from, 0, 1, due);
  }
};

// Of a table with a block for each rank.
struct FromTable {
  static bool take(NodeOperation& node, const Group& group, int from, std::span<std::byte> due) {
    return copy_block(group, node, from, group.rank(), group.size(), due);
  }
};

struct Scatter : FromTable {
  static constexpr SlotBank bank = SlotBank::ahead;
  static Given given(const Group& group, const Arguments& arguments) {
    if (group.rank() != arguments.root) return {};
    return {group, arguments.in, arguments.in_blocks, 0, arguments.root};
  }
  static RankRange givers(const Group& group, const Arguments& arguments) {
    return group.rank() == arguments.root ? RankRange{}
                                          : RankRange{arguments.root, arguments.root + 1};
  }
  static void keep(const Group& group, const Arguments& arguments) {
    if (group.rank() != arguments.root) return;
    keep_block(group, arguments.out, arguments.in + arguments.in_blocks.first_bytes(arguments.root),
               arguments.bytes());
  }
  static std::span<std::byte> due(const Arguments& arguments, int /*from*/) {
    return {arguments.out, arguments.bytes()};
  }
};

struct Alltoall : FromTable {
  static constexpr SlotBank bank = SlotBank::together;
  static Given given(const Group& group, const Arguments& arguments) {
    return {group, arguments.in, arguments.in_blocks, 0, group.rank()};
  }
  static RankRange givers(const Group& group, const Arguments& /*arguments*/) {
    return {0, group.size()};
  }
  static void keep(const Group& group, const Arguments& arguments) {
    const int rank = group.rank();
    keep_block(group, arguments.out + arguments.out_blocks.first_bytes(rank),
               arguments.in + arguments.in_blocks.first_bytes(rank),
               arguments.out_blocks.length_bytes(rank));
  }
  static std::span<std::byte> due(const Arguments& arguments, int from) {
    return arguments.out_blocks.of(arguments.out, from);
  }
};

// What is due from a member; empty: it is not waited for.
template <class Form>
[[gnu::always_inline]] inline std::span<std::byte> due_from(const Group& group,
                                                            const Arguments& arguments,
                                                            RankRange givers, int from) {
  if (from == group.rank() || !givers.has(from)) return {};
  return Form::due(arguments, from);
}

template <class Form>
bool is_due(const Group& group, const Arguments& arguments, RankRange givers) {
  for (int from = givers.first; from < givers.end; ++from) {
    if (!due_from<Form>(group, arguments, givers, from).empty()) return true;
  }
  return false;
}

// What is left where it has to wait for long, or a vector stays where it is: who takes of that says
// so in step 2, and who gave it waits for that. Who has to wait tells first what it gives, if only
// that it is nothing: of two that await each other each learns that nothing comes. taken: what is
// due from members before this one is here already.
template <class Form>
Task go_on(Group group, const Arguments& arguments, Given given, bool has_begun, int taken,
           NodeOperation node) {
  bool has_published = given.is_something();
  if (!has_begun) {
    if (has_published) {
      co_await node.own_slot();
      given.publish(node);
    } else {
      co_await node.own_end();
    }
    Form::keep(group, arguments);
  }
  const RankRange givers = Form::givers(group, arguments);
  bool is_awaited = false;
  if (!has_published && given.blocks.block_count > 0 &&
      is_due<Form>(group, arguments, {std::max(givers.first, taken), givers.end})) {
    co_await node.own_slot();
    given.publish(node);
    has_published = true;
  }
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    const std::span<std::byte> due = due_from<Form>(group, arguments, givers, from);
    if (from < taken || due.empty()) continue;
    co_await node.member_or_end(from, 1);
    if (!node.has_come(from, 1))
      node.refuse(messaging::wrong_step_length(node.named(from), 0, due.size()));
    if (!Form::take(node, group, from, due)) co_await node.failure_of(from);
    is_awaited |= node.places_apart(from);
  }
  if (is_awaited && !has_published) {
    co_await node.own_slot();
    node.publish({});
  }
  if (is_awaited || given.is_exposed) node.advance(2);
  if (!given.is_exposed) co_return;
  for (int to = group.next(); to != group.rank(); to = group.after(to)) {
    const std::size_t bytes = given.bytes_for(to);
    if (bytes == 0) continue;
    co_await node.member_or_end(to, 2);
    if (!node.has_come(to, 2)) node.refuse(messaging::wrong_step_length(node.named(to), bytes, 0));
  }
}

// All of it at once, if it can, as one_shot.
template <class Form>
Task run(Group group, const Arguments& arguments) {
  const Given given = Form::given(group, arguments);
  NodeOperation node{group, given.staging_bytes(), Form::bank};
  const RankRange givers = Form::givers(group, arguments);
  const auto due = [&](int from) { return due_from<Form>(group, arguments, givers, from); };
  given.note(node);
  for (int from = givers.first; from < givers.end; ++from) {
    const std::size_t bytes = due(from).size();
    if (bytes == 0) continue;
    node.note_gift_from(from, bytes);
    node.fetch_next({from, from + 1}, bytes);
  }
  if (given.is_something()) {
    if (!node.has_own_slot() && !node.own_slot().is_soon_over())
      return go_on<Form>(group, arguments, given, false, givers.first, std::move(node));
    given.publish(node);
  } else if (!node.has_own_end() && !node.own_end().is_soon_over()) {
    return go_on<Form>(group, arguments, given, false, givers.first, std::move(node));
  }
  Form::keep(group, arguments);
  for (int from = givers.first; from < givers.end; ++from) {
    const std::span<std::byte> block = due(from);
    if (block.empty()) continue;
    if (!node.member(from, 1).is_soon_over() || node.places_apart(from))
      return go_on<Form>(group, arguments, given, true, from, std::move(node));
    Form::take(node, group, from, block);
  }
  if (given.is_exposed)
    return go_on<Form>(group, arguments, given, true, givers.end, std::move(node));
  return Task::ended();
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
                                             run<Gather>};
extern constexpr Algorithm scatter_one_shot_v{Collective::scatter, "one_shot_v", fits, scatter_cost,
                                              run<Scatter>};
extern constexpr Algorithm alltoall_one_shot_v{Collective::alltoall, "one_shot_v", fits,
                                               alltoall_cost, run<Alltoall>};

}  // namespace qpmesh::collectives
