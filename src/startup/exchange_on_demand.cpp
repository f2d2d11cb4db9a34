// SPDX-License-Identifier: MIT
#include "startup/exchange_on_demand.hpp"

#include <fmt/format.h>

#include <new>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"

namespace qpmesh::startup {

// Little-endian, by ByteWriter.
struct ExchangeOnDemand::Words {
  Blob address{};          // of the end that was made just now; else empty
  bool connected = false;  // the sender's end is
  std::string failure{};   // why it never will be; else empty
  std::string hint{};

  Blob encode() const {
    base::ByteWriter out;
    out.put_fields(address, connected, failure, hint);
    return std::move(out).blob();
  }
  static Words decode(BlobView bytes, int peer) {
    base::ByteReader in{bytes};
    Words words;
    in.get_fields(words.address, words.connected, words.failure, words.hint);
    if (in.finished()) return words;
    base::throw_error({ErrorCode::corrupt, peer}, "connect", "",
                      "{} bytes are not what a rank says that connects", bytes.size());
  }
};

ExchangeOnDemand::ExchangeOnDemand(std::unique_ptr<Ends> ends, int size)
    : ends_{std::move(ends)}, stages_(static_cast<std::size_t>(size), Stage::unmade) {}

void ExchangeOnDemand::want(int peer) noexcept {
  if (stage(peer) != Stage::unmade) return;
  guarded(peer, [&] {
    stage(peer) = Stage::made;
    tell_(peer, Words{.address = ends_->make(peer)}.encode());
  });
}

void ExchangeOnDemand::told_by(int peer, BlobView words) noexcept {
  guarded(peer, [&] { take(peer, Words::decode(words, peer)); });
}

void ExchangeOnDemand::take(int peer, const Words& words) {
  Stage& now = stage(peer);
  if (now == Stage::failed) return;
  if (!words.failure.empty()) {
    return fail(peer,
                {.code = ErrorCode::link_failed,
                 .peer = peer,
                 .cause = fmt::format("the peer could not connect: {}", words.failure),
                 .hint = words.hint},
                false);
  }
  if (!words.address.empty() && now < Stage::connected) {
    Words answer{.connected = true};
    if (std::exchange(now, Stage::made) == Stage::unmade) answer.address = ends_->make(peer);
    ends_->connect(peer, words.address);
    now = Stage::connected;
    tell_(peer, answer.encode());
  }
  if (!words.connected || now != Stage::connected) return;
  now = Stage::open;
  ends_->open(peer);
}

template <class F>
void ExchangeOnDemand::guarded(int peer, F&& step) noexcept {
  auto failure = base::thrown_by(step);
  if (!failure) return;
  failure->code = ErrorCode::link_failed;
  failure->peer = peer;
  fail(peer, *failure, true);
}

void ExchangeOnDemand::fail(int peer, const ErrorDetail& why, bool tells) noexcept {
  if (std::exchange(stage(peer), Stage::failed) == Stage::failed) return;
  ends_->fail(peer, why);
  if (!tells) return;
  try {
    tell_(peer, Words{.failure = why.cause, .hint = why.hint}.encode());
  } catch (const std::bad_alloc&) {
    // The peer's calls end by their limit.
  }
}

}  // namespace qpmesh::startup
