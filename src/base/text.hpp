// Text that people type: numbers with units, and words that they meant otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qpmesh::base {

// A whole decimal number, with KiB, MiB or GiB behind it where with_suffix allows them. Nothing for
// all other text (KB and K too: half of the world reads them as 1000) and for what does not fit.
std::optional<std::int64_t> parse_integer(std::string_view text, bool with_suffix);

// Longer texts are near to nothing: the distance would not be worth its time.
inline constexpr std::size_t edit_distance_bytes_max = 64;

// Levenshtein's: insertions, deletions and substitutions that turn one text into the other. Neither
// may be longer than edit_distance_bytes_max.
std::size_t edit_distance(std::string_view from, std::string_view to);

}  // namespace qpmesh::base
