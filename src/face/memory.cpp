// SPDX-License-Identifier: MIT
// Memory that peers can reach: Buffers of all ranks, and of one.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/errors.hpp"
#include "calls/argument_checks.hpp"
#include "calls/gather_values.hpp"
#include "calls/pending_operation.hpp"
#include "face/access.hpp"
#include "qpmesh/arena_resource.hpp"
#include "qpmesh/communicator.hpp"
#include "topology/memory_left.hpp"

namespace qpmesh {

using calls::CallScope;
using context::CollectiveCall;
using context::CommunicatorState;
using context::Context;

namespace {

// What a rank says of itself before it may touch what allocate gave it.
struct MemoryWanted {
  std::uint64_t arena_bytes = 0;      // where it is full: an option that may differ
  std::uint64_t touchable_bytes = 0;  // this allocation, and earlier ones that were not touched yet
  topology::MemoryLeft left;
  std::uint64_t offset = 0;  // in the arena
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
                    std::size_t bytes, std::string_view operation, int first_rank = 0) {
  std::vector<topology::MemoryClaim> claims;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    claims.push_back(
        {.node = state.context().node_of(state.context_rank(first_rank + static_cast<int>(rank))),
         .bytes = ranks[rank].touchable_bytes,
         .left = ranks[rank].left});
  }
  const auto shortage = topology::find_shortage(claims);
  if (!shortage) return;
  const bool machine = shortage->of == topology::MemoryShortage::Of::machine;
  base::throw_error(
      {ErrorCode::no_resource, first_rank + static_cast<int>(shortage->first)}, operation,
      machine ? "ask for less, or start fewer ranks on a machine"
              : "ask for less, or raise the memory limit of the container or job",
      "with {} bytes each, {} of that {} may touch {} bytes more, and {} are left", bytes,
      shortage->claims == 1 ? "1 rank" : fmt::format("{} ranks", shortage->claims),
      machine ? "machine" : "control group", shortage->need_bytes, shortage->left_bytes);
}

std::shared_ptr<context::Allocation> allocate_in_arena(CommunicatorState& state,
                                                       std::size_t bytes) {
  Context& context = state.context();
  return context::Allocations::allocate({state.context_pointer(), &context.allocations()}, bytes);
}

// From this size on the memory that is left is looked at: to read what the system says of it takes
// longer than to give out less.
constexpr std::size_t looked_at_bytes_min = transport::Arena::huge_page_bytes;

std::shared_ptr<context::Allocation> allocate_for_one(CommunicatorState& state, std::size_t bytes) {
  constexpr std::string_view operation = "allocate_here";
  const CallScope scope{state, operation, {}};
  std::shared_ptr<context::Allocation> allocation = allocate_in_arena(state, bytes);
  Context& context = state.context();
  if (allocation == nullptr) {
    base::throw_error({ErrorCode::no_resource}, operation, "raise QPMESH_ARENA_BYTES_MAX",
                      "the arena has no {} bytes left in one piece, of {} in all", bytes,
                      context.arena().bytes());
  }
  if (bytes >= looked_at_bytes_min) {
    const MemoryWanted mine{.touchable_bytes = context.arena().untouched_bytes(),
                            .left = topology::memory_left()};
    require_memory(state, {&mine, 1}, bytes, operation, state.rank());
  }
  allocation->register_with_devices();
  return allocation;
}

}  // namespace

std::pair<std::shared_ptr<context::Allocation>, void*> Communicator::allocate_bytes(
    std::size_t count, std::size_t element_bytes, const CallOptions& options) {
  const std::size_t bytes = calls::checked_bytes(count, element_bytes, "allocate");
  Context& context = detail::held(state_, "allocate")->context();
  std::shared_ptr<context::Allocation> allocation;
  MemoryWanted mine;
  {
    const CallScope scope{*state_, "allocate", options};
    allocation = allocate_in_arena(*state_, bytes);
    if (allocation == nullptr) {
      mine.arena_bytes = context.arena().bytes();
    } else {
      mine.touchable_bytes = context.arena().untouched_bytes();
      mine.left = topology::memory_left();
      mine.offset = context.arena().offset_of(allocation->data());
    }
  }
  const CollectiveCall what{.operation = "allocate",
                            .element_count = count,
                            .element_bytes = static_cast<std::uint32_t>(element_bytes)};
  const auto ranks = calls::gather_values(state_, what, mine, options);
  require_arenas(ranks, bytes);
  require_memory(*state_, ranks, bytes, "allocate");
  std::vector<const std::byte*> views;
  for (int rank = 0; rank < state_->size(); ++rank) {
    const std::uint64_t offset = ranks[static_cast<std::size_t>(rank)].offset;
    views.push_back(rank == state_->rank()
                        ? allocation->data()
                        : context.view_of(state_->context_rank(rank), offset, bytes));
  }
  allocation->know_views(std::move(views));
  allocation->register_with_devices();
  return {allocation, allocation->data()};
}

std::pair<std::shared_ptr<context::Allocation>, void*> Communicator::allocate_bytes_here(
    std::size_t count, std::size_t element_bytes) {
  const std::size_t bytes = calls::checked_bytes(count, element_bytes, "allocate_here");
  const auto allocation = allocate_for_one(*detail::held(state_, "allocate_here"), bytes);
  return {allocation, allocation->data()};
}

const void* detail::view_of(const context::Allocation* allocation, int rank) {
  constexpr std::string_view operation = "view_of";
  if (allocation == nullptr)
    calls::bad_argument(operation, "allocate makes the others", "the Buffer is empty");
  const std::span<const std::byte* const> views = allocation->views();
  if (views.empty()) {
    calls::bad_argument(operation, "take allocate, which all ranks call",
                        "the Buffer was allocated here alone");
  }
  calls::check_peer(rank, static_cast<int>(views.size()), false, operation, "rank");
  const std::byte* const view = views[static_cast<std::size_t>(rank)];
  if (view == nullptr) {
    base::throw_error({ErrorCode::bad_argument, rank}, operation,
                      "split_node() makes a group of ranks that share memory",
                      "rank {} shares no memory with this one", rank);
  }
  return view;
}

struct ArenaResource::Allocated {
  explicit Allocated(std::shared_ptr<CommunicatorState> of) noexcept : state{std::move(of)} {}
  std::shared_ptr<CommunicatorState> state;
  std::unordered_map<void*, std::shared_ptr<context::Allocation>> by_address{};
};

ArenaResource::ArenaResource(const Communicator& communicator)
    : allocated_{std::make_unique<Allocated>(
          detail::held(detail::Access::state(communicator), "ArenaResource"))} {}
ArenaResource::~ArenaResource() = default;

void* ArenaResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment > transport::Arena::alignment) {
    calls::bad_argument("allocate_here", "align to 128 bytes at most", "an alignment of {} bytes",
                        alignment);
  }
  auto allocation = allocate_for_one(*allocated_->state, std::max(bytes, std::size_t{1}));
  void* const data = allocation->data();
  allocated_->by_address.emplace(data, std::move(allocation));
  return data;
}

void ArenaResource::do_deallocate(void* data, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  allocated_->by_address.erase(data);
}

}  // namespace qpmesh
