// SPDX-License-Identifier: MIT
// Where the secret of a job over TCP comes from.
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/owned.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/launcher.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t secret_characters_min = 16;
constexpr std::size_t secret_characters_max = 4096;

constexpr const char* hint_for_secret =
    "set QPMESH_SECRET_FILE, or QPMESH_SECRET, to one secret for all ranks, for example of openssl "
    "rand -hex 32";

[[noreturn]] void fail_file(const std::string& what, const std::string& path, std::string_view why,
                            int error = 0, std::string hint = {}) {
  fail_init(ErrorCode::bad_config, no_peer, fmt::format("{} {} {}", what, path, why),
            std::move(hint), error);
}

void check_length(std::string_view name, std::string_view secret) {
  if (secret.size() >= secret_characters_min && secret.size() <= secret_characters_max) return;
  fail_config(fmt::format("{} has {} characters; allowed are {} to {}", name, secret.size(),
                          secret_characters_min, secret_characters_max),
              "for example: openssl rand -hex 32");
}

// What others could read or replace is no secret: it must be a plain file of ours, for us alone.
std::string read_secret_file(const std::string& what, const std::string& path) {
  const std::string wanted =
      fmt::format("it must be a file of uid {}, mode 0600, that holds the secret", ::geteuid());
  const base::UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (!fd)
    fail_file(what, path, errno == ELOOP ? "is a symbolic link" : "cannot be opened", errno,
              wanted);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail_file(what, path, "cannot be examined", errno, wanted);
  if (!S_ISREG(status.st_mode)) fail_file(what, path, "is no plain file", 0, wanted);
  if (status.st_uid != ::geteuid()) {
    fail_file(what, path,
              fmt::format("belongs to uid {}, not to us, uid {}", status.st_uid, ::geteuid()), 0,
              wanted);
  }
  if ((status.st_mode & 077U) != 0) {
    fail_file(what, path,
              fmt::format("has mode {:04o}; allowed is 0600 or 0400", status.st_mode & 07777U), 0,
              fmt::format("chmod 600 {}", path));
  }
  // A newline, and one to notice that it is too long.
  std::string text(secret_characters_max + 2, '\0');
  std::size_t count = 0;
  while (count < text.size()) {
    const auto got = ::read(fd.get(), text.data() + count, text.size() - count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_file(what, path, "cannot be read", errno, wanted);
    if (got == 0) break;
    count += static_cast<std::size_t>(got);
  }
  text.resize(count);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  check_length(fmt::format("{} {}", what, path), text);
  return text;
}

std::string home_directory(const Environment& environment) {
  if (auto home = environment("HOME"); home && !home->empty()) return *home;
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> text(16 * 1024);
  if (::getpwuid_r(::geteuid(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr)
    return found->pw_dir;
  fail_config(
      "a job over TCP needs a secret, none is set, and there is no home directory to keep one in",
      hint_for_secret);
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    fail_file("the directory", path, "cannot be made", errno, hint_for_secret);
}

// Returns whether it was us who made it. Ranks may race: the secret is complete under another name
// before link, which lets exactly one of them win.
bool make_secret_file(const std::string& directory, const std::string& path) {
  Nonce bits{};
  base::System{}.random(bits);
  const std::string text = hexadecimal(bits) + '\n';
  std::string draft = directory + "/secret.XXXXXX";
  const base::UniqueFd fd{::mkostemp(draft.data(), O_CLOEXEC)};  // 0600
  if (!fd) fail_file("the file", path, "cannot be made", errno, hint_for_secret);
  const bool linked =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(fd.get()) == 0 && ::link(draft.c_str(), path.c_str()) == 0;
  const int error = linked ? 0 : errno;
  ::unlink(draft.c_str());
  if (!linked && error != EEXIST)
    fail_file("the file", path, "cannot be made", error, hint_for_secret);
  return linked;
}

}  // namespace

Secret find_secret(const Environment& environment, std::string_view launcher_variable,
                   bool may_make) {
  if (const auto path = environment("QPMESH_SECRET_FILE")) {
    if (path->empty()) fail_variable("QPMESH_SECRET_FILE", *path, "the path of a file");
    return {read_secret_file("QPMESH_SECRET_FILE", *path),
            "the file " + *path + " (QPMESH_SECRET_FILE)", false};
  }
  for (const std::string_view name : {std::string_view{"QPMESH_SECRET"}, launcher_variable}) {
    if (name.empty()) continue;
    if (auto value = environment(name)) {
      check_length(name, *value);
      return {*std::move(value), std::string{name}, false};
    }
  }
  const std::string config = home_directory(environment) + "/.config";
  const std::string directory = config + "/qpmesh";
  const std::string path = directory + "/secret";
  bool made_now = false;
  if (::access(path.c_str(), F_OK) != 0) {
    if (!may_make) return {};
    make_directory(config);
    make_directory(directory);
    made_now = make_secret_file(directory, path);
  }
  return {read_secret_file("the file", path),
          "the file " + path + " (copy it to hosts that do not share this home)", made_now};
}

}  // namespace qpmesh::bootstrap
