// SPDX-License-Identifier: MIT
// Requests: waited for, tested, started, cancelled, freed.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "entry.hpp"
#include "environment.hpp"
#include "of_thread.hpp"
#include "request.hpp"

namespace qpmesh::mpi {
namespace {

// ---- one request ----

// One look, or until its end. False: it goes on. How it failed stays in it: tell says it.
bool look(Request& request, bool wait) {
  if (request.ended) return true;
  if (request.kind == Request::Kind::generalized) {
    const Generalized& own = *request.extra->generalized;
    while (!own.complete() && wait) {  // another call of the program's ends it, in another thread
      qpmesh_progress(world_mesh());
      std::this_thread::yield();
    }
    if (!own.complete()) qpmesh_progress(world_mesh());
    request.ended = own.complete();
    return request.ended;
  }
  if (request.operation != nullptr) {
    int done = 1;
    const int code = wait ? qpmesh_wait_and_free(request.operation, &request.got)
                          : qpmesh_test(request.operation, &done, &request.got);
    if (wait) request.operation = nullptr;  // not before: another thread may cancel it
    if (code != QPMESH_OK) [[unlikely]] {
      request.ended = true;
      request.need_extra().failure = last_failure();
      return true;
    }
    if (done == 0) return false;
  }
  request.ended = true;
  if (request.extra != nullptr && !request.cancelled) {
    const bool receives = request.kind == Request::Kind::receive;
    request.extra->staging.end(receives ? request.got.bytes : SIZE_MAX);
  }
  return true;
}

// Of one that has ended. Fails where it did.
void tell(Request& request, MPI_Status* status) {
  if (request.extra != nullptr && request.extra->failure) [[unlikely]]
    throw Failure{*request.extra->failure};
  switch (request.kind) {
    case Request::Kind::receive:
      if (request.cancelled) return set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, true);
      set_status(status, request.got);
      check_received(request.got, request.capacity_bytes);
      return;
    case Request::Kind::generalized: {
      MPI_Status own{};
      set_empty_status(&own);
      const Generalized& functions = *request.extra->generalized;
      const int code = functions.query(functions.extra_state, &own);
      if (status != MPI_STATUS_IGNORE) {
        own.MPI_ERROR = status->MPI_ERROR;
        *status = own;
      }
      require(code == MPI_SUCCESS, code, "the query function of a generalized request failed");
      return;
    }
    case Request::Kind::send:
    case Request::Kind::collective: break;
  }
  set_empty_status(status);
}

// Of one whose handle is gone.
void destroy(Request& request) {
  int code = MPI_SUCCESS;
  if (request.kind == Request::Kind::generalized) {
    const Generalized& functions = *request.extra->generalized;
    code = functions.free(functions.extra_state);
  }
  delete &request;
  require(code == MPI_SUCCESS, code, "the free function of a generalized request failed");
}

// The handle is of no use any more: of a persistent one until it is started again.
void conclude(MPI_Request& handle) {
  Request& request = request_of(handle);
  if (request.persistent()) {
    qpmesh_request_free(std::exchange(request.operation, nullptr));
    request.active = false;
    return;
  }
  handle = MPI_REQUEST_NULL;
  destroy(request);
}

bool is_active(MPI_Request handle) { return !is_null(handle) && request_of(handle).active; }

// The usual end, where it is waited for, and there is nothing to do but to tell it. False: tell
// says more.
bool wait_plainly(Request& request, MPI_Status* status) {
  if (request.ended || request.extra != nullptr || request.operation == nullptr) return false;
  const int code = qpmesh_wait_and_free(request.operation, &request.got);
  request.operation = nullptr;
  request.ended = true;
  if (code != QPMESH_OK) [[unlikely]] {
    request.need_extra().failure = last_failure();
    return false;
  }
  if (request.kind != Request::Kind::receive) return set_empty_status(status), true;
  if (request.got.bytes > request.capacity_bytes) [[unlikely]]
    return false;
  set_status(status, request.got);
  return true;
}

// Is told of errors after its request is gone. A reference, or null: what had a destructor would be
// gone in functions that run at exit.
constinit thread_local Communicator* of_failed = nullptr;
Reference<Communicator> take_of_failed() noexcept {
  return Reference<Communicator>::adopt(std::exchange(of_failed, nullptr));
}

// Its end, if it has come, or when it comes.
bool complete(MPI_Request& handle, bool wait, MPI_Status* status) {
  if (is_sent_at_once(handle)) {
    handle = MPI_REQUEST_NULL;
    set_empty_status(status);
    return true;
  }
  if (!is_active(handle)) {
    set_empty_status(status);
    return true;
  }
  Request& request = request_of(handle);
  try {
    if (wait && wait_plainly(request, status)) [[likely]] {
      handle = MPI_REQUEST_NULL;
      delete &request;
      return true;
    }
    if (!look(request, wait)) return false;
    tell(request, status);
  } catch (...) {
    take_of_failed();  // of an error that nobody told
    of_failed = Reference<Communicator>{request.communicator}.release();
    conclude(handle);
    throw;
  }
  conclude(handle);
  return true;
}

// ---- requests that were freed in flight ----

// They hold their communicators, which the program may free. Generalized ones are not among them:
// the later of complete and free deletes those.
std::mutex abandoned_mutex;
std::vector<Request*> abandoned;
std::atomic<bool> has_abandoned = false;

void abandon(Request& request) {
  const std::lock_guard lock{abandoned_mutex};
  abandoned.push_back(&request);
  has_abandoned = true;
}

void reap(bool wait) {
  std::vector<Request*> looked_at;
  {
    const std::lock_guard lock{abandoned_mutex};
    looked_at.swap(abandoned);
    has_abandoned = false;
  }
  for (Request* const request : looked_at) {
    if (look(*request, wait)) delete request;
    else abandon(*request);
  }
}

void reap() {
  if (has_abandoned.load(std::memory_order_relaxed)) [[unlikely]]
    reap(false);
}

void free_request(MPI_Request& handle) {
  Request& request = request_of(handle);
  handle = MPI_REQUEST_NULL;
  if (&request == &sent_at_once) return;
  if (request.kind == Request::Kind::generalized) {
    const int before = request.extra->generalized->state.fetch_or(Generalized::is_freed);
    if ((before & Generalized::is_complete) != 0) destroy(request);
  } else if (!request.active || look(request, false)) {
    delete &request;
  } else {
    abandon(request);
  }
}

// ---- several ----

std::span<MPI_Request> list(int count, MPI_Request* requests) {
  require(count >= 0, MPI_ERR_COUNT, "a count of ", count);
  require(requests != nullptr || count == 0, MPI_ERR_REQUEST, "the list is null");
  return {requests, static_cast<std::size_t>(count)};
}

// The communicator of the first one that has one: its error handler hears of errors that are of no
// request.
Reference<Communicator> communicator_of(int count, const MPI_Request* requests) {
  for (int i = 0; requests != nullptr && i < count; ++i) {
    if (!is_predefined(requests[i]) && request_of(requests[i]).communicator)
      return request_of(requests[i]).communicator;
  }
  return {};
}

template <class Body>
int on_requests(const char* function, int count, MPI_Request* requests, Body&& body) {
  std::exception_ptr failure;
  try {
    require_running();
    reap();
    std::forward<Body>(body)(list(count, requests));
    return MPI_SUCCESS;
  } catch (...) {
    failure = std::current_exception();
  }
  const Reference<Communicator> where =
      of_failed != nullptr ? take_of_failed() : communicator_of(count, requests);
  return guarded(function, where.get(), [&] { std::rethrow_exception(failure); });
}

// The errors of several calls: all of them are made, then the first is told, and each in its
// status.
class Errors {
 public:
  template <class Call>
  void collect(MPI_Status* status, Call&& call) {
    try {
      std::forward<Call>(call)();
      codes_.emplace_back(status, MPI_SUCCESS);
    } catch (const Failure& failure) {
      codes_.emplace_back(status, failure.code);
      if (!first_) first_ = failure;
    }
  }
  void tell() const {
    if (!first_) return;
    for (const auto& [status, code] : codes_)
      if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = code;
    throw Failure{MPI_ERR_IN_STATUS, first_->text};
  }

 private:
  std::vector<std::pair<MPI_Status*, int>> codes_;
  std::optional<Failure> first_;
};

MPI_Status* at(MPI_Status* statuses, std::size_t index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}

// All of these, which have ended or are waited for.
void complete_all(std::span<MPI_Request> requests, MPI_Status* statuses) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      complete(requests[i], true, at(statuses, i));
    } catch (const Failure&) {
      Errors errors;
      for (std::size_t before = 0; before < i; ++before)
        errors.collect(at(statuses, before), [] {});
      errors.collect(at(statuses, i), [] { throw; });
      for (++i; i < requests.size(); ++i)
        errors.collect(at(statuses, i), [&] { complete(requests[i], true, at(statuses, i)); });
      errors.tell();
    }
  }
}

constexpr std::size_t nobody = SIZE_MAX;

// What qpmesh waits for of the list that this thread looks at: its requests, with null for what is
// not in flight. Kept between calls: a list of the same length allocates nothing.
using Operations = std::vector<qpmesh_request*>;
Operations& operations_of_thread() { return OfThread<Operations>::get(); }

struct InFlight {
  explicit InFlight(std::span<MPI_Request> requests) {
    operations.assign(requests.size(), nullptr);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!is_active(requests[i])) continue;
      any_active = true;
      Request& request = request_of(requests[i]);
      if (request.kind == Request::Kind::generalized) {
        if (request.extra->generalized->complete()) add_ended(i);
        else generalized = true;
      } else if (request.ended || request.operation == nullptr) {
        add_ended(i);
      } else {
        operations[i] = request.operation;
      }
    }
  }
  void add_ended(std::size_t index) { first_ended = std::min(first_ended, index); }

  Operations& operations = operations_of_thread();
  bool any_active = false;
  bool generalized = false;  // some are, and have not ended
  std::size_t first_ended = nobody;
};

// Has the first active one ended? It is asked before all others are: who waits for any, again and
// again, mostly finds it so.
bool first_has_ended(std::span<MPI_Request> requests, std::size_t& index) {
  const auto first = std::ranges::find_if(requests, is_active);
  if (first == requests.end()) return false;
  index = static_cast<std::size_t>(first - requests.begin());
  return look(request_of(*first), false);
}

// One that has ended, or nobody: none is active; without waiting also: none has ended.
std::size_t any(std::span<MPI_Request> requests, bool wait, bool& any_active) {
  std::size_t first = 0;
  any_active = first_has_ended(requests, first);
  if (any_active) return first;
  while (true) {
    const InFlight in_flight{requests};
    any_active = in_flight.any_active;
    if (in_flight.first_ended != nobody || !any_active) return in_flight.first_ended;
    std::size_t index = requests.size();
    if (wait && !in_flight.generalized)
      check(qpmesh_wait_any(in_flight.operations.data(), requests.size(), &index));
    else check(qpmesh_test_any(in_flight.operations.data(), requests.size(), &index));
    if (index < requests.size()) return index;
    if (!wait) return nobody;
    std::this_thread::yield();
  }
}

void store_any(std::span<MPI_Request> requests, std::size_t found, int* index, MPI_Status* status) {
  if (found == nobody) {
    *index = MPI_UNDEFINED;
    return set_empty_status(status);
  }
  *index = static_cast<int>(found);
  complete(requests[found], true, status);
}

// All that have ended, into indexes and statuses; *count is MPI_UNDEFINED where none is active.
void some(std::span<MPI_Request> requests, bool wait, int* count, int* indexes,
          MPI_Status* statuses) {
  check_addresses(count);
  if (!requests.empty()) check_addresses(indexes);
  bool any_active = false;
  const std::size_t first = any(requests, wait, any_active);
  *count = any_active ? 0 : MPI_UNDEFINED;
  if (first == nobody) return;
  Errors errors;
  const auto add = [&](std::size_t index) {
    MPI_Status* const status = at(statuses, static_cast<std::size_t>(*count));
    indexes[(*count)++] = static_cast<int>(index);
    errors.collect(status, [&] { complete(requests[index], true, status); });
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!is_active(requests[i])) continue;
    if (i == first || look(request_of(requests[i]), false)) add(i);
  }
  errors.tell();
}

void start(MPI_Request handle) {
  require(!is_null(handle), MPI_ERR_REQUEST, "the request is MPI_REQUEST_NULL");
  Request& request = request_of(handle);
  require(request.persistent(), MPI_ERR_REQUEST,
          "the request is not persistent: it was started when it was made");
  require(!request.active, MPI_ERR_REQUEST, "the request is active: wait for it first");
  request.ended = false;
  request.cancelled = false;
  request.got = Request::none;
  request.extra->failure.reset();
  request.extra->start(request);
  request.active = true;
}

// As complete, and the request stays.
bool status_of(MPI_Request handle, MPI_Status* status) {
  if (!is_active(handle)) {
    set_empty_status(status);
    return true;
  }
  if (!look(request_of(handle), false)) return false;
  tell(request_of(handle), status);
  return true;
}

}  // namespace

constinit thread_local FreeRequests free_requests;

void FreeRequests::give_first(void* memory) noexcept {
  if (begun_) return ::operator delete(memory);  // there are many, or the thread ends
  begun_ = true;
  count_ = 0;
  struct End {
    ~End() { free_requests.keep_none(); }
  };
  thread_local const End end;
  give(memory);
}

Request sent_at_once{Request::Sent{}};

void fail_without_request(MPI_Request handle) {
  require_running();
  require(!is_null(handle), MPI_ERR_REQUEST, "the request is MPI_REQUEST_NULL");
  fail(MPI_ERR_REQUEST, "the handle ", handle, " is no request");
}

void fail_truncated(const qpmesh_status& got, std::size_t capacity_bytes) {
  fail(MPI_ERR_TRUNCATE, "the message from rank ", got.source, " with tag ", got.tag, " has ",
       got.bytes, " bytes, and the receive ", capacity_bytes);
}

void finish_abandoned() {
  if (has_abandoned) reap(true);
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Wait, (MPI_Request * request, MPI_Status* status)) {
  return on_requests("MPI_Wait", 1, request,
                     [&](std::span<MPI_Request> one) { complete(one[0], true, status); });
}

QPMESH_MPI_ENTRY(Test, (MPI_Request * request, int* flag, MPI_Status* status)) {
  return on_requests("MPI_Test", 1, request, [&](std::span<MPI_Request> one) {
    check_addresses(flag);
    *flag = 1;
    *flag = complete(one[0], false, status);
  });
}

QPMESH_MPI_ENTRY(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[])) {
  return on_requests("MPI_Waitall", count, requests,
                     [&](std::span<MPI_Request> all) { complete_all(all, statuses); });
}

QPMESH_MPI_ENTRY(Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status)) {
  return on_requests("MPI_Waitany", count, requests, [&](std::span<MPI_Request> all) {
    check_addresses(index);
    bool any_active = false;
    store_any(all, any(all, true, any_active), index, status);
  });
}

QPMESH_MPI_ENTRY(Waitsome, (int count, MPI_Request requests[], int* ended_count, int indexes[],
                            MPI_Status statuses[])) {
  return on_requests("MPI_Waitsome", count, requests, [&](std::span<MPI_Request> all) {
    some(all, true, ended_count, indexes, statuses);
  });
}

QPMESH_MPI_ENTRY(Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[])) {
  return on_requests("MPI_Testall", count, requests, [&](std::span<MPI_Request> all) {
    check_addresses(flag);
    const InFlight in_flight{all};
    *flag = 0;
    if (in_flight.generalized) {
      qpmesh_progress(world_mesh());
      return;
    }
    check(qpmesh_test_all(in_flight.operations.data(), all.size(), flag));
    if (*flag != 0) complete_all(all, statuses);
  });
}

QPMESH_MPI_ENTRY(Testany,
                 (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status)) {
  return on_requests("MPI_Testany", count, requests, [&](std::span<MPI_Request> all) {
    check_addresses(index, flag);
    bool any_active = false;
    const std::size_t found = any(all, false, any_active);
    *flag = found != nobody || !any_active;
    if (*flag != 0) store_any(all, found, index, status);
    else *index = MPI_UNDEFINED;
  });
}

QPMESH_MPI_ENTRY(Testsome, (int count, MPI_Request requests[], int* ended_count, int indexes[],
                            MPI_Status statuses[])) {
  return on_requests("MPI_Testsome", count, requests, [&](std::span<MPI_Request> all) {
    some(all, false, ended_count, indexes, statuses);
  });
}

QPMESH_MPI_ENTRY(Start, (MPI_Request * request)) {
  return on_requests("MPI_Start", 1, request, [](std::span<MPI_Request> one) { start(one[0]); });
}

QPMESH_MPI_ENTRY(Startall, (int count, MPI_Request requests[])) {
  return on_requests("MPI_Startall", count, requests, [](std::span<MPI_Request> all) {
    for (const MPI_Request request : all) start(request);
  });
}

QPMESH_MPI_ENTRY(Cancel, (MPI_Request * request)) {
  return on_requests("MPI_Cancel", 1, request, [](std::span<MPI_Request> one) {
    Request& own = request_of(one[0]);
    if (own.kind == Request::Kind::generalized) {
      const Generalized& functions = *own.extra->generalized;
      const int code = functions.cancel(functions.extra_state, functions.complete());
      require(code == MPI_SUCCESS, code, "the cancel function of a generalized request failed");
    }
    require(own.kind != Request::Kind::collective, MPI_ERR_REQUEST,
            "a collective cannot be cancelled");
    // Sends are not taken back: they end as they would.
    if (own.kind != Request::Kind::receive || !own.active || own.ended) return;
    if (own.operation == nullptr) return;
    int taken_back = 0;
    check(qpmesh_cancel(own.operation, &taken_back));
    own.cancelled = own.ended = taken_back != 0;
  });
}

QPMESH_MPI_ENTRY(Request_free, (MPI_Request * request)) {
  return on_requests("MPI_Request_free", 1, request,
                     [](std::span<MPI_Request> one) { free_request(one[0]); });
}

QPMESH_MPI_ENTRY(Request_get_status, (MPI_Request request, int* flag, MPI_Status* status)) {
  return on_requests("MPI_Request_get_status", 1, &request, [&](std::span<MPI_Request> one) {
    check_addresses(flag);
    *flag = 1;
    *flag = status_of(one[0], status);
  });
}

QPMESH_MPI_ENTRY(Request_get_status_all,
                 (int count, MPI_Request requests[], int* flag, MPI_Status statuses[])) {
  return on_requests(
      "MPI_Request_get_status_all", count, requests, [&](std::span<MPI_Request> all) {
        check_addresses(flag);
        *flag = 1;
        for (const MPI_Request request : all)
          if (is_active(request) && !look(request_of(request), false)) *flag = 0;
        if (*flag == 0) return;
        Errors errors;
        for (std::size_t i = 0; i < all.size(); ++i)
          errors.collect(at(statuses, i), [&] { status_of(all[i], at(statuses, i)); });
        errors.tell();
      });
}

QPMESH_MPI_ENTRY(Request_get_status_any,
                 (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status)) {
  return on_requests("MPI_Request_get_status_any", count, requests,
                     [&](std::span<MPI_Request> all) {
                       check_addresses(index, flag);
                       *index = MPI_UNDEFINED;
                       *flag = std::ranges::none_of(all, is_active);
                       if (*flag != 0) return set_empty_status(status);
                       for (std::size_t i = 0; i < all.size(); ++i) {
                         if (!is_active(all[i]) || !status_of(all[i], status)) continue;
                         *index = static_cast<int>(i);
                         *flag = 1;
                         return;
                       }
                     });
}

QPMESH_MPI_ENTRY(Request_get_status_some, (int count, MPI_Request requests[], int* ended_count,
                                           int indexes[], MPI_Status statuses[])) {
  return on_requests(
      "MPI_Request_get_status_some", count, requests, [&](std::span<MPI_Request> all) {
        check_addresses(ended_count);
        if (!all.empty()) check_addresses(indexes);
        *ended_count = std::ranges::none_of(all, is_active) ? MPI_UNDEFINED : 0;
        Errors errors;
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (!is_active(all[i]) || !look(request_of(all[i]), false)) continue;
          MPI_Status* const status = at(statuses, static_cast<std::size_t>(*ended_count));
          indexes[(*ended_count)++] = static_cast<int>(i);
          errors.collect(status, [&] { status_of(all[i], status); });
        }
        errors.tell();
      });
}

QPMESH_MPI_ENTRY(Grequest_start,
                 (MPI_Grequest_query_function * query, MPI_Grequest_free_function* free,
                  MPI_Grequest_cancel_function* cancel, void* extra_state, MPI_Request* request)) {
  return while_running("MPI_Grequest_start", [&] {
    check_addresses(request);
    auto own =
        std::make_unique<Request>(communicator_of(MPI_COMM_SELF), Request::Kind::generalized);
    own->need_extra().generalized.reset(new Generalized{query, free, cancel, extra_state});
    *request = own.release()->handle();
  });
}

QPMESH_MPI_ENTRY(Grequest_complete, (MPI_Request request)) {
  return while_running("MPI_Grequest_complete", [&] {
    Request& own = request_of(request);
    require(own.kind == Request::Kind::generalized, MPI_ERR_REQUEST,
            "the request is no generalized one");
    // Behind this a waiting thread may have deleted it, where it is not freed.
    const int before = own.extra->generalized->state.fetch_or(Generalized::is_complete);
    if ((before & Generalized::is_freed) != 0) destroy(own);
    reap();
  });
}
