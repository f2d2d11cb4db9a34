// SPDX-License-Identifier: MIT
#include "bench/baselines/verbs.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "base/system.hpp"
#include "qpmesh/communicator.hpp"
#include "qpmesh/error.hpp"
#include "qpmesh/options.hpp"
#include "transport/verbs/attributes.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/handles.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::bench {
namespace {

using namespace transport::verbs;
using namespace transport::verbs::selection;

constexpr std::uint32_t depth = 128;  // perftest's --tx-depth
constexpr std::uint32_t signal_every =
    64;  // of writes in a stream; perftest's --cq-mod is 100 of 128
constexpr std::size_t inline_bytes_max = 220;
constexpr std::size_t buffer_bytes = std::size_t{16} << 20;

[[noreturn]] void refuse(std::string cause, int error = 0, std::string hint = {}) {
  throw Error{{.code = ErrorCode::no_resource,
               .operation = "baseline verbs",
               .cause = std::move(cause),
               .system_error = error,
               .hint = std::move(hint)}};
}

template <class Handle, class Object>
void own(Handle& handle, Object* object, const char* call) {
  if (object == nullptr) refuse(fmt::format("{} failed", call), errno);
  handle.reset(object);
}

// What one end tells the other.
struct End {
  std::array<std::byte, 512> offer;  // encoded, padded
  std::uint32_t offer_bytes;
  std::uint32_t qpn;
  std::uint32_t psn;
  std::uint32_t rkey;
  std::uint64_t address;
};

class Verbs final : public Baseline {
 public:
  explicit Verbs(Communicator& world) : memory_(2 * buffer_bytes) {
    const int peer = world.rank() ^ 1;
    const bool paired = peer < world.size();
    Offer offer = make_offer(discover(system_), wishes_of(Options::from_environment()), "");
    if (offer.endpoints.empty()) refuse(offer.why_none.cause, 0, offer.why_none.hint);
    offer.endpoints.resize(1);
    local_ = offer.endpoints.front();
    if (paired) open();
    End mine{};
    const Blob encoded = encode(offer);
    if (encoded.size() > mine.offer.size()) refuse("an offer longer than expected");
    std::copy(encoded.begin(), encoded.end(), mine.offer.begin());
    mine.offer_bytes = static_cast<std::uint32_t>(encoded.size());
    const auto psn = static_cast<std::uint32_t>(system_.random_u64() & 0xffffff);
    if (paired) {
      mine.qpn = queue_pair_->qp_num;
      mine.psn = psn;
      mine.rkey = region_->rkey;
      mine.address = reinterpret_cast<std::uintptr_t>(memory_.data());
      std::array<End, 1> theirs{};
      world.sendrecv(std::span{&mine, 1}, peer, theirs, peer, 0);
      connect(mine, theirs[0]);
    }
    world.barrier();  // both ends are in RTS before the first packet
  }

  std::string name() const override { return "RDMA write"; }
  bool delivers() const override { return false; }
  void collective(const Operation& operation) override {
    refuse(fmt::format("the raw device has no {}", name_of(operation.collective)));
  }

  // As ib_write_lat: the last byte of the write is a count that the other side watches for.
  void send(Outgoing message) override {
    const std::size_t bytes = std::min(message.data.size(), buffer_bytes);
    memory_[bytes - 1] = static_cast<std::byte>(++sent_);
    post(bytes, true);
    wait_for_completions();
  }
  void receive(Incoming message) override {
    const std::size_t bytes = std::min(message.data.size(), buffer_bytes);
    const auto expected = static_cast<unsigned char>(++received_);
    auto* const last = reinterpret_cast<unsigned char*>(memory_.data() + buffer_bytes + bytes - 1);
    while (std::atomic_ref<unsigned char>{*last}.load(std::memory_order_acquire) != expected)
      ::sched_yield();
  }
  // As ib_write_bw: writes in flight up to the depth, the target the same for all.
  void send_and_receive(std::span<const Outgoing> sends, std::span<const Incoming>,
                        Waiting) override {
    for (const Outgoing& message : sends) {
      while (posted_ - completed_ >= depth) poll();
      post(std::min(message.data.size(), buffer_bytes), posted_ + 1 - signalled_ >= signal_every);
    }
    if (signalled_ != posted_) post(0, true);
    wait_for_completions();
  }

 private:
  void open() {
    device_ = open_device(system_, local_.device);
    own(domain_, ibv_alloc_pd(device_.get()), "ibv_alloc_pd");
    own(queue_, ibv_create_cq(device_.get(), 2 * depth, nullptr, nullptr, 0), "ibv_create_cq");
    own(region_,
        ibv_reg_mr(domain_.get(), memory_.data(), memory_.size(),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
        "ibv_reg_mr");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue_.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = depth + 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = inline_bytes_max};
    own(queue_pair_, ibv_create_qp(domain_.get(), &wanted), "ibv_create_qp");
    to_state(to_init(local_, IBV_ACCESS_REMOTE_WRITE), "INIT");
  }

  void connect(const End& mine, const End& theirs) {
    const Offer offer = decode({theirs.offer.data(), theirs.offer_bytes}, no_peer);
    if (offer.endpoints.empty()) refuse("the other rank has no endpoint");
    const diagnosis::LinkDescription link{
        .local = {.endpoint = local_, .qpn = mine.qpn, .psn = mine.psn},
        .peer = {.endpoint = offer.endpoints.front(), .qpn = theirs.qpn, .psn = theirs.psn},
        .timers = timers_for(local_, Options::from_environment().link_timeout_ms)};
    to_state(to_rtr(link), "RTR");
    to_state(to_rts(link), "RTS");
    rkey_ = theirs.rkey;
    target_ = theirs.address + buffer_bytes;
  }

  void to_state(Attributes attributes, const char* state) {
    if (const int error = ibv_modify_qp(queue_pair_.get(), &attributes.values, attributes.mask);
        error != 0)
      refuse(fmt::format("the queue pair could not be brought to {}", state), error);
  }

  void post(std::size_t bytes, bool signalled) {
    ibv_sge source{.addr = reinterpret_cast<std::uintptr_t>(memory_.data()),
                   .length = static_cast<std::uint32_t>(bytes),
                   .lkey = region_->lkey};
    ibv_send_wr request{};
    request.wr_id = ++posted_;
    request.sg_list = &source;
    request.num_sge = bytes > 0 ? 1 : 0;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = (signalled ? unsigned{IBV_SEND_SIGNALED} : 0U) |
                         (bytes <= inline_bytes_max ? unsigned{IBV_SEND_INLINE} : 0U);
    request.wr.rdma.remote_addr = target_;
    request.wr.rdma.rkey = rkey_;
    if (signalled) signalled_ = posted_;
    ibv_send_wr* refused = nullptr;
    if (const int error = ibv_post_send(queue_pair_.get(), &request, &refused); error != 0)
      refuse("ibv_post_send failed", error);
  }

  void wait_for_completions() {
    while (completed_ < signalled_) poll();
  }
  void poll() {
    ibv_wc completion{};
    const int count = ibv_poll_cq(queue_.get(), 1, &completion);
    if (count > 0 && completion.status != IBV_WC_SUCCESS)
      refuse(fmt::format("a write failed: {}", ibv_wc_status_str(completion.status)));
    if (count > 0) {
      completed_ = completion.wr_id;
    } else {
      ::sched_yield();
    }
  }

  base::System system_;
  Endpoint local_;
  std::vector<std::byte> memory_;  // first half: our source; second: what the other rank writes
  DeviceContext device_;
  ProtectionDomain domain_;
  CompletionQueue queue_;
  MemoryRegion region_;
  QueuePair queue_pair_;
  std::uint32_t rkey_ = 0;
  std::uint64_t target_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t signalled_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace

std::unique_ptr<Baseline> make_verbs_baseline(Communicator& world) {
  return std::make_unique<Verbs>(world);
}

}  // namespace qpmesh::bench
