// SPDX-License-Identifier: MIT
// A rank's world in a simulation: time is virtual, randomness is seeded, calls
// fail where its fail points say so.
#pragma once

#include <cstring>

#include "base/system.hpp"
#include "simulator/scheduler.hpp"

namespace qpmesh::simulator {

class System final : public base::System {
 public:
  // Only the address of fail_points_ is taken before it is constructed.
  System(const Scheduler& scheduler, std::uint64_t seed) noexcept
      : base::System{&fail_points_}, scheduler_{scheduler}, random_{seed} {}

  Deadline now() const noexcept override { return scheduler_.now(); }
  void random(std::span<std::byte> out) const noexcept override {
    while (!out.empty()) {
      const std::uint64_t value = random_.next();
      const std::size_t bytes = out.size() < sizeof(value) ? out.size() : sizeof(value);
      std::memcpy(out.data(), &value, bytes);
      out = out.subspan(bytes);
    }
  }

  base::FailPoints& fail_points() noexcept { return fail_points_; }

 private:
  const Scheduler& scheduler_;
  mutable Random random_;
  base::FailPoints fail_points_;
};

}  // namespace qpmesh::simulator
