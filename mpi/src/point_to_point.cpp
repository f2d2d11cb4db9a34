// SPDX-License-Identifier: MIT
// Messages: every send and receive comes down to bytes from one place to another, so that a program
// may send one type and receive another of the same values.
#include <algorithm>
#include <memory>

#include "bsend.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "request.hpp"

namespace qpmesh::mpi {
namespace {

enum class Mode { standard, synchronous, buffered, ready };

constexpr qpmesh_call call_with(int qpmesh_call::*option) noexcept {
  qpmesh_call call{};
  call.struct_bytes = sizeof call;
  call.*option = 1;
  return call;
}
// A message that is too long is received, as far as there is room, and told.
constexpr qpmesh_call taking_head = call_with(&qpmesh_call::head);
constexpr qpmesh_call synchronous_call = call_with(&qpmesh_call::synchronous);
// A send that is over when it begins has no request.
constexpr qpmesh_call null_when_over = call_with(&qpmesh_call::null_when_over);

// ---- arguments ----

int mesh_target(const Communicator& own, int rank) {
  if (static_cast<unsigned>(rank) < static_cast<unsigned>(own.size)) [[likely]]
    return rank;
  require(rank == MPI_PROC_NULL, MPI_ERR_RANK, "rank ", rank, " of ", own.size, " ranks");
  return QPMESH_NO_RANK;
}

int mesh_source(const Communicator& own, int rank) {
  return rank == MPI_ANY_SOURCE ? QPMESH_ANY_SOURCE : mesh_target(own, rank);
}

int mesh_tag(int tag) {
  require(tag >= 0, MPI_ERR_TAG, "tag ", tag, " is negative");
  return tag;
}

int mesh_source_tag(int tag) { return tag == MPI_ANY_TAG ? QPMESH_ANY_TAG : mesh_tag(tag); }

struct To {
  int rank;
  int tag;
};
To to(const Communicator& own, int rank, int tag) {
  return {mesh_target(own, rank), mesh_tag(tag)};
}
To from(const Communicator& own, int rank, int tag) {
  return {mesh_source(own, rank), mesh_source_tag(tag)};
}

// ---- sends ----

std::size_t length(const Elements& elements) noexcept {
  return static_cast<std::size_t>(elements.bytes());
}

void send(Communicator& own, const Elements& elements, int rank, int tag, Mode mode) {
  const To target = to(own, rank, tag);
  Staging staging;
  const std::byte* const bytes = staging.source(elements);
  staging.begin();
  if (mode == Mode::buffered)
    return buffered_send(own, bytes, length(elements), target.rank, target.tag);
  check(qpmesh_send(own.mesh, bytes, length(elements), QPMESH_BYTE, target.rank, target.tag,
                    mode == Mode::synchronous ? &synchronous_call : nullptr));
}

// Null: it is over.
qpmesh_request* begin_send(Communicator& own, const std::byte* bytes, std::size_t count, To target,
                           Mode mode) {
  qpmesh_request* operation = nullptr;
  if (mode == Mode::buffered)
    return buffered_send(own, bytes, count, target.rank, target.tag), operation;
  const qpmesh_call* const call = mode == Mode::synchronous ? &synchronous_call : &null_when_over;
  check(qpmesh_send_async(own.mesh, bytes, count, QPMESH_BYTE, target.rank, target.tag, call,
                          &operation));
  return operation;
}

// Where the bytes of a request's elements are, or shall be.
const std::byte* source(Request& request, const Elements& elements) {
  return elements.in_one_piece() ? elements.first_byte()
                                 : request.need_extra().staging.packed(elements);
}
std::byte* target(Request& request, const Elements& elements) {
  return elements.in_one_piece() ? const_cast<std::byte*>(elements.first_byte())
                                 : request.need_extra().staging.target(elements);
}

MPI_Request isend(Communicator& own, const Elements& elements, int rank, int tag, Mode mode) {
  const To where = to(own, rank, tag);
  if (elements.in_one_piece()) [[likely]] {
    free_requests.reserve(sizeof(Request));  // nothing fails when it has begun
    qpmesh_request* const operation =
        begin_send(own, elements.first_byte(), length(elements), where, mode);
    if (operation == nullptr) return sent_at_once.handle();
    auto* const request = new Request{&own, Request::Kind::send};
    request->operation = operation;
    return request->handle();
  }
  auto request = std::make_unique<Request>(&own, Request::Kind::send);
  const std::byte* const bytes = source(*request, elements);
  request->extra->staging.begin();
  request->operation = begin_send(own, bytes, length(elements), where, mode);
  return request.release()->handle();
}

// A persistent one does at each start what is done once otherwise. It keeps its type.
template <class Begin>
MPI_Request prepare(std::unique_ptr<Request> request, const Elements& elements, Begin&& begin) {
  request->active = false;
  request->need_extra().start = [begin = std::forward<Begin>(begin),
                                 type = Reference{elements.type}](Request& own) {
    own.extra->staging.begin();
    begin(own);
  };
  return request.release()->handle();
}

MPI_Request send_init(Communicator& own, const Elements& elements, int rank, int tag, Mode mode) {
  const To where = to(own, rank, tag);
  auto request = std::make_unique<Request>(&own, Request::Kind::send);
  const std::byte* const bytes = source(*request, elements);
  const std::size_t count = length(elements);
  return prepare(std::move(request), elements, [=](Request& started) {
    started.operation = begin_send(*started.communicator, bytes, count, where, mode);
  });
}

// ---- receives ----

void receive(Communicator& own, const Elements& elements, int rank, int tag, MPI_Status* status) {
  const To source = from(own, rank, tag);
  Staging staging;
  std::byte* const bytes = staging.target(elements);
  qpmesh_status got;
  check(qpmesh_receive(own.mesh, bytes, length(elements), QPMESH_BYTE, source.rank, source.tag,
                       &taking_head, &got));
  staging.end(got.bytes);
  set_status(status, got);
  check_received(got, length(elements));
}

qpmesh_request* begin_receive(const Communicator& own, std::byte* bytes, std::size_t count,
                              To source) {
  qpmesh_request* operation = nullptr;
  check(qpmesh_receive_async(own.mesh, bytes, count, QPMESH_BYTE, source.rank, source.tag,
                             &taking_head, &operation));
  return operation;
}

std::unique_ptr<Request> a_receive(Communicator& own, const Elements& elements) {
  auto request = std::make_unique<Request>(&own, Request::Kind::receive);
  request->capacity_bytes = length(elements);
  return request;
}

MPI_Request ireceive(Communicator& own, const Elements& elements, int rank, int tag) {
  const To source = from(own, rank, tag);
  if (elements.in_one_piece()) [[likely]] {
    const std::size_t count = length(elements);
    free_requests.reserve(sizeof(Request));
    qpmesh_request* const operation =
        begin_receive(own, const_cast<std::byte*>(elements.first_byte()), count, source);
    auto* const request = new Request{&own, Request::Kind::receive};
    request->operation = operation;
    request->capacity_bytes = count;
    return request->handle();
  }
  auto request = a_receive(own, elements);
  request->operation =
      begin_receive(own, target(*request, elements), request->capacity_bytes, source);
  return request.release()->handle();
}

MPI_Request receive_init(Communicator& own, const Elements& elements, int rank, int tag) {
  const To source = from(own, rank, tag);
  auto request = a_receive(own, elements);
  std::byte* const bytes = target(*request, elements);
  return prepare(std::move(request), elements, [=](Request& started) {
    started.operation = begin_receive(*started.communicator, bytes, started.capacity_bytes, source);
  });
}

// ---- both ----

struct Exchange {
  To to;
  To from;
};
Exchange exchange_of(const Communicator& own, int destination, int send_tag, int source,
                     int receive_tag) {
  return {to(own, destination, send_tag), from(own, source, receive_tag)};
}

void exchange(Communicator& own, Staging& staging, const std::byte* out, std::size_t out_bytes,
              const Elements& received, const Exchange& with, MPI_Status* status) {
  std::byte* const in = staging.target(received);
  staging.begin();
  qpmesh_status got;
  check(qpmesh_sendrecv(own.mesh, out, out_bytes, QPMESH_BYTE, with.to.rank, with.to.tag, in,
                        length(received), QPMESH_BYTE, with.from.rank, with.from.tag, &taking_head,
                        &got));
  staging.end(got.bytes);
  set_status(status, got);
  check_received(got, length(received));
}

MPI_Request iexchange(std::unique_ptr<Request> request, const std::byte* out, std::size_t out_bytes,
                      const Elements& received, const Exchange& with) {
  std::byte* const in = target(*request, received);
  if (request->extra != nullptr) request->extra->staging.begin();
  check(qpmesh_sendrecv_async(request->communicator->mesh, out, out_bytes, QPMESH_BYTE,
                              with.to.rank, with.to.tag, in, length(received), QPMESH_BYTE,
                              with.from.rank, with.from.tag, &taking_head, &request->operation));
  return request.release()->handle();
}

// A call that begins or prepares something: make(communicator) gives its request.
template <class Make>
int make_request(const char* function, MPI_Comm comm, MPI_Request* request, Make&& make) {
  return on_communicator(function, comm, [&](Communicator& own) {
    check_addresses(request);  // before anything leaves
    *request = std::forward<Make>(make)(own);
  });
}

// ---- messages that were matched ----

struct Message {
  Reference<Communicator> communicator;
  qpmesh_message* matched;
};

MPI_Message handle_of(Communicator& own, qpmesh_message* matched, int source) {
  if (source == MPI_PROC_NULL) {
    qpmesh_message_free(matched);
    return MPI_MESSAGE_NO_PROC;
  }
  return reinterpret_cast<MPI_Message>(new Message{Reference{&own}, matched});
}

// The message of a handle, which is null from now on; null: of MPI_PROC_NULL.
std::unique_ptr<Message> take(MPI_Message& handle) {
  require(handle != MPI_MESSAGE_NULL, MPI_ERR_REQUEST, "the message is MPI_MESSAGE_NULL");
  require(handle == MPI_MESSAGE_NO_PROC || !is_predefined(handle), MPI_ERR_REQUEST, "the handle ",
          handle, " is no message");
  std::unique_ptr<Message> own;
  if (handle != MPI_MESSAGE_NO_PROC) own.reset(reinterpret_cast<Message*>(handle));
  handle = MPI_MESSAGE_NULL;
  return own;
}

// A call on a message: the error handler of its communicator hears of errors.
template <class Body>
int on_message(const char* function, const MPI_Message* handle, Body&& body) {
  Reference<Communicator> where;  // the message may be the last that holds it
  if (handle != nullptr && !is_predefined(*handle))
    where = reinterpret_cast<Message*>(*handle)->communicator;
  return guarded(function, where.get(), [&] {
    require_running();
    check_addresses(handle);
    std::forward<Body>(body)();
  });
}

void receive_message(const Elements& elements, MPI_Message& handle, MPI_Status* status) {
  const auto message = take(handle);
  if (message == nullptr) return set_status(status, Request::none);
  Staging staging;
  std::byte* const bytes = staging.target(elements);
  qpmesh_status got;
  const int ended = qpmesh_message_receive(message->matched, bytes, length(elements), QPMESH_BYTE,
                                           &taking_head, &got);
  qpmesh_message_free(message->matched);
  check(ended);
  staging.end(got.bytes);
  set_status(status, got);
  check_received(got, length(elements));
}

MPI_Request ireceive_message(const Elements& elements, MPI_Message& handle) {
  const auto message = take(handle);
  if (message == nullptr) {
    auto request = a_receive(*mpi::communicator_of(MPI_COMM_SELF), elements);
    check(qpmesh_receive_async(request->communicator->mesh, nullptr, 0, QPMESH_BYTE, QPMESH_NO_RANK,
                               0, nullptr, &request->operation));
    return request.release()->handle();
  }
  auto request = a_receive(*message->communicator, elements);
  std::byte* const bytes = target(*request, elements);
  const int begun = qpmesh_message_receive_async(message->matched, bytes, length(elements),
                                                 QPMESH_BYTE, &taking_head, &request->operation);
  qpmesh_message_free(message->matched);
  check(begun);
  return request.release()->handle();
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status)) {
  return on_communicator("MPI_Probe", comm, [&](Communicator& own) {
    const To with = from(own, source, tag);
    qpmesh_status seen;
    check(qpmesh_probe(own.mesh, with.rank, with.tag, nullptr, &seen));
    set_status(status, seen);
  });
}

QPMESH_MPI_ENTRY(Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status)) {
  return on_communicator("MPI_Iprobe", comm, [&](Communicator& own) {
    const To with = from(own, source, tag);
    check_addresses(flag);
    qpmesh_status seen;
    check(qpmesh_try_probe(own.mesh, with.rank, with.tag, flag, &seen));
    if (*flag != 0) set_status(status, seen);
  });
}

QPMESH_MPI_ENTRY(Mprobe,
                 (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)) {
  return on_communicator("MPI_Mprobe", comm, [&](Communicator& own) {
    const To with = from(own, source, tag);
    check_addresses(message);
    qpmesh_message* matched = nullptr;
    qpmesh_status seen;
    check(qpmesh_match(own.mesh, with.rank, with.tag, nullptr, &matched, &seen));
    *message = handle_of(own, matched, source);
    set_status(status, seen);
  });
}

QPMESH_MPI_ENTRY(Improbe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                           MPI_Status* status)) {
  return on_communicator("MPI_Improbe", comm, [&](Communicator& own) {
    const To with = from(own, source, tag);
    check_addresses(flag, message);
    qpmesh_message* matched = nullptr;
    qpmesh_status seen;
    check(qpmesh_try_match(own.mesh, with.rank, with.tag, &matched, &seen));
    *flag = matched != nullptr;
    if (matched == nullptr) return;
    *message = handle_of(own, matched, source);
    set_status(status, seen);
  });
}

#define QPMESH_MPI_ENTRIES "point_to_point.inc"
#include "counted_entries.inc"
