// SPDX-License-Identifier: MIT
// For C: requests, and point to point.
#include <array>
#include <chrono>

#include "face/c_interface.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::face;
using detail::AnyMessage;

static_assert(any_source == QPMESH_ANY_SOURCE && any_tag == QPMESH_ANY_TAG);

Request& required_request(qpmesh_request* request, std::string_view operation) {
  return required(request, "request", operation).request();
}

void store_end(Request& request, bool ended, int* done, qpmesh_status* status) {
  if (ended) store(status, request.wait());
  *done = ended;
}

// Handles lie apart, and the face takes a row. These stand for the same operations, and are not
// destroyed: the handles own them. So they stay where they are while another thread waits for one,
// which is an error, and is told as one.
class Row {
 public:
  Row(qpmesh_request* const* requests, std::size_t count, std::string_view operation)
      : handles_{requests, count} {
    if (count > 0) required(requests, "requests", operation);
    if (count > few_.size()) many_.reset(new Place[count]);
    for (std::size_t i = 0; i < count; ++i) ::new (first() + i) Request{stand_in(requests[i])};
  }

  std::span<Request> requests() noexcept {
    return {reinterpret_cast<Request*>(first()), handles_.size()};
  }
  // Their end was told, here.
  void tell_ended() {
    for (qpmesh_request* const handle : handles_)
      if (handle != nullptr && Access::has_untold_end(handle->request())) handle->request().test();
  }

 private:
  static Request stand_in(qpmesh_request* handle) {
    if (handle == nullptr) return Request{};
    return Access::stand_in(handle->request());
  }

  struct Place {
    alignas(Request) std::array<std::byte, sizeof(Request)> bytes;
  };
  Place* first() noexcept { return many_ ? many_.get() : few_.data(); }

  std::span<qpmesh_request* const> handles_;
  std::array<Place, 64> few_;  // of the usual list: it allocates nothing
  std::unique_ptr<Place[]> many_;
};

// Memory of handles that this thread freed.
class FreeHandles {
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
  void reserve(std::size_t bytes) {
    if (first_ == nullptr) [[unlikely]]
      give(::operator new(bytes));
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr int count_max = 1024;  // 100 KiB; a thread may free what others began

  void give_first(void* memory) noexcept;
  void keep_none() noexcept {  // the thread ends
    while (first_ != nullptr) ::operator delete(std::exchange(first_, first_->next));
    count_ = count_max;
  }

  Free* first_ = nullptr;
  int count_ = count_max;  // until the first is given, and again when the thread ends
  bool begun_ = false;
};
// initial-exec and constinit: found without a call, as FramePool's.
[[gnu::tls_model("initial-exec")]] constinit thread_local FreeHandles free_handles;

void FreeHandles::give_first(void* memory) noexcept {
  if (begun_) return ::operator delete(memory);  // there are many, or the thread ends
  begun_ = true;
  count_ = 0;
  struct End {
    ~End() { free_handles.keep_none(); }
  };
  thread_local const End end;
  give(memory);
}

AnyMessage a_send(const void* data, std::size_t count, qpmesh_type type, int destination, int tag,
                  std::string_view operation) {
  return AnyMessage::send(source(data, count, element_of(type, operation)), destination, tag);
}

AnyMessage a_receive(void* data, std::size_t count, qpmesh_type type, int from, int tag,
                     std::string_view operation) {
  return AnyMessage::receive(target(data, count, element_of(type, operation)), from, tag);
}

AnyMessage an_exchange(const AnyMessage& sent, const AnyMessage& received) {
  return {AnyMessage::Kind::sendrecv, sent.sent,     sent.to,
          received.received,          received.from, {sent.tags.sent, received.tags.received}};
}

void start(qpmesh_request& request) {
  if (!request.prepared)
    bad_argument("start", "set prepared in the qpmesh_call of its _async",
                 "the request is not prepared: it was started when it was made");
  request.prepared->start();
}

}  // namespace

void qpmesh_request::reserve() { free_handles.reserve(sizeof(qpmesh_request)); }
void* qpmesh_request::operator new(std::size_t bytes) { return free_handles.take(bytes); }
void qpmesh_request::operator delete(void* memory) noexcept { free_handles.give(memory); }

int qpmesh_test(qpmesh_request* request, int* done, qpmesh_status* status) {
  return guarded("test", [&] {
    Request& own = required_request(request, "test");
    required(done, "done", "test");
    store_end(own, own.test(), done, status);
  });
}

int qpmesh_wait(qpmesh_request* request, qpmesh_status* status) {
  return guarded("wait", [&] { store(status, required_request(request, "wait").wait()); });
}

int qpmesh_wait_and_free(qpmesh_request* request, qpmesh_status* status) {
  return guarded("wait", [&] {
    required(request, "request", "wait");
    const std::unique_ptr<qpmesh_request> own{request};  // gone, whatever the end
    store(status, own->prepared ? own->request().wait() : Access::finish(own->started));
  });
}

int qpmesh_wait_for(qpmesh_request* request, int limit_ms, int* done, qpmesh_status* status) {
  return guarded("wait_for", [&] {
    Request& own = required_request(request, "wait_for");
    required(done, "done", "wait_for");
    store_end(own, own.wait_for(std::chrono::milliseconds{limit_ms}), done, status);
  });
}

int qpmesh_wait_all(qpmesh_request* const* requests, size_t count) {
  return guarded("wait_all", [&] {
    Row row{requests, count, "wait_all"};
    row.tell_ended();
    wait_all(row.requests());
  });
}

int qpmesh_test_all(qpmesh_request* const* requests, size_t count, int* done) {
  return guarded("test_all", [&] {
    Row row{requests, count, "test_all"};
    required(done, "done", "test_all") = test_all(row.requests());
  });
}

int qpmesh_wait_any(qpmesh_request* const* requests, size_t count, size_t* index) {
  return guarded("wait_any", [&] {
    Row row{requests, count, "wait_any"};
    auto& found = required(index, "index", "wait_any");
    found = wait_any(row.requests());
  });
}

int qpmesh_test_any(qpmesh_request* const* requests, size_t count, size_t* index) {
  return guarded("test_any", [&] {
    Row row{requests, count, "test_any"};
    required(index, "index", "test_any") = test_any(row.requests()).value_or(count);
  });
}

int qpmesh_wait_some(qpmesh_request* const* requests, size_t count, size_t* indexes,
                     size_t* found) {
  return guarded("wait_some", [&] {
    Row row{requests, count, "wait_some"};
    required(indexes, "indexes", "wait_some");
    auto& found_count = required(found, "found", "wait_some");
    const auto ended = wait_some(row.requests());
    std::ranges::copy(ended, indexes);
    found_count = ended.size();
  });
}

int qpmesh_cancel(qpmesh_request* request, int* taken_back) {
  return guarded("cancel", [&] {
    Request& own = required_request(request, "cancel");
    required(taken_back, "taken_back", "cancel") = own.cancel();
  });
}

int qpmesh_on_end(qpmesh_request* request, void (*function)(void* context), void* context) {
  return guarded("on_end", [&] {
    Request& own = required_request(request, "on_end");
    if (function == nullptr) bad_argument("on_end", "give a function", "the function is null");
    own.on_end([=] { function(context); });
  });
}

int qpmesh_detach(qpmesh_request* request) {
  return guarded("detach", [&] {
    auto& own = required(request, "request", "detach");
    if (own.prepared)
      bad_argument("detach", "start it and wait for it",
                   "the request is prepared, to be used again");
    own.started.detach();
    delete request;
  });
}

int qpmesh_start(qpmesh_request* request) {
  return guarded("start", [&] { start(required(request, "request", "start")); });
}

int qpmesh_start_all(qpmesh_request* const* requests, size_t count) {
  return guarded("start_all", [&] {
    if (count > 0) required(requests, "requests", "start_all");
    for (qpmesh_request* const request : std::span{requests, count})
      if (request != nullptr) start(*request);
  });
}

int qpmesh_request_free(qpmesh_request* request) {
  delete request;
  return QPMESH_OK;
}

int qpmesh_send(qpmesh_communicator* world, const void* data, size_t count, qpmesh_type type,
                int destination, int tag, const qpmesh_call* call) {
  constexpr std::string_view operation = "send";
  return guarded(operation, [&] {
    Access::send(required_world(world, operation).communicator,
                 a_send(data, count, type, destination, tag, operation),
                 read_blocking(call, operation).options);
  });
}

int qpmesh_send_async(qpmesh_communicator* world, const void* data, size_t count, qpmesh_type type,
                      int destination, int tag, const qpmesh_call* call, qpmesh_request** request) {
  constexpr std::string_view operation = "send_async";
  return guarded(operation, [&] {
    auto& own = required_world(world, operation);
    auto& made = required(request, "request", operation);
    const Asked asked = read_call(call, operation);
    const auto elements = source(data, count, element_of(type, operation));
    if (asked.prepared) [[unlikely]] {
      return prepare(own, AnyMessage::send(elements, destination, tag), asked.options, made);
    }
    qpmesh_request::reserve();
    Request started =
        Access::send_async(own.communicator, elements, destination, tag, asked.options);
    const bool is_null = asked.null_when_over && Access::has_untold_end(started);
    made = is_null ? nullptr : new qpmesh_request{std::move(started)};
  });
}

int qpmesh_receive(qpmesh_communicator* world, void* data, size_t count, qpmesh_type type, int from,
                   int tag, const qpmesh_call* call, qpmesh_status* status) {
  constexpr std::string_view operation = "receive";
  return guarded(operation, [&] {
    store(status, Access::receive(required_world(world, operation).communicator,
                                  a_receive(data, count, type, from, tag, operation),
                                  read_blocking(call, operation).options));
  });
}

int qpmesh_receive_async(qpmesh_communicator* world, void* data, size_t count, qpmesh_type type,
                         int from, int tag, const qpmesh_call* call, qpmesh_request** request) {
  constexpr std::string_view operation = "receive_async";
  return guarded(operation, [&] {
    auto& own = required_world(world, operation);
    auto& made = required(request, "request", operation);
    const Asked asked = read_call(call, operation);
    const auto elements = target(data, count, element_of(type, operation));
    if (asked.prepared) [[unlikely]] {
      return prepare(own, AnyMessage::receive(elements, from, tag), asked.options, made);
    }
    start(made, [&] {
      return Access::receive_async(own.communicator, elements, from, tag, asked.options);
    });
  });
}

int qpmesh_sendrecv(qpmesh_communicator* world, const void* sent, size_t sent_count,
                    qpmesh_type sent_type, int to, int sent_tag, void* received,
                    size_t received_count, qpmesh_type received_type, int from, int received_tag,
                    const qpmesh_call* call, qpmesh_status* status) {
  constexpr std::string_view operation = "sendrecv";
  return guarded(operation, [&] {
    const AnyMessage what = an_exchange(
        a_send(sent, sent_count, sent_type, to, sent_tag, operation),
        a_receive(received, received_count, received_type, from, received_tag, operation));
    store(status, Access::sendrecv(required_world(world, operation).communicator, what,
                                   read_blocking(call, operation).options));
  });
}

int qpmesh_sendrecv_async(qpmesh_communicator* world, const void* sent, size_t sent_count,
                          qpmesh_type sent_type, int to, int sent_tag, void* received,
                          size_t received_count, qpmesh_type received_type, int from,
                          int received_tag, const qpmesh_call* call, qpmesh_request** request) {
  constexpr std::string_view operation = "sendrecv_async";
  return guarded(operation, [&] {
    const AnyMessage what = an_exchange(
        a_send(sent, sent_count, sent_type, to, sent_tag, operation),
        a_receive(received, received_count, received_type, from, received_tag, operation));
    auto& own = required_world(world, operation);
    auto& made = required(request, "request", operation);
    const Asked asked = read_call(call, operation);
    if (asked.prepared) return prepare(own, what, asked.options, made);
    start(made, [&] { return Access::start(own.communicator, what, asked.options); });
  });
}

int qpmesh_probe(qpmesh_communicator* world, int from, int tag, const qpmesh_call* call,
                 qpmesh_status* status) {
  return guarded("probe", [&] {
    store(status, required_world(world, "probe")
                      .communicator.probe(from, tag, read_blocking(call, "probe").options));
  });
}

int qpmesh_try_probe(qpmesh_communicator* world, int from, int tag, int* found,
                     qpmesh_status* status) {
  return guarded("try_probe", [&] {
    auto& own = required_world(world, "try_probe");
    auto& is_there = required(found, "found", "try_probe");
    const auto got = own.communicator.try_probe(from, tag);
    is_there = got.has_value();
    if (got) store(status, *got);
  });
}

int qpmesh_match(qpmesh_communicator* world, int from, int tag, const qpmesh_call* call,
                 qpmesh_message** message, qpmesh_status* status) {
  return guarded("match", [&] {
    auto& own = required_world(world, "match");
    auto& matched = required(message, "message", "match");
    matched =
        new qpmesh_message{own.communicator.match(from, tag, read_blocking(call, "match").options)};
    store(status, matched->message.status());
  });
}

int qpmesh_try_match(qpmesh_communicator* world, int from, int tag, qpmesh_message** message,
                     qpmesh_status* status) {
  return guarded("try_match", [&] {
    auto& own = required_world(world, "try_match");
    auto& matched = required(message, "message", "try_match");
    auto got = own.communicator.try_match(from, tag);
    matched = got ? new qpmesh_message{std::move(*got)} : nullptr;
    if (matched != nullptr) store(status, matched->message.status());
  });
}

int qpmesh_message_receive(qpmesh_message* message, void* data, size_t count, qpmesh_type type,
                           const qpmesh_call* call, qpmesh_status* status) {
  constexpr std::string_view operation = "receive";
  return guarded(operation, [&] {
    store(status, Access::receive(required(message, "message", operation).message,
                                  target(data, count, element_of(type, operation)),
                                  read_blocking(call, operation).options));
  });
}

int qpmesh_message_receive_async(qpmesh_message* message, void* data, size_t count,
                                 qpmesh_type type, const qpmesh_call* call,
                                 qpmesh_request** request) {
  constexpr std::string_view operation = "receive_async";
  return guarded(operation, [&] {
    auto& matched = required(message, "message", operation);
    auto& made = required(request, "request", operation);
    const Asked asked = read_call(call, operation);
    if (asked.prepared)
      bad_argument(operation, "prepare qpmesh_receive_async", "a message is received once");
    auto own = std::make_unique<qpmesh_request>();
    own->started = Access::receive_async(
        matched.message, target(data, count, element_of(type, operation)), asked.options);
    made = own.release();
  });
}

int qpmesh_message_free(qpmesh_message* message) {
  delete message;
  return QPMESH_OK;
}
