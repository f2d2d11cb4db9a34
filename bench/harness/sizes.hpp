// SPDX-License-Identifier: MIT
// Byte counts as people write them: 4, 64KiB, 16MiB.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace qpmesh::bench {

// A whole number, alone or with KiB, MiB or GiB. Throws Error{bad_argument}
// with the text and what is allowed.
std::size_t parse_bytes(std::string_view text);

// bytes_min, doubled until it would pass bytes_max, each rounded up to a whole element in every
// block and listed once. Throws Error{bad_argument} when the range is empty or bytes_min is not a
// whole number of elements.
std::vector<std::size_t> sizes_between(std::size_t bytes_min, std::size_t bytes_max,
                                       std::size_t element_bytes, std::size_t blocks = 1);

}  // namespace qpmesh::bench
