#include "bootstrap/star.hpp"

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "bootstrap/init_error.hpp"

namespace qpmesh::bootstrap {

std::unique_ptr<Bootstrap> make_star(const StarSettings& settings, Endpoint endpoint,
                                     const base::System& system, const base::Log& log) {
  const auto make_half = settings.rank == 0 ? make_star_root : make_star_rank;
  return make_half(settings, std::move(endpoint), system, log);
}

std::vector<Blob> Star::all_gather(BlobView mine, Deadline deadline) {
  if (broken_) throw Error{*broken_};
  if (mine.size() > blob_bytes_max) {
    fail_init(
        ErrorCode::bad_argument, no_peer,
        fmt::format("a blob of {} bytes; at most {} are allowed", mine.size(), blob_bytes_max),
        "all_gather is for addresses and keys, not for data");
  }
  started_ = system_.now();
  try {
    return gather(mine, deadline);
  } catch (const Error& error) {
    broken_ = error;
    throw;
  }
}

std::string Star::hint_for_missing() const {
  return fmt::format("{} says {} ranks: was every one started? They must {}",
                     settings_.size_variable, settings_.size, endpoint_.terms);
}

long long Star::elapsed_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(system_.now() - started_).count();
}

Blob encode_everyones(const std::vector<Blob>& blobs) {
  base::ByteWriter writer;
  for (const Blob& blob : blobs) writer.put_bytes(blob);
  return std::move(writer).blob();
}

std::optional<std::vector<Blob>> decode_everyones(BlobView payload, int size) {
  base::ByteReader reader{payload};
  std::vector<Blob> blobs;
  blobs.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const BlobView bytes = reader.get_bytes();
    if (bytes.size() > blob_bytes_max) return std::nullopt;
    blobs.emplace_back(bytes.begin(), bytes.end());
  }
  if (!reader.finished()) return std::nullopt;
  return blobs;
}

}  // namespace qpmesh::bootstrap
