// SPDX-License-Identifier: MIT
// Groups: all ordered choices of the world's ranks, each with each, beside plain lists.
#include <algorithm>
#include <vector>

#include "check.h"

namespace {

using Ranks = std::vector<int>;

std::vector<Ranks> all_choices(void) {
  std::vector<Ranks> choices{{}};
  for (std::size_t at = 0; at < choices.size(); ++at) {
    for (int next = 0; next < size; ++next) {
      Ranks longer = choices[at];
      if (std::find(longer.begin(), longer.end(), next) != longer.end()) continue;
      longer.push_back(next);
      choices.push_back(longer);
    }
  }
  return choices;
}

int place_of(const Ranks& ranks, int one) {
  const auto place = std::find(ranks.begin(), ranks.end(), one);
  return place == ranks.end() ? MPI_UNDEFINED : static_cast<int>(place - ranks.begin());
}
bool has(const Ranks& ranks, int one) { return place_of(ranks, one) != MPI_UNDEFINED; }

MPI_Group world_group(void) {
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  return world;
}
MPI_Group made(const Ranks& ranks) {
  MPI_Group world = world_group(), group;
  MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
  MPI_Group_free(&world);
  return group;
}

// What a group's ranks are in the world.
Ranks ranks_of(MPI_Group group) {
  MPI_Group world = world_group();
  int members = -1;
  MPI_Group_size(group, &members);
  Ranks own, in_world(static_cast<std::size_t>(members));
  for (int i = 0; i < members; ++i) own.push_back(i);
  MPI_Group_translate_ranks(group, members, own.data(), world, in_world.data());
  MPI_Group_free(&world);
  return in_world;
}

// Takes the group.
void is(const char* sentence, MPI_Group group, const Ranks& expected) {
  SAYS(sentence, ranks_of(group) == expected);
  int own = -1;
  MPI_Group_rank(group, &own);
  SAYS("a group knows its own rank", own == place_of(expected, rank));
  if (group != MPI_GROUP_EMPTY) MPI_Group_free(&group);
}

void choices(void) {
  for (const Ranks& ranks : all_choices())
    is("a group has the ranks that were chosen", made(ranks), ranks);
}

void sets(void) {
  const std::vector<Ranks> all = all_choices();
  std::vector<MPI_Group> groups;
  groups.reserve(all.size());
  for (const Ranks& ranks : all) groups.push_back(made(ranks));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      const Ranks &left = all[i], &right = all[j];
      Ranks together = left, common, rest, translated;
      for (const int one : right) {
        if (!has(left, one)) together.push_back(one);
      }
      for (const int one : left) (has(right, one) ? common : rest).push_back(one);
      MPI_Group result;
      MPI_Group_union(groups[i], groups[j], &result);
      is("a union is the first group, and what the second has more", result, together);
      MPI_Group_intersection(groups[i], groups[j], &result);
      is("an intersection is in the order of the first", result, common);
      MPI_Group_difference(groups[i], groups[j], &result);
      is("a difference is the first without the second", result, rest);
      int comparison = -1;
      MPI_Group_compare(groups[i], groups[j], &comparison);
      const bool are_similar = common.size() == left.size() && left.size() == right.size();
      SAYS("groups are compared by ranks, then by order",
           comparison == (left == right ? MPI_IDENT
                          : are_similar ? MPI_SIMILAR
                                        : MPI_UNEQUAL));
      Ranks own;
      for (int at = 0; at < static_cast<int>(left.size()); ++at) {
        own.push_back(at);
        translated.push_back(place_of(right, left[static_cast<std::size_t>(at)]));
      }
      Ranks found(own.size());
      MPI_Group_translate_ranks(groups[i], static_cast<int>(own.size()), own.data(), groups[j],
                                found.data());
      SAYS("ranks are translated", found == translated);
    }
  }
  for (MPI_Group& group : groups) {
    if (group != MPI_GROUP_EMPTY) MPI_Group_free(&group);
  }
}

void lists(void) {
  MPI_Group world = world_group(), group;
  const Ranks odd = [] {
    Ranks ranks;
    for (int i = 1; i < size; i += 2) ranks.push_back(i);
    return ranks;
  }();
  const Ranks even = [] {
    Ranks ranks;
    for (int i = 0; i < size; i += 2) ranks.push_back(i);
    return ranks;
  }();
  MPI_Group_excl(world, static_cast<int>(odd.size()), odd.data(), &group);
  is("an exclusion leaves the others in their order", group, even);
  int range[1][3] = {{0, size - 1, 2}};
  MPI_Group_range_incl(world, 1, range, &group);
  is("a range is first, last, step", group, even);
  MPI_Group_range_excl(world, 1, range, &group);
  is("a range is excluded", group, odd);
  Ranks backwards;
  for (int i = size - 1; i >= 0; --i) backwards.push_back(i);
  int down[1][3] = {{size - 1, 0, -1}};
  MPI_Group_range_incl(world, 1, down, &group);
  is("a range may go down", group, backwards);
  MPI_Group_incl(world, 0, nullptr, &group);
  is("nothing is the empty group", group, {});
  const int twice[2] = {0, 0}, beyond[1] = {size};
  SAYS("no rank is named twice", MPI_Group_incl(world, 2, twice, &group) != MPI_SUCCESS);
  SAYS("a rank that is not there is an error",
       class_of(MPI_Group_incl(world, 1, beyond, &group)) == MPI_ERR_RANK);
  int still[1][3] = {{0, size - 1, 0}};
  SAYS("a step of 0 is an error", MPI_Group_range_incl(world, 1, still, &group) != MPI_SUCCESS);
  SAYS("MPI_GROUP_NULL is no group",
       class_of(MPI_Group_size(MPI_GROUP_NULL, &still[0][0])) == MPI_ERR_GROUP);
  const int nobody[1] = {MPI_PROC_NULL};
  int found[1] = {0};
  MPI_Group_translate_ranks(world, 1, nobody, world, found);
  SAYS("nobody stays nobody", found[0] == MPI_PROC_NULL);
  MPI_Group_free(&world);
  SAYS("a freed handle is null", world == MPI_GROUP_NULL);
}

}  // namespace

int main(int argc, char** argv) {
  static const Scenario scenarios[] = {
      {"choices", choices, 1}, {"sets", sets, 1}, {"lists", lists, 1}};
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  return RUN_SCENARIOS(scenarios, argc, argv);
}
