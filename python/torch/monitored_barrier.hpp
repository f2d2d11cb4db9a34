// SPDX-License-Identifier: MIT
// The barrier that names the ranks that are missing.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flight.hpp"

namespace qpmesh_torch {

// Waits up to timeout_ms for all ranks. Error: names all ranks that have not come, or, after twice
// that time, rank 0 alone. The group goes on then. number: counts such barriers on this rank, from
// 1 on.
inline void monitored_barrier(Group& group, std::uint64_t number, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  const Doing doing{"monitored_barrier", number, &group.name()};
  qpmesh_communicator* const communicator = group.communicator(doing);
  const int tag = own_tag(OwnTags::of_monitored_barriers, number);
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<std::uint8_t> has_come(size);  // by rank
  const char* const hint = "they may have ended, or wait in another call";

  // A receive is taken back when nothing comes: nobody is left then who could settle it.
  const auto take_back = [](qpmesh_request* request) {
    int taken_back = 0;
    qpmesh_cancel(request, &taken_back);
    qpmesh_request_free(request);
  };
  using Receive = std::unique_ptr<qpmesh_request, decltype(take_back)>;
  const auto receive = [&](std::uint8_t* data, std::size_t count, int source) {
    // The deadlines of the barrier end it.
    const qpmesh_call call{.struct_bytes = sizeof call, .timeout_ms = QPMESH_NO_TIMEOUT};
    qpmesh_request* request = nullptr;
    require_ok(
        qpmesh_receive_async(communicator, data, count, QPMESH_UINT8, source, tag, &call, &request),
        doing);
    return Receive{request, take_back};
  };
  const auto comes_until = [&](const Receive& from, Clock::time_point deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    int done = 0;
    require_ok(
        qpmesh_wait_for(from.get(), static_cast<int>(std::clamp<std::int64_t>(left, 1, INT_MAX)),
                        &done, nullptr),
        doing);
    if (done != 0) return true;
    int taken_back = 0;
    require_ok(qpmesh_cancel(from.get(), &taken_back), doing);
    if (taken_back == 0) require_ok(qpmesh_wait(from.get(), nullptr), doing);  // it comes just now
    return taken_back == 0;
  };
  const auto send = [&](const std::vector<std::uint8_t>& bytes, int destination) {
    const qpmesh_call call{.struct_bytes = sizeof call, .timeout_ms = timeout_ms};
    require_ok(qpmesh_send(communicator, bytes.data(), bytes.size(), QPMESH_UINT8, destination, tag,
                           &call),
               doing);
  };

  const Group::Waiting waiting{group};
  if (group.rank() == 0) {
    has_come[0] = 1;
    std::vector<std::uint8_t> words(size);
    std::vector<Receive> receives;
    for (std::size_t rank = 1; rank < size; ++rank)
      receives.push_back(receive(&words[rank], 1, static_cast<int>(rank)));
    const auto deadline = Clock::now() + milliseconds{timeout_ms};
    for (std::size_t rank = 1; rank < size; ++rank)
      has_come[rank] = comes_until(receives[rank - 1], deadline) ? 1 : 0;
    // Each rank that has come gets the whole list.
    for (std::size_t rank = 1; rank < size; ++rank)
      if (has_come[rank] != 0) send(has_come, static_cast<int>(rank));
  } else {
    send({1}, 0);
    // Rank 0 may have come later, and waits as long from then on.
    if (!comes_until(receive(has_come.data(), size, 0),
                     Clock::now() + 2 * milliseconds{timeout_ms}))
      throw_error(doing, QPMESH_TIMEOUT, "rank 0, whom all tell that they are there, has not come",
                  hint, 0);
  }
  std::string missing;
  for (std::size_t rank = 0; rank < size; ++rank)
    if (has_come[rank] == 0) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  if (missing.empty()) return;
  throw_error(doing, QPMESH_TIMEOUT,
              "of the " + std::to_string(size) + " ranks these have not come: " + missing, hint);
}

}  // namespace qpmesh_torch
