// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>

#include "tools/doctor/pairs.hpp"

namespace qpmesh::doctor {

std::vector<std::vector<Pair>> schedule(std::span<const Seat> seats) {
  std::vector<Pair> waiting;
  const int size = static_cast<int>(seats.size());
  for (int apart = 1; apart < size; ++apart)
    for (int low = 0; low + apart < size; ++low) waiting.push_back({low, low + apart});
  std::vector<std::vector<Pair>> rounds;
  while (!waiting.empty()) {
    std::vector<Pair>& round = rounds.emplace_back();
    std::vector<bool> taken(seats.size());
    std::map<std::string, int> at_work;
    const auto fits = [&](const Pair& pair) {
      const auto low = static_cast<std::size_t>(pair.low);
      const auto high = static_cast<std::size_t>(pair.high);
      if (taken[low] || taken[high]) return false;
      const auto has_room = [&](const Seat& seat, int more) {
        return round.empty() || at_work[seat.host] + more <= seat.cores;
      };
      const bool together = seats[low].host == seats[high].host;
      if (!has_room(seats[low], together ? 2 : 1) || !has_room(seats[high], together ? 2 : 1))
        return false;
      taken[low] = taken[high] = true;
      ++at_work[seats[low].host];
      ++at_work[seats[high].host];
      round.push_back(pair);
      return true;
    };
    std::erase_if(waiting, fits);
  }
  return rounds;
}

}  // namespace qpmesh::doctor
