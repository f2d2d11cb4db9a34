// SPDX-License-Identifier: MIT
// The slots of a node's members, the counts of what they have finished, and memory that one takes
// back: the words of collectives/node, used as NodeMemory and NodeOperation use them.
#include "collectives/node/words.hpp"

#include <array>
#include <utility>

#include "base/atomics.hpp"
#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using namespace qpmesh::collectives;
using A = ExploredAtomics;

// One communicator as one rank sees it. It owns no memory: an execution that is given up destroys
// nothing.
template <std::uint32_t slots, std::size_t ranks>
struct Membership {
  using Words = NodeWords<A, slots>;
  using Slot = typename Words::Slot;
  using Member = MemberNodeWords<A, slots>;
  std::size_t rank;
  Words* own_words;
  OwnNodeWords<A, slots> own;
  std::array<Member, ranks> members;
  std::array<SlotBank, 2> banks{SlotBank::ahead, SlotBank::ahead};  // of operations by turns

  Membership(Words (&words_of_all)[ranks], std::size_t own_rank)
      : Membership{words_of_all, own_rank, std::make_index_sequence<ranks>{}} {}
  template <std::size_t... each>
  Membership(Words (&words_of_all)[ranks], std::size_t own_rank, std::index_sequence<each...>)
      : rank{own_rank},
        own_words{&words_of_all[own_rank]},
        own{*own_words},
        members{Member{words_of_all[each]}...} {}

  static std::uint32_t datum(std::size_t rank, std::uint64_t number) {
    return static_cast<std::uint32_t>(16 * (number + 1) + rank);
  }
  static constexpr std::uint64_t call_of(std::uint64_t number) { return 100 + number; }

  Slot& slot(Words& words, std::uint64_t number) const {
    return words.slot(number, banks[number % banks.size()]);
  }
  // Until the slot may be written: every member has finished the operation that used it before.
  void await_own_slot(std::uint64_t number) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      while (i != rank && !members[i].is_done(number + 1 - slots, own.done())) wait_for_news();
    }
  }
  void publish(std::uint64_t number) {
    Slot& own_slot = slot(*own_words, number);
    const std::uint32_t value = datum(rank, number);
    own_slot.put(std::as_bytes(std::span{&value, 1}));
    own_slot.put_kind(MemoryKind::slab);
    own.name_call(own_slot, call_of(number));
    own.publish(own_slot, node_stage(number, 1));
  }
  bool has_come(std::size_t i, std::uint64_t number) {
    std::uint64_t call = 0;
    const Slot& theirs = slot(members[i].words(), number);
    if (!members[i].has_come(theirs, node_stage(number, 1), own.done(), call)) return false;
    require(call == call_of(number), "the call of another operation");
    return true;
  }
  void read(std::size_t i, std::uint64_t number) {
    const Slot& theirs = slot(members[i].words(), number);
    std::uint32_t value = 0;
    require(theirs.data_kind() == MemoryKind::slab, "the memory of another operation");
    A::copy(reinterpret_cast<std::byte*>(&value), theirs.data, sizeof value);
    require(value == datum(i, number), "the data of another operation");
  }
  void await_and_read(std::size_t i, std::uint64_t number) {
    while (!has_come(i, number)) wait_for_news();
    read(i, number);
  }
};

constexpr Harmless nobody_sleeps{Damage::no_order, "publish", 0, "only sleepers need it"};
constexpr Harmless told_by_stage[] = {
    {Damage::no_release, "publish", 1,
     "the stage behind it releases the same, and no step is published between"},
    {Damage::no_acquire, "has_come", 2, "the stage is acquired, and no step is published between"}};

// Everybody publishes and reads everybody's, as a small allreduce.
template <std::size_t ranks, std::uint32_t operations, std::uint32_t slots,
          SlotBank odd = SlotBank::ahead>
struct AllPublish {
  static constexpr std::size_t threads = ranks;
  NodeWords<A, slots> words[ranks]{};

  void run(std::size_t rank) {
    Membership node{words, rank};
    node.banks[1] = odd;
    for (std::uint32_t number = 0; number < operations; ++number) {
      node.await_own_slot(number);
      node.publish(number);
      for (std::size_t i = 0; i < ranks; ++i) {
        if (i != rank) node.await_and_read(i, number);
      }
      node.own.end(number);
    }
  }
  void check() {}
};
TEST(members_of_a_node, use_their_slots_again_when_all_have_read_them) {
  expect_right_and_every_mutant_found<AllPublish<2, 3, 1>>(
      {nobody_sleeps, told_by_stage[0], told_by_stage[1]});
}
// Then operation 2 finds the slot of operation 0, and that of operation 1 lies untouched beside it.
TEST(members_of_a_node, use_slots_of_both_banks_again_by_turns) {
  constexpr const char* told_by_other_bank =
      "the operation between was published, and seen, after the loads from the slot used again";
  expect_right_and_every_mutant_found<AllPublish<2, 3, 1, SlotBank::together>>(
      {nobody_sleeps,
       told_by_stage[0],
       told_by_stage[1],
       {Damage::no_release, "end", 1, told_by_other_bank},
       {Damage::no_acquire, "is_done", 1, told_by_other_bank}});
}
// With one slot the exploration does not end in ten minutes.
TEST(members_of_a_node, read_of_two_others_what_each_has_published) {
  expect_right<AllPublish<3, 2, 2>>();
}

// One publishes, as the root of a broadcast. It learns what the others have finished from their
// counts alone.
template <std::size_t ranks, std::uint32_t operations, std::uint32_t slots>
struct RootPublishes {
  static constexpr std::size_t threads = ranks;
  NodeWords<A, slots> words[ranks]{};

  void run(std::size_t rank) {
    Membership node{words, rank};
    for (std::uint32_t number = 0; number < operations; ++number) {
      if (rank == 0) {
        node.await_own_slot(number);
        node.publish(number);
      } else {
        node.await_and_read(0, number);
      }
      node.own.end(number);
    }
  }
  void check() {}
};
TEST(the_root_of_a_node, writes_its_slot_again_when_two_others_have_read_it) {
  expect_right_and_every_mutant_found<RootPublishes<3, 3, 1>>(
      {nobody_sleeps, told_by_stage[0], told_by_stage[1]});
}

// The same with data in a staging of one part, which is used again before the slot is.
struct RootStages {
  static constexpr std::size_t threads = 2;
  NodeWords<A, 2> words[2]{};
  std::uint64_t staged = 0;

  void run(std::size_t rank) {
    Membership node{words, rank};
    for (std::uint64_t number = 0; number < 3; ++number) {
      if (rank == 0) {
        while (!node.members[1].is_done(number, node.own.done())) wait_for_news();
        const std::uint64_t value = 100 + number;
        A::copy(reinterpret_cast<std::byte*>(&staged), reinterpret_cast<const std::byte*>(&value),
                sizeof value);
        node.publish(number);
      } else {
        while (!node.has_come(0, number)) wait_for_news();
        std::uint64_t value = 0;
        A::copy(reinterpret_cast<std::byte*>(&value), reinterpret_cast<const std::byte*>(&staged),
                sizeof value);
        require(value == 100 + number, "the data of another operation");
      }
      node.own.end(number);
    }
  }
  void check() {}
};
TEST(the_root_of_a_node, writes_its_staging_again_when_the_other_has_read_it) {
  expect_right_and_every_mutant_found<RootStages>(
      {nobody_sleeps, told_by_stage[0], told_by_stage[1],
       Harmless{Damage::late, "put", 0, "nobody reads what is in the slot"},
       Harmless{Damage::late, "put_kind", 0, "nor the kind of its memory"}});
}

// One has something for the other in every second operation only, and nobody awaits it otherwise.
// The other takes what it awaits to be there, or to come never.
struct GivesNowAndThen {
  static constexpr std::size_t threads = 2;
  NodeWords<A, 2> words[2]{};

  void run(std::size_t rank) {
    Membership node{words, rank};
    for (std::uint64_t number = 0; number < 3; ++number) {
      const bool gives = number % 2 == 0;
      if (rank == 0 && gives) {
        node.await_own_slot(number);
        node.publish(number);
      } else if (rank == 1) {
        std::uint64_t call = 0;
        const auto& slot = node.members[0].words().slot(number, SlotBank::ahead);
        while (
            !node.members[0].has_come_or_ended(slot, node_stage(number, 1), node.own.done(), call))
          wait_for_news();
        require(gives == node.has_come(0, number), "a gift where there is none, or none");
        if (gives) node.read(0, number);
      }
      node.own.end(number);
    }
  }
  void check() {}
};
TEST(a_member_that_gives_nothing, is_known_by_its_end_and_never_for_one_that_gave) {
  expect_right_and_every_mutant_found<GivesNowAndThen>(
      {nobody_sleeps, told_by_stage[0], told_by_stage[1]});
}

// A member looks at the slots of another one, of which it awaits nothing, for calls that differ.
// One that has ended an operation has said all that it says of it.
struct LooksAround {
  static constexpr std::size_t threads = 2;
  NodeWords<A, 1> words[2]{};

  void run(std::size_t rank) {
    Membership node{words, rank};
    std::uint64_t seen = 0;
    for (std::uint64_t number = 0; number < 3; ++number) {
      if (rank == 0) {
        node.await_own_slot(number);
        node.publish(number);
      } else {
        std::uint64_t call = 0;
        const bool has_ended = node.members[0].is_done(number + 1, node.own.done());
        const bool has_called = node.members[0].has_called(node.slot(words[0], number), call);
        if (has_called) {
          require(call >= Membership<1, 2>::call_of(0), "a call that nobody has made");
          require(call >= seen, "a call before one that was seen");
          seen = call;
        }
        if (has_ended) {
          require(has_called && call >= Membership<1, 2>::call_of(number),
                  "the end of an operation without its call");
        }
      }
      node.own.end(number);
    }
  }
  void check() {}
};
TEST(a_member_that_looks_around, sees_calls_that_were_made_and_no_others) {
  constexpr const char* reads_no_data = "it reads a call, and no data";
  expect_right_and_every_mutant_found<LooksAround>({nobody_sleeps,
                                                    told_by_stage[0],
                                                    {Damage::late, "put", 0, reads_no_data},
                                                    {Damage::late, "put_kind", 0, reads_no_data}});
}

// Operations in flight together: two of one communicator, of which the first has two steps, and one
// of another, which ends between them. The count that comes with the second step says that the
// first operation has ended; who sees it before that step writes its slot again.
struct InFlight {
  static constexpr std::size_t threads = 2;
  NodeWords<A, 2> first[2]{};
  NodeWords<A, 1> second[2]{};

  void run(std::size_t rank) {
    Membership one{first, rank};
    Membership two{second, rank};
    if (rank == 0) {
      one.publish(0);
      one.publish(1);
      two.await_and_read(1, 0);
      one.await_and_read(1, 0);
      one.own.end(0);
      one.own.publish(one.own_words->slot(1, SlotBank::ahead), node_stage(1, 2));
      two.own.end(0);
      one.await_and_read(1, 2);
    } else {
      two.publish(0);
      one.publish(0);
      one.await_and_read(0, 1);
      one.await_own_slot(2);
      one.publish(2);
      two.await_own_slot(1);
      two.publish(1);
    }
  }
  void check() {}
};
TEST(two_communicators_of_a_node, may_have_operations_in_flight_that_end_in_any_order) {
  expect_right_and_every_mutant_found<InFlight>({nobody_sleeps});
}

// A rank that sleeps until an operation of each of two communicators has come.
struct SleepsForTwo {
  static constexpr std::size_t threads = 2;
  NodeWords<A, 1> first[2]{};
  NodeWords<A, 1> second[2]{};
  base::AsleepWord<A> asleep{};
  std::uint32_t bell = 0;

  void run(std::size_t rank) {
    Membership one{first, rank};
    Membership two{second, rank};
    if (rank == 0) {
      one.publish(0);
      wake();
      two.publish(0);
      return wake();
    }
    bool one_has_come = false;
    bool two_has_come = false;
    const auto look = [&] {
      one_has_come = one_has_come || one.has_come(0, 0);
      two_has_come = two_has_come || two.has_come(0, 0);
      return one_has_come && two_has_come;
    };
    while (!look()) {
      asleep.set();
      if (look()) break;
      while (A::load_relaxed(&bell) == 0) wait_for_news();
      exchange(&bell, sizeof bell, 0, Order::relaxed, Place::current());
      asleep.clear();
    }
    one.read(0, 0);
    two.read(0, 0);
  }
  void wake() {
    if (asleep.is_set()) exchange(&bell, sizeof bell, 1, Order::relaxed, Place::current());
  }
  void check() {}
};
TEST(a_member_that_sleeps, is_woken_for_operations_of_two_communicators) {
  expect_right_and_every_mutant_found<SleepsForTwo>({told_by_stage[0], told_by_stage[1]});
}

// A member copies out of another's Buffer, which goes back to its owner when the communicator
// fails.
struct RevokedMember {
  static constexpr std::size_t threads = 2;
  static constexpr std::uint64_t published = 7;
  static constexpr std::uint64_t overwritten = 8;
  NodeWords<A, 1> words[2]{};
  std::uint64_t buffer[2]{};

  void run(std::size_t rank) {
    Membership node{words, rank};
    if (rank == 0) {
      for (std::uint64_t& word : buffer) A::store_relaxed(&word, published);
      node.publish(0);
      words[0].revocations.revoke();
      for (std::uint64_t& word : buffer) A::store_relaxed(&word, overwritten);
    } else {
      while (!node.has_come(0, 0)) wait_for_news();
      std::uint64_t copy[2];
      A::copy_unproven(reinterpret_cast<std::byte*>(copy), reinterpret_cast<std::byte*>(buffer),
                       sizeof copy);
      if (words[0].revocations.has_changed_since(0)) return;
      require(copy[0] == published && copy[1] == published, "a copy of what was revoked");
    }
  }
  void check() {}
};
TEST(a_copy_out_of_a_member, is_whole_where_its_communicator_has_not_failed) {
  expect_right_and_every_mutant_found<RevokedMember>(
      {nobody_sleeps, told_by_stage[0], told_by_stage[1],
       Harmless{Damage::late, "put", 0, "nobody reads what is in the slot"},
       Harmless{Damage::late, "put_kind", 0, "nor the kind of its memory"}});
}

// A communicator is gone on both ranks. The first slab serves another one when nobody reads it for
// the old one any more.
struct LeftSlab {
  static constexpr std::size_t threads = 2;
  static constexpr std::uint64_t communicator = 5;
  NodeWords<A, 1> words[2]{};

  LeftSlab() {
    for (auto& each : words) each.communicator = communicator;
  }
  void run(std::size_t rank) {
    Membership node{words, rank};
    if (rank == 0) {
      node.publish(0);
      node.own.leave();
      for (const auto& member : node.members) {
        while (!member.has_left(communicator)) wait_for_news();
      }
      words[0].clear(1);
      node.own.enter(communicator + 1);
    } else {
      node.await_and_read(0, 0);
      node.own.leave();
    }
  }
  void check() {}
};
TEST(a_slab_of_a_member, serves_another_communicator_when_all_have_left_the_one_before) {
  expect_right_and_every_mutant_found<LeftSlab>(
      {nobody_sleeps, told_by_stage[0], told_by_stage[1],
       Harmless{Damage::late, "clear", 0, "nobody reads a slab that was cleared"}});
}

}  // namespace
