// SPDX-License-Identifier: MIT
// Preloaded into a rank: of what comes over TCP behind the beginning of a long frame the first byte
// is another one, as where a network card spoils what it has checked.
#include <dlfcn.h>
#include <sys/socket.h>

#include <cstddef>

// The first of two parts is the frame's target (TcpConnection::receive_frames), so that no header
// changes. Added to: bytes that go there and back would come back right if a bit were turned.
extern "C" [[gnu::visibility("default")]] ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static const auto received =
      reinterpret_cast<ssize_t (*)(int, msghdr*, int)>(::dlsym(RTLD_NEXT, "recvmsg"));
  const ssize_t count = received(socket, message, flags);
  constexpr std::size_t long_bytes = 64 << 10;
  if (count > 0 && message->msg_iovlen == 2 && message->msg_iov[0].iov_len >= long_bytes)
    ++*static_cast<unsigned char*>(message->msg_iov[0].iov_base);
  return count;
}
