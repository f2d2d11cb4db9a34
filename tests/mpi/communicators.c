// SPDX-License-Identifier: MIT
// Communicators and groups: how they are made, by whom, in which order; who is in them; what they
// are called.
#include "check.h"

static void predefined(void) {
  int ranks = -1, me = -1, result = -1;
  MPI_Comm_size(MPI_COMM_SELF, &ranks);
  MPI_Comm_rank(MPI_COMM_SELF, &me);
  SAYS("MPI_COMM_SELF is this rank alone", ranks == 1 && me == 0);
  MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
  SAYS("a communicator is identical to itself", result == MPI_IDENT);
  MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_SELF, &result);
  SAYS("and unequal to one of other ranks", result == (size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL));
  char name[MPI_MAX_OBJECT_NAME];
  int length = -1, inter = -1;
  MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
  SAYS("MPI_COMM_WORLD has its name", strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
  MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
  SAYS("MPI_COMM_SELF too", strcmp(name, "MPI_COMM_SELF") == 0);
  MPI_Comm_test_inter(MPI_COMM_WORLD, &inter);
  SAYS("it is no intercommunicator", inter == 0);
  int sum = -1;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  SAYS("collectives of MPI_COMM_SELF are this rank's", sum == rank);
}

static void works(MPI_Comm comm, const char* which) {  // a sum of ranks and a ring
  int me = -1, ranks = -1, sum = -1, from = -1;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % ranks, 1, &from, 1, MPI_INT, (me + ranks - 1) % ranks, 1,
               comm, MPI_STATUS_IGNORE);
  SAYS(which, sum == ranks * (ranks - 1) / 2 && from == (me + ranks - 1) % ranks);
}

static void duplicates(void) {
  MPI_Comm copy, again;
  int result = -1, length = -1;
  char name[MPI_MAX_OBJECT_NAME] = "x";
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
  SAYS("a duplicate is congruent", result == MPI_CONGRUENT);
  MPI_Comm_get_name(copy, name, &length);
  SAYS("it has no name of its own", name[0] == 0 && length == 0);
  MPI_Comm_set_name(copy, "mine");
  MPI_Comm_get_name(copy, name, &length);
  SAYS("until it is given one", strcmp(name, "mine") == 0 && length == 4);
  works(copy, "a duplicate works");
  MPI_Comm_dup(copy, &again);
  MPI_Comm_free(&copy);
  SAYS("a freed communicator is null", copy == MPI_COMM_NULL);
  works(again, "a duplicate of a duplicate outlives it");
  MPI_Comm_free(&again);
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &copy);
  works(copy, "dup_with_info works");
  MPI_Comm_free(&copy);
  for (int i = 0; i < 200; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_free(&copy);
  }
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  works(copy, "a duplicate of MPI_COMM_SELF works");
  MPI_Comm_free(&copy);
}

static void duplicates_in_flight(void) {
  MPI_Comm copies[3];
  MPI_Request requests[3];
  int sum = -1;
  MPI_Comm_idup(MPI_COMM_WORLD, &copies[0], &requests[0]);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_idup(MPI_COMM_WORLD, &copies[1], &requests[1]);
  SAYS("a collective goes past an idup in flight", sum == size * (size - 1) / 2);
  MPI_Comm_idup(MPI_COMM_SELF, &copies[2], &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 3; ++i) {
    works(copies[i], "idup makes a communicator");
    MPI_Comm_free(&copies[i]);
  }
  // Two communicators are duplicated, in another order on each rank.
  MPI_Comm parents[2], children[2];
  for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
  for (int i = 0; i < 2; ++i) {
    const int chosen = (i + rank) % 2;
    MPI_Comm_idup(parents[chosen], &children[chosen], &requests[chosen]);
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 2; ++i) works(children[i], "idup of two communicators goes in any order");
  for (int i = 0; i < 2; ++i) {
    MPI_Comm_free(&children[i]);
    MPI_Comm_free(&parents[i]);
  }
}

static void splits(void) {
  MPI_Comm part;
  int me = -1, ranks = -1, result = -1;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
  MPI_Comm_rank(part, &me);
  MPI_Comm_size(part, &ranks);
  SAYS("a split has the ranks of a color, by key",
       ranks == (size + 1 - rank % 2) / 2 && me == ranks - 1 - rank / 2);
  works(part, "a part works");
  MPI_Comm_free(&part);
  MPI_Comm_split(MPI_COMM_WORLD, 5, 0, &part);
  MPI_Comm_rank(part, &me);
  MPI_Comm_compare(part, MPI_COMM_WORLD, &result);
  SAYS("equal keys keep the order", me == rank && result == MPI_CONGRUENT);
  MPI_Comm_free(&part);
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &part);
  MPI_Comm_compare(part, MPI_COMM_WORLD, &result);
  SAYS("the same ranks in another order are similar",
       result == (size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
  MPI_Comm_free(&part);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &part);
  SAYS("MPI_UNDEFINED joins nothing", (part == MPI_COMM_NULL) == (rank == 0));
  if (part != MPI_COMM_NULL) {
    works(part, "the others work");
    MPI_Comm_free(&part);
  }
  MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &part);
  SAYS("all of them may join nothing", part == MPI_COMM_NULL);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &part);
  MPI_Comm_size(part, &ranks);
  MPI_Comm_rank(part, &me);
  SAYS("ranks of one host share memory; the key orders them",
       ranks == size && me == size - 1 - rank);
  works(part, "ranks of a node work");
  MPI_Comm_free(&part);
  MPI_Comm_split_type(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0,
                      MPI_INFO_NULL, &part);
  SAYS("split_type takes MPI_UNDEFINED", (part == MPI_COMM_NULL) == (rank == 0));
  if (part != MPI_COMM_NULL) MPI_Comm_free(&part);
#if MPI_VERSION >= 4
  if (!open_mpi && !mpich) {
    MPI_Comm_split_type(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : MPI_COMM_TYPE_HW_UNGUIDED, 0,
                        MPI_INFO_NULL, &part);
    SAYS("also beside a part of the hardware, of which none is told apart", part == MPI_COMM_NULL);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
    MPI_Info_free(&info);
    SAYS("but shared memory", part != MPI_COMM_NULL);
    if (part != MPI_COMM_NULL) {
      MPI_Comm_size(part, &ranks);
      SAYS("with the ranks of MPI_COMM_TYPE_SHARED", ranks == size);
      MPI_Comm_free(&part);
    }
  }
#endif
  // Splits of splits, while messages of the parent are under way.
  MPI_Request request;
  int from = -1;
  MPI_Irecv(&from, 1, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD, &request);
  MPI_Comm half, quarter;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &half);
  MPI_Comm_rank(half, &me);
  MPI_Comm_split(half, me, 0, &quarter);
  MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD);
  works(quarter, "a split of a split works");
  MPI_Comm_free(&half);
  works(quarter, "without its parent");
  MPI_Comm_free(&quarter);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("messages of the parent arrive meanwhile", from == (rank + size - 1) % size);
}

static void groups(void) {
  MPI_Group world, part, other, result_group;
  int ranks = -1, me = -1, result = -1;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_size(world, &ranks);
  MPI_Group_rank(world, &me);
  SAYS("the group of a communicator has its ranks", ranks == size && me == rank);
  MPI_Group_size(MPI_GROUP_EMPTY, &ranks);
  MPI_Group_rank(MPI_GROUP_EMPTY, &me);
  SAYS("the empty group has none", ranks == 0 && me == MPI_UNDEFINED);
  const int first[2] = {size - 1, 0};
  const int listed = size > 1 ? 2 : 1;
  MPI_Group_incl(world, listed, first, &part);
  MPI_Group_rank(part, &me);
  SAYS("incl takes ranks in the order of the list", me == (rank == size - 1 ? 0
                                                           : rank == 0      ? 1
                                                                            : MPI_UNDEFINED));
  MPI_Group_excl(world, listed, first, &other);
  MPI_Group_size(other, &ranks);
  SAYS("excl takes the rest", ranks == size - listed);
  MPI_Group_union(part, other, &result_group);
  MPI_Group_compare(world, result_group, &result);
  SAYS("their union has all", result == (size == 1 ? MPI_IDENT : MPI_SIMILAR));
  MPI_Group_free(&result_group);
  MPI_Group_intersection(part, other, &result_group);
  MPI_Group_size(result_group, &ranks);
  SAYS("their intersection has none", ranks == 0);
  MPI_Group_free(&result_group);
  MPI_Group_difference(world, part, &result_group);
  MPI_Group_compare(result_group, other, &result);
  SAYS("the difference is what excl gave", result == MPI_IDENT);
  MPI_Group_free(&result_group);
  int from[3] = {0, MPI_PROC_NULL, 0}, to[3] = {-1, -1, -1};
  MPI_Group_translate_ranks(part, 2, from, world, to);
  SAYS("ranks are translated", to[0] == size - 1 && to[1] == MPI_PROC_NULL);
  if (size > 2) {
    MPI_Group_translate_ranks(part, 1, from, other, to);
    SAYS("those that are not there are MPI_UNDEFINED", to[0] == MPI_UNDEFINED);
  }
  int ranges[1][3] = {{size - 1, 0, -1}};
  MPI_Group_range_incl(world, 1, ranges, &result_group);
  MPI_Group_rank(result_group, &me);
  MPI_Group_size(result_group, &ranks);
  SAYS("range_incl goes backwards", me == size - 1 - rank && ranks == size);
  MPI_Group_free(&result_group);
  int every_second[1][3] = {{0, size - 1, 2}};
  MPI_Group_range_excl(world, 1, every_second, &result_group);
  MPI_Group_rank(result_group, &me);
  SAYS("range_excl takes strides", me == (rank % 2 ? rank / 2 : MPI_UNDEFINED));
  if (result_group != MPI_GROUP_EMPTY) MPI_Group_free(&result_group);
  MPI_Group_compare(part, world, &result);
  SAYS("groups of other ranks are unequal", size <= 2 || result == MPI_UNEQUAL);
  MPI_Group_free(&part);
  if (other != MPI_GROUP_EMPTY) MPI_Group_free(&other);
  MPI_Group_free(&world);
  SAYS("a freed group is null", world == MPI_GROUP_NULL);
}

static void of_groups(void) {
  MPI_Group world, part;
  MPI_Comm comm;
  int me = -1;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  const int chosen[2] = {size - 1, 0};
  MPI_Group_incl(world, size > 1 ? 2 : 1, chosen, &part);
  MPI_Comm_create(MPI_COMM_WORLD, part, &comm);
  SAYS("Comm_create gives a communicator to the members alone",
       (comm != MPI_COMM_NULL) == (rank == 0 || rank == size - 1));
  if (comm != MPI_COMM_NULL) {
    MPI_Comm_rank(comm, &me);
    SAYS("with the ranks of the group", me == (rank == size - 1 ? 0 : 1));
    works(comm, "which works");
    MPI_Comm_free(&comm);
  }
  MPI_Group_free(&part);
  // Each half makes its own in one call.
  int range[1][3] = {
      {rank < size / 2 ? 0 : size / 2, rank < size / 2 ? size / 2 - 1 : size - 1, 1}};
  MPI_Group_range_incl(world, 1, range, &part);
  MPI_Comm_create(MPI_COMM_WORLD, part, &comm);
  if (comm != MPI_COMM_NULL) {
    works(comm, "disjoint groups make communicators in one call");
    MPI_Comm_free(&comm);
  }
  MPI_Group_free(&part);
  MPI_Group_free(&world);
}

static void by_members_alone(void) {
  if (size < 4) return;
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  // Rank 0 makes {0,1}, {0,2}, {0,3} in this order; each of the others first makes its own with its
  // neighbour.
  MPI_Comm comm;
  MPI_Group pair;
  if (rank == 0) {
    for (int other = 3; other >= 1; --other) {
      const int both[2] = {0, other};
      MPI_Group_incl(world, 2, both, &pair);
      MPI_Comm_create_group(MPI_COMM_WORLD, pair, other, &comm);
      works(comm, "create_group is called by the members alone");
      MPI_Comm_free(&comm);
      MPI_Group_free(&pair);
    }
  } else if (rank < 4) {
    const int both[2] = {0, rank};
    if (rank == 1 || rank == 2) {
      const int neighbours[2] = {2, 1};
      MPI_Group_incl(world, 2, neighbours, &pair);
      MPI_Comm_create_group(MPI_COMM_WORLD, pair, 12, &comm);
      int me = -1;
      MPI_Comm_rank(comm, &me);
      SAYS("in the order of the group", me == 2 - rank);
      works(comm, "in any order of groups");
      MPI_Comm_free(&comm);
      MPI_Group_free(&pair);
    }
    MPI_Group_incl(world, 2, both, &pair);
    MPI_Comm_create_group(MPI_COMM_WORLD, pair, rank, &comm);
    works(comm, "create_group is called by the members alone");
    MPI_Comm_free(&comm);
    MPI_Group_free(&pair);
  }
  // Overlapping ones with different tags, by everybody.
  MPI_Comm_create_group(MPI_COMM_WORLD, world, 7, &comm);
  works(comm, "create_group of all");
  MPI_Comm_free(&comm);
  MPI_Group_free(&world);
}

static void freed_with_messages(void) {  // a message in flight outlives its communicator
  static int out[100000], in[100000];
  MPI_Comm comm;
  MPI_Request requests[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < 100000; ++i) out[i] = rank + i;
  const int left = (rank + size - 1) % size;
  MPI_Irecv(in, 100000, MPI_INT, left, 1, comm, &requests[0]);
  MPI_Isend(out, 100000, MPI_INT, (rank + 1) % size, 1, comm, &requests[1]);
  MPI_Comm_free(&comm);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  int right = 1;
  for (int i = 0; i < 100000; ++i) right &= in[i] == left + i;
  SAYS("what is in flight goes on when its communicator is freed", right);
}

static void infos(void) {
  MPI_Info info, copy;
  int flag = -1, keys = -1, length = -1;
  char value[64] = "", key[MPI_MAX_INFO_KEY];
  MPI_Info_create(&info);
  MPI_Info_set(info, "color", "red");
  MPI_Info_set(info, "shape", "round");
  MPI_Info_set(info, "color", "green");
  MPI_Info_get(info, "color", 63, value, &flag);
  SAYS("an info holds the last value of a key", flag && strcmp(value, "green") == 0);
  MPI_Info_get(info, "size", 63, value, &flag);
  SAYS("and says when there is none", !flag);
  MPI_Info_get_valuelen(info, "shape", &length, &flag);
  SAYS("valuelen", flag && length == 5);
#if MPI_VERSION >= 4
  strcpy(value, "as it was");
  length = 0;
  MPI_Info_get_string(info, "shape", &length, value, &flag);
  SAYS("get_string of no room tells what it needs, and writes nothing",
       flag && length == 6 && strcmp(value, "as it was") == 0);
  MPI_Info_get_string(info, "shape", &length, value, &flag);
  SAYS("with as much it has all", flag && length == 6 && strcmp(value, "round") == 0);
  length = 3;
  MPI_Info_get_string(info, "shape", &length, value, &flag);
  SAYS("with less the beginning", flag && length == 6 && strcmp(value, "ro") == 0);
  length = sizeof value;
  MPI_Info_get_string(info, "size", &length, value, &flag);
  SAYS("and of no key nothing", !flag && strcmp(value, "ro") == 0);
#endif
  MPI_Info_get_nkeys(info, &keys);
  MPI_Info_get_nthkey(info, 1, key);
  SAYS("keys are counted, in order", keys == 2 && strcmp(key, "shape") == 0);
  MPI_Info_dup(info, &copy);
  MPI_Info_delete(info, "color");
  MPI_Info_get_nkeys(info, &keys);
  SAYS("delete", keys == 1);
  MPI_Info_get_nkeys(copy, &keys);
  SAYS("a duplicate is its own", keys == 2);
  MPI_Info_free(&info);
  MPI_Info_free(&copy);
  SAYS("a freed info is null", info == MPI_INFO_NULL);
}

// The value of a hint, "" where there is none.
static const char* hint(MPI_Comm comm, const char* key) {
  static char value[MPI_MAX_INFO_VAL];
  int flag = 0;
  MPI_Info info;
  MPI_Comm_get_info(comm, &info);
  value[0] = 0;
  MPI_Info_get(info, key, sizeof value - 1, value, &flag);
  MPI_Info_free(&info);
  return flag ? value : "";
}

static void hints(void) {
  const char *const no_any_tag = "mpi_assert_no_any_tag", *const lengths =
                                                              "mpi_assert_exact_length";
  MPI_Comm comm, copy;
  MPI_Info info;
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  SAYS("a communicator has no hints that nobody gave",
       hint(comm, no_any_tag)[0] == 0 || strcmp(hint(comm, no_any_tag), "false") == 0);
  MPI_Info_create(&info);
  MPI_Info_set(info, no_any_tag, "true");
  MPI_Info_set(info, "soup", "hot");
  MPI_Comm_set_info(comm, info);
  if (!open_mpi) SAYS("a promise is kept", strcmp(hint(comm, no_any_tag), "true") == 0);
  if (!mpich) SAYS("a hint that nobody knows is not told", hint(comm, "soup")[0] == 0);
  MPI_Info_delete(info, no_any_tag);
  MPI_Info_set(info, lengths, "true");
  MPI_Comm_set_info(comm, info);
  if (!open_mpi) {
    SAYS("another one is added", strcmp(hint(comm, lengths), "true") == 0);
    SAYS("and those that it does not name stay", strcmp(hint(comm, no_any_tag), "true") == 0);
  }
  if (!open_mpi && !mpich) {  // to which it is an error
    MPI_Comm_set_info(comm, MPI_INFO_NULL);
    SAYS("of no hints nothing changes", strcmp(hint(comm, lengths), "true") == 0);
  }
  MPI_Comm_dup(comm, &copy);
  if (!open_mpi && !mpich) SAYS("dup copies hints", strcmp(hint(copy, lengths), "true") == 0);
  MPI_Info_set(info, lengths, "false");
  MPI_Comm_set_info(copy, info);
  if (!open_mpi) {
    SAYS("a duplicate's are its own", strcmp(hint(copy, lengths), "false") == 0);
    SAYS("its parent's stay", strcmp(hint(comm, lengths), "true") == 0);
  }
  MPI_Comm_free(&copy);
  MPI_Comm_dup_with_info(comm, info, &copy);
  if (!open_mpi)
    SAYS("dup_with_info has those that it is given", strcmp(hint(copy, lengths), "false") == 0);
  if (!open_mpi && !mpich) SAYS("instead of its parent's", hint(copy, no_any_tag)[0] == 0);
  MPI_Comm_free(&copy);
#if MPI_VERSION >= 4
  MPI_Comm_idup_with_info(comm, info, &copy, &request);
  MPI_Info_free(&info);  // it was read
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  works(copy, "idup_with_info makes a communicator");
  SAYS("and has those that it is given", strcmp(hint(copy, lengths), "false") == 0);
  if (!mpich) SAYS("instead of its parent's, too", hint(copy, no_any_tag)[0] == 0);
  MPI_Comm_free(&copy);
#else
  (void)request;
  MPI_Info_free(&info);
#endif
  MPI_Comm_free(&comm);
}

static void alone(void) {  // nobody started this job, and no communicator has another side
  MPI_Comm parent = MPI_COMM_WORLD, comm;
  MPI_Group group = MPI_GROUP_NULL;
  int ranks = -1;
  MPI_Comm_get_parent(&parent);
  SAYS("what a launcher started has no parent", parent == MPI_COMM_NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (!open_mpi && !mpich) {  // which give the communicator's own, or another error
    SAYS("an intracommunicator has no remote size",
         class_of(MPI_Comm_remote_size(comm, &ranks)) == MPI_ERR_COMM);
    SAYS("and no remote group", class_of(MPI_Comm_remote_group(comm, &group)) == MPI_ERR_COMM);
  }
  MPI_Comm_free(&comm);
}

#if MPI_VERSION >= 4
static void how_it_was_started(void) {
  MPI_Info info;
  int flag = 0, length = MPI_MAX_INFO_VAL;
  char value[MPI_MAX_INFO_VAL] = "", again[MPI_MAX_INFO_VAL] = "";
  MPI_Info_create_env(0, NULL, &info);
  MPI_Info_get_string(info, "command", &length, value, &flag);
  SAYS("create_env tells the command",
       (flag && strstr(value, "communicators") != NULL && length == (int)strlen(value) + 1) ||
           mpich);
  MPI_Info_set(info, "command", "mine");  // it is the program's own
  MPI_Info_free(&info);
  MPI_Info_create_env(0, NULL, &info);
  length = MPI_MAX_INFO_VAL;
  MPI_Info_get_string(info, "command", &length, again, &flag);
  SAYS("each time the same", strcmp(value, again) == 0);
  MPI_Info_free(&info);
}
#endif

static void memory_of_the_library(void) {
  double* memory = NULL;
  MPI_Alloc_mem(1000 * sizeof(double), MPI_INFO_NULL, &memory);
  SAYS("Alloc_mem gives memory", memory != NULL);
  for (int i = 0; i < 1000; ++i) memory[i] = rank + i;
  MPI_Allreduce(MPI_IN_PLACE, memory, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  SAYS("which collectives take", memory[999] == size * (size - 1) / 2.0 + 999.0 * size);
  MPI_Free_mem(memory);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
    {"predefined", predefined, 1},
    {"duplicates", duplicates, 1},
    {"duplicates_in_flight", duplicates_in_flight, 1},
    {"splits", splits, 1},
    {"groups", groups, 1},
    {"of_groups", of_groups, 1},
    {"by_members_alone", by_members_alone, 1},
    {"freed_with_messages", freed_with_messages, 1},
    {"infos", infos, 1},
    {"hints", hints, 1},
    {"alone", alone, 1},
#if MPI_VERSION >= 4
    {"how_it_was_started", how_it_was_started, 1},
#endif
    {"memory_of_the_library", memory_of_the_library, 1},
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}
