// SPDX-License-Identifier: MIT
// Requests: an operation of qpmesh in flight, or what stands for one, with what is left to be done
// at its end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "communicator.hpp"
#include "counted.hpp"
#include "mpi.h"
#include "operation.hpp"
#include "qpmesh/qpmesh.h"
#include "staging.hpp"
#include "status.hpp"

namespace qpmesh::mpi {

// A generalized request's functions, and who is done with it: the program's work, the handle.
struct Generalized {
  static constexpr int is_complete = 1, is_freed = 2;

  MPI_Grequest_query_function* query;
  MPI_Grequest_free_function* free;
  MPI_Grequest_cancel_function* cancel;
  void* extra_state;
  std::atomic<int> state = 0;  // threads may complete and wait at once

  bool complete() const noexcept { return (state & is_complete) != 0; }
};

// Memory of requests that this thread freed.
class FreeRequests {
 public:
  void* take(std::size_t bytes) {
    if (first_ == nullptr) return ::operator new(bytes);
    --count_;
    return std::exchange(first_, first_->next);
  }
  void give(void* memory) noexcept {
    if (count_ == count_max) [[unlikely]]
      return give_first(memory);
    ++count_;
    first_ = ::new (memory) Free{first_};
  }
  // The next one of so many bytes is there.
  void reserve(std::size_t bytes) {
    if (first_ == nullptr) [[unlikely]]
      give(::operator new(bytes));
  }
  void keep_none() noexcept {  // the thread ends
    while (first_ != nullptr) ::operator delete(std::exchange(first_, first_->next));
    count_ = count_max;
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr int count_max = 1024;
  void give_first(void* memory) noexcept;

  Free* first_ = nullptr;
  int count_ = count_max;  // until the first is given, and again when the thread ends
  bool begun_ = false;
};
// initial-exec and constinit: found without a call.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local FreeRequests free_requests;

// What a request has where the usual one does not need it.
struct RequestExtra {
  Staging staging{};
  std::unique_ptr<Reduction> reduction{};
  std::optional<qpmesh_call> user{};             // that calls the reduction
  std::function<void(struct Request&)> start{};  // of a persistent one: begins it
  qpmesh_communicator* own_mesh = nullptr;       // of a persistent collective
  std::unique_ptr<Generalized> generalized{};
  std::optional<Failure> failure{};  // how it ended

  RequestExtra() = default;
  RequestExtra(const RequestExtra&) = delete;
  RequestExtra& operator=(const RequestExtra&) = delete;
  ~RequestExtra() { qpmesh_communicator_free(own_mesh); }
};

struct Request {
  enum class Kind : std::uint8_t { send, receive, collective, generalized };

  Request(Communicator* of, Kind own_kind) noexcept : communicator{of}, kind{own_kind} {}
  // sent_at_once alone.
  struct Sent {};
  explicit Request(Sent) noexcept : kind{Kind::send}, ended{true} {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() {
    if (operation != nullptr) qpmesh_request_free(operation);
  }

  RequestExtra& need_extra() {
    if (extra == nullptr) extra = std::make_unique<RequestExtra>();
    return *extra;
  }
  MPI_Request handle() noexcept { return reinterpret_cast<MPI_Request>(this); }
  bool persistent() const noexcept { return extra != nullptr && extra->start; }

  Reference<Communicator> communicator;
  qpmesh_request* operation = nullptr;  // null: it has ended when it began
  std::unique_ptr<RequestExtra> extra{};
  std::size_t capacity_bytes = 0;  // of a receive
  qpmesh_status got = none;        // what came, when it has ended
  Kind kind;
  bool active = true;      // a persistent one is not, before its start and after its end
  bool ended = false;      // its end was seen
  bool cancelled = false;  // a receive was taken back

  static constexpr qpmesh_status none{QPMESH_NO_RANK, QPMESH_ANY_TAG, 0};

  static void* operator new(std::size_t bytes) { return free_requests.take(bytes); }
  static void operator delete(void* memory) noexcept { free_requests.give(memory); }
};

// Of every send that was over when it began: there is nothing to remember of it. It is of no
// communicator, for it does not fail.
extern Request sent_at_once;
inline bool is_sent_at_once(MPI_Request handle) noexcept {
  return reinterpret_cast<Request*>(handle) == &sent_at_once;
}

[[noreturn]] void fail_without_request(MPI_Request handle);
inline bool is_null(MPI_Request handle) noexcept { return handle == MPI_REQUEST_NULL; }
// Of a handle that is not null. Failure{MPI_ERR_REQUEST} where it cannot be one.
inline Request& request_of(MPI_Request handle) {
  if (is_predefined(handle)) fail_without_request(handle);
  return *reinterpret_cast<Request*>(handle);
}

// How a receive ended: Failure{MPI_ERR_TRUNCATE} where the message was longer. The status is set.
[[noreturn]] void fail_truncated(const qpmesh_status& got, std::size_t capacity_bytes);
inline void check_received(const qpmesh_status& got, std::size_t capacity_bytes) {
  if (got.bytes > capacity_bytes) [[unlikely]]
    fail_truncated(got, capacity_bytes);
}

// At the end of MPI: what was freed in flight, and has work left at its end, comes to it.
void finish_abandoned();

}  // namespace qpmesh::mpi
