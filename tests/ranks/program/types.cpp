// SPDX-License-Identifier: MIT
// Point-to-point messages say what their elements are.
#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

struct Pair {
  std::int32_t first;
  float second;
};
struct Triple {
  std::int32_t all[3];  // its size is what counts
};
enum class Colour : std::int32_t { red };

template <class Out, class In>
class Message {
 public:
  Message(Communicator& world, std::size_t out_count)
      : world_{world},
        out_(out_count),
        in_((out_count * sizeof(Out) + sizeof(In) - 1) / sizeof(In)),
        next_{(world.rank() + 1) % world.size()},
        previous_{(world.rank() + world.size() - 1) % world.size()} {}

  // The receive comes after its message, or before it.
  void arrives() {
    for (const bool early : {true, false})
      exchange(early, [&](Request& request) {
        check_status(request.wait(), previous_, 4, out_.size() * sizeof(Out));
      });
  }
  // The message stays in line for a receive of the right type.
  void is_refused(const std::string& sent, const std::string& wanted) {
    const Expected told{
        ErrorCode::mismatch, previous_, "receive_async",
        "the message holds " + sent + ", the buffer " + wanted,
        "receive into elements of the sender's type, or into bytes; the message stays in line "
        "for the next receive"};
    for (const bool early : {true, false}) {
      exchange(early, [&](Request& request) {
        expect_error([&] { request.wait(); }, told);
        std::vector<Out> right(out_.size());
        check_status(world_.receive(right, previous_, 4), previous_, 4, out_.size() * sizeof(Out));
      });
    }
  }

 private:
  template <class Check>
  void exchange(bool early, Check&& look) {
    Request send;
    Request receive;
    if (!early) receive = world_.receive_async(in_, previous_, 4);
    world_.barrier();
    send = world_.send_async(out_, next_, 4);
    if (early) receive = world_.receive_async(in_, previous_, 4);
    look(receive);
    send.wait();
    world_.barrier();
  }

  Communicator& world_;
  std::vector<Out> out_;
  std::vector<In> in_;
  int next_;
  int previous_;
};

void elements_of_messages_have_types(Communicator& world, Arguments) {
  // Inline, eager, and by rendezvous.
  for (const std::size_t count : {std::size_t{3}, std::size_t{600}, std::size_t{300'000}}) {
    Message<float, std::int32_t>{world, count}.is_refused("float32", "int32");
    Message<std::int32_t, std::uint32_t>{world, count}.is_refused("int32", "uint32");
    Message<double, float>{world, count}.is_refused("float64", "float32");
    Message<Pair, Triple>{world, count}.is_refused("elements of 8 bytes", "elements of 12 bytes");
    Message<Triple, std::int64_t>{world, count}.is_refused("elements of 12 bytes", "int64");
    // Bytes are everybody's, and a type that the library does not know is what it is as long as.
    Message<float, std::byte>{world, count}.arrives();
    Message<char, float>{world, 4 * count}.arrives();
    Message<std::uint8_t, Triple>{world, 12 * count}.arrives();
    Message<Pair, Pair>{world, count}.arrives();
    Message<Pair, std::int64_t>{world, count}.arrives();
    Message<Colour, std::int32_t>{world, count}.arrives();
    Message<long, long long>{world, count}.arrives();
  }
  // Nothing has no type that could differ.
  const int me = world.rank();
  world.send(std::vector<float>{}, me, 1);
  std::vector<std::int32_t> ints(1);
  check_status(world.receive(ints, me, 1), me, 1, 0);
}

// A call takes them as it takes a vector, and the other side need not.
void a_type_known_when_the_program_runs_is_a_type(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  const int next = (me + 1) % size;
  const int previous = (me + size - 1) % size;

  std::vector<std::int64_t> numbers = addends(me, 500);
  const AnyElements any{numbers.data(), numbers.size(), ElementType::int64};
  if (me % 2 == 0) world.allreduce(any, sum);
  else world.allreduce(numbers, sum);
  check_sum(numbers, size);

  numbers = addends(me, 500);
  world
      .allreduce_async(AnyElements{numbers.data(), 500, sizeof(std::int64_t)},
                       commutative([](const void* left, void* inout, std::size_t count) {
                         const auto* const from = static_cast<const std::int64_t*>(left);
                         auto* const into = static_cast<std::int64_t*>(inout);
                         for (std::size_t i = 0; i < count; ++i) into[i] += from[i];
                       }))
      .wait();
  check_sum(numbers, size);

  const double sent = me + 0.5;
  double got = 0;
  world.sendrecv(AnyConstElements{&sent, 1, ElementType::float64}, next, got, previous);
  check_equal(got, previous + 0.5);
  std::vector<float> all(static_cast<std::size_t>(size));
  const float mine = static_cast<float>(me);
  world.allgather(AnyConstElements{&mine, 1, ElementType::float32},
                  AnyElements{all.data(), all.size(), ElementType::float32});
  check_equal(all.back(), static_cast<float>(size - 1));

  const Request sending = world.send_async(sent, next, 6);
  std::int64_t wrong = 0;
  expect_error(
      [&] {
        world.receive(AnyElements{&wrong, 1, ElementType::int64}, previous, 6);
      },
      {ErrorCode::mismatch, previous, "receive", "the message holds float64, the buffer int64",
       "receive into elements of the sender's type*"});
  check_equal(world.receive<double>(previous, 6)[0], previous + 0.5);
  const Expected two_types{ErrorCode::bad_argument, no_peer, "allreduce",
                           "in has elements of 8 bytes, out has others, of 4 bytes",
                           "give in and out elements of one type"};
  const AnyConstElements longer{numbers.data(), all.size(), ElementType::int64};
  const AnyElements shorter{all.data(), all.size(), ElementType::float32};
  expect_error([&] { world.allreduce(longer, shorter, sum); }, two_types);
  expect_error(
      [&] {
        world.allreduce(AnyElements{&wrong, 1, sizeof wrong}, sum);
      },
      {ErrorCode::bad_argument, no_peer, "allreduce",
       "this reduction means nothing for such elements",
       "bytes have none (name their type, as uint8), bool has no sum, complex numbers have "
       "sum and product; for other types give a function"});
  world.barrier();
}

}  // namespace

std::vector<Scenario> type_scenarios() {
  return {in_world("elements_of_messages_have_types", elements_of_messages_have_types),
          in_world("a_type_known_when_the_program_runs_is_a_type",
                   a_type_known_when_the_program_runs_is_a_type)};
}

}  // namespace qpmesh::ranks
