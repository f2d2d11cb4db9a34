// What a Request points to: the operation, and everything that must live as long as it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "collectives/allreduce/allreduce.hpp"
#include "communicator_state.hpp"
#include "messaging/operations.hpp"
#include "progress/task.hpp"

namespace qpmesh::detail {

// Lives in its context's pool while a Request holds it, or on the stack of a blocking call.
struct RequestState {
  RequestState(CommunicatorState& state, std::string_view name, Call its_call) noexcept
      : communicator{&state}, operation{name}, call{its_call} {}

  CommunicatorState* communicator;
  std::shared_ptr<CommunicatorState> keep_alive;  // of a Request; a blocking call needs none
  std::string_view operation;  // a literal
  Call call;
  bool has_send = false;
  bool has_receive = false;
  bool has_task = false;
  bool settled = false;        // the end was reported: by a return, or by throwing once
  // Unions: constructed by who sets has_…; most requests have one of them, and clearing the others would cost as much as sending.
  union {
    messaging::SendOperation send;
  };
  union {
    messaging::ReceiveOperation receive;
  };
  progress::TaskOperation task;
  std::array<std::shared_ptr<Allocation>, 2> held;  // Buffers that the operation reads or writes

  bool done() const noexcept {
    return (!has_send || send.done) && (!has_receive || receive.done) && (!has_task || task.done);
  }
};

// Throws what went wrong; otherwise what was received. The operation is done.
Status settle(RequestState& request);
// Waits until done or the deadline, ends what is still in flight then, and settles.
Status finish_waiting(RequestState& request);

}  // namespace qpmesh::detail
