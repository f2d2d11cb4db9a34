// SPDX-License-Identifier: MIT
// Jobs of real processes, started by hand, that check what they see themselves:
// messages, operations in flight, groups, errors.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "job.hpp"
#include "qpmesh/error.hpp"
#include "tests/support/another_user.hpp"
#include "tests/support/expected_error.hpp"
#include "tests/support/long_runs.hpp"
#include "tests/support/loopback_sockets.hpp"
#include "tests/support/public_copy.hpp"

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
    testing::Values(Case{"every_size_between_all_pairs", {1, 2, 3}},
                    Case{"one_memory_is_sent_to_all_at_once", {3}}, Case{"order_per_pair", {2}},
                    Case{"any_source_from_everybody", {4}}, Case{"messages_to_itself", {1, 2}},
                    Case{"probe_tells_and_leaves", {2}}, Case{"truncated_stays_first_in_line", {2}},
                    Case{"truncated_passes_on_to_the_receive_behind", {2}},
                    Case{"many_unexpected", {2}},
                    Case{"too_many_unexpected", {2}, {"QPMESH_UNEXPECTED_MESSAGES_MAX=50"}},
                    Case{"messages_of_some_kib_wait_for_nobody", {2}},
                    Case{"crowds_of_messages_of_some_kib", {2}},
                    Case{"crowds_that_wait_for_nobody", {2}, {"QPMESH_TRANSPORT=shm"}},
                    Case{"eager_ones_behind_a_long_one", {2}, {"QPMESH_CMA=no"}},
                    Case{"one_that_stays_makes_no_others_wait", {2}},
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
                                         Case{"again_after_finish", {3}},
                                         Case{"again_after_an_init_that_failed", {2, 3}}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    requests, Scenarios,
    testing::Values(Case{"wait_any_hears_every_context", {2}},
                    Case{"a_function_is_called_by_the_call_that_takes_its_receive_back", {1, 2}},
                    Case{"wait_any_ends_at_the_first_deadline", {1, 2}},
                    Case{"test_any_goes_round", {1, 2}}, Case{"the_longest_wait_is_one", {2}},
                    Case{"wait_all_in_opposite_orders", {2}, {"QPMESH_SINGLE_COPY=no"}},
                    Case{"finish_names_what_is_in_flight", {1, 2, 3}},
                    Case{"an_error_stays_told", {1, 2}},
                    Case{"wait_any_tells_each_request_once", {1, 2}},
                    Case{"wait_any_goes_round", {1, 2}},
                    Case{"several_requests_are_tested_and_waited_for", {1, 2}},
                    Case{"wait_any_tells_sends_that_are_over", {1, 2}},
                    Case{"a_cancelled_receive_takes_nothing", {1, 2}},
                    Case{"an_exception_cancels_what_is_unmatched", {1, 2, 3}},
                    Case{"an_exception_ends_what_waits_for_others", {2, 3}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(forks, Scenarios,
                         testing::Values(Case{"a_forked_child_is_refused", {1, 2, 3}},
                                         Case{"a_forked_child_may_begin_anew", {1, 2}}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(types, Scenarios,
                         testing::Values(Case{"elements_of_messages_have_types", {1, 2, 3}},
                                         Case{"a_type_known_when_the_program_runs_is_a_type",
                                              {1, 2, 3}}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    values, Scenarios,
    testing::Values(Case{"single_elements_go_and_results_are_returned", {1, 2, 3, 5}},
                    Case{"functions_of_two_elements_reduce", {1, 2, 3, 5}},
                    Case{"complex_numbers_and_their_like_are_reduced_by_name", {1, 2, 3, 5}},
                    Case{"reductions_of_one_rank_alone", {1}},
                    Case{"nobody_is_a_partner", {1, 2, 3}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    lists_of_vectors, Scenarios,
    testing::Values(Case{"several_vectors_are_reduced_in_one_call", {1, 2, 3, 5}},
                    Case{"several_vectors_are_in_flight_beside_others", {1, 2, 3, 5}},
                    Case{"lists_that_make_no_sense_are_refused", {1, 2, 3}},
                    Case{"a_list_that_one_rank_does_not_give_ends_at_its_deadline", {2, 3}}),
    name_of);

// The same by messages alone.
INSTANTIATE_TEST_SUITE_P(
    lists_of_vectors_over_tcp, Scenarios,
    testing::Values(
        Case{"several_vectors_are_reduced_in_one_call", {2, 3}, {"QPMESH_TRANSPORT=tcp"}},
        Case{"several_vectors_are_in_flight_beside_others", {2, 3}, {"QPMESH_TRANSPORT=tcp"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(blocks, Scenarios,
                         testing::Values(Case{"ranges_that_lie_apart_are_blocks", {1, 2, 3, 4, 5}},
                                         Case{"ranges_that_lie_apart_are_reduced", {1, 2, 3, 4, 5}},
                                         Case{"ranges_in_buffers_are_blocks", {1, 2, 3}},
                                         Case{"blocks_lie_at_a_stride", {1, 2, 3, 5}},
                                         Case{"lists_may_be_of_int", {1, 2, 3, 5}},
                                         Case{"lists_of_blocks_that_make_no_sense", {1, 2, 3}}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    matched, Scenarios,
    testing::Values(Case{"a_matched_message_is_nobody_elses", {1, 2, 3}},
                    Case{"a_message_that_goes_back_is_what_a_posted_receive_waits_for", {1, 2, 3}},
                    Case{"messages_that_go_back_keep_their_order", {1, 2, 3}},
                    Case{"a_message_that_was_not_received_is_first_in_line_again", {1, 2, 3}},
                    Case{"a_held_message_outlives_its_handle", {1, 2}},
                    Case{"a_synchronous_send_ends_with_its_receive", {1, 2, 3}},
                    Case{"an_exchange_may_have_two_tags", {1, 2, 3}},
                    Case{"the_head_of_a_longer_message_is_received", {1, 2, 3}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(grids, Scenarios,
                         testing::Values(Case{"every_grid_agrees_with_its_coordinates",
                                              {1, 2, 4, 6, 8}},
                                         Case{"neighbours_of_a_grid_exchange_blocks", {1, 2, 4, 6}},
                                         Case{"exchanges_that_cannot_be_are_refused", {1, 2, 3}},
                                         Case{"grids_that_cannot_be_are_refused", {1, 3}}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    detached, Scenarios,
    testing::Values(Case{"detached_operations_end_with_finish", {1, 2, 3, 4}},
                    Case{"who_waits_for_what_a_group_took_along_is_told", {2, 3}},
                    Case{"messages_that_a_group_leaves_stop_nobody",
                         {2, 3},
                         {"QPMESH_UNEXPECTED_MESSAGES_MAX=50"}},
                    Case{"finish_tells_of_detached_operations_that_do_not_end", {1, 2}},
                    Case{"a_communicator_takes_its_detached_operations_along", {1, 2, 3}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    left_over_tcp, Scenarios,
    testing::Values(
        Case{"a_message_that_goes_back_is_what_a_posted_receive_waits_for",
             {2},
             {"QPMESH_TRANSPORT=tcp"}},
        Case{"buffers_of_a_list_may_go_while_a_request_uses_them", {2}, {"QPMESH_TRANSPORT=tcp"}},
        Case{"own_memory_is_seen_whatever_joins_the_ranks", {2, 3}, {"QPMESH_TRANSPORT=tcp"}},
        Case{"who_waits_for_what_a_group_took_along_is_told", {2}, {"QPMESH_TRANSPORT=tcp"}},
        Case{"messages_that_a_group_leaves_stop_nobody",
             {2},
             {"QPMESH_TRANSPORT=tcp", "QPMESH_UNEXPECTED_MESSAGES_MAX=50"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    prepared, Scenarios,
    testing::Values(Case{"prepared_calls_are_made_again_and_again", {1, 2, 3, 4}},
                    Case{"what_is_prepared_wrongly_is_told_when_it_starts", {1, 2, 3}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(own_memory, Scenarios,
                         testing::Values(Case{"memory_of_one_rank_is_used_like_any", {1, 2, 3}},
                                         Case{"one_rank_without_memory_goes_on",
                                              {1, 2},
                                              {"QPMESH_ARENA_BYTES_MAX=67108864"}},
                                         Case{"buffers_of_others_are_seen", {1, 2, 3}},
                                         Case{"buffers_of_a_list_may_go_while_a_request_uses_them",
                                              {1, 3}},
                                         Case{"containers_lie_in_the_arena", {1, 2}}),
                         name_of);

// The sizes: one round of every pattern and several, powers of two and none.
INSTANTIATE_TEST_SUITE_P(
    collectives, Scenarios,
    testing::Values(Case{"every_algorithm_of_every_collective", {1, 2, 3, 4, 5, 7, 8}},
                    Case{"blocks_of_unequal_lengths", {1, 2, 3, 4, 5, 7, 8}},
                    Case{"layouts_that_change_from_call_to_call", {1, 2, 3, 4}},
                    Case{"one_layout_again_and_again_while_it_is_measured", {2, 3, 4}},
                    Case{"bursts_of_measured_calls", {1, 2, 3, 4}},
                    Case{"functions_of_the_caller", {1, 2, 3, 4, 5, 7, 8}},
                    Case{"a_reduction_that_throws", {2, 3, 5}},
                    Case{"a_call_from_inside_a_reduction", {2, 3}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    on_one_node, Scenarios,
    testing::Values(
        Case{"wide_elements_are_aligned", {1, 3}},
        Case{"what_is_measured_changes_no_result", {2, 3, 5}},
        Case{"vectors_are_read_where_each_lies", {2, 3, 4}},
        Case{"prefixes_are_read_where_each_lies", {2, 3, 4}},
        Case{"private_memory_of_every_length", {2, 3}},
        Case{"blocks_of_unequal_lengths_from_all_memories", {2, 3, 5}},
        Case{"cma_that_one_rank_is_forbidden", {2, 3}},
        Case{"a_root_sleeps_no_longer_than_its_readers", {2}},
        Case{"who_only_gives_runs_ahead", {2, 4}}, Case{"who_wants_no_sum_runs_ahead", {2, 4}},
        Case{"calls_that_move_nothing_wait_for_nobody", {2, 4}},
        Case{"empty_blocks_are_waited_for_by_nobody", {2, 4}},
        Case{"more_empty_blocks_than_slots_behind_a_call_under_way", {2, 3}},
        Case{"memory_of_communicators_is_used_again", {2, 4}, {"QPMESH_ARENA_BYTES_MAX=67108864"}},
        Case{"who_waits_reads_nothing_of_idle_communicators", {2, 3}},
        Case{"what_differs_after_calls_that_agreed_is_seen", {2}}),
    name_of);

// Everything else, over the transport of ranks that share neither memory nor a device.
INSTANTIATE_TEST_SUITE_P(over_tcp, Scenarios, testing::ValuesIn([] {
                           std::vector<Case> cases{
                               {"every_size_between_all_pairs", {2, 3}},
                               {"one_memory_is_sent_to_all_at_once", {3}},
                               {"order_per_pair", {2}},
                               {"any_source_from_everybody", {4}},
                               {"truncated_stays_first_in_line", {2}},
                               {"many_unexpected", {2}},
                               {"eager_ones_behind_a_long_one", {2}},
                               {"one_that_stays_makes_no_others_wait", {2}},
                               {"receive_deadline_leaves_all_well", {2}},
                               {"sixteen_end_waited_in_reverse", {5}},
                               {"waiting_in_one_group_serves_the_other", {3}},
                               {"wait_any_hears_every_context", {2}},
                               {"an_exception_ends_what_waits_for_others", {3}},
                               {"a_forked_child_is_refused", {3}},
                               {"every_algorithm_of_every_collective", {2, 3, 5}},
                               {"blocks_of_unequal_lengths", {4}},
                               {"functions_of_the_caller", {3}},
                               {"a_reduction_that_throws", {3}},
                               {"split_of_a_split_of_a_split", {7}},
                               {"a_second_thread_has_its_own_context", {3}},
                               {"buffers_in_every_call", {3}},
                               {"a_buffer_may_go_while_it_is_used", {3}},
                               {"collectives_that_differ_are_named_on_every_rank", {3}},
                               {"blocks_whose_ends_disagree", {3}},
                               {"blocks_that_nobody_awaits", {2, 3}},
                               {"blocks_that_nobody_gives", {2, 3}},
                               {"all_ranks_predict_the_same", {2, 3, 5}},
                               {"a_matched_message_is_nobody_elses", {3}},
                               {"a_message_that_was_not_received_is_first_in_line_again", {3}},
                               {"a_synchronous_send_ends_with_its_receive", {3}},
                               {"the_head_of_a_longer_message_is_received", {3}},
                               {"groups_are_made_while_others_go_on", {4}},
                               {"detached_operations_end_with_finish", {3}},
                               {"a_communicator_takes_its_detached_operations_along", {3}},
                               {"ranges_that_lie_apart_are_blocks", {3}},
                               {"ranges_that_lie_apart_are_reduced", {3}},
                               {"subgroups_are_made_by_their_members_alone", {5}},
                               {"memory_of_one_rank_is_used_like_any", {3}},
                           };
                           for (Case& one : cases)
                             one.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_NETDEV=lo"};
                           return cases;
                         }()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(over_tcp_by_built_in_times, Scenarios,
                         testing::Values(Case{"all_ranks_predict_the_same",
                                              {2, 3},
                                              {"QPMESH_TRANSPORT=tcp", "QPMESH_CHOICE=predicted"}}),
                         name_of);
// No message is eager: what is combined comes whole.
INSTANTIATE_TEST_SUITE_P(
    over_tcp_by_rendezvous, Scenarios, testing::ValuesIn([] {
      std::vector<Case> cases{{"every_algorithm_of_every_collective", {2, 5}},
                              {"functions_of_the_caller", {3}},
                              {"a_reduction_that_throws", {3}},
                              {"blocks_whose_ends_disagree", {3}}};
      for (Case& one : cases)
        one.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_NETDEV=lo", "QPMESH_EAGER_BYTES_MAX=0"};
      return cases;
    }()),
    name_of);
// Pairs are connected as they are first used, often by both ends at once.
INSTANTIATE_TEST_SUITE_P(
    over_tcp_at_first_use, Scenarios, testing::ValuesIn([] {
      std::vector<Case> cases{
          {"every_size_between_all_pairs", {2, 5}},
          {"order_per_pair", {2}},
          {"any_source_from_everybody", {4}},
          {"receive_deadline_leaves_all_well", {2}},
          {"wait_any_hears_every_context", {2}},
          {"an_exception_ends_what_waits_for_others", {3}},
          {"a_forked_child_is_refused", {3}},
          {"every_algorithm_of_every_collective", {3, 5}},
          {"a_second_thread_has_its_own_context", {3}},
          {"collectives_that_differ_are_named_on_every_rank", {3}},
      };
      for (Case& one : cases)
        one.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_CONNECT_WHEN=first_use"};
      return cases;
    }()),
    name_of);
INSTANTIATE_TEST_SUITE_P(over_tcp_at_first_use_encrypted, Scenarios,
                         testing::Values(Case{
                             "every_size_between_all_pairs",
                             {3},
                             {"QPMESH_TRANSPORT=tcp", "QPMESH_NETDEV=lo", "QPMESH_ENCRYPT=yes",
                              "QPMESH_CONNECT_WHEN=first_use"}}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(over_tcp_at_first_use_by_reads, Scenarios,
                         testing::Values(Case{
                             "every_size_between_all_pairs",
                             {3},
                             {"QPMESH_TRANSPORT=tcp", "QPMESH_RENDEZVOUS=read",
                              "QPMESH_CONNECT_WHEN=first_use", "QPMESH_NETDEV=lo"}}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(
    over_tcp_encrypted, Scenarios, testing::ValuesIn([] {
      std::vector<Case> cases{
          {"every_size_between_all_pairs", {3}},
          {"many_unexpected", {2}},
          {"every_algorithm_of_every_collective", {3}},
          {"a_buffer_may_go_while_it_is_used", {3}},
      };
      for (Case& one : cases)
        one.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_NETDEV=lo", "QPMESH_ENCRYPT=yes"};
      return cases;
    }()),
    name_of);
INSTANTIATE_TEST_SUITE_P(over_tcp_by_reads, Scenarios,
                         testing::Values(Case{"every_size_between_all_pairs",
                                              {3},
                                              {"QPMESH_TRANSPORT=tcp", "QPMESH_RENDEZVOUS=read"}}),
                         name_of);

#if !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)  // which keep as much again, or four times, about memory
INSTANTIATE_TEST_SUITE_P(large, Scenarios, testing::Values(Case{"a_count_beyond_two_gib", {2}}),
                         name_of);
#endif

// With AddressSanitizer goes the check of vptr, which looks at memory through a pipe.
#if !defined(__SANITIZE_ADDRESS__)
INSTANTIATE_TEST_SUITE_P(
    without_descriptors, Scenarios,
    testing::Values(Case{"independent_fails_on_all_where_one_rank_cannot_prepare", {1, 3}},
                    Case{"independent_fails_on_all_where_one_rank_lacks_its_last_descriptor",
                         {2, 3}}),
    name_of);
INSTANTIATE_TEST_SUITE_P(several_threads_without_descriptors, Scenarios,
                         testing::Values(Case{
                             "independent_fails_on_all_where_one_rank_lacks_its_last_descriptor",
                             {2},
                             {"QPMESH_THREADS=several"}}),
                         name_of);
#endif

// Sanitizers map for themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
INSTANTIATE_TEST_SUITE_P(without_address_space, Scenarios,
                         testing::Values(Case{
                             "independent_fails_at_once_where_one_rank_lacks_address_space",
                             {2, 3},
                             {"QPMESH_ARENA_BYTES_MAX=1GiB"}}),
                         name_of);
#endif

#if !defined(__SANITIZE_THREAD__)  // which leaves less room for addresses
INSTANTIATE_TEST_SUITE_P(memory, Scenarios,
                         testing::Values(Case{"more_than_the_machine_has_is_refused_on_all_alike",
                                              {3},
                                              {"QPMESH_ARENA_BYTES_MAX=1024GiB"}}),
                         name_of);
#endif

INSTANTIATE_TEST_SUITE_P(
    groups, Scenarios,
    testing::Values(
        Case{"split_by_color_and_key", {5}}, Case{"split_of_a_split_of_a_split", {1, 7}},
        Case{"groups_know_their_ranks_in_each_other", {1, 2, 4}},
        Case{"subgroups_are_made_by_their_members_alone", {1, 2, 3, 5}},
        Case{"a_member_that_does_not_come_is_named", {2}},
        Case{"groups_do_not_hear_each_other", {4}},
        Case{"groups_are_made_while_others_go_on", {1, 2, 3, 5}},
        Case{"groups_are_made_behind_calls_that_try_rows", {2, 4}},
        Case{"a_group_that_one_rank_gave_up_fails_on_all", {2, 3}},
        Case{"a_second_thread_has_its_own_context", {3}}, Case{"buffers_in_every_call", {1, 3}},
        Case{"a_buffer_may_go_while_it_is_used", {3}},
        Case{"too_much_memory_is_refused_on_all_alike", {3}, {"QPMESH_ARENA_BYTES_MAX=67108864"}},
        Case{"memory_is_given_back", {2}, {"QPMESH_ARENA_BYTES_MAX=67108864"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    errors, Scenarios,
    testing::Values(
        Case{"ranks_and_tags_out_of_range", {1, 3}}, Case{"ranges_that_are_none", {1, 3}},
        Case{"ranges_that_overlap_or_differ", {1, 3}}, Case{"reductions_without_a_meaning", {2}},
        Case{"deadlines_out_of_range", {2}}, Case{"what_was_moved_from_is_refused", {1, 3}},
        Case{"a_bootstrap_that_makes_no_sense", {1}}, Case{"a_refused_call_can_be_made_again", {3}},
        Case{"roots_out_of_range", {1, 3}}, Case{"blocks_that_do_not_fit", {1, 3, 4}},
        Case{"layouts_that_make_no_sense", {1, 3}},
        Case{"ranges_of_collectives_that_overlap", {1, 3}},
        Case{"collectives_without_memory", {1, 3}},
        Case{"reductions_and_algorithms_that_do_not_apply", {1, 3}},
        Case{"calls_that_differ_are_named_on_every_rank", {2, 3, 4}},
        Case{"collectives_that_differ_are_named_on_every_rank", {2, 3, 4}},
        Case{"lists_that_differ_are_named_on_every_rank", {2, 3, 4}},
        Case{"an_error_is_told_before_its_request_is_waited_for", {3}},
        Case{"a_function_that_threw_is_told_before_its_request_is_waited_for", {3}},
        Case{"blocks_whose_ends_disagree", {2, 3}}, Case{"blocks_that_nobody_awaits", {2, 3}},
        Case{"blocks_that_nobody_gives", {2, 3}},
        Case{"a_late_call_that_differs_is_named_too", {2}},
        Case{"receive_deadline_leaves_all_well", {2}, {"QPMESH_SPIN_US=60000000"}},
        Case{"calls_that_one_who_let_go_has_not_made_are_named", {2, 3}},
        Case{"calls_that_may_differ", {1, 2, 3, 4}},
        Case{"independent_ends_at_its_own_deadline", {2}},
        Case{"nothing_works_after_finish", {1, 3}}),
    name_of);

// 38 calls that must not meet, each against each: on a node, and by messages alone.
class PairsOfCalls : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    by, PairsOfCalls,
    testing::Values("",
                    "barrier=dissemination,broadcast=binomial,reduce=knomial,"
                    "allgather=circulant,reduce_scatter=all_pairs,allreduce=recursive_multiplying,"
                    "gather=linear,scatter=linear,alltoall=all_pairs"),
    [](const auto& suite) { return *suite.param == 0 ? "choice" : "messages"; });

TEST_P(PairsOfCalls, are_told_within_a_second_on_every_rank) {
  for (const int size : {2, 3}) {
    const Words every_so_many{std::to_string(size), test::runs_long() ? "1" : "17"};
    auto ranks =
        start_ranks(size, rank_program("pairs_of_calls_are_told_within_a_second", every_so_many),
                    {.variables = {std::string{"QPMESH_ALGORITHMS="} + GetParam()}});
    expect_success(ranks);
  }
}

TEST(ranks_by_hand, an_async_call_returns_before_anybody_else_has_entered) {
  const Folder folder;
  auto ranks =
      start_ranks(3, rank_program("calls_return_before_others_enter", {folder.file("returned")}));
  expect_success(ranks);
}

// Of two ranks one takes back what the other has not come to yet.
class TakenBack : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(of, TakenBack,
                         testing::Values("a_late_member_does_not_take_what_was_taken_back",
                                         "a_late_root_does_not_fill_what_was_taken_back",
                                         "a_slow_reducer_does_not_take_what_was_taken_back"),
                         [](const auto& suite) { return std::string{suite.param}; });

TEST_P(TakenBack, is_neither_read_nor_written) {
  const Folder folder;
  auto ranks = start_ranks(2, rank_program(GetParam(), {folder.file("taken_back")}));
  expect_success(ranks);
}

// A device that writes it is stopped by the end of its link.
TEST(ranks_on_one_node, whose_program_throws_get_no_buffer_back_that_is_written) {
  const Folder folder;
  auto ranks = start_ranks(2,
                           rank_program("an_exception_gives_no_buffer_back_that_is_written",
                                        {folder.file("given_back")}),
                           {.variables = {"QPMESH_CMA=no"}});
  expect_success(ranks);
}

// What a peer has asked to read waits in the sender's connection, which goes with it.
TEST(ranks_by_hand, whose_program_throws_get_no_source_back_that_is_read_over_tcp) {
  for (const char* const encrypt : {"QPMESH_ENCRYPT=no", "QPMESH_ENCRYPT=yes"}) {
    const Folder folder;
    auto ranks = start_ranks(
        2,
        rank_program("an_exception_gives_no_source_back_that_is_read", {folder.file("given_back")}),
        {.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_RENDEZVOUS=read", encrypt}});
    expect_success(ranks);
  }
}

// This thread, and what it starts meanwhile, has one of its cores.
class OneCore {
 public:
  OneCore() {
    ::sched_getaffinity(0, sizeof all_, &all_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t core = 0; CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all_)) CPU_SET(core, &one);
    }
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~OneCore() { ::sched_setaffinity(0, sizeof all_, &all_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t all_{};
};

// What follows in a rank's first line that has these words.
std::string said_behind(const Process& rank, const std::string& words) {
  std::istringstream lines{rank.output()};
  for (std::string line; std::getline(lines, line);) {
    const auto found = line.find(words);
    if (found != std::string::npos) return line.substr(found + words.size());
  }
  return {};
}

#if !defined(__SANITIZE_ADDRESS__)  // as above
TEST(ranks_by_hand, without_descriptors_say_so_while_others_call_them_over_tcp) {
  auto ranks =
      start_ranks(2, rank_program("a_rank_without_descriptors_answers_when_it_has_one"),
                  {.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_NETDEV=lo",
                                 "QPMESH_CONNECT_WHEN=first_use", "QPMESH_CHOICE=predicted"}});
  expect_success(ranks);
  const std::string said = said_behind(ranks[0], "no connection can be made, nor taken: ");
  EXPECT_NE(said.find("accept failed while linking with rank 1 (Too many open files); raise the "
                      "limit on open files (ulimit -n)"),
            std::string::npos)
      << ranks[0].output();
}
#endif

// For ranks that share a core waiting for it is part of a message's time: they always find one.
TEST(ranks_by_hand, that_share_a_core_predict_by_one_measured_network_over_tcp) {
  const OneCore shared;
  for (const int size : {2, 3}) {
    std::string built_in;
    for (const char* const choice : {"predicted", "measured"}) {
      auto ranks =
          start_ranks(size, rank_program("all_ranks_predict_the_same"),
                      {.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_NETDEV=lo", "QPMESH_LOG=info",
                                     std::string{"QPMESH_CHOICE="} + choice}});
      expect_success(ranks);
      const std::string message = said_behind(ranks.front(), "between nodes a small message takes");
      const std::string barrier = said_behind(ranks.front(), "a barrier takes");
      EXPECT_EQ(message.find("(measured") != std::string::npos, choice == std::string{"measured"})
          << message;
      EXPECT_NE(barrier, built_in);
      for (const Process& rank : ranks) {
        EXPECT_EQ(said_behind(rank, "between nodes a small message takes"), message);
        EXPECT_EQ(said_behind(rank, "a barrier takes"), barrier);
      }
      built_in = barrier;
    }
  }
}

TEST(ranks_by_hand, a_failure_ends_more_than_are_counted) {
  const Folder folder;
  auto ranks =
      start_ranks(2, rank_program("a_failure_ends_more_than_are_counted", {folder.file("ended")}));
  expect_success(ranks);
}

TEST(ranks_by_hand, two_threads_in_one_context_are_reported) {
  const Folder folder;
  auto ranks = start_ranks(2, rank_program("two_threads_in_one_context", {folder.file("refused")}),
                           {.variables = {"QPMESH_SPIN_US=0"}});
  expect_success(ranks);
}

// ---- several threads ----

const std::vector<Case> thread_cases{{"threads_send_and_receive_at_once", {1, 2, 3}},
                                     {"calls_are_refused_while_finish_waits", {1, 2, 3}},
                                     {"an_interruption_is_of_one_thread", {1, 2}},
                                     {"a_thread_sends_while_another_one_waits", {2}},
                                     {"threads_wait_for_any_of_their_own", {1, 3}},
                                     {"threads_have_groups_of_their_own", {1, 3}},
                                     {"threads_receive_from_one_line", {2}},
                                     {"another_thread_waits_for_a_request", {2}},
                                     {"a_deadline_of_one_thread_leaves_the_others", {2}},
                                     {"a_call_inside_a_reduction_is_refused", {2}},
                                     {"an_event_loop_needs_a_context_of_one_thread", {1}},
                                     {"a_child_is_forked_while_another_thread_calls", {1, 3}},
                                     {"all_threads_hear_an_abort", {3}},
                                     {"all_threads_hear_a_death", {3}}};

// What one thread may do, it may do where several might.
const std::vector<Case> one_thread_cases{
    {"detached_operations_end_with_finish", {3}},
    {"a_communicator_takes_its_detached_operations_along", {2}},
    {"groups_are_made_while_others_go_on", {3}},
    {"the_head_of_a_longer_message_is_received", {2}},
    {"every_size_between_all_pairs", {2}},
    {"any_source_from_everybody", {4}},
    {"probe_tells_and_leaves", {2}},
    {"receive_deadline_leaves_all_well", {2}},
    {"wait_any_hears_every_context", {2}},
    {"an_exception_ends_what_waits_for_others", {3}},
    {"a_forked_child_is_refused", {3}},
    {"every_algorithm_of_every_collective", {3}},
    {"split_of_a_split_of_a_split", {7}},
    {"a_second_thread_has_its_own_context", {3}},
    {"buffers_in_every_call", {3}},
    {"a_buffer_may_go_while_it_is_used", {3}}};

const std::vector<Case> progress_cases{{"calls_and_the_progress_thread_alternate", {1, 2, 4}},
                                       {"a_context_goes_with_its_progress_thread", {1, 3}}};

std::vector<Case> cases_with(const std::vector<std::vector<Case>>& lists, const Words& variables) {
  std::vector<Case> cases;
  for (const auto& list : lists) cases.insert(cases.end(), list.begin(), list.end());
  for (Case& one : cases) one.variables = variables;
  return cases;
}

INSTANTIATE_TEST_SUITE_P(several_threads, Scenarios,
                         testing::ValuesIn(cases_with({thread_cases, one_thread_cases},
                                                      {"QPMESH_THREADS=several"})),
                         name_of);
// As on a host where each rank has a core, and where waits sleep at once.
INSTANTIATE_TEST_SUITE_P(several_threads_that_spin, Scenarios,
                         testing::ValuesIn(cases_with({thread_cases}, {"QPMESH_THREADS=several",
                                                                       "QPMESH_SPIN_US=1000"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(several_threads_over_tcp, Scenarios,
                         testing::ValuesIn(cases_with({thread_cases}, {"QPMESH_THREADS=several",
                                                                       "QPMESH_TRANSPORT=tcp"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(a_progress_thread, Scenarios,
                         testing::ValuesIn(cases_with({thread_cases, one_thread_cases,
                                                       progress_cases},
                                                      {"QPMESH_PROGRESS_THREAD=yes"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(a_progress_thread_over_tcp, Scenarios,
                         testing::ValuesIn(cases_with({thread_cases, progress_cases},
                                                      {"QPMESH_PROGRESS_THREAD=yes",
                                                       "QPMESH_TRANSPORT=tcp"})),
                         name_of);

const std::vector<Case> end_cases{
    {"functions_are_called_at_the_end", {1, 2, 4}},
    {"finish_is_refused_while_another_thread_receives", {1, 2}, {"QPMESH_THREADS=several"}},
    {"a_function_at_the_end_is_refused_what_it_may_not_do", {2}},
    {"a_function_at_the_end_outlives_its_request", {1, 2}}};
INSTANTIATE_TEST_SUITE_P(ends, Scenarios, testing::ValuesIn(end_cases), name_of);
INSTANTIATE_TEST_SUITE_P(ends_with_a_progress_thread, Scenarios,
                         testing::ValuesIn(cases_with({end_cases}, {"QPMESH_PROGRESS_THREAD=yes"})),
                         name_of);

// ---- coroutines of the program's ----

const std::vector<Case> coroutine_cases{
    {"coroutines_wait_for_messages", {1, 2, 4}},
    {"coroutines_wait_for_collectives", {1, 2, 4}},
    {"an_error_is_thrown_where_it_is_awaited", {1, 2}},
    {"a_cancelled_request_lets_its_coroutine_go_on", {1, 2}},
    {"coroutines_hear_an_abort", {1, 2, 3}},
    {"coroutines_go_on_one_after_the_other", {1, 2}},
    {"coroutines_do_not_go_on_while_an_exception_unwinds", {1, 2}},
    {"a_wait_for_several_contexts_leaves_all_of_them", {1, 2}},
    {"what_nobody_catches_does_not_end_a_call", {1, 2}}};
// Where a thread of the library's may go on with it, it may have ended before it is looked at.
const std::vector<Case> lone_coroutine_cases{{"what_has_ended_is_not_waited_for", {1, 2}},
                                             {"only_one_waits_for_a_request", {1, 2}},
                                             {"a_coroutine_may_go_while_it_waits", {1, 2}}};
const std::vector<Case> coroutine_thread_cases{{"coroutines_go_on_in_any_thread", {1, 2, 3}}};
const std::vector<Case> coroutine_progress_cases{{"coroutines_go_on_while_nobody_calls", {1, 2, 3}},
                                                 {"a_coroutine_ends_its_context", {1, 2}}};
INSTANTIATE_TEST_SUITE_P(coroutines, Scenarios,
                         testing::ValuesIn(cases_with({coroutine_cases, lone_coroutine_cases}, {})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(coroutines_over_tcp, Scenarios,
                         testing::ValuesIn(cases_with({coroutine_cases}, {"QPMESH_TRANSPORT=tcp"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(coroutines_and_several_threads, Scenarios,
                         testing::ValuesIn(cases_with({coroutine_cases, lone_coroutine_cases,
                                                       coroutine_thread_cases},
                                                      {"QPMESH_THREADS=several"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(coroutines_and_a_progress_thread, Scenarios,
                         testing::ValuesIn(cases_with({coroutine_cases, coroutine_thread_cases,
                                                       coroutine_progress_cases},
                                                      {"QPMESH_PROGRESS_THREAD=yes"})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(event_loops, Scenarios,
                         testing::Values(Case{"an_event_loop_serves_requests", {1, 2, 4}}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(event_loops_over_tcp, Scenarios,
                         testing::Values(Case{
                             "an_event_loop_serves_requests", {2, 3}, {"QPMESH_TRANSPORT=tcp"}}),
                         name_of);

class Progress : public testing::TestWithParam<std::string> {};

TEST_P(Progress, is_made_while_nobody_calls) {
  for (const auto* const scenario :
       {"a_long_message_comes_while_nobody_calls", "collectives_go_on_while_nobody_calls"}) {
    for (const int size : {2, 3}) {
      const Folder folder;
      auto ranks = start_ranks(
          size, rank_program(scenario, {folder.file("ended")}),
          {.variables = {"QPMESH_PROGRESS_THREAD=yes", "QPMESH_TRANSPORT=" + GetParam()}});
      expect_success(ranks);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ways, Progress, testing::Values("shm", "tcp"),
                         [](const auto& one) { return one.param; });

TEST(ranks_by_hand, a_rank_without_memory_is_named_with_its_own_limit_on_all) {
  auto ranks = start_ranks(
      3, rank_program("one_rank_without_memory_is_named_on_all"), {.more_variables = [](int rank) {
        return Words{rank == 2 ? "QPMESH_ARENA_BYTES_MAX=63MiB" : "QPMESH_ARENA_BYTES_MAX=64MiB"};
      }});
  expect_success(ranks);
}

TEST(ranks_by_hand, options_that_differ_are_named_with_both_values_on_every_rank) {
  for (const Words& difference :
       {Words{"QPMESH_EAGER_BYTES_MAX", "4096", "-1"}, Words{"QPMESH_CMA", "no", "yes"},
        Words{"QPMESH_ALGORITHMS", "allreduce=circulant", ""}}) {
    Words arguments{"2"};
    arguments.insert(arguments.end(), difference.begin(), difference.end());
    auto ranks = start_ranks(
        3, rank_program("options_that_differ", arguments), {.more_variables = [&](int rank) {
          return rank == 2 ? Words{difference[0] + "=" + difference[1]} : Words{};
        }});
    expect_success(ranks);
  }
}

struct Refused {
  Words variables;
  std::string cause;
  std::string hint;
  std::string operation = "init";
  std::string code = "bad_config";
};

// The arguments of the scenario init_fails.
Words failing(const std::string& code, int peer, const std::string& operation,
              const std::string& cause, const std::string& hint, int system_error = 0) {
  return rank_program("init_fails", {code, std::to_string(peer), operation, cause, hint,
                                     std::to_string(system_error)});
}

// No other rank exists: what is wrong is found before anybody is waited for.
TEST(ranks_by_hand, settings_that_make_no_sense_are_refused_at_once) {
  const std::string page = "docs/options.md lists every variable";
  const std::string both = "QPMESH_RANK and QPMESH_SIZE are set together, or neither";
  const std::string missing =
      " is not set, although the environment is that of a rank started by hand or by qpmesh-run; "
      "allowed is "
      "a number from ";
  const std::vector<Refused> all{
      {{"QPMESH_ALGORITHMS=allreduce=nonsense"},
       "algorithms (QPMESH_ALGORITHMS): 'nonsense' is no algorithm of allreduce",
       "known: recursive_multiplying, recursive_doubling, butterfly, circulant, ring, one_shot, "
       "direct, "
       "direct_streamed, "
       "one_pass, one_pass_streamed, cma, leaders, lanes, multiport, multiport_sliced"},
      {{"QPMESH_ALGORITHMS=allreduce=ring,sort=quick"},
       "algorithms (QPMESH_ALGORITHMS) has 'sort=quick', which names no algorithm of a collective",
       "write collective=algorithm, separated by commas; collectives: barrier, broadcast, reduce, "
       "allgather, "
       "reduce_scatter, allreduce, gather, scatter, alltoall, scan, exscan"},
      {{"QPMESH_EAGER_BYTES_MAX=much"},
       "QPMESH_EAGER_BYTES_MAX='much', allowed: -1 to 1048576 bytes (KiB, MiB, GiB may follow the "
       "number)",
       page,
       "options"},
      {{"QPMESH_PAYLOAD_RING_BYTES=100000"},
       "QPMESH_PAYLOAD_RING_BYTES='100000', allowed: 4096 to 2097152 bytes, a power of two (KiB, "
       "MiB, GiB "
       "may follow the number)",
       page,
       "options"},
      {{"QPMESH_TRANSPORT=carrier_pigeon"},
       "QPMESH_TRANSPORT='carrier_pigeon', allowed: automatic, shm, verbs, verbs+shm, tcp",
       page,
       "options"},
      {{"QPMESH_SUBNET=10.0.0.0/99"},
       "QPMESH_SUBNET='10.0.0.0/99', allowed: an IPv4 or IPv6 network, as 10.0.0.0/8",
       "qpmesh-info lists devices, ports and GIDs",
       "options"},
      {{"QPMESH_ARENA_BYTES_MAX=1MiB", "QPMESH_SIZE=4"},
       "the rings of 4 ranks need 4243456 bytes, the arena has 1048576",
       "raise QPMESH_ARENA_BYTES_MAX or lower QPMESH_PAYLOAD_RING_BYTES",
       "init",
       "no_resource"},
      {{"QPMESH_RANK=4", "QPMESH_SIZE=4"},
       "QPMESH_RANK is \"4\"; allowed is a number from 0 to 3, because QPMESH_SIZE is 4",
       page},
      {{"QPMESH_RANK=-1"}, "QPMESH_RANK is \"-1\"; allowed is a number from 0 to 65535", page},
      {{"QPMESH_RANK"}, "QPMESH_RANK" + missing + "0 to 65535", both},
      {{"QPMESH_SIZE"}, "QPMESH_SIZE" + missing + "1 to 65536", both},
      {{"QPMESH_SIZE=two"}, "QPMESH_SIZE is \"two\"; allowed is a number from 1 to 65536", page},
      {{"QPMESH_JOB=a b"},
       "QPMESH_JOB is \"a b\"; allowed is 1 to 64 characters out of letters, digits and . _ : @ -",
       page},
      {{"QPMESH_ROOT=nowhere"},
       "QPMESH_ROOT is \"nowhere\": it has no port; allowed is host:port or [IPv6 address]:port "
       "with a port "
       "from 1 to 65535",
       "for example node1:4000, an address of rank 0's host"},
      {{"QPMESH_ROOT=127.0.0.1:4000", "QPMESH_SECRET=short"},
       "QPMESH_SECRET has 5 characters; allowed are 16 to 4096",
       "for example: openssl rand -hex 32"},
      {{"QPMESH_LOCAL_SIZE=1"},
       "qpmesh says that 3 ranks run on several hosts (1 on this one), but nothing says how to "
       "meet",
       "set QPMESH_ROOT=host:port to an address of rank 0's host"},
  };
  for (const Refused& refused : all) {
    SCOPED_TRACE(refused.variables[0]);
    Words variables{"QPMESH_RANK=0", "QPMESH_SIZE=3"};
    for (const std::string& variable : refused.variables) {
      const std::string name = variable.substr(0, variable.find('='));
      std::erase_if(variables,
                    [&](const std::string& other) { return other.starts_with(name + "="); });
      if (variable != name) variables.push_back(variable);  // a name alone: left out
    }
    std::vector<Process> ranks;
    ranks.emplace_back(
        failing(refused.code, no_peer, refused.operation, refused.cause, refused.hint), variables);
    expect_success(ranks);
  }
}

std::string missing_hint(const std::string& variable, int size, uid_t uid) {
  return variable + " says " + std::to_string(size) +
         " ranks: was every one started? They must run on one host, as one user (here uid " +
         std::to_string(uid) + "), in one job (QPMESH_JOB)";
}

TEST(ranks_by_hand, a_rank_that_never_comes_is_named) {
  std::vector<Process> ranks;
  for (const int rank : {0, 1}) {
    ranks.emplace_back(
        failing("timeout", 2, "init", "rank 2 of 3 missing after * ms*",
                missing_hint("QPMESH_SIZE", 3, ::geteuid())),
        Words{"QPMESH_RANK=" + std::to_string(rank), "QPMESH_SIZE=3", "QPMESH_INIT_TIMEOUT_MS=2500",
              "QPMESH_JOB=missing-" + std::to_string(::getpid())});
  }
  expect_success(ranks);
}

// A shell inside a job, or a launcher that started the program once.
TEST(ranks_by_hand, one_process_in_the_environment_of_many_is_told_who_says_so) {
  const std::string job = "lonely-" + std::to_string(::getpid());
  for (const Words& said :
       {Words{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Words{"PMI_SIZE", "PMI_RANK"}}) {
    std::vector<Process> ranks;
    ranks.emplace_back(
        failing("timeout", 1, "init", "ranks 1, 2, 3 of 4 missing after * ms",
                missing_hint(said[0], 4, ::geteuid())),
        Words{said[0] + "=4", said[1] + "=0", "QPMESH_INIT_TIMEOUT_MS=300", "QPMESH_JOB=" + job});
    expect_success(ranks);
  }
}

// Each finds nobody at the name of its own user.
TEST(ranks_by_hand, ranks_of_two_users_do_not_meet_and_are_told_that_they_must_be_one) {
  if (!test::another_user_can_run()) GTEST_SKIP() << test::another_user_takes;
  const std::string job = "users-" + std::to_string(::getpid());
  const std::string root = "@qpmesh-65534-" + job + "-0";
  const std::string unreached =
      "rank 1 did not reach rank 0 at " + root + ": * attempt* in * ms, the last: " + root + " (*";
  const test::PublicCopy program{RANK_PROGRAM, QPMESH_LIBRARY};
  std::vector<Process> ranks;
  for (const int rank : {0, 1}) {
    const Words variables{"QPMESH_RANK=" + std::to_string(rank), "QPMESH_SIZE=2",
                          "QPMESH_INIT_TIMEOUT_MS=600", "QPMESH_JOB=" + job};
    Words words = rank == 0 ? failing("timeout", 1, "init", "rank 1 of 2 missing after * ms",
                                      missing_hint("QPMESH_SIZE", 2, 0))
                            : failing("timeout", 0, "init", unreached,
                                      "is rank 0 running? All ranks must run on one host, as one "
                                      "user (here uid 65534), "
                                      "in one job (QPMESH_JOB)",
                                      ECONNREFUSED);
    if (rank == 1) {
      words[0] = program.path();
      words.insert(words.begin(),
                   {"/usr/bin/env", "setpriv", "--reuid", "65534", "--clear-groups"});
    }
    ranks.emplace_back(words, variables);
  }
  expect_success(ranks);
}

// Two and two ranks of one host that share no memory, by what they are started with.
struct Apart {
  std::string by;
  Words wrapper;
  std::string difference;
  Words variables{};
};
void PrintTo(const Apart& one, std::ostream* out) { *out << one.by; }
class RanksApart : public testing::TestWithParam<Apart> {};
INSTANTIATE_TEST_SUITE_P(
    by, RanksApart,
    testing::Values(
        Apart{"users", {"setpriv", "--reuid", "65534", "--clear-groups"}, "users"},
        Apart{"user_namespaces", {"unshare", "--user", "--map-root-user"}, "user namespaces"},
        Apart{"process_namespaces",
              {"unshare", "--pid", "--fork", "--kill-child"},
              "process namespaces"},
        Apart{"user_namespaces_encrypted",
              {"unshare", "--user", "--map-root-user"},
              "user namespaces",
              {"QPMESH_ENCRYPT=yes", "QPMESH_NETDEV=lo"}}),
    [](const auto& one) { return one.param.by; });

std::string free_port() { return std::to_string(ntohs(test::loopback_port().address.sin_port)); }

// Ranks 1 and 3 are the others.
std::vector<Process> start_apart(const Apart& how, const Words& command, Words variables) {
  variables.insert(variables.end(), {"QPMESH_SIZE=4", "QPMESH_ROOT=127.0.0.1:" + free_port(),
                                     "QPMESH_SECRET=known to all of these ranks"});
  variables.insert(variables.end(), how.variables.begin(), how.variables.end());
  std::vector<Process> ranks;
  for (const int rank : {0, 1, 2, 3}) {
    Words words = command;
    if (rank % 2 == 1) {
      words.insert(words.begin(), how.wrapper.begin(), how.wrapper.end());
      words.insert(words.begin(), "/usr/bin/env");
    }
    Words own = variables;
    own.push_back("QPMESH_RANK=" + std::to_string(rank));
    ranks.emplace_back(words, own);
  }
  return ranks;
}

TEST_P(RanksApart, run_the_ten_lines) {
  if (!test::another_user_can_run()) GTEST_SKIP() << test::another_user_takes;
  const test::PublicCopy program{TEN_LINES};
  auto ranks = start_apart(GetParam(), {program.path()}, {});
  expect_success(ranks);
  EXPECT_EQ(ranks[0].output(), "4 ranks, each element 4\n");
  for (const int rank : {1, 2, 3}) EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].output(), "");
}

TEST_P(RanksApart, compute_over_tcp_unasked_and_say_what_keeps_them_apart) {
  if (!test::another_user_can_run()) GTEST_SKIP() << test::another_user_takes;
  const test::PublicCopy program{RANK_PROGRAM, QPMESH_LIBRARY};
  auto ranks =
      start_apart(GetParam(), {program.path(), "allreduce_of_every_size"}, {"QPMESH_LOG=info"});
  expect_success(ranks);
  const bool shares = GetParam().by == "users";  // each of the others has a namespace alone
  for (const int rank : {0, 1}) {
    const std::string said = ranks[static_cast<std::size_t>(rank)].output();
    const std::string served =
        rank == 0 || shares ? "peers: 1 by shm, 2 by tcp; " : "peers: 3 by tcp; ";
    const std::size_t begin = said.find(served);
    ASSERT_NE(begin, std::string::npos) << said;
    const std::string line = said.substr(begin, said.find('\n', begin) - begin);
    const std::string differ = "(one host, but they differ: ";
    EXPECT_NE(line.find("shares no memory " + differ + GetParam().difference), std::string::npos)
        << said;
    EXPECT_EQ(line.find(differ), line.rfind(differ)) << said;
  }
}

TEST(ranks_apart, that_disagree_whether_to_encrypt_are_told_which_rank_does_not) {
  const std::string port = free_port();
  std::vector<Process> ranks;
  for (const int rank : {0, 1}) {
    Words words = rank_program("messages_to_itself");
    if (rank == 1)
      words.insert(words.begin(), {"/usr/bin/env", "unshare", "--user", "--map-root-user"});
    ranks.emplace_back(words, Words{"QPMESH_SIZE=2", "QPMESH_ROOT=127.0.0.1:" + port,
                                    "QPMESH_SECRET=known to all of these ranks", "QPMESH_NETDEV=lo",
                                    "QPMESH_RANK=" + std::to_string(rank),
                                    rank == 0 ? "QPMESH_ENCRYPT=yes" : "QPMESH_ENCRYPT=no"});
  }
  for (Process& rank : ranks) {
    EXPECT_NE(rank.wait(), 0);
    EXPECT_NE(rank.output().find("QPMESH_ENCRYPT is '"), std::string::npos) << rank.output();
    EXPECT_NE(rank.output().find("' on rank "), std::string::npos) << rank.output();
  }
}

// Two jobs of four ranks each, 0 and 1, whose programs tell who is there.
struct Member {
  int job;
  int rank;
  Process process;
};
std::vector<Member> start_two_jobs(const std::vector<int>& order,
                                   const std::function<Words(int job)>& variables) {
  std::vector<Member> members;
  for (const int rank : order) {
    for (const int job : {0, 1}) {
      Words own = variables(job);
      own.insert(own.end(), {"QPMESH_RANK=" + std::to_string(rank), "QPMESH_SIZE=4",
                             "QPMESH_INIT_TIMEOUT_MS=5000"});
      members.push_back(
          {job, rank, Process{rank_program("tells_who_is_here", {std::to_string(job)}), own}});
    }
  }
  return members;
}
const std::vector<std::vector<int>> orders{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 3, 0, 1}};

std::string line_with(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  return at == std::string::npos ? std::string{} : text.substr(at, text.find('\n', at) - at);
}

// Every process ends in time: as one rank of a world whose ranks all say the same of it, or with an
// error that expected allows, code 1. Returns the worlds: "here: pid=job pid=job pid=job pid=job".
std::set<std::string> worlds_of(std::vector<Member>& members, const Words& expected) {
  const std::int64_t deadline = now_ms() + patience_ms();
  std::map<std::string, std::map<int, std::string>> worlds;  // by rank, who says so
  for (Member& member : members) {
    const std::string me = std::to_string(member.process.pid()) + "=" + std::to_string(member.job);
    const auto left = static_cast<int>(std::max(std::int64_t{0}, deadline - now_ms()));
    const int code = member.process.wait(left);
    const std::string said = member.process.output();
    if (code == 0) {
      EXPECT_TRUE(worlds[line_with(said, "here:")].emplace(member.rank, me).second) << said;
    } else {
      EXPECT_EQ(code, 1) << said;
      const std::string error = line_with(said, "qpmesh: ");
      EXPECT_TRUE(std::ranges::any_of(
          expected, [&](const std::string& one) { return test::matches(error, "qpmesh: " + one); }))
          << "rank " << member.rank << " of job " << member.job << " says:\n"
          << said;
    }
  }
  std::set<std::string> lines;
  for (const auto& [line, ranks] : worlds) {
    std::string whole = "here:";
    for (const auto& [rank, who] : ranks) whole += " " + who;
    EXPECT_EQ(line, whole);
    EXPECT_EQ(ranks.size(), 4U) << line;
    lines.insert(line);
  }
  return lines;
}

// Of one job alone.
bool is_pure(const std::string& world) {
  return (world.find("=0") == std::string::npos) != (world.find("=1") == std::string::npos);
}

std::string one_job_name() {
  static int count = 0;
  return "one-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

const std::string none_came = "timeout in init, rank *: rank* of 4 missing after *";

// Nothing tells them apart: whichever process of a rank comes first is in.
TEST(two_jobs_of_one_name, at_one_socket_become_one_world_and_the_rest_are_told_why) {
  const Words expected{
      "bad_config in init, rank 0: the socket name @qpmesh-* is in use: another living job, or a "
      "second rank 0 of this one*give each job a QPMESH_JOB of its own]",
      "mismatch in init, rank 0: rank * is here already: pid * on host *; the second one is pid * "
      "on host *give each job a QPMESH_JOB of its own]",
      "timeout in init, rank 0: rank * did not reach rank 0 at @qpmesh-*QPMESH_JOB)*",
      none_came + "QPMESH_JOB)*"};
  for (const auto& order : orders) {
    const std::string name = one_job_name();
    auto members = start_two_jobs(order, [&](int) { return Words{"QPMESH_JOB=" + name}; });
    EXPECT_GE(worlds_of(members, expected).size(), 1U);
  }
}

TEST(two_jobs_of_one_name, with_roots_of_their_own_never_meet) {
  for (const auto& order : orders) {
    const std::string name = one_job_name();
    const std::array roots{free_port(), free_port()};
    auto members = start_two_jobs(order, [&](int job) {
      return Words{"QPMESH_JOB=" + name, "QPMESH_SECRET=known to both of these jobs",
                   "QPMESH_ROOT=127.0.0.1:" + roots.at(static_cast<std::size_t>(job))};
    });
    const auto worlds = worlds_of(members, {});
    EXPECT_EQ(worlds.size(), 2U);
    for (const std::string& world : worlds) EXPECT_TRUE(is_pure(world)) << world;
  }
}

TEST(two_jobs_of_one_name, at_one_port_with_secrets_of_their_own_never_mix) {
  const Words expected{
      "bad_config in init, rank 0: the port of 127.0.0.1:* is in use*",
      "authentication in init, rank 0: rank 0 at 127.0.0.1:* did not accept the secret*",
      "timeout in init, rank 0: rank * did not reach rank 0 at 127.0.0.1:*", none_came};
  for (const auto& order : orders) {
    const std::string name = one_job_name();
    const std::string root = free_port();
    auto members = start_two_jobs(order, [&](int job) {
      return Words{"QPMESH_JOB=" + name, "QPMESH_ROOT=127.0.0.1:" + root,
                   "QPMESH_SECRET=known to the ranks of job " + std::to_string(job)};
    });
    const auto worlds = worlds_of(members, expected);
    EXPECT_GE(worlds.size(), 1U);
    for (const std::string& world : worlds) EXPECT_TRUE(is_pure(world)) << world;
  }
}

TEST(two_jobs_of_one_name, that_qpmesh_run_starts_never_meet) {
  const std::string name = one_job_name();
  std::vector<Process> runs;
  for (const std::string job : {"0", "1"}) {
    Words words = rank_program("tells_who_is_here", {job});
    words.insert(words.begin(), {QPMESH_RUN, "-np", "4"});
    runs.emplace_back(words, Words{"QPMESH_JOB=" + name});
  }
  expect_success(runs);
  for (const Process& run : runs) EXPECT_TRUE(is_pure(run.output())) << run.output();
}

TEST(ranks_by_hand, an_unknown_variable_is_warned_about_once_with_the_nearest_name) {
  auto ranks =
      start_ranks(2, rank_program("messages_to_itself"), {.variables = {"QPMESH_TIMEOUT_SM=5"}});
  expect_success(ranks);
  EXPECT_EQ(ranks[0].output(),
            "qpmesh rank 0 warning: QPMESH_TIMEOUT_SM is set, but nothing reads it; did you mean "
            "QPMESH_TIMEOUT_MS?\n");
  EXPECT_EQ(ranks[1].output(), "");
}

}  // namespace
}  // namespace qpmesh::ranks
