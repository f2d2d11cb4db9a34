// SPDX-License-Identifier: MIT
// Run as another user by bootstrap_one_host_test: a peer at the door ("connect"), or one who took
// the name ("listen", "bind").
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

int main(int count, char** arguments) {
  if (count != 3) return 2;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string_view name = arguments[2];
  if (name.size() >= sizeof address.sun_path) return 2;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);

  const std::string_view action = arguments[1];
  if (action == "listen" || action == "bind") {
    if (::bind(fd, generic, bytes) != 0 || (action == "listen" && ::listen(fd, 8) != 0)) return 3;
    std::puts("listening");
    std::fflush(stdout);
    pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
    ::poll(&output, 1, 20'000);  // until the test closes its end
    return 0;
  }
  if (::connect(fd, generic, bytes) != 0) return 3;
  char c = 0;
  const auto got = ::recv(fd, &c, 1, 0);  // a rank would get a challenge
  std::puts(got <= 0 ? "dropped" : "let in");
  return 0;
}
