#include "qpmesh/mpi.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

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
  if (communicator_ != MPI_COMM_NULL && finalised == 0) MPI_Comm_free(&communicator_);
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

std::vector<Blob> MpiBootstrap::all_gather(BlobView mine, Deadline) {
  check_running();
  const auto ranks = static_cast<std::size_t>(size());
  const bool fits = mine.size() <= bootstrap::blob_bytes_max;
  const int my_bytes = fits ? static_cast<int>(mine.size()) : too_long;
  std::vector<int> bytes(ranks);
  check(MPI_Allgather(&my_bytes, 1, MPI_INT, bytes.data(), 1, MPI_INT, communicator_),
        "MPI_Allgather");

  std::vector<int> offsets(ranks);
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
  Blob everyones(total);
  check(MPI_Allgatherv(mine.data(), my_bytes, MPI_BYTE, everyones.data(), bytes.data(),
                       offsets.data(), MPI_BYTE, communicator_),
        "MPI_Allgatherv");
  std::vector<Blob> blobs;
  blobs.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = everyones.begin() + offsets[rank];
    blobs.emplace_back(begin, begin + bytes[rank]);
  }
  return blobs;
}

}  // namespace qpmesh
