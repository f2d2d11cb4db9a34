// SPDX-License-Identifier: MIT
// MPI_Dims_create beside a search through all divisions.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "check.h"

namespace {

using Lengths = std::vector<int>;

// How unequal lengths are that do not rise; of equally unequal ones the longer shortest is better.
std::pair<int, int> unequal(const Lengths& lengths) {
  return {lengths.front() - lengths.back(), -lengths.back()};
}

// The best of all divisions into lengths that do not rise.
void search(int rest, int dimensions, int length_max, Lengths& now, Lengths& best) {
  if (dimensions == 0) {
    if (rest == 1 && (best.empty() || unequal(now) < unequal(best))) best = now;
    return;
  }
  for (int length = 1; length <= length_max; ++length) {
    if (rest % length != 0) continue;
    now.push_back(length);
    search(rest / length, dimensions - 1, length, now, best);
    now.pop_back();
  }
}

void dimensions(void) {
  for (int nodes = 1; nodes <= 400; ++nodes) {
    for (int count = 1; count <= 4; ++count) {
      Lengths now, best, lengths(static_cast<std::size_t>(count), 0);
      search(nodes, count, nodes, now, best);
      SAYS("a grid is made of any number of nodes",
           MPI_Dims_create(nodes, count, lengths.data()) == MPI_SUCCESS);
      int product = 1;
      for (const int length : lengths) product *= length;
      SAYS("its nodes are all of them", product == nodes);
      SAYS("lengths do not rise",
           std::is_sorted(lengths.begin(), lengths.end(), std::greater<int>{}));
      if (!open_mpi && !mpich)
        SAYS("they are as equal as they can be", unequal(lengths) == unequal(best));
    }
  }
}

void given(void) {
  for (int nodes = 1; nodes <= 60; ++nodes) {
    for (int length = 1; length <= 12; ++length) {
      Lengths lengths{0, length, 0};
      const int code = MPI_Dims_create(nodes, 3, lengths.data());
      SAYS("a length that is given must divide the nodes",
           (code == MPI_SUCCESS) == (nodes % length == 0));
      if (code != MPI_SUCCESS) continue;
      SAYS("it is kept", lengths[1] == length && lengths[0] * lengths[1] * lengths[2] == nodes);
      SAYS("the others do not rise", lengths[0] >= lengths[2]);
    }
  }
  int all[2] = {2, 3};
  SAYS("all may be given", MPI_Dims_create(6, 2, all) == MPI_SUCCESS && all[0] == 2 && all[1] == 3);
  SAYS("and be wrong", MPI_Dims_create(7, 2, all) != MPI_SUCCESS);
  int negative[2] = {-1, 0};
  SAYS("none is negative", MPI_Dims_create(6, 2, negative) != MPI_SUCCESS);
}

void large(void) {
  Lengths lengths(3, 0);
  MPI_Dims_create(1 << 30, 3, lengths.data());
  SAYS("a cube is found", lengths == Lengths({1024, 1024, 1024}));
  lengths = {0, 0};
  MPI_Dims_create(2147483647, 2, lengths.data());
  SAYS("a prime is one length", lengths == Lengths({2147483647, 1}));
}

}  // namespace

int main(int argc, char** argv) {
  static const Scenario scenarios[] = {
      {"dimensions", dimensions, 1}, {"given", given, 1}, {"large", large, 1}};
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  return RUN_SCENARIOS(scenarios, argc, argv);
}
