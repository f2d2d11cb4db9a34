// SPDX-License-Identifier: MIT
// Between the program's buffers and the bytes that qpmesh moves: a buffer whose elements lie in one
// piece is used as it is, others are packed into memory of this call's, before it and after it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "datatype.hpp"
#include "error.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

// An argument: a buffer, so many elements of a type.
struct Elements {
  const void* data;
  MPI_Count count;
  Datatype* type;

  MPI_Count bytes() const noexcept { return count * type->size; }
  bool in_one_piece() const noexcept { return type->in_one_piece(count); }
  const std::byte* first_byte() const noexcept {
    return type->first_byte(static_cast<const std::byte*>(data));
  }
};

// What the program gives, checked: the count, the type, and that there is a buffer.
inline Elements given(const void* data, MPI_Count count, MPI_Datatype datatype) {
  require(count >= 0, MPI_ERR_COUNT, "a count of ", count);
  const Elements elements{data, count, &committed_type(datatype)};
  require(data != MPI_IN_PLACE, MPI_ERR_BUFFER, "MPI_IN_PLACE has no meaning for this buffer");
  require(elements.first_byte() != nullptr || elements.bytes() == 0, MPI_ERR_BUFFER,
          "the buffer is null, and has ", count, " elements");
  return elements;
}

// What a call needs packed or unpacked. Nothing is allocated while buffers are in one piece, and to
// have nothing costs a call no more than a pointer.
class Staging {
 public:
  // Where the bytes to send are, from begin() on.
  const std::byte* source(const Elements& elements) {
    return elements.in_one_piece() ? elements.first_byte() : packed(elements);
  }
  // Where received bytes shall be; end() puts them where they belong.
  std::byte* target(const Elements& elements) {
    return elements.in_one_piece() ? const_cast<std::byte*>(elements.first_byte())
                                   : unpacked(elements);
  }
  // A copy is sent: the same memory is written before the call is over.
  const std::byte* packed(const Elements& elements);
  // The same for what is received.
  std::byte* unpacked(const Elements& elements);
  std::byte* memory(MPI_Count bytes);
  // Steps for memory that the caller has.
  void pack_to(const Elements& elements, std::byte* packed);
  void unpack_from(const std::byte* packed, const Elements& elements);

  // Packs: each time the call is started.
  void begin() const {
    if (steps_ != nullptr) [[unlikely]]
      steps_->pack();
  }
  // Unpacks, at most so many bytes of each.
  void end(std::size_t bytes_max = SIZE_MAX) const {
    if (steps_ != nullptr) [[unlikely]]
      steps_->unpack(bytes_max);
  }
  bool empty() const noexcept {
    return steps_ == nullptr || (steps_->packs.empty() && steps_->unpacks.empty());
  }

 private:
  struct Step {
    void* data;
    MPI_Count count;
    Reference<Datatype> type;  // a program may free it while a request is in flight
    std::byte* packed;
  };
  struct Steps {
    void pack() const;
    void unpack(std::size_t bytes_max) const;

    std::vector<Step> packs{};
    std::vector<Step> unpacks{};
    std::vector<std::unique_ptr<std::byte[]>> memory{};
  };
  Steps& steps() {
    if (steps_ == nullptr) steps_ = std::make_unique<Steps>();
    return *steps_;
  }

  std::unique_ptr<Steps> steps_{};
};

}  // namespace qpmesh::mpi
