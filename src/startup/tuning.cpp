#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/system.hpp"
#include "startup/init.hpp"

namespace qpmesh::startup {
namespace {

constexpr std::size_t file_bytes_max = std::size_t{32} << 10;  // many times what qpmesh-tune writes

// The file's text, or why it cannot be read.
struct Loaded {
  std::string path;
  std::string text{};
  std::string failure{};
};

void read(Loaded& file) {
  const auto failed = [&](std::string_view what) {
    file.failure = fmt::format("{}: {}", what, base::describe_errno(errno));
  };
  std::error_code unknown;
  if (std::filesystem::is_fifo(file.path, unknown) ||
      std::filesystem::is_character_file(file.path, unknown)) {
    file.failure = "cannot be read: no file, reading it may never end";
    return;
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream{std::fopen(file.path.c_str(), "re"),
                                                               std::fclose};
  if (!stream) return failed("cannot be opened");
  file.text.resize(file_bytes_max + 1);
  file.text.resize(std::fread(file.text.data(), 1, file.text.size(), stream.get()));
  if (std::ferror(stream.get()) != 0) return failed("cannot be read");
  if (file.text.size() > file_bytes_max)
    file.failure = fmt::format("is longer than {} bytes", file_bytes_max);
}

}  // namespace

Blob load_tuning(const std::string& path) {
  if (path.empty()) return {};
  Loaded file{.path = path};
  read(file);
  if (!file.failure.empty()) file.text.clear();
  base::ByteWriter out;
  out.put_fields(file.path, file.text, file.failure);
  return std::move(out).blob();
}

collectives::Constants tuned_constants(BlobView loaded) {
  if (loaded.empty()) return {};
  base::ByteReader in{loaded};
  Loaded file;
  in.get_fields(file.path, file.text, file.failure);
  if (!in.finished()) {
    base::throw_error({ErrorCode::corrupt, 0}, "init", "",
                      "a tuning file that no rank of this version sends");
  }
  if (!file.failure.empty()) {
    base::throw_error({ErrorCode::bad_config}, "init",
                      "rank 0 reads the file; qpmesh-tune --out writes one",
                      "tuning (QPMESH_TUNING), {} {}", file.path, file.failure);
  }
  return collectives::parse_constants(file.text, file.path);
}

}  // namespace qpmesh::startup
