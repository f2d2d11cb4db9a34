// SPDX-License-Identifier: MIT
// One element of each rank, results that are returned, functions of two elements, and partners that
// are not there.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

struct Point {
  double x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};
enum class Level : std::int32_t { low, middle, high };

// 1 + 2 + … + count
int sum_to(int count) { return count * (count + 1) / 2; }

void single_elements_go_and_results_are_returned(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  const int last = size - 1;

  check_equal(world.allreduce(me + 1, sum), sum_to(size));
  check_equal(world.allreduce(me + 0.5, max), last + 0.5);
  const int reduced = world.reduce(me + 1, sum, last);
  check_equal(reduced, me == last ? sum_to(size) : me + 1);
  check_equal(world.scan(me + 1, sum), sum_to(me + 1));
  check_equal(world.exscan(me + 1, sum, -7), me == 0 ? -7 : sum_to(me));

  int told = me == last ? 42 : 0;
  world.broadcast(told, last);
  check_equal(told, 42);

  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  check(world.allgather(me) == ranks, "allgather of one element");
  check(world.gather(me, last) == (me == last ? ranks : std::vector<int>{}), "gather of one");
  check_equal(world.scatter(me == last ? ranks : std::vector<int>{}, last), me);
  check(world.alltoall(std::vector<int>(ranks.size(), me)) == ranks, "alltoall of one");

  const std::vector<Point> two{{me + 0.0, 1}, {me + 0.5, 2}};
  const std::vector<Point> all = world.allgather(two);
  check_equal(all.size(), two.size() * ranks.size());
  check(all[all.size() - 1] == Point{last + 0.5, 2}, "allgather of two");

  // To the next rank, and any number of elements.
  const int next = (me + 1) % size;
  const int previous = (me + last) % size;
  Point sent{me * 1.0, -1};
  Point received;
  check_status(world.sendrecv(sent, next, received, previous, 3), previous, 3, sizeof(Point));
  check(received == Point{previous * 1.0, -1}, "an exchange of one element");
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{70'000}}) {
    const Request out = world.send_async(ranks, next, 9);  // of another tag: it stays in line
    std::vector<float> values(count, static_cast<float>(me));
    Request sending = world.send_async(values, next, 4);
    check(world.receive<float>(previous, 4) ==
              std::vector<float>(count, static_cast<float>(previous)),
          "a message of any length");
    check(world.receive<int>(previous, any_tag) == ranks, "the other message");
    sending.wait();
  }
  const std::string text = "abc";
  const Request third = world.send_async(text, next);
  expect_error([&] { world.receive<std::int16_t>(previous); },
               {ErrorCode::mismatch, previous, "receive",
                "a message of 3 bytes holds no whole number of elements of 2 bytes",
                "receive it as bytes: receive<std::byte>"});
  check_equal(world.receive<char>(previous).size(), text.size());
}

void functions_of_two_elements_reduce(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  // The library's own, by another name.
  check_equal(world.allreduce(me + 1, std::plus<>{}), sum_to(size));
  check_equal(world.allreduce(2.0, std::multiplies<double>{}), std::ldexp(1.0, size));
  check_equal(world.allreduce(1U << me, std::bit_or<>{}), (1U << size) - 1);
  check_equal(world.allreduce(me == 0, std::logical_or<>{}), true);
  check_equal(world.allreduce(me == size, std::logical_or<>{}), false);
  check(world.allreduce(me == 0 ? Level::high : Level::low, max) == Level::high, "enumerations");

  // Types that the library does not know.
  using Complex = std::complex<double>;
  check(world.allreduce(Complex{1.0 * me, -1}, std::plus<>{}) ==
            Complex{1.0 * sum_to(size - 1), -1.0 * size},
        "complex numbers");
  check(world.allreduce(1.5L, std::plus<>{}) == 1.5L * size, "long double");

  // In rank order where nothing else is said: the leftmost wins.
  const auto left = [](int a, int) { return a; };
  for (const std::size_t count : {std::size_t{1}, std::size_t{9'000}}) {
    std::vector<int> mine(count, me + 5);
    world.allreduce(mine, left);
    check(mine == std::vector<int>(count, 5), "an ordered function");
    std::vector<int> larger(count, me);
    world.allreduce_async(larger, commutative([](int a, int b) { return std::max(a, b); })).wait();
    check(larger == std::vector<int>(count, size - 1), "a commutative function, asynchronously");
  }

  const int half = me / 2;
  const auto found =
      world.allreduce(Located<double>{.value = -1.0 * half, .place = me}, min_located);
  const int least = (size - 1) / 2;
  check(found == Located<double>{-1.0 * least, 2 * least}, "the least value and its place");
  check(world.allreduce(Located<int>{.value = 7, .place = me}, max_located) == Located<int>{7, 0},
        "of equal values the least place");
}

// They are no ElementType, and reduced by name all the same.
void complex_numbers_and_their_like_are_reduced_by_name(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  using Complex = std::complex<double>;
  std::vector<Complex> numbers(9'000, Complex{1.0 * me, 1});
  world.allreduce(numbers, sum);
  check(numbers == std::vector<Complex>(numbers.size(), {1.0 * sum_to(size - 1), 1.0 * size}),
        "sums of complex numbers");
  Complex power{1, 0};
  for (int i = 0; i < size; ++i) power *= Complex{0, 1};
  check(world.allreduce(Complex{0, 1}, product) == power, "their product");
  check(world.allreduce_async(numbers, sum).wait().bytes == 0, "asynchronously");

  const long double mine = 0.5L + me;
  check(world.allreduce(mine, sum) == 0.5L * size + sum_to(size - 1), "long double: sum");
  check(world.allreduce(mine, min) == 0.5L && world.allreduce(mine, max) == size - 0.5L, "least");
  check(std::signbit(world.allreduce(me == 0 ? -0.0L : 0.0L, min)), "-0 is less than 0");
  check(!std::signbit(world.allreduce(me == 0 ? 0.0L : -0.0L, max)), "and 0 is more");
  const long double none = std::numeric_limits<long double>::quiet_NaN();
  check(std::isnan(world.allreduce(me == size - 1 ? none : mine, min)), "NaN is passed on");
  check(std::isnan(world.allreduce(me == 0 ? none : mine, max)), "NaN is passed on by max");
  check(world.allreduce(1.0L * me, logical_or) == (size > 1 ? 1.0L : 0.0L), "logical_or");

  check(world.allreduce(2.0L, logical_xor) == (size % 2 == 1 ? (size == 1 ? 2.0L : 1.0L) : 0.0L),
        "logical_xor");

  const bool first = me == 0;
  check_equal(world.allreduce(first, logical_and), size == 1);
  check_equal(world.allreduce(first, logical_or), true);
  check_equal(world.allreduce(true, logical_xor), size % 2 == 1);
  check_equal(world.allreduce(first, max), true);
  check_equal(world.scan(!first, min), false);
  std::array<bool, 2> flags{true, first};
  world.reduce(flags, bit_and, 0);
  if (first) check(flags == std::array<bool, 2>{true, size == 1}, "flags");

  const auto refused = [&](auto&& call, const std::string& operation) {
    expect_error(
        call, {ErrorCode::bad_argument, no_peer, operation,
               "this reduction means nothing for such elements",
               "bytes have none (name their type, as uint8), bool has no sum, complex numbers have "
               "sum and product; for other types give a function"});
  };
  refused([&] { world.allreduce(numbers, min); }, "allreduce");
  refused([&] { (void)world.allreduce(mine, average); }, "allreduce");
  refused([&] { (void)world.allreduce(mine, bit_or); }, "allreduce");
  refused([&] { (void)world.allreduce_async(flags, sum); }, "allreduce_async");
  refused([&] { reduce_local(Complex{}, power, logical_and); }, "reduce_local");
  world.barrier();
}

void reductions_of_one_rank_alone(Communicator&, Arguments) {
  const std::vector<int> in{1, 2, 3};
  std::vector<int> inout{10, 20, 30};
  reduce_local(in, inout, sum);
  check(inout == std::vector<int>{11, 22, 33}, "sum");
  reduce_local(in, inout, [](int left, int right) { return right - left; });
  check(inout == std::vector<int>{10, 20, 30}, "the left operand is in");
  reduce_local(inout, inout, std::plus<>{});
  check(inout == std::vector<int>{20, 40, 60}, "the same memory");
  double least = 2.5;
  reduce_local(-1.0, least, min);
  check(least == -1.0, "one element");
  std::vector<int> none;
  reduce_local(none, none, max);

  const auto refused = [](auto&& call, const std::string& cause, const std::string& hint) {
    expect_error(call, {ErrorCode::bad_argument, no_peer, "reduce_local", cause, hint});
  };
  refused([&] { reduce_local(in, none, sum); }, "in has 3 elements, out has 0",
          "give in and out equal counts");
  refused([&] { reduce_local(std::span{inout}.first(2), std::span{inout}.last(2), sum); },
          "in and out overlap without being the same 8 bytes",
          "use one range in place, or two that do not touch");
  refused([&] { reduce_local(in, inout, average); }, "the average of two parts has no meaning",
          "add up, and divide when all are in");
  refused([&] { reduce_local(0.5, least, bit_or); },
          "a bitwise reduction of a floating type has no meaning",
          "bit_and, bit_or and bit_xor take integers");
  check(inout == std::vector<int>{20, 40, 60}, "nothing is written");
}

void nobody_is_a_partner(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  // Along a line: the ends have one neighbour.
  const int left = me > 0 ? me - 1 : no_rank;
  const int right = me + 1 < size ? me + 1 : no_rank;
  int from_left = -5;
  const Status status = world.sendrecv(me, right, from_left, left);
  check_status(status, left, left == no_rank ? any_tag : 0, left == no_rank ? 0 : sizeof(int));
  check_equal(from_left, left == no_rank ? -5 : left);
  int from_right = -5;
  std::vector<Request> requests;
  requests.push_back(world.receive_async(from_right, right, 2));
  requests.push_back(world.send_async(me, left, 2));
  requests.push_back(world.sendrecv_async(me, right, from_left, left, 3));
  wait_all(requests);
  check_equal(from_right, right == no_rank ? -5 : right);

  world.send(me, no_rank);
  check_status(world.receive(from_left, no_rank), no_rank, any_tag, 0);
  check(world.receive<int>(no_rank).empty(), "nothing comes from nobody");
  check_status(world.probe(no_rank), no_rank, any_tag, 0);
  check_status(*world.try_probe(no_rank), no_rank, any_tag, 0);
  check_status(world.sendrecv(me, no_rank, from_left, no_rank), no_rank, any_tag, 0);
  // Arguments are checked as ever.
  expect_error(
      [&] { world.send(me, no_rank, -3); },
      {ErrorCode::bad_argument, no_peer, "send", "tag -3 is negative", "tags are 0 to 2147483647"});
  expect_error([&] { world.send(me, -3); },
               {ErrorCode::bad_argument, -3, "send",
                "destination -3 is not a rank of this communicator", "ranks here are 0 to *"});
}

}  // namespace

std::vector<Scenario> value_scenarios() {
  return {in_world("single_elements_go_and_results_are_returned",
                   single_elements_go_and_results_are_returned),
          in_world("functions_of_two_elements_reduce", functions_of_two_elements_reduce),
          in_world("complex_numbers_and_their_like_are_reduced_by_name",
                   complex_numbers_and_their_like_are_reduced_by_name),
          in_world("reductions_of_one_rank_alone", reductions_of_one_rank_alone),
          in_world("nobody_is_a_partner", nobody_is_a_partner)};
}

}  // namespace qpmesh::ranks
