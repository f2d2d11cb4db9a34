// SPDX-License-Identifier: MIT
#include "qpmesh/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>

#include "base/errors.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh {
namespace {

std::string describe(const ErrorDetail& detail) {
  std::string text = fmt::format("qpmesh: {}", to_string(detail.code));
  if (!detail.operation.empty()) text += fmt::format(" in {}", detail.operation);
  if (detail.peer != no_peer) text += fmt::format(", rank {}", detail.peer);
  text += fmt::format(": {}", detail.cause);
  const std::string reason = base::describe_errno(detail.system_error);
  if (detail.system_error != 0 && detail.cause.find(reason) == std::string::npos)
    text += fmt::format(" ({})", reason);
  if (!detail.hint.empty()) text += fmt::format(" [hint: {}]", detail.hint);
  return text;
}

}  // namespace

std::string_view to_string(ErrorCode code) noexcept {
  constexpr std::array<std::string_view, 12> names{
      "bad_argument", "bad_config",  "no_resource", "authentication", "mismatch", "timeout",
      "peer_dead",    "link_failed", "truncated",   "aborted",        "corrupt",  "internal"};
  static_assert(names.size() == static_cast<std::size_t>(ErrorCode::internal) + 1);
  return names[static_cast<std::size_t>(code)];
}

Error::Error(ErrorDetail detail)
    : std::runtime_error{describe(detail)},
      detail_{std::make_shared<const ErrorDetail>(std::move(detail))} {}

void base::throw_formatted(ErrorDetail what, std::string_view operation, std::string_view hint,
                           fmt::string_view cause, fmt::format_args values) {
  what.operation = operation;
  what.cause = fmt::vformat(cause, values);
  what.hint = hint;
  throw Error{std::move(what)};
}

std::string base::text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "no std::exception";
  }
}

std::string base::hint_for_descriptors(int error) {
  if (error == ENFILE)
    return "the host is out of open files: raise fs.file-max, or end other programs";
  if (error != EMFILE) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("raise the limit on open files (ulimit -n): this process may have {}",
                     limit.rlim_cur);
}

// As many as a device, its events and what libraries read of it have open at a time.
constexpr std::size_t descriptors_of_a_device = 8;

int base::descriptors_error() {
  std::array<UniqueFd, descriptors_of_a_device> few;
  for (UniqueFd& each : few) {
    each.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!each) return errno == EMFILE || errno == ENFILE ? errno : 0;
  }
  return 0;
}

}  // namespace qpmesh
