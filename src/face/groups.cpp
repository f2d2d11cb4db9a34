// SPDX-License-Identifier: MIT
// Groups made from a communicator.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "calls/argument_checks.hpp"
#include "calls/gather_values.hpp"
#include "calls/pending_operation.hpp"
#include "face/run.hpp"
#include "qpmesh/communicator.hpp"
#include "startup/init.hpp"

namespace qpmesh {

using calls::CallScope;
using calls::RequestState;
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

// This rank's promise to the others that it will be a member of a group. Where it is not kept its
// end tells them, for they may have made the group.
class Pledge {
 public:
  Pledge(std::shared_ptr<Context> context, std::uint64_t group, std::vector<int> members) noexcept
      : context_{std::move(context)}, group_{group}, members_{std::move(members)} {}
  ~Pledge() {
    if (context_ != nullptr) context_->disown(group_, members_);
  }
  Pledge(const Pledge&) = delete;
  Pledge& operator=(const Pledge&) = delete;
  void keep() noexcept { context_.reset(); }

 private:
  std::shared_ptr<Context> context_;
  std::uint64_t group_;
  std::vector<int> members_;  // ranks of the context
};

// Errors of f number ranks by their places in `ranks`; the caller's numbers are what stands there.
template <class F>
auto in_ranks_of(std::span<const int> ranks, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    // A peer may have said any number, and that of nobody is larger than all places.
    const auto place = static_cast<std::size_t>(detail.peer);
    detail.peer = place < ranks.size() ? ranks[place] : no_peer;
    throw Error{std::move(detail)};
  }
}

// A group on its way: kept by the request that makes it.
struct Splitting {
  std::shared_ptr<CommunicatorState> parent;
  std::function<void(Communicator&&)> take;
  std::uint64_t id = 0;
  Membership mine;
  std::vector<Membership> memberships;  // by rank, once they are gathered
  std::unique_ptr<Pledge> pledge{};     // where this rank has a color

  void make() {
    const auto of = [&](int rank) { return memberships[static_cast<std::size_t>(rank)]; };
    std::vector<int> members;  // ranks here
    for (int rank = 0; rank < parent->size(); ++rank) {
      if (of(rank).color == mine.color) members.push_back(rank);
    }
    std::ranges::stable_sort(members, {}, [&](int rank) { return of(rank).key; });
    std::vector<int> context_ranks;
    std::vector<context::NodeSlabs> node_slabs;
    for (const int rank : members) {
      context_ranks.push_back(parent->context_rank(rank));
      node_slabs.push_back(of(rank).node_slabs);
    }
    take(detail::Access::communicator(std::make_shared<CommunicatorState>(
        parent->context_pointer(), id, std::move(context_ranks), node_slabs)));
    pledge->keep();
  }
};

progress::Task gather_and_make(Splitting* splitting, collectives::Group group,
                               const collectives::Algorithm* gather,
                               collectives::Arguments arguments) {
  co_await calls::task_of(*splitting->parent, group, *gather, arguments);
  if (splitting->mine.color != no_color) splitting->make();
}

// Slabs are made before it is known who needs them: they travel with the memberships. Where this
// fails, the slab stays as it is until the context goes: a peer whose gather went well may look at
// it.
Request split_by(const std::shared_ptr<CommunicatorState>& state,
                 context::CollectiveName collective, std::string_view operation, Membership mine,
                 std::function<void(Communicator&&)> take, const CallOptions& options) {
  const CallScope scope{*detail::held(state, operation), operation, options};
  return calls::run_async(state, operation, options, nullptr, nullptr, [&](RequestState& request) {
    // On ranks without a color too: the count is everybody's.
    const std::uint64_t child = state->take_child_id();
    const auto splitting = std::make_shared<Splitting>(
        Splitting{.parent = state,
                  .take = std::move(take),
                  .id = base::mix64(child ^ static_cast<std::uint64_t>(mine.color)),
                  .mine = mine,
                  .memberships = std::vector<Membership>(static_cast<std::size_t>(state->size()))});
    if (mine.color != no_color) {
      splitting->mine.node_slabs = state->context().make_node_slabs(splitting->id);
      splitting->pledge =
          std::make_unique<Pledge>(state->context_pointer(), splitting->id, state->context_ranks());
    }
    const collectives::Group group = state->begin({.operation = collective});
    request.keep().function = splitting;
    const calls::Gathering gathering =
        calls::gathering_of_all(*state, std::as_bytes(std::span{&splitting->mine, 1}),
                                std::as_writable_bytes(std::span{splitting->memberships}));
    calls::start_task(request, [&] {
      return gather_and_make(splitting.get(), group, gathering.algorithm, gathering.arguments);
    });
  });
}

auto into(std::optional<Communicator>& made) {
  made.reset();
  return [&made](Communicator&& group) { made.emplace(std::move(group)); };
}

void require_apart(const std::optional<Communicator>& made, const Communicator& parent,
                   std::string_view operation) {
  if (made && &*made == &parent)
    calls::bad_argument(operation, "give another place for the group",
                        "the group would take the place of the communicator that makes it");
}

// The same, and waits for it.
std::optional<Communicator> split_now(const std::shared_ptr<CommunicatorState>& state,
                                      context::CollectiveName collective, Membership mine,
                                      const CallOptions& options) {
  std::optional<Communicator> made;
  split_by(state, collective, collective.text, mine, into(made), options).wait();
  return made;
}

void check_color(int color, std::string_view operation) {
  if (color < 0 && color != no_color)
    calls::bad_argument(operation, "a color is 0 or more, or qpmesh::no_color",
                        "color {} is negative", color);
}

// A communicator is itself a bootstrap: init runs over it as over any other.
class CommunicatorBootstrap final : public Bootstrap {
 public:
  explicit CommunicatorBootstrap(std::shared_ptr<CommunicatorState> state)
      : state_{std::move(state)} {}

  int rank() const override { return state_->rank(); }
  int size() const override { return state_->size(); }
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    const CallOptions options{.timeout = calls::limit_until(state_->context().system(), deadline)};
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
  void check_ranks() override {
    const CallScope scope{state_->context(), "independent"};
    state_->context().waiter().disarm();
    state_->context().waiter().look();
    state_->require_usable("independent");
  }

 private:
  std::shared_ptr<CommunicatorState> state_;
};

}  // namespace

std::optional<Communicator> Communicator::split(int color, int key, const CallOptions& options) {
  check_color(color, "split");
  return split_now(state_, "split", {color, key}, options);
}

Request Communicator::split_async(std::optional<Communicator>& group, int color, int key,
                                  const CallOptions& options) {
  require_apart(group, *this, "split_async");
  return split_to(into(group), color, key, options);
}

Communicator Communicator::subgroup(std::span<const int> ranks, int tag,
                                    const CallOptions& options) {
  constexpr std::string_view operation = "subgroup";
  detail::held(state_, operation);
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
    first->mark_for_one_call();
    id = first->take_child_id();
    slabs = state_->context().make_node_slabs(id);
  }
  Pledge pledge{state_->context_pointer(), id, context_ranks};
  const std::vector<context::NodeSlabs> all = in_ranks_of(ranks, [&] {
    return calls::gather_values(first, {.operation = "subgroup"}, slabs, options);
  });
  const progress::HeldTurn turn{state_->context().turn()};
  Communicator made{std::make_shared<CommunicatorState>(state_->context_pointer(), id,
                                                        std::move(context_ranks), all)};
  pledge.keep();
  return made;
}

Communicator Communicator::self() {
  const CallScope scope{*detail::held(state_, "self"), "self", {}};
  // Nobody else has an id of it, so that it may be one that other ranks give to theirs.
  const std::uint64_t id = state_->take_subgroup_id(base::mix64(~std::uint64_t{0}));
  return Communicator{std::make_shared<CommunicatorState>(
      state_->context_pointer(), id, std::vector<int>{state_->context_rank(rank())})};
}

std::vector<int> Communicator::ranks_in(const Communicator& other) const {
  const CallScope scope{detail::held(state_, "ranks_in")->context(), "ranks_in"};
  if (&state_->context() != &detail::held(other.state_, "ranks_in")->context()) {
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

Communicator Communicator::split_node(const CallOptions& options) { return split_node(0, options); }

Communicator Communicator::split_node(int key, const CallOptions& options) {
  const int node =
      detail::held(state_, "split_node")->context().node_of(state_->context_rank(rank()));
  return *split_now(state_, "split_node", {.color = node, .key = key}, options);
}

Communicator Communicator::duplicate(const CallOptions& options) {
  return *split_now(state_, "duplicate", {.key = rank()}, options);
}

Request Communicator::duplicate_async(std::optional<Communicator>& copy,
                                      const CallOptions& options) {
  require_apart(copy, *this, "duplicate_async");
  return duplicate_to(into(copy), options);
}

Request Communicator::split_to(std::function<void(Communicator&&)> take, int color, int key,
                               const CallOptions& options) {
  check_color(color, "split_async");
  return split_by(state_, "split", "split_async", {color, key}, std::move(take), options);
}

Request Communicator::duplicate_to(std::function<void(Communicator&&)> take,
                                   const CallOptions& options) {
  return split_by(state_, "duplicate", "duplicate_async", {.key = rank()}, std::move(take),
                  options);
}

Communicator Communicator::independent(const CallOptions& options) {
  {
    const CallScope scope{*detail::held(state_, "independent"), "independent", options};
  }  // refused before anything is made
  Options init_options = state_->context().options();
  constexpr std::int64_t init_timeout_ms_max = 86'400'000;  // of the option
  if (!options.timeout.is_of_options()) {
    const std::int64_t ms = options.timeout.ms_or(0);
    init_options.init_timeout_ms =
        ms == 0 ? init_timeout_ms_max : std::min(ms, init_timeout_ms_max);
  }
  CommunicatorBootstrap bootstrap{state_};
  return Communicator{startup::init_over(bootstrap, init_options)};
}

}  // namespace qpmesh
