// SPDX-License-Identifier: MIT
// Datatypes: what elements are, and where their bytes lie.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attribute.hpp"
#include "counted.hpp"
#include "layout.hpp"
#include "mpi.h"
#include "qpmesh/qpmesh.h"
#include "threads.hpp"

namespace qpmesh::mpi {

// What values are: for reductions, and for external32.
enum class Category : std::uint8_t {
  bytes,
  character,
  signed_integer,
  unsigned_integer,
  logical,
  floating,
  complex
};

// A predefined type that is one value.
struct Basic {
  Category category = Category::bytes;
  std::uint8_t bytes = 1;
  std::uint8_t alignment = 1;
  std::uint8_t external_bytes = 1;  // in external32
  qpmesh_type type = QPMESH_UINT8;  // the library's, or QPMESH_STRUCT + bytes where it has none
  bool is_long_double = false;      // floating and complex: not the format that has 16 bytes
};

struct Datatype;

// count times, stride bytes apart, a block of elements of another type, side by side: what every
// constructor comes down to.
struct Part {
  MPI_Aint offset = 0;
  MPI_Count count = 1;
  MPI_Aint stride = 0;
  MPI_Count block = 1;
  Reference<Datatype> of{};
};

// Which constructor made it from what, for MPI_Type_get_contents.
struct Recipe {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<int> numbers{};
  std::vector<MPI_Aint> addresses{};
  std::vector<MPI_Count> counts{};  // of the functions that end in _c
  std::vector<Reference<Datatype>> types{};
};

struct Bounds {
  MPI_Aint lower = 0;
  MPI_Aint upper = 0;
};

struct Datatype : Handled<Datatype> {
  MPI_Count size = 0;  // bytes of data
  Bounds bounds{};
  Bounds true_bounds{};  // of the data alone
  bool marked = false;   // the bounds were given: they win over those of what lies beside it
  int alignment = 1;     // of its values, for structs
  MPI_Count basics = 0;  // how many values
  bool one_run = false;  // its bytes lie in one piece, in their order
  const Basic* basic = nullptr;                 // of a predefined type that is one value
  MPI_Datatype predefined = MPI_DATATYPE_NULL;  // its handle where that is a number
  std::shared_ptr<const Layout> layout{};
  std::vector<Part> parts{};
  Recipe recipe{};
  Changeable<std::string> name{};
  Attributes<MPI_Datatype> attributes{};

  MPI_Aint extent() const noexcept { return bounds.upper - bounds.lower; }
  // In one word with the handles: that a type may be used for data is one look. Threads may commit
  // one at once.
  static constexpr int committed = handles_max + 1;
  bool is_committed() const noexcept {
    return handles.load(std::memory_order_relaxed) >= committed;
  }
  bool is_for_data() const noexcept { return handles.load(std::memory_order_relaxed) > committed; }
  void commit() noexcept { handles.fetch_or(committed, std::memory_order_relaxed); }
  MPI_Datatype handle() noexcept {
    return predefined != MPI_DATATYPE_NULL ? predefined : reinterpret_cast<MPI_Datatype>(this);
  }

  // Whether so many elements lie in one piece: nothing needs to be packed then. It has count * size
  // bytes and begins at first_byte().
  bool in_one_piece(MPI_Count count) const noexcept {
    return one_run && (count <= 1 || size == extent());
  }
  // Of the elements of a buffer. By numbers: the buffer may be MPI_BOTTOM.
  template <class Byte>
  Byte* first_byte(Byte* buffer) const noexcept {
    return reinterpret_cast<Byte*>(reinterpret_cast<std::uintptr_t>(buffer) +
                                   static_cast<std::uintptr_t>(true_bounds.lower));
  }
};

// By MPI_Type_create_f90_integer, _real or _complex: one object for all that ask for the same.
inline bool is_chosen(const Datatype& type) noexcept {
  const int combiner = type.recipe.combiner;
  return combiner == MPI_COMBINER_F90_INTEGER || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX;
}

// Failure{MPI_ERR_COUNT} where it is more than there is room for.
MPI_Count product(MPI_Count left, MPI_Count right);
// A type of these parts. Bounds follow from the parts where they are not given.
Reference<Datatype> make_type(std::vector<Part> parts, Recipe recipe,
                              std::optional<Bounds> bounds = {});

// By the number of a handle, from MPI_DATATYPE_NULL on; null where there is none.
constexpr std::uintptr_t first_datatype = 0x200;
constexpr std::size_t predefined_datatypes = 0x100;
extern const std::array<Datatype*, predefined_datatypes> datatypes_by_number;
inline Datatype* predefined_type(MPI_Datatype handle) noexcept {
  const std::uintptr_t index = number_of(handle) - first_datatype;
  return index < predefined_datatypes ? datatypes_by_number[index] : nullptr;
}
// Null for MPI_DATATYPE_NULL, for numbers that are no type, and for what was freed.
inline Datatype* datatype_of(MPI_Datatype handle) noexcept {
  return is_predefined(handle) ? predefined_type(handle) : object_of<Datatype>(handle);
}
// An argument. Failure{MPI_ERR_TYPE} where there is no type, or, for data, one that was not
// committed.
Datatype& given_type(MPI_Datatype handle);
[[noreturn]] void fail_uncommitted(MPI_Datatype handle);
inline Datatype& committed_type(MPI_Datatype handle) {
  Datatype* const type =
      is_predefined(handle) ? predefined_type(handle) : reinterpret_cast<Datatype*>(handle);
  if (type == nullptr || !type->is_for_data()) [[unlikely]]
    fail_uncommitted(handle);
  return *type;
}

// ---- data; buffers are the program's ----

// All elements, one behind the other: count * size bytes.
void pack(const void* buffer, MPI_Count count, const Datatype& type, void* packed);
// The elements that so many packed bytes are; of the last one as much as there is.
void unpack(const void* packed, std::size_t bytes, void* buffer, const Datatype& type);

// ---- how much came ----

// Elements in so many bytes, or MPI_UNDEFINED where the last is not whole.
MPI_Count count_in(MPI_Count bytes, const Datatype& type) noexcept;
// Values in so many bytes, or MPI_UNDEFINED where the last is not whole.
MPI_Count basics_in(MPI_Count bytes, const Datatype& type);
// Bytes of so many values.
MPI_Count bytes_of_basics(MPI_Count basics, const Datatype& type);

// Every value of an element in the order of the type map, some that lie side by side at a time.
// False, and over, as soon as visit is false.
using Visit = std::function<bool(MPI_Aint offset, const Basic& basic, MPI_Count count)>;
bool for_each_basic(const Datatype& type, MPI_Aint offset, const Visit& visit);

}  // namespace qpmesh::mpi
