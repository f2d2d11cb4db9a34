// SPDX-License-Identifier: MIT
// A Bootstrap whose gathers a test can spoil: what this rank says, or what happens once everybody's
// word is known.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/system.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/listener.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::test {

template <class Base>
class Tampered : public Base {
 public:
  using Base::Base;

  std::function<void(bootstrap::Introduction&)> say;
  std::function<void(std::span<const bootstrap::Introduction>)> heard;
  // In the second of three gathers, of ranks in several places: where each listens.
  using Addresses = std::vector<bootstrap::HostPort>;
  std::function<void(Addresses&)> say_addresses;
  std::function<void(std::span<const Addresses>)> heard_addresses;
  int gathers = 0;

  // Ranks whose numbers differ take each other for processes of different containers of this host,
  // which share its network: they link over loopback.
  void be_elsewhere(int place) {
    say = [place](bootstrap::Introduction& mine) {
      mine.place.pid_namespace += static_cast<std::uint64_t>(place);
    };
  }

  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    ++gathers;
    Blob blob(mine.begin(), mine.end());
    if (gathers == 1 && say) {
      auto introduction =
          read_own<bootstrap::Introduction>(blob, bootstrap::read_introductions, [&](int rank) {
            return encode(bootstrap::introduce_myself(base::System{}, rank, this->size()));
          });
      say(introduction);
      blob = encode(introduction);
    }
    if (gathers == 2 && say_addresses) {
      auto report = read_own<bootstrap::Report>(blob, bootstrap::read_reports,
                                                [](int) { return encode(bootstrap::Report{}); });
      Addresses addresses = bootstrap::read_addresses(report.result, this->rank());
      say_addresses(addresses);
      report.result = bootstrap::encode_addresses(addresses);
      blob = encode(report);
    }
    auto all = Base::all_gather(blob, deadline);
    if (gathers == 1 && heard) heard(bootstrap::read_introductions(all, this->size()));
    if (gathers == 2 && heard_addresses) {
      std::vector<Addresses> addresses;
      for (const auto& report : bootstrap::read_reports(all, this->size()))
        addresses.push_back(bootstrap::read_addresses(report.result, 0));
      heard_addresses(addresses);
    }
    return all;
  }

 private:
  // Blobs are read together only: this rank's among fillers.
  template <class T, class Read, class Fill>
  T read_own(const Blob& blob, Read read, Fill fill) const {
    std::vector<Blob> all;
    all.reserve(static_cast<std::size_t>(this->size()));
    for (int other = 0; other < this->size(); ++other)
      all.push_back(other == this->rank() ? blob : fill(other));
    return read(all, this->size())[static_cast<std::size_t>(this->rank())];
  }
};

}  // namespace qpmesh::test
