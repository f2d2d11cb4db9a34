// SPDX-License-Identifier: MIT
// Reductions of the caller's that throw, or that call the library.
#include <stdexcept>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr int thrower = 1;

// On the thrower its own exception; on the others, in this call or the next one, who threw what.
// Then the same again.
template <class F>
void throws_in(Communicator& world, const std::string& operation, F&& reduce) {
  Communicator broken = world.duplicate();
  const bool throws = world.rank() == thrower;
  const auto add = [throws](const std::int64_t* left, std::int64_t* inout, std::size_t count) {
    if (throws) throw std::domain_error{"too much"};
    for (std::size_t i = 0; i < count; ++i) inout[i] += left[i];
  };
  const Expected told{ErrorCode::aborted, thrower, operation,
                      "the reduction function of that rank threw: too much", ""};
  bool was_thrown = false;
  try {
    reduce(broken, add);
  } catch (const std::domain_error& error) {
    check(throws, "only the thrower's call throws it");
    check_equal(std::string{error.what()}, std::string{"too much"});
    was_thrown = true;
  } catch (const Error& error) {
    check(!throws, error.what());
    check_error(error, told);
  }
  check(was_thrown == throws, "the function of the thrower alone ran and threw in " + operation);
  expect_error([&] { broken.barrier(); }, told);
  std::vector<std::int64_t> data(3);
  expect_error([&] { broken.allreduce(data, sum); }, told);
  std::vector<std::int64_t> sums = addends(world.rank(), 5);
  world.allreduce(sums, sum);  // another communicator has nothing to do with it
  check_sum(sums, world.size());
}

// The thrower waits for a message that rank 2 sends when its own call has ended.
void a_function_that_threw_is_told_before_its_request_is_waited_for(Communicator& world,
                                                                    Arguments) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}}) {
    Communicator broken = world.duplicate();
    const bool throws = world.rank() == thrower;
    const auto add = [throws](const std::int64_t* left, std::int64_t* inout, std::size_t elements) {
      if (throws) throw std::domain_error{"too much"};
      for (std::size_t i = 0; i < elements; ++i) inout[i] += left[i];
    };
    const std::vector<std::int64_t> in(count, 1);
    std::vector<std::int64_t> out(count);
    Request request = broken.allreduce_async(in, out, commutative(add));
    if (throws) {
      world.receive<int>(2, 5);
      try {
        request.wait();
        throw std::runtime_error{"its function threw nothing"};
      } catch (const std::domain_error& error) {
        check_equal(std::string{error.what()}, std::string{"too much"});
      }
    } else {
      expect_error(
          [&] {
            request.wait();
            broken.barrier();  // a short vector may have ended well here
          },
          {ErrorCode::aborted, thrower, "allreduce_async",
           "the reduction function of that rank threw: too much", ""});
    }
    if (world.rank() == 2) world.send(1, thrower, 5);
    world.barrier();
  }
}

void a_reduction_that_throws(Communicator& world, Arguments) {
  std::vector<std::int64_t> data(2'000, 1);
  std::vector<std::int64_t> out(2'000);
  std::vector<std::int64_t> all(10 * static_cast<std::size_t>(world.size()), 1);
  // Between nodes by a row in which every rank combines: others leave some out where ranks are no
  // power of two.
  const bool on_node = shares_memory(world);
  const CallOptions by_all{.algorithm = on_node ? "" : "recursive_multiplying"};
  throws_in(world, "allreduce", [&](Communicator& broken, const auto& add) {
    broken.allreduce(data, out, ordered(add), by_all);
  });
  throws_in(world, "allreduce_async", [&](Communicator& broken, const auto& add) {
    broken.allreduce_async(data, out, commutative(add), by_all).wait();
  });
  // In the first of many that fill the staging of all: those behind it wait for ranks that wait for
  // the thrower.
  std::vector<std::vector<std::int64_t>> vectors(12, std::vector<std::int64_t>(130'000, 1));
  vectors.emplace_back(3, 1);
  const CallOptions by{.algorithm = on_node ? "direct" : by_all.algorithm};
  const auto once = [](const auto& add, int& calls) {
    return [&](const std::int64_t* left, std::int64_t* inout, std::size_t count) {
      if (++calls == 1) return add(left, inout, count);
      for (std::size_t i = 0; i < count; ++i) inout[i] += left[i];
    };
  };
  throws_in(world, "allreduce_each", [&](Communicator& broken, const auto& add) {
    int calls = 0;
    broken.allreduce_each(vectors, ordered(once(add, calls)), by);
  });
  throws_in(world, "allreduce_each_async", [&](Communicator& broken, const auto& add) {
    int calls = 0;
    broken.allreduce_each_async(vectors, commutative(once(add, calls)), by).wait();
  });
  throws_in(world, "reduce", [&](Communicator& broken, const auto& add) {
    broken.reduce(data, out, commutative(add), thrower,
                  {.algorithm = "knomial"});  // it reduces at the root
  });
  throws_in(world, "scan",
            [&](Communicator& broken, const auto& add) { broken.scan(data, out, ordered(add)); });
  throws_in(world, "reduce_scatter", [&](Communicator& broken, const auto& add) {
    broken.reduce_scatter(all, std::span{out}.first(10), ordered(add));
  });
}

void a_call_from_inside_a_reduction(Communicator& world, Arguments) {
  const auto refused = [&](auto&& call, const std::string& operation) {
    expect_error(call,
                 {ErrorCode::bad_argument, no_peer, operation,
                  "another call of this context is still running",
                  "one thread at a time uses a context; set QPMESH_THREADS=several, or give each "
                  "thread a context of its own: world.independent(). A function that a call runs "
                  "may call nothing: do it when that call has returned"});
  };
  int calls = 0;
  const auto add = [&](const std::int64_t* left, std::int64_t* inout, std::size_t count) {
    ++calls;
    std::vector<std::int64_t> data(3);
    refused([&] { world.barrier(); }, "barrier");
    refused([&] { world.send(data, 0); }, "send");
    refused([&] { const Request request = world.allreduce_async(data, sum); }, "allreduce_async");
    refused([&] { world.progress(); }, "progress");
    for (std::size_t i = 0; i < count; ++i) inout[i] += left[i];
  };
  std::vector<std::int64_t> sums = addends(world.rank(), 5);
  world.allreduce(sums, ordered(add));
  check_sum(sums, world.size());
  check(calls > 0, "the function was called");

  // Not caught inside, it is what the function threw.
  Communicator broken = world.duplicate();
  const bool calls_inside = world.rank() == thrower;
  const auto meets = [&](const std::int64_t*, std::int64_t*, std::size_t) {
    if (calls_inside) broken.barrier();
  };
  const std::string inside =
      "the reduction function of that rank threw: qpmesh: bad_argument in barrier: another call of "
      "this "
      "context is still running*";
  if (calls_inside) refused([&] { broken.allreduce(sums, ordered(meets)); }, "barrier");
  const auto goes_on = [&] {
    if (!calls_inside) broken.allreduce(sums, ordered(meets));
    broken.barrier();
  };
  expect_error(goes_on, {ErrorCode::aborted, thrower, "allreduce", inside, ""});
  std::vector<std::int64_t> again = addends(world.rank(), 5);
  world.allreduce(again, sum);
  check_sum(again, world.size());
}

}  // namespace

std::vector<Scenario> reduction_failure_scenarios() {
  return {in_world("a_function_that_threw_is_told_before_its_request_is_waited_for",
                   a_function_that_threw_is_told_before_its_request_is_waited_for),
          in_world("a_reduction_that_throws", a_reduction_that_throws),
          in_world("a_call_from_inside_a_reduction", a_call_from_inside_a_reduction)};
}

}  // namespace qpmesh::ranks
