// SPDX-License-Identifier: MIT
// An allreduce of several vectors as one operation. Each long one is a call by itself, at the same
// time as the others; short ones go together, as one call on a copy: two copies of them cost less
// than calls. The list is counted as a call that moves nothing: so ranks whose lists differ see it
// in the first message that follows.
#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>

#include "calls/pending_operation.hpp"
#include "progress/frame_pool.hpp"

namespace qpmesh::calls {
namespace {

using detail::Elements;
using progress::PoolAllocator;
using progress::PoolVector;

// From these bytes on calls of their own are faster: two ranks took 31 us for 20 vectors of 16 KiB
// in shared memory, 41 together; over tcp 104 and 71, and as long both ways from 32 KiB on.
std::size_t long_bytes_min(const collectives::CallShape& shape) noexcept {
  return std::size_t{shape.one_node ? 16U : 32U} << 10;
}

std::size_t bytes_in(const Elements& vector) noexcept {
  return vector.element_count * vector.element_bytes;
}
std::span<std::byte> memory_of(const Elements& vector) noexcept {
  return {static_cast<std::byte*>(vector.data), bytes_in(vector)};
}

// One type, and no element twice.
void check_list(std::span<const Elements> vectors, std::string_view operation) {
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    checked_bytes(vectors[i], operation);
    if (vectors[i].type != vectors.front().type ||
        vectors[i].element_bytes != vectors.front().element_bytes) {
      bad_argument(operation, "give those of each type to a call of its own",
                   "the elements of vector {} have another type than those of vector 0", i);
    }
  }
  PoolVector<std::size_t> order(vectors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return vectors[i].element_count == 0; });
  std::ranges::sort(order, std::less<>{}, [&](std::size_t i) { return vectors[i].data; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Elements& before = vectors[order[i - 1]];
    const Elements& behind = vectors[order[i]];
    if (!overlap(before.data, bytes_in(before), behind.data, bytes_in(behind))) continue;
    bad_argument(operation, "give vectors that have no element in common",
                 "vectors {} and {} overlap", std::min(order[i - 1], order[i]),
                 std::max(order[i - 1], order[i]));
  }
}

// What the operation uses until it has ended.
struct Parts {
  PoolVector<Elements> short_ones;
  PoolVector<std::byte> together;  // of the short ones, one behind the other
  PoolVector<PendingOperation> calls;
  PoolVector<std::shared_ptr<context::Allocation>> buffers;  // in which vectors lie
  std::exception_ptr error;                                  // the first one
};

// The list, as every rank must give it.
context::CollectiveCall call_of(std::span<const Elements> vectors) noexcept {
  context::CollectiveCall list{.operation = "allreduce_each", .layout_hash = 1};
  for (const Elements& vector : vectors) {
    list.element_count += vector.element_count;
    list.element_bytes = static_cast<std::uint32_t>(vector.element_bytes);
    list.type = vector.type;
    list.layout_hash = base::mix64(list.layout_hash ^ vector.element_count);
  }
  return list;
}

// In order: none waits for one behind it. What ends one on this rank alone breaks the communicator
// here and now, for those behind it may wait for ranks that wait for this one.
progress::Task finish(PendingOperation* request, std::shared_ptr<Parts> parts) {
  if (parts->error) break_by(*request, parts->error);
  progress::Join join;
  for (PendingOperation& call : parts->calls) {
    progress::TaskOperation& task = call.task;
    if (!task.done) {
      join.outstanding = 1;
      task.join = &join;
      co_await progress::all_ended(join);
    }
    if (!task.error || parts->error) continue;
    parts->error = task.error;
    break_by(*request, parts->error);
  }
  if (parts->error) std::rethrow_exception(parts->error);
  auto from = parts->together.cbegin();
  for (const Elements& vector : parts->short_ones) {
    const std::span<std::byte> memory = memory_of(vector);
    std::copy_n(from, memory.size(), memory.begin());
    from += static_cast<std::ptrdiff_t>(memory.size());
  }
}

}  // namespace

void start_collective(PendingOperation& request, const detail::AnyVectors& what,
                      std::string_view algorithm_asked_for) {
  context::CommunicatorState& communicator = *request.communicator;
  context::Context& context = communicator.context();
  const progress::FramePool::Scope scope{context.engine().pool()};
  check_list(what.vectors, request.operation);
  const auto is_long = [bytes_min = long_bytes_min(communicator.shape())](const Elements& vector) {
    return bytes_in(vector) >= bytes_min;
  };
  const auto parts = std::allocate_shared<Parts>(PoolAllocator<Parts>{});
  Elements together = what.vectors.empty() ? Elements{} : what.vectors.front();
  together.element_count = 0;
  for (const Elements& vector : what.vectors) {
    if (context.allocations().may_hold(vector.data))
      parts->buffers.push_back(context.allocations().at(vector.data));
    if (is_long(vector)) continue;
    const std::span<const std::byte> memory = memory_of(vector);
    parts->together.insert(parts->together.end(), memory.begin(), memory.end());
    parts->short_ones.push_back(vector);
    together.element_count += vector.element_count;
  }
  together.data = parts->together.data();
  const auto call_on = [&](const Elements& vector) {
    detail::AnyCollective call{Collective::allreduce, vector, vector};
    call.reduction = what.reduction;
    return call;
  };
  // All of it is refused, or nothing.
  context::CollectiveCall list = call_of(what.vectors);
  if (!what.vectors.empty()) {
    const auto check = [&](const Elements& vector, std::string_view algorithm) {
      return check_collective(communicator, call_on(vector), algorithm, request.operation);
    };
    for (const Elements& vector : what.vectors)
      if (is_long(vector)) check(vector, algorithm_asked_for);
    const bool is_made = together.element_count > 0;
    list.reduction = check(together, is_made ? algorithm_asked_for : std::string_view{});
  }
  parts->calls.reserve(what.vectors.size() - parts->short_ones.size() + 1);
  progress::Task end = finish(&request, parts);
  request.has_task = true;
  const collectives::Group group = communicator.begin(list);
  const auto start = [&](const Elements& vector) {
    start_collective(parts->calls.emplace_back(communicator, request.operation, CallOptions{}),
                     call_on(vector), algorithm_asked_for);
  };
  try {
    for (const Elements& vector : what.vectors)
      if (is_long(vector)) start(vector);
    if (together.element_count > 0) start(together);
  } catch (...) {
    parts->calls.pop_back();  // it did not begin
    parts->error = std::current_exception();
  }
  if (context::Trace* const trace = context.trace(); trace != nullptr) [[unlikely]] {
    trace->note({.bytes = list.element_count * list.element_bytes,
                 .is_collective = true,
                 .communicator = communicator.id(),
                 .number = group.operation()});
  }
  context.engine().start(request.task, [&] { return std::move(end); });
}

}  // namespace qpmesh::calls
