// SPDX-License-Identifier: MIT
// What the qpmesh-run that a user started (the launcher) and those of other hosts say to each
// other.
//
//   launcher            host
//   plan        →                   what to start, and where
//               ←  here             the directory is there, and a port for the ranks to meet at
//   start       →                   when every host is here
//   signal, input, failed, ended →  as they come
//               ←  output, errors, input_taken, ended, settled, refused
//               ←  alive            now and then: so TCP notices, also of silent ranks, that the
//                                   launcher's host has gone
//               ←  done             all of its ranks have ended, and what they said was sent
//
// On each host two processes do this. The job (job.hpp) starts and ends ranks as it does without a
// launcher; the courier (courier.hpp) is the other end of the pipes that it has for a terminal,
// and carries what the two say: frames to and from the launcher, packets to and from the job.
// The end of the wire is the end of the launcher, and asks the ranks to end.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/owned.hpp"
#include "tools/run/rank_process.hpp"

namespace qpmesh::run {

enum class Word : std::uint8_t {
  plan,         // JobPlan, in wire order
  here,         // HostHere
  start,        // where the ranks meet: "host:port", empty for one host
  signal,       // its number, for all ranks
  input,        // for rank 0; nothing: its end
  input_taken,  // rank 0 has room for more
  output,       // what ranks wrote to stdout
  errors,       // and to stderr
  ended,        // RankEnd: of a rank of this host, or to a host of one elsewhere
  failed,       // a rank of another host has failed: end those that do not end by themselves
  settled,      // who failed first on this host: its rank, or -1
  refused,      // code and text: the job cannot be, or cannot go on, here
  alive,
  done,
};

struct Message {
  Word word = Word::done;
  Blob payload;
};

// What a host says of itself.
struct HostHere {
  std::string address;    // at which the other hosts may reach it, in numbers
  std::string seen_from;  // the launcher's, as this host sees it; empty where no ssh said it
  std::uint16_t port = 0;
};

// Frames over two descriptors, which may be pipes. Never waits, but for finish().
class Wire {
 public:
  Wire(base::UniqueFd in, base::UniqueFd out);

  // The first bytes of a host, before which its shell may say what it likes.
  void announce();
  // Of the launcher: what came before was not ours, and stray() has it.
  void expect_announcement() { announced_ = false; }
  const std::string& stray() const { return stray_; }

  void send(Word word, BlobView payload = {});
  void send_text(Word word, std::string_view text) { send(word, std::as_bytes(std::span{text})); }
  // The next message, once it is whole.
  std::optional<Message> receive();

  // What to poll for now: reading only where the caller has room for what comes.
  void ask(std::vector<pollfd>& polled, bool reads) const;
  void flush();
  void finish();  // sends all; waits for the other end
  std::size_t unsent_bytes() const { return output_.size() - sent_; }

  // The other end is gone, or speaks what is not ours.
  bool ended() const { return ended_; }
  void close();

 private:
  bool read_some();
  bool find_announcement();

  base::UniqueFd in_;
  base::UniqueFd out_;
  Blob output_;
  std::size_t sent_ = 0;
  Blob input_;
  std::size_t taken_ = 0;
  bool announced_ = true;
  std::string stray_;
  bool ended_ = false;
};

Blob encode(const RankEnd& end);
RankEnd decode_rank_end(BlobView blob);  // rank -1 where it makes no sense

// The same between a courier and its job, over a socket that keeps packets whole. It holds some
// hundred: then the job waits for its courier, and so the courier never waits for its job.
void send_packet(int socket, const Message& message) noexcept;      // waits for room
bool send_packet_now(int socket, const Message& message) noexcept;  // false: there is no room
std::optional<Message> receive_packet(int socket);  // nothing: none there now, or the end

}  // namespace qpmesh::run
