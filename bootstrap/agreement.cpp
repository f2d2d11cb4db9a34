#include "bootstrap/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>

#include "base/bytes.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::uint64_t outcome_magic = 0x6873656d7071'0002U;
constexpr std::uint32_t addresses_max = 64;  // far more than a rank listens at
constexpr std::size_t text_bytes_max =
    2000;  // of each text in a report: the blob stays far below what a bootstrap carries

enum class Verdict : std::uint8_t { fine, cause, consequence };

std::string_view shortened(std::string_view text) { return text.substr(0, text_bytes_max); }

[[noreturn]] void corrupt(int rank, std::size_t bytes) {
  throw Error{
      {.code = ErrorCode::corrupt,
       .peer = rank,
       .operation = "init",
       .cause = fmt::format("the {} bytes of rank {} are no outcome of a meeting", bytes, rank),
       .hint = "the bootstrap must hand every rank's blob to every rank as it is, in rank order"}};
}

Outcome read_one(BlobView blob, int rank, int size) {
  base::ByteReader reader{blob};
  if (reader.get<std::uint64_t>() != outcome_magic) corrupt(rank, blob.size());
  Outcome outcome;
  const auto count = reader.get<std::uint32_t>();
  if (count >= static_cast<std::uint32_t>(size)) corrupt(rank, blob.size());
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const int peer = reader.get<std::int32_t>();
    const int above = outcome.proved.empty() ? 0 : outcome.proved.back() + 1;
    if (peer < above || peer >= size || peer == rank) corrupt(rank, blob.size());
    outcome.proved.push_back(peer);
  }
  outcome.reads_neighbours = reader.get<std::uint8_t>() != 0;
  const auto addresses = reader.get<std::uint32_t>();
  if (addresses > addresses_max) corrupt(rank, blob.size());
  for (std::uint32_t i = 0; i < addresses && reader.ok(); ++i) {
    HostPort& address = outcome.listens_at.emplace_back();
    address.host = reader.get_text();
    address.port = reader.get<std::uint16_t>();
    if (!tcp::numeric(address)) corrupt(rank, blob.size());  // names would be looked up
  }
  const auto verdict = reader.get<std::uint8_t>();
  if (verdict > static_cast<std::uint8_t>(Verdict::consequence)) corrupt(rank, blob.size());
  if (verdict != static_cast<std::uint8_t>(Verdict::fine)) {
    Failure failure;
    failure.consequence = verdict == static_cast<std::uint8_t>(Verdict::consequence);
    const auto code = reader.get<std::uint8_t>();
    failure.detail.peer = reader.get<std::int32_t>();
    failure.detail.system_error = reader.get<std::int32_t>();
    failure.detail.operation = reader.get_text();
    failure.detail.cause = reader.get_text();
    failure.detail.hint = reader.get_text();
    if (code > static_cast<std::uint8_t>(ErrorCode::internal)) corrupt(rank, blob.size());
    if (failure.detail.peer < no_peer || failure.detail.peer >= size) corrupt(rank, blob.size());
    failure.detail.code = static_cast<ErrorCode>(code);
    outcome.failure = std::move(failure);
  }
  if (!reader.finished()) corrupt(rank, blob.size());
  return outcome;
}

bool proved(const Outcome& outcome, int peer) {
  return std::binary_search(outcome.proved.begin(), outcome.proved.end(), peer);
}

}  // namespace

Failure Failure::from_current_exception(int rank) {
  Failure failure;
  try {
    throw;
  } catch (const Error& error) {
    failure.detail = error.detail();
  } catch (const std::bad_alloc&) {
    failure.detail = {
        .code = ErrorCode::no_resource, .operation = "init", .cause = "out of memory", .hint = {}};
  } catch (const std::exception& error) {
    failure.detail = {
        .code = ErrorCode::internal, .operation = "init", .cause = error.what(), .hint = {}};
  }
  if (failure.detail.peer == no_peer) failure.detail.peer = rank;
  return failure;
}

void Outcome::fail(Failure reported) {
  if (!failure || (failure->consequence && !reported.consequence)) failure = std::move(reported);
}

void Outcome::fail(int peer, ErrorCode code, std::string cause, int error, std::string hint,
                   bool consequence) {
  fail({.detail = {.code = code,
                   .peer = peer,
                   .operation = "init",
                   .cause = std::move(cause),
                   .system_error = error,
                   .hint = std::move(hint)},
        .consequence = consequence});
}

Blob encode(const Outcome& outcome) {
  base::ByteWriter writer;
  writer.put(outcome_magic).put(static_cast<std::uint32_t>(outcome.proved.size()));
  for (const int peer : outcome.proved) writer.put(std::int32_t{peer});
  writer.put(static_cast<std::uint8_t>(outcome.reads_neighbours ? 1 : 0));
  writer.put(static_cast<std::uint32_t>(outcome.listens_at.size()));
  for (const HostPort& address : outcome.listens_at)
    writer.put_text(address.host).put(address.port);
  if (!outcome.failure) return std::move(writer.put(Verdict::fine)).blob();
  const Failure& failure = *outcome.failure;
  writer.put(failure.consequence ? Verdict::consequence : Verdict::cause);
  writer.put(failure.detail.code)
      .put(std::int32_t{failure.detail.peer})
      .put(std::int32_t{failure.detail.system_error});
  writer.put_text(shortened(failure.detail.operation));
  writer.put_text(shortened(failure.detail.cause));
  writer.put_text(shortened(failure.detail.hint));
  return std::move(writer).blob();
}

std::vector<Outcome> read_outcomes(std::span<const Blob> blobs, int size) {
  std::vector<Outcome> outcomes;
  for (const Blob& blob : blobs)
    outcomes.push_back(read_one(blob, static_cast<int>(outcomes.size()), size));
  if (outcomes.size() == static_cast<std::size_t>(size)) return outcomes;
  throw Error{{.code = ErrorCode::mismatch,
               .operation = "init",
               .cause = fmt::format("the bootstrap says {} ranks and gathered {} blobs", size,
                                    blobs.size()),
               .hint = "all_gather must return one blob per rank"}};
}

void throw_agreed_failure(std::span<const Outcome> outcomes) {
  const auto first = [&](bool consequence) {
    return std::find_if(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) {
      return outcome.failure && outcome.failure->consequence == consequence;
    });
  };
  auto found = first(false);
  if (found == outcomes.end()) found = first(true);
  if (found == outcomes.end()) return;
  ErrorDetail detail = found->failure->detail;
  detail.cause += fmt::format(" (reported by rank {})", found - outcomes.begin());
  throw Error{std::move(detail)};
}

std::vector<int> number_nodes(std::span<const Outcome> outcomes) {
  const int size = static_cast<int>(outcomes.size());
  std::vector<int> node_of;
  int nodes = 0;
  for (int rank = 0; rank < size; ++rank) {
    const Outcome& mine = outcomes[static_cast<std::size_t>(rank)];
    const int lowest = mine.proved.empty() ? rank : std::min(rank, mine.proved.front());
    node_of.push_back(lowest == rank ? nodes++ : node_of[static_cast<std::size_t>(lowest)]);
    for (int other = 0; other < rank; ++other) {
      const bool same_node = node_of[static_cast<std::size_t>(other)] == node_of.back();
      if (same_node == proved(mine, other) &&
          same_node == proved(outcomes[static_cast<std::size_t>(other)], rank))
        continue;
      throw Error{{.code = ErrorCode::mismatch,
                   .peer = rank,
                   .operation = "init",
                   .cause = fmt::format("ranks {} and {} disagree on whether they share memory",
                                        other, rank),
                   .hint = "QPMESH_LOG=info says what each rank saw of its neighbours"}};
    }
  }
  return node_of;
}

std::vector<Blob> agree(Bootstrap& bootstrap, Deadline deadline,
                        const std::function<Blob()>& step) {
  Outcome outcome;
  Blob result;
  try {
    result = step();
  } catch (...) {
    outcome.fail(Failure::from_current_exception(bootstrap.rank()));
  }
  const auto blobs = bootstrap.all_gather(
      base::ByteWriter{}.put_bytes(encode(outcome)).put_bytes(result).blob(), deadline);
  std::vector<Blob> outcomes;
  std::vector<Blob> results;
  for (const Blob& blob : blobs) {
    base::ByteReader reader{blob};
    const BlobView its_outcome = reader.get_bytes();
    const BlobView its_result = reader.get_bytes();
    if (!reader.finished()) corrupt(static_cast<int>(results.size()), blob.size());
    outcomes.emplace_back(its_outcome.begin(), its_outcome.end());
    results.emplace_back(its_result.begin(), its_result.end());
  }
  throw_agreed_failure(read_outcomes(outcomes, bootstrap.size()));
  return results;
}

}  // namespace qpmesh::bootstrap
