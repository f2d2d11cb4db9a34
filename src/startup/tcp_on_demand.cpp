// SPDX-License-Identifier: MIT
#include "startup/tcp_on_demand.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/errors.hpp"

namespace qpmesh::startup {
namespace {

constexpr std::chrono::milliseconds warning_interval{1'000};

}  // namespace

TcpOnDemand::TcpOnDemand(transport::tcp::TcpTransport& transport,
                         bootstrap::StreamSettings settings, std::vector<base::UniqueFd> listeners,
                         std::vector<bootstrap::StreamPeer> peers, std::int64_t timeout_ms,
                         MakeEnd make_end, const base::System& system, const base::Log& log)
    : transport_{transport},
      system_{system},
      log_{log},
      rank_{settings.rank},
      timeout_ms_{timeout_ms},
      streams_{std::move(settings),
               std::move(listeners),
               std::move(peers),
               [this, make_end = std::move(make_end)](const bootstrap::StreamPeer& peer,
                                                      bootstrap::FrameStream& stream,
                                                      bootstrap::Descriptors&) {
                 transport_.join(make_end(peer, stream.release()));
                 std::erase(wanted_, peer.rank);
               },
               [this](int peer, ErrorDetail why) {
                 std::erase(wanted_, peer);
                 transport_.fail(peer, std::move(why));
               },
               system,
               log_} {}

void TcpOnDemand::want(int peer) {
  wanted_.push_back(peer);
  peer < rank_ ? call(peer) : tell_(peer, {});
}

void TcpOnDemand::call(int peer) { streams_.call(peer, base::after_ms(system_, timeout_ms_)); }

void TcpOnDemand::told_by(int peer, BlobView) noexcept {
  if (peer >= rank_) return;  // whom we call, or who is no correct rank
  auto failure = base::thrown_by([&] {
    call(peer);
    transport_.serve_soon();
  });
  if (failure) transport_.fail(peer, *std::move(failure));
}

bool TcpOnDemand::serve() noexcept {
  bool served = false;
  const auto failure = base::thrown_by([&] { served = streams_.serve(); });
  if (failure) {
    if (failure->cause != base::no_memory) warn(*failure);
    fail_all(*failure);
  }
  return served;
}

// Peers that call this process are not told: it may answer them when a descriptor has come free.
// Until then they know of a rank that says nothing, and this one knows why.
void TcpOnDemand::warn(const ErrorDetail& failure) noexcept {
  const Deadline now = system_.now();
  if (now < warn_after_) return;
  warn_after_ = now + warning_interval;
  try {
    log_.warning("no connection can be made, nor taken: {} ({}); {}", failure.cause,
                 base::describe_errno(failure.system_error), failure.hint);
  } catch (const std::bad_alloc&) {  // then nothing is said
  }
}

// This process can make no connection any more: those that wait for one are told.
void TcpOnDemand::fail_all(const ErrorDetail& why) noexcept {
  for (const int peer : std::exchange(wanted_, {})) transport_.fail(peer, why);
}

std::chrono::microseconds TcpOnDemand::request_notification() noexcept {
  using std::chrono::microseconds;
  try {
    const Deadline wake = streams_.arm();
    if (wake == no_deadline) return microseconds::max();
    return std::max(std::chrono::ceil<microseconds>(wake - system_.now()), microseconds{0});
  } catch (const std::exception&) {
    return std::chrono::milliseconds{1};  // without news of the system: look again soon
  }
}

}  // namespace qpmesh::startup
