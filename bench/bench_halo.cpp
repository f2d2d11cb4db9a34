// SPDX-License-Identifier: MIT
// A halo exchange: small messages to and from each of six neighbours, waited for one after another.
// Bytes: one message. Time: the whole exchange.
#include <cstdint>
#include <vector>

#include "bench/harness/harness.hpp"
#include "bench/harness/memory.hpp"
#include "bench/harness/patterns.hpp"
#include "bench/harness/verify.hpp"
#include "qpmesh/qpmesh.hpp"

namespace {

using namespace qpmesh::bench;
using Word = std::uint32_t;

class Halo final : public Case {
 public:
  Halo(qpmesh::Communicator& world, Buffers buffers, std::size_t bytes)
      : world_{world},
        words_{bytes / sizeof(Word)},
        out_{world, buffers.kind, words_ * halo_messages},
        in_{world, buffers.kind, words_ * halo_messages, buffers.offset_bytes} {
    requests_.reserve(2 * halo_messages);
    for (std::size_t message = 0; message < halo_messages; ++message) {
      sends_.push_back({std::as_bytes(outgoing(message)),
                        halo_destination(message, world.rank(), world.size())});
      receives_.push_back({std::as_writable_bytes(incoming(message)),
                           halo_source(message, world.rank(), world.size())});
    }
  }

  void run() override {
    requests_.clear();
    for (std::size_t message = 0; message < halo_messages; ++message)
      requests_.push_back(
          world_.receive_async(incoming(message), receives_[message].source, tag(message)));
    for (std::size_t message = 0; message < halo_messages; ++message)
      requests_.push_back(
          world_.send_async(outgoing(message), sends_[message].destination, tag(message)));
    for (qpmesh::Request& request : requests_) request.wait();
  }
  void run_baseline(Baseline& baseline) override {
    baseline.send_and_receive(sends_, receives_, Waiting::in_turn);
  }

  void prepare(std::uint64_t seed) override {
    fill_inputs(out_.span(), seed, world_.rank());
    poison(in_.span());
  }
  std::size_t wrong(std::uint64_t seed) override {
    return count_wrong(in_.view(), [seed, this](std::size_t index) {
      return input_value<Word>(seed, receives_[index / words_].source, index);
    });
  }
  std::span<std::byte> output() override { return in_.bytes(); }

 private:
  static int tag(std::size_t message) { return static_cast<int>(message / halo_messages_each); }
  std::span<const Word> outgoing(std::size_t message) const {
    return out_.view().subspan(message * words_, words_);
  }
  std::span<Word> incoming(std::size_t message) const {
    return in_.span().subspan(message * words_, words_);
  }

  qpmesh::Communicator& world_;
  std::size_t words_;
  Array<Word> out_;
  Array<Word> in_;
  std::vector<Baseline::Outgoing> sends_;
  std::vector<Baseline::Incoming> receives_;
  std::vector<qpmesh::Request> requests_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_program({.name = "halo",
                      .ranks_min = 2,
                      .series = {{.name = "in_turn",
                                  .element_bytes = sizeof(Word),
                                  .limit = LimitKind::streaming,
                                  .bus_factor = [](int) { return double{halo_messages}; },
                                  .make =
                                      [](auto& world, auto buffers, auto bytes) {
                                        return std::make_unique<Halo>(world, buffers, bytes);
                                      }}}},
                     argc, argv);
}
