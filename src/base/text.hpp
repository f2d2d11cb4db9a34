// SPDX-License-Identifier: MIT
// Text that people type: numbers with units, and words that they meant otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qpmesh::base {

// A whole decimal number, with KiB, MiB or GiB behind it where with_suffix allows them. Nothing for
// all other text (KB and K too: half of the world reads them as 1000) and for what does not fit.
std::optional<std::int64_t> parse_integer(std::string_view text, bool with_suffix);

// The known name that somebody who typed this may have meant, or empty: the one that takes the
// fewest insertions, deletions and substitutions (Levenshtein), which are at most half as many as
// its bytes behind the prefix that all share.
std::string nearest(std::string_view typed, const std::vector<std::string>& known,
                    std::size_t prefix_bytes = 0);

}  // namespace qpmesh::base
