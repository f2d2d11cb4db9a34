// SPDX-License-Identifier: MIT
#include "group.hpp"

#include <algorithm>
#include <unordered_map>

#include "communicator.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

// A group that stays.
Group& empty_group() {
  static Group* const empty = new Group{{}, MPI_UNDEFINED};
  return *empty;
}

int own_rank_in_world() {
  const Communicator* const world = communicator_of(MPI_COMM_WORLD);
  return world == nullptr ? MPI_UNDEFINED : world->rank;
}

MPI_Group made(std::vector<int> ranks) {
  if (ranks.empty()) return MPI_GROUP_EMPTY;
  return handle_for_program(make<Group>(std::move(ranks), own_rank_in_world()));
}

// Where each rank of the world is in a group.
class Places {
 public:
  explicit Places(const Group& group) {
    places_.reserve(group.ranks.size());
    for (std::size_t i = 0; i < group.ranks.size(); ++i)
      places_.emplace(group.ranks[i], static_cast<int>(i));
  }
  int of(int rank_in_world) const {
    const auto place = places_.find(rank_in_world);
    return place == places_.end() ? MPI_UNDEFINED : place->second;
  }
  bool has(int rank_in_world) const { return places_.contains(rank_in_world); }

 private:
  std::unordered_map<int, int> places_;
};

void check_rank(const Group& group, int rank) {
  require(rank >= 0 && rank < group.size(), MPI_ERR_RANK, "rank ", rank, " of a group of ",
          group.size());
}

// The ranks that a list of (first, last, step) names, in its order.
std::vector<int> in_ranges(const Group& group, int count, const int (*ranges)[3]) {
  require(count >= 0, MPI_ERR_ARG, "n is ", count, ": it is 0 or more");
  require(count == 0 || ranges != nullptr, MPI_ERR_ARG, "ranges is null");
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) {
    const auto [first, last, step] = ranges[i];
    require(step != 0, MPI_ERR_ARG, "range ", i, " has a stride of 0");
    const long way = long{last} - first;
    require(way == 0 || (way > 0) == (step > 0), MPI_ERR_ARG, "range ", i, " from ", first, " to ",
            last, " has a stride of ", step, ": it leads away");
    const long steps = way / step;
    for (long at = 0; at <= steps; ++at) {
      const auto rank = static_cast<int>(first + at * step);
      check_rank(group, rank);
      ranks.push_back(rank);
    }
  }
  return ranks;
}
std::vector<int> in_list(const Group& group, int count, const int* list) {
  require(count >= 0, MPI_ERR_ARG, "n is ", count, ": it is 0 or more");
  require(count == 0 || list != nullptr, MPI_ERR_ARG, "ranks is null");
  for (int i = 0; i < count; ++i) check_rank(group, list[i]);
  return {list, list + count};
}

// Marks the ranks of a group that are named, each once.
std::vector<bool> named(const Group& group, const std::vector<int>& ranks) {
  std::vector<bool> marks(group.ranks.size());
  for (const int rank : ranks) {
    const auto mark = marks.begin() + rank;
    require(!*mark, MPI_ERR_RANK, "rank ", rank, " is named twice");
    *mark = true;
  }
  return marks;
}

MPI_Group with(const Group& group, const std::vector<int>& ranks) {
  named(group, ranks);
  std::vector<int> in_world;
  in_world.reserve(ranks.size());
  for (const int rank : ranks) in_world.push_back(group.ranks[static_cast<std::size_t>(rank)]);
  return made(std::move(in_world));
}
MPI_Group without(const Group& group, const std::vector<int>& ranks) {
  const std::vector<bool> marks = named(group, ranks);
  std::vector<int> in_world;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (!marks[i]) in_world.push_back(group.ranks[i]);
  }
  return made(std::move(in_world));
}

// The ranks of a group that another one has, or has not.
std::vector<int> those(const Group& group, const Group& other, bool are_there) {
  const Places there{other};
  std::vector<int> ranks;
  std::ranges::copy_if(group.ranks, std::back_inserter(ranks),
                       [&](int rank) { return there.has(rank) == are_there; });
  return ranks;
}

template <class Body>
int make_group(const char* function, MPI_Group* result, const Body& body) {
  return while_running(function, [&] {
    require(result != nullptr, MPI_ERR_ARG, "newgroup is null");
    *result = body();
  });
}

}  // namespace

Group::Group(std::vector<int> ranks_in_world, int own_rank_in_world)
    : ranks{std::move(ranks_in_world)} {
  const auto own = std::ranges::find(ranks, own_rank_in_world);
  if (own != ranks.end()) rank = static_cast<int>(own - ranks.begin());
}

MPI_Group Group::handle() noexcept {
  return ranks.empty() ? MPI_GROUP_EMPTY : reinterpret_cast<MPI_Group>(this);
}

Group* group_of(MPI_Group handle) noexcept {
  if (!is_predefined(handle)) return object_of<Group>(handle);
  return handle == MPI_GROUP_EMPTY ? &empty_group() : nullptr;
}

Group& given_group(MPI_Group handle) {
  return require_object(
      group_of(handle), MPI_ERR_GROUP,
      handle == MPI_GROUP_NULL ? "the group is MPI_GROUP_NULL" : "this is no group, or was freed");
}

int compare(std::span<const int> left, std::span<const int> right) {
  if (std::ranges::equal(left, right)) return MPI_IDENT;
  const auto sorted = [](std::span<const int> ranks) {
    std::vector<int> list{ranks.begin(), ranks.end()};
    std::ranges::sort(list);
    return list;
  };
  return sorted(left) == sorted(right) ? MPI_SIMILAR : MPI_UNEQUAL;
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Group_size, (MPI_Group group, int* size)) {
  return while_running("MPI_Group_size", [&] {
    require(size != nullptr, MPI_ERR_ARG, "size is null");
    *size = given_group(group).size();
  });
}
QPMESH_MPI_ENTRY(Group_rank, (MPI_Group group, int* rank)) {
  return while_running("MPI_Group_rank", [&] {
    require(rank != nullptr, MPI_ERR_ARG, "rank is null");
    *rank = given_group(group).rank;
  });
}
QPMESH_MPI_ENTRY(Group_compare, (MPI_Group group, MPI_Group other, int* result)) {
  return while_running("MPI_Group_compare", [&] {
    require(result != nullptr, MPI_ERR_ARG, "result is null");
    *result = compare(given_group(group).ranks, given_group(other).ranks);
  });
}
QPMESH_MPI_ENTRY(Group_translate_ranks,
                 (MPI_Group group, int n, const int ranks[], MPI_Group other, int others_ranks[])) {
  return while_running("MPI_Group_translate_ranks", [&] {
    const Group& from = given_group(group);
    const Places there{given_group(other)};
    require(n >= 0, MPI_ERR_ARG, "n is ", n, ": it is 0 or more");
    require(n == 0 || (ranks != nullptr && others_ranks != nullptr), MPI_ERR_ARG,
            "a list of ranks is null");
    for (int i = 0; i < n; ++i) {
      if (ranks[i] == MPI_PROC_NULL) {
        others_ranks[i] = MPI_PROC_NULL;
        continue;
      }
      check_rank(from, ranks[i]);
      others_ranks[i] = there.of(from.ranks[static_cast<std::size_t>(ranks[i])]);
    }
  });
}
QPMESH_MPI_ENTRY(Group_union, (MPI_Group group, MPI_Group other, MPI_Group* newgroup)) {
  return make_group("MPI_Group_union", newgroup, [&] {
    std::vector<int> ranks = given_group(group).ranks;
    std::ranges::copy(those(given_group(other), given_group(group), false),
                      std::back_inserter(ranks));
    return made(std::move(ranks));
  });
}
QPMESH_MPI_ENTRY(Group_intersection, (MPI_Group group, MPI_Group other, MPI_Group* newgroup)) {
  return make_group("MPI_Group_intersection", newgroup,
                    [&] { return made(those(given_group(group), given_group(other), true)); });
}
QPMESH_MPI_ENTRY(Group_difference, (MPI_Group group, MPI_Group other, MPI_Group* newgroup)) {
  return make_group("MPI_Group_difference", newgroup,
                    [&] { return made(those(given_group(group), given_group(other), false)); });
}
QPMESH_MPI_ENTRY(Group_incl, (MPI_Group group, int n, const int ranks[], MPI_Group* newgroup)) {
  return make_group("MPI_Group_incl", newgroup, [&] {
    const Group& own = given_group(group);
    return with(own, in_list(own, n, ranks));
  });
}
QPMESH_MPI_ENTRY(Group_excl, (MPI_Group group, int n, const int ranks[], MPI_Group* newgroup)) {
  return make_group("MPI_Group_excl", newgroup, [&] {
    const Group& own = given_group(group);
    return without(own, in_list(own, n, ranks));
  });
}
QPMESH_MPI_ENTRY(Group_range_incl, (MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup)) {
  return make_group("MPI_Group_range_incl", newgroup, [&] {
    const Group& own = given_group(group);
    return with(own, in_ranges(own, n, ranges));
  });
}
QPMESH_MPI_ENTRY(Group_range_excl, (MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup)) {
  return make_group("MPI_Group_range_excl", newgroup, [&] {
    const Group& own = given_group(group);
    return without(own, in_ranges(own, n, ranges));
  });
}
QPMESH_MPI_ENTRY(Group_free, (MPI_Group * group)) {
  return while_running("MPI_Group_free", [&] {
    require(group != nullptr, MPI_ERR_ARG, "group is null");
    Group& own = given_group(*group);
    if (!is_predefined(*group)) take_back(own);
    *group = MPI_GROUP_NULL;
  });
}
