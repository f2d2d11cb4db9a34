// SPDX-License-Identifier: MIT
#include "qpmesh/mpi.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <thread>

#include "bootstrap/init_error.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/star.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh {
namespace {

using bootstrap::fail_init;

// -1 as a length says "my blob is too long": all ranks learn it in the same call, and none waits
// for the others in vain.
constexpr int too_long = -1;

void check(int result, std::string_view call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail_init(ErrorCode::internal, no_peer,
            fmt::format("{} failed: {}", call,
                        std::string_view{text.data(), static_cast<std::size_t>(length)}),
            "MPI itself is in trouble: look at what it says");
}

void check_running() {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised == 0)
    fail_init(ErrorCode::bad_argument, no_peer, "MPI is not initialised", "call MPI_Init first");
  if (finalised != 0)
    fail_init(ErrorCode::bad_argument, no_peer, "MPI is finalised already",
              "call MPI_Finalize after init");
}

// Of a rank's "I have come".
constexpr int tag = 0;

// MPI makes progress in calls only; they end within some steps of this once every rank has come.
constexpr std::chrono::microseconds nap_max{200};

// What an all_gather has under way. MPI reads and writes it until its requests have ended.
struct Gathering {
  std::vector<MPI_Request> requests;  // none: it has ended
  int my_bytes;
  Blob mine;
  std::vector<int> bytes;
  std::vector<int> offsets;
  Blob everyones;
  Gathering* given_up_before = nullptr;

  MPI_Request* next() { return &requests.emplace_back(MPI_REQUEST_NULL); }
};

// One that has not ended stays as long as the process lives.
std::atomic<Gathering*> last_given_up{nullptr};
struct EndGathering {
  void operator()(Gathering* gathering) const noexcept {
    if (gathering->requests.empty()) delete gathering;
    else gathering->given_up_before = last_given_up.exchange(gathering);
  }
};

std::int64_t ms_since(std::chrono::steady_clock::time_point start) {
  using std::chrono::steady_clock;
  return std::chrono::round<std::chrono::milliseconds>(steady_clock::now() - start).count();
}

// Whether all have ended before the deadline.
bool wait_for(std::vector<MPI_Request>& requests, Deadline deadline) {
  for (std::chrono::microseconds nap{1};; nap = std::min(2 * nap, nap_max)) {
    int have_ended = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &have_ended,
                      MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (have_ended != 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(nap);
  }
}

// The launcher of one MPI starts programs of another as worlds of one, without a word.
void check_not_alone_among_many(MPI_Comm communicator) {
  int size = 0;
  check(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  int relation = MPI_UNEQUAL;
  check(MPI_Comm_compare(communicator, MPI_COMM_WORLD, &relation), "MPI_Comm_compare");
  if (size > 1 || relation != MPI_IDENT) return;  // who asks for MPI_COMM_SELF wants to be alone
  const detail::ClaimedSize claimed = detail::claimed_size();
  if (claimed.size == 1) return;
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string_view library{text.data(), static_cast<std::size_t>(length)};
  library = library.substr(0, library.find_first_of(",\n"));
  fail_init(ErrorCode::bad_config, no_peer,
            fmt::format("{} says {} ranks, but to {} this process is alone", claimed.variable,
                        claimed.size, library),
            "start the program with the mpirun of the MPI that it is linked with");
}

}  // namespace

MpiBootstrap::MpiBootstrap(MPI_Comm communicator) {
  check_running();
  if (communicator == MPI_COMM_NULL)
    fail_init(ErrorCode::bad_argument, no_peer, "the communicator is MPI_COMM_NULL",
              "only its members may start from it");
  int between_groups = 0;
  check(MPI_Comm_test_inter(communicator, &between_groups), "MPI_Comm_test_inter");
  if (between_groups != 0)
    fail_init(ErrorCode::bad_argument, no_peer, "the communicator is an inter-communicator",
              "merge it first");
  check_not_alone_among_many(communicator);
  check(MPI_Comm_dup(communicator, &communicator_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
}

MpiBootstrap::~MpiBootstrap() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (communicator_ != MPI_COMM_NULL && finalised == 0 && !is_under_way_)
    MPI_Comm_free(&communicator_);
}

int MpiBootstrap::rank() const {
  int rank = 0;
  check(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
  return rank;
}

int MpiBootstrap::size() const {
  int size = 0;
  check(MPI_Comm_size(communicator_, &size), "MPI_Comm_size");
  return size;
}

// At rank 0, which every other rank tells that it has come: only so is it known who has not.
void MpiBootstrap::wait_for_ranks(Deadline deadline) {
  const auto started = std::chrono::steady_clock::now();
  std::vector<MPI_Request> arrivals(static_cast<std::size_t>(size()) - 1);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    check(
        MPI_Irecv(nullptr, 0, MPI_BYTE, static_cast<int>(i) + 1, tag, communicator_, &arrivals[i]),
        "MPI_Irecv");
  }
  if (wait_for(arrivals, deadline)) return;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    int has_come = 0;
    check(MPI_Test(&arrivals[i], &has_come, MPI_STATUS_IGNORE), "MPI_Test");
    if (has_come != 0) continue;
    missing.push_back(i + 1);
    MPI_Cancel(&arrivals[i]);
    MPI_Request_free(&arrivals[i]);
  }
  if (missing.empty()) return;  // the last ones came between the two looks
  const std::size_t shown = std::min<std::size_t>(missing.size(), 16);
  fail_timeout(fmt::format("rank{} {}{} of {} missing after {} ms", missing.size() == 1 ? "" : "s",
                           fmt::join(std::span{missing}.first(shown), ", "),
                           shown < missing.size() ? ", …" : "", size(), ms_since(started)));
}

void MpiBootstrap::fail_timeout(const std::string& cause) {
  fail_init(ErrorCode::timeout, no_peer, cause,
            "look at what the ranks that did not come have said, and whether each calls init");
}

std::vector<Blob> MpiBootstrap::all_gather(BlobView mine, Deadline deadline) {
  check_running();
  if (is_under_way_) fail_timeout("an all_gather before did not end in time");
  const auto started = std::chrono::steady_clock::now();
  const auto ranks = static_cast<std::size_t>(size());
  const bool fits = mine.size() <= bootstrap::blob_bytes_max;
  const std::unique_ptr<Gathering, EndGathering> gathering{new Gathering};
  gathering->my_bytes = fits ? static_cast<int>(mine.size()) : too_long;
  if (fits) gathering->mine.assign(mine.begin(), mine.end());
  std::vector<int>& bytes = gathering->bytes;
  bytes.resize(ranks);
  std::vector<int>& offsets = gathering->offsets;
  offsets.resize(ranks);
  const auto finish = [&](std::string_view call) {
    if (!wait_for(gathering->requests, deadline))
      fail_timeout(fmt::format("{} has not ended after {} ms", call, ms_since(started)));
    gathering->requests.clear();
    is_under_way_ = false;
  };
  is_under_way_ = true;
  if (rank() == 0) wait_for_ranks(deadline);
  else
    check(MPI_Isend(nullptr, 0, MPI_BYTE, 0, tag, communicator_, gathering->next()), "MPI_Isend");
  check(MPI_Iallgather(&gathering->my_bytes, 1, MPI_INT, bytes.data(), 1, MPI_INT, communicator_,
                       gathering->next()),
        "MPI_Iallgather");
  finish("MPI_Iallgather");

  std::size_t total = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (bytes[rank] < 0) {
      const std::string cause = fits ? fmt::format("rank {}'s blob is longer than {} bytes", rank,
                                                   bootstrap::blob_bytes_max)
                                     : fmt::format("a blob of {} bytes; at most {} are allowed",
                                                   mine.size(), bootstrap::blob_bytes_max);
      fail_init(ErrorCode::bad_argument, static_cast<int>(rank), cause,
                "all_gather is for addresses and keys, not for data");
    }
    offsets[rank] = static_cast<int>(total);
    total += static_cast<std::size_t>(bytes[rank]);
    if (total > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      fail_init(ErrorCode::no_resource, no_peer,
                fmt::format("the blobs of {} ranks exceed MPI's 2 GiB per call", ranks),
                "meet over TCP: QPMESH_ROOT=host:port");
    }
  }
  Blob& everyones = gathering->everyones;
  everyones.resize(total);
  is_under_way_ = true;
  check(MPI_Iallgatherv(gathering->mine.data(), gathering->my_bytes, MPI_BYTE, everyones.data(),
                        bytes.data(), offsets.data(), MPI_BYTE, communicator_, gathering->next()),
        "MPI_Iallgatherv");
  finish("MPI_Iallgatherv");
  std::vector<Blob> blobs;
  blobs.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = everyones.begin() + offsets[rank];
    blobs.emplace_back(begin, begin + bytes[rank]);
  }
  return blobs;
}

}  // namespace qpmesh
