// Jobs of real processes, started by hand, that check what they see themselves:
// messages, operations in flight, groups, errors.
#include <gtest/gtest.h>

#include "job.hpp"

namespace qpmesh::ranks {
namespace {

struct Case {
  std::string scenario;
  std::vector<int> sizes;
  Words variables{};
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.scenario; }

class Scenarios : public testing::TestWithParam<Case> {};

TEST_P(Scenarios, is_right_on_every_rank) {
  const auto& [scenario, sizes, variables] = GetParam();
  for (const int size : sizes) {
    auto ranks = start_ranks(size, rank_program(scenario), {.variables = variables});
    expect_success(ranks);
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.scenario; }

INSTANTIATE_TEST_SUITE_P(
    messages, Scenarios,
    testing::Values(Case{"every_size_between_all_pairs", {1, 2, 3}}, Case{"order_per_pair", {2}},
                    Case{"any_source_from_everybody", {4}}, Case{"messages_to_itself", {1, 2}},
                    Case{"probe_tells_and_leaves", {2}}, Case{"truncated_stays_first_in_line", {2}},
                    Case{"truncated_passes_on_to_the_receive_behind", {2}}, Case{"many_unexpected", {2}},
                    Case{"too_many_unexpected", {2}, {"QPMESH_UNEXPECTED_MESSAGES_MAX=50"}},
                    Case{"receive_deadline_leaves_all_well", {2}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(in_flight, Scenarios,
                         testing::Values(Case{"sixteen_end_under_test_alone", {1, 2, 4}},
                                         Case{"sixteen_end_waited_in_reverse", {2, 5}},
                                         Case{"sixteen_end_under_wait_any", {3}},
                                         Case{"waiting_in_one_group_serves_the_other", {2, 3}},
                                         Case{"requests_move_and_wait_in_their_destructor", {3}},
                                         Case{"the_status_is_told_after_test_too", {1, 3}},
                                         Case{"a_request_outlives_its_communicator", {1, 3}},
                                         Case{"allreduce_of_every_size", {1, 2, 3, 7}},
                                         Case{"again_after_finish", {3}}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    groups, Scenarios,
    testing::Values(Case{"split_by_color_and_key", {5}}, Case{"split_of_a_split_of_a_split", {1, 7}},
                    Case{"groups_do_not_hear_each_other", {4}},
                    Case{"a_second_thread_has_its_own_context", {3}}, Case{"buffers_in_every_call", {1, 3}},
                    Case{"a_buffer_may_go_while_it_is_used", {3}},
                    Case{"too_much_memory_is_refused_on_all_alike", {3}, {"QPMESH_ARENA_BYTES_MAX=67108864"}},
                    Case{"one_rank_without_memory_is_named_on_all", {3}, {"QPMESH_ARENA_BYTES_MAX=67108864"}},
                    Case{"memory_is_given_back", {2}, {"QPMESH_ARENA_BYTES_MAX=67108864"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(errors, Scenarios,
                         testing::Values(Case{"impossible_arguments", {1, 3}},
                                         Case{"a_refused_call_can_be_made_again", {3}},
                                         Case{"calls_that_differ_are_named_on_every_rank", {2, 3, 4}},
                                         Case{"a_late_call_that_differs_is_named_too", {2}},
                                         Case{"nothing_works_after_finish", {1, 3}}),
                         name_of);

TEST(ranks_by_hand, an_async_call_returns_before_anybody_else_has_entered) {
  const Folder folder;
  auto ranks = start_ranks(3, rank_program("calls_return_before_others_enter", {folder.file("returned")}));
  expect_success(ranks);
}

TEST(ranks_by_hand, two_threads_in_one_context_are_reported) {
  const Folder folder;
  auto ranks = start_ranks(2, rank_program("two_threads_in_one_context", {folder.file("refused")}),
                           {.variables = {"QPMESH_SPIN_US=0"}});
  expect_success(ranks);
}

TEST(ranks_by_hand, options_that_differ_are_named_with_both_values_on_every_rank) {
  for (const Words& difference :
       {Words{"QPMESH_EAGER_BYTES_MAX", "4096", "16384"}, Words{"QPMESH_ALLREDUCE", "circulant", ""}}) {
    Words arguments{"2"};
    arguments.insert(arguments.end(), difference.begin(), difference.end());
    auto ranks =
        start_ranks(3, rank_program("options_that_differ", arguments), {.more_variables = [&](int rank) {
                      return rank == 2 ? Words{difference[0] + "=" + difference[1]} : Words{};
                    }});
    expect_success(ranks);
  }
}

struct Refused {
  Words variables;
  std::string operation;
  std::string cause;
  std::string hint;
};

// No other rank exists: what is wrong is found before anybody is waited for.
TEST(ranks_by_hand, settings_that_make_no_sense_are_refused_at_once) {
  const std::vector<Refused> all{
      {{"QPMESH_ALLREDUCE=nonsense"},
       "init",
       "QPMESH_ALLREDUCE=nonsense is not an algorithm",
       "exchange, circulant"},
      {{"QPMESH_ALLREDUCE=exchange", "QPMESH_SIZE=1000"},
       "init",
       "QPMESH_ALLREDUCE=exchange does not apply to 1000 ranks",
       "circulant"},
      {{"QPMESH_EAGER_BYTES_MAX=much"}, "options", "QPMESH_EAGER_BYTES_MAX='much', allowed: 0 to", "docs/"},
      {{"QPMESH_PAYLOAD_RING_BYTES=100000"}, "options", "'100000', allowed: 4096 to", "docs/"},
      {{"QPMESH_TRANSPORT=carrier_pigeon"}, "options", "'carrier_pigeon', allowed: empty, shm", "docs/"},
      {{"QPMESH_RANK=4", "QPMESH_SIZE=4"},
       "init",
       "QPMESH_RANK is \"4\"; allowed is a number from 0 to 3",
       ""},
      {{"QPMESH_RANK=-1"}, "init", "QPMESH_RANK is \"-1\"; allowed is a number", ""},
      {{"QPMESH_SIZE=two"}, "init", "QPMESH_SIZE is \"two\"; allowed is a number", ""},
      {{"QPMESH_JOB=a b"}, "init", "QPMESH_JOB is \"a b\"; allowed is 1 to 64 characters", ""},
      {{"QPMESH_ROOT=nowhere"}, "init", "QPMESH_ROOT", ""},
  };
  for (const Refused& refused : all) {
    SCOPED_TRACE(refused.variables[0]);
    Words variables{"QPMESH_RANK=0", "QPMESH_SIZE=3"};
    for (const std::string& variable : refused.variables) {
      const std::string name = variable.substr(0, variable.find('=') + 1);
      std::erase_if(variables, [&](const std::string& other) { return other.starts_with(name); });
      variables.push_back(variable);
    }
    std::vector<Process> ranks;
    ranks.emplace_back(rank_program("init_is_refused", {refused.operation, refused.cause, refused.hint}),
                       variables);
    expect_success(ranks);
  }
}

TEST(ranks_by_hand, a_rank_that_never_comes_is_named) {
  std::vector<Process> ranks;
  for (const int rank : {0, 1}) {
    ranks.emplace_back(
        rank_program("init_times_out", {"2", "2"}),
        Words{"QPMESH_RANK=" + std::to_string(rank), "QPMESH_SIZE=3", "QPMESH_INIT_TIMEOUT_MS=800",
              "QPMESH_JOB=missing-" + std::to_string(::getpid())});
  }
  expect_success(ranks);
}

TEST(ranks_by_hand, an_unknown_variable_is_warned_about_once_with_the_nearest_name) {
  auto ranks = start_ranks(2, rank_program("messages_to_itself"), {.variables = {"QPMESH_TIMEOUT_SM=5"}});
  expect_success(ranks);
  EXPECT_EQ(ranks[0].output(),
            "qpmesh rank 0 warning: QPMESH_TIMEOUT_SM is set, but nothing reads it; did you mean "
            "QPMESH_TIMEOUT_MS?\n");
  EXPECT_EQ(ranks[1].output(), "");
}

}  // namespace
}  // namespace qpmesh::ranks
