// Errors of a start-up.
#pragma once

#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <utility>

#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

inline ErrorDetail init_error(ErrorCode code, int peer, std::string cause, std::string hint = {},
                              int system_error = 0) {
  return {.code = code,
          .peer = peer,
          .operation = "init",
          .cause = std::move(cause),
          .system_error = system_error,
          .hint = std::move(hint)};
}

[[noreturn]] inline void fail_init(ErrorCode code, int peer, std::string cause,
                                   std::string hint = {}, int system_error = 0) {
  throw Error{init_error(code, peer, std::move(cause), std::move(hint), system_error)};
}

// A hint for the errno of a call that makes a descriptor, with the limit; empty for other errors.
inline std::string hint_for_descriptors(int error) {
  if (error == ENFILE)
    return "the host is out of open files: raise fs.file-max, or end other programs";
  if (error != EMFILE) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("raise the limit on open files (ulimit -n): this process may have {}",
                     limit.rlim_cur);
}

// What a rank gathered from another makes no sense.
[[noreturn]] inline void fail_corrupt_blob(int rank, std::string cause) {
  fail_init(ErrorCode::corrupt, rank, std::move(cause),
            "the bootstrap must hand every rank's blob to every rank as it is, in rank order");
}

}  // namespace qpmesh::bootstrap
