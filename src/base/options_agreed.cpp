// Options that both ends of a connection, or all ranks of a collective, must hold alike.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/options_table.hpp"

namespace qpmesh::base {
namespace {

std::map<std::string, std::string> read_values(BlobView blob, int peer) {
  std::map<std::string, std::string> values;
  ByteReader reader{blob};
  const auto count = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string name{reader.get_text()};
    values[std::move(name)] = reader.get_text();
  }
  if (!reader.finished()) {
    throw_error({ErrorCode::corrupt, peer}, "init",
                "does every rank run the same version of qpmesh?",
                "the options of the rank, {} bytes, cannot be read", blob.size());
  }
  return values;
}

std::string quoted(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto value = values.find(name);
  return value == values.end() ? "unknown" : fmt::format("'{}'", value->second);
}

}  // namespace

Blob agreed_options(const Options& options) {
  const auto table = option_table();
  ByteWriter writer;
  writer.put(static_cast<std::uint32_t>(std::ranges::count_if(table, &OptionRow::agreed)));
  for (const auto& row : table) {
    if (row.agreed) writer.put_text(row.variable).put_text(option_value(row, options));
  }
  return std::move(writer).blob();
}

void require_same_options(BlobView mine, BlobView theirs, int peer) {
  const auto here = read_values(mine, no_peer);
  const auto there = read_values(theirs, peer);
  auto names = here;
  names.insert(there.begin(), there.end());
  for (const auto& [name, value] : names) {
    const auto ours = quoted(here, name);
    const auto others = quoted(there, name);
    if (ours == others) continue;
    throw_error({ErrorCode::mismatch, peer}, "init", "give every rank the same value",
                "{} is {} on this rank and {} on rank {}", name, ours, others, peer);
  }
}

}  // namespace qpmesh::base
