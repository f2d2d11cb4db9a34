// SPDX-License-Identifier: MIT
#include "simulator/flight.hpp"

#include <algorithm>
#include <cstring>

namespace qpmesh::simulator {
namespace {

void cut_range(std::size_t begin, std::size_t end, std::uint64_t count, Random& random,
               std::vector<Piece>& pieces) {
  if (begin == end) return;
  std::vector<std::size_t> cuts{begin, end};
  for (std::uint64_t i = 1; i < count; ++i) cuts.push_back(begin + random.below(end - begin));
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i - 1] < cuts[i]) pieces.push_back({cuts[i - 1], cuts[i] - cuts[i - 1]});
  }
}

void copy_range(std::span<const std::byte> from, std::size_t offset,
                std::span<std::byte> out) noexcept {
  if (!out.empty()) std::memcpy(out.data(), from.data() + offset, out.size());
}

}  // namespace

void Flight::read(std::size_t offset, std::span<std::byte> out) const noexcept {
  if (!copied.empty()) return copy_range(copied, offset, out);
  const std::size_t from_head =
      offset < head.size() ? std::min(out.size(), head.size() - offset) : 0;
  copy_range(head, offset, out.first(from_head));
  copy_range(body, offset + from_head - head.size(), out.subspan(from_head));
}

void Flight::cut(int pieces_max, bool in_order, Random& random) {
  const std::uint64_t count = 1 + random.below(static_cast<std::uint64_t>(pieces_max));
  if (flag_offset == Write::no_flag) {
    cut_range(0, bytes(), count, random, pieces);
  } else {
    cut_range(0, flag_offset, 1 + count / 2, random, pieces);
    cut_range(flag_offset + flag_bytes, bytes(), 1 + count / 2, random, pieces);
  }
  if (!in_order) random.shuffle(std::span{pieces});
}

}  // namespace qpmesh::simulator
