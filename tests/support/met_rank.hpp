// SPDX-License-Identifier: MIT
// One rank with a real arena and doorbell, ready to meet.
#pragma once

#include <sys/eventfd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/meeting.hpp"
#include "qpmesh/options.hpp"
#include "transport/memory.hpp"

namespace qpmesh::test {

struct MetRank {
  explicit MetRank(base::FailPoints* fail_points = nullptr) : system{fail_points} {
    offer.nonce = healthy.random_u64();
    arena.header().nonce = offer.nonce;
    offer.arena_fd = arena.descriptor();
    offer.arena_bytes = arena.bytes();
    offer.doorbell_fd = doorbell.get();
  }

  void meet(Bootstrap& bootstrap, BlobView facts = {}, std::int64_t timeout_ms = 20'000) {
    const auto prepare = [&] {
      return bootstrap::Brought{.offer = offer, .facts = Blob(facts.begin(), facts.end())};
    };
    meeting.emplace(bootstrap::meet(bootstrap, options, system, log, prepare,
                                    base::after_ms(healthy, timeout_ms)));
  }

  base::System healthy;
  base::System system;  // the meeting's, with the fail points
  base::Log log;
  Options options;
  transport::Arena arena = transport::Arena::create_shared(healthy, std::size_t{1} << 20);
  base::UniqueFd doorbell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  bootstrap::LocalOffer offer;
  std::optional<bootstrap::Meeting> meeting;
};

}  // namespace qpmesh::test
