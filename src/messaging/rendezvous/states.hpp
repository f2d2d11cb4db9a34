// SPDX-License-Identifier: MIT
// The states of a send and of a receive, and the ways between them. docs/protocol.md draws both.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <type_traits>

namespace qpmesh::messaging {

enum class SendState : std::uint8_t {
  idle,       // not begun, or done
  queued,     // in the peer's queue: no line, or others are before it
  offered,    // its offer is not answered; the receiver may copy the source
  readable,   // the same, and the peer's device may read the source
  streaming,  // segments are being posted
  writing,    // writes into the target are being posted
  written,    // nothing more is posted; our device still reads the source
  draining,   // failed; our device still reads the source
  revoking,   // failed; the peer has been asked to read the source no more
};

enum class ReceiveState : std::uint8_t {
  idle,                 // not begun, or done
  posted,               // waits for its message
  preposted_streaming,  // the same, and answered before its offer came: segments may come
  preposted_open,       // the same, and answered: the peer may write into the target
  streaming,            // segments come
  open,                 // the peer writes into the target
  filling,              // the peer copies the end of the message into the target
  reading,              // reads of the source are being posted
  stopped,              // the peer revokes the source; what was posted is still read
  released,             // the same, and nothing is read any more: it ends with its communicator
  settling,             // failed; the peer has not ended copying
  draining,             // failed; our device still writes into the target
  revoking,             // failed; the peer has been asked to write into the target no more
};

template <class State>
struct Edge {
  State from;
  State to;
};

// All of them, but that an operation may end, and fail, where no device touches its buffer.
inline constexpr auto send_edges = [] {
  using enum SendState;
  return std::to_array<Edge<SendState>>({{idle, queued},
                                         {idle, offered},
                                         {idle, readable},
                                         {queued, offered},
                                         {queued, readable},
                                         {offered, streaming},
                                         {offered, writing},
                                         {readable, streaming},
                                         {readable, writing},
                                         {readable, revoking},
                                         {writing, written},
                                         {writing, draining},
                                         {written, draining}});
}();
inline constexpr auto receive_edges = [] {
  using enum ReceiveState;
  return std::to_array<Edge<ReceiveState>>({{idle, posted},
                                            {idle, streaming},
                                            {idle, open},
                                            {idle, reading},
                                            {idle, filling},
                                            {posted, preposted_streaming},
                                            {posted, preposted_open},
                                            {posted, streaming},
                                            {posted, open},
                                            {posted, reading},
                                            {posted, filling},
                                            {filling, streaming},
                                            {filling, open},
                                            {filling, settling},
                                            {preposted_streaming, streaming},
                                            {preposted_open, open},
                                            {preposted_open, revoking},
                                            {open, revoking},
                                            {reading, stopped},
                                            {reading, draining},
                                            {stopped, released},
                                            {stopped, draining}});
}();

template <class State>
constexpr bool is_edge(State from, State to) noexcept {
  const auto has = [=](const auto& edges) {
    return std::ranges::any_of(
        edges, [=](const Edge<State>& edge) { return edge.from == from && edge.to == to; });
  };
  if (to == State::idle) return true;
  if constexpr (std::is_same_v<State, SendState>) return has(send_edges);
  else return has(receive_edges);
}

// The only way to another state.
template <class Operation>
void enter(Operation& operation, typename Operation::State next) noexcept {
  assert(is_edge(operation.state, next));
  operation.state = next;
}

constexpr bool is_offered(SendState state) noexcept {
  return state == SendState::offered || state == SendState::readable;
}
constexpr bool is_preposted(ReceiveState state) noexcept {
  return state == ReceiveState::preposted_streaming || state == ReceiveState::preposted_open;
}
// Failed, and not done: the buffer may still be touched.
constexpr bool is_closing(SendState state) noexcept {
  return state == SendState::draining || state == SendState::revoking;
}
constexpr bool is_closing(ReceiveState state) noexcept {
  return state == ReceiveState::settling || state == ReceiveState::draining ||
         state == ReceiveState::revoking;
}

}  // namespace qpmesh::messaging
