#include "monitored_barrier.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "flight.hpp"

namespace qpmesh_torch {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* missing_hint = "they may have ended, or wait in another call";

class Barrier {
 public:
  Barrier(Group& group, std::uint64_t number, milliseconds limit)
      : group_{group},
        doing_{"monitored_barrier", number, &group.name()},
        communicator_{group.communicator(doing_)},
        tag_{own_tag(OwnTags::of_monitored_barriers, number)},
        limit_{limit},
        has_come_(static_cast<std::size_t>(group.size())) {
    has_come_[static_cast<std::size_t>(group.rank())] = 1;
  }

  void run() {
    const Group::Waiting waiting{group_};
    if (group_.rank() == 0) {
      gather_words();
      // Who has come is told who has not.
      for (int rank = 1; rank < group_.size(); ++rank)
        if (has_come_[static_cast<std::size_t>(rank)] != 0) send(has_come_, rank);
    } else {
      send({1}, 0);
      // Rank 0 may have come later, and waits as long from then on.
      Receive answer{*this, has_come_.data(), has_come_.size(), 0};
      if (!answer.comes_until(Clock::now() + 2 * limit_))
        throw_error(doing_, QPMESH_TIMEOUT,
                    "rank 0, whom all tell that they are there, has not come", missing_hint, 0);
    }
    std::string missing;
    for (std::size_t rank = 0; rank < has_come_.size(); ++rank)
      if (has_come_[rank] == 0) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    if (missing.empty()) return;
    throw_error(
        doing_, QPMESH_TIMEOUT,
        "of the " + std::to_string(group_.size()) + " ranks these have not come: " + missing,
        missing_hint);
  }

 private:
  using Bytes = std::vector<std::uint8_t>;

  // It is taken back when nothing comes: nobody is left then who could settle it.
  class Receive {
   public:
    Receive(const Barrier& of, std::uint8_t* data, std::size_t count, int source) : of_{of} {
      // The barrier's own deadlines end it.
      const qpmesh_call call{.struct_bytes = sizeof call, .timeout_ms = QPMESH_NO_TIMEOUT};
      require_ok(qpmesh_receive_async(of.communicator_, data, count, QPMESH_UINT8, source, of.tag_,
                                      &call, &request_),
                 of.doing_);
    }
    Receive(Receive&& from) noexcept
        : of_{from.of_}, request_{std::exchange(from.request_, nullptr)} {}
    Receive& operator=(Receive&&) = delete;
    ~Receive() {
      if (request_ == nullptr) return;
      int taken_back = 0;
      qpmesh_cancel(request_, &taken_back);
      qpmesh_request_free(request_);
    }

    bool comes_until(Clock::time_point deadline) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
      const auto left_ms = static_cast<int>(std::clamp<std::int64_t>(left, 1, INT_MAX));
      int done = 0;
      require_ok(qpmesh_wait_for(request_, left_ms, &done, nullptr), of_.doing_);
      if (done != 0) return true;
      int taken_back = 0;
      require_ok(qpmesh_cancel(request_, &taken_back), of_.doing_);
      if (taken_back != 0) return false;
      // It comes at this moment.
      require_ok(qpmesh_wait(request_, nullptr), of_.doing_);
      return true;
    }

   private:
    const Barrier& of_;
    qpmesh_request* request_ = nullptr;
  };

  void gather_words() {
    std::vector<Receive> words;
    words.reserve(has_come_.size());
    Bytes said(has_come_.size());
    for (std::size_t rank = 1; rank < said.size(); ++rank)
      words.emplace_back(*this, &said[rank], 1, static_cast<int>(rank));
    const auto deadline = Clock::now() + limit_;
    for (std::size_t rank = 1; rank < said.size(); ++rank)
      has_come_[rank] = words[rank - 1].comes_until(deadline) ? 1 : 0;
  }

  void send(const Bytes& bytes, int destination) const {
    const qpmesh_call call{.struct_bytes = sizeof call,
                           .timeout_ms = static_cast<int>(limit_.count())};
    require_ok(qpmesh_send(communicator_, bytes.data(), bytes.size(), QPMESH_UINT8, destination,
                           tag_, &call),
               doing_);
  }

  Group& group_;
  const Doing doing_;
  qpmesh_communicator* const communicator_;
  const int tag_;
  const milliseconds limit_;
  Bytes has_come_;  // by rank
};

}  // namespace

void monitored_barrier(Group& group, std::uint64_t number, int timeout_ms) {
  Barrier{group, number, milliseconds{timeout_ms}}.run();
}

}  // namespace qpmesh_torch
