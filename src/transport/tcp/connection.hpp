// SPDX-License-Identifier: MIT
// Data path over one socket.
//
// What is posted goes to the socket at once, header and source in one system call; what it does not
// take waits in the outbox. What comes is read into a short buffer, from which frames are placed;
// the rest of a long one is received where it belongs, without another copy. Where the connection
// is encrypted the same stream of frames goes in packets (base/encryption.hpp): all of it waits in
// the outbox to be encrypted, and is placed when its packet has been opened.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/encryption.hpp"
#include "transport/tcp/frame.hpp"
#include "transport/tcp/outbox.hpp"
#include "transport/tcp/silence.hpp"
#include "transport/tcp/transport.hpp"
#include "transport/transport.hpp"

namespace qpmesh::transport::tcp {

class TcpConnection final : public Connection {
 public:
  TcpConnection(TcpTransport& transport, Joined joined);
  ~TcpConnection() override;
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  const Capabilities& capabilities() const noexcept override { return transport_.capabilities_; }
  Post post(std::span<const Write> chain) noexcept override;
  Post read(std::span<std::byte> target, std::optional<std::uint32_t>,
            RemoteAddress source) noexcept override;
  std::uint64_t completed() const noexcept override;
  bool delivered() noexcept override;
  std::optional<std::uint32_t> poll_immediate() noexcept override { return std::nullopt; }
  const std::byte* load(RemoteAddress, std::size_t) noexcept override { return nullptr; }
  void receive_all() noexcept override;
  void tear_down() noexcept override { fail("torn down here"); }
  const ErrorDetail* fault() const noexcept override { return failed_ ? &fault_ : nullptr; }

  // ---- for the transport

  int peer() const noexcept { return joined_.peer; }
  // Of a connection without a socket: here it is, or why there will be none.
  void open(Joined joined);
  void give_up(ErrorDetail why) noexcept;
  int socket() const noexcept { return joined_.socket.get(); }
  // Takes what has come; false: nothing had.
  bool receive() noexcept;
  // Sends what waits, as far as the socket takes it.
  void flush() noexcept;
  bool has_unsent() const noexcept {
    return !outbox_.empty() || (encryption_ && encryption_->unsent() > 0);
  }
  std::uint32_t watched_for = 0;  // by the transport's epoll
  // Fails when the peer's kernel owes an acknowledgement for so long.
  void look_for_silence(Deadline now, std::int64_t silence_ms_max) noexcept;

 private:
  // Many short frames in one call, or a message of 16 KiB: another call would cost more than to
  // copy it on. Of a longer one little that has to be copied on.
  static constexpr std::size_t input_bytes = (std::size_t{18} << 10) + 512;
  static constexpr std::size_t input_bytes_of_long = (std::size_t{8} << 10) + 512;

  // A long frame whose beginning has come.
  struct Incoming {
    FrameHeader header{};
    std::size_t left = 0;  // still to come; 0: none
  };
  // Where a frame goes. Of one that the peer may not write there is neither.
  struct Target {
    std::byte* at = nullptr;
    bool dropped = false;  // the owner has taken the memory back meanwhile
  };
  struct Read {
    std::byte* target = nullptr;
    std::size_t bytes = 0;
    std::uint64_t number = 0;  // in the order in which completions are told
  };
  struct Encryption {
    explicit Encryption(const base::ConnectionKeys& keys) noexcept
        : encryptor{keys.send}, decryptor{keys.receive} {}
    std::size_t unsent() const noexcept { return packet_bytes - sent_bytes; }

    base::Encryptor encryptor;
    base::Decryptor decryptor;
    std::array<std::byte, base::packet_bytes_max> packet;  // that leaves now
    std::size_t packet_bytes = 0;
    std::size_t sent_bytes = 0;  // of it
    std::array<std::byte, 4 * base::packet_bytes_max> input;
    std::size_t input_held = 0;  // bytes of packets that are not opened yet
  };
  struct Wanted {                       // by the peer's read
    const std::byte* source = nullptr;  // nullptr: is not open to it
    std::size_t bytes = 0;
  };

  // Without a socket nothing leaves yet.
  Post ask_for_socket() noexcept;
  std::size_t send(std::span<iovec> parts) noexcept;
  std::size_t send_gathered(std::span<const iovec> parts) noexcept;
  template <class Call>
  std::size_t send_by(Call&& call) noexcept;
  void queue(const FrameHeader& header, const Write& write, std::size_t sent) noexcept;
  void flush_frames() noexcept;
  void flush_packets() noexcept;
  void encrypt_next_packet() noexcept;
  bool receive_once() noexcept;
  bool receive_frames() noexcept;
  bool receive_packets() noexcept;
  std::size_t receive(std::span<iovec> parts) noexcept;
  void take(std::span<const std::byte> frames) noexcept;
  bool take_frames() noexcept;
  Target target_of(const FrameHeader& header) noexcept;
  void end_frame(const FrameHeader& header) noexcept;
  void take_read(const FrameHeader& header) noexcept;
  void answer_reads() noexcept;
  void fail(std::string_view what, int system_error = 0) noexcept;
  void fail_about(const FrameHeader& header) noexcept;
  // The first cause stays. explain() returns its text, and may find no memory.
  template <class Explain>
  void end_with(Explain&& explain, int system_error = 0) noexcept;

  TcpTransport& transport_;
  Joined joined_;
  Outbox outbox_;
  std::unique_ptr<Encryption> encryption_;  // nullptr: none
  std::uint64_t tells_posted_ = 0;          // writes that tell, and reads
  std::array<Read, reads_max> reads_{};     // ours without an answer, a ring
  std::size_t first_read_ = 0;
  std::size_t read_count_ = 0;
  std::array<Wanted, reads_max> wanted_{};  // the peer's that have no answer yet, a ring
  std::size_t first_wanted_ = 0;
  std::size_t wanted_count_ = 0;
  Incoming incoming_;
  std::array<std::byte, input_bytes> input_;  // frames that are not placed yet
  std::size_t input_held_ = 0;                // bytes of them
  bool fits_input_ = true;                    // the last one of more than whole_bytes_max
  std::uint64_t received_ = 0;                // bytes, since the beginning
  Silence silence_;
  bool asked_for_socket_ = false;
  bool failed_ = false;
  ErrorDetail fault_;
};

}  // namespace qpmesh::transport::tcp
