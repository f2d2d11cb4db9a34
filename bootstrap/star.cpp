#include "bootstrap/star.hpp"

#include <fmt/format.h>

namespace qpmesh::bootstrap {

std::string hint_for_missing(const StarSettings& settings, const Endpoint& endpoint) {
  return fmt::format("{} says {} ranks: was every one started? They must {}",
                     settings.size_variable, settings.size, endpoint.terms());
}

Star::Star(const StarSettings& settings, std::unique_ptr<Endpoint> endpoint,
           const base::System& system, const base::Log& log)
    : settings_{settings}, endpoint_{std::move(endpoint)} {
  const auto make_half = settings_.rank == 0 ? make_star_root : make_star_rank;
  half_ = make_half(settings_, *endpoint_, system, log);
}

std::vector<Blob> Star::all_gather(BlobView mine, Deadline deadline) {
  if (broken_) throw Error{*broken_};
  if (mine.size() > blob_bytes_max) {
    throw Error{{.code = ErrorCode::bad_argument,
                 .operation = "init",
                 .cause = fmt::format("a blob of {} bytes; at most {} are allowed", mine.size(),
                                      blob_bytes_max),
                 .hint = "all_gather is for addresses and keys, not for data"}};
  }
  try {
    return half_->all_gather(mine, deadline);
  } catch (const Error& error) {
    broken_ = error;
    throw;
  }
}

}  // namespace qpmesh::bootstrap
