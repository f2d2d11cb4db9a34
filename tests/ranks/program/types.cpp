// Point-to-point messages say what their elements are.
#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

struct Pair {
  std::int32_t first;
  float second;
};
struct Triple {
  std::int32_t all[3];  // NOLINT(*-avoid-c-arrays): its size is what counts
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

}  // namespace

std::vector<Scenario> type_scenarios() {
  return {in_world("elements_of_messages_have_types", elements_of_messages_have_types)};
}

}  // namespace qpmesh::ranks
