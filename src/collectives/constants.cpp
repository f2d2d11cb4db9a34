#include "collectives/constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace qpmesh::collectives {
namespace {

constexpr std::string_view version_name = "version";
constexpr std::string_view version = "1";
constexpr double second_ns = 1e9;

// In the order of a file: what a step costs, what a byte costs, messages, the network.
constexpr std::array<ConstantRow, 16> table{{
    {"line", &Constants::line_s, "ns", 1, 1e6,
     "a step of a collective that another core waits for: a cache line that travels, and the call "
     "around it"},
    {"turn", &Constants::turn_s, "ns", 1, 1e9,
     "the same where ranks share a core, for each of them: it gets the core, works and gives it "
     "away"},
    {"wake", &Constants::wake_s, "ns", 1, 1e9,
     "until a rank that sleeps on an idle core runs again; in no formula: shorter waits spin"},
    {"system_copy", &Constants::system_copy_s, "ns", 1, 1e9,
     "calling the system to copy out of another process, without the bytes"},
    {"copied_byte", &Constants::copied_byte_s, "ns/byte", 1e-4, 1e3,
     "a copy inside the cache of a core"},
    {"crossed_byte", &Constants::crossed_byte_s, "ns/byte", 1e-4, 1e3,
     "a copy out of, or into, what another core has in its cache"},
    {"memory_byte", &Constants::memory_byte_s, "ns/byte", 1e-4, 1e3,
     "a copy of what is too long for the cache"},
    {"reduced_byte", &Constants::reduced_byte_s, "ns/byte", 1e-4, 1e3,
     "an operand combined with another, in the cache"},
    {"cache", &Constants::cache_bytes, "bytes", 1 << 10, 1e12,
     "vectors of all ranks of a node, in and out together, that fit the cache"},
    {"message_latency", &Constants::message_latency_s, "ns", 1, 1e9,
     "a small message through shared memory, until its receiver goes on"},
    {"message_payload", &Constants::message_payload_s, "ns", 0, 1e9,
     "more for one that does not fit its record"},
    {"message_overhead", &Constants::message_overhead_s, "ns", 0, 1e9,
     "each further message of a rank"},
    {"message_byte", &Constants::message_byte_s, "ns/byte", 1e-4, 1e3,
     "a byte of a message: into a ring and out of it"},
    {"network_latency", &Constants::network_latency_s, "ns", 1, 1e12,
     "a small message over verbs, until its receiver goes on"},
    {"network_overhead", &Constants::network_overhead_s, "ns", 0, 1e12,
     "each further message of a rank"},
    {"network_byte", &Constants::network_byte_s, "ns/byte", 1e-4, 1e6, "a byte of a message"},
}};

double factor(std::string_view unit) noexcept { return unit == "bytes" ? 1 : second_ns; }

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// What a message may show of a file that can be anything.
std::string shown(std::string_view text) {
  constexpr std::size_t bytes_max = 60;
  std::string word{text.substr(0, bytes_max)};
  std::ranges::replace_if(
      word, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text.size() > bytes_max ? word + "…" : word;
}

std::string nearest_names(std::string_view name) {
  std::vector<std::string> names;
  names.reserve(std::size(table));
  for (const ConstantRow& row : table) names.emplace_back(row.name);
  const std::string near = base::nearest(name, names);
  return near.empty() ? fmt::format("known: {}", fmt::join(names, ", "))
                      : fmt::format("did you mean {}?", near);
}

struct Line {
  std::string_view source;
  int number = 0;

  [[noreturn]] void refuse(const std::string& reason, std::string_view hint) const {
    base::throw_error({ErrorCode::bad_config}, "init", hint,
                      "tuning (QPMESH_TUNING), {} line {}: {}", source, number, reason);
  }
};

double read_value(const ConstantRow& row, std::string_view text, const Line& line) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = trimmed({end, text.data() + text.size()});
  const std::string hint = fmt::format("allowed: {} to {} {}", row.lowest, row.highest, row.unit);
  if (error == std::errc::invalid_argument || unit != row.unit)
    line.refuse(fmt::format("'{}' is not a number of {}", shown(text), row.unit), hint);
  if (error != std::errc{} || !(value >= row.lowest && value <= row.highest))
    line.refuse(fmt::format("{} of '{}' is out of range", row.name, shown(text)), hint);
  return value / factor(row.unit);
}

}  // namespace

double ConstantRow::value(const Constants& constants) const noexcept {
  return constants.*member * factor(unit);
}

std::span<const ConstantRow> constant_table() noexcept { return table; }

Constants parse_constants(std::string_view text, std::string_view source) {
  constexpr std::string_view line_hint = "write `name = value unit`, and comments behind #";
  constexpr std::string_view first_line_hint =
      "its first line is `version = 1`; qpmesh-tune writes it";
  Line line{source};
  Constants constants;
  std::vector<std::string_view> names;  // so far
  while (!text.empty()) {
    ++line.number;
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    const std::string_view said = trimmed(whole.substr(0, whole.find('#')));
    if (said.empty()) continue;
    const auto equals = said.find('=');
    if (equals == std::string_view::npos)
      line.refuse(fmt::format("'{}' is no name with a value", shown(said)), line_hint);
    const std::string_view name = trimmed(said.substr(0, equals));
    const std::string_view value = trimmed(said.substr(equals + 1));
    if (std::ranges::find(names, name) != names.end())
      line.refuse(fmt::format("{} is there twice", name), "leave one of the two lines out");
    names.push_back(name);
    if (names.front() != version_name) line.refuse("a name before the version", first_line_hint);
    if (name == version_name) {
      if (value == version) continue;
      line.refuse(
          fmt::format("version {}, and this library reads version {}", shown(value), version),
          "measure again with the qpmesh-tune of this library");
    }
    const auto row = std::ranges::find(table, name, &ConstantRow::name);
    if (row == table.end())
      line.refuse(fmt::format("'{}' is no constant", shown(name)), nearest_names(name));
    constants.*row->member = read_value(*row, value, line);
  }
  if (names.empty()) line.refuse("the file has no version", first_line_hint);
  return constants;
}

std::string format_constants(const Constants& constants, std::string_view heading,
                             std::span<const ConstantRow> rows) {
  std::string text;
  while (!heading.empty()) {
    const std::string_view line = heading.substr(0, heading.find('\n'));
    heading.remove_prefix(std::min(heading.size(), line.size() + 1));
    text += fmt::format("# {}\n", line);
  }
  text += fmt::format("{} = {}\n", version_name, version);
  for (const ConstantRow& row : rows) {
    const double value = row.value(constants);
    const std::string said = row.unit == "bytes"
                                 ? fmt::format("{} = {:.0f} bytes", row.name, value)
                                 : fmt::format("{} = {:.4g} {}", row.name, value, row.unit);
    text += fmt::format("{:<36} # {}\n", said, row.doc);
  }
  return text;
}

}  // namespace qpmesh::collectives
