// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/doctor/report.hpp"

namespace qpmesh::doctor {
namespace {

constexpr int margin = 60;
constexpr int drawing_max = 960;
constexpr int square_max = 32;

// Least and most of a figure; colours follow its logarithm.
struct Scale {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  void add(double value) {
    if (value <= 0) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // 0: least, 1: most.
  double place(double value) const {
    if (value <= 0 || most <= least) return 0;
    return std::clamp(std::log(value / least) / std::log(most / least), 0.0, 1.0);
  }
};

// From green, which is good, over yellow to red.
std::string colour(double badness) {
  return fmt::format("hsl({:.0f},75%,{:.0f}%)", 120 * (1 - badness), 42 + 10 * (1 - badness));
}

std::string square(int column, int row, int side, const std::string& fill,
                   const std::string& title) {
  return fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}</title></rect>\n",
      margin + column * side, margin + row * side, side - (side > 3 ? 1 : 0),
      side - (side > 3 ? 1 : 0), fill, title);
}

}  // namespace

std::string to_svg(const Report& report) {
  const int size = static_cast<int>(report.ranks.size());
  const int side = std::clamp(drawing_max / std::max(size, 1), 1, square_max);
  const int whole = std::max(2 * margin + size * side, 560);
  Scale latency;
  Scale bandwidth;
  for (const PairReport& pair : report.pairs) {
    latency.add(pair.latency_us);
    bandwidth.add(pair.bandwidth_mb_s);
  }
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{0}\" "
      "viewBox=\"0 0 {0} {0}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{0}\" fill=\"white\"/>\n",
      whole);
  text += fmt::format("<text x=\"{}\" y=\"18\">{} ranks. Above the diagonal: 8 B one way", margin,
                      size);
  if (latency.most > 0) text += fmt::format(", {:.2f} to {:.2f} us", latency.least, latency.most);
  text += fmt::format("</text>\n<text x=\"{}\" y=\"34\">below it: 1 MiB messages", margin);
  if (bandwidth.most > 0)
    text += fmt::format(", {:.0f} to {:.0f} MB/s", bandwidth.least, bandwidth.most);
  text += ". Green is good; black: cannot be joined</text>\n";
  const int label_every = std::max(1, (20 + side - 1) / side);
  for (int rank = 0; rank < size; rank += label_every) {
    const int middle = margin + rank * side + side / 2;
    text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", middle,
                        margin - 6, rank);
    text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", margin - 6,
                        middle + 4, rank);
  }
  for (const PairReport& pair : report.pairs) {
    const bool joined = !pair.way.empty();
    const std::string title =
        joined ? fmt::format("{} - {}: {}, {:.2f} us, {:.0f} MB/s", pair.low, pair.high, pair.way,
                             pair.latency_us, pair.bandwidth_mb_s)
               : fmt::format("{} - {}: cannot be joined", pair.low, pair.high);
    text += square(pair.high, pair.low, side,
                   joined ? colour(latency.place(pair.latency_us)) : "black", title);
    text += square(pair.low, pair.high, side,
                   joined ? colour(1 - bandwidth.place(pair.bandwidth_mb_s)) : "black", title);
  }
  return text + "</svg>\n";
}

}  // namespace qpmesh::doctor
