#include "bootstrap/environment.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include "base/text.hpp"
#include "bootstrap/init_error.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

// What to do about a variable, by whose it is.
std::string hint_for(std::string_view name) {
  if (name.starts_with("QPMESH_")) return "docs/options.md lists every variable";
  return "the launcher sets it; where QPMESH_RANK and QPMESH_SIZE are set, no launcher is asked";
}

[[noreturn]] void fail_missing(std::string_view name, std::string_view launcher,
                               std::string_view allowed) {
  fail_config(fmt::format("{} is not set, although the environment is that of {}; allowed is {}",
                          name, launcher, allowed),
              name.starts_with("QPMESH_")
                  ? "QPMESH_RANK and QPMESH_SIZE are set together, or neither"
                  : hint_for(name));
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = ::secure_getenv(std::string{name}.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

void fail_config(std::string cause, std::string hint) {
  fail_init(ErrorCode::bad_config, no_peer, std::move(cause), std::move(hint));
}

void fail_variable(std::string_view name, std::string_view value, std::string_view allowed,
                   std::string hint) {
  fail_config(fmt::format("{} is \"{}\"; allowed is {}", name, value.substr(0, 80), allowed),
              hint.empty() ? hint_for(name) : std::move(hint));
}

std::optional<std::int64_t> parse_number(std::string_view text) noexcept {
  return text.starts_with('-') ? std::nullopt : base::parse_integer(text, false);
}

std::string required_text(const Environment& environment, std::string_view name,
                          std::string_view launcher) {
  if (auto value = environment(name)) return *std::move(value);
  fail_missing(name, launcher, "a word");
}

std::optional<std::int64_t> number(const Environment& environment, std::string_view name,
                                   std::int64_t least, std::int64_t most) {
  const auto value = environment(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_number(*value);
  if (!parsed || *parsed < least || *parsed > most)
    fail_variable(name, *value, fmt::format("a number from {} to {}", least, most));
  return parsed;
}

std::int64_t required_number(const Environment& environment, std::string_view name,
                             std::int64_t least, std::int64_t most, std::string_view launcher) {
  if (const auto value = number(environment, name, least, most)) return *value;
  fail_missing(name, launcher, fmt::format("a number from {} to {}", least, most));
}

}  // namespace qpmesh::bootstrap
