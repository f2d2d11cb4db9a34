// SPDX-License-Identifier: MIT
// What every transport owes messaging, as tests over a connected pair. A transport
// instantiates the suites whose promise it makes:
//   INSTANTIATE_TEST_SUITE_P(shm, TransportConformance, ::testing::Values(factory), factory_name);
// and OrderedWrites (writes of a connection are placed in order), OrderedFlags
// (Capabilities::ordered_flag), Immediates, Fences (tear_down holds off a peer that knows nothing
// of it), Registrations (Capabilities::registers_user_memory).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "transport/transport.hpp"

namespace qpmesh::test {

inline std::byte value(std::size_t i) { return static_cast<std::byte>(i); }

// Bytes that say where they are and for whom.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = value(base::mix64(seed * 0x10001 + i));
  return out;
}

inline bool all_are(std::span<const std::byte> bytes, std::byte wanted) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == wanted; });
}

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

class ConnectedPair {
 public:
  static constexpr std::size_t memory_bytes = 4 * 1024 * 1024;

  struct End {
    transport::Transport* transport = nullptr;
    transport::Connection* connection = nullptr;  // to the other end
    std::span<std::byte> memory;                  // memory_bytes zeroes, registered
    transport::RemoteAddress address;             // of the first of them
    std::uint64_t region_bytes = 0;               // of the region that they lie in
  };

  virtual ~ConnectedPair() = default;
  virtual End& end(int side) = 0;  // 0 or 1
  // Lets a little time pass and both transports progress. Many calls must be cheap: tests look
  // between them.
  virtual void pump() = 0;
};

struct PairFactory {
  std::string name;
  std::function<std::unique_ptr<ConnectedPair>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const PairFactory& factory) {
  return out << factory.name;
}
inline std::string factory_name(const ::testing::TestParamInfo<PairFactory>& info) {
  return info.param.name;
}

class TransportSuite : public ::testing::TestWithParam<PairFactory> {
 protected:
  static constexpr int pumps_max = 2'000'000;

  TransportSuite() : pair_{GetParam().make()} {}

  ConnectedPair::End& end(int side) { return pair_->end(side); }
  transport::Connection& connection(int side) { return *end(side).connection; }
  const transport::Capabilities& capabilities() { return connection(0).capabilities(); }
  transport::RemoteAddress at(int side, std::size_t offset) {
    return {end(side).address.region, end(side).address.offset + offset};
  }
  std::span<std::byte> memory(int side, std::size_t offset, std::size_t bytes) {
    return end(side).memory.subspan(offset, bytes);
  }
  void pump() { pair_->pump(); }
  void pump(int times) {
    while (times-- > 0) pump();
  }

  // Pumps until it holds; fails the test when that takes too long.
  template <class Condition>
  void wait_for(Condition condition, const char* what) {
    for (int i = 0; i < pumps_max; ++i) {
      if (condition()) return;
      pump();
    }
    FAIL() << "never happened: " << what;
  }
  // Posts, pumping as long as the answer is busy, and counts the writes that tell.
  void post(int side, std::span<const transport::Write> chain);
  void post(int side, const transport::Write& write) { post(side, {&write, 1}); }
  // Posts a read, pumping as long as the answer is busy.
  void read(int side, std::span<std::byte> target, std::optional<std::uint32_t> target_region,
            transport::RemoteAddress source);
  // Where a device reads them: registers the sources of a chain. They stay where they are until the
  // test ends.
  void register_sources(int side, std::span<const transport::Write> chain);
  // Waits until everything posted so far by this side has completed (posts a write without bytes
  // that tells).
  void complete(int side);
  std::uint64_t& told(int side) { return told_[static_cast<std::size_t>(side)]; }

 private:
  std::unique_ptr<ConnectedPair> pair_;
  std::array<std::uint64_t, 2> told_{};
};

class TransportConformance : public TransportSuite {};
class OrderedWrites : public TransportSuite {};
class OrderedFlags : public TransportSuite {};
class Immediates : public TransportSuite {};
class Fences : public TransportSuite {};
class Registrations : public TransportSuite {};

}  // namespace qpmesh::test
