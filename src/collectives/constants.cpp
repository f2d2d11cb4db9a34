#include "collectives/constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text.hpp"
#include "qpmesh/error.hpp"

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
  const auto near = [&](const ConstantRow& row) {
    return name.size() <= base::edit_distance_bytes_max &&
           base::edit_distance(name, row.name) * 2 <= row.name.size();
  };
  if (const auto row = std::ranges::find_if(table, near); row != table.end())
    return fmt::format("did you mean {}?", row->name);
  std::string names;
  for (const ConstantRow& row : table)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return "known: " + names;
}

class Parser {
 public:
  explicit Parser(std::string_view source) noexcept : source_{source} {}

  void read(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      if (const auto said = trimmed(line.substr(0, line.find('#'))); !said.empty()) read_line(said);
    }
    if (!has_version_) refuse("the file has no version", std::string{first_line_hint});
  }
  const Constants& constants() const noexcept { return constants_; }

 private:
  static constexpr std::string_view line_hint = "write `name = value unit`, and comments behind #";
  static constexpr std::string_view first_line_hint =
      "its first line is `version = 1`; qpmesh-tune writes it";

  void read_line(std::string_view line) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos)
      refuse(fmt::format("'{}' is no name with a value", shown(line)), std::string{line_hint});
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    if (name == version_name) return read_version(value);
    if (!has_version_) refuse("a name before the version", std::string{first_line_hint});
    const auto row = std::ranges::find(table, name, &ConstantRow::name);
    if (row == table.end())
      refuse(fmt::format("'{}' is no constant", shown(name)), nearest_names(name));
    bool& is_set = is_set_[static_cast<std::size_t>(row - table.begin())];
    if (is_set) refuse(fmt::format("{} is there twice", name), "leave one of the two lines out");
    is_set = true;
    constants_.*row->member = read_value(*row, value) / factor(row->unit);
  }

  void read_version(std::string_view value) {
    if (has_version_) refuse("version is there twice", "leave one of the two lines out");
    if (value != version)
      refuse(fmt::format("version {}, and this library reads version {}", shown(value), version),
             "measure again with the qpmesh-tune of this library");
    has_version_ = true;
  }

  double read_value(const ConstantRow& row, std::string_view text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view unit = trimmed({end, text.data() + text.size()});
    const std::string allowed = fmt::format("{} to {} {}", row.lowest, row.highest, row.unit);
    if (error == std::errc::invalid_argument || unit != row.unit)
      refuse(fmt::format("'{}' is not a number of {}", shown(text), row.unit),
             "allowed: " + allowed);
    if (error != std::errc{} || !(value >= row.lowest && value <= row.highest))
      refuse(fmt::format("{} of '{}' is out of range", row.name, shown(text)),
             "allowed: " + allowed);
    return value;
  }

  [[noreturn]] void refuse(const std::string& reason, std::string hint) const {
    throw Error{
        {.code = ErrorCode::bad_config,
         .operation = "init",
         .cause = fmt::format("tuning (QPMESH_TUNING), {} line {}: {}", source_, line_, reason),
         .hint = std::move(hint)}};
  }

  std::string_view source_;
  int line_ = 0;
  bool has_version_ = false;
  std::array<bool, table.size()> is_set_{};
  Constants constants_;
};

}  // namespace

double ConstantRow::value(const Constants& constants) const noexcept {
  return constants.*member * factor(unit);
}

std::span<const ConstantRow> constant_table() noexcept { return table; }

Constants parse_constants(std::string_view text, std::string_view source) {
  Parser parser{source};
  parser.read(text);
  return parser.constants();
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
