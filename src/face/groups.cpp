// Groups made from a communicator.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "calls/argument_checks.hpp"
#include "calls/gather_values.hpp"
#include "calls/pending_operation.hpp"
#include "qpmesh/communicator.hpp"
#include "startup/init.hpp"

namespace qpmesh {

using calls::CallScope;
using calls::PendingOperation;
using context::CollectiveCall;
using context::CommunicatorState;
using context::Context;

namespace {

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
      calls::gather_values(state, {.operation = operation}, mine, options);
  const progress::HeldTurn turn{state->context().turn()};
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
    const auto lengths = calls::gather_values(state_, {.operation = "independent"},
                                              std::uint64_t{mine.size()}, options);
    const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
    Blob padded(mine.begin(), mine.end());
    padded.resize(longest);
    const auto blocks = calls::gather_of_all(
        state_, {.operation = "independent", .element_count = longest, .element_bytes = 1}, padded,
        options);
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

Communicator Communicator::subgroup(std::span<const int> ranks, int tag,
                                    const CallOptions& options) {
  constexpr std::string_view operation = "subgroup";
  calls::check_tag(tag, false, operation);
  std::vector<int> context_ranks;
  std::uint64_t name = base::mix64(static_cast<std::uint64_t>(tag) + 1);
  for (const int member : ranks) {
    calls::check_peer(member, size(), false, operation, "rank");
    const int context_rank = state_->context_rank(member);
    if (std::ranges::find(context_ranks, context_rank) != context_ranks.end())
      calls::bad_argument(operation, "name each rank once", "rank {} is there twice", member);
    context_ranks.push_back(context_rank);
    name = base::mix64(name ^ static_cast<std::uint64_t>(member));
  }
  if (std::ranges::find(ranks, rank()) == ranks.end()) {
    calls::bad_argument(operation, "its members alone call it",
                        "rank {}, which calls it, is not one of the ranks", rank());
  }
  // Messages alone carry the first one, over which its members tell each other where their slabs
  // lie.
  std::shared_ptr<CommunicatorState> first;
  context::NodeSlabs slabs{};
  std::uint64_t id = 0;
  {
    const CallScope scope{*state_, operation, options};
    const std::uint64_t first_id = state_->take_subgroup_id(name);
    first = std::make_shared<CommunicatorState>(state_->context_pointer(), first_id, context_ranks);
    id = first->take_child_id();
    slabs = state_->context().make_node_slabs(id);
  }
  const std::vector<context::NodeSlabs> all =
      calls::gather_values(first, {.operation = "subgroup"}, slabs, options);
  const progress::HeldTurn turn{state_->context().turn()};
  return Communicator{std::make_shared<CommunicatorState>(state_->context_pointer(), id,
                                                          std::move(context_ranks), all)};
}

Communicator Communicator::self() {
  const CallScope scope{*state_, "self", {}};
  // Nobody else has an id of it, so that it may be one that other ranks give to theirs.
  const std::uint64_t id = state_->take_subgroup_id(base::mix64(~std::uint64_t{0}));
  return Communicator{std::make_shared<CommunicatorState>(
      state_->context_pointer(), id, std::vector<int>{state_->context_rank(rank())})};
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

}  // namespace qpmesh
