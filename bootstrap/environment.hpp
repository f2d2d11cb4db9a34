// Reading the environment strictly: a value is what it must be, or an error that names variable,
// value and range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/launcher.hpp"

namespace qpmesh::bootstrap {

inline constexpr std::int64_t ranks_max = 65'536;

[[noreturn]] void fail_config(std::string cause, std::string hint = {});
// Without a hint of its own: where the variable is explained, or who sets it.
[[noreturn]] void fail_variable(std::string_view name, std::string_view value,
                                std::string_view allowed, std::string hint = {});

// All of text as a decimal number, or nothing. No sign, no blanks, no "0x".
std::optional<std::int64_t> parse_number(std::string_view text) noexcept;

// Throws Error{bad_config} when the variable is missing: launcher says that it should be there.
std::string required_text(const Environment& environment, std::string_view name,
                          std::string_view launcher);
// Nothing where the variable is missing.
std::optional<std::int64_t> number(const Environment& environment, std::string_view name,
                                   std::int64_t least, std::int64_t most);
std::int64_t required_number(const Environment& environment, std::string_view name,
                             std::int64_t least, std::int64_t most, std::string_view launcher);

}  // namespace qpmesh::bootstrap
