// The face for C: handles for objects, codes for exceptions, and enumerations for types. Everything
// else is the C++ face's.
#include <array>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "calls/argument_checks.hpp"
#include "qpmesh/qpmesh.h"
#include "qpmesh/qpmesh.hpp"

namespace {

using qpmesh::Collective;
using qpmesh::Error;
using qpmesh::ErrorCode;
using qpmesh::calls::bad_argument;
using qpmesh::detail::AnyCollective;
using qpmesh::detail::ConstElements;
using qpmesh::detail::Elements;

}  // namespace

struct qpmesh_communicator {  // NOLINT(readability-identifier-naming): C's name
  qpmesh::Communicator communicator;

  // The calls of a communicator whose types were taken off already.
  void send(const ConstElements& data, int destination, int tag) {
    communicator.send_elements(data, destination, tag, {});
  }
  qpmesh::Status receive(const Elements& data, int source, int tag) {
    return communicator.receive_elements(data, source, tag, {});
  }
  void run(const AnyCollective& what) { communicator.run_collective(what, {}); }
};

namespace {

// The enumerations of C are those of C++, in the same order; codes follow QPMESH_OK.
constexpr int code_of(ErrorCode code) noexcept { return static_cast<int>(code) + 1; }
static_assert(code_of(ErrorCode::bad_argument) == QPMESH_BAD_ARGUMENT);
static_assert(code_of(ErrorCode::truncated) == QPMESH_TRUNCATED);
static_assert(code_of(ErrorCode::internal) == QPMESH_INTERNAL);
static_assert(static_cast<int>(qpmesh::ElementType::none) == QPMESH_BYTE);
static_assert(static_cast<int>(qpmesh::ElementType::uint64) == QPMESH_UINT64);
static_assert(static_cast<int>(qpmesh::ElementType::bfloat16) == QPMESH_BFLOAT16);
static_assert(static_cast<int>(qpmesh::ReductionKind::average) == QPMESH_AVERAGE);
static_assert(static_cast<int>(qpmesh::ReductionKind::logical_xor) == QPMESH_LOGICAL_XOR);
static_assert(qpmesh::any_source == QPMESH_ANY_SOURCE && qpmesh::any_tag == QPMESH_ANY_TAG &&
              qpmesh::no_rank == QPMESH_NO_RANK);

constexpr std::array<std::size_t, QPMESH_BFLOAT16 + 1> bytes_of_types{1, 1, 2, 4, 8, 1, 2,
                                                                      4, 8, 4, 8, 2, 2};

// This thread's last error. The second stands in where there was no memory for the first.
thread_local std::string error_text;
thread_local const char* error_text_shown = "";

int failed(int code, const char* text) noexcept {
  try {
    error_text = text;
    error_text_shown = error_text.c_str();
  } catch (const std::bad_alloc&) {
    error_text_shown = "qpmesh: no_resource: no memory for the text of an error";
  }
  return code;
}

// Runs the call; what it throws becomes a code and this thread's text.
template <class F>
int guarded(F&& call) noexcept {
  try {
    std::forward<F>(call)();
    return QPMESH_OK;
  } catch (const Error& error) {
    return failed(code_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return failed(QPMESH_NO_RESOURCE, "qpmesh: no_resource: no memory");
  } catch (const std::exception& error) {
    return failed(QPMESH_INTERNAL, error.what());
  }
}

// The call of a communicator, which may be none.
template <class World, class F>
int guarded(World* world, std::string_view operation, F&& call) noexcept {
  return guarded([&] {
    if (world == nullptr) bad_argument(operation, "qpmesh_init makes it", "world is null");
    std::forward<F>(call)(*world);
  });
}

// A caller's vector. A number that is no type would be taken for the size of an element.
template <class Range, class Pointer>
Range vector_of(Pointer data, std::size_t count, qpmesh_type type, std::string_view operation) {
  const auto index = static_cast<std::size_t>(type);
  if (index >= bytes_of_types.size())
    bad_argument(operation, "take QPMESH_FLOAT32 or one of its like", "type {} does not exist",
                 static_cast<int>(type));
  return {data, count, bytes_of_types[index], static_cast<qpmesh::ElementType>(type)};
}
constexpr auto source = vector_of<ConstElements, const void*>;
constexpr auto target = vector_of<Elements, void*>;

// Elements of one block for every rank. So many that they cannot be counted no memory holds.
std::size_t count_of_all(const qpmesh_communicator& world, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(world.communicator.size());
  return qpmesh::base::checked_multiply(count, ranks).value_or(SIZE_MAX);
}

AnyCollective reduction_call(Collective collective, std::string_view operation, const void* in,
                             void* out, std::size_t count, qpmesh_type type,
                             qpmesh_reduction reduction, int root = 0) {
  if (type == QPMESH_BYTE)
    bad_argument(operation, "name the type of the elements: QPMESH_UINT8 or another",
                 "bytes are not reduced");
  const auto kind = static_cast<unsigned>(reduction);
  if (kind > QPMESH_LOGICAL_XOR)
    bad_argument(operation, "take QPMESH_SUM or one of its like", "reduction {} does not exist",
                 static_cast<int>(reduction));
  AnyCollective what{collective, source(in, count, type, operation),
                     target(out, count, type, operation), root};
  what.reduction.kind = static_cast<qpmesh::ReductionKind>(kind);
  return what;
}

}  // namespace

int qpmesh_init(qpmesh_communicator** world) {
  return guarded([&] {
    if (world == nullptr) bad_argument("init", "give the address of a pointer", "world is null");
    *world = new qpmesh_communicator{qpmesh::init()};
  });
}

int qpmesh_finalize(qpmesh_communicator* world) {
  const int code = guarded([&] {
    if (world != nullptr) world->communicator.finish();
  });
  delete world;
  return code;
}

int qpmesh_rank(const qpmesh_communicator* world) {
  int rank = -1;
  guarded(world, "rank", [&](const auto& calls) { rank = calls.communicator.rank(); });
  return rank;
}

int qpmesh_size(const qpmesh_communicator* world) {
  int size = -1;
  guarded(world, "size", [&](const auto& calls) { size = calls.communicator.size(); });
  return size;
}

int qpmesh_send(qpmesh_communicator* world, const void* data, size_t count, qpmesh_type type,
                int destination, int tag) {
  return guarded(world, "send", [&](auto& calls) {
    calls.send(source(data, count, type, "send"), destination, tag);
  });
}

int qpmesh_receive(qpmesh_communicator* world, void* data, size_t count, qpmesh_type type, int from,
                   int tag, qpmesh_status* status) {
  return guarded(world, "receive", [&](auto& calls) {
    const qpmesh::Status got = calls.receive(target(data, count, type, "receive"), from, tag);
    if (status != nullptr) *status = {got.source, got.tag, got.bytes};
  });
}

int qpmesh_barrier(qpmesh_communicator* world) {
  return guarded(world, "barrier",
                 [&](auto& calls) { calls.run(AnyCollective{Collective::barrier}); });
}

int qpmesh_broadcast(qpmesh_communicator* world, void* data, size_t count, qpmesh_type type,
                     int root) {
  return guarded(world, "broadcast", [&](auto& calls) {
    calls.run(
        AnyCollective{Collective::broadcast, {}, target(data, count, type, "broadcast"), root});
  });
}

int qpmesh_allgather(qpmesh_communicator* world, const void* in, void* out, size_t count,
                     qpmesh_type type) {
  return guarded(world, "allgather", [&](auto& calls) {
    const std::size_t all = count_of_all(calls, count);
    calls.run(AnyCollective{Collective::allgather, source(in, count, type, "allgather"),
                            target(out, all, type, "allgather")});
  });
}

int qpmesh_allreduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                     qpmesh_type type, qpmesh_reduction reduction) {
  return guarded(world, "allreduce", [&](auto& calls) {
    calls.run(reduction_call(Collective::allreduce, "allreduce", in, out, count, type, reduction));
  });
}

int qpmesh_reduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                  qpmesh_type type, qpmesh_reduction reduction, int root) {
  return guarded(world, "reduce", [&](auto& calls) {
    AnyCollective what =
        reduction_call(Collective::reduce, "reduce", in, out, count, type, reduction, root);
    if (calls.communicator.rank() != root) what.out = target(nullptr, 0, type, "reduce");
    calls.run(what);
  });
}

int qpmesh_alltoall(qpmesh_communicator* world, const void* in, void* out, size_t count,
                    qpmesh_type type) {
  return guarded(world, "alltoall", [&](auto& calls) {
    const std::size_t all = count_of_all(calls, count);
    calls.run(AnyCollective{Collective::alltoall, source(in, all, type, "alltoall"),
                            target(out, all, type, "alltoall")});
  });
}

const char* qpmesh_error_text(void) { return error_text_shown; }
