// SPDX-License-Identifier: MIT
// What the library does with handles and users cannot: it makes them, looks into them, and makes
// calls whose types were taken off.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "qpmesh/communicator.hpp"
#include "qpmesh/grid.hpp"

namespace qpmesh::detail {

[[noreturn]] void was_moved_from(std::string_view operation);
// What a handle holds; Error{bad_argument} of one that was moved from.
template <class Pointer>
Pointer& held(Pointer& pointer, std::string_view operation) {
  if (pointer == nullptr) [[unlikely]]
    was_moved_from(operation);
  return pointer;
}

// The one friend of all handles.
struct Access {
  static Communicator communicator(std::shared_ptr<context::CommunicatorState> state) noexcept {
    return Communicator{std::move(state)};
  }
  static const std::shared_ptr<context::CommunicatorState>& state(const Communicator& of) noexcept {
    return of.state_;
  }
  static Request request(calls::RequestState* state) noexcept { return Request{state, false}; }
  // Of an operation that was over before there was anything to remember of it.
  static Request ended_request() noexcept { return Request{nullptr, true}; }
  static Request stand_in(const Request& of) noexcept { return Request{of.state_, of.untold_}; }
  static calls::RequestState* state(const Request& of) noexcept { return of.state_; }
  static bool has_untold_end(const Request& of) noexcept { return of.untold_; }
  // wait(), and the request is an empty one.
  static Status finish(Request& request) { return request.finish(); }
  static Message message(std::unique_ptr<calls::MatchedMessage>&& matched) noexcept {
    return Message{std::move(matched)};
  }
  static Prepared prepared(std::unique_ptr<calls::PreparedOperation>&& operation) noexcept {
    return Prepared{std::move(operation)};
  }

  static void send(Communicator& world, const AnyMessage& what, const CallOptions& options) {
    world.send_elements(what.sent, what.to, what.tags.sent, options);
  }
  static Status receive(Communicator& world, const AnyMessage& what, const CallOptions& options) {
    return world.receive_elements(what.received, what.from, what.tags.received, options);
  }
  static Status sendrecv(Communicator& world, const AnyMessage& what, const CallOptions& options) {
    return world.sendrecv_elements(what.sent, what.to, what.received, what.from, what.tags,
                                   options);
  }
  static void run(Communicator& world, const AnyCollective& what, const CallOptions& options) {
    world.run_collective(what, options);
  }
  static void run(Communicator& world, const AnyVectors& what, const CallOptions& options) {
    world.run_collective(what, options);
  }
  static Request send_async(Communicator& world, const ConstElements& data, int destination,
                            int tag, const CallOptions& options) {
    return world.send_elements_async(data, destination, tag, options);
  }
  static Request receive_async(Communicator& world, const Elements& data, int source, int tag,
                               const CallOptions& options) {
    return world.receive_elements_async(data, source, tag, options);
  }
  static Request start(Communicator& world, const AnyMessage& what, const CallOptions& options) {
    return world.start_message(what, options);
  }
  static Request start(Communicator& world, const AnyCollective& what, const CallOptions& options) {
    return world.start_collective(what, options);
  }
  static Request start(Communicator& world, const AnyVectors& what, const CallOptions& options) {
    return world.start_collective(what, options);
  }
  static Prepared prepare(const Communicator& world, const auto& what, const CallOptions& options) {
    return world.prepare(what, options);
  }
  static void exchange(const Grid& grid, Communicator& world, const ConstElements& in,
                       const Elements& out, const CallOptions& options) {
    grid.exchange_elements(world, in, out, options);
  }
  static std::vector<AnyMessage> messages_of(const Grid& grid, const Communicator& world,
                                             const ConstElements& in, const Elements& out,
                                             std::string_view operation) {
    return grid.messages_of(world, in, out, operation);
  }
  static Status receive(Message& message, const Elements& data, const CallOptions& options) {
    return message.receive_elements(data, options);
  }
  static Request receive_async(Message& message, const Elements& data, const CallOptions& options) {
    return message.receive_elements_async(data, options);
  }

  using Take = std::function<void(Communicator&&)>;
  static Request split(Communicator& world, Take take, int color, int key,
                       const CallOptions& options) {
    return world.split_to(std::move(take), color, key, options);
  }
  static Request duplicate(Communicator& world, Take take, const CallOptions& options) {
    return world.duplicate_to(std::move(take), options);
  }

  using Allocated = std::pair<std::shared_ptr<context::Allocation>, void*>;
  static Allocated allocate(Communicator& world, std::size_t bytes, const CallOptions& options) {
    return world.allocate_bytes(bytes, 1, options);
  }
  static Allocated allocate_here(Communicator& world, std::size_t bytes) {
    return world.allocate_bytes_here(bytes, 1);
  }
};

}  // namespace qpmesh::detail
