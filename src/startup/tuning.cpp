#include "startup/tuning.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/bytes.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::startup {
namespace {

constexpr std::size_t file_bytes_max = std::size_t{32} << 10;  // many times what qpmesh-tune writes

struct Loaded {
  std::string text;
  std::string failure;  // empty: the text is the file
};

Loaded load(const std::string& path) {
  const auto failed = [](std::string_view what) {
    return Loaded{.text = {},
                  .failure = fmt::format("{}: {}", what, std::generic_category().message(errno))};
  };
  std::error_code unknown;
  if (std::filesystem::is_fifo(path, unknown) || std::filesystem::is_character_file(path, unknown))
    return {.text = {}, .failure = "cannot be read: no file, reading it may never end"};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen(path.c_str(), "re"),
                                                             std::fclose};
  if (!file) return failed("cannot be opened");
  std::string text(file_bytes_max + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failed("cannot be read");
  if (text.size() > file_bytes_max)
    return {.text = {}, .failure = fmt::format("is longer than {} bytes", file_bytes_max)};
  return {.text = std::move(text), .failure = {}};
}

}  // namespace

Blob load_tuning(const std::string& path) {
  if (path.empty()) return {};
  const Loaded file = load(path);
  base::ByteWriter out;
  out.put_text(path).put_text(file.failure).put_text(file.text);
  return std::move(out).blob();
}

collectives::Constants tuned_constants(BlobView loaded) {
  if (loaded.empty()) return {};
  base::ByteReader in{loaded};
  const std::string path{in.get_text()};
  const std::string failure{in.get_text()};
  const std::string text{in.get_text()};
  if (!in.finished()) {
    throw Error{{.code = ErrorCode::corrupt,
                 .peer = 0,
                 .operation = "init",
                 .cause = "a tuning file that no rank of this version sends"}};
  }
  if (!failure.empty()) {
    throw Error{{.code = ErrorCode::bad_config,
                 .operation = "init",
                 .cause = fmt::format("tuning (QPMESH_TUNING), {} {}", path, failure),
                 .hint = "rank 0 reads the file; qpmesh-tune --out writes one"}};
  }
  return collectives::parse_constants(text, path);
}

}  // namespace qpmesh::startup
