// SPDX-License-Identifier: MIT
// What makes types of types. Each becomes a list of parts; what was given is kept as it was said.
#include <algorithm>
#include <span>
#include <type_traits>

#include "datatype.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

std::size_t at(MPI_Count count) noexcept { return static_cast<std::size_t>(count); }

// Counts were given as int, or as MPI_Count by the functions that end in _c: one recipe has both.
template <class Count>
constexpr bool is_large = sizeof(Count) > sizeof(int);

template <class Count>
void note(Recipe& recipe, Count count) {
  if constexpr (is_large<Count>) recipe.counts.push_back(count);
  else recipe.numbers.push_back(count);
}
template <class Count>
void note(Recipe& recipe, std::span<const Count> counts) {
  for (const Count count : counts) note(recipe, count);
}
// What is an address in the short form is a count in the other.
template <class Count>
void note_address(Recipe& recipe, MPI_Aint address) {
  if constexpr (is_large<Count>) recipe.counts.push_back(address);
  else recipe.addresses.push_back(address);
}

void check_count(MPI_Count count, const char* name) {
  require(count >= 0, MPI_ERR_COUNT, name, " is ", count, ": it is 0 or more");
}

void require_given(const void* pointer, MPI_Count count, const char* name) {
  require(count == 0 || pointer != nullptr, MPI_ERR_ARG, name, " is null");
}

// Makes the type and stores its handle.
void finish(MPI_Datatype* result, std::vector<Part> parts, Recipe recipe,
            std::optional<Bounds> bounds = {}) {
  require(result != nullptr, MPI_ERR_ARG, "newtype is null");
  *result = handle_for_program(make_type(std::move(parts), std::move(recipe), bounds));
}

template <class Count>
int contiguous(const char* function, Count count, MPI_Datatype old, MPI_Datatype* result) {
  return while_running(function, [&] {
    check_count(count, "count");
    Reference of{&given_type(old)};
    Recipe recipe{.combiner = MPI_COMBINER_CONTIGUOUS, .types = {of}};
    note(recipe, count);
    finish(result, {Part{.block = count, .of = of}}, std::move(recipe));
  });
}

template <class Count, class Stride>
int vector(const char* function, int combiner, Count count, Count block_length, Stride stride,
           MPI_Datatype old, MPI_Datatype* result) {
  return while_running(function, [&] {
    check_count(count, "count");
    check_count(block_length, "blocklength");
    Reference of{&given_type(old)};
    const bool in_bytes = combiner == MPI_COMBINER_HVECTOR;
    Recipe recipe{.combiner = combiner, .types = {of}};
    note(recipe, count);
    note(recipe, block_length);
    if (in_bytes) note_address<Count>(recipe, stride);
    else note(recipe, stride);
    const MPI_Aint stride_bytes = in_bytes ? MPI_Aint{stride} : product(stride, of->extent());
    finish(result, {Part{.count = count, .stride = stride_bytes, .block = block_length, .of = of}},
           std::move(recipe));
  });
}

// The lengths of blocks: a list, or one for all.
template <class Count>
void check_lengths(const Count* lengths, Count count) {
  require_given(lengths, count, "array_of_blocklengths");
  for (Count i = 0; i < count; ++i) check_count(lengths[i], "a block's length");
}
template <class Count>
void check_lengths(Count length, Count) {
  check_count(length, "blocklength");
}
template <class Count>
Count length_of(const Count* lengths, Count block) {
  return lengths[block];
}
template <class Count>
Count length_of(Count length, Count) {
  return length;
}

template <class Count, class Lengths, class Place>
int indexed(const char* function, int combiner, Count count, Lengths lengths, const Place* places,
            MPI_Datatype old, MPI_Datatype* result) {
  return while_running(function, [&] {
    check_count(count, "count");
    check_lengths(lengths, count);
    require_given(places, count, "array_of_displacements");
    const bool in_bytes =
        combiner == MPI_COMBINER_HINDEXED || combiner == MPI_COMBINER_HINDEXED_BLOCK;
    Reference of{&given_type(old)};
    const MPI_Aint unit = in_bytes ? 1 : of->extent();
    Recipe recipe{.combiner = combiner, .types = {of}};
    note(recipe, count);
    if constexpr (std::is_pointer_v<Lengths>) note(recipe, std::span{lengths, at(count)});
    else note(recipe, lengths);
    std::vector<Part> parts;
    parts.reserve(at(count));
    for (Count i = 0; i < count; ++i) {
      if (in_bytes) note_address<Count>(recipe, places[i]);
      else note(recipe, static_cast<Count>(places[i]));
      parts.push_back(
          {.offset = product(places[i], unit), .block = length_of(lengths, i), .of = of});
    }
    finish(result, std::move(parts), std::move(recipe));
  });
}

template <class Count, class Address>
int structure(const char* function, Count count, const Count* lengths, const Address* places,
              const MPI_Datatype* olds, MPI_Datatype* result) {
  return while_running(function, [&] {
    check_count(count, "count");
    check_lengths(lengths, count);
    require_given(places, count, "array_of_displacements");
    require_given(olds, count, "array_of_types");
    Recipe recipe{.combiner = MPI_COMBINER_STRUCT};
    note(recipe, count);
    note(recipe, std::span{lengths, at(count)});
    std::vector<Part> parts;
    parts.reserve(at(count));
    for (Count i = 0; i < count; ++i) {
      Reference of{&given_type(olds[i])};
      note_address<Count>(recipe, places[i]);
      recipe.types.push_back(of);
      parts.push_back({.offset = places[i], .block = lengths[i], .of = of});
    }
    finish(result, std::move(parts), std::move(recipe));
  });
}

template <class Count>
int resized(const char* function, MPI_Datatype old, MPI_Aint lower, MPI_Aint extent,
            MPI_Datatype* result) {
  return while_running(function, [&] {
    Reference of{&given_type(old)};
    Recipe recipe{.combiner = MPI_COMBINER_RESIZED, .types = {of}};
    note_address<Count>(recipe, lower);
    note_address<Count>(recipe, extent);
    finish(result, {Part{.of = of}}, std::move(recipe), Bounds{lower, lower + extent});
  });
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

#define QPMESH_MPI_ENTRIES "type_constructors.inc"
#include "counted_entries.inc"
