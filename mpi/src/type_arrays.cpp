// SPDX-License-Identifier: MIT
// Types of a part of an array: a block of it, or what a rank has of one that is distributed.
#include <algorithm>
#include <span>
#include <vector>

#include "datatype.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

// Some indexes of one dimension of an array: blocks of so many of them, evenly apart, and one that
// is shorter behind them.
struct Indexes {
  MPI_Count first = 0;
  MPI_Count blocks = 0;
  MPI_Count block = 0;
  MPI_Count stride = 0;
  MPI_Count rest = 0;
};

struct Dimension {
  MPI_Count length;
  Indexes indexes;
};

// The elements of an array that have these indexes; the fastest dimension comes first. Each
// dimension makes of the type of a row the type of a plane, and so on, as long as the whole of it.
Reference<Datatype> make_array(std::span<const Dimension> dimensions, Reference<Datatype> element,
                               Recipe recipe) {
  MPI_Aint step = element->extent();
  for (const Dimension& dimension : dimensions) {
    const Indexes& at = dimension.indexes;
    std::vector<Part> parts{{.offset = at.first * step,
                             .count = at.blocks,
                             .stride = at.stride * step,
                             .block = at.block,
                             .of = element}};
    if (at.rest > 0) {
      const MPI_Count behind = at.first + at.blocks * at.stride;
      parts.push_back({.offset = behind * step, .block = at.rest, .of = element});
    }
    step *= dimension.length;
    element = make_type(std::move(parts), {}, Bounds{0, step});
  }
  element->recipe = std::move(recipe);
  return element;
}

template <class Count>
std::vector<Count>& counts_of(Recipe& recipe) {
  if constexpr (sizeof(Count) > sizeof(int)) return recipe.counts;
  else return recipe.numbers;
}
template <class To, class From>
void note(std::vector<To>& list, const From* values, int count) {
  list.insert(list.end(), values, values + count);
}

void check_dimensions(int count, int order) {
  require(count >= 1, MPI_ERR_ARG, "an array of ", count, " dimensions");
  require(order == MPI_ORDER_C || order == MPI_ORDER_FORTRAN, MPI_ERR_ARG, "order is ", order,
          ": take MPI_ORDER_C or MPI_ORDER_FORTRAN");
}

// In the order of make_array: the last one is fastest in C, the first one in Fortran.
void put_fastest_first(std::vector<Dimension>& dimensions, int order) {
  if (order == MPI_ORDER_C) std::reverse(dimensions.begin(), dimensions.end());
}

template <class Count>
int subarray(const char* function, int dimension_count, const Count* lengths,
             const Count* sub_lengths, const Count* starts, int order, MPI_Datatype old,
             MPI_Datatype* result) {
  return while_running(function, [&] {
    check_dimensions(dimension_count, order);
    require(lengths != nullptr && sub_lengths != nullptr && starts != nullptr && result != nullptr,
            MPI_ERR_ARG, "an argument is null");
    Reference element{&given_type(old)};
    std::vector<Dimension> dimensions;
    for (int i = 0; i < dimension_count; ++i) {
      require(sub_lengths[i] >= 1 && starts[i] >= 0 && sub_lengths[i] <= lengths[i] - starts[i],
              MPI_ERR_ARG, "dimension ", i, " has ", lengths[i], " indexes: ", sub_lengths[i],
              " of them from ", starts[i], " on are not a part of it");
      dimensions.push_back({.length = lengths[i],
                            .indexes = {.first = starts[i], .blocks = 1, .block = sub_lengths[i]}});
    }
    put_fastest_first(dimensions, order);
    Recipe recipe{.combiner = MPI_COMBINER_SUBARRAY, .types = {element}};
    recipe.numbers.push_back(dimension_count);
    for (const Count* list : {lengths, sub_lengths, starts})
      note(counts_of<Count>(recipe), list, dimension_count);
    recipe.numbers.push_back(order);
    *result = handle_for_program(make_array(dimensions, element, std::move(recipe)));
  });
}

// What a process has of a dimension that is dealt out in blocks, round and round: every
// distribution is that, with blocks of some length.
Indexes dealt(MPI_Count length, int processes, int process, int distribution, int argument) {
  const MPI_Count even = (length + processes - 1) / processes;
  MPI_Count block = argument;
  if (distribution == MPI_DISTRIBUTE_NONE) block = length;
  else if (argument == MPI_DISTRIBUTE_DFLT_DARG)
    block = distribution == MPI_DISTRIBUTE_BLOCK ? even : 1;
  require(block >= 1, MPI_ERR_ARG, "a distribution in blocks of ", block, " indexes");
  require(distribution != MPI_DISTRIBUTE_BLOCK || block * processes >= length, MPI_ERR_ARG,
          "blocks of ", block, " for ", processes, " processes are too short for ", length,
          " indexes");
  const MPI_Count first = block * process;
  const MPI_Count stride = block * processes;
  if (first >= length) return {};
  const MPI_Count whole = (length - first) / stride;       // rounds
  const MPI_Count last = length - first - whole * stride;  // of the round that is left
  const bool is_whole = last >= block;
  return {.first = first,
          .blocks = whole + (is_whole ? 1 : 0),
          .block = block,
          .stride = stride,
          .rest = is_whole ? 0 : last};
}

template <class Count>
int distributed(const char* function, int size, int rank, int dimension_count, const Count* lengths,
                const int* distributions, const int* arguments, const int* processes, int order,
                MPI_Datatype old, MPI_Datatype* result) {
  return while_running(function, [&] {
    check_dimensions(dimension_count, order);
    require(lengths != nullptr && distributions != nullptr && arguments != nullptr &&
                processes != nullptr && result != nullptr,
            MPI_ERR_ARG, "an argument is null");
    require(rank >= 0 && rank < size, MPI_ERR_ARG, "rank ", rank, " of ", size);
    Reference element{&given_type(old)};
    MPI_Count all = 1;
    for (int i = 0; i < dimension_count; ++i) {
      require(lengths[i] >= 1 && processes[i] >= 1, MPI_ERR_ARG, "dimension ", i, " has ",
              lengths[i], " indexes for ", processes[i], " processes");
      require(distributions[i] >= MPI_DISTRIBUTE_NONE && distributions[i] <= MPI_DISTRIBUTE_CYCLIC,
              MPI_ERR_ARG, "there is no distribution ", distributions[i]);
      require(distributions[i] != MPI_DISTRIBUTE_NONE || processes[i] == 1, MPI_ERR_ARG,
              "dimension ", i, " is not distributed, and has ", processes[i], " processes");
      all *= processes[i];
    }
    require(all == size, MPI_ERR_ARG, "a grid of ", all, " processes for ", size);
    std::vector<Dimension> dimensions;
    // Processes are numbered with the last dimension fastest, whatever the order of the array is.
    MPI_Count behind = size;
    MPI_Count left = rank;
    for (int i = 0; i < dimension_count; ++i) {
      behind /= processes[i];
      const auto process = static_cast<int>(left / behind);
      left %= behind;
      dimensions.push_back(
          {.length = lengths[i],
           .indexes = dealt(lengths[i], processes[i], process, distributions[i], arguments[i])});
    }
    put_fastest_first(dimensions, order);
    Recipe recipe{.combiner = MPI_COMBINER_DARRAY, .types = {element}};
    recipe.numbers = {size, rank, dimension_count};
    note(counts_of<Count>(recipe), lengths, dimension_count);
    for (const int* list : {distributions, arguments, processes})
      note(recipe.numbers, list, dimension_count);
    recipe.numbers.push_back(order);
    *result = handle_for_program(make_array(dimensions, element, std::move(recipe)));
  });
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

#define QPMESH_MPI_ENTRIES "type_arrays.inc"
#include "counted_entries.inc"
