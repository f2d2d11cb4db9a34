#include "bootstrap/environment.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <charconv>

#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = ::secure_getenv(std::string{name}.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

void fail_config(std::string cause, std::string hint) {
  throw Error{{.code = ErrorCode::bad_config,
               .operation = "init",
               .cause = std::move(cause),
               .hint = std::move(hint)}};
}

void fail_variable(std::string_view name, std::string_view value, std::string_view allowed,
                   std::string hint) {
  fail_config(fmt::format("{} is \"{}\"; allowed is {}", name, value.substr(0, 80), allowed),
              std::move(hint));
}

std::optional<std::int64_t> parse_number(std::string_view text) noexcept {
  std::int64_t value = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string Variables::required_text(std::string_view name, std::string_view launcher) const {
  if (auto value = text(name)) return *std::move(value);
  fail_config(fmt::format("{} is not set, although the environment is that of {}", name, launcher));
}

std::optional<std::int64_t> Variables::number(std::string_view name, std::int64_t least,
                                              std::int64_t most) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_number(*value);
  if (!parsed || *parsed < least || *parsed > most)
    fail_variable(name, *value, fmt::format("a number from {} to {}", least, most));
  return parsed;
}

std::int64_t Variables::required_number(std::string_view name, std::int64_t least, std::int64_t most,
                                        std::string_view launcher) const {
  if (const auto value = number(name, least, most)) return *value;
  fail_config(
      fmt::format("{} is not set, although the environment is that of {}; allowed is a number from {} to {}",
                  name, launcher, least, most));
}

}  // namespace qpmesh::bootstrap
