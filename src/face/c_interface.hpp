// SPDX-License-Identifier: MIT
// What the files of the face for C share: handles for objects, codes for exceptions, numbers for
// types. Everything else is the C++ face's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "calls/argument_checks.hpp"
#include "face/access.hpp"
#include "qpmesh/qpmesh.h"
#include "qpmesh/qpmesh.hpp"

struct qpmesh_request {  // NOLINT(readability-identifier-naming): C's name
  qpmesh::Request started{};
  std::optional<qpmesh::Prepared> prepared{};

  qpmesh::Request& request() { return prepared ? prepared->request() : started; }

  // From memory that handles gave back: a call allocates nothing when its thread has freed as many
  // as are in flight.
  static void reserve();  // for the next one
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;
};

struct qpmesh_message {  // NOLINT(readability-identifier-naming): C's name
  qpmesh::Message message;
};

struct qpmesh_communicator {  // NOLINT(readability-identifier-naming): C's name
  explicit qpmesh_communicator(qpmesh::Communicator&& own) noexcept
      : communicator{std::move(own)} {}

  qpmesh::Communicator communicator;
  std::unordered_map<const void*, std::shared_ptr<qpmesh::context::Allocation>> allocated{};
};

namespace qpmesh::face {

using calls::bad_argument;
using detail::Access;

// ---- errors ----

// Makes it this thread's last error; its code.
int failed(const Error& error) noexcept;
int failed_without_memory() noexcept;
// Of what is no Error.
int failed(std::string_view operation, const char* cause) noexcept;

// Runs the call; what it throws becomes a code and this thread's last error.
template <class F>
int guarded(std::string_view operation, F&& call) noexcept {
  try {
    std::forward<F>(call)();
    return QPMESH_OK;
  } catch (const Error& error) {
    return failed(error);
  } catch (const std::bad_alloc&) {
    return failed_without_memory();
  } catch (const std::exception& error) {
    return failed(operation, error.what());
  } catch (...) {  // of a callback
    return failed(operation, "something was thrown that is no std::exception");
  }
}

// The call needs what this points to.
template <class T>
T& required(T* pointer, std::string_view name, std::string_view operation) {
  if (pointer == nullptr) {
    bad_argument(operation, "give what the call works on, and an address for what it makes",
                 "{} is null", name);
  }
  return *pointer;
}
template <class World>
World& required_world(World* world, std::string_view operation) {
  if (world == nullptr) bad_argument(operation, "qpmesh_init makes it", "world is null");
  return *world;
}

inline void store(qpmesh_status* status, const Status& got) noexcept {
  if (status != nullptr) *status = {got.source, got.tag, got.bytes};
}

// ---- how a call is made ----

// A user's reduction, as AnyReduction takes it.
struct UserFunction {
  qpmesh_function function = nullptr;
  void* context = nullptr;
  bool commutative = false;
  std::string_view operation{};  // that runs it: a literal
};

// A qpmesh_call, read and checked.
struct Asked {
  CallOptions options{};
  UserFunction user{};
  bool prepared = false;
  bool null_when_over = false;
};
// One of another length than here, or with a timeout.
Asked read_unusual_call(const qpmesh_call& call, std::string_view operation);
inline Asked read_members(const qpmesh_call& call) {
  Asked asked;
  if (call.algorithm != nullptr) asked.options.algorithm = call.algorithm;
  asked.options.synchronous = call.synchronous != 0;
  asked.options.head = call.head != 0;
  asked.user = {call.function, call.context, call.commutative != 0};
  asked.prepared = call.prepared != 0;
  asked.null_when_over = call.null_when_over != 0;
  return asked;
}
// Here, as what follows, for callers that use a few of the members.
inline Asked read_call(const qpmesh_call* call, std::string_view operation) {
  if (call == nullptr) return {};
  if (call->struct_bytes != sizeof *call || call->timeout_ms != 0) [[unlikely]]
    return read_unusual_call(*call, operation);
  return read_members(*call);
}
// Of a call that has no _async form, or is not it.
Asked read_blocking_call(const qpmesh_call& call, std::string_view operation);
inline Asked read_blocking(const qpmesh_call* call, std::string_view operation) {
  if (call == nullptr) return {};
  return read_blocking_call(*call, operation);
}

// ---- vectors ----

// What a qpmesh_type says of an element.
struct AnElement {
  std::size_t bytes;
  ElementType type;
};
AnElement checked_element_of(qpmesh_type type, std::string_view operation);
inline AnElement element_of(qpmesh_type type, std::string_view operation) {
  if (type == QPMESH_BYTE) return {1, ElementType::none};
  return checked_element_of(type, operation);
}

inline detail::ConstElements source(const void* data, std::size_t count, AnElement element) {
  return {data, count, element.bytes, element.type};
}
inline detail::Elements target(void* data, std::size_t count, AnElement element) {
  return {data, count, element.bytes, element.type};
}

// A request of the caller's, of what begin() starts. There is memory for it first: nothing is in
// flight when there is none.
template <class Begin>
void start(qpmesh_request*& request, Begin&& begin) {
  qpmesh_request::reserve();
  request = new qpmesh_request{std::forward<Begin>(begin)()};
}
template <class What>
void prepare(qpmesh_communicator& world, const What& what, const CallOptions& options,
             qpmesh_request*& request) {
  auto own = std::make_unique<qpmesh_request>();
  own->prepared.emplace(Access::prepare(world.communicator, what, options));
  request = own.release();
}

}  // namespace qpmesh::face
