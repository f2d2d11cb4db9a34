// SPDX-License-Identifier: MIT
#include "bootstrap/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>

#include "base/bytes.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/init_error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::uint64_t report_magic = 0x6873656d7071'0004U;

enum class Verdict : std::uint8_t { fine, cause, consequence };

[[noreturn]] void corrupt(int rank, std::size_t bytes) {
  fail_corrupt_blob(
      rank, fmt::format("the {} bytes of rank {} are no report of a start-up", bytes, rank));
}

Report read_one(BlobView blob, int rank, int size) {
  base::ByteReader reader{blob};
  std::uint64_t magic = 0;
  Verdict verdict{};
  Blob error;
  Report report;
  reader.get_fields(magic, verdict, error, report.result);
  if (magic != report_magic || verdict > Verdict::consequence || !reader.finished())
    corrupt(rank, blob.size());
  if (verdict == Verdict::fine) return report;
  report.failure = {.detail = decode_error(error, rank),
                    .consequence = verdict == Verdict::consequence};
  const int peer = report.failure->detail.peer;
  if (peer < no_peer || peer >= size) corrupt(rank, blob.size());
  return report;
}

ErrorDetail detail_of_current_exception(int rank) {
  ErrorDetail detail{.code = ErrorCode::internal, .operation = "init"};
  try {
    throw;
  } catch (const Error& error) {
    detail = error.detail();
  } catch (const std::bad_alloc&) {
    detail.code = ErrorCode::no_resource;
    detail.cause = "out of memory";
  } catch (const std::exception& error) {
    detail.cause = error.what();
  }
  if (detail.peer == no_peer) detail.peer = rank;
  return detail;
}

}  // namespace

void Report::fail(ErrorDetail detail, bool consequence) {
  if (!failure || (failure->consequence && !consequence))
    failure = {.detail = std::move(detail), .consequence = consequence};
}

void Report::attempt(int rank, const std::function<void()>& step) {
  try {
    step();
  } catch (...) {
    ErrorDetail detail = detail_of_current_exception(rank);
    const bool consequence = detail.code == ErrorCode::timeout;
    fail(std::move(detail), consequence);
  }
}

void require_blob_per_rank(std::span<const Blob> blobs, int size) {
  if (blobs.size() == static_cast<std::size_t>(size)) return;
  fail_init(ErrorCode::mismatch, no_peer,
            fmt::format("the bootstrap says {} ranks and gathered {} blobs", size, blobs.size()),
            "all_gather must return one blob per rank");
}

Blob encode(const Report& report) {
  const Verdict verdict = !report.failure               ? Verdict::fine
                          : report.failure->consequence ? Verdict::consequence
                                                        : Verdict::cause;
  const Blob error = report.failure ? encode_error(report.failure->detail) : Blob{};
  base::ByteWriter writer;
  writer.put_fields(report_magic, verdict, error, report.result);
  return std::move(writer).blob();
}

std::vector<Report> read_reports(std::span<const Blob> blobs, int size) {
  require_blob_per_rank(blobs, size);
  std::vector<Report> reports;
  for (const Blob& blob : blobs)
    reports.push_back(read_one(blob, static_cast<int>(reports.size()), size));
  return reports;
}

void throw_agreed_failure(std::span<const Report> reports) {
  for (const bool consequence : {false, true}) {
    const auto found = std::ranges::find_if(reports, [&](const Report& report) {
      return report.failure && report.failure->consequence == consequence;
    });
    if (found == reports.end()) continue;
    ErrorDetail detail = found->failure->detail;
    detail.cause += fmt::format(" (reported by rank {})", found - reports.begin());
    throw Error{std::move(detail)};
  }
}

Deadline leaving_time_to_agree(const base::System& system, Deadline deadline) {
  return deadline == no_deadline ? deadline : deadline - (deadline - system.now()) / 4;
}

std::vector<Blob> agree(Bootstrap& bootstrap, Deadline deadline, const Report& mine) {
  Blob blob = encode(mine);
  if (blob.size() > blob_bytes_max) {
    Report too_long;
    too_long.fail({.code = ErrorCode::no_resource,
                   .operation = "init",
                   .cause = fmt::format(
                       "what this rank tells the others has {} bytes; at most {} are allowed",
                       blob.size(), blob_bytes_max)});
    blob = encode(too_long);
  }
  std::vector<Report> reports =
      read_reports(bootstrap.all_gather(blob, deadline), bootstrap.size());
  throw_agreed_failure(reports);
  std::vector<Blob> results;
  results.reserve(reports.size());
  for (Report& report : reports) results.push_back(std::move(report.result));
  return results;
}

std::vector<Blob> agree(Bootstrap& bootstrap, Deadline deadline,
                        const std::function<Blob()>& step) {
  Report mine;
  mine.attempt(bootstrap.rank(), [&] { mine.result = step(); });
  return agree(bootstrap, deadline, mine);
}

}  // namespace qpmesh::bootstrap
