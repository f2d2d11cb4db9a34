// SPDX-License-Identifier: MIT
// A program, and a library that it finds beside it, where every user may run it: the build may lie in
// a folder of one user alone, such as root's home.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace qpmesh::test {

class PublicCopy {
 public:
  explicit PublicCopy(const std::filesystem::path& program,
                      const std::filesystem::path& library = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "qpmesh-public-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"mkdtemp failed"};
    folder_ = name;
    constexpr auto for_all = static_cast<std::filesystem::perms>(0755);
    std::filesystem::permissions(folder_, for_all);
    std::filesystem::copy_file(program, path());
    std::filesystem::permissions(path(), for_all);
    if (library.empty()) return;
    std::filesystem::copy_file(library, folder_ / library.filename());
    std::filesystem::permissions(folder_ / library.filename(), for_all);
  }
  ~PublicCopy() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  PublicCopy(const PublicCopy&) = delete;
  PublicCopy& operator=(const PublicCopy&) = delete;

  std::string path() const { return folder_ / "program"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace qpmesh::test
