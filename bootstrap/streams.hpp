// SPDX-License-Identifier: MIT
// Connected streams between ranks that have heard of each other, once for each pair: the higher
// rank calls, the lower one listens. Both sides prove by the handshake (handshake.hpp) that they
// know the listener's key; the caller's hello says which rank it is. The listener counts the stream
// when the caller has acknowledged its welcome: until then a caller whose connection broke may call
// again. Descriptors may travel with the last two words.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/endpoint.hpp"
#include "bootstrap/frame_stream.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {

using Descriptors = std::array<base::UniqueFd, 2>;

enum class StreamKind : std::uint8_t {
  local,  // a Unix socket, whose kernel says which process it is: of this place
  tcp,
  either,  // a Unix socket first, of any place that has this network; the key alone says who it is
};

// Another rank, and how it is reached.
struct StreamPeer {
  int rank = -1;
  pid_t pid = 0;
  std::string host;
  StreamKind kind = StreamKind::tcp;
  std::string listener{};                  // not tcp: the name of a lower rank's Unix socket
  std::vector<HostPort> addresses{};       // not local: where it listens, tried in turn
  std::array<int, 2> descriptors{-1, -1};  // local: what goes with our words to it
};

struct StreamSettings {
  int rank = 0;  // this one
  int size = 0;  // of all ranks
  pid_t pid = 0;
  std::string host;
  std::function<Key(int rank)> key;  // what calls to that rank are proven with
  ChooseSource source{};
  std::int64_t handshake_timeout_ms = 2'000;
  Deadline deadline{};
  base::StartCheck check{};  // of a start
};

// Gets each stream as soon as both sides have proven themselves, with the descriptors that came. It
// may throw Error: this pair fails then, as this rank reports it.
using TakeStream =
    std::function<void(const StreamPeer& peer, FrameStream& stream, Descriptors& descriptors)>;

// Connects with every one of the peers, who do the same, and reports what went wrong: never throws
// for the doings of a peer, but what settings.check throws. listeners: all at which this rank is
// called. Goes on with the others when one fails, so that their ends of it do not fail too.
// Strangers are dropped.
void connect_streams(const StreamSettings& settings, std::vector<base::UniqueFd> listeners,
                     std::span<const StreamPeer> peers, const TakeStream& take, Report& report,
                     const base::System& system, const base::Log& log);

// Gets why there will be no stream with that peer.
using FailStream = std::function<void(int peer, ErrorDetail detail)>;

// The same while a job runs, pair by pair, when one is wanted. Only the higher rank of a pair
// calls: where both want a stream at once, the lower one's wish comes to the higher one as a second
// one, and changes nothing. One thread at a time.
class StreamsOnDemand {
 public:
  // settings.deadline means nothing: each call has one; settings.check is never called. system and
  // log outlive it.
  StreamsOnDemand(StreamSettings settings, std::vector<base::UniqueFd> listeners,
                  std::vector<StreamPeer> peers, TakeStream take, FailStream fail,
                  const base::System& system, const base::Log& log);
  ~StreamsOnDemand();

  // Calls a lower rank, once. It ends in take or fail, from serve: a peer whose addresses refuse is
  // tried for more than 200 ms, one that keeps silent until then.
  void call(int peer, Deadline until);
  // Goes on with the calls of both directions; never blocks. True: some are under way. Throws
  // Error{no_resource}.
  bool serve();
  // Readable when serve has something to do, as of the last arm().
  int wake_descriptor() const noexcept;
  // Before a sleep on it. Returns when serve is to be called at the latest.
  Deadline arm();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// A system call of ours failed while linking with a rank. Throws Error{no_resource}.
[[noreturn]] void fail_linking(const char* call, int error, int peer);

}  // namespace qpmesh::bootstrap
