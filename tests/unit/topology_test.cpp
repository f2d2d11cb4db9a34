// SPDX-License-Identifier: MIT
// How many cores the ranks of a node may use: masks, quotas, and what cannot be read.
#include "topology/cores.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace qpmesh::topology {
namespace {

TEST(usable_cores, are_those_of_this_process_alone) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &before)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cores().cores, std::vector<int>{static_cast<int>(core)});
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores().cores.size(), static_cast<std::size_t>(CPU_COUNT(&before)));
}

TEST(usable_core_count, is_the_union_of_masks_that_a_launcher_may_have_bound_to_a_core_each) {
  EXPECT_EQ(usable_core_count(std::vector<UsableCores>{{{0}, 0}, {{1}, 0}, {{1}, 0}}), 2);
  EXPECT_EQ(usable_core_count(std::vector<UsableCores>{{{0, 1, 2, 3}, 0}, {{2, 3, 8}, 0}}), 5);
}

TEST(usable_core_count, is_cut_by_the_smallest_quota_and_never_less_than_one) {
  EXPECT_EQ(
      usable_core_count(std::vector<UsableCores>{{{0, 1, 2, 3}, 3}, {{0, 1, 2, 3}, 2}, {{0}, 0}}),
      2);
  EXPECT_EQ(usable_core_count(std::vector<UsableCores>{{{0, 1}, 16}}), 2);
  EXPECT_EQ(usable_core_count(std::vector<UsableCores>{{{}, 0}}), 1);
}

// A tree of control groups in a folder of its own.
class CgroupQuota : public testing::Test {
 protected:
  CgroupQuota() {
    std::string name = (std::filesystem::temp_directory_path() / "qpmesh-cgroup-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"mkdtemp failed"};
    tree_ = name;
  }
  ~CgroupQuota() override { std::filesystem::remove_all(tree_); }

  void limit(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(tree_ + path);
    std::ofstream{tree_ + path + "/cpu.max"} << text;
  }
  int quota(const std::string& path) const { return cgroup_quota(tree_, path); }

  std::string tree_;
};

TEST_F(CgroupQuota, is_none_where_nothing_limits) {
  EXPECT_EQ(quota(""), 0);
  EXPECT_EQ(quota("/"), 0);
  EXPECT_EQ(quota("/not/there"), 0);
  limit("/a", "max 100000\n");
  EXPECT_EQ(quota("/a"), 0);
}

TEST_F(CgroupQuota, is_the_smallest_of_the_group_and_its_ancestors) {
  limit("/a", "400000 100000\n");
  limit("/a/b", "250000 100000\n");
  limit("/a/b/c", "max 100000\n");
  EXPECT_EQ(quota("/a"), 4);
  EXPECT_EQ(quota("/a/b"), 2);
  EXPECT_EQ(quota("/a/b/c"), 2);
  EXPECT_EQ(quota("/a/b/c/d"), 2);
}

TEST_F(CgroupQuota, of_a_container_lies_in_the_root_of_its_tree) {
  limit("", "300000 100000\n");
  EXPECT_EQ(quota("/"), 3);
  EXPECT_EQ(quota("/a"), 3);
}

TEST_F(CgroupQuota, is_at_least_one_core_and_garbage_is_no_limit) {
  limit("/slow", "20000 100000\n");
  EXPECT_EQ(quota("/slow"), 1);
  for (const char* text : {"", "100000", "x y", "-1 100000", "100000 0"}) {
    limit("/odd", text);
    EXPECT_EQ(quota("/odd"), 0) << text;
  }
}

}  // namespace
}  // namespace qpmesh::topology
