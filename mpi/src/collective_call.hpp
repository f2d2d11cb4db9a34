// SPDX-License-Identifier: MIT
// How a collective of MPI is made: its arguments, a call in one of three ways, and how its entries
// are defined. What only moves is moved as bytes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "entry.hpp"
#include "info.hpp"
#include "of_thread.hpp"
#include "request.hpp"

namespace qpmesh::mpi {

// ---- arguments ----

inline std::size_t unsigned_of(MPI_Count count) noexcept { return static_cast<std::size_t>(count); }

// So many blocks of elements, one behind the other.
inline Elements times(const Elements& block, int count) noexcept {
  return {block.data, block.count * count, block.type};
}
inline Elements block_of(const Elements& block, int index) noexcept {
  const auto* const data = static_cast<const std::byte*>(block.data);
  return {data + index * block.count * block.type->extent(), block.count, block.type};
}

inline void check_root(const Communicator& own, int root) {
  require(root >= 0 && root < own.size, MPI_ERR_ROOT, "root ", root, " of ", own.size, " ranks");
}

// A list of counts or displacements, of int or of MPI_Count.
class Numbers {
 public:
  explicit Numbers(const int* numbers) noexcept : narrow_{numbers} {}
  explicit Numbers(const MPI_Count* numbers) noexcept : wide_{numbers} {}

  bool is_null() const noexcept { return narrow_ == nullptr && wide_ == nullptr; }
  MPI_Count operator[](int index) const noexcept {
    return narrow_ != nullptr ? narrow_[index] : wide_[index];
  }
  // use(numbers, others), both as they are: a loop over them does not ask again which they are.
  // The other list comes from the same call.
  template <class Use>
  auto with(const Numbers& other, Use&& use) const {
    return narrow_ != nullptr ? use(narrow_, other.narrow_) : use(wide_, other.wide_);
  }

 private:
  const int* narrow_ = nullptr;
  const MPI_Count* wide_ = nullptr;
};

// Blocks of a vector argument: one for each rank, or for each neighbour.
struct Vector {
  const void* data;
  Numbers counts;
  Numbers displacements;
  const MPI_Datatype* types;  // one, or one for each block
  bool typed_blocks = false;  // then displacements are in bytes

  // A rank that reads the lists has them; to others they mean nothing.
  void check_lists() const {
    require(!counts.is_null() && !displacements.is_null() && types != nullptr, MPI_ERR_ARG,
            "a list of counts, displacements or types is null");
  }
  Elements block(int index) const {
    check_lists();
    const MPI_Count count = counts[index];
    require(count >= 0, MPI_ERR_COUNT, "block ", index, " has a count of ", count);
    Datatype* const type =
        count == 0 ? datatype_of(MPI_BYTE) : &committed_type(types[typed_blocks ? index : 0]);
    const MPI_Aint unit = typed_blocks ? 1 : type->extent();
    return {reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(data)) +
                displacements[index] * unit,
            count, type};
  }
};

// ---- reductions ----

// An operation on a type, as a call of qpmesh takes it.
struct How {
  qpmesh_type type;
  qpmesh_reduction reduction;
  bool packed = false;
  bool is_empty = false;                 // the type: there is nothing to reduce
  const qpmesh_call* options = nullptr;  // of the program's own operation

  std::size_t count(MPI_Count elements) const noexcept {
    return is_empty ? 0 : unsigned_of(elements);
  }
};

// Predefined operations on predefined types that qpmesh has itself: type << 8 | reduction, plus
// one; 0 is not known yet. Written with the same values by whoever comes first.
inline constexpr std::size_t operations_first = 0x20;
extern std::array<std::array<std::atomic<std::uint32_t>, predefined_datatypes>, 0x20>
    simple_reductions;

inline std::atomic<std::uint32_t>* simple_reduction(MPI_Op op, MPI_Datatype type) noexcept {
  const std::size_t row = number_of(op) - operations_first;
  const std::size_t column = number_of(type) - first_datatype;
  return row < simple_reductions.size() && column < predefined_datatypes
             ? &simple_reductions[row][column]
             : nullptr;
}

// ---- how a call is made ----

// The three ways. Memory and lists that it needs beside its arguments live as long as it does.
class Call {
 public:
  // It blocks.
  explicit Call(Communicator& own) noexcept : own_{own} {}
  // It begins, or is prepared; the handle is stored when that went well.
  Call(Communicator& own, MPI_Request* handle, bool persistent = false)
      : own_{own},
        request_{std::make_unique<Request>(&own, Request::Kind::collective)},
        handle_{handle},
        persistent_{persistent} {
    check_addresses(handle);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Communicator& communicator() const noexcept { return own_; }
  int rank() const noexcept { return own_.rank; }
  int size() const noexcept { return own_.size; }

  // issue(mesh, request): the call of qpmesh; request is null where it blocks.
  template <class Issue>
  void run(const Issue& issue) {
    if (request_ == nullptr) {
      staging_.begin();
      check(issue(own_.mesh, nullptr));
      staging_.end();
      return;
    }
    if (persistent_) {
      // Those of one communicator may be started in any order: each has ranks of its own.
      RequestExtra& extra = request_->need_extra();
      check(qpmesh_duplicate(own_.mesh, nullptr, &extra.own_mesh));
      extra.start = [issue](Request& request) {
        request.extra->staging.begin();
        check(issue(request.extra->own_mesh, &request.operation));
      };
      request_->active = false;
    } else {
      if (request_->extra != nullptr) request_->extra->staging.begin();
      check(issue(own_.mesh, &request_->operation));
    }
    *handle_ = request_.release()->handle();
  }

  Staging& staging() { return request_ != nullptr ? request_->need_extra().staging : staging_; }
  const std::byte* source(const Elements& elements) {
    return elements.in_one_piece() ? elements.first_byte() : staging().packed(elements);
  }
  std::byte* target(const Elements& elements) {
    return elements.in_one_piece() ? const_cast<std::byte*>(elements.first_byte())
                                   : staging().unpacked(elements);
  }

  How how(MPI_Op op, MPI_Datatype datatype) {
    const std::uint32_t known = known_reduction(op, datatype);
    return known != 0 ? How{static_cast<qpmesh_type>((known - 1) >> 8),
                            static_cast<qpmesh_reduction>((known - 1) & 0xff)}
                      : find_out_how(op, datatype);
  }

  // A list that the call reads: of this call where it is made again, else of the thread's.
  template <class T>
  T* list(int count) {
    static_assert(sizeof(T) <= sizeof(std::size_t));
    const std::size_t entries = unsigned_of(count);
    if (persistent_) {
      return reinterpret_cast<T*>(
          staging().memory(static_cast<MPI_Count>(entries * sizeof(std::size_t))));
    }
    std::vector<std::size_t>& own = OfThread<Lists>::get()[next_list_++];
    if (own.size() < entries + 1) own.resize(entries + 1);
    return reinterpret_cast<T*>(own.data());
  }

 private:
  // Of predefined operations and types that qpmesh has itself, once they were found out; else 0.
  static std::uint32_t known_reduction(MPI_Op op, MPI_Datatype type) noexcept {
    const std::atomic<std::uint32_t>* const known = simple_reduction(op, type);
    return known != nullptr ? known->load(std::memory_order_relaxed) : 0;
  }
  How find_out_how(MPI_Op op, MPI_Datatype datatype);
  // The call of qpmesh of a user's reduction, which stays as long as that.
  qpmesh_call& user_options(Reduction& reduction);

  Communicator& own_;
  Staging staging_{};
  std::optional<Reduction> reduction_{};
  std::optional<qpmesh_call> user_{};
  std::unique_ptr<Request> request_{};
  MPI_Request* handle_ = nullptr;
  bool persistent_ = false;
  std::size_t next_list_ = 0;
  using Lists = std::array<std::vector<std::size_t>, 8>;
};
// A collective in one of the three ways.
template <class Body>
int collective(const char* function, MPI_Comm comm, Body&& body) {
  return on_communicator(function, comm, [&](Communicator& own) {
    Call call{own};
    body(call);
  });
}
template <class Body>
int begun(const char* function, MPI_Comm comm, MPI_Request* request, Body&& body) {
  return on_communicator(function, comm, [&](Communicator& own) {
    Call call{own, request};
    body(call);
  });
}
template <class Body>
int prepared(const char* function, MPI_Comm comm, MPI_Info info, MPI_Request* request,
             Body&& body) {
  return on_communicator(function, comm, [&](Communicator& own) {
    given_info_or_null(info);
    Call call{own, request, true};
    body(call);
  });
}

// A copy, pointer by pointer, of what was written just now: in wider words it waits until that has
// left the core.
inline qpmesh_blocks copied(const qpmesh_blocks& blocks) noexcept {
  const volatile qpmesh_blocks& from = blocks;
  return {from.data, from.counts, from.displacements, from.ranges};
}
// Blocks for each rank, which the call reads: in (sent) and out (received). Of alltoallv, and of
// neighbourhoods, which are one.
void exchange_blocks(Call& call, const qpmesh_blocks& in, const qpmesh_blocks& out);

}  // namespace qpmesh::mpi

// Defines a collective in its three ways, in a text that is read twice (counted_entries.inc).
// parameters: without communicator; use: what it does with a Call.
#define QPMESH_MPI_COLLECTIVE(name, beginning, parameters, use)                                   \
  QPMESH_MPI_COUNTED(name, (QPMESH_MPI_LIST parameters, MPI_Comm comm)) {                         \
    return collective(QPMESH_MPI_NAME(name), comm, [&](Call& call) { use; });                     \
  }                                                                                               \
  QPMESH_MPI_COUNTED(beginning,                                                                   \
                     (QPMESH_MPI_LIST parameters, MPI_Comm comm, MPI_Request * request)) {        \
    return begun(QPMESH_MPI_NAME(beginning), comm, request, [&](Call& call) { use; });            \
  }                                                                                               \
  QPMESH_MPI_COUNTED(name##_init, (QPMESH_MPI_LIST parameters, MPI_Comm comm, MPI_Info info,      \
                                   MPI_Request * request)) {                                      \
    return prepared(QPMESH_MPI_NAME(name##_init), comm, info, request, [&](Call& call) { use; }); \
  }
#define QPMESH_MPI_LIST(...) __VA_ARGS__
