// Groups and memory made from a communicator: split, duplicate, independent, allocate. All are
// collective.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "calls/argument_checks.hpp"
#include "calls/pending_operation.hpp"
#include "collectives/registry.hpp"
#include "qpmesh/communicator.hpp"
#include "startup/init.hpp"
#include "topology/memory_left.hpp"

namespace qpmesh {

using calls::CallScope;
using calls::PendingOperation;
using context::CollectiveCall;
using context::CommunicatorState;
using context::Context;

namespace {

// Every rank's `mine`, in rank order; bytes is the same everywhere.
std::vector<std::byte> gather(const std::shared_ptr<CommunicatorState>& state,
                              const CollectiveCall& what, BlobView mine,
                              const CallOptions& options) {
  const CallScope scope{*state, what.operation.text, options};
  std::vector<std::byte> blocks(mine.size() * static_cast<std::size_t>(state->size()));
  PendingOperation request{*state, what.operation.text, options};
  const collectives::Group group = state->begin(what);
  collectives::Arguments arguments;
  arguments.in = mine.data();
  arguments.out = blocks.data();
  arguments.element_count = mine.size();
  arguments.element_bytes = 1;
  arguments.out_blocks = collectives::even_blocks(blocks.size(), state->size());
  collectives::CallShape shape = state->shape();
  shape.bytes = blocks.size();
  const collectives::Algorithm& algorithm = collectives::allgather_one_shot.applies(shape)
                                                ? collectives::allgather_one_shot
                                                : collectives::allgather_circulant;
  calls::start_algorithm(request, group, algorithm, arguments);
  calls::finish_waiting(request);
  return blocks;
}

template <class T>
std::vector<T> gather_values(const std::shared_ptr<CommunicatorState>& state,
                             const CollectiveCall& what, const T& mine,
                             const CallOptions& options) {
  const auto blocks = gather(state, what, std::as_bytes(std::span{&mine, 1}), options);
  std::vector<T> values(static_cast<std::size_t>(state->size()));
  std::memcpy(values.data(), blocks.data(), blocks.size());
  return values;
}

// What a rank says of itself when a communicator is split.
struct Membership {
  int color = 0;
  int key = 0;
  context::NodeSlabs node_slabs{};  // for the new communicator
};

// Slabs are made before it is known who needs them: they travel with the memberships.
std::optional<Communicator> split_by(const std::shared_ptr<CommunicatorState>& state,
                                     context::CollectiveName operation, Membership mine,
                                     const CallOptions& options) {
  const auto id_of = [](std::uint64_t child, int color) {
    return base::mix64(child ^ static_cast<std::uint64_t>(color));
  };
  if (mine.color != no_color) {
    const CallScope scope{*state, operation.text, options};
    mine.node_slabs = state->context().make_node_slabs(id_of(state->next_child_id(), mine.color));
  }
  // Where this fails, the slab stays as it is until the context goes: a peer whose gather went well
  // may look at it.
  const std::vector<Membership> memberships =
      gather_values(state, {.operation = operation}, mine, options);
  // On ranks without a color too: the count is everybody's.
  const std::uint64_t child = state->take_child_id();
  if (mine.color == no_color) return std::nullopt;
  const auto of = [&](int rank) { return memberships[static_cast<std::size_t>(rank)]; };
  std::vector<int> members;  // ranks here
  for (int rank = 0; rank < state->size(); ++rank) {
    if (of(rank).color == mine.color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {}, [&](int rank) { return of(rank).key; });
  std::vector<int> context_ranks;
  std::vector<context::NodeSlabs> node_slabs;
  for (const int rank : members) {
    context_ranks.push_back(state->context_rank(rank));
    node_slabs.push_back(of(rank).node_slabs);
  }
  return Communicator{std::make_shared<CommunicatorState>(
      state->context_pointer(), id_of(child, mine.color), std::move(context_ranks), node_slabs)};
}

// What a rank says of itself before it may touch what allocate gave it.
struct MemoryWanted {
  std::uint64_t arena_bytes = 0;      // where it is full: an option that may differ
  std::uint64_t touchable_bytes = 0;  // this allocation, and earlier ones that were not touched yet
  topology::MemoryLeft left;
};

void require_arenas(std::span<const MemoryWanted> ranks, std::size_t bytes) {
  const auto full =
      std::ranges::find_if(ranks, [](const MemoryWanted& rank) { return rank.arena_bytes > 0; });
  if (full == ranks.end()) return;
  base::throw_error({ErrorCode::no_resource, static_cast<int>(full - ranks.begin())}, "allocate",
                    "raise QPMESH_ARENA_BYTES_MAX",
                    "the arena of that rank has no {} bytes left in one piece, of {} in all", bytes,
                    full->arena_bytes);
}

// Whoever touches more than there is does not get an error, it is killed: look first.
void require_memory(CommunicatorState& state, std::span<const MemoryWanted> ranks,
                    std::size_t bytes) {
  std::vector<topology::MemoryClaim> claims;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    claims.push_back({.node = state.context().node_of(state.context_rank(static_cast<int>(rank))),
                      .bytes = ranks[rank].touchable_bytes,
                      .left = ranks[rank].left});
  }
  const auto shortage = topology::find_shortage(claims);
  if (!shortage) return;
  const bool machine = shortage->of == topology::MemoryShortage::Of::machine;
  base::throw_error(
      {ErrorCode::no_resource, static_cast<int>(shortage->first)}, "allocate",
      machine ? "ask for less, or start fewer ranks on a machine"
              : "ask for less, or raise the memory limit of the container or job",
      "with {} bytes each, {} of that {} may touch {} bytes more, and {} are left", bytes,
      shortage->claims == 1 ? "1 rank" : fmt::format("{} ranks", shortage->claims),
      machine ? "machine" : "control group", shortage->need_bytes, shortage->left_bytes);
}

// A communicator is itself a bootstrap: init runs over it as over any other.
class CommunicatorBootstrap final : public Bootstrap {
 public:
  explicit CommunicatorBootstrap(std::shared_ptr<CommunicatorState> state)
      : state_{std::move(state)} {}

  int rank() const override { return state_->rank(); }
  int size() const override { return state_->size(); }
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    const CallOptions options{
        .timeout_ms = deadline == no_deadline
                          ? 0
                          : std::max(1, base::remaining_ms(state_->context().system(), deadline))};
    const auto lengths =
        gather_values(state_, {.operation = "independent"}, std::uint64_t{mine.size()}, options);
    const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
    Blob padded(mine.begin(), mine.end());
    padded.resize(longest);
    const auto blocks =
        gather(state_, {.operation = "independent", .element_count = longest, .element_bytes = 1},
               padded, options);
    std::vector<Blob> blobs;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto block =
          std::span{blocks}.subspan(i * longest, static_cast<std::size_t>(lengths[i]));
      blobs.emplace_back(block.begin(), block.end());
    }
    return blobs;
  }

 private:
  std::shared_ptr<CommunicatorState> state_;
};

}  // namespace

std::optional<Communicator> Communicator::split(int color, int key, const CallOptions& options) {
  if (color < 0 && color != no_color)
    calls::bad_argument("split", "a color is 0 or more, or qpmesh::no_color",
                        "color {} is negative", color);
  return split_by(state_, "split", {color, key}, options);
}

std::vector<int> Communicator::ranks_in(const Communicator& other) const {
  const CallScope scope{state_->context(), "ranks_in"};
  if (&state_->context() != &other.state_->context()) {
    calls::bad_argument("ranks_in", "ask of its parent, its children, and theirs",
                        "the two communicators have no context in common");
  }
  std::vector<int> ranks;
  for (const int context_rank : state_->context_ranks()) {
    const int rank = other.state_->rank_of(context_rank);
    ranks.push_back(rank < 0 ? no_rank : rank);
  }
  return ranks;
}

Communicator Communicator::split_node(const CallOptions& options) {
  const int node = state_->context().node_of(state_->context_rank(rank()));
  return *split_by(state_, "split_node", {.color = node}, options);
}

Communicator Communicator::duplicate(const CallOptions& options) {
  return *split_by(state_, "duplicate", {.key = rank()}, options);
}

Communicator Communicator::independent(const CallOptions& options) {
  { const CallScope scope{*state_, "independent", options}; }  // refused before anything is made
  Options init_options = state_->context().options();
  constexpr std::int64_t init_timeout_ms_max = 86'400'000;  // of the option
  const bool limited = options.timeout_ms > 0 && options.timeout_ms < init_timeout_ms_max;
  if (options.timeout_ms != CallOptions::timeout_from_options)
    init_options.init_timeout_ms = limited ? options.timeout_ms : init_timeout_ms_max;
  CommunicatorBootstrap bootstrap{state_};
  return Communicator{startup::init_over(bootstrap, init_options)};
}

std::pair<std::shared_ptr<context::Allocation>, void*> Communicator::allocate_bytes(
    std::size_t count, std::size_t element_bytes, const CallOptions& options) {
  const std::size_t bytes = calls::checked_bytes(count, element_bytes, "allocate");
  Context& context = state_->context();
  std::shared_ptr<context::Allocation> allocation;
  {
    const CallScope scope{*state_, "allocate", options};
    allocation =
        context::Allocations::allocate({state_->context_pointer(), &context.allocations()}, bytes);
  }
  const CollectiveCall what{.operation = "allocate",
                            .element_count = count,
                            .element_bytes = static_cast<std::uint32_t>(element_bytes)};
  MemoryWanted mine;
  if (allocation == nullptr) {
    mine.arena_bytes = context.arena().bytes();
  } else {
    mine.touchable_bytes = context.arena().untouched_bytes();
    mine.left = topology::memory_left();
  }
  const auto ranks = gather_values(state_, what, mine, options);
  require_arenas(ranks, bytes);
  require_memory(*state_, ranks, bytes);
  allocation->register_with_devices();
  return {allocation, allocation->data()};
}

}  // namespace qpmesh
