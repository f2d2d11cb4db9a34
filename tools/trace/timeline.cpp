// SPDX-License-Identifier: MIT
#include "tools/trace/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <istream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <tuple>

namespace qpmesh::trace {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& name, int line, const std::string& why) {
  throw std::runtime_error{fmt::format("{}:{}: {}: no trace of a rank", name, line, why)};
}

Bar bar_of(const json& event) {
  Bar bar{.rank = event.at("pid"), .operation = event.at("name"), .begin_us = event.at("ts")};
  bar.end_us = bar.begin_us + event.value("dur", 0.0);
  bar.thread = event.value("tid", 0L);
  const json& args = event.at("args");
  bar.bytes = args.value("bytes", std::uint64_t{0});
  bar.peer = args.value("peer", -1);
  bar.tag = args.value("tag", -1);
  bar.is_collective = args.contains("communicator");
  bar.communicator = args.value("communicator", "");
  bar.number = args.value("number", 0U);
  bar.algorithm = args.value("algorithm", "");
  return bar;
}

// A call of the collective itself: not of a request of it that is waited for.
bool is_call(const Bar& bar) { return bar.is_collective && !bar.is_request; }

using Call = std::pair<std::string, std::uint32_t>;  // communicator and number
std::map<Call, std::vector<const Bar*>> calls_of(const Timeline& timeline) {
  std::map<Call, std::vector<const Bar*>> calls;
  for (const Bar& bar : timeline.bars)
    if (is_call(bar)) calls[{bar.communicator, bar.number}].push_back(&bar);
  return calls;
}

bool waits_for_all(std::string_view operation) {
  constexpr std::array<std::string_view, 5> names{"barrier", "allreduce", "allgather", "alltoall",
                                                  "finish"};
  return std::ranges::find(names, operation) != names.end();
}

std::string title(const Bar& bar) {
  std::string text = fmt::format("{}, {:.2f} us", bar.operation, bar.end_us - bar.begin_us);
  if (bar.bytes > 0) text += fmt::format(", {} bytes", bar.bytes);
  if (bar.peer >= 0) text += fmt::format(", with {}", bar.peer);
  if (!bar.algorithm.empty()) text += fmt::format(", by {}", bar.algorithm);
  return text;
}

json event_of(const Bar& bar, double zero_us) {
  json args{{"bytes", bar.bytes}};
  if (bar.peer >= 0) args["peer"] = bar.peer;
  if (bar.tag >= 0) args["tag"] = bar.tag;
  if (bar.is_collective) {
    args["communicator"] = bar.communicator;
    args["number"] = bar.number;
    if (!bar.algorithm.empty()) args["algorithm"] = bar.algorithm;
  }
  return {
      {"name", bar.operation}, {"pid", bar.rank}, {"ts", bar.begin_us - zero_us}, {"args", args}};
}

double begin_of(const Timeline& timeline) {
  double begin = std::numeric_limits<double>::infinity();
  for (const Bar& bar : timeline.bars) begin = std::min(begin, bar.begin_us);
  return timeline.bars.empty() ? 0 : begin;
}

void sort_bars(Timeline& timeline) {
  std::ranges::stable_sort(timeline.bars, {}, [](const Bar& bar) {
    return std::tuple{bar.rank, bar.begin_us};
  });
}

}  // namespace

void read(Timeline& timeline, std::istream& file, const std::string& name) {
  const std::size_t bars_before = timeline.bars.size();
  RankTrace rank;
  std::map<std::uint64_t, Bar> requests;  // that have begun
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (line == 1 && text != "[") refuse(name, line, "it does not begin with [");
    if (text == "]") rank.whole = true;
    if (text.size() < 2) continue;
    if (text.back() == ',') text.pop_back();
    const json event = json::parse(text, nullptr, false);
    if (event.is_discarded()) {
      // A rank that was killed while it wrote.
      if (file.peek() == std::char_traits<char>::eof()) break;
      refuse(name, line, "it is no JSON");
    }
    try {
      const std::string kind = event.at("ph");
      if (kind == "M") {
        rank.rank = event.at("pid");
        rank.host = event.at("args").at("host");
        rank.process = event.at("args").at("process");
      } else if (kind == "X") {
        timeline.bars.push_back(bar_of(event));
      } else if (kind == "b") {
        Bar& bar = requests[event.at("id")] = bar_of(event);
        bar.is_request = true;
      } else if (kind == "e") {
        const auto begun = requests.extract(event.at("id").get<std::uint64_t>());
        if (begun.empty()) refuse(name, line, "an end without a beginning");
        begun.mapped().end_us = event.at("ts");
        timeline.bars.push_back(begun.mapped());
      }
    } catch (const json::exception& error) {
      refuse(name, line, error.what());
    }
  }
  if (rank.host.empty()) refuse(name, 2, "it does not say whose it is");
  const auto host = static_cast<std::size_t>(std::ranges::find(timeline.hosts, rank.host) -
                                             timeline.hosts.begin());
  if (host == timeline.hosts.size()) timeline.hosts.push_back(rank.host);
  for (std::size_t i = bars_before; i < timeline.bars.size(); ++i) {
    timeline.bars[i].host = host;
    timeline.bars[i].process = rank.process;
  }
  // One that had several inits is one rank.
  const auto before = std::ranges::find_if(timeline.ranks, [&](const RankTrace& each) {
    return each.rank == rank.rank && each.host == rank.host && each.process == rank.process;
  });
  if (before == timeline.ranks.end()) timeline.ranks.push_back(rank);
  else before->whole = before->whole && rank.whole;
  std::ranges::sort(timeline.ranks, {}, &RankTrace::rank);
  sort_bars(timeline);
}

void align(Timeline& timeline) {
  if (timeline.ranks.empty()) return;
  const std::string first = timeline.ranks.front().host;
  struct Bounds {
    double least = -std::numeric_limits<double>::infinity();
    double most = std::numeric_limits<double>::infinity();

    double added_us() const { return (least + most) / 2; }
  };
  std::map<std::string, Bounds> bounds;
  for (const auto& [call, bars] : calls_of(timeline)) {
    if (!waits_for_all(bars.front()->operation)) continue;
    // Of the first rank's host: when the last came, and the first left; and of each other one.
    std::map<std::string, std::pair<double, double>> times;
    for (const Bar* const bar : bars) {
      auto [at, is_new] = times.try_emplace(timeline.hosts[bar->host], bar->begin_us, bar->end_us);
      at->second.first = std::max(at->second.first, bar->begin_us);
      at->second.second = std::min(at->second.second, bar->end_us);
    }
    const auto ours = times.find(first);
    if (ours == times.end()) continue;
    for (const auto& [host, theirs] : times) {
      Bounds& bound = bounds[host];
      bound.least = std::max(bound.least, ours->second.first - theirs.second);
      bound.most = std::min(bound.most, ours->second.second - theirs.first);
    }
  }
  for (RankTrace& rank : timeline.ranks) {
    if (rank.host == first) continue;
    const auto bound = bounds.find(rank.host);
    rank.aligned = bound != bounds.end();
    if (!rank.aligned) continue;
    rank.added_us = bound->second.added_us();
    rank.error_us = std::abs(bound->second.most - bound->second.least) / 2;
  }
  for (Bar& bar : timeline.bars) {
    const std::string& host = timeline.hosts[bar.host];
    const auto bound = bounds.find(host);
    if (host == first || bound == bounds.end()) continue;
    bar.begin_us += bound->second.added_us();
    bar.end_us += bound->second.added_us();
  }
  sort_bars(timeline);  // a rank may have had processes on several hosts
}

std::vector<Late> late_ranks(const Timeline& timeline) {
  std::vector<Late> late;
  for (auto& [call, bars] : calls_of(timeline)) {
    if (bars.size() < 2) continue;
    std::vector<const Bar*> order = bars;
    std::ranges::sort(order, {}, &Bar::begin_us);
    const Bar& last = *order.back();
    late.push_back({.operation = last.operation,
                    .communicator = last.communicator,
                    .number = last.number,
                    .rank = last.rank,
                    .begin_us = last.begin_us,
                    .late_us = last.begin_us - order[order.size() - 2]->begin_us,
                    .spread_us = last.begin_us - order.front()->begin_us});
  }
  std::ranges::stable_sort(late, std::greater{}, &Late::late_us);
  return late;
}

std::string to_text(const Timeline& timeline, const std::vector<Late>& late) {
  const double zero_us = begin_of(timeline);
  std::string text;
  struct Sum {
    std::size_t calls = 0;
    double us = 0;
  };
  for (const RankTrace& rank : timeline.ranks) {
    std::map<std::string, Sum> sums;
    Sum all;
    for (const Bar& bar : timeline.bars) {
      if (bar.rank != rank.rank || bar.process != rank.process ||
          timeline.hosts[bar.host] != rank.host || bar.is_request)
        continue;
      for (Sum* const sum : {&sums[bar.operation], &all}) {
        ++sum->calls;
        sum->us += bar.end_us - bar.begin_us;
      }
    }
    text += fmt::format("rank {} on {}: {} calls, {:.3f} ms in them{}\n", rank.rank, rank.host,
                        all.calls, all.us / 1e3,
                        rank.whole ? "" : "; it did not end: what is youngest is not here");
    if (!rank.aligned)
      text += "  its clock is its host's own: no collective with the first rank's host\n";
    else if (rank.added_us != 0)
      text += fmt::format("  clock: {:+.1f} us, within {:.1f} us\n", rank.added_us, rank.error_us);
    std::vector<std::pair<std::string, Sum>> order{sums.begin(), sums.end()};
    std::ranges::stable_sort(order, std::greater{},
                             [](const auto& each) { return each.second.us; });
    for (const auto& [operation, sum] : order) {
      text += fmt::format("  {:<20} {:8} calls {:12.3f} ms {:10.2f} us each\n", operation,
                          sum.calls, sum.us / 1e3, sum.us / static_cast<double>(sum.calls));
    }
  }
  if (late.empty()) return text + "no collective has the calls of two ranks\n";
  std::map<int, Sum> last;
  for (const Late& each : late) {
    Sum& sum = last[each.rank];
    ++sum.calls;
    sum.us += each.late_us;
  }
  text += fmt::format(
      "{} collectives; the last to come, and how long all others waited for it alone:\n",
      late.size());
  for (const auto& [rank, sum] : last)
    text += fmt::format("  rank {:<5} {:8} times {:12.3f} ms\n", rank, sum.calls, sum.us / 1e3);
  constexpr std::size_t shown_max = 10;
  for (std::size_t i = 0; i < std::min(late.size(), shown_max); ++i) {
    const Late& each = late[i];
    text += fmt::format("  at {:.3f} ms rank {} came {:.2f} us late to {} #{} of communicator {}\n",
                        (each.begin_us - zero_us) / 1e3, each.rank, each.late_us, each.operation,
                        each.number, each.communicator);
  }
  return text;
}

std::string to_json(const Timeline& timeline, const std::vector<Late>& late) {
  const double zero_us = begin_of(timeline);
  std::string text = "[";
  const auto add = [&text](const json& event) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += event.dump();
  };
  for (const RankTrace& rank : timeline.ranks) {
    add({{"name", "process_name"},
         {"ph", "M"},
         {"pid", rank.rank},
         {"args", {{"name", fmt::format("rank {} on {}", rank.rank, rank.host)}}}});
    add({{"name", "process_sort_index"},
         {"ph", "M"},
         {"pid", rank.rank},
         {"args", {{"sort_index", rank.rank}}}});
  }
  std::uint64_t requests = 0;
  for (const Bar& bar : timeline.bars) {
    json event = event_of(bar, zero_us);
    if (!bar.is_request) {
      event["ph"] = "X";
      event["tid"] = bar.thread;
      event["dur"] = bar.end_us - bar.begin_us;
      add(event);
      continue;
    }
    event["cat"] = "request";
    event["ph"] = "b";
    event["id"] = ++requests;
    add(event);
    event["ph"] = "e";
    event["ts"] = bar.end_us - zero_us;
    event.erase("args");
    add(event);
  }
  for (const Late& each : late) {
    add({{"name", fmt::format("late by {:.2f} us", each.late_us)},
         {"cat", "late"},
         {"ph", "i"},
         {"s", "p"},
         {"pid", each.rank},
         {"tid", 0},
         {"ts", each.begin_us - zero_us},
         {"args",
          {{"operation", each.operation},
           {"number", each.number},
           {"spread_us", each.spread_us}}}});
  }
  return text + "\n]\n";
}

std::string to_svg(const Timeline& timeline, const std::vector<Late>& late) {
  constexpr double left = 70;
  constexpr double width = 1100;
  constexpr double row_height = 44;
  constexpr double top = 56;
  const double zero_us = begin_of(timeline);
  double end_us = zero_us + 1;
  for (const Bar& bar : timeline.bars) end_us = std::max(end_us, bar.end_us);
  const double scale = width / (end_us - zero_us);
  const auto x = [&](double us) { return left + (us - zero_us) * scale; };
  std::map<int, double> rows;
  for (const RankTrace& rank : timeline.ranks)
    rows.emplace(rank.rank, top + row_height * static_cast<double>(rows.size()));
  const double height = top + row_height * static_cast<double>(rows.size()) + 40;

  // Of each operation a hue of its own, by where it is among all.
  std::map<std::string, int> hues;
  for (const Bar& bar : timeline.bars) hues.emplace(bar.operation, 0);
  int next = 0;
  for (auto& [operation, hue] : hues) hue = next++ * 360 / static_cast<int>(hues.size());

  std::string text = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="12">)"
      "\n"
      R"(<rect width="{0}" height="{1}" fill="white"/>)"
      "\n",
      left + width + 40, height);
  double legend = left;
  for (const auto& [operation, hue] : hues) {
    text += fmt::format(
        R"svg(<rect x="{:.0f}" y="12" width="12" height="12" fill="hsl({},60%,55%)"/><text x="{:.0f}" y="22">{}</text>)svg"
        "\n",
        legend, hue, legend + 16, operation);
    legend += 30 + 7.0 * static_cast<double>(operation.size());
  }
  for (const auto& [rank, y] : rows) {
    text += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">rank {}</text>)"
                        "\n"
                        R"(<rect x="{}" y="{}" width="{}" height="{}" fill="#f4f4f4"/>)"
                        "\n",
                        left - 8, y + 16, rank, left, y, width, row_height - 6);
  }
  // What is thinner than a tenth of a point, and of the operation beside it, is one bar with it.
  constexpr double thin = 0.1;
  struct Drawn {
    std::string_view operation{};
    double end = -1;
  };
  std::map<std::pair<int, bool>, Drawn> drawn;
  for (const Bar& bar : timeline.bars) {
    Drawn& before = drawn[{bar.rank, bar.is_request}];
    const double begin = x(bar.begin_us);
    const double end = std::max(x(bar.end_us), begin + thin);
    if (before.operation == bar.operation && end <= before.end + thin) continue;
    const double from = before.operation == bar.operation ? std::max(begin, before.end) : begin;
    before = {bar.operation, end};
    text += fmt::format(
        R"svg(<rect x="{:.2f}" y="{}" width="{:.2f}" height="{}" fill="hsl({},60%,{}%)"><title>{}</title></rect>)svg"
        "\n",
        from, rows[bar.rank] + (bar.is_request ? 26 : 4), end - from, bar.is_request ? 8 : 20,
        hues[bar.operation], bar.is_request ? 75 : 55, title(bar));
  }
  constexpr std::size_t marks_max = 10;
  for (std::size_t i = 0; i < std::min(late.size(), marks_max); ++i) {
    const double at = x(late[i].begin_us);
    const double y = rows[late[i].rank];
    text += fmt::format(
        R"(<path d="M{0:.2f} {1} l-4 -7 h8 z" fill="#c00"><title>{2:.2f} us late to {3} #{4}</title></path>)"
        "\n",
        at, y + 3, late[i].late_us, late[i].operation, late[i].number);
  }
  constexpr int ticks = 8;
  for (int i = 0; i <= ticks; ++i) {
    const double us = (end_us - zero_us) * i / ticks;
    text += fmt::format(R"(<text x="{:.0f}" y="{}" text-anchor="middle">{:.3f} ms</text>)"
                        "\n",
                        left + width * i / ticks, height - 12, us / 1e3);
  }
  return text + "</svg>\n";
}

}  // namespace qpmesh::trace
